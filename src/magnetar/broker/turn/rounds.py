"""What all dispatchers together do in one round of the loop, and who of them stands in line.

One publish may be for thousands of subscriptions, and one group on the disk may have acks of as
many. Each dispatcher does little in one event, but a round of the loop has the events of all of
them, and sockets are read between rounds only. So they share what is done in a round (I10):

| a round is | a dispatcher that has work | becomes                                         |
|------------|----------------------------|-------------------------------------------------|
| open       | does some of it            | full, when all have done so much together       |
| full       | waits in line              | open, in the next round; the line is first then |

Work is counted in bytes that are handed out. A small entry takes as long as one of ENTRY_BYTES:
some 500 are handed out in one round.
"""

from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.broker.host import Host

if TYPE_CHECKING:
    from magnetar.broker.topic.dispatch.dispatcher import Dispatcher

__all__ = ["ENTRY_BYTES", "ROUND_BYTES_MAX", "Rounds"]

ROUND_BYTES_MAX: Final = 256 * 1024
ENTRY_BYTES: Final = 512
# What it costs to ask one in line, though it may find nothing to do.
LINE_BYTES: Final = 128


@final
class Rounds:
    """See the module."""

    def __init__(self, host: Host) -> None:
        self._host: Final = host
        self._line: Final[deque[Dispatcher]] = deque()
        self._spent: i64 = 0
        self._ends: bool = False

    @property
    def full(self) -> bool:
        return self._spent >= ROUND_BYTES_MAX

    def spend(self, size: i64) -> None:
        """A dispatcher has done so much in this round."""
        self._spent += size
        self._end_soon()

    def fill(self) -> None:
        """A dispatcher has done enough for all in this round."""
        self.spend(ROUND_BYTES_MAX)

    def wait(self, dispatcher: "Dispatcher") -> None:
        """Puts a dispatcher that has something left to do in line; its `work_on` is called once for
        that."""
        self._line.append(dispatcher)
        self._end_soon()

    def _end_soon(self) -> None:
        if not self._ends:
            self._ends = True
            self._host.call_soon(self._begin)

    def _begin(self) -> None:
        """A new round. Who comes back to the line meanwhile is for the next one."""
        self._ends = False
        self._spent = 0
        left = len(self._line)
        while left > 0 and not self.full:
            left -= 1
            self.spend(LINE_BYTES)
            self._line.popleft().work_on()
        if self._line:
            self._end_soon()
