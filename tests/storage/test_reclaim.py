"""Space comes back: dead segments go, and mostly dead ones are emptied."""

import pytest
from storage.conftest import House
from storage.test_store_contract import BEHIND_ALL, EVERYTHING, publish, texts
from storage.workload import START, small_options

from magnetar.model import Position
from magnetar.storage import (
    CorruptionError,
    DiskError,
    DiskFullError,
    Retention,
    Store,
    StoredEntry,
    StoreOptions,
    UnknownObjectError,
)
from magnetar.storage.job import GroupWrite, Job, ReadBodies
from magnetar.storage.ledger_index import HeapIndex, MappedIndex
from magnetar.storage.record import COPY
from magnetar.storage.scatter import scattered


def segments(house: House) -> list[str]:
    return [name for name in house.disk.names("journal") if name.endswith(".log")]


def test_a_store_whose_entries_are_all_trimmed_shrinks_to_one_segment(house: House) -> None:
    store = house.store
    topic_id = store.create_topic("t")
    publish(store, topic_id, 500, 400)
    store.flush()
    store.seal_topic(topic_id)
    store.flush()
    assert len(segments(house)) > 10
    assert len(store.trim(topic_id, BEHIND_ALL, Retention())) > 10
    store.flush()
    house.work_off()
    assert len(segments(house)) <= 2
    assert house.disk.names("index") == []
    store = house.reopen()
    assert store.topics() == {topic_id: "t"}


@pytest.mark.parametrize("clean", [True, False])
def test_one_old_entry_of_a_quiet_topic_does_not_keep_a_segment_alive(
    house: House, clean: bool
) -> None:
    store = house.store
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    cursor_id = store.create_cursor(quiet, "sub", b"snapshot")
    for _ in range(10):
        publish(store, quiet, 1)
        publish(store, busy, 60, 400)
        store.append_delta(cursor_id, 0, b"ack")
        store.flush()
    before = len(segments(house))
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    house.work_off()
    assert len(segments(house)) <= 3 < before
    store = house.reopen(clean=clean)
    assert texts(store, quiet) == [0] * 10
    image = store.cursor_image(cursor_id)
    assert (image.snapshot, image.deltas) == (b"snapshot", [b"ack"] * 10)
    assert texts(store, busy) == []


