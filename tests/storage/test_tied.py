"""Records that belong together: no group parts them, so no crash does."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from storage.faulty_disk import FaultyDisk, PowerCut
from storage.workload import small_options

from magnetar.storage.disk.memory_disk import MemoryDisk
from magnetar.storage.log.job import GroupWrite
from magnetar.storage.options import StoreOptions
from magnetar.storage.store import Store, attempt, open_store

RUNS = st.lists(st.lists(st.integers(0, 400), min_size=1, max_size=6), min_size=1, max_size=8)


def small_store(disk: MemoryDisk) -> Store:
    return open_store(disk, lambda: 0, StoreOptions(segment_bytes=8192, group_bytes_max=600))


def make_cursors(store: Store, count: int) -> list[int]:
    topic_id = store.create_topic("t")
    cursors = [store.create_cursor(topic_id, f"s{i}", b"") for i in range(count)]
    store.flush()
    return cursors


@given(RUNS)
def test_deltas_of_one_operation_are_in_one_group(runs: list[list[int]]) -> None:
    disk = MemoryDisk()
    store = small_store(disk)
    cursors = make_cursors(store, 6)
    for number, sizes in enumerate(runs):
        body = [b"%d " % number + bytes(size) for size in sizes]
        store.append_deltas([(cursors[i], 0, data) for i, data in enumerate(body)])
    group_of: dict[bytes, set[int]] = {}
    counts = [0] * len(runs)
    while (job := store.next_write()) is not None:
        assert store.finish_write(job, attempt(job, disk)) is not None
        assert isinstance(job, GroupWrite)
        for record in job.records:
            name = record.body.split(b" ")[0]
            group_of.setdefault(name, set()).add(job.ticket_first)
            counts[int(name)] += 1
    assert all(len(groups) == 1 for groups in group_of.values())
    assert counts == [len(sizes) for sizes in runs]
    wanted: list[list[bytes]] = [[] for _ in cursors]
    for number, sizes in enumerate(runs):
        for i, size in enumerate(sizes):
            wanted[i].append(b"%d " % number + bytes(size))
    assert [store.cursor_image(cursor).deltas for cursor in cursors] == wanted
    store.close()


def test_groups_are_still_cut_between_operations() -> None:
    """Or a check that counts groups would find nothing."""
    disk = MemoryDisk()
    store = small_store(disk)
    one, other = make_cursors(store, 2)
    for _ in range(4):
        store.append_deltas([(one, 0, bytes(300)), (other, 0, bytes(300))])
    jobs = []
    while (job := store.next_write()) is not None:
        store.finish_write(job, attempt(job, disk))
        jobs.append(job)
    assert [len(job.records) for job in jobs if isinstance(job, GroupWrite)] == [2, 2, 2, 2]
    store.close()


def test_a_group_has_so_many_records_at_most() -> None:
    """However small they are: what they are about is dealt with in one event (I10)."""
    disk = MemoryDisk()
    store = open_store(disk, lambda: 0, StoreOptions(group_records_max=10))
    one, other = make_cursors(store, 2)
    for _ in range(24):
        store.append_deltas([(one, 0, b"")])
    store.append_deltas([(one, 0, b""), (other, 0, b"")] * 7)
    store.append_deltas([(one, 0, b"")])
    counts = []
    while (job := store.next_write()) is not None:
        store.finish_write(job, attempt(job, disk))
        counts.append(len(job.records) if isinstance(job, GroupWrite) else 0)
    assert counts == [10, 10, 4 + 14, 1]
    store.close()


def test_a_power_cut_leaves_all_of_them_or_none() -> None:
    """Writes are torn at any sector, and the operations are larger than any group would be."""
    partly = 0
    for seed in range(60):
        random = Random(seed)
        disk = FaultyDisk()
        store = open_store(disk, lambda: 0, small_options("interval", fsync_interval_ms=50))
        cursors = make_cursors(store, 4)
        disk.cut_at = disk.operations + random.randrange(1, 12)
        queued = 0
        try:
            for number in range(8):
                body = b"%d " % number
                size = random.randrange(2000)
                store.append_deltas([(cursor, 0, body + bytes(size)) for cursor in cursors])
                queued += 1
                store.flush()
        except PowerCut:
            pass
        store = open_store(disk.crash(random), lambda: 0, small_options())
        there = [store.cursor_image(cursor).deltas for cursor in cursors if _known(store, cursor)]
        counts = {len(deltas) for deltas in there}
        assert len(counts) <= 1, (seed, counts)
        partly += 0 < max(counts, default=0) < queued
        store.close()
    assert partly > 5, "nothing was ever cut in the middle"


def _known(store: Store, cursor_id: int) -> bool:
    return cursor_id in store.log.state.cursors
