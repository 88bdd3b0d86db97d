"""Long answers let others have their turn, by the clock (I10).

How long a piece of work takes depends on the machine and on the build; a clock knows. Whoever
works for long calls `rest` every so often, and most calls cost a look at the clock.
"""

import asyncio
import time
from typing import Final

__all__ = ["Breather"]

# A slice: less than what anybody notices, and long enough that turns cost little beside it.
SLICE_SECONDS: Final = 0.002


class Breather:
    """See the module."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._slice_began = self._began

    @property
    def seconds(self) -> float:
        """How long it has been at work, the turns of others included."""
        return time.perf_counter() - self._began

    async def rest(self) -> None:
        """Lets others have their turn, if it is time."""
        if time.perf_counter() - self._slice_began >= SLICE_SECONDS:
            await asyncio.sleep(0)
            self._slice_began = time.perf_counter()