@pytest.mark.parametrize("clean", [True, False])
def test_an_open_ledger_in_a_mostly_dead_segment_moves_and_stays_open(
    house: House, clean: bool
) -> None:
    store = house.store
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    (first,) = publish(store, quiet, 1)
    publish(store, busy, 100, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    house.work_off()
    (ledger,) = store.ledgers(quiet)
    assert (ledger.id, ledger.sealed) == (first.ledger_id, False)
    assert 1 not in store.log.lengths
    assert store.log.state.ledgers[ledger.id].index.address(0) >> 32 > 1
    (second,) = publish(store, quiet, 1)
    assert (second.ledger_id, second.entry_id) == (first.ledger_id, 1)
    store.flush()
    store = house.reopen(clean=clean)
    assert texts(store, quiet) == [0, 0]


def test_a_sealed_ledger_is_not_copied_before_it_has_its_index_file(house: House) -> None:
    store = house.store
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    publish(store, quiet, 3)
    publish(store, busy, 100, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    reclaimer = store.reclaimer
    while reclaimer.segment_id != 1 or reclaimer.state != "copying":
        store.maintain()
        store.flush()
    # Sealed between the scan and the copy, on a disk that has no space for the file.
    store.seal_topic(quiet)
    write_groups(store)
    store.log.full = True
    copied = store.ticket_last
    assert not store.maintain()
    assert reclaimer.state == "copying", "what is to be copied is read first"
    read_now(store)
    assert not store.maintain()
    assert reclaimer.state == "idle", "others may free some space"
    store.log.full = False
    while reclaimer.segment_id != 1 or reclaimer.state != "copying":
        store.maintain()
        read_now(store)
    store.maintain()
    read_now(store)
    assert not store.maintain(), "it waits for the file"
    assert (reclaimer.state, store.ticket_last) == ("copying", copied)
    house.work_off()
    assert 1 not in store.log.lengths
    assert texts(store, quiet) == [0, 1, 2]


def read_now(store: Store) -> None:
    """Reads what the reclaimer waits for, in front of all other chores."""
    if store.log._reading is not None:
        job, store.log._reading = store.log._reading, None
        job.run(store.log.disk)


def run_one(store: Store) -> bool:
    """Runs one job, if there is one."""
    if (group := store.next_write()) is not None:
        group.run(store.log.disk)
        store.finish_write(group, None)
    elif (chore := store.next_chore()) is not None:
        chore.run(store.log.disk)
        store.finish_chore(chore, None)
    else:
        return False
    return True


def write_groups(store: Store) -> None:
    while (job := store.next_write()) is not None:
        job.run(store.log.disk)
        store.finish_write(job, None)


def test_what_was_deleted_does_not_come_back_when_its_deletion_is_reclaimed(house: House) -> None:
    store = house.store
    kept, gone, busy = (store.create_topic(name) for name in ("kept", "gone", "busy"))
    publish(store, gone, 1)
    publish(store, kept, 20, 700)  # keeps the segment with the creations alive
    store.flush()
    publish(store, busy, 40, 400)
    store.delete_topic(gone)
    publish(store, busy, 40, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    house.work_off()
    assert 1 in store.log.lengths
    for clean in (False, True):
        store = house.reopen(clean=clean)
        assert sorted(store.topics()) == [kept, busy]
        assert len(texts(store, kept)) == 20


def test_reclaiming_does_not_overtake_a_seal_or_properties_on_their_way(house: House) -> None:
    store = house.store
    topic_id, busy = store.create_topic("t"), store.create_topic("busy")
    cursor_id = store.create_cursor(topic_id, "sub", b"")
    publish(store, busy, 40, 400)
    store.append(topic_id, b"0", batch_size=1, publish_time_ms=0)
    store.seal_topic(busy)
    store.flush()
    # An open ledger of which the segment to be reclaimed has the record, and no entry.
    ledger = store.log.state.ledgers[store.ledgers(topic_id)[0].id]
    while store.log.journal.end >> 32 < 3:
        publish(store, busy, 1, 400)
        store.flush()
    reclaimer = store.reclaimer
    reclaimer.segment_id = ledger.address >> 32
    reclaimer._begin_copying()
    store.seal_topic(topic_id)
    store.set_cursor_properties(cursor_id, b"new")
    assert not store.maintain()
    assert reclaimer.state == "copying"
    store.flush()
    reclaimer._rewrite_objects()
    store.flush()
    assert ledger.sealed
    assert store.cursor_image(cursor_id).properties == b"new"
    reclaimer.abandon()


def test_the_last_segment_stays_until_there_is_another(house: House) -> None:
    # A clean stop leaves a segment that holds nothing but the seal of the log.
    topic_id = house.store.create_topic("t")
    publish(house.store, topic_id, 30, 400)
    for clean in (True, True, False, True):
        store = house.reopen(clean=clean)
        house.work_off()
        assert len(texts(store, topic_id)) == 30


def test_work_that_was_given_up_leaves_no_address_to_wait_for(house: House) -> None:
    # The next work would take its copies for synced as soon as that older address is.
    store = house.reopen(options=small_options("never"))
    topic_id = store.create_topic("t")
    publish(store, topic_id, 1)
    store.flush()
    reclaimer = store.reclaimer
    reclaimer._ticket = store.ticket_last
    assert not reclaimer._durable()
    reclaimer.abandon()
    reclaimer._ticket = store.ticket_last
    publish(store, topic_id, 1)
    store.flush()
    assert not reclaimer._durable()
    assert reclaimer._address == store.log.journal.end


def test_reclaiming_waits_for_a_cursor_whose_deltas_are_on_their_way(house: House) -> None:
    store = house.store
    topic_id = store.create_topic("t")
    cursor_id = store.create_cursor(topic_id, "sub", b"")
    publish(store, topic_id, 40, 400)
    store.seal_topic(topic_id)
    store.flush()
    store.trim(topic_id, BEHIND_ALL, Retention())
    store.flush()
    store.append_delta(cursor_id, 0, b"1")
    for _ in range(20):
        store.maintain()
        while (job := store.next_chore()) is not None:
            job.run(store.log.disk)
            store.finish_chore(job, None)
    assert store.reclaimer.state == "copying"
    house.work_off()
    assert store.cursor_image(cursor_id).deltas == [b"1"]
    assert house.reopen().cursor_image(cursor_id).deltas == [b"1"]


def test_what_is_being_deleted_is_not_written_again(house: House) -> None:
    store = house.store
    kept, gone, busy = (store.create_topic(name) for name in ("kept", "gone", "busy"))
    cursor_id = store.create_cursor(gone, "sub", b"")
    for topic_id in (gone, kept):
        publish(store, topic_id, 2)
        store.seal_topic(topic_id)
    other = store.create_cursor(kept, "sub", b"")
    publish(store, busy, 40, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    # The segment with all creations is mostly dead; their deletions are queued, not durable.
    store.delete_topic(gone)
    store.delete_cursor(other)
    store.trim(kept, BEHIND_ALL, Retention())
    with pytest.raises(UnknownObjectError):
        store.append_delta(cursor_id, 0, b"")
    with pytest.raises(UnknownObjectError):
        store.set_cursor_properties(other, b"")
    for _ in range(10):
        store.maintain()
    house.work_off()
    for _ in range(2):
        assert sorted(store.topics()) == [kept, busy]
        assert store.cursor_ids(kept) == []
        assert store.ledgers(kept) == []
        store = house.reopen(clean=False)


def test_copies_are_sorted_by_ledger(house: House) -> None:
    store = house.store
    topics = [store.create_topic(f"t{i}") for i in range(4)]
    dead = store.create_topic("dead")
    for _ in range(10):
        for topic_id in topics:
            publish(store, topic_id, 1, 60)
        publish(store, dead, 2, 600)
    for topic_id in [*topics, dead]:
        store.seal_topic(topic_id)
    store.flush()
    store.trim(dead, BEHIND_ALL, Retention())
    store.flush()
    moved = {where(entry) for topic_id in topics for entry in every(store, topic_id, segment=1)}
    house.work_off()
    addresses = [
        entry.address
        for topic_id in topics
        for entry in every(store, topic_id)
        if where(entry) in moved
    ]
    assert len(addresses) > 20
    assert addresses == sorted(addresses)
    assert addresses[0] >> 32 > 1


def every(store: Store, topic_id: int, segment: int = 0) -> list[StoredEntry]:
    entries = store.read(topic_id, START, entries_max=99, bytes_max=EVERYTHING)
    return [entry for entry in entries if segment in (0, entry.address >> 32)]


def where(entry: StoredEntry) -> tuple[int, int]:
    return (entry.ledger_id, entry.entry_id)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_step_copies_no_more_than_it_may_and_heads_are_not_needed(
    house: House, damaged: bool
) -> None:
    store = house.store
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    publish(store, quiet, 5, 300)
    store.seal_topic(quiet)
    publish(store, busy, 60, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    for name in house.disk.names("journal"):
        if name.endswith(".heads") and damaged:
            house.disk.replace(f"journal/{name}", b"?")
        elif name.endswith(".heads"):
            house.disk.remove(f"journal/{name}")
    readings = 0
    while store.reclaimer.segment_id != 1 or store.reclaimer.state != "settling":
        store.reclaimer.step(1)
        while (job := store.next_chore()) is not None:
            job.run(store.log.disk)
            store.finish_chore(job, None)
            readings += isinstance(job, ReadBodies) and len(job.bodies) == 1
        store.flush()
    assert readings == 5
    house.work_off()
    assert texts(store, quiet) == list(range(5))


def test_without_fsync_nothing_goes_before_what_replaces_it_is_on_the_disk(house: House) -> None:
    store = house.reopen(options=small_options("never"))
    topic_id = store.create_topic("t")
    publish(store, topic_id, 100, 400)
    store.seal_topic(topic_id)
    store.flush()
    store.trim(topic_id, BEHIND_ALL, Retention())
    house.work_off()
    # The deletions are in the last segment, which nothing has synced so far.
    before = segments(house)
    assert store.reclaimer.state != "idle"
    publish(store, topic_id, 100, 400)
    house.work_off()
    assert not set(before[:2]) <= set(segments(house))


def test_a_ledger_that_is_trimmed_while_its_entries_are_being_copied_is_gone(house: House) -> None:
    store = house.store
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    publish(store, quiet, 5, 100)
    store.seal_topic(quiet)
    publish(store, busy, 60, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    while store.reclaimer.segment_id != 1 or store.reclaimer.state != "copying":
        store.reclaimer.step(1)
        store.flush()
    store.reclaimer.step(1)
    store.trim(quiet, BEHIND_ALL, Retention())
    store.flush()
    house.work_off()
    assert texts(store, quiet) == []
    assert house.reopen(clean=False).ledgers(quiet) == []


# ---- Scattered ledgers ---------------------------------------------------------


def scatter(
    store: Store, topics: int = 8, rounds: int = 12, size: int = 300, behind: int = 100
) -> list[int]:
    """Topics written to by turns, sealed, and two segments of something else behind them."""
    ids = [store.create_topic(f"t{i}") for i in range(topics)]
    for _ in range(rounds):
        for topic_id in ids:
            publish(store, topic_id, 1, size)
        store.flush()
    for topic_id in ids:
        store.seal_topic(topic_id)
    publish(store, store.create_topic("behind"), behind, 400)
    store.flush()
    return ids


def runs(store: Store, topic_id: int) -> int:
    """How many times the entries of a topic do not lie right behind each other."""
    found, reach = 0, -1
    for ledger in store.ledgers(topic_id):
        index = store.log.state.ledgers[ledger.id].index
        for i in range(index.count()):
            found += not reach <= index.address(i) <= reach + 40
            reach = index.address(i) + 40 + index.length(i)
    return found


@pytest.mark.parametrize("clean", [True, False])
def test_a_scattered_ledger_is_gathered_once(house: House, clean: bool) -> None:
    store = house.store
    ids = scatter(store)
    before = [texts(store, topic_id) for topic_id in ids]
    assert {runs(store, topic_id) for topic_id in ids} == {12}
    house.work_off()
    assert max(runs(store, topic_id) for topic_id in ids) <= 2
    assert [texts(store, topic_id) for topic_id in ids] == before
    for _ in range(2):
        store = house.reopen(clean=clean)
        end = store.log.journal.end
        house.work_off()
        assert store.log.journal.end == end, "nothing is copied again"
        assert [texts(store, topic_id) for topic_id in ids] == before


def test_what_a_restart_finds_scattered_is_gathered_after_it(house: House) -> None:
    ids = scatter(house.store)
    store = house.reopen(clean=False)
    publish(store, ids[0], 60, 400)
    store.flush()
    house.work_off()
    assert max(runs(store, topic_id) for topic_id in ids[1:]) <= 2


def test_gathering_can_be_turned_off(house: House) -> None:
    store = house.reopen(options=small_options(gather_run_bytes=0))
    ids = scatter(store)
    house.work_off()
    assert {runs(store, topic_id) for topic_id in ids} == {12}


def test_gathering_waits_for_time_for_quiet_and_for_space(house: House) -> None:
    store = house.store
    reclaimer = store.reclaimer
    ids = scatter(store, rounds=6)
    young = store.create_topic("young"), store.create_topic("youngest")
    for _ in range(6):
        for topic_id in young:
            publish(store, topic_id, 1, 10)
    for topic_id in young:
        store.seal_topic(topic_id)
    publish(store, ids[0], 5, 400)
    assert not store.log.quiet()
    assert not store.maintain()
    store.flush()
    store.log.full = True
    assert not store.maintain()
    store.log.full = False
    free, store.log.free_bytes = store.log.free_bytes, 10
    assert not store.maintain()
    store.log.free_bytes = free
    assert store.maintain()
    assert reclaimer.state == "copying"
    publish(store, ids[0], 5, 400)
    assert not store.maintain()
    store.flush()
    assert not store.maintain()  # what is to be copied has to be read
    store.flush()
    assert store.maintain()
    assert reclaimer.state == "settling"
    assert set(reclaimer._live) == {store.ledgers(topic_id)[0].id for topic_id in ids}
    house.work_off()
    assert max(runs(store, topic_id) for topic_id in ids[1:]) <= 2


def test_a_ledger_that_goes_while_it_is_gathered_stays_gone(house: House) -> None:
    store = house.store
    ids = scatter(store)
    store.maintain()
    assert store.reclaimer.state == "copying"
    store.delete_topic(ids[0])
    store.flush()
    store.maintain()
    store.delete_topic(ids[1])
    store.flush()
    house.work_off()
    left = [topic_id for topic_id in ids if topic_id in store.topics()]
    assert left == ids[2:]
    assert [len(texts(store, topic_id)) for topic_id in left] == [12] * 6
    store = house.reopen(clean=False)
    assert set(ids[:2]) & set(store.topics()) == set()


def test_copying_goes_on_when_what_it_waits_for_was_read_unless_the_log_is_busy(
    house: House,
) -> None:
    store = house.store
    ids = scatter(store)
    before = [texts(store, topic_id) for topic_id in ids]
    store.maintain()
    store.reclaimer.step(1)
    publish(store, ids[0], 5, 400)
    assert not store.log.quiet()
    copied = store.ticket_last
    while (job := store.next_chore()) is not None:
        job.run(store.log.disk)
        store.finish_chore(job, None)
    assert store.ticket_last == copied, "it waits while much is queued"
    store.flush()
    store.reclaimer.step(1)
    store.flush()
    assert store.ticket_last - copied == 8 * 12, "then everything is copied, entry by entry"
    assert store.reclaimer.state == "copying"
    house.work_off()
    assert max(runs(store, topic_id) for topic_id in ids[1:]) <= 2
    assert [texts(store, topic_id) for topic_id in ids[1:]] == before[1:]


@pytest.mark.parametrize("reading", [False, True])
def test_a_stop_does_not_wait_for_copies_and_nothing_follows_the_seal(
    house: House, reading: bool
) -> None:
    store = house.store
    ids = scatter(store)
    before = [texts(store, topic_id) for topic_id in ids]
    store.maintain()
    store.reclaimer.step(1)
    if reading:
        while (job := store.next_chore()) is not None and not isinstance(job, ReadBodies):
            job.run(store.log.disk)
            store.finish_chore(job, None)
        assert job is not None
        store.log.stopping = True  # the writer's threads end before the store is closed
        job.run(store.log.disk)
        store.finish_chore(job, None)
    copies = len(store.reclaimer._copies)
    store.close()
    assert len(store.reclaimer._copies) == copies == 0
    store = house.reopen(clean=False)
    assert store.clean
    assert [texts(store, topic_id) for topic_id in ids] == before


def test_a_damaged_entry_is_not_copied_and_whoever_asks_for_more_hears_of_it(house: House) -> None:
    store = house.store
    (topic_id, *_) = scatter(store)
    (ledger,) = store.ledgers(topic_id)
    address = store.log.state.ledgers[ledger.id].index.address(3)
    path, at = f"journal/{address >> 32:08x}.log", (address & 0xFFFFFFFF) + 41
    (byte,) = house.disk.read(path, at, 1)
    house.disk.write(path, at, bytes([byte ^ 1]), sync=True)
    store.maintain()
    store.maintain()
    store.flush()
    assert store.read_only_reason == ""
    with pytest.raises(CorruptionError, match="the record is damaged"):
        store.maintain()
    house.disk.write(path, at, bytes([byte]), sync=True)


def test_ledgers_that_go_before_they_are_looked_at_are_forgotten(house: House) -> None:
    store = house.store
    for topic_id in scatter(store):
        store.delete_topic(topic_id)
    store.flush()
    house.work_off()
    assert list(store.topics().values()) == ["behind"]


def test_large_ledgers_are_gathered_a_few_at_a_time(house: House) -> None:
    options = small_options(segment_bytes=64 * 1024, ledger_entries_max=1000)
    store = house.reopen(options=options)
    ids = scatter(store, rounds=600, size=20, behind=450)
    while not store.reclaimer._live:  # dead segments go first
        store.maintain()
        store.flush()
    # Seven of them are more than 4096 entries.
    assert len(store.reclaimer._live) == 7
    house.work_off()
    assert max(runs(store, topic_id) for topic_id in ids) <= 3
    assert [len(texts(store, topic_id)) for topic_id in ids] == [600] * 8


def test_a_segment_of_many_small_records_is_scanned_in_steps(house: House) -> None:
    options = small_options(segment_bytes=256 * 1024, ledger_entries_max=10_000)
    store = house.reopen(options=options)
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    publish(store, quiet, 1)
    publish(store, busy, 5000, 1)
    store.flush()
    first = store.log.journal.end >> 32
    publish(store, busy, 300, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    house.work_off()
    assert first not in store.log.lengths
    assert texts(store, quiet) == [0]


def test_a_ledger_is_scattered_if_its_runs_are_short_and_not_few() -> None:
    def placed(*addresses: int, length: int = 60) -> HeapIndex:
        index = HeapIndex()
        for i, address in enumerate(addresses):
            index.put(i, address, length=length, batch_size=1, publish_time_ms=0)
        return index

    assert scattered(placed(100, 300, 500, 700), 0, 200)
    assert not scattered(placed(100, 300, 500, 700), 1, 200)
    assert not scattered(placed(100, 300, 500, 700), 0, 100)
    assert not scattered(placed(100, 300, 500), 0, 200)
    assert not scattered(placed(100, 200, 340, 480), 0, 200), "one behind the other, or a header on"
    assert scattered(placed(700, 500, 300, 100), 0, 200)
    assert not scattered(HeapIndex(), 0, 200)


# ---- Open ledgers --------------------------------------------------------------


def open_options(fsync: str = "always", **changes: int) -> StoreOptions:
    return small_options(fsync, gather_run_bytes=1024, ledger_entries_max=10_000, **changes)


def by_turns(store: Store, ids: list[int], rounds: int, size: int = 300) -> None:
    for _ in range(rounds):
        for topic_id in ids:
            publish(store, topic_id, 1, size)
        store.flush()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("fsync", ["always", "never"])
def test_scattered_entries_of_open_ledgers_are_gathered_once(
    house: House, fsync: str, clean: bool
) -> None:
    store = house.reopen(options=open_options(fsync))
    ids = [store.create_topic(f"t{i}") for i in range(8)]
    for rounds in range(0, 96, 12):
        by_turns(store, ids, 12)
        house.work_off()
        assert max(runs(store, topic_id) for topic_id in ids) <= 24 + rounds // 3
    ends = store.log.journal.end, store.ticket_last
    house.work_off()
    assert (store.log.journal.end, store.ticket_last) == ends, "nothing is copied again"
    assert not any(ledger.sealed for id in ids for ledger in store.ledgers(id))
    for _ in range(2):
        assert [len(texts(store, topic_id)) for topic_id in ids] == [96] * 8
        store = house.reopen(clean=clean)


def test_what_was_gathered_leaves_its_old_segments_behind(house: House) -> None:
    store = house.reopen(options=open_options())
    ids = [store.create_topic(f"t{i}") for i in range(8)]
    by_turns(store, ids, 48)
    before = set(store.log.lengths)
    house.work_off()
    assert len(before & set(store.log.lengths)) <= 1
    assert sum(store.log.lengths.values()) < 2 * 8 * 48 * 340


def test_open_ledgers_are_not_gathered_without_space_for_it(house: House) -> None:
    store = house.reopen(options=open_options())
    ids = [store.create_topic(f"t{i}") for i in range(8)]
    by_turns(store, ids, 24)
    scattered_now = store.reclaimer.scattered
    free, store.log.free_bytes = store.log.free_bytes, 10
    assert scattered_now.next() is None
    assert not scattered_now.unfinished
    store.log.free_bytes = free
    piece = scattered_now.next()
    assert piece is not None
    assert (piece.ledger_id, piece.first) == (store.ledgers(ids[0])[0].id, 0)


def test_what_everyone_has_consumed_is_not_gathered(house: House) -> None:
    store = house.reopen(options=open_options(live_share_min=0))
    behind, ahead, unread, half = ids = [store.create_topic(f"t{i}") for i in range(4)]
    by_turns(store, ids, 48)
    ledger_id = store.ledgers(half)[0].id
    consumed: dict[int, Position | None] = {
        behind: Position(ledger_id - 100, 0),
        ahead: Position(ledger_id + 100, 0),
        unread: None,
        half: Position(ledger_id, 23),
    }
    store.ask_consumed(consumed.__getitem__)
    house.work_off()
    found = [runs(store, topic_id) for topic_id in ids]
    assert found[0] < 10
    assert found[1:3] == [48, 48]
    assert 24 < found[3] < 34


def test_many_ledgers_are_looked_at_a_few_at_a_time_without_a_pause(house: House) -> None:
    store = house.reopen(options=open_options(live_share_min=0))
    ids = [store.create_topic(f"t{i}") for i in range(150)]
    by_turns(store, ids, 12)
    left: list[int] = []
    consumed: dict[int, Position | None] = dict.fromkeys(ids[:-1])
    store.ask_consumed(lambda topic_id: consumed.get(topic_id, START))
    while store.maintain() and store.reclaimer.state == "idle":
        left.append(len(store.reclaimer.scattered._open))
    assert left == [150 - 64, 150 - 128]
    for _ in range(12):
        assert store.maintain() or store.flush() or runs(store, ids[-1]) == 1
    assert [runs(store, topic_id) for topic_id in ids] == [12] * 149 + [1]
    for topic_id in ids:
        store.seal_topic(topic_id)
    publish(store, ids[0], 150, 400)
    store.flush()
    consumed.clear()
    house.work_off()
    assert max(runs(store, topic_id) for topic_id in ids[1:]) <= 2


def test_a_copy_of_what_was_deleted_meanwhile_is_nothing(house: House) -> None:
    store = house.reopen(options=open_options())
    ids = [store.create_topic(f"t{i}") for i in range(8)]
    by_turns(store, ids, 24)
    while store.reclaimer.state != "copying" or store.reclaimer.segment_id:
        store.maintain()
        store.flush()
    store.maintain()
    for topic_id in ids[:7]:
        store.delete_topic(topic_id)
    read_now(store)
    store.maintain()  # the copies are queued behind the deletions
    assert len(store.log._copies_pending) == 8
    house.work_off()
    for _ in range(2):
        assert list(store.topics()) == ids[7:]
        assert len(texts(store, ids[7])) == 24
        store = house.reopen(clean=False)


def test_a_piece_that_is_too_short_waits_for_more(house: House) -> None:
    store = house.reopen(options=open_options(live_share_min=0))
    slow, *ids = [store.create_topic(f"t{i}") for i in range(8)]
    by_turns(store, [slow, *ids], 5)
    by_turns(store, ids, 20)
    house.work_off()
    assert runs(store, slow) == 5
    by_turns(store, [slow, *ids], 5)
    by_turns(store, ids, 20)
    house.work_off()
    assert runs(store, slow) < 10


def test_the_end_of_a_ledger_is_gathered_when_it_is_sealed(house: House) -> None:
    store = house.reopen(options=open_options(live_share_min=0))
    ids = [store.create_topic(f"t{i}") for i in range(8)]
    by_turns(store, ids, 24)
    house.work_off()
    (first, *_) = [store.ledgers(topic_id)[0].id for topic_id in ids]
    index = store.log.state.ledgers[first].index
    lay = [index.address(i) for i in range(20)]
    by_turns(store, ids, 5)
    for topic_id in ids:
        store.seal_topic(topic_id)
    publish(store, store.create_topic("behind"), 150, 400)
    store.flush()
    house.work_off()
    index = store.log.state.ledgers[first].index
    assert isinstance(index, MappedIndex)
    assert [index.address(i) for i in range(20)] == lay, "its beginning stays where it is"
    assert max(runs(store, topic_id) for topic_id in ids) < 10


@pytest.mark.parametrize("fsync", ["always", "never"])
def test_a_ledger_may_be_sealed_or_go_at_any_moment_of_its_gathering(
    house: House, fsync: str
) -> None:
    # Each moment: how many steps of maintenance and jobs come first.
    for moment in range(14):
        store = house.reopen(options=open_options(fsync))
        ids = [store.create_topic(f"t{i}") for i in range(8)]
        by_turns(store, ids, 24)
        steps = moment
        while steps > 0:
            steps -= 1
            store.maintain()
            while steps > 0 and run_one(store):
                steps -= 1
        for topic_id in ids[:4]:
            store.seal_topic(topic_id)
        store.delete_topic(ids[7])
        house.work_off()
        publish(store, store.create_topic("behind"), 150, 400)
        house.work_off()
        assert [len(texts(store, topic_id)) for topic_id in ids[:7]] == [24] * 7
        store = house.reopen(clean=bool(moment % 2))
        for topic_id in ids[:7]:
            assert len(texts(store, topic_id)) == 24
            store.delete_topic(topic_id)


def test_after_a_failed_group_what_did_not_arrive_is_gathered(house: House) -> None:
    store = house.reopen(options=open_options())
    ids = [store.create_topic(f"t{i}") for i in range(8)]
    by_turns(store, ids, 24)
    house.clock.now_ms += 1000
    copies: list[Job] = []
    while not copies:
        store.maintain()
        read_now(store)
        if (job := store.next_write()) is not None:
            assert isinstance(job, GroupWrite)
            if any(record.kind == COPY for record in job.records):
                copies.append(job)
            else:
                job.run(store.log.disk)
                store.finish_write(job, None)
                store.flush()
    store.finish_write(copies[0], DiskFullError("write to", "journal", "No space left on device"))
    assert store.reclaimer.state == "idle"
    house.clock.now_ms += 1000
    store.flush()
    assert not store.full
    for name in ("behind", "far behind"):  # the ledgers are sealed behind the first of them
        publish(store, store.create_topic(name), 150, 400)
        store.flush()
    house.work_off()
    assert [len(texts(store, topic_id)) for topic_id in ids] == [24] * 8
    assert max(runs(store, topic_id) for topic_id in ids) < 8


# ---- What seldom happens ---------------------------------------------------------


def test_a_segment_that_cannot_be_read_is_heard_of_and_stays(house: House) -> None:
    store = house.store
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    publish(store, quiet, 5)
    publish(store, busy, 100, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    while store.reclaimer.segment_id != 1 or store.reclaimer.state != "scanning":
        store.maintain()
        write_groups(store)
        if store.reclaimer.state != "scanning":
            store.flush()
    house.disk.remove("journal/00000001.heads")
    house.disk.rename("journal/00000001.log", "journal/away")
    read_now(store)
    with pytest.raises(DiskError, match="No such file"):
        store.maintain()
    house.disk.rename("journal/away", "journal/00000001.log")
    store.reclaimer.abandon()
    house.work_off()
    assert texts(store, quiet) == list(range(5))


def test_many_copies_settle_and_many_index_files_are_written_in_steps(house: House) -> None:
    options = small_options(
        segment_bytes=256 * 1024, group_bytes_max=256 * 1024, ledger_entries_max=20_000
    )
    store = house.reopen(options=options)
    topics = [store.create_topic(f"t{i}") for i in range(3)]
    for _ in range(3200):
        for topic_id in topics:
            publish(store, topic_id, 1, 1)
    for topic_id in topics:
        store.seal_topic(topic_id)
    publish(store, store.create_topic("behind"), 1500, 400)
    store.flush()
    reclaimer = store.reclaimer
    settling = indexing = 0
    waits = 0
    while waits < 5:
        busy = reclaimer.step(1 << 20 if reclaimer.state != "indexing" else 64)
        settling += reclaimer.state == "settling"
        indexing += reclaimer.state == "indexing"
        waits = 0 if store.flush() or busy else waits + 1
    assert settling > 1
    assert indexing > 3
    assert max(runs(store, topic_id) for topic_id in topics) <= 4
    assert [len(texts(store, topic_id)) for topic_id in topics] == [3200] * 3


# ---- What a reader will want next ------------------------------------------------


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
