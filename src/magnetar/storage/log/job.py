"""What the store wants done to the disk, as values that any thread may carry out.

The store decides on the caller's thread; a `Job` says exactly what to do and is run
elsewhere, then handed back. Jobs of the write lane commit groups, one at a time. Chores
do the rest: they prepare spare segments, close old ones, write indexes and remove files.
A job touches nothing but the disk and its own fields.

    an error of        lasts (read-only)                      passes (tried again, or refused once)
    GroupWrite         once its first byte may be written     before: no segment could be made
    SyncTail           always                                 -
    CloseSegment       until the segment is cut and synced    after: only its heads are missing
    all other chores   -                                      always: nothing builds on them yet
    any of them        -                                      DiskShortageError: nothing was done
"""

from abc import ABC, abstractmethod
from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import CorruptionError, DiskFullError, DiskShortageError, StorageError
from magnetar.storage.disk.disk import Disk
from magnetar.storage.ledger.ledger_index import IndexColumns, index_path
from magnetar.storage.log.heads import decode_heads, encode_heads, heads_length
from magnetar.storage.log.record import (
    HEAD_BYTES,
    Record,
    is_lost,
    offset_of,
    record_intact,
    segment_of,
)
from magnetar.storage.log.scan import Scan
from magnetar.storage.log.segment import heads_path, segment_path

__all__ = [
    "CloseSegment",
    "GroupWrite",
    "Job",
    "LetGo",
    "MeasureSpace",
    "OpenScan",
    "PrepareSpare",
    "ReadBodies",
    "RemoveFiles",
    "SyncTail",
    "WriteIndex",
    "read_bodies",
]

# What a sync by itself is called, where it fails and is tried again.
SYNC: Final = "a sync of the log"

ZEROS_BYTES: Final = 4 << 20


class Job(ABC):
    """Something to do to the disk."""

    # How long that took, as whoever ran it says.
    took_us: int = 0

    @property
    def kind(self) -> str:
        """What it is, for whoever runs the store."""
        return "something"

    @property
    def lasting(self) -> bool:
        """Whether an error of it lasts: nobody knows any more what is on the disk.

        Else nothing is lost by doing it once more.
        """
        return False

    @abstractmethod
    def run(self, disk: Disk) -> None:
        """Does it, or raises `DiskError`. May be run again after a `DiskShortageError`."""


@final
class GroupWrite(Job):
    """Writes one group, in a new segment if need be, and makes it durable if asked to."""

    def __init__(
        self,
        records: list[Record],
        parts: list[bytes],
        *,
        segment_id: i64,
        offset: i64,
        ticket_first: int,
        sync: bool,
        sync_all: bool,
    ) -> None:
        self.records: Final = records
        # The group header, then head and body of each record by turns.
        self.parts: Final = parts
        self.segment_id: Final[i64] = segment_id
        self.offset: Final[i64] = offset
        self.ticket_first: Final = ticket_first
        self.sync: Final = sync
        self.sync_all: Final = sync_all
        self.length: Final[i64] = sum([len(part) for part in parts])
        # For a new segment.
        self.header: bytes = b""
        self.segment_bytes: int = 0
        self.previous: str = ""  # the file to sync before the log goes on in another
        self.spare: str = ""
        self.reserve: str = ""
        # What came of it.
        self.claimed: str = ""
        self.filled: bool = False
        self._made: bool = False
        # Whether what fails now fails before any byte of it is written.
        self._making: bool = False

    @property
    def kind(self) -> str:
        return "a group of records"

    @property
    def lasting(self) -> bool:
        return not self._making

    def run(self, disk: Disk) -> None:
        path = segment_path(self.segment_id)
        try:
            data = b"".join([self.header, *self.parts])
        except MemoryError as error:
            raise DiskShortageError("write to", path, "out of memory") from error
        if self.header and not self._made:
            if self.previous:
                disk.sync(self.previous)
            self._making = True
            self._make_segment(disk, path)
            self._making = False
            self._made = True
        disk.write(path, self.offset - len(self.header), data, sync=self.sync)
        if self.sync_all:
            disk.sync(path)

    def _make_segment(self, disk: Disk, path: str) -> None:
        if not self.spare:
            try:
                disk.create(path, max(self.segment_bytes, self.offset + self.length))
            except DiskFullError:
                self.filled = True
                if not self.reserve:
                    raise
            else:
                return
        self.claimed = self.spare or self.reserve
        disk.rename(self.claimed, path)


@final
class SyncTail(Job):
    """Makes durable what was written to the last segment without a sync of its own."""

    def __init__(self, segment_id: i64, end: i64) -> None:
        self.segment_id: Final[i64] = segment_id
        self.end: Final[i64] = end

    @property
    def kind(self) -> str:
        return SYNC

    @property
    def lasting(self) -> bool:
        return True

    def run(self, disk: Disk) -> None:
        disk.sync(segment_path(self.segment_id))


