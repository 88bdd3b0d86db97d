"""When Python's collector of cyclic garbage runs: a little at a time, and never over all of it.

Left to itself the collector looks at every object of the process whenever there is a quarter more
of them. With 5,000 loaded topics that takes 22 ms, in which nobody is served (I10). Nearly all
that it looks at then stays: topics, subscriptions, connections.

| run       | when                                    | what it looks at                         |
|-----------|-----------------------------------------|------------------------------------------|
| automatic | as ever: after 700, and 10 times 700,   | new objects; a millisecond at most       |
|           | new objects                             |                                          |
| short     | `SHORT_RUNS` of the larger ones ran     | what came since the last short run; then |
|           |                                         | what stays is put aside (`gc.freeze`)    |
| thorough  | `LEFT_MAX` objects may have been left   | everything, what was put aside too       |
|           | behind, in a moment when nobody waits;  |                                          |
|           | four times as many, at any moment;      |                                          |
|           | or there are four times as many memory  |                                          |
|           | blocks as after the last one            |                                          |

What is put aside is freed as ever when nothing refers to it. Only cycles that die after they were
put aside wait for a thorough run. Those that the broker makes are known: a connection that ends
leaves some forty objects behind, a topic that is unloaded about a hundred. So what they take is
bounded, and a broker that grows, to thousands of topics or consumers, is not looked through for
it. The last rule is for cycles that nobody knows of.

The collector belongs to the process: `magnetar serve` sets this up, and a broker inside of
another program (`magnetar.testing`) leaves the collector alone.
"""

import asyncio
import gc
import sys
from collections.abc import Callable
from typing import Final

__all__ = ["THRESHOLDS", "GarbageRuns"]

# New objects until the collector looks at them, and how often it does before it looks at those
# that stayed: Python's own choice until 3.12. Its third is never reached.
THRESHOLDS: Final = (700, 10, 1 << 30)
# So many automatic runs of the second kind leave some 30,000 objects: three milliseconds.
SHORT_RUNS: Final = 4
# So many objects may be left behind before a quiet moment is used to look for them: 10 MB.
LEFT_MAX: Final = 100_000
# Few memory blocks are soon four times as many: so many are always allowed.
SPARE_BLOCKS: Final = 300_000
# A thorough run that is due waits for a quiet moment, and looks for one so often.
LOOK_SECONDS: Final = 0.05


class GarbageRuns:
    """See the module.

    `left` tells how many objects may have been left behind since the start, in cycles, and
    `quiet` whether nobody waits for anything just now.
    """

    def __init__(self, left: Callable[[], int], quiet: Callable[[], bool]) -> None:
        self._left = left
        self._quiet = quiet
        # What `left` told at the last thorough run.
        self._left_before = 0
        self._loop = asyncio.get_running_loop()
        self._automatic = 0
        self._due: asyncio.TimerHandle | None = None
        self._before = gc.get_threshold()
        # How many memory blocks there were after the last thorough run.
        self.blocks = 0
        # How many runs there were.
        self.short = 0
        self.thorough = 0

    def start(self) -> None:
        """Puts aside what there is."""
        gc.set_threshold(*THRESHOLDS)
        self.run_thorough()
        gc.callbacks.append(self._seen)

    def stop(self) -> None:
        """Leaves the collector as it was."""
        gc.callbacks.remove(self._seen)
        if self._due is not None:
            self._due.cancel()
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def _seen(self, phase: str, info: dict[str, int]) -> None:
        """The collector ran by itself, in whatever thread made the last object."""
        if phase != "stop" or info["generation"] != 1:
            return
        self._automatic += 1
        if self._automatic == SHORT_RUNS:
            self._loop.call_soon_threadsafe(self.run_short)

    def run_short(self) -> None:
        """Looks at what is new, and sees whether everything is to be looked at."""
        self._automatic = 0
        self.short += 1
        gc.collect()
        gc.freeze()
        if self._due is None:
            self._look()

    def _look(self) -> None:
        self._due = None
        left = self._left() - self._left_before
        many = sys.getallocatedblocks() > 4 * self.blocks + SPARE_BLOCKS
        if many or left > 4 * LEFT_MAX or (left > LEFT_MAX and self._quiet()):
            self.run_thorough()
        elif left > LEFT_MAX:
            self._due = self._loop.call_later(LOOK_SECONDS, self._look)

    def run_thorough(self) -> None:
        """Looks at everything."""
        self.thorough += 1
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._left_before = self._left()
        self.blocks = sys.getallocatedblocks()
