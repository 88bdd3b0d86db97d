"""What every store does, on memory and on files, before and after a restart."""

import pytest
from storage.by_hand import BEHIND_ALL, EVERYTHING, every, publish, texts
from storage.conftest import House
from storage.workload import START, small_options

from magnetar.model import Position
from magnetar.storage import (
    CorruptionError,
    CursorImage,
    Retention,
    Store,
    StoreClosedError,
    UnknownObjectError,
)
from magnetar.storage.log.record import Record
from magnetar.storage.log.record_kind import DELTA


def image(store: Store, cursor_id: int) -> CursorImage:
    return store.cursor_image(cursor_id)


@pytest.mark.parametrize("clean", [True, False])
def test_entries_are_there_after_a_restart_with_all_their_facts(house: House, clean: bool) -> None:
    topic_id = house.store.create_topic("persistent://public/default/t")
    positions = publish(house.store, topic_id, 30)
    assert {o.error for o in house.store.flush()} == {None}
    store = house.reopen(clean=clean)
    assert store.topics() == {topic_id: "persistent://public/default/t"}
    entries = store.read(topic_id, START, entries_max=100, bytes_max=EVERYTHING)
    assert [Position(e.ledger_id, e.entry_id) for e in entries] == positions
    assert [e.batch_size for e in entries] == list(range(1, 31))
    assert [e.publish_time_ms for e in entries] == list(range(1000, 1030))
    assert texts(store, topic_id) == list(range(30))
    assert store.batch_size(positions[7].ledger_id, positions[7].entry_id) == 8
    assert store.publish_time_ms(positions[7].ledger_id, positions[7].entry_id) == 1007


def test_a_stop_in_order_is_told_from_a_kill(house: House) -> None:
    house.store.create_topic("t")
    house.store.flush()
    assert not house.reopen(clean=False).clean
    assert house.reopen().clean


def test_an_entry_is_not_seen_before_it_is_durable(house: House) -> None:
    topic_id = house.store.create_topic("t")
    house.store.flush()
    (position,) = publish(house.store, topic_id, 1)
    ticket = house.store.ticket_last
    assert texts(house.store, topic_id) == []
    (outcome,) = house.store.flush()
    assert outcome.first <= ticket < outcome.end
    assert outcome.error is None
    assert texts(house.store, topic_id, position) == [0]


def test_reading_starts_anywhere_and_stops_at_either_limit(house: House) -> None:
    topic_id = house.store.create_topic("t")
    positions = publish(house.store, topic_id, 40)
    house.store.flush()
    for i, position in enumerate(positions):
        assert texts(house.store, topic_id, position) == list(range(i, 40))
    read = house.store.read
    assert len(read(topic_id, positions[5], entries_max=3, bytes_max=EVERYTHING)) == 3
    assert len(read(topic_id, positions[5], entries_max=99, bytes_max=250)) == 2
    assert len(read(topic_id, positions[5], entries_max=99, bytes_max=1)) == 1
    assert read(topic_id, BEHIND_ALL, entries_max=9, bytes_max=9) == []


def test_every_open_begins_a_new_ledger_and_ids_are_never_used_again(house: House) -> None:
    topic_id = house.store.create_topic("t")
    seen: set[int] = {topic_id}
    for round_number in range(6):
        store = house.store
        (position,) = publish(store, topic_id, 1)
        assert position.ledger_id not in seen
        assert position.ledger_id > max(seen)
        assert position.entry_id == 0
        seen.add(position.ledger_id)
        if round_number % 2:
            store.flush()
        # Every other time the entry is not even written, and its id is still spent.
        house.reopen(clean=round_number % 2 == 1)
        if round_number == 0:
            topic_id = house.store.create_topic("t")
            seen.add(topic_id)
            house.store.flush()


