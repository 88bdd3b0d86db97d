"""Everything on the list of `faulty_disk`, at every point of a random life of a store."""

import contextlib
import os
from random import Random

import pytest
from storage.faulty_disk import FaultyDisk, PowerCut
from storage.workload import START, Workload, small_options

from magnetar.storage import (
    CorruptionError,
    DiskError,
    DiskFullError,
    DiskShortageError,
    StorageFullError,
    StorageReadOnlyError,
    StoreOptions,
    check,
    open_store,
)
from magnetar.storage.log.job import CloseSegment

ROUNDS = int(os.environ.get("MAGNETAR_FAULT_ROUNDS", "120"))
STEPS = 60


def options_of(seed: int, fsync: str) -> StoreOptions:
    """Short ledgers that are trimmed, or long ones that are gathered while they are open."""
    if seed % 2:
        return small_options(fsync, fsync_interval_ms=50)
    return small_options(
        fsync, fsync_interval_ms=50, ledger_entries_max=30, gather_run_bytes=3 * 1024
    )


def live(work: Workload, random: Random, steps: int = STEPS) -> None:
    for _ in range(steps):
        work.step(random)


@pytest.mark.parametrize("fsync", ["always", "interval", "never"])
def test_a_power_cut_at_any_operation_loses_nothing_that_was_durable(fsync: str) -> None:
    for seed in range(ROUNDS):
        random = Random(seed)
        disk = FaultyDisk()
        work = Workload(options_of(seed, fsync))
        try:
            work.open(disk)
            disk.cut_at = disk.operations + random.randrange(1, 90)
            live(work, random)
            if random.random() < 0.3:
                work.store.close()
        except PowerCut:
            pass
        after = disk.crash(random)
        if fsync != "always":
            # Receipts went out before the sync, so they promise nothing here. Ids do.
            work.receipted.clear()
            work.acks_receipted.clear()
        if not after.files.get("FORMAT"):
            continue
        assert check(after) == [], f"seed {seed}"
        work.open(after)
        work.verify()
        live(work, random, 20)
        work.flush()
        assert check(after) == [], f"seed {seed}"
        work.verify()


@pytest.mark.parametrize("fsync", ["always", "interval", "never"])
def test_a_kill_at_any_operation_loses_nothing_that_was_written(fsync: str) -> None:
    for seed in range(ROUNDS):
        random = Random(seed)
        disk = FaultyDisk()
        work = Workload(options_of(seed, fsync))
        work.open(disk)
        for _ in range(3):
            disk.cut_at = disk.operations + random.randrange(1, 60)
            with contextlib.suppress(PowerCut):
                live(work, random)
            disk = disk.kill()
            assert check(disk) == [], f"seed {seed}"
            work.open(disk)
            work.verify()


def test_a_power_cut_after_a_kill_loses_nothing() -> None:
    # What recovery accepted from the page cache must be made durable by recovery itself.
    for seed in range(ROUNDS):
        random = Random(seed)
        disk = FaultyDisk()
        work = Workload(small_options("never"))
        work.open(disk)
        live(work, random, 30)
        work.flush()
        disk = disk.kill()
        work.open(disk)
        after = disk.crash(random)
        work.open(after)
        work.verify()
        assert check(after) == [], f"seed {seed}"


def test_no_space_at_any_operation_refuses_publishes_and_loses_nothing() -> None:
    refused = 0
    for seed in range(ROUNDS):
        random = Random(seed)
        disk = FaultyDisk()
        work = Workload(small_options())
        work.open(disk)
        disk.full_from = disk.operations + random.randrange(1, 40)
        disk.full_until = disk.full_from + random.randrange(1, 30)
        live(work, random)
        disk.full_from = disk.full_until = -1
        work.clock.now_ms += 10_000
        work.flush()
        assert not work.store.log.full
        work.publish("a", 100)
        work.ack("a")
        assert {outcome.error for outcome in work.flush()} == {None}
        work.verify()
        assert check(disk) == [], f"seed {seed}"
        after = disk.crash(random)
        work.open(after)
        work.verify()
        refused += work.refused
    assert refused > 0


def test_a_shortage_at_any_operation_is_waited_out_and_loses_nothing() -> None:
    waited = 0
    for seed in range(ROUNDS):
        random = Random(seed)
        disk = FaultyDisk()
        work = Workload(options_of(seed, ("always", "interval", "never")[seed % 3]))
        work.open(disk)
        disk.short_from = disk.operations + random.randrange(1, 60)
        disk.short_until = disk.short_from + random.randrange(1, 30)
        live(work, random)
        disk.short_until = -1
        waited += work.store.log.setbacks.total
        assert work.store.read_only_reason == ""
        work.clock.now_ms += 10_000
        work.flush()
        work.publish("a", 100)
        work.ack("a")
        assert {outcome.error for outcome in work.flush()} == {None}
        work.clock.now_ms += 10_000
        work.flush()
        assert work.store.log.setbacks.present == {}
        work.verify()
        assert check(disk) == [], f"seed {seed}"
    assert waited > 0


