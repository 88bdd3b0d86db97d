"""Entries kept in memory: the tail of every topic, up to a number of bytes.

Entries come in as they become durable, or are read from disk, and leave in that order.
Consumers that keep up find everything here; one that catches up reads from disk in long
runs, and would only wash a cleverer cache out.

Ids of ledgers are too wide to stand in one machine word with that of an entry, so ledgers are
numbered as they come, and those of which nothing is left are forgotten now and then.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from magnetar.model.position_key import NARROW_ENTRY_BITS, narrow_key

__all__ = ["EntryCache"]

# What an entry costs beyond its bytes: the bytes object, the key, the places in dict and deque.
OVERHEAD_BYTES: Final = 170
# Beside two for each entry so many ledgers keep their numbers, whether they have entries or not.
NUMBERS_MIN: Final = 1000


@final
class EntryCache:
    """A dict from (ledger, entry) to bytes that forgets the oldest first."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max: Final = bytes_max
        self.size_bytes: i64 = 0
        # By the number of the ledger and the entry.
        self._entries: Final[dict[int, bytes]] = {}
        # Beside the dict: finding its first key again and again passes over all that left.
        self._order: Final[deque[int]] = deque()
        # From 1 on; and the one that was asked for last, since most come in runs.
        self._numbers: dict[int, int] = {}
        self._next_number: int = 1
        self._last_id: i64 = -1
        self._last_number: int = 0

    def put(self, ledger_id: i64, entry_id: i64, data: bytes) -> None:
        size: i64 = len(data)
        if size + OVERHEAD_BYTES > self.bytes_max:
            return
        number = self._last_number if ledger_id == self._last_id else self._number(ledger_id)
        if number == 0:
            number = self._new_number(ledger_id)
        key = narrow_key(number, int(entry_id))
        if key in self._entries:
            return
        self._entries[key] = data
        self._order.append(key)
        self.size_bytes += size + OVERHEAD_BYTES
        while self.size_bytes > self.bytes_max:
            oldest = self._entries.pop(self._order.popleft())
            self.size_bytes -= len(oldest) + OVERHEAD_BYTES

    def get(self, ledger_id: i64, entry_id: i64) -> bytes | None:
        number = self._last_number if ledger_id == self._last_id else self._number(ledger_id)
        return None if number == 0 else self._entries.get(narrow_key(number, int(entry_id)))

    def count(self) -> int:
        return len(self._entries)

    def _number(self, ledger_id: i64) -> int:
        """Returns the number of a ledger; 0 if it has none."""
        self._last_number = self._numbers.get(ledger_id, 0)
        self._last_id = ledger_id
        return self._last_number

    def _new_number(self, ledger_id: i64) -> int:
        if len(self._numbers) >= NUMBERS_MIN + 2 * len(self._entries):
            self._forget_numbers()
        number = self._next_number
        self._next_number += 1
        self._numbers[ledger_id] = number
        self._last_id = ledger_id
        self._last_number = number
        return number

    def _forget_numbers(self) -> None:
        """Forgets the numbers of ledgers without entries; so rarely that each costs next to
        nothing."""
        live = {key >> NARROW_ENTRY_BITS for key in self._entries}
        self._numbers = {id: number for id, number in self._numbers.items() if number in live}