def test_ledgers_roll_over_by_entries_bytes_and_age(house: House) -> None:
    topic_id = house.store.create_topic("t")
    assert len({p.ledger_id for p in publish(house.store, topic_id, 25)}) == 3
    house.store.flush()
    first, second, last = house.store.ledgers(topic_id)
    assert (first.entries, second.entries, last.entries) == (12, 12, 1)
    assert (first.sealed, second.sealed, last.sealed) == (True, True, False)
    assert first.size_bytes == 1200
    house.clock.now_ms += house.options.ledger_age_ms_max
    house.store.maintain()
    house.store.flush()
    assert house.store.ledgers(topic_id)[-1].sealed
    assert publish(house.store, topic_id, 1)[0].entry_id == 0


def test_an_entry_larger_than_a_segment_is_kept(house: House) -> None:
    topic_id = house.store.create_topic("t")
    size = 5 * house.options.segment_bytes
    publish(house.store, topic_id, 1, size)
    house.store.append(topic_id, b"", batch_size=1, publish_time_ms=0)
    house.store.flush()
    store = house.reopen(clean=False)
    large, empty = store.read(topic_id, START, entries_max=9, bytes_max=EVERYTHING)
    assert (large.length, empty.length, empty.data) == (size, 0, b"")
    assert large.data == b"0 ".ljust(size)


def test_publish_times_may_be_anything_that_a_client_writes(house: House) -> None:
    times = [0, -1, 1 << 62, -(1 << 63), (1 << 63) - 1, 1_800_000_000_000]
    topic_id = house.store.create_topic("t")
    for time_ms in times:
        house.store.append(topic_id, b"x", batch_size=1, publish_time_ms=time_ms)
    house.store.flush()
    store = house.reopen(clean=False)
    entries = store.read(topic_id, START, entries_max=9, bytes_max=99)
    assert [entry.publish_time_ms for entry in entries] == times


@pytest.mark.parametrize("clean", [True, False])
def test_cursors_come_back_as_snapshot_and_deltas(house: House, clean: bool) -> None:
    topic_id = house.store.create_topic("t")
    cursor_id = house.store.create_cursor(topic_id, "sub", b"first", properties=b'{"a": 1}')
    house.store.append_delta(cursor_id, 0, b"one")
    house.store.append_delta(cursor_id, 1, b"two")
    house.store.flush()
    store = house.reopen(clean=clean)
    assert store.cursor_ids(topic_id) == [cursor_id]
    found = image(store, cursor_id)
    assert (found.name, found.topic_id, found.properties) == ("sub", topic_id, b'{"a": 1}')
    assert (found.snapshot, found.deltas) == (b"first", [b"one", b"two"])


def test_a_snapshot_counts_from_its_last_slice_and_drops_only_what_it_covers(house: House) -> None:
    store = house.store
    cursor_id = store.create_cursor(store.create_topic("t"), "sub", b"old")
    store.append_delta(cursor_id, 0, b"1")
    store.flush()
    store.append_delta(cursor_id, 0, b"2")  # queued, so not part of the snapshot
    writer = store.begin_snapshot(cursor_id)
    writer.add(b"n", last=False)
    store.append_delta(cursor_id, 0, b"3")
    store.flush()
    store = house.reopen(clean=False)
    assert image(store, cursor_id).snapshot == b"old"
    assert image(store, cursor_id).deltas == [b"1", b"2", b"3"]

    writer = store.begin_snapshot(cursor_id)
    store.append_delta(cursor_id, 0, b"4")
    writer.add(b"ne", last=False)
    writer.add(b"w", last=True)
    store.append_delta(cursor_id, 0, b"5")
    store.flush()
    store = house.reopen(clean=False)
    assert image(store, cursor_id).snapshot == b"new"
    assert image(store, cursor_id).deltas == [b"4", b"5"]


def test_a_snapshot_that_another_one_overtook_is_ignored(house: House) -> None:
    store = house.store
    cursor_id = store.create_cursor(store.create_topic("t"), "sub", b"old")
    store.flush()
    slow = store.begin_snapshot(cursor_id)
    slow.add(b"slow", last=False)
    fast = store.begin_snapshot(cursor_id)
    fast.add(b"fast", last=True)
    slow.add(b"er", last=True)
    store.flush()
    assert image(store, cursor_id).snapshot == b"fast"
    assert image(house.reopen(), cursor_id).snapshot == b"fast"


