"""Entries of sealed ledgers that lie scattered over the log are copied together, once."""

import pytest
from storage.by_hand import BEHIND_ALL, publish, runs, texts
from storage.conftest import House
from storage.workload import small_options

from magnetar.storage import Retention, Store
from magnetar.storage.ledger.ledger_index import HeapIndex
from magnetar.storage.ledger.scatter import scattered
from magnetar.storage.log.job import ReadBodies, WriteIndex
from magnetar.storage.log.record import segment_of


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


def test_a_damaged_entry_is_not_copied_and_the_store_tells_of_it(house: House) -> None:
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
    assert not store.maintain()
    assert "the record is damaged" in store.setbacks.present["moving entries"]
    house.disk.write(path, at, bytes([byte]), sync=True)


def test_ledgers_that_go_before_they_are_looked_at_are_forgotten(house: House) -> None:
    store = house.store
    for topic_id in scatter(store):
        store.delete_topic(topic_id)
    store.flush()
    house.work_off()
    assert list(store.topics().values()) == ["behind"]


@pytest.mark.once
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


@pytest.mark.once
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


@pytest.mark.parametrize("clean", [True, False])
def test_copies_stay_while_an_index_file_that_names_them_is_put_off(
    house: House, clean: bool
) -> None:
    store = house.store
    ids = scatter(store)
    before = [texts(store, topic_id) for topic_id in ids]
    put_off = gather_and_put_off(store)
    assert len(put_off) == len(ids)
    copied = segment_of(store.log.journal.end)
    store.reclaimer.abandon()  # a group failed
    publish(store, store.create_topic("more"), 200, 400)
    store.flush()
    house.work_off()
    assert copied in store.log.lengths
    assert [texts(store, topic_id) for topic_id in ids] == before
    for job in put_off:
        store.log.add_chore(job)
    house.work_off()
    assert [texts(store, topic_id) for topic_id in ids] == before
    assert max(runs(store, topic_id) for topic_id in ids) <= 2
    store = house.reopen(clean=clean)
    assert [texts(store, topic_id) for topic_id in ids] == before


@pytest.mark.parametrize("full", [True, False])
def test_nothing_of_a_ledger_is_copied_while_its_new_index_file_is_put_off(
    house: House, full: bool
) -> None:
    store = house.store
    ids = scatter(store)
    before = texts(store, ids[0])
    put_off = gather_and_put_off(store)
    store.reclaimer.abandon()
    publish(store, store.create_topic("more"), 200, 400)
    for topic_id in ids[1:]:
        store.delete_topic(topic_id)  # what is left lies in segments that are mostly dead
    store.flush()
    picked: set[int] = set()
    for _ in range(50):
        store.log.full = full and store.reclaimer.state == "copying"
        store.maintain()
        store.flush()
        picked.add(store.reclaimer.segment_id)
    assert picked - {0}
    assert texts(store, ids[0]) == before
    assert store.ledgers(ids[0])[0].id in store.reclaimer._late
    store.log.full = False
    for job in put_off:
        store.log.add_chore(job)
    house.work_off()
    assert texts(store, ids[0]) == before
    assert store.reclaimer._late == {}
    store = house.reopen(clean=False)
    assert texts(store, ids[0]) == before


def test_dead_segments_go_while_a_full_disk_puts_index_files_off(house: House) -> None:
    store = house.store
    ids = scatter(store)
    busy = store.create_topic("busy")
    publish(store, busy, 200, 400)
    store.seal_topic(busy)
    store.flush()
    before = [texts(store, topic_id) for topic_id in ids]
    put_off = gather_and_put_off(store)
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    segments = len(store.log.lengths)
    for _ in range(60):
        store.log.full = True
        store.maintain()
        store.flush()
    assert len(store.log.lengths) < segments - 3
    store.log.full = False
    for job in put_off:
        store.log.add_chore(job)
    house.work_off()
    assert [texts(store, topic_id) for topic_id in ids] == before
    assert max(runs(store, topic_id) for topic_id in ids) <= 2
    store = house.reopen(clean=False)
    assert [texts(store, topic_id) for topic_id in ids] == before


def gather_and_put_off(store: Store) -> list[WriteIndex]:
    """Gathers; returns the index files, which are no chores any more, as on a full disk."""
    reclaimer = store.reclaimer
    while reclaimer.state != "indexing" or reclaimer._moves or reclaimer._rewrite:
        store.maintain()
        if reclaimer.state != "indexing":
            store.flush()
    put_off = [job for job in store.log._chores if isinstance(job, WriteIndex)]
    for job in put_off:
        store.log._chores.remove(job)
    return put_off
