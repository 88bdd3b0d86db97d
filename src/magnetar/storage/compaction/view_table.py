"""Where the entries of a compacted view were published: a position for each of its numbers.

A view's entries are numbered from 0 in its own ledger, and keep the positions that they have in
the topic, for that is what they are called by. Both ascend together, so a position is found by
halving. It takes 4 bytes an entry, and a little for each ledger of the topic.

On the disk the table stands behind the kept entries, in pieces of `PIECE_POSITIONS`, each of them
runs of entries of one ledger:

    i64 ledger · u32 n · u32 entry * n        all numbers little-endian
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import CorruptionError
from magnetar.model import Position

__all__ = ["PIECE_POSITIONS", "ViewTable", "piece_count"]

# So many positions are one entry of the log: 32 KiB, which is soon written and soon read.
PIECE_POSITIONS: Final = 8192

RUN: Final = struct.Struct("<qI")
ENTRY_BYTES: Final = 4


def piece_count(positions: int) -> int:
    """Returns how many pieces a table of so many positions has."""
    return -(-positions // PIECE_POSITIONS)


@final
class ViewTable:
    """See the module.

    >>> table = ViewTable()
    >>> for position in (Position(3, 1), Position(3, 7), Position(9, 0)):
    ...     table.add(position)
    >>> table.position(1), table.first_from(Position(3, 2)), table.first_from(Position(9, 1))
    (Position(3, 7), 1, 3)
    """

    def __init__(self) -> None:
        self._entries: Final[array[int]] = array("I")
        # The ledgers in order, and the number of the first entry of each.
        self._ledgers: Final[list[int]] = []
        self._firsts: Final[list[int]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, position: Position) -> None:
        """One more, behind all others."""
        ledger_id = position.ledger_id
        if not self._ledgers or self._ledgers[-1] != ledger_id:
            assert not self._ledgers or self._ledgers[-1] < ledger_id
            self._ledgers.append(ledger_id)
            self._firsts.append(len(self._entries))
        self._entries.append(position.entry_id)

    def position(self, number: i64) -> Position:
        """Where the entry of this number was published."""
        index = bisect_right(self._firsts, number) - 1
        return Position(self._ledgers[index], self._entries[number])

    def first_from(self, position: Position) -> int:
        """The number of the first entry at a position or behind it; the length if there is none."""
        index = bisect_left(self._ledgers, position.ledger_id)
        if index == len(self._ledgers):
            return len(self._entries)
        first = self._firsts[index]
        if self._ledgers[index] > position.ledger_id:
            return first
        end = self._firsts[index + 1] if index + 1 < len(self._firsts) else len(self._entries)
        return bisect_left(self._entries, max(position.entry_id, 0), first, end)

    def ascends(self) -> bool:
        """Whether each is behind the one before, as it must be."""
        for index, first in enumerate(self._firsts):
            if index > 0 and self._ledgers[index - 1] >= self._ledgers[index]:
                return False
            end = self._firsts[index + 1] if index + 1 < len(self._firsts) else len(self._entries)
            for number in range(first + 1, end):
                if self._entries[number - 1] >= self._entries[number]:
                    return False
        return True

    # ---- Bytes ---------------------------------------------------------------

    def encode(self, piece: int) -> bytes:
        """Returns one of its pieces as bytes."""
        first = piece * PIECE_POSITIONS
        end = min(first + PIECE_POSITIONS, len(self._entries))
        parts: list[bytes] = []
        while first < end:
            index = bisect_right(self._firsts, first) - 1
            last = self._firsts[index + 1] if index + 1 < len(self._firsts) else end
            entries = self._entries[first : min(last, end)]
            parts.append(RUN.pack(self._ledgers[index], len(entries)))
            parts.append(entries.tobytes())
            first += len(entries)
        return b"".join(parts)

    def take_in(self, path: str, data: bytes) -> None:
        """Adds a piece behind what is there. Raises CorruptionError if it is none."""
        at = 0
        while at < len(data):
            if len(data) - at < RUN.size:
                raise CorruptionError(path, at, "the table of a compacted view is damaged")
            ledger_id, count = RUN.unpack_from(data, at)
            at += RUN.size
            end = at + ENTRY_BYTES * count
            if count == 0 or end > len(data):
                raise CorruptionError(path, at, "the table of a compacted view is damaged")
            if not self._ledgers or self._ledgers[-1] != ledger_id:
                self._ledgers.append(ledger_id)
                self._firsts.append(len(self._entries))
            self._entries.frombytes(data[at:end])
            at = end