def test_a_group_that_lacks_descriptors_for_long_is_refused_and_the_next_one_passes() -> None:
    disk, work = filled(5)
    disk.short_from, disk.short_until = disk.operations, 1 << 40
    work.publish("a", 100)
    assert work.flush() == []
    for _ in range(60):
        work.clock.now_ms += 200
        refused = work.flush()
        if refused:
            break
    (outcome,) = refused
    assert isinstance(outcome.error, DiskShortageError)
    assert "allow the process more open files" in str(outcome.error)
    assert work.store.read_only_reason == ""
    disk.short_until = -1
    work.publish("a", 100)
    assert {outcome.error for outcome in work.flush()} == {None}
    work.verify()
    assert check(disk.crash(Random(1))) == []


def test_a_group_that_finds_no_segment_fails_and_the_store_goes_on() -> None:
    disk, work = filled(60)
    work.store.log.spares.clear()
    disk.broken = True
    errors: list[Exception] = []
    while not errors:
        work.publish("a", 1000)
        errors = [outcome.error for outcome in work.flush() if outcome.error is not None]
    assert "Input/output error" in str(errors[0])
    assert work.store.read_only_reason == ""
    disk.broken = False
    work.clock.now_ms += 10_000
    work.flush()
    work.publish("a", 100)
    assert {outcome.error for outcome in work.flush()} == {None}
    work.verify()
    assert check(disk) == []


def test_chores_that_fail_are_done_once_they_can_be() -> None:
    disk, work = filled(60)
    disk.broken = True
    for _ in range(40):
        work.publish("a", 200)
        work.ack("a")
        work.flush()
    work.trim("a", keep=1)
    work.clock.now_ms += 2_000
    work.flush()
    failing = set(work.store.log.setbacks.present)
    assert {"writing the index of a ledger", "removing files"} <= failing
    assert work.store.read_only_reason == ""
    disk.broken = False
    for _ in range(3):
        work.clock.now_ms += 2_000
        work.flush()
    assert work.store.log.setbacks.present == {}
    (told, ended) = [line for line in work.store.log.setbacks.take_news() if "removing" in line]
    assert "Input/output error" in told
    assert ended.startswith("removing files is done after")
    work.verify()
    assert check(disk) == []


def test_on_a_full_disk_acks_and_trims_pass_and_bring_the_space_back() -> None:
    options = small_options(watermark_bytes=20_000)
    disk = FaultyDisk(capacity=250_000)
    work = Workload(options)
    work.open(disk)
    while not work.refused:
        work.publish("a", 1000)
        work.flush()
        work.clock.now_ms += 1000
    with pytest.raises(StorageFullError, match="free some space") as caught:
        work.store.append(work.topics["a"], b"", batch_size=1, publish_time_ms=0)
    assert caught.value.watermark_bytes == 20_000
    for _ in range(300):
        work.ack("a")
        assert all(outcome.error is None for outcome in work.flush())
    work.snapshot("a", 2)
    work.trim("a", keep=1)
    assert all(outcome.error is None for outcome in work.flush())
    while work.store.maintain() or work.flush():
        work.clock.now_ms += 1000
    work.clock.now_ms += 1000
    work.flush()
    work.publish("a", 1000)
    assert {outcome.error for outcome in work.flush()} == {None}
    work.verify()
    assert check(disk) == []


def test_on_a_disk_that_stays_full_everything_is_answered_and_nothing_is_lost() -> None:
    disk, work = filled(30)
    disk.full_from, disk.full_until = disk.operations, 1 << 40
    work.publish("a", 100)
    failed = 0
    for _ in range(30):
        work.ack("a")
        (outcome,) = work.flush()
        failed += outcome.error is not None
    assert failed == 30
    assert work.store.full
    with pytest.raises(StorageFullError):
        work.store.append(work.topics["a"], b"", batch_size=1, publish_time_ms=0)
    work.verify()
    # A restart meanwhile works with what the reserve leaves; nothing else is written.
    after = disk.kill()
    work.open(after)
    work.verify()
    assert check(after) == []


def test_a_restart_on_a_full_disk_gives_up_a_spare_for_it() -> None:
    disk, work = filled(30)
    after = disk.kill()
    after.capacity = after.used_bytes()
    work.open(after)
    work.verify()
    assert check(after) == []


