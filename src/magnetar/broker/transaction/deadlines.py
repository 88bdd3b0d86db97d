"""When open transactions have to end: one timer for all of them, and a few ends in each event.

Thousands may have been opened at once, for the same time. A timer of its own for each would end
all of them in one round of the loop, and nobody else would have a turn meanwhile.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, final

from mypy_extensions import i64

from magnetar.broker.host import Host, Timer

__all__ = ["Deadlines"]

# What the ends of one event may cost together, as whoever carries them out counts it.
COST_AT_ONCE: Final = 30
# Deadlines of transactions that ended stay until there are so many more of them than others.
STALE_MAX: Final = 1000


@final
class Deadlines:
    """See the module. `over` is called with a number, and returns what that cost."""

    def __init__(self, host: Host, over: Callable[[int], i64]) -> None:
        self._host: Final = host
        self._over: Final = over
        # When, by number; of what the heap has, only that counts which is here too.
        self._at: Final[dict[int, int]] = {}
        self._heap: list[tuple[int, int]] = []
        self._timer: Timer | None = None
        self._timer_at: int = 0
        self._busy: bool = False

    def __contains__(self, number: int) -> bool:
        return number in self._at

    def set(self, number: int, delay_ms: int) -> None:
        """Calls back after so many milliseconds, or at the time that is set later."""
        at = self._host.ticks_ms() + delay_ms
        self._at[number] = at
        heappush(self._heap, (at, number))
        self._wait()

    def cancel(self, number: int) -> None:
        """Does not call back."""
        self._at.pop(number, None)
        if len(self._heap) > 2 * len(self._at) + STALE_MAX:
            self._heap = [(at, number) for number, at in self._at.items()]
            heapify(self._heap)

    def stop(self) -> None:
        """Calls back no more."""
        self._at.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        """Sets the timer to the first one."""
        if self._busy or not self._heap:
            return
        at = self._heap[0][0]
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._host.call_later(max(0, at - self._host.ticks_ms()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._busy = True
        self._go_on()

    def _go_on(self) -> None:
        now_ms = self._host.ticks_ms()
        cost: i64 = 0
        while self._heap and self._heap[0][0] <= now_ms:
            if cost >= COST_AT_ONCE:
                self._host.call_soon(self._go_on)
                return
            at, number = heappop(self._heap)
            if self._at.get(number) == at:
                del self._at[number]
                cost += self._over(number)
        self._busy = False
        self._wait()
