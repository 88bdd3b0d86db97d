"""The index files of sealed ledgers: their heads in memory, their columns when they are asked for.

A mapped file costs a descriptor and one of the maps that a process may have, and a broker has
a file for each ledger. So only some are at hand. What recovery, trimming and stats want to know
of a ledger (how many entries and bytes, in which segments) stays on the heap.

| a file             | becomes                                                              |
|--------------------|----------------------------------------------------------------------|
| known by its head  | at hand, when somebody asks for an entry                              |
| at hand            | known by its head, when others need the room and it was not used since|
|                    | the last time that somebody needed room                               |
| replaced, or its   | released: nobody asks again                                           |
| ledger is gone     |                                                                      |

A file that was replaced says the same of all but addresses, and the old addresses are good until
the new file counts. So it does not matter which of the two is read in between.
"""

from typing import Final, final

from magnetar.errors import CorruptionError
from magnetar.storage.disk.disk import Disk
from magnetar.storage.ledger.ledger_index import IndexColumns, LedgerIndex, decode_index, index_path

__all__ = ["IndexFiles", "MappedIndex"]

# Files up to a page are read, not mapped, and cost no descriptor. So much of them is at hand.
SMALL_BYTES: Final = 4096
SMALL_BYTES_MAX: Final = 16 << 20


@final
class MappedIndex(LedgerIndex):
    """The index of a sealed ledger, in a file."""

    def __init__(
        self,
        files: "IndexFiles",
        ledger_id: int,
        count: int,
        size_bytes: int,
        usage: dict[int, int],
    ) -> None:
        self.ledger_id: Final = ledger_id
        self._files: Final = files
        self._count: Final = count
        self._size_bytes: Final = size_bytes
        self._usage: Final = usage
        # For `IndexFiles`: the columns while they are at hand, and whether they were used.
        self.held: IndexColumns | None = None
        self.used: bool = False

    def columns(self) -> IndexColumns:
        """Returns the file itself. Raises `DiskError` if it cannot be had."""
        held = self.held
        if held is None:
            return self._files.load(self)
        self.used = True
        return held

    def at_hand(self) -> LedgerIndex:
        return self.columns()

    def release(self) -> IndexColumns | None:
        """Forgets the columns, and returns those at hand: the caller frees them."""
        return self._files.release(self)

    def count(self) -> int:
        return self._count

    def size_bytes(self) -> int:
        return self._size_bytes

    def address(self, entry_id: int) -> int:
        return self.columns().address(entry_id)

    def length(self, entry_id: int) -> int:
        return self.columns().length(entry_id)

    def batch_size(self, entry_id: int) -> int:
        return self.columns().batch_size(entry_id)

    def message_count(self, first: int, end: int) -> int:
        return self.columns().message_count(first, end)

    def publish_time_ms(self, entry_id: int) -> int:
        return self.columns().publish_time_ms(entry_id)

    def usage(self) -> dict[int, int]:
        return self._usage

    def end(self) -> int:
        """Returns the address behind the last record in the log, wherever its entry id is."""
        return self.columns().end()

    def intact(self, salt: int) -> bool:
        """Returns whether the columns have the checksum that the header claims."""
        columns = self.held or self._files.decode(self)
        return columns is not None and columns.intact(salt)


@final
class IndexFiles:
    """See the module."""

    def __init__(self, disk: Disk, salt: int) -> None:
        self._disk: Final = disk
        self._salt: Final = salt
        self._mapped: Final = _Shelf(disk.maps_max())
        self._small: Final = _Shelf(SMALL_BYTES_MAX)

    def find(self, ledger_id: int) -> MappedIndex | None:
        """Returns the index file of a ledger, or None unless its header is whole.

        A small file is read anyway, so its columns must be whole as well; those of others are
        looked at when they are loaded.
        """
        data = self._disk.map(index_path(ledger_id))
        columns = decode_index(data, ledger_id, self._salt)
        if columns is None:
            return None
        index = self._known(ledger_id, columns)
        if len(data) <= SMALL_BYTES:
            if not columns.intact(self._salt):
                return None
            self._hold(index, columns, len(data))
        return index

    def written(self, ledger_id: int, data: bytes) -> MappedIndex:
        """Returns the index in a file that was just written."""
        columns = decode_index(memoryview(data), ledger_id, self._salt)
        assert columns is not None
        return self._known(ledger_id, columns)

    def _known(self, ledger_id: int, columns: IndexColumns) -> MappedIndex:
        return MappedIndex(self, ledger_id, columns.count(), columns.size_bytes(), columns.usage())

    def load(self, index: MappedIndex) -> IndexColumns:
        """Has the columns at hand, and others not if there are too many."""
        path = index_path(index.ledger_id)
        data = self._disk.map(path)
        columns = decode_index(data, index.ledger_id, self._salt)
        if columns is None or columns.count() != index.count() or not columns.intact(self._salt):
            reason = "the index file is damaged; stop the broker and remove it, it is made anew"
            raise CorruptionError(path, 0, reason)
        self._hold(index, columns, len(data))
        return columns

    def decode(self, index: MappedIndex) -> IndexColumns | None:
        """Returns what the file has, unless another ledger's head is in front of it."""
        data = self._disk.map(index_path(index.ledger_id))
        columns = decode_index(data, index.ledger_id, self._salt)
        return columns if columns is not None and columns.count() == index.count() else None

    def _hold(self, index: MappedIndex, columns: IndexColumns, size: int) -> None:
        index.held = columns
        # Whoever looks once, at one after the other, pushes out nobody who comes again.
        index.used = False
        if size <= SMALL_BYTES:
            self._small.put(index, size)
        else:
            self._mapped.put(index, 1)

    def release(self, index: MappedIndex) -> IndexColumns | None:
        held = index.held
        index.held = None
        self._small.remove(index)
        self._mapped.remove(index)
        return held


@final
class _Shelf:
    """Indexes whose columns are at hand, up to a weight. What was used has a second chance."""

    def __init__(self, weight_max: int) -> None:
        self._weight_max: Final = weight_max
        self._weight: int = 0
        # In the order in which they are asked to leave, with their weights.
        self._held: Final[dict[MappedIndex, int]] = {}

    def put(self, index: MappedIndex, weight: int) -> None:
        while self._held and self._weight + weight > self._weight_max:
            self._push_out()
        self._held[index] = weight
        self._weight += weight

    def _push_out(self) -> None:
        first = next(iter(self._held))
        weight = self._held.pop(first)
        if first.used:
            first.used = False
            self._held[first] = weight
        else:
            first.held = None
            self._weight -= weight

    def remove(self, index: MappedIndex) -> None:
        self._weight -= self._held.pop(index, 0)
