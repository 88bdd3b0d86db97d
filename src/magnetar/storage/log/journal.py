"""The end of the log: what waits, what is being written, and what is durable.

Records are given tickets in order of arrival. A group takes as many as fit, is written by
one job, and its outcome covers a range of tickets: all durable, or all failed. Only one
group is under way at a time, so the next one gathers meanwhile: that is the group commit.
Records that are *tied* to the one before them come into the same group, which is what makes
several of them one: recovery takes a group whole or not at all.

    state       a record comes   a group is wanted   it succeeded   passing error  lasting error
    OPEN        queue it         make one            OPEN           OPEN, roll     READ_ONLY
    READ_ONLY   refuse           none                -              -              -
    CLOSED      refuse           none                -              -              -

Passing are a lack of space, and whatever went wrong before the first byte of the group was
written. Such a group takes down everything queued behind it, since that may build on it, and
the log goes on in a new segment: nobody knows what the old one holds behind its last good
byte, and the new header says where to stop reading it. (A lack of descriptors or memory is
waited out first; see `log.py`.) Any other error forbids to call anything durable ever after:
after a failed fsync the kernel may have dropped the pages, and a second fsync would succeed
without them. That goes for errors that nobody foresaw as well: what is in memory may not be
what is on the disk.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import StorageError, StorageReadOnlyError, StoreClosedError
from magnetar.storage.log.job import CloseSegment, GroupWrite, SyncTail
from magnetar.storage.log.record import Record, address_of, segment_of
from magnetar.storage.log.segment import (
    FORMAT_VERSION,
    GROUP_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    GroupHeader,
    SegmentHeader,
    segment_path,
)
from magnetar.storage.options import ALWAYS, INTERVAL, NEVER, StoreOptions

__all__ = ["Journal", "Outcome"]

OPEN: Final = "open"
READ_ONLY: Final = "read-only"
CLOSED: Final = "closed"


@final
class Outcome:
    """The tickets from `first` to before `end` are durable, or failed with `error`."""

    __slots__ = ("end", "error", "first")

    def __init__(self, first: int, end: int, error: Exception | None) -> None:
        self.first: Final = first
        self.end: Final = end
        self.error: Final = error

    def __repr__(self) -> str:
        return f"Outcome({self.first}, {self.end}, {self.error!r})"


@final
class Journal:
    """Decides what is written where; knows nothing of what records mean."""

    def __init__(self, options: StoreOptions, salt: int, *, end: i64, segment_id_next: i64) -> None:
        self.options: Final = options
        self.salt: Final = salt
        self.state: str = OPEN
        self.reason: str = ""
        # Where the log ends, and how far it is durable, as addresses.
        self.end: i64 = end
        self.synced: i64 = end
        self.segment_id_next: i64 = segment_id_next
        self.ticket_next: int = 0
        self._queue: list[Record] = []
        self._queue_bytes: i64 = 0
        # Tickets in the queue whose records no group may part from the ones before them.
        self._tied: Final[set[int]] = set()
        self._in_flight: GroupWrite | None = None
        self._sequence: int = 0
        # The last segment takes groups up to its limit; 0 if the next group needs a new one.
        self._limit: i64 = 0
        self._heads: list[bytes] = []
        self._synced_ticks: int = 0
        self._syncing: bool = False
        # The segment that the last roll left behind, for whoever keeps the files.
        self.left: CloseSegment | None = None

    # ---- Records come --------------------------------------------------------

    def add(self, record: Record, *, tied: bool = False) -> int:
        """Queues a record and returns its ticket; tied, it shares its group with the last one."""
        if self.state != OPEN:
            raise self.refusal()
        if tied:
            assert self._queue, "tied to a record that was written already"
            self._tied.add(self.ticket_next)
        self._queue.append(record)
        self._queue_bytes += record.size()
        self.ticket_next += 1
        return self.ticket_next - 1

    def refusal(self) -> Exception:
        return StoreClosedError() if self.state == CLOSED else StorageReadOnlyError(self.reason)

    def queue_bytes(self) -> int:
        """Returns how much waits for the next group."""
        return self._queue_bytes

    # ---- Groups go -----------------------------------------------------------

    def next_write(self, now_ms: int, ticks_ms: int) -> GroupWrite | None:
        """Returns the next group to write, or None if there is nothing to do or one is under way.

        `now_ms` is the time of day, for people; intervals go by `ticks_ms`, which nobody sets.
        """
        if self._in_flight is not None or self._syncing or not self._queue or self.state != OPEN:
            return None
        records = self._take_records()
        parts: list[bytes] = [b""]
        length: i64 = 0
        for record in records:
            parts.append(record.head(self.salt))
            parts.append(record.body)
            length += record.size()
        roll = self.end + GROUP_HEADER_BYTES + length > self._limit
        address = address_of(self.segment_id_next, SEGMENT_HEADER_BYTES) if roll else self.end
        header = GroupHeader(address, length, len(records), self.synced, self._sequence)
        parts[0] = header.encode(self.salt)
        due = self._sync_due(ticks_ms)
        job = GroupWrite(
            records,
            parts,
            segment_id=segment_of(address),
            offset=address - address_of(segment_of(address), 0),
            ticket_first=self.ticket_next - len(self._queue) - len(records),
            sync=self.options.fsync == ALWAYS,
            sync_all=due,
        )
        if roll:
            self._prepare_roll(job, now_ms)
        if due:
            self._synced_ticks = ticks_ms
        self._in_flight = job
        return job

    def _take_records(self) -> list[Record]:
        """Takes as many records as one group holds, and at least one."""
        queued, count_max = len(self._queue), self.options.group_records_max
        bytes_max: i64 = self.options.group_bytes_max
        if queued == 1 or (queued <= count_max and self._queue_bytes <= bytes_max):
            records = self._queue
            self._queue = []
            self._queue_bytes = 0
            self._tied.clear()
            return records
        count = 1
        size = self._queue[0].size()
        # All of them do not fit, so this ends before they do.
        while count < count_max and size + self._queue[count].size() <= bytes_max:
            size += self._queue[count].size()
            count += 1
        first = self.ticket_next - len(self._queue)
        while first + count in self._tied:
            size += self._queue[count].size()
            count += 1
        for ticket in range(first, first + count):
            self._tied.discard(ticket)
        records = self._queue[:count]
        del self._queue[:count]
        self._queue_bytes -= size
        return records

    def _prepare_roll(self, job: GroupWrite, now_ms: int) -> None:
        # What lies before a new segment is durable by then, but in `never` mode, where
        # the header says so and recovery takes its word.
        if self.synced != self.end and self.options.fsync != NEVER:
            job.previous = segment_path(segment_of(self.end))
            synced = self.end
        else:
            synced = self.synced
        header = SegmentHeader(
            job.segment_id,
            self.end,
            synced,
            now_ms,
            FORMAT_VERSION,
            made_bytes=self.options.segment_bytes,
        )
        job.header = header.encode(self.salt)
        job.segment_bytes = self.options.segment_bytes
        self.segment_id_next = job.segment_id + 1

    def _sync_due(self, ticks_ms: int) -> bool:
        return (
            self.options.fsync == INTERVAL
            and ticks_ms - self._synced_ticks >= self.options.fsync_interval_ms
        )

    def next_sync(self, ticks_ms: int) -> SyncTail | None:
        """Returns a sync of what was written since the last, when due (`interval` mode)."""
        if self.state != OPEN or self._in_flight is not None or self._syncing:
            return None
        if self.synced == self.end or not self._limit or not self._sync_due(ticks_ms):
            return None
        self._synced_ticks = ticks_ms
        self._syncing = True
        return SyncTail(segment_of(self.end), self.end)

    # ---- Outcomes ------------------------------------------------------------

    def succeeded(self, job: GroupWrite) -> Outcome:
        """Takes note that the group is written; its records get their addresses. Returns what is
        settled."""
        assert job is self._in_flight
        self._in_flight = None
        address = address_of(job.segment_id, job.offset + GROUP_HEADER_BYTES)
        for record in job.records:
            record.address = address
            address += record.size()
        if job.header:
            if job.previous:
                self.synced = self.end
            self.left = self.close_tail()
            self._heads = [job.header]
            self._limit = address_of(
                job.segment_id, max(job.segment_bytes, job.offset + job.length)
            )
        self._heads.append(job.parts[0] + b"".join(job.parts[1::2]))
        self.end = address
        self._sequence += 1
        if job.sync or job.sync_all:
            self.synced = address
        return Outcome(job.ticket_first, job.ticket_first + len(job.records), None)

    def close_tail(self) -> CloseSegment | None:
        """Closes the last segment, if there is one of this run."""
        if not self._heads:
            return None
        segment_id = segment_of(self.end)
        length = self.end - address_of(segment_id, 0)
        job = CloseSegment(segment_id, length, b"".join(self._heads), self.salt)
        self._heads = []
        self._limit = 0
        return job

    def sync_succeeded(self, job: SyncTail) -> None:
        self._syncing = False
        assert self.synced <= job.end
        self.synced = job.end

    def sync_put_off(self) -> None:
        """The sync could not even begin; the next one comes in its time."""
        self._syncing = False

    def closed(self, job: CloseSegment) -> None:
        """A closed segment is on the disk, whatever the mode."""
        end = address_of(job.segment_id, job.length)
        if end > self.synced:
            self.synced = end

    def failed_once(self, job: GroupWrite, error: Exception) -> Outcome:
        """Takes note that the group found no place: it and all behind it failed, others may
        pass."""
        assert job is self._in_flight
        self._limit = 0
        return self._drop(error)

    def failed(self, error: Exception) -> Outcome:
        """Takes note of a write or sync that failed, or of a bug: nothing is durable from here
        on."""
        self._syncing = False
        self.state = READ_ONLY
        if isinstance(error, StorageError):
            self.reason = str(error)
            return self._drop(error)
        self.reason = f"unexpected {error!r}"
        return self._drop(self.refusal())

    def in_flight(self, job: GroupWrite) -> bool:
        """False for a group that was given up while it was being written."""
        return job is self._in_flight

    def _drop(self, error: Exception) -> Outcome:
        first = self.ticket_next - len(self._queue)
        if self._in_flight is not None:
            first = self._in_flight.ticket_first
        self._in_flight = None
        self._queue = []
        self._queue_bytes = 0
        self._tied.clear()
        return Outcome(first, self.ticket_next, error)

    def close(self) -> None:
        """Ends it in order; one that is read-only stays so, and says why."""
        if self.state == OPEN:
            self.state = CLOSED
