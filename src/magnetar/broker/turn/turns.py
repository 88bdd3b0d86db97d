"""Whose turn it is: sessions that have commands left, one after the other.

A session handles what it read at once, up to the cost of a short turn; up to that of a whole
one if nobody waits and it is the only one in this round of the loop, so that what a publisher
sends is not torn into small groups on its way to the disk. What is left waits here behind all
others that wait, and one session has its turn in each round of the loop: however many are busy,
whoever comes with something new waits for one of them at most.

Work is counted in units, so that a simulation, in which no time passes while code runs, has
the same turns in every run. A unit is about 10 us of the interpreted build. A clock is
looked at besides, for units are an estimate.

| what                                                   | units                             |
|--------------------------------------------------------|-----------------------------------|
| any command                                            | 1                                 |
| a cold command                                         | COLD_COST more                    |
| an answer                                              | 1 for each 2^ANSWER_SHIFT bytes   |
| an ACK                                                 | 1 for each id in it               |
| fields of a command that is long (`long_command.py`)   | 1 for each UNIT_FIELDS            |
| ids in a REDELIVER_UNACKNOWLEDGED                      | 1 for each UNIT_IDS               |
| a FLOW                                                 | 1 for each message that it brings |
| names looked at for a list of topics                   | see `topic_search.py`             |
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias, final

from magnetar.broker.host import Host

if TYPE_CHECKING:
    from magnetar.broker.peer import Peer

__all__ = [
    "ANSWER_SHIFT",
    "COLD_COST",
    "COMMAND_COST_MAX",
    "FIRST_TURN_COST",
    "FIRST_TURN_MS",
    "LOOK_COST",
    "TURN_COST",
    "TURN_MS",
    "TurnWatcher",
    "Turns",
]

# A turn ends when it has cost so much, or taken so long. The first, which a session has as soon
# as it has read something, is shorter but for one: all that have may be there in one round of
# the loop.
TURN_COST: Final = 300
TURN_MS: Final = 4
FIRST_TURN_COST: Final = 100
FIRST_TURN_MS: Final = 2
# After so many units a session looks at the clock and at its outbox.
LOOK_COST: Final = 16
COLD_COST: Final = 10
ANSWER_SHIFT: Final = 13
# No single command costs more: an answer of 5 MiB does not, nor 500 small messages.
COMMAND_COST_MAX: Final = 700

# Is told of each turn: whose it was, what it cost, and how many bytes wait for that peer.
TurnWatcher: TypeAlias = Callable[[str, int, int], None]


@final
class Turns:
    """See the module."""

    def __init__(self, host: Host) -> None:
        self._host: Final = host
        self._waiting: Final[deque[Peer]] = deque()
        # Whether a session had a long first turn in this round of the loop.
        self._had_long: bool = False
        # For simulations, which judge that turns are short.
        self.watcher: TurnWatcher | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def first_is_long(self) -> bool:
        """Whether a session that has read something now may have a whole turn at once."""
        return not self._had_long and not self._waiting

    def had_long(self, cost: int) -> None:
        """A session had a whole turn at once, and it has cost so much."""
        if cost > FIRST_TURN_COST:
            self._had_long = True
            if not self._waiting:
                self._host.call_soon(self._end_round)

    def _end_round(self) -> None:
        self._had_long = False

    def queue(self, peer: "Peer") -> None:
        """The peer has something left to do. It is called once for that."""
        self._waiting.append(peer)
        if len(self._waiting) == 1:
            self._host.call_soon(self._next)

    def _next(self) -> None:
        self._end_round()
        peer = self._waiting.popleft()
        if self._waiting:
            # First, or a turn that fails would be the last of all.
            self._host.call_soon(self._next)
        peer.take_turn(TURN_COST, TURN_MS)
