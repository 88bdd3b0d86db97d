"""Keys with a time each, handed out when their time has come.

Nothing waits for another: an earlier time that is added later comes first. The heap may hold
times that no longer count, and is rebuilt when those are many; the dict is the truth.
"""

from heapq import heapify, heappop, heappush
from typing import Final, final

__all__ = ["Deadlines", "earlier"]

# How many outdated times the heap may hold beside the valid ones before it is rebuilt.
STALE_MAX: Final = 64


@final
class Deadlines:
    """See the module. A key's time is brought forward, never put off."""

    def __init__(self) -> None:
        self._due: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: int) -> bool:
        return key in self._due

    def add(self, key: int, due_ms: int) -> None:
        """Sets the key's time, unless it has an earlier one."""
        before = self._due.get(key)
        if before is not None and before <= due_ms:
            return
        self._due[key] = due_ms
        heappush(self._heap, (due_ms, key))
        if len(self._heap) > 2 * len(self._due) + STALE_MAX:
            self._rebuild()

    def remove(self, key: int) -> None:
        self._due.pop(key, None)

    def remove_through(self, key: int) -> None:
        """Forgets the key and all that come before it in the topic."""
        for other in list(self._due):
            if other <= key:
                del self._due[other]

    def clear(self) -> None:
        self._due.clear()
        self._heap.clear()

    def next_ms(self) -> int | None:
        """Returns the earliest time there is."""
        heap = self._heap
        while heap and self._due.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def take_due(self, now_ms: int) -> list[int]:
        keys: list[int] = []
        while (due_ms := self.next_ms()) is not None and due_ms <= now_ms:
            key = heappop(self._heap)[1]
            del self._due[key]
            keys.append(key)
        return keys

    def _rebuild(self) -> None:
        self._heap = [(due_ms, key) for key, due_ms in self._due.items()]
        heapify(self._heap)


def earlier(one: int | None, other: int | None) -> int | None:
    """Returns the earlier of two times, of which None never comes.

    >>> earlier(5, 3), earlier(None, 3), earlier(None, None)
    (3, 3, None)
    """
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
