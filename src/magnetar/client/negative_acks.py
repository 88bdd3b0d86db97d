"""Messages that an application could not handle, and when to ask for them again.

What is redelivered is an entry: the broker keeps back those of its messages that are
acked. So an entry has one due time here. Refusing it once more never moves that time
back, only forward, and no entry waits for another: `Deadlines` keeps all of them by time.
"""

from heapq import heapify, heappop, heappush
from typing import Final, final

from magnetar.client.backoff import MultiplierRedeliveryBackoff

__all__ = ["Deadlines", "NegativeAcks"]

# How many outdated times the heap may hold beside the valid ones before it is rebuilt.
STALE_MAX: Final = 64


@final
class Deadlines:
    """Keys with a time each; `take_due` hands out, earliest first, those whose time came.

    The heap may hold times that no longer count; those in `_due` are the truth.
    """

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
        """The earliest time there is."""
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


@final
class NegativeAcks:
    """Entries to be redelivered after `delay_ms`, or as `backoff` says of their count."""

    def __init__(self, delay_ms: int, backoff: MultiplierRedeliveryBackoff | None = None) -> None:
        self._delay_ms: Final = delay_ms
        self._backoff: Final = backoff
        self.deadlines: Final = Deadlines()

    def add(self, key: int, redelivery_count: int, now_ms: int) -> None:
        backoff = self._backoff
        delay_ms = self._delay_ms if backoff is None else backoff.next_ms(redelivery_count)
        self.deadlines.add(key, now_ms + delay_ms)
