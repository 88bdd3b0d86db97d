"""Where the entries of a ledger are: on the heap while it grows, in a mapped file after.

Four facts for each entry: the address of its record, its length, its batch size and its
publish time. An open ledger keeps them in arrays, 20 bytes an entry; a sealed one in a
file of columns that costs no heap. `index_file.py` has such files, and how many are at hand.

The file, all numbers little-endian:

    0   8s   "MGNRIDX\\n"
    8   u32  crc32c of bytes 12 to 63, begun from the store's salt
    12  u32  version of the data format
    16  i64  ledger id
    24  i64  number of entries, n
    32  i64  sum of their lengths
    40  i64  number of segments that hold them, s
    48  u32  crc32c of everything behind byte 64, begun from the store's salt
    52       zero bytes
    64  i64  n addresses
        i64  n publish times in ms
        i64  s segment ids, then s numbers of bytes that the ledger has in each
        u32  n lengths
        u32  n batch sizes
"""

import struct
import sys
from abc import ABC, abstractmethod
from array import array
from typing import Final, final

from mypy_extensions import i64

from magnetar.storage.log.record import HEAD_BYTES, crc_bytes, segment_of
from magnetar.storage.log.segment import FORMAT_VERSION
from magnetar.wire.checksum import crc32c

__all__ = [
    "ENTRY_BYTES",
    "HeapIndex",
    "IndexColumns",
    "IndexRewrite",
    "LedgerIndex",
    "Moves",
    "decode_index",
    "index_path",
    "ledger_id_of",
]

MAGIC: Final = b"MGNRIDX\n"
HEADER: Final = struct.Struct("<8sIIqqqqI12x")
HEADER_TAIL: Final = struct.Struct("<IqqqqI12x")
HEADER_BYTES: Final = 64
# What an entry takes up in a file.
ENTRY_BYTES: Final = 24
FOLDER: Final = "index"
SUFFIX: Final = ".idx"

# Columns are mapped as they lie in the file, which is little-endian.
assert sys.byteorder == "little"

MISSING: Final = -1
# Publish times are kept as 32-bit distances from the first entry's. Clients set them as
# they like; one that is more than 24 days away goes to a dict and leaves this behind.
FAR: Final = -0x80000000
NEAR_MAX: Final = 0x7FFFFFFF


class LedgerIndex(ABC):
    """The four facts about each entry, by entry id."""

    @abstractmethod
    def count(self) -> int: ...

    @abstractmethod
    def size_bytes(self) -> int:
        """Returns the sum of the entries' lengths."""

    @abstractmethod
    def address(self, entry_id: int) -> int: ...

    @abstractmethod
    def length(self, entry_id: int) -> int: ...

    @abstractmethod
    def batch_size(self, entry_id: int) -> int: ...

    @abstractmethod
    def message_count(self, first: int, end: int) -> int:
        """Returns the messages of entries `first` to `end` - 1; an unknown size counts as 1."""

    @abstractmethod
    def publish_time_ms(self, entry_id: int) -> int: ...

    @abstractmethod
    def usage(self) -> dict[int, int]:
        """Returns how many bytes of the log the ledger has in each segment."""

    def at_hand(self) -> "LedgerIndex":
        """Returns the same index, for whoever asks much of it at once and then forgets it."""
        return self


