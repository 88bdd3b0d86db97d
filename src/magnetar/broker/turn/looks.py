"""What all searches through entries together look at in one round of the loop.

A search may pass thousands of entries that it knows already, and reads none of them: the last
message of a topic behind thousands of chunks that never came to anything, or the other chunks of
one among as many. And there may be thousands of searches. So they share the looks of a round (I10):

| the round | a search                         | becomes                                          |
|-----------|----------------------------------|--------------------------------------------------|
| open      | looks at entries                 | over, with the last look                         |
| over      | stops where it is, and waits     | open, in the next round; the line goes on first  |
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.broker.host import Host
from magnetar.broker.turn.pieces import Pieces

__all__ = ["Looks"]


# Less than others do in a round, for a search does it in one round after the other, and threads
# that write want the interpreter in between. A search needs a few to get on.
SHARE: Final = 4
LOOKS_MIN: Final = 3


@final
class Looks:
    """See the module."""

    def __init__(self, host: Host, pieces: Pieces) -> None:
        self._host: Final = host
        self._pieces: Final = pieces
        self._left: i64 = max(pieces.looks // SHARE, LOOKS_MIN)
        self._ends: bool = False
        self._line: Final[deque[Callable[[], None]]] = deque()

    def is_over(self) -> bool:
        """Returns whether nobody may look at anything more in this round."""
        return self._left <= 0

    def take(self, count: i64 = 1) -> None:
        """Counts entries that are looked at."""
        self._left -= count
        if not self._ends:
            self._end_soon()

    def wait(self, go_on: Callable[[], None]) -> None:
        """Calls back when there are looks again."""
        self._line.append(go_on)
        self._end_soon()

    def _end_soon(self) -> None:
        if not self._ends:
            self._ends = True
            self._host.call_soon(self._begin)

    def _begin(self) -> None:
        self._ends = False
        self._left = max(self._pieces.looks // SHARE, LOOKS_MIN)
        if self._line:
            # First, or one that fails would be the last of all.
            self._end_soon()
        waiting = len(self._line)
        while waiting > 0 and not self.is_over():
            waiting -= 1
            self._line.popleft()()
