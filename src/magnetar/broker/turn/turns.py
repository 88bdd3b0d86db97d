"""Whose turn it is: sessions that have commands left, one after the other.

A session handles what it read at once, up to the cost of a short turn; up to that of a whole
one if nobody waits and it is the first in this round of the loop, so that what a publisher
sends is not torn into small groups on its way to the disk. What is left waits here behind all
others that have had a turn, and one of them has another in each round of the loop. Thousands may
have read something in one round: when they have cost two whole turns together, the others wait
here too, in a line of their own, which goes on with the next round.

| in each round                         | cost together | who is left          |
|---------------------------------------|---------------|----------------------|
| those that wait for their first turn  | a whole turn  | waits on             |
| one of those that have had a turn     | a whole turn  | is the last of these |
| those that have read something        | two of them   | waits with the first |

So a round is bounded, however many are busy, and whoever comes with something new waits for those
that came before with something new, each of which has a short turn.

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
| a message that is not stored                           | 1 for each subscription           |
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
    "FIRST_TURNS_COST",
    "FIRST_TURN_COST",
    "FIRST_TURN_MS",
    "LOOK_COST",
    "TURN_COST",
    "TURN_MS",
    "TurnWatcher",
    "Turns",
]

# A turn ends when it has cost so much, or taken so long. The first is shorter but for one.
TURN_COST: Final = 300
TURN_MS: Final = 4
FIRST_TURN_COST: Final = 100
FIRST_TURN_MS: Final = 2
# Those that have read something in one round have first turns until these cost so much together.
FIRST_TURNS_COST: Final = 2 * TURN_COST
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
        # Those that have had a turn, and those that have not and found the round full.
        self._waiting: Final[deque[Peer]] = deque()
        self._fresh: Final[deque[Peer]] = deque()
        self._scheduled: bool = False
        # What first turns have cost in this round of the loop, and in others before it as long as
        # that is little. When it is not: that the round ends, and when they have taken too long.
        self._first_cost: int = 0
        self._ends: bool = False
        self._end_ms: int = 0
        # For simulations, which judge that turns are short.
        self.watcher: TurnWatcher | None = None

    def __len__(self) -> int:
        return len(self._waiting) + len(self._fresh)

    @property
    def first_is_long(self) -> bool:
        """Whether a session that has read something now may have a whole turn at once."""
        return not self._ends and not self._waiting and not self._fresh

    @property
    def full(self) -> bool:
        """Whether a session that has read something now must wait for its first turn."""
        if self._fresh:
            return True
        if not self._ends:
            return False
        return self._first_cost >= FIRST_TURNS_COST or self._host.ticks_ms() >= self._end_ms

    def had_first(self, cost: int) -> None:
        """A session had its first turn, and it has cost so much."""
        self._first_cost += cost + 1
        if self._first_cost > FIRST_TURN_COST and not self._ends:
            self._ends = True
            self._end_ms = self._host.ticks_ms() + TURN_MS
            if not self._scheduled:
                self._host.call_soon(self._end_round)

    def _end_round(self) -> None:
        self._ends = False
        self._first_cost = 0

    def queue(self, peer: "Peer") -> None:
        """Puts a peer that has something left to do in line. It is called once for that."""
        self._waiting.append(peer)
        self._schedule()

    def queue_first(self, peer: "Peer") -> None:
        """Puts a peer that has something to do first in line, for the round is full. It is called
        once for that."""
        self._fresh.append(peer)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._host.call_soon(self._next)

    def _next(self) -> None:
        self._scheduled = False
        self._end_round()
        if len(self) > 1:
            # First, or a turn that fails would be the last of all.
            self._schedule()
        self._have_first_turns()
        if self._waiting:
            self._waiting.popleft().take_turn(TURN_COST, TURN_MS)

    def _have_first_turns(self) -> None:
        left, cost = len(self._fresh), 0
        end_ms = self._host.ticks_ms() + TURN_MS
        while left > 0 and cost < TURN_COST and self._host.ticks_ms() < end_ms:
            left -= 1
            cost += self._fresh.popleft().take_turn(FIRST_TURN_COST, FIRST_TURN_MS) + 1
