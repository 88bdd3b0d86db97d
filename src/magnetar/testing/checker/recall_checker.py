"""The judge of I5: what was skipped, and confirmed to be taken back, is handed to nobody.

A program that has no connection cannot be asked for what it has; if it was without one when
the skip was answered, it may go on handing that out until it is back. A seek, or an operator's
reset, brings back what was skipped before it.
"""

from collections.abc import Iterable
from typing import Final

from magnetar.testing.checker.history import (
    History,
    LineEnded,
    Place,
    Recalled,
    Received,
    ResetCame,
    SeekCame,
    SkipAsked,
    Subscribed,
)
from magnetar.testing.checker.seeks import NOWHERE, Seats, Where
from magnetar.testing.checker.violation import Violation

__all__ = ["taken_back"]


def taken_back(history: History) -> Iterable[Violation]:
    """I5: after a skip was answered, no program is handed what it named."""
    seats, away = Seats(), _Away()
    # Who was away, of each message that was taken back.
    recalled: dict[tuple[Where, Place], set[str]] = {}
    # Skips that no seek came after; one of these begins anew what was skipped before it.
    asked: dict[tuple[Where, tuple[Place, ...]], None] = {}
    for fact in history.facts:
        seats.take(fact)
        if isinstance(fact, Subscribed):
            where = (fact.topic, fact.subscription)
            away.came(where, fact)
            for key, names in recalled.items():
                if key[0] == where:
                    names.discard(fact.name)
        elif isinstance(fact, LineEnded):
            away.went(fact.line)
        elif isinstance(fact, (SeekCame, ResetCame)):
            where = _moved(fact, seats)
            recalled = {key: names for key, names in recalled.items() if key[0] != where}
            asked = {key: None for key in asked if key[0] != where}
        elif isinstance(fact, SkipAsked):
            asked[(fact.topic, fact.subscription), fact.places] = None
        elif isinstance(fact, Recalled):
            where = (fact.topic, fact.subscription)
            if (where, fact.places) in asked:
                recalled.update({(where, place): away.names(where) for place in fact.places})
        elif isinstance(fact, Received):
            excused = recalled.get(((fact.topic, fact.subscription), fact.place))
            if excused is not None and fact.consumer.partition(".")[0] not in excused:
                yield Violation("I5", f"{fact} was skipped, and taken back from everybody")


def _moved(fact: SeekCame | ResetCame, seats: Seats) -> Where:
    if isinstance(fact, ResetCame):
        return fact.topic, fact.subscription
    return seats.topic.get((fact.line, fact.consumer), NOWHERE)


class _Away:
    """Which consumers were there and have no connection now, by their names."""

    def __init__(self) -> None:
        self._line: Final[dict[tuple[Where, str], int]] = {}
        self._away: Final[dict[tuple[Where, str], None]] = {}

    def came(self, where: Where, fact: Subscribed) -> None:
        self._line[where, fact.name] = fact.line
        self._away.pop((where, fact.name), None)

    def went(self, line: int) -> None:
        self._away.update((key, None) for key, on in self._line.items() if on == line)

    def names(self, where: Where) -> set[str]:
        return {name for at, name in self._away if at == where}