def test_a_failed_sync_makes_the_store_read_only_and_nothing_durable_ever_after() -> None:
    for seed in range(ROUNDS):
        random = Random(seed)
        disk = FaultyDisk()
        work = Workload(small_options())
        work.open(disk)
        disk.sync_error_at = disk.syncs + random.randrange(1, 30)
        with pytest.raises(StorageReadOnlyError, match="Input/output error") as caught:
            live(work, random, 400)
        assert "restart the broker" in str(caught.value)
        assert "Input/output error" in work.store.read_only_reason
        assert work.flush() == []
        receipts = len(work.receipted)
        with pytest.raises(StorageReadOnlyError):
            work.publish("a", 10)
        assert work.flush() == []
        assert len(work.receipted) == receipts
        # Reads still work.
        work.store.read(work.topics["a"], START, entries_max=10, bytes_max=1 << 20)
        work.store.close()
        after = disk.crash(random)
        work.open(after)
        work.verify()
        assert check(after) == [], f"seed {seed}"


def filled(steps: int = STEPS) -> tuple[FaultyDisk, Workload]:
    disk = FaultyDisk()
    work = Workload(small_options())
    work.open(disk)
    for i in range(steps):
        work.publish("a", 200)
        work.ack("a")
        if i % 3 == 0:
            work.flush()
    work.flush()
    return disk, work


def test_a_bit_flip_before_the_last_fsynced_offset_is_refused_as_corruption() -> None:
    disk, work = filled(30)
    work.publish("a", 10)
    work.flush()
    end = work.store.log.journal.end & 0xFFFFFFFF
    (path,) = [p for p in disk.files if p.endswith(".log")][-1:]
    # The last group is only known to be durable by its successor; all before it must be whole.
    work.publish("a", 10)
    work.flush()
    for offset in range(0, end, 13):
        damaged = disk.kill()
        damaged.flip(path, offset, offset % 8)
        before = {p: bytes(content) for p, content in damaged.files.items()}
        with pytest.raises(CorruptionError, match="restore the directory") as caught:
            work.open(damaged)
        assert caught.value.path == path
        assert {p: bytes(content) for p, content in damaged.files.items()} == before
        assert check(damaged) != []


def test_a_bit_flip_after_the_last_fsynced_offset_cuts_the_log_and_says_so() -> None:
    disk, work = filled(30)
    start = work.store.log.journal.end & 0xFFFFFFFF
    for _ in range(3):
        work.publish("a", 100)
    work.flush()
    end = work.store.log.journal.end & 0xFFFFFFFF
    (path,) = [p for p in disk.files if p.endswith(".log")][-1:]
    receipted = set(work.receipted)
    for offset in range(start, end, 7):
        damaged = disk.kill()
        damaged.flip(path, offset, offset % 8)
        store = open_store(damaged, work.clock, work.options)
        (cut,) = store.cuts
        assert (cut.path, cut.offset) == (path, start)
        # A flip in the last bytes may turn one into a zero, which looks like unused space.
        assert end - start - 1 <= cut.bytes_lost <= end - start
        assert cut.records_lost == (0 if offset < start + 40 else 3)
        assert "bytes" in str(cut)
        assert not store.clean
        store.close()
        assert check(damaged) == []
    assert work.receipted == receipted


def test_a_bit_flip_in_a_closed_log_is_found_by_check_and_by_reading() -> None:
    disk, work = filled()
    work.store.close()
    for path in sorted(p for p in disk.files if p.endswith(".log")):
        for offset in range(0, len(disk.files[path]), 511):
            damaged = disk.kill()
            damaged.flip(path, offset)
            assert check(damaged) != [], (path, offset)