@final
class CloseSegment(Job):
    """Gives unused space of a segment back, and writes its heads beside it."""

    def __init__(self, segment_id: i64, length: i64, heads: bytes, salt: int) -> None:
        self.segment_id: Final[i64] = segment_id
        self.length: Final[i64] = length
        self._heads: Final = heads
        self._salt: Final = salt
        self._truncated: bool = False

    @property
    def kind(self) -> str:
        return "closing a segment"

    @property
    def lasting(self) -> bool:
        return not self._truncated

    def run(self, disk: Disk) -> None:
        if not self._truncated:
            # This also syncs, so heads never speak of bytes that a power cut may take.
            disk.truncate(segment_path(self.segment_id), self.length)
            self._truncated = True
        heads = encode_heads(self._heads, self.length, self._salt)
        disk.replace(heads_path(self.segment_id), heads)


@final
class WriteIndex(Job):
    """Writes the index file of a ledger, all or nothing."""

    def __init__(self, ledger_id: int, data: bytes) -> None:
        self.ledger_id: Final = ledger_id
        self.data: Final = data

    @property
    def kind(self) -> str:
        return "writing the index of a ledger"

    def run(self, disk: Disk) -> None:
        disk.replace(index_path(self.ledger_id), self.data)


@final
class LetGo(Job):
    """Drops the last hold on index files that were replaced.

    The file system frees their space then and there. That takes a fifth of a millisecond each,
    and tens of them when it waits for its own journal.
    """

    def __init__(self, indexes: list[IndexColumns]) -> None:
        self._indexes: Final = indexes

    def run(self, disk: Disk) -> None:
        self._indexes.clear()


class Reading(Job):
    """Reads something that the log can do without: what goes wrong waits for who wanted it."""

    def __init__(self) -> None:
        self.done: bool = False
        self.error: StorageError | None = None

    def run(self, disk: Disk) -> None:
        try:
            self.read(disk)
        except StorageError as error:
            self.error = error
        self.done = True

    @abstractmethod
    def read(self, disk: Disk) -> None: ...


@final
class OpenScan(Reading):
    """Reads what a closed segment holds: its heads, or all of it where they are no good."""

    def __init__(self, segment_id: int, length: int, salt: int) -> None:
        super().__init__()
        self._segment_id: Final = segment_id
        self._length: Final = length
        self._salt: Final = salt
        self.scan: Scan | None = None

    def read(self, disk: Disk) -> None:
        path = heads_path(self._segment_id)
        if disk.size(path) >= 0:
            heads = disk.read(path, 0, disk.size(path))
            if heads_length(heads, self._salt) == self._length:
                self.scan = decode_heads(heads, self._segment_id, self._salt)
                return
        path = segment_path(self._segment_id)
        self.scan = Scan(disk.read(path, 0, disk.size(path)), self._segment_id, self._salt)


@final
class ReadBodies(Reading):
    """Reads the bodies of records that are to be copied."""

    def __init__(self, records: list[tuple[int, int]], salt: int) -> None:
        super().__init__()
        self._records: Final = records
        self._salt: Final = salt
        self.bodies: list[bytes] = []

    def read(self, disk: Disk) -> None:
        self.bodies = read_bodies(disk, self._records, self._salt)


def read_bodies(disk: Disk, records: list[tuple[int, int]], salt: int) -> list[bytes]:
    """The bodies of the records of these addresses and sizes, checked."""
    places = [(segment_path(segment_of(at)), int(offset_of(at)), size) for at, size in records]
    out: list[bytes] = []
    for (path, offset, size), data in zip(places, disk.read_many(places), strict=True):
        if len(data) != size or not record_intact(data, salt):
            raise CorruptionError(path, offset, "the record is damaged")
        if is_lost(data):
            raise CorruptionError(path, offset, "the entry is lost")
        out.append(data[HEAD_BYTES:])
    return out


@final
class RemoveFiles(Job):
    def __init__(self, paths: list[str]) -> None:
        self.paths: Final = paths

    @property
    def kind(self) -> str:
        return "removing files"

    def run(self, disk: Disk) -> None:
        for path in self.paths:
            disk.remove(path)


@final
class PrepareSpare(Job):
    """Sets the space of a future segment aside, and fills it with zeros if it is worth it.

    Writing to space that was written before changes no metadata of the file system, which
    halves the time of a group of 200 KiB. PostgreSQL does the same to its log.
    """

    def __init__(self, path: str, size: int, *, zeroed: bool) -> None:
        self.path: Final = path
        self._size: Final = size
        self._zeroed: Final = zeroed

    @property
    def kind(self) -> str:
        return "preparing a spare segment"

    def run(self, disk: Disk) -> None:
        disk.create(self.path, self._size)
        if not self._zeroed:
            return
        for offset in range(0, self._size, ZEROS_BYTES):
            count = min(ZEROS_BYTES, self._size - offset)
            disk.write(self.path, offset, bytes(count), sync=False)
            # Little by little, so that groups under way do not wait behind all of it.
            disk.sync(self.path)


@final
class MeasureSpace(Job):
    def __init__(self) -> None:
        self.free_bytes: int = 0

    @property
    def kind(self) -> str:
        return "measuring the space that is free"

    def run(self, disk: Disk) -> None:
        self.free_bytes = disk.free_bytes()
