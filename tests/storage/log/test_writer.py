"""The threads behind a store: outcomes come back on the owner's thread, in order."""

import threading
from collections.abc import Callable
from pathlib import Path
from queue import Queue

import pytest
from storage.faulty_disk import FaultyDisk, PowerCut
from storage.workload import START, Clock, small_options

from magnetar.storage import (
    Disk,
    FileDisk,
    MemoryDisk,
    Outcome,
    StorageReadOnlyError,
    Store,
    check,
    open_store,
)
from magnetar.storage.log.writer import StoreWriter

PATIENCE_S = 30


class BuggyClock(Clock):
    buggy = False

    def __call__(self) -> int:
        return 1 // 0 if self.buggy else super().__call__()


class Owner:
    """A thread with a queue of calls, as an event loop is."""

    def __init__(self, disk: Disk) -> None:
        self.clock = BuggyClock()
        self.store: Store = open_store(disk, self.clock, small_options())
        self.calls: Queue[Callable[[], None]] = Queue()
        self.outcomes: list[Outcome] = []
        self.threads: set[int] = set()
        self.writer = StoreWriter(self.store, self.calls.put, self.note)

    def note(self, outcome: Outcome) -> None:
        self.threads.add(threading.get_ident())
        self.outcomes.append(outcome)

    def run_until(self, ticket: int) -> None:
        while not self.outcomes or self.outcomes[-1].end <= ticket:
            self.writer.kick()
            self.calls.get(timeout=PATIENCE_S)()


def test_everything_queued_gets_its_outcome_in_order(tmp_path: Path) -> None:
    owner = Owner(FileDisk(tmp_path))
    store = owner.store
    topic_id = store.create_topic("t")
    for i in range(500):
        store.append(topic_id, b"%d" % i, batch_size=1, publish_time_ms=i)
        if i % 50 == 0:
            owner.writer.kick()
    owner.run_until(store.ticket_last)
    assert owner.threads == {threading.get_ident()}
    assert owner.outcomes[-1].end == store.ticket_last + 1
    for before, after in zip(owner.outcomes, owner.outcomes[1:], strict=False):
        assert before.end == after.first
    assert {outcome.error for outcome in owner.outcomes} == {None}
    entries = store.read(topic_id, START, entries_max=1000, bytes_max=1 << 20)
    assert [int(entry.data or b"") for entry in entries] == list(range(500))
    owner.writer.stop()
    store.close()
    assert check(FileDisk(tmp_path)) == []


def test_stopping_waits_for_the_group_under_way(tmp_path: Path) -> None:
    owner = Owner(FileDisk(tmp_path))
    topic_id = owner.store.create_topic("t")
    owner.writer.kick()
    owner.writer.stop()
    assert [outcome.error for outcome in owner.outcomes] == [None]
    assert list(owner.store.topics()) == [topic_id]
    owner.store.close()
    assert check(FileDisk(tmp_path)) == []


def test_a_failed_sync_reaches_the_owner_as_an_outcome() -> None:
    disk = FaultyDisk()
    owner = Owner(disk)
    disk.sync_error_at = disk.syncs + 1
    owner.store.create_topic("t")
    owner.run_until(owner.store.ticket_last)
    assert "Input/output error" in str(owner.outcomes[-1].error)
    owner.writer.stop()
    with pytest.raises(Exception, match="read-only"):
        owner.store.create_topic("u")


# ---- What nobody foresaw -----------------------------------------------------------


def assert_ended(owner: Owner, reason: str) -> None:
    """Whoever waits was told, and nothing more is taken."""
    error = owner.outcomes[-1].error
    assert isinstance(error, StorageReadOnlyError)
    assert reason in error.reason
    assert owner.outcomes[-1].end == owner.store.ticket_last + 1
    assert owner.store.read_only_reason == error.reason
    with pytest.raises(StorageReadOnlyError):
        owner.store.create_topic("u")
    owner.writer.kick()
    owner.writer.stop()
    assert owner.calls.empty()


def test_a_job_that_fails_by_a_bug_ends_all_writing_and_is_heard_of() -> None:
    disk = FaultyDisk()
    owner = Owner(disk)
    disk.cut_at = disk.operations + 1
    owner.store.create_topic("t")
    with pytest.raises(PowerCut):
        owner.run_until(owner.store.ticket_last)
    assert_ended(owner, "unexpected PowerCut()")


def test_a_bug_in_what_follows_a_job_ends_all_writing_and_is_heard_of() -> None:
    disk = FaultyDisk()
    owner = Owner(disk)
    disk.short_from, disk.short_until = 0, 1 << 40
    owner.store.create_topic("t")
    owner.writer.kick()
    owner.clock.buggy = True  # which says when the group is to be tried again
    with pytest.raises(ZeroDivisionError):
        owner.calls.get(timeout=PATIENCE_S)()
    owner.clock.buggy = False
    assert_ended(owner, "unexpected ZeroDivisionError(")


def test_a_bug_in_the_choice_of_a_job_ends_all_writing_and_is_heard_of() -> None:
    owner = Owner(MemoryDisk())
    owner.store.create_topic("t")
    owner.clock.buggy = True
    with pytest.raises(ZeroDivisionError):
        owner.writer.kick()
    owner.clock.buggy = False
    assert_ended(owner, "unexpected ZeroDivisionError(")


def test_a_bug_that_shows_at_a_stop_is_heard_of() -> None:
    disk = FaultyDisk()
    owner = Owner(disk)
    disk.cut_at = disk.operations + 1
    owner.store.create_topic("t")
    owner.writer.kick()
    with pytest.raises(PowerCut):
        owner.writer.stop()
    assert [outcome.end for outcome in owner.outcomes] == [owner.store.ticket_last + 1]


class CrampedDisk(MemoryDisk):
    """A disk with which there is no memory for chores, for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.cramped = 0

    def replace(self, path: str, data: bytes) -> None:
        self._want_memory()
        super().replace(path, data)

    def create(self, path: str, length: int) -> None:
        self._want_memory()
        super().create(path, length)

    def _want_memory(self) -> None:
        if self.cramped and threading.current_thread().name == "store-chore":
            self.cramped -= 1
            raise MemoryError


def test_chores_without_memory_are_tried_again_and_end_nothing() -> None:
    disk = CrampedDisk()
    owner = Owner(disk)
    topic = owner.store.create_topic("t")
    disk.cramped = 3
    while disk.cramped:
        owner.store.append(topic, bytes(1000), batch_size=1, publish_time_ms=1)
        owner.run_until(owner.store.ticket_last)
        owner.clock.now_ms += 1000
    assert owner.store.read_only_reason == ""
    assert {outcome.error for outcome in owner.outcomes} == {None}
    owner.writer.stop()
    owner.store.close()
    assert check(disk) == []
