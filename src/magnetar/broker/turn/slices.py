"""Many things to do for one peer's sake: a few now, and others have their turn in between.

A connection may end with thousands of consumers, and whoever did all that follows at once
would hold everybody up. `in_slices` does a few of them, and goes on in a later turn, when
what it did so far is done: else thousands of callbacks would wait for the same group of
the journal, and all be called with it.

| state | a slice is done           | its last promise is done    | becomes                      |
|-------|---------------------------|-----------------------------|------------------------------|
| busy  | wait for its promises     | the next slice, in a moment | done, when nothing is left   |
"""

from collections.abc import Callable
from typing import Final, TypeAlias, final

from magnetar.broker.host import Host
from magnetar.broker.promise import Promise

__all__ = ["SLICE", "TOLD_AT_ONCE", "Step", "in_slices"]

# So many are done at once. The dearest is a consumer of Key_Shared: up to 2 ms, if there are
# thousands of them.
SLICE: Final = 5
# So many of those who wait for one answer hear of it at once: each may be a log-in that is refused.
TOLD_AT_ONCE: Final = 20

# Something to do, and when it is done.
Step: TypeAlias = Callable[[], Promise[None]]


def in_slices(host: Host, steps: list[Step], size: int = SLICE) -> Promise[None]:
    """Takes these steps in order, the first few at once; the promise is kept after the last.

    One that raises is told of as a fault, and takes nothing from the others.
    """
    slices = _Slices(host, steps, size)
    slices.go_on()
    return slices.promise


@final
class _Slices:
    def __init__(self, host: Host, steps: list[Step], size: int) -> None:
        self.promise: Final[Promise[None]] = Promise()
        self._host: Final = host
        self._steps: Final = steps
        self._size: Final = size
        self._next: int = 0
        # Those of the present slice that are not done, and one while it is being done.
        self._open: int = 0

    def go_on(self) -> None:
        first = self._next
        self._next = min(first + self._size, len(self._steps))
        self._open = 1
        for index in range(first, self._next):
            self._open += 1
            self._take(self._steps[index])
        self._have_done()

    def _take(self, step: Step) -> None:
        try:
            step().when_done(lambda error: self._have_done())
        except Exception as error:
            self._host.fault("a step of many failed", error)
            self._have_done()

    def _have_done(self) -> None:
        self._open -= 1
        if self._open > 0:
            return
        if self._next < len(self._steps):
            self._host.call_soon(self.go_on)
        else:
            self.promise.keep(None)