@final
class HeapIndex(LedgerIndex):
    """The index of a ledger that may still grow, or whose file is not written yet."""

    def __init__(self, ledger_id: int = 0) -> None:
        room = ledger_id % 8
        self._addresses: Final = _column("q", room)
        self._lengths: Final = _column("I", room)
        self._batch_sizes: Final = _column("I", room)
        self._times: Final = _column("i", room)
        self._times_far: Final[dict[int, int]] = {}
        self._time_base: int = 0
        self._time_base_set: bool = False
        self._size_bytes: int = 0
        # Bytes per segment. Entries come segment by segment, so the one at hand is kept apart.
        self._usage: Final[dict[int, int]] = {}
        self._segment_id: i64 = MISSING
        self._segment_bytes: i64 = 0
        # No record of the ledger's entries stands behind this address.
        self.address_last: i64 = MISSING

    def put(
        self, entry_id: i64, address: i64, *, length: i64, batch_size: i64, publish_time_ms: i64
    ) -> int:
        """Sets the facts of an entry; returns the address that it had before, or -1.

        Entries come in order while a ledger grows, and copies of them at any time. Only
        recovery, which may find a copy of what is gone, leaves gaps for a while.
        """
        count: i64 = len(self._addresses)
        if address > self.address_last:
            self.address_last = address
        if entry_id <= count:
            self._use(address, HEAD_BYTES + length)
        if entry_id == count:
            if not self._time_base_set:
                self._time_base = publish_time_ms
                self._time_base_set = True
            self._addresses.append(address)
            self._lengths.append(length)
            self._batch_sizes.append(batch_size)
            self._times.append(self._near(entry_id, publish_time_ms))
            self._size_bytes += length
            return MISSING
        if entry_id > count:
            self._leave_gap(entry_id - count)
            return self.put(
                entry_id,
                address,
                length=length,
                batch_size=batch_size,
                publish_time_ms=publish_time_ms,
            )
        before = self._addresses[entry_id]
        if before != MISSING:
            self._use(before, -HEAD_BYTES - self._lengths[entry_id])
        self._size_bytes += length - self._lengths[entry_id]
        self._addresses[entry_id] = address
        self._lengths[entry_id] = length
        self._batch_sizes[entry_id] = batch_size
        self._times[entry_id] = self._near(entry_id, publish_time_ms)
        return before

    def _use(self, address: i64, size: i64) -> None:
        segment_id = segment_of(address)
        if segment_id != self._segment_id:
            self._count_usage()
            self._segment_id = segment_id
        self._segment_bytes += size

    def _count_usage(self) -> None:
        if self._segment_bytes != 0:
            total = self._usage.get(self._segment_id, 0) + self._segment_bytes
            self._segment_bytes = 0
            if total:
                self._usage[self._segment_id] = total
            else:
                del self._usage[self._segment_id]

    def _leave_gap(self, count: int) -> None:
        self._addresses.extend([MISSING] * count)
        self._lengths.extend([0] * count)
        self._batch_sizes.extend([0] * count)
        self._times.extend([0] * count)

    def _near(self, entry_id: int, publish_time_ms: int) -> int:
        distance = publish_time_ms - self._time_base
        if FAR < distance <= NEAR_MAX:
            self._times_far.pop(entry_id, None)
            return distance
        self._times_far[entry_id] = publish_time_ms
        return FAR

    def log_bytes(self, first: int) -> int:
        """Returns how much of the log the entries from `first` on take up."""
        lengths = self._lengths[first:]
        return sum(lengths) + HEAD_BYTES * len(lengths)

    def missing(self) -> int:
        """Returns the first entry id without an address, or -1."""
        try:
            return self._addresses.index(MISSING)
        except ValueError:
            return -1

    def count(self) -> int:
        return len(self._addresses)

    def size_bytes(self) -> int:
        return self._size_bytes

    def address(self, entry_id: int) -> int:
        return self._addresses[entry_id]

    def length(self, entry_id: int) -> int:
        return self._lengths[entry_id]

    def batch_size(self, entry_id: int) -> int:
        return self._batch_sizes[entry_id]

    def message_count(self, first: int, end: int) -> int:
        sizes = self._batch_sizes[first:end]
        return sum(sizes) + sizes.count(0)

    def publish_time_ms(self, entry_id: int) -> int:
        distance = self._times[entry_id]
        return self._times_far[entry_id] if distance == FAR else self._time_base + distance

    def usage(self) -> dict[int, int]:
        self._count_usage()
        return dict(self._usage)

    def encode(self, ledger_id: int, salt: int) -> bytes:
        """Returns the whole index file."""
        return _encode(
            ledger_id,
            salt,
            count=self.count(),
            size_bytes=self._size_bytes,
            usage=self.usage(),
            addresses=self._addresses.tobytes(),
            times=array("q", self._all_times()).tobytes(),
            halves=self._lengths.tobytes() + self._batch_sizes.tobytes(),
        )

    def _all_times(self) -> list[int]:
        base = self._time_base
        times = [base + distance for distance in self._times]
        for entry_id, time_ms in self._times_far.items():
            times[entry_id] = time_ms
        return times


def _column(kind: str, room: int) -> "array[int]":
    """Returns an empty column, with room for so many entries.

    An array that is full gets room for 8 more, or a sixteenth, and moves. Ledgers that are
    written by turns are equally long, and would all move in one group if they began alike.
    """
    column: array[int] = array(kind, [0] * room)
    del column[:]  # which leaves it its room
    return column


@final
class IndexColumns(LedgerIndex):
    """What an index file holds, read where it lies."""

    def __init__(self, data: memoryview, *, count: int, size_bytes: int, segments: int) -> None:
        words = 2 * count + 2 * segments
        self._data: Final = data
        self._words: Final = data[HEADER_BYTES : HEADER_BYTES + 8 * words].cast("q")
        self._halves: Final = data[HEADER_BYTES + 8 * words :].cast("I")
        self._count: Final = count
        self._size_bytes: Final = size_bytes
        self._segments: Final = segments

    def count(self) -> int:
        return self._count

    def size_bytes(self) -> int:
        return self._size_bytes

    def address(self, entry_id: int) -> int:
        return self._words[entry_id]

    def length(self, entry_id: int) -> int:
        return self._halves[entry_id]

    def batch_size(self, entry_id: int) -> int:
        return self._halves[self._count + entry_id]

    def message_count(self, first: int, end: int) -> int:
        sizes = self._halves[self._count + first : self._count + max(first, end)].tolist()
        return sum(sizes) + sizes.count(0)

    def publish_time_ms(self, entry_id: int) -> int:
        return self._words[self._count + entry_id]

    def usage(self) -> dict[int, int]:
        first = 2 * self._count
        ids = self._words[first : first + self._segments].tolist()
        sizes = self._words[first + self._segments :].tolist()
        return dict(zip(ids, sizes, strict=True))

    def column_addresses(self) -> bytes:
        return self._words[: self._count].tobytes()

    def column_times(self) -> bytes:
        return self._words[self._count : 2 * self._count].tobytes()

    def column_halves(self) -> bytes:
        """Lengths, then batch sizes."""
        return self._halves.tobytes()

    def end(self) -> int:
        """Returns the address behind the last record in the log, wherever its entry id is."""
        addresses = self._words[: self._count].tolist()
        last = max(addresses)
        return last + HEAD_BYTES + self.length(addresses.index(last))

    def intact(self, salt: int) -> bool:
        """Returns whether the columns have the checksum that the header claims."""
        claimed: int = HEADER.unpack_from(self._data, 0)[7]
        return claimed == crc32c(bytes(self._data[HEADER_BYTES:]), salt)