def test_a_bit_flip_in_derived_files_costs_nothing() -> None:
    disk, work = filled()
    work.store.close()
    for path in sorted(p for p in disk.files if p.endswith(".heads")):
        damaged = disk.kill()
        damaged.flip(path, len(damaged.files[path]) // 2)
        work.open(damaged)
        work.verify()


def test_a_damaged_or_missing_index_is_made_anew_from_the_log() -> None:
    disk, work = filled()
    work.store.close()
    paths = sorted(p for p in disk.files if p.endswith(".idx"))
    assert len(paths) > 3
    damaged = disk.kill()
    damaged.flip(paths[0], 30)
    damaged.remove(paths[1])
    work.open(damaged)
    work.verify()
    assert set(paths) <= set(damaged.files)
    assert check(damaged) == []


def test_an_index_that_points_to_another_entry_is_found_by_check_and_made_anew() -> None:
    disk, work = filled()
    ledger = work.store.ledgers(work.topics["a"])[0]
    work.store.close()
    path = f"index/{ledger.id:016x}.idx"
    damaged = disk.kill()
    for content in (damaged.files[path], damaged.durable[path]):
        content[64:72] = content[72:80]
    assert [v.path for v in check(damaged)] == [path]
    store = open_store(damaged, work.clock, work.options)
    (entry,) = store.read(work.topics["a"], START, entries_max=1, bytes_max=1 << 20)
    assert (entry.ledger_id, entry.entry_id) == (ledger.id, 0)
    assert entry.data == work.entries[ledger.id, 0]


def test_a_power_cut_during_recovery_loses_nothing() -> None:
    for seed in range(ROUNDS):
        random = Random(seed)
        disk = FaultyDisk()
        work = Workload(small_options())
        work.open(disk)
        disk.cut_at = disk.operations + random.randrange(1, 90)
        with contextlib.suppress(PowerCut):
            live(work, random)
        for _ in range(3):
            disk = disk.crash(random)
            disk.cut_at = random.randrange(1, 12)
            with contextlib.suppress(PowerCut):
                work.open(disk)
        after = disk.crash(random)
        assert check(after) == [], f"seed {seed}"
        work.open(after)
        work.verify()


def test_a_missing_segment_is_corruption() -> None:
    disk, work = filled(150)
    work.store.close()
    paths = sorted(p for p in disk.files if p.endswith(".log"))
    assert len(paths) > 2
    for path in paths[:-1]:
        damaged = disk.kill()
        damaged.remove(path)
        damaged.remove(path.replace(".log", ".heads"))
        with pytest.raises(CorruptionError, match="missing"):
            work.open(damaged)


def test_a_group_that_finds_no_space_fails_with_all_behind_it_and_the_next_one_passes() -> None:
    disk, work = filled(1)
    work.publish("a", 100)
    job = work.store.next_write()
    assert job is not None
    work.publish("a", 100)
    work.ack("a")
    outcome = work.store.finish_write(job, DiskFullError("write to", "x", "No space left"))
    assert outcome is not None
    assert (outcome.end - outcome.first, isinstance(outcome.error, DiskError)) == (3, True)
    work.take(outcome)
    work.ack("a")
    assert {o.error for o in work.flush()} == {None}
    work.verify()
    assert check(disk) == []


def test_a_failed_sync_by_the_clock_makes_the_store_read_only() -> None:
    disk = FaultyDisk()
    work = Workload(small_options("interval", fsync_interval_ms=1000))
    work.open(disk)
    work.clock.now_ms += 5000
    work.ack("a")
    work.flush()
    work.ack("a")
    work.flush()
    work.clock.now_ms += 5000
    disk.sync_error_at = disk.syncs + 1
    (outcome,) = work.flush()
    assert (outcome.first, outcome.end) == (work.store.ticket_last + 1,) * 2
    assert "Input/output error" in work.store.read_only_reason


def test_a_chore_that_fails_stops_the_group_under_way_from_counting() -> None:
    disk, work = filled(100)
    work.publish("a", 100)
    write = work.store.next_write()
    assert write is not None
    # Closing a segment syncs it; what other chores fail at is tried again.
    closing = CloseSegment(1, 1, b"", 0)
    work.store.log.add_chore(closing)
    chore = work.store.next_chore()
    assert chore is closing
    outcome = work.store.finish_chore(chore, DiskError("sync", "x", "Input/output error"))
    assert outcome is not None
    assert outcome.end - outcome.first == 1
    work.take(outcome)
    write.run(disk)
    assert work.store.finish_write(write, None) is None
    work.verify()
    work.store.close()
    with pytest.raises(StorageReadOnlyError):
        work.publish("a", 10)


@pytest.mark.parametrize("flush_between", [False, True])
def test_a_topic_deleted_after_a_failed_group_stays_deleted(flush_between: bool) -> None:
    disk, work = filled(2)
    work.publish("a", 10)
    job = work.store.next_write()
    assert job is not None
    outcome = work.store.finish_write(job, DiskFullError("write to", "x", "No space left"))
    assert outcome is not None
    work.take(outcome)
    if flush_between:
        work.ack("b")
        job = work.store.next_write()
        assert job is not None
        work.store.delete_topic(work.topics["a"])
        job.run(disk)
        work.store.finish_write(job, None)
    else:
        work.store.delete_topic(work.topics["a"])
    work.flush()
    assert work.topics["a"] not in work.store.topics()
    after = disk.kill()
    assert check(after) == []
    store = open_store(after, work.clock, work.options)
    assert work.topics["a"] not in store.topics()


class LyingDisk(FaultyDisk):
    """Writes index files, and gives other bytes back."""

    def map(self, path: str) -> memoryview:
        return memoryview(bytes(super().map(path))[::-1])


def test_an_index_that_does_not_read_back_is_corruption() -> None:
    work = Workload(small_options())
    work.open(LyingDisk())
    live(work, Random(1), 100)
    work.flush()
    with pytest.raises(CorruptionError, match="the index file is damaged"):
        work.stored()
    assert work.store.read_only_reason == ""
