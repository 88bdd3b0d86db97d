"""The log as a whole: the journal's end, the state of what is durable, and the files.

`Log` joins the two halves that know nothing of each other. When a group succeeded, the
journal gives its records addresses and the state folds them; when it failed, neither
changes. Around that it keeps the files in order with chores: a spare segment is prepared
before it is needed, a segment that was left is closed, a ledger that was sealed gets its
index file, dead files go.

Space. `reserve_segments` spare segments are set aside for what frees space, as soon as half
a segment is in use or the disk gets full, and one more for the next roll. When the disk
is full (a file could not grow, or less is free than the watermark) publishes are refused,
and only then may groups take the reserve. The disk counts as full until the watermark is
free again and the reserve complete.

Passing errors (the table is in `job.py`). A group that lacks a descriptor or memory is written
again, every `RETRY_MS` for `RETRY_MS_MAX`; then it fails, and the next one may pass. A chore
that failed waits for the next look at the free space. `setbacks` tells of both.

Intervals go by `ticks_ms`, which nobody can set back; `clock_ms` is the time of day.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import (
    DiskError,
    DiskFullError,
    DiskShortageError,
    StorageFullError,
)
from magnetar.storage.disk.disk import Disk
from magnetar.storage.ledger.index_file import IndexFiles
from magnetar.storage.ledger.ledger_index import HeapIndex, index_path
from magnetar.storage.log.job import (
    SYNC,
    CloseSegment,
    GroupWrite,
    Job,
    MeasureSpace,
    PrepareSpare,
    RemoveFiles,
    SyncTail,
    WriteIndex,
    read_bodies,
)
from magnetar.storage.log.journal import Journal, Outcome
from magnetar.storage.log.record import Record, offset_of
from magnetar.storage.log.record_kind import COPY, DELETE, is_news
from magnetar.storage.log.segment import segment_path
from magnetar.storage.log.setback import Setbacks
from magnetar.storage.log.write_figures import WriteFigures
from magnetar.storage.options import StoreOptions
from magnetar.storage.recovery import Recovered
from magnetar.storage.state import LedgerState, LogState

__all__ = ["Log"]

MEASURE_INTERVAL_MS: Final = 1000
# What lacked a descriptor or memory is tried again so often, and for so long: less than the
# 30 s after which clients give up.
RETRY_MS: Final = 200
RETRY_MS_MAX: Final = 10_000


@final
class Log:
    """Takes records, makes them durable, and knows what the durable ones say."""

    def __init__(
        self,
        disk: Disk,
        options: StoreOptions,
        salt: int,
        recovered: Recovered,
        clock_ms: Callable[[], int],
        ticks_ms: Callable[[], int],
    ) -> None:
        self.disk: Final = disk
        self.options: Final = options
        self.salt: Final = salt
        self.clock_ms: Final = clock_ms
        self.ticks_ms: Final = ticks_ms
        self.setbacks: Final = Setbacks()
        self.figures: Final = WriteFigures()
        self.state: Final[LogState] = recovered.state
        self.indexes: Final[IndexFiles] = recovered.indexes
        self.journal: Final = Journal(
            options, salt, end=recovered.end, segment_id_next=recovered.segment_id_next
        )
        # Length of every closed segment, and all segments whether closed or not.
        self.lengths: Final[dict[int, int]] = recovered.lengths
        self.alive: Final[set[int]] = set(recovered.lengths)
        self.spares: Final[list[str]] = []
        self.free_bytes: int = 0
        self.full: bool = False
        self._spare_number: int = 0
        # A store that filled a segment will fill more, and deserves zeroed spares.
        self._busy: bool = False
        # A small store, of which a test may have a hundred, sets nothing aside.
        self._used_half: bool = False
        self._chores: Final[list[Job]] = []
        self._chore: Job | None = None
        self.stopping: bool = False
        # What reclaiming waits for: there is always more of it, so it comes last.
        self._reading: Job | None = None
        # Chores that failed, to be tried again after the next look at the free space.
        self._put_off: list[Job] = []
        self._spare_failed: bool = False
        # The group that lacked something, when it is to be written again, and until when.
        self._again: GroupWrite | None = None
        self._again_ticks: int = 0
        self._again_until: int = 0
        # Sealed ledgers that have no index file yet.
        self._unindexed: list[int] = []
        # Ledgers that got their first index file since `take_indexed` was last called.
        self._indexed: list[int] = []
        self._measured_ticks: int = 0
        self._pins: Final[dict[int, int]] = {}
        # Cursors of which a snapshot is wanted, and the segment that may go then.
        self.wanted: Final[dict[int, int]] = {}
        # How many records of each ledger and cursor are on their way, entries and slices apart.
        self._pending: Final[dict[int, int]] = {}
        # The same of one object, news of which came last, all in a row: it is not in there yet.
        self._run_id: i64 = -1
        self._run_count: int = 0
        # How many copies of entries of each ledger are on their way.
        self._copies_pending: Final[dict[int, int]] = {}
        # Objects whose deletion is on its way: nothing may be written about them any more.
        self._deletes_pending: Final[set[int]] = set()
        self._snapshot_numbers: Final[dict[int, int]] = {}
        self.ticket_durable: int = 0

    def take_spares(self) -> None:
        """Takes over the spare segments of the last run, and sees how much is free."""
        for name in self.disk.names("journal"):
            if not name.endswith(".spare"):
                continue
            path = f"journal/{name}"
            if self.disk.size(path) == self.options.segment_bytes:
                self.spares.append(path)
                self._spare_number = max(self._spare_number, int(name.split(".")[0]))
            else:
                self._chores.append(RemoveFiles([path]))
        self.free_bytes = self.disk.free_bytes()
        self._measured_ticks = self.ticks_ms()
        self._judge_space()

    # ---- Writing -------------------------------------------------------------

    def add(self, record: Record, *, tied: bool = False) -> int:
        """Queues a record and returns its ticket; see `Journal.add`."""
        ticket = self.journal.add(record, tied=tied)
        if is_news(record.kind):
            if record.id != self._run_id:
                self._end_run()
                self._run_id = record.id
            self._run_count += 1
        elif record.kind == COPY:
            _count_up(self._copies_pending, record.id)
        elif record.kind == DELETE:
            self._deletes_pending.add(record.id)
        return ticket

    def _end_run(self) -> None:
        if self._run_count > 0:
            self._pending[self._run_id] = self._pending.get(self._run_id, 0) + self._run_count
            self._run_count = 0
        self._run_id = -1

    def deleting(self, id: int) -> bool:
        """Whether the deletion of this object is on its way."""
        return id in self._deletes_pending

    def has_pending(self, id: int) -> bool:
        """Whether news of this ledger or cursor, or of the catalog, is on its way."""
        return id == self._run_id or id in self._pending

    def next_snapshot_number(self, cursor_id: int) -> int:
        """Tells the slices of one snapshot from those of another that was given up."""
        known = self._snapshot_numbers.get(cursor_id, 0)
        cursor = self.state.cursors.get(cursor_id)
        if cursor is not None:
            known = max(known, cursor.number_last)
        self._snapshot_numbers[cursor_id] = known + 1
        return known + 1

    def require_space(self) -> None:
        """Raises if publishes are refused at present."""
        if self.full:
            raise StorageFullError(self.free_bytes, self.options.watermark_bytes)

    def next_write(self) -> Job | None:
        ticks_ms = self.ticks_ms()
        job = self._next_again(ticks_ms)
        if job is None:
            job = self.journal.next_write(self.clock_ms(), ticks_ms)
            if job is None:
                return self.journal.next_sync(ticks_ms)
        if job.header and not job.claimed:
            self._offer_spares(job)
        return job

    def _next_again(self, ticks_ms: int) -> GroupWrite | None:
        """The group that failed for a passing reason, when it is time."""
        job = self._again
        if job is None or (ticks_ms < self._again_ticks and not self.stopping):
            return None
        self._again = None
        return job

    def _offer_spares(self, job: GroupWrite) -> None:
        """Beyond the reserve a spare is there for the taking; the reserve is the last resort."""
        if not self.spares:
            return
        if self.full or len(self.spares) > self.options.reserve_segments:
            job.spare = self.spares[-1]
        else:
            job.reserve = self.spares[-1]

    def finish_write(self, job: Job, error: Exception | None) -> Outcome | None:
        """What came of a job of the write lane; None if no ticket is concerned."""
        if isinstance(job, SyncTail):
            return self._finish_sync(job, error)
        assert isinstance(job, GroupWrite)
        if not self.journal.in_flight(job):
            return None
        if job.claimed in self.spares:
            self.spares.remove(job.claimed)
        if job.filled:
            self.full = True
        if error is None:
            self.setbacks.passed(job.kind)
            self.figures.wrote(job)
            return self._commit(job)
        if isinstance(error, DiskShortageError) and self._try_again(job, error):
            return None
        if isinstance(error, DiskFullError):
            self.full = True
        elif not _passes(job, error):
            return self.fail(error)
        return self._failed_once(job, error)

    def _finish_sync(self, job: SyncTail, error: Exception | None) -> Outcome | None:
        if error is None:
            self.setbacks.passed(job.kind)
            self.figures.synced(job)
            self.journal.sync_succeeded(job)
        elif _passes(job, error):
            self.setbacks.failed(job.kind, error)
            self.journal.sync_put_off()
        else:
            return self.fail(error)
        return None

    def _try_again(self, job: GroupWrite, error: Exception) -> bool:
        """Puts the group off for a while; False if it was tried for too long."""
        if self.stopping:
            return False
        ticks_ms = self.ticks_ms()
        if job.kind not in self.setbacks.present:
            self._again_until = ticks_ms + RETRY_MS_MAX
        elif ticks_ms >= self._again_until:
            return False
        self.setbacks.failed(job.kind, error)
        self._again = job
        self._again_ticks = ticks_ms + RETRY_MS
        return True

    def _failed_once(self, job: GroupWrite, error: Exception) -> Outcome:
        self.setbacks.given_up(job.kind)
        if job.header:
            self._chores.append(RemoveFiles([segment_path(job.segment_id)]))
        return self._failed(self.journal.failed_once(job, error))

    def _commit(self, job: GroupWrite) -> Outcome:
        outcome = self.journal.succeeded(job)
        if job.sync or job.sync_all:
            self.setbacks.passed(SYNC)  # that one would have had nothing left to do
        self.alive.add(job.segment_id)
        left = self.journal.left
        if left is not None:
            self.journal.left = None
            self._chores.append(left)
            self._busy = True
        state = self.state
        self._end_run()
        for record in job.records:
            if record.kind == DELETE:
                self._deletes_pending.discard(record.id)
                self._snapshot_numbers.pop(record.id, None)
                self._drop_indexes(record.id)
            elif is_news(record.kind):
                if record.id != self._run_id:
                    self._run_durable()
                    self._run_id = record.id
                self._run_count += 1
            elif record.kind == COPY:
                _count_down(self._copies_pending, record.id, 1)
            state.apply(record)
        self._run_durable()
        self.ticket_durable = outcome.end
        self._unindexed.extend(state.take_sealed())
        return outcome

    def _run_durable(self) -> None:
        """News of one object, so many records in a row, are on their way no more."""
        if self._run_count > 0:
            _count_down(self._pending, self._run_id, self._run_count)
            self._run_count = 0
        self._run_id = -1

    def fail(self, error: Exception) -> Outcome:
        """Takes nothing any more; what is on its way has failed."""
        return self._failed(self.journal.failed(error))

    def _failed(self, outcome: Outcome) -> Outcome:
        self._again = None
        self._run_id = -1
        self._run_count = 0
        self._pending.clear()
        self._copies_pending.clear()
        self._deletes_pending.clear()
        return outcome

    def _drop_indexes(self, id: int) -> None:
        topic = self.state.topics.get(id)
        ledger_ids = topic.ledger_ids + topic.view_ids if topic is not None else [id]
        paths: list[str] = []
        for ledger_id in ledger_ids:
            ledger = self.state.ledgers.get(ledger_id)
            if ledger is not None and not isinstance(ledger.index, HeapIndex):
                paths.append(index_path(ledger_id))
        if paths:
            self._chores.append(RemoveFiles(paths))

    # ---- Chores --------------------------------------------------------------

    def index_later(self, ledger_id: int) -> None:
        """A sealed ledger wants an index file."""
        self._unindexed.append(ledger_id)

    def take_indexed(self) -> list[int]:
        """The ledgers that got an index file since the last call."""
        indexed = self._indexed
        self._indexed = []
        return indexed

    def quiet(self) -> bool:
        """Whether so little is queued that something else may be written meanwhile."""
        return self.journal.queue_bytes() < self.options.group_bytes_max // 4

    def add_chore(self, job: Job) -> None:
        self._chores.append(job)

    def read_later(self, job: Job) -> None:
        """A chore for when there is no other; one that is still waiting is given up for it."""
        self._reading = job

    def next_chore(self) -> Job | None:
        """The next chore, or None if there is none or one is under way."""
        if self._chore is not None or self.journal.state == "read-only":
            return None
        job = self._next_queued()
        # At a stop only what must be done is: indexes of many ledgers would take long, and
        # the next run writes those that are missing.
        if job is None and not self.stopping:
            job = self._next_for_space()
        if job is None and not self.stopping:
            job = self._next_index()
        if job is None and not self.stopping:
            job, self._reading = self._reading, None
        self._chore = job
        return job

    def _next_queued(self) -> Job | None:
        return self._chores.pop(0) if self._chores else None

    def _next_index(self) -> Job | None:
        if self.full:
            return None
        i = 0
        while i < len(self._unindexed):
            ledger = self.state.ledgers.get(self._unindexed[i])
            index = ledger.index if ledger is not None else None
            if ledger is None or not isinstance(index, HeapIndex):
                del self._unindexed[i]
            elif self._may_index(ledger, index):
                del self._unindexed[i]
                return WriteIndex(ledger.id, index.encode(ledger.id, self.salt))
            else:
                i += 1
        return None

    def _may_index(self, ledger: LedgerState, index: HeapIndex) -> bool:
        """The file must know where all entries are, and no more than a power cut leaves."""
        known = max(ledger.address, index.address_last)
        return known < self.journal.synced and ledger.id not in self._copies_pending

    def _next_for_space(self) -> Job | None:
        ticks_ms = self.ticks_ms()
        if ticks_ms - self._measured_ticks >= MEASURE_INTERVAL_MS:
            self._measured_ticks = ticks_ms
            return MeasureSpace()
        if self._spare_failed:
            return None
        wanted = self._spares_wanted()
        if len(self.spares) < wanted and self.free_bytes >= self.options.segment_bytes:
            self._spare_number += 1
            path = f"journal/{self._spare_number:04}.spare"
            return PrepareSpare(path, self.options.segment_bytes, zeroed=self._busy)
        return None

    def _spares_wanted(self) -> int:
        """None before half a segment is used: till then the other half is reserve enough."""
        if self.full:
            return self.options.reserve_segments
        if not self._used_half:
            used = sum(self.lengths.values()) + offset_of(self.journal.end)
            self._used_half = used >= self.options.segment_bytes // 2
        return self.options.reserve_segments + 1 if self._used_half else 0

    def finish_chore(self, job: Job, error: Exception | None) -> Outcome | None:
        """What came of a chore; an outcome if it made the store read-only."""
        assert job is self._chore
        self._chore = None
        if error is None:
            self._chore_done(job)
            self.setbacks.passed(job.kind)
            return None
        if isinstance(error, DiskFullError):
            self.full = True
            self.free_bytes = 0
        elif _passes(job, error):
            self.setbacks.failed(job.kind, error)
        else:
            return self.fail(error)
        self._put_chore_off(job)
        return None

    def _put_chore_off(self, job: Job) -> None:
        """Tries it again after the next look at the free space, which looks at this as well."""
        if isinstance(job, PrepareSpare):
            self._spare_failed = True
            self._chores.append(RemoveFiles([job.path]))
        elif not isinstance(job, MeasureSpace):
            self._put_off.append(job)

    def _chore_done(self, job: Job) -> None:
        if isinstance(job, CloseSegment):
            self.lengths[job.segment_id] = job.length
            self.journal.closed(job)
        elif isinstance(job, WriteIndex):
            self._index_written(job)
        elif isinstance(job, PrepareSpare):
            self.spares.append(job.path)
            self._judge_space()
        elif isinstance(job, MeasureSpace):
            self.free_bytes = job.free_bytes
            self._judge_space()

    def _judge_space(self) -> None:
        self._spare_failed = False
        if self.free_bytes < self.options.watermark_bytes:
            self.full = True
        elif len(self.spares) >= self.options.reserve_segments:
            self.full = False
            self._chores.extend(self._put_off)
            self._put_off = []

    def _index_written(self, job: WriteIndex) -> None:
        path = index_path(job.ledger_id)
        if job.ledger_id not in self.state.ledgers:
            self._chores.append(RemoveFiles([path]))
            return
        index = self.indexes.written(job.ledger_id, job.data)
        if isinstance(self.state.ledgers[job.ledger_id].index, HeapIndex):
            self._indexed.append(job.ledger_id)
        self.state.swap_index(job.ledger_id, index)

    # ---- Reading -------------------------------------------------------------

    def read_body(self, address: int, size: int) -> bytes:
        """The body of the record there, from disk and checked."""
        return read_bodies(self.disk, [(address, size)], self.salt)[0]

    def pin(self, segment_ids: set[int]) -> None:
        """Keeps segments from being deleted while they are read; each pin is undone by `unpin`."""
        for segment_id in segment_ids:
            _count_up(self._pins, segment_id)

    def unpin(self, segment_ids: set[int]) -> None:
        for segment_id in segment_ids:
            _count_down(self._pins, segment_id, 1)

    def pinned(self, segment_id: int) -> bool:
        return segment_id in self._pins


def _passes(job: Job, error: Exception) -> bool:
    """Whether an error is over once the job is done again; see `job.py`."""
    return isinstance(error, DiskShortageError) or (
        isinstance(error, DiskError) and not job.lasting
    )


def _count_up(counts: dict[int, int], id: int) -> None:
    counts[id] = counts.get(id, 0) + 1


def _count_down(counts: dict[int, int], id: int, by: int) -> None:
    left = counts[id] - by
    if left:
        counts[id] = left
    else:
        del counts[id]