@final
class Moves:
    """Entries of one ledger that went elsewhere, each of them once."""

    def __init__(self) -> None:
        self.entry_ids: Final[list[int]] = []
        self.addresses: Final[list[int]] = []

    def add(self, entry_id: int, address: int) -> None:
        self.entry_ids.append(entry_id)
        self.addresses.append(address)


@final
class IndexRewrite:
    """The index file of a ledger of which entries moved, made little by little."""

    def __init__(self, index: IndexColumns, ledger_id: int, moves: Moves) -> None:
        self.index: Final = index
        self.ledger_id: Final = ledger_id
        self._moves: Final = moves
        self._next: int = 0
        self._addresses: Final[array[int]] = array("q")
        self._addresses.frombytes(index.column_addresses())
        self._usage: Final = index.usage()

    def enter(self, count_max: int) -> int:
        """Enters some moves, and says how many; 0 if there are no more."""
        index, moves, addresses = self.index, self._moves, self._addresses
        first = self._next
        self._next = min(first + count_max, len(moves.entry_ids))
        # Entries mostly come from and go to the segments of those before them.
        source: i64 = MISSING
        target: i64 = MISSING
        moved: i64 = 0
        for i in range(first, self._next):
            entry_id, after = moves.entry_ids[i], moves.addresses[i]
            before = addresses[entry_id]
            if segment_of(before) != source or segment_of(after) != target:
                _shift(self._usage, source, target, moved)
                source, target, moved = segment_of(before), segment_of(after), 0
            moved += HEAD_BYTES + index.length(entry_id)
            addresses[entry_id] = after
        _shift(self._usage, source, target, moved)
        return self._next - first

    def segments(self) -> list[int]:
        """Returns the segments that the file names."""
        return [segment_id for segment_id, size in self._usage.items() if size]

    def encode(self, salt: int) -> bytes:
        """Returns the whole index file."""
        index = self.index
        return _encode(
            self.ledger_id,
            salt,
            count=index.count(),
            size_bytes=index.size_bytes(),
            usage={segment_id: size for segment_id, size in self._usage.items() if size},
            addresses=self._addresses.tobytes(),
            times=index.column_times(),
            halves=index.column_halves(),
        )


def _shift(usage: dict[int, int], source: i64, target: i64, size: i64) -> None:
    """Counts bytes that went from one segment to another."""
    if size:
        usage[source] -= size
        usage[target] = usage.get(target, 0) + size


def _encode(
    ledger_id: int,
    salt: int,
    *,
    count: int,
    size_bytes: int,
    usage: dict[int, int],
    addresses: bytes,
    times: bytes,
    halves: bytes,
) -> bytes:
    ids = array("q", list(usage.keys())).tobytes()
    sizes = array("q", list(usage.values())).tobytes()
    rest = b"".join((addresses, times, ids, sizes, halves))
    tail = HEADER_TAIL.pack(
        FORMAT_VERSION, ledger_id, count, size_bytes, len(usage), crc32c(rest, salt)
    )
    return MAGIC + crc_bytes(tail, salt) + tail + rest


def decode_index(data: memoryview, ledger_id: int, salt: int) -> IndexColumns | None:
    """Returns the index in a file, or None unless its header is whole and of that ledger."""
    if len(data) < HEADER_BYTES:
        return None
    header = bytes(data[:HEADER_BYTES])
    magic, crc, version, id, count, size_bytes, segments, _ = HEADER.unpack_from(header, 0)
    if magic != MAGIC or version != FORMAT_VERSION or id != ledger_id:
        return None
    if crc != crc32c(header[12:], salt):
        return None
    if len(data) != HEADER_BYTES + ENTRY_BYTES * count + 16 * segments:
        return None
    return IndexColumns(data, count=count, size_bytes=size_bytes, segments=segments)


def index_path(ledger_id: int) -> str:
    return f"{FOLDER}/{ledger_id:016x}{SUFFIX}"


def ledger_id_of(name: str) -> int:
    """Returns the id in the name of an index file, or -1 if it is no such name."""
    stem, dot, suffix = name.partition(".")
    if dot + suffix != SUFFIX or len(stem) != 16:
        return -1
    try:
        return int(stem, 16)
    except ValueError:
        return -1