def test_a_cursor_with_many_deltas_is_due_for_a_snapshot(house: House) -> None:
    store = house.store
    cursor_id = store.create_cursor(store.create_topic("t"), "sub", b"")
    for _ in range(10_001):
        store.append_delta(cursor_id, 0, b"x")
    assert store.cursors_due() == []
    store.flush()
    assert store.cursors_due() == [cursor_id]
    store.begin_snapshot(cursor_id).add(b"all", last=True)
    store.flush()
    assert store.cursors_due() == []


def test_properties_of_a_cursor_change_and_stay(house: House) -> None:
    store = house.store
    cursor_id = store.create_cursor(store.create_topic("t"), "sub", b"s")
    store.flush()
    store.set_cursor_properties(cursor_id, b"new")
    store.flush()
    assert image(house.reopen(clean=False), cursor_id).properties == b"new"


@pytest.mark.parametrize("clean", [True, False])
def test_what_was_deleted_stays_deleted(house: House, clean: bool) -> None:
    store = house.store
    kept, gone = store.create_topic("kept"), store.create_topic("gone")
    cursors = [store.create_cursor(kept, name, b"") for name in ("x", "y")]
    store.create_cursor(gone, "z", b"")
    publish(store, gone, 20)
    publish(store, kept, 5)
    store.flush()
    store.delete_cursor(cursors[0])
    store.delete_topic(gone)
    with pytest.raises(UnknownObjectError):
        publish(store, gone, 1)
    store.flush()
    for _ in range(2):
        assert store.topics() == {kept: "kept"}
        assert store.cursor_ids(kept) == [cursors[1]]
        assert len(texts(store, kept)) == 5
        with pytest.raises(UnknownObjectError, match=f"no topic {gone}"):
            store.ledgers(gone)
        with pytest.raises(UnknownObjectError, match="no cursor"):
            store.append_delta(cursors[0], 0, b"")
        store = house.reopen(clean=clean)


def test_trimming_deletes_acked_ledgers_whole_and_never_the_open_one(house: House) -> None:
    store = house.store
    topic_id = store.create_topic("t")
    positions = publish(store, topic_id, 30)
    store.flush()
    first, second, last = (ledger.id for ledger in store.ledgers(topic_id))
    assert store.trim(topic_id, positions[10], Retention()) == []
    assert store.trim(topic_id, positions[11], Retention()) == [first]
    store.flush()
    assert texts(store, topic_id) == list(range(12, 30))
    assert store.trim(topic_id, BEHIND_ALL, Retention()) == [second]
    store.flush()
    store = house.reopen(clean=False)
    assert [ledger.id for ledger in store.ledgers(topic_id)] == [last]
    assert texts(store, topic_id) == list(range(24, 30))
    with pytest.raises(UnknownObjectError, match="trimmed"):
        store.batch_size(first, 0)


def test_nothing_unknown_is_written(house: House) -> None:
    store = house.store
    for call in (
        lambda: store.append(99, b"", batch_size=1, publish_time_ms=0),
        lambda: store.create_cursor(99, "sub", b""),
        lambda: store.delete_topic(99),
        lambda: store.delete_cursor(99),
        lambda: store.set_cursor_properties(99, b""),
        lambda: store.cursor_image(99),
        lambda: store.batch_size(99, 0),
    ):
        with pytest.raises(UnknownObjectError):
            call()
    assert store.flush() == []


def test_a_closed_store_takes_nothing(house: House) -> None:
    topic_id = house.store.create_topic("t")
    publish(house.store, topic_id, 1)
    house.store.flush()
    old = house.store
    house.reopen()
    with pytest.raises(StoreClosedError, match="open it again"):
        old.append(topic_id, b"", batch_size=1, publish_time_ms=0)
    assert texts(house.store, topic_id) == [0]


