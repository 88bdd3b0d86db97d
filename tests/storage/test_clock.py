"""Somebody sets the clock: intervals of the store go on as if nothing had been."""

import pytest
from storage.faulty_disk import FaultyDisk
from storage.workload import small_options

from magnetar.storage import Store, open_store

HOUR_MS = 3_600_000


class Clocks:
    """The time of day, which is off by what somebody set it, and ticks."""

    def __init__(self) -> None:
        self.ticks = 5_000
        self.offset = 1_800_000_000_000

    def clock_ms(self) -> int:
        return self.ticks + self.offset

    def ticks_ms(self) -> int:
        return self.ticks


def opened(disk: FaultyDisk, clocks: Clocks, fsync: str = "always", **changes: int) -> Store:
    options = small_options(fsync, **changes)
    return open_store(disk, clocks.clock_ms, options, ticks_ms=clocks.ticks_ms)


JUMPS = pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS])


@JUMPS
def test_the_log_is_synced_in_its_intervals(jump_ms: int) -> None:
    disk, clocks = FaultyDisk(), Clocks()
    store = opened(disk, clocks, "interval", fsync_interval_ms=1000)
    topic_id = store.create_topic("t")
    store.flush()
    clocks.offset += jump_ms
    syncs = []
    for i in range(50):
        clocks.ticks += 100
        store.append(topic_id, str(i).encode(), batch_size=1, publish_time_ms=0)
        before = disk.syncs
        store.flush()
        syncs.append(disk.syncs - before)
    assert sum(syncs) == 5


@JUMPS
def test_a_disk_that_was_full_is_looked_at_again(jump_ms: int) -> None:
    disk, clocks = FaultyDisk(), Clocks()
    store = opened(disk, clocks, watermark_bytes=1000)
    clocks.ticks += 1000
    disk.capacity = 0
    store.flush()
    assert store.full
    clocks.offset += jump_ms
    disk.capacity = 1 << 40
    for _ in range(3):
        clocks.ticks += 1000
        store.flush()
    assert not store.full


@JUMPS
def test_a_ledger_ends_when_it_is_old_and_not_when_the_clock_says_so(jump_ms: int) -> None:
    disk, clocks = FaultyDisk(), Clocks()
    store = opened(disk, clocks, ledger_age_ms_max=10_000)
    topic_id = store.create_topic("t")
    store.append(topic_id, b"x", batch_size=1, publish_time_ms=0)
    store.flush()
    clocks.offset += jump_ms
    store.maintain()
    store.flush()
    assert [ledger.sealed for ledger in store.ledgers(topic_id)] == [False]
    clocks.ticks += 10_000
    store.maintain()
    store.flush()
    assert [ledger.sealed for ledger in store.ledgers(topic_id)] == [True]
