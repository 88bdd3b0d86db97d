"""A set of positions, in order, that takes little memory and any ledger.

Positions are keys (see `ledgers.py`). There is a bitmap of entries for each ledger. Adding and
removing take the time of a search among the ledgers, which are few; what removes or returns
many takes as long as there are many.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import islice
from typing import Final, final

from pyroaring import BitMap

from magnetar.model.position_key import NARROW_ENTRY_BITS, NARROW_ENTRY_MASK

__all__ = ["KeySet"]


@final
class KeySet:
    """Keys of positions, none of which is negative.

    >>> keys = KeySet()
    >>> keys.add(7 << NARROW_ENTRY_BITS)
    >>> keys.add(5 << NARROW_ENTRY_BITS)
    >>> [key >> NARROW_ENTRY_BITS for key in keys.first(10)], len(keys)
    ([5, 7], 2)
    """

    def __init__(self) -> None:
        self._entries: Final[dict[int, BitMap]] = {}
        # The ledgers that have entries here, in order.
        self._ledger_ids: Final[list[int]] = []
        self._count: int = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: int) -> bool:
        entries = self._entries.get(key >> NARROW_ENTRY_BITS)
        return entries is not None and key & NARROW_ENTRY_MASK in entries

    def add(self, key: int) -> None:
        ledger_id, entry_id = key >> NARROW_ENTRY_BITS, key & NARROW_ENTRY_MASK
        entries = self._entries.get(ledger_id)
        if entries is None:
            entries = BitMap()
            self._entries[ledger_id] = entries
            insort(self._ledger_ids, ledger_id)
        if entry_id not in entries:
            entries.add(entry_id)
            self._count += 1

    def discard(self, key: int) -> None:
        ledger_id, entry_id = key >> NARROW_ENTRY_BITS, key & NARROW_ENTRY_MASK
        entries = self._entries.get(ledger_id)
        if entries is None or entry_id not in entries:
            return
        entries.remove(entry_id)
        self._count -= 1
        if not entries:
            del self._entries[ledger_id]
            del self._ledger_ids[bisect_left(self._ledger_ids, ledger_id)]

    def min(self) -> int:
        """Returns the first key. There must be one."""
        ledger_id = self._ledger_ids[0]
        first: int = self._entries[ledger_id].min()
        return (ledger_id << NARROW_ENTRY_BITS) + first

    def first(self, n: int, start: int = 0) -> list[int]:
        """Returns the first `n` keys, of those from `start` on."""
        keys: list[int] = []
        ledger_id = start >> NARROW_ENTRY_BITS
        for index in range(bisect_left(self._ledger_ids, ledger_id), len(self._ledger_ids)):
            if len(keys) >= n:
                break
            found: Iterable[int] = self._entries[self._ledger_ids[index]]
            if self._ledger_ids[index] == ledger_id:
                found = self._entries[ledger_id].iter_equal_or_larger(start & NARROW_ENTRY_MASK)
            _put_keys(keys, self._ledger_ids[index], islice(found, n - len(keys)))
        return keys

    def take(self, n: int) -> list[int]:
        """Removes and returns the first `n` keys."""
        keys = self.first(n)
        if keys:
            self.remove_through(keys[-1])
        return keys

    def remove_through(self, key: int) -> None:
        """Removes all keys up to one, and it too."""
        ledger_id = key >> NARROW_ENTRY_BITS
        gone = bisect_left(self._ledger_ids, ledger_id)
        for index in range(gone):
            self._count -= len(self._entries.pop(self._ledger_ids[index]))
        entries = self._entries.get(ledger_id)
        if entries is not None:
            self._count -= len(entries)
            entries.remove_range(0, (key & NARROW_ENTRY_MASK) + 1)
            self._count += len(entries)
            if not entries:
                del self._entries[ledger_id]
                gone += 1
        del self._ledger_ids[:gone]

    def clear(self) -> None:
        self._entries.clear()
        self._ledger_ids.clear()
        self._count = 0


def _put_keys(keys: list[int], ledger_id: int, entry_ids: Iterable[int]) -> None:
    base = ledger_id << NARROW_ENTRY_BITS
    for entry_id in entry_ids:
        keys.append(base + entry_id)
