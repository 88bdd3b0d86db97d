"""Scattered entries of ledgers that are still written to are gathered, piece by piece."""

import pytest
from storage.by_hand import BEHIND_ALL, publish, read_now, runs, texts
from storage.conftest import House
from storage.workload import START, small_options

from magnetar.model import Position
from magnetar.storage import DiskFullError, Store, StoreOptions
from magnetar.storage.ledger.index_file import MappedIndex
from magnetar.storage.log.job import GroupWrite, Job
from magnetar.storage.log.record_kind import COPY


def open_options(fsync: str = "always", **changes: int) -> StoreOptions:
    return small_options(fsync, gather_run_bytes=1024, ledger_entries_max=10_000, **changes)


def by_turns(store: Store, ids: list[int], rounds: int, size: int = 300) -> None:
    for _ in range(rounds):
        for topic_id in ids:
            publish(store, topic_id, 1, size)
        store.flush()


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
        behind: Position(0, 0),
        ahead: BEHIND_ALL,
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


def test_the_next_ledgers_are_gathered_when_some_are_without_being_asked_for(house: House) -> None:
    options = open_options(
        segment_bytes=64 * 1024, group_bytes_max=2 << 20, group_records_max=10_000, live_share_min=0
    )
    store = house.reopen(options=options)
    ids = [store.create_topic(f"t{i}") for i in range(8)]
    by_turns(store, ids, 600, 20)
    store.maintain()
    store.maintain()
    assert len(store.reclaimer._live) == 7, "which have more than 4096 entries"
    store.flush()
    assert {runs(store, topic_id) for topic_id in ids} == {1}


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


@pytest.mark.once
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
