"""One text of metrics for all who ask at about the same time.

A text may have thirty megabytes, and whoever asks need not read. So there are few of them:

| there is                                         | who asks gets                             |
|--------------------------------------------------|-------------------------------------------|
| none, or it is old                               | a new one, which is made now              |
| one in the making                                | that one, when it is done                 |
| one that is young: a second for a thousand rows, | that one                                  |
| and five at most                                 |                                           |
| `ALIVE_MAX` that slow clients still read         | the newest, however old                   |

How long a slow client may read is the business of `TimedProtocol`.
"""

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import Final

__all__ = ["Scrape", "Scrapes"]

ALIVE_MAX: Final = 2
# So many rows are no work worth sparing.
ROWS_FREE: Final = 100
ROWS_A_SECOND: Final = 1000
AGE_SECONDS_MAX: Final = 5.0


class Scrape:
    """A text in pieces, and how many rows of numbers it was made of."""

    def __init__(self, pieces: list[bytes], rows: int) -> None:
        self.pieces = pieces
        self.rows = rows

    @property
    def young_seconds(self) -> float:
        """How long it is as good as a new one."""
        return 0.0 if self.rows < ROWS_FREE else min(self.rows / ROWS_A_SECOND, AGE_SECONDS_MAX)


class Scrapes:
    """See the module. `make` makes a new one; `clock` gives seconds."""

    def __init__(self, make: Callable[[], Awaitable[Scrape]], clock: Callable[[], float]) -> None:
        self._make = make
        self._clock = clock
        self._last: Scrape | None = None
        self._made_at = 0.0
        self._making: asyncio.Task[Scrape] | None = None
        # Those that somebody still reads, and the last.
        self._alive: weakref.WeakSet[Scrape] = weakref.WeakSet()

    async def get(self) -> Scrape:
        """Returns the text to answer with."""
        last = self._last
        if last is not None and (
            self._clock() - self._made_at < last.young_seconds or len(self._alive) >= ALIVE_MAX
        ):
            return last
        if self._making is None:
            self._making = asyncio.create_task(self._renew())
        # Who asked first may go, and others wait for the same.
        return await asyncio.shield(self._making)

    async def _renew(self) -> Scrape:
        try:
            made = await self._make()
        finally:
            self._making = None
        self._last = made
        self._made_at = self._clock()
        if made.rows >= ROWS_FREE:
            self._alive.add(made)
        return made