def test_sealed_ledgers_take_no_heap(house: House) -> None:
    topic_id = house.store.create_topic("t")
    publish(house.store, topic_id, 40)
    house.store.flush()
    kinds = [type(ledger.index).__name__ for ledger in house.store.log.state.ledgers.values()]
    assert kinds == ["MappedIndex", "MappedIndex", "MappedIndex", "HeapIndex"]
    store = house.reopen(clean=False)
    store.flush()
    assert {type(x.index).__name__ for x in store.log.state.ledgers.values()} == {"MappedIndex"}
    assert texts(store, topic_id) == list(range(40))


def test_the_cache_stays_within_its_bytes(house: House) -> None:
    topic_id = house.store.create_topic("t")
    publish(house.store, topic_id, 300)
    house.store.flush()
    cache = house.store.cache
    assert 0 < cache.count() < 300
    assert cache.size_bytes <= house.options.cache_bytes
    assert texts(house.store, topic_id) == list(range(300))
    assert cache.size_bytes <= house.options.cache_bytes


def test_a_read_plan_survives_the_removal_of_its_segment(house: House) -> None:
    store = house.store
    topic_id = store.create_topic("t")
    publish(store, topic_id, 200, 500)
    store.flush()
    plan = store.plan_read(topic_id, START, entries_max=10, bytes_max=EVERYTHING)
    store.seal_topic(topic_id)
    store.flush()
    store.trim(topic_id, BEHIND_ALL, Retention())
    house.work_off()
    plan.run(house.disk)
    assert [int(entry.data or b"-1") for entry in plan.entries] == list(range(10))
    segments = len(store.log.lengths)
    store.finish_read(plan)
    house.work_off()
    assert len(store.log.lengths) < segments


def test_two_plans_may_hold_one_segment(house: House) -> None:
    store = house.store
    topic_id = store.create_topic("t")
    publish(store, topic_id, 100, 500)
    store.flush()
    plans = [
        store.plan_read(topic_id, START, entries_max=5, bytes_max=EVERYTHING) for _ in range(2)
    ]
    assert store.log.pinned(1)
    store.finish_read(plans[0])
    assert store.log.pinned(1)
    store.finish_read(plans[1])
    assert not store.log.pinned(1)


def test_long_reads_come_in_bounded_runs(house: House) -> None:
    store = house.reopen(options=small_options(segment_bytes=4 << 20, ledger_entries_max=1000))
    topic_id = store.create_topic("t")
    publish(store, topic_id, 300, 10_000)
    store.flush()
    assert texts(store, topic_id) == list(range(300))


def test_a_damaged_entry_and_a_damaged_ack_are_refused_when_read(house: House) -> None:
    store = house.store
    topic_id = store.create_topic("t")
    cursor_id = store.create_cursor(topic_id, "sub", b"")
    publish(store, topic_id, 80, 500)
    store.append_delta(cursor_id, 0, b"delta")
    store.flush()
    plan = store.plan_read(topic_id, START, entries_max=1, bytes_max=1)
    store.finish_read(plan)
    (entry,) = plan.entries
    path = "journal/00000001.log"
    whole = house.disk.read(path, 0, house.disk.size(path))
    places = store.log.state.cursors[cursor_id].deltas
    ack_path = f"journal/{places.addresses[0] >> 32:08x}.log"
    ack_offset = (places.addresses[0] & 0xFFFFFFFF) + 40
    offset = (entry.address & 0xFFFFFFFF) + 40
    house.disk.write(path, offset, b"?", sync=True)
    house.disk.write(ack_path, ack_offset, b"?", sync=True)
    with pytest.raises(CorruptionError, match=f"entry {entry.ledger_id}:0"):
        store.read(topic_id, START, entries_max=1, bytes_max=1)
    with pytest.raises(CorruptionError, match="record is damaged"):
        store.cursor_image(cursor_id)
    house.disk.truncate(path, 100)
    with pytest.raises(CorruptionError, match=f"entry {entry.ledger_id}:0"):
        store.read(topic_id, START, entries_max=1, bytes_max=1)
    house.disk.write(path, 0, whole, sync=True)
    house.disk.write(ack_path, ack_offset, b"d", sync=True)


