"""Entries kept in memory: the tail of every topic, up to a number of bytes.

Entries come in as they become durable, or are read from disk, and leave in that order.
Consumers that keep up find everything here; one that catches up reads from disk in long
runs, and would only wash a cleverer cache out.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

__all__ = ["EntryCache"]

# What an entry costs beyond its bytes: the bytes object, the key, the places in dict and deque.
OVERHEAD_BYTES: Final = 170
LEDGER_SHIFT: Final = 32


@final
class EntryCache:
    """A dict from (ledger, entry) to bytes that forgets the oldest first."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max: Final = bytes_max
        self.size_bytes: i64 = 0
        self._entries: Final[dict[int, bytes]] = {}
        # Beside the dict: finding its first key again and again passes over all that left.
        self._order: Final[deque[int]] = deque()

    def put(self, ledger_id: i64, entry_id: i64, data: bytes) -> None:
        key = (ledger_id << LEDGER_SHIFT) | entry_id
        size: i64 = len(data)
        if key in self._entries or size + OVERHEAD_BYTES > self.bytes_max:
            return
        self._entries[key] = data
        self._order.append(key)
        self.size_bytes += size + OVERHEAD_BYTES
        while self.size_bytes > self.bytes_max:
            oldest = self._entries.pop(self._order.popleft())
            self.size_bytes -= len(oldest) + OVERHEAD_BYTES

    def get(self, ledger_id: i64, entry_id: i64) -> bytes | None:
        return self._entries.get((ledger_id << LEDGER_SHIFT) | entry_id)

    def count(self) -> int:
        return len(self._entries)
