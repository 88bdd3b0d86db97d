"""What is to happen on a simulated loop, and in which order.

Exactly the orders that asyncio's own loop or uvloop can produce, for a bug in any other order
would be no bug:

- `call_soon` is a queue, first in, first out. That is documented, and locks, queues, streams
  and the steps of one task rest on it. So it is never shuffled.
- The loop works in ticks: what is ready at the beginning of a tick runs, and what it made
  ready runs in the next one. Between two ticks the loop looks for what came from outside.
- Arrivals on different sockets that are found in one tick come in any order: shuffled.
  Within one direction of one connection the order of bytes is kept.
- Timers run in the order of their times, those of the same time in any order: shuffled.
  They come before or after the arrivals of that tick (uvloop and asyncio differ in that).
- uvloop's clock ticks in milliseconds, is read once a tick, and its timers are rounded: they
  may run half a millisecond early, and those of one millisecond in the order in which they
  were set. The seed decides whether a run has that clock or asyncio's exact one.
- What another thread posts (`call_soon_threadsafe`, executors, the store's writer) joins
  the queue between any two callbacks, not only between ticks.
- How much comes together in one tick is decided by how long callbacks take, which is drawn
  at random for each of them; now and then one takes as long as a collection of garbage or
  a busy machine would make it take.
"""

import heapq
from collections import deque
from random import Random
from typing import Final

from magnetar.testing.sim.task import SimHandle, SimTimerHandle

__all__ = ["AnyHandle", "SimSchedule"]

AnyHandle = SimHandle | SimTimerHandle


class SimSchedule:
    """What is ready, what comes at a time, and what other threads do at a time."""

    def __init__(self, random: Random) -> None:
        self.ready: Final[deque[AnyHandle]] = deque()
        self._random: Final = random
        # By time, then by a tie that chance breaks, then as they came.
        self._events: Final[list[tuple[int, float, int, AnyHandle]]] = []
        self.asides: Final[list[tuple[int, float, int, SimHandle]]] = []

    def add_event(self, when_ns: int, serial: int, handle: AnyHandle, *, in_order: bool) -> None:
        """A timer, or an arrival from outside; `in_order` among those of the same time."""
        tie = 0.0 if in_order else self._random.random()
        heapq.heappush(self._events, (when_ns, tie, serial, handle))

    def add_aside(self, when_ns: int, serial: int, handle: SimHandle) -> None:
        """What another thread does."""
        heapq.heappush(self.asides, (when_ns, self._random.random(), serial, handle))

    def admit(self, now_ns: int) -> None:
        """What came from outside until now joins the queue."""
        if not self._events or self._events[0][0] > now_ns:
            return
        first = heapq.heappop(self._events)[3]
        if not self._events or self._events[0][0] > now_ns:
            # The common case, with the same draw.
            self._random.random()
            self.ready.append(first)
            return
        due: list[AnyHandle] = [first]
        while self._events and self._events[0][0] <= now_ns:
            due.append(heapq.heappop(self._events)[3])
        timers = [handle for handle in due if isinstance(handle, SimTimerHandle)]
        arrivals = [handle for handle in due if isinstance(handle, SimHandle)]
        self._random.shuffle(arrivals)
        if self._random.random() < 0.5:
            self.ready.extend(timers)
            self.ready.extend(arrivals)
        else:
            self.ready.extend(arrivals)
            self.ready.extend(timers)

    def take_aside(self, now_ns: int) -> SimHandle | None:
        """Returns the next thing that another thread did until now."""
        while self.asides and self.asides[0][0] <= now_ns:
            handle = heapq.heappop(self.asides)[3]
            if not handle.is_void():
                return handle
        return None

    def next_ns(self) -> int | None:
        """Returns when something happens next that is not ready yet; None if nothing does."""
        while self._events and self._events[0][3].is_void():
            heapq.heappop(self._events)
        while self.asides and self.asides[0][3].is_void():
            heapq.heappop(self.asides)
        if not self.asides:
            return self._events[0][0] if self._events else None
        aside_ns = self.asides[0][0]
        return min(aside_ns, self._events[0][0]) if self._events else aside_ns

    def clear(self) -> None:
        self.ready.clear()
        self._events.clear()
        self.asides.clear()