def test_a_snapshot_of_a_deleted_cursor_goes_nowhere(house: House) -> None:
    store = house.store
    topic_id = store.create_topic("t")
    cursor_id = store.create_cursor(topic_id, "sub", b"")
    with pytest.raises(UnknownObjectError):
        store.set_cursor_properties(cursor_id, b"")  # not durable yet
    store.flush()
    writer = store.begin_snapshot(cursor_id)
    store.delete_cursor(cursor_id)
    writer.add(b"late", last=True)
    store.log.add(Record(DELTA, cursor_id, body=b"later"))
    store.flush()
    assert store.cursor_ids(topic_id) == []
    assert house.reopen(clean=False).cursor_ids(topic_id) == []


def test_a_topic_may_be_deleted_before_it_is_durable(house: House) -> None:
    store = house.store
    topic_id = store.create_topic("t")
    publish(store, topic_id, 3)
    store.seal_topic(topic_id)
    store.seal_topic(topic_id)
    store.delete_topic(topic_id)
    with pytest.raises(UnknownObjectError):
        publish(store, topic_id, 1)
    store.flush()
    assert store.topics() == {}
    assert house.reopen().topics() == {}


def test_ledgers_and_outcomes_show_themselves(house: House) -> None:
    topic_id = house.store.create_topic("t")
    publish(house.store, topic_id, 1)
    (outcome,) = house.store.flush()
    assert repr(outcome) == f"Outcome(0, {outcome.end}, None)"
    (ledger,) = house.store.ledgers(topic_id)
    assert repr(ledger) == f"<ledger {ledger.id} of 1 entries>"


def test_single_entries_are_planned_in_the_order_given_without_those_that_are_gone(
    house: House,
) -> None:
    store = house.store
    topic_id = store.create_topic("t")
    positions = publish(store, topic_id, 5)
    store.flush()
    ledger_id = positions[0].ledger_id
    never = [Position(ledger_id, 5), Position(ledger_id, -1), Position(ledger_id + 1000, 0)]
    plan = store.plan_entries([positions[3], *never, positions[1]])
    assert [Position(e.ledger_id, e.entry_id) for e in plan.entries] == [positions[3], positions[1]]
    store.finish_read(plan)
    for bytes_max, count in ((0, 1), (250, 2)):
        plan = store.plan_entries(positions, bytes_max)
        assert len(plan.entries) == count
        store.finish_read(plan)


def test_a_plan_knows_the_runs_that_the_next_one_wants_if_they_are_few(house: House) -> None:
    store = house.reopen(
        options=small_options(
            segment_bytes=1 << 20, group_bytes_max=1 << 20, ledger_entries_max=10_000, cache_bytes=0
        )
    )
    lone, together, apart, other = (store.create_topic(name) for name in "ltao")
    publish(store, lone, 80, 100)
    for _ in range(20):
        publish(store, together, 4, 100)
        publish(store, other, 1, 20_000)
    for _ in range(160):
        publish(store, apart, 1, 100)
        publish(store, other, 1, 30_000)
    store.flush()

    def ahead(topic_id: int, entries_max: int) -> list[tuple[int, int]]:
        plan = store.plan_read(topic_id, START, entries_max=entries_max, bytes_max=EVERYTHING)
        runs_ahead = plan.ahead
        store.finish_read(plan)
        return runs_ahead

    (first, *_) = every(store, lone)
    assert ahead(lone, 40) == [(first.address + 40 * 140, 40 * 140)]
    assert ahead(lone, 80) == [], "there is no more"
    (*_, last) = every(store, together)[:60]
    assert [size for _, size in ahead(together, 30)] == [2 * 140, *[4 * 140] * 7]
    assert ahead(together, 30)[-1][0] + 4 * 140 == last.address + 140
    assert len(ahead(apart, 64)) == 64
    assert ahead(apart, 66) == [], "each of them would be a hint of its own"
    assert ahead(other, 90) == [], "that would be too much at once"
