"""The seeks of a history: where each led to, and how it ended.

| outcome | when                                                | then                           |
|---------|-----------------------------------------------------|--------------------------------|
| done    | the broker answered well                            | it begins anew from its target |
| unknown | the line ended first, or the disk failed            | it may have begun anew, or not |
| refused | the broker said no, and not because of its disk     | nothing changed                |

A reset by an operator is a seek of nobody's. A seek that was refused is none. From the moment
that one comes until it is answered the broker takes no acks, so one that comes later and is
confirmed is of the time after it, whatever became of the seek.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from magnetar.testing.checker.history import (
    Fact,
    History,
    LineEnded,
    Place,
    ResetCame,
    ResetEnded,
    SeekAnswered,
    SeekCame,
    Subscribed,
)

__all__ = ["NOWHERE", "Line", "Seats", "Seek", "Seeks", "Where"]

Line = tuple[int, int]  # a consumer of a connection
Where = tuple[str, str]  # a topic and a subscription

# Of a consumer that never subscribed.
NOWHERE: Final[Where] = ("", "")

# A broker that could not write does not know itself.
UNKNOWN: Final = ("PersistenceError", "UnknownError")

# What tells of seeks.
OF_SEEKS: Final = (Subscribed, ResetCame, ResetEnded, SeekCame, SeekAnswered, LineEnded)


class Seats:
    """Which consumer of which line belongs to what."""

    def __init__(self) -> None:
        self.topic: dict[Line, Where] = {}
        self.type: dict[Where, str] = {}
        self.name: dict[Line, str] = {}

    def take(self, fact: Fact) -> None:
        if isinstance(fact, Subscribed):
            where = (fact.topic, fact.subscription)
            self.topic[fact.line, fact.consumer] = where
            self.type[where] = fact.type
            self.name[fact.line, fact.consumer] = fact.name


@dataclass(frozen=True)
class Seek:
    """One that was not refused: the facts with these numbers are its beginning and its end."""

    where: Where
    seeker: str
    # What comes first after it; None if that is not known.
    target: Place | None
    came: int
    ended: int
    done: bool

    def passes(self, place: Place) -> bool:
        """Returns whether it may leave a message out."""
        return self.target is None or place < self.target


class Seeks:
    """All seeks of a history, by the facts that they begin and end with, and by where."""

    def __init__(self, history: History) -> None:
        self.came: dict[int, Seek] = {}
        self.ended: dict[int, list[Seek]] = {}
        self._by_where: dict[Where, list[Seek]] = {}
        for seek in sorted(_seeks(history), key=lambda seek: seek.came):
            self.came[seek.came] = seek
            self.ended.setdefault(seek.ended, []).append(seek)
            self._by_where.setdefault(seek.where, []).append(seek)

    def last_done(self, where: Where) -> Seek | None:
        done = [seek for seek in self._by_where.get(where, []) if seek.done]
        return done[-1] if done else None

    def unknown_since(self, where: Where, at: int) -> list[Seek]:
        """Returns those that came after a fact and may have been done."""
        return [s for s in self._by_where.get(where, []) if not s.done and s.came > at]


def _seeks(history: History) -> Iterator[Seek]:
    seats = Seats()
    asked: dict[tuple[int, int], tuple[int, SeekCame]] = {}

    def seek(line: int, request: int, ended: int, *, done: bool) -> Seek:
        came, fact = asked.pop((line, request))
        where = seats.topic[line, fact.consumer]
        return Seek(where, seats.name[line, fact.consumer], fact.target, came, ended, done)

    resets: dict[int, tuple[int, ResetCame]] = {}

    def reset(number: int, ended: int, *, done: bool) -> Seek:
        came, fact = resets.pop(number)
        where = (fact.topic, fact.subscription)
        return Seek(where, "", fact.target, came, ended, done)

    for at, fact in history.among(*OF_SEEKS):
        seats.take(fact)
        if isinstance(fact, ResetCame):
            resets[fact.number] = (at, fact)
        elif isinstance(fact, ResetEnded) and fact.number in resets:
            if fact.outcome == "refused":
                del resets[fact.number]
            else:
                yield reset(fact.number, at, done=fact.outcome == "done")
        elif isinstance(fact, SeekCame):
            asked[fact.line, fact.request] = (at, fact)
        elif isinstance(fact, SeekAnswered):
            if not fact.error or fact.error in UNKNOWN:
                yield seek(fact.line, fact.request, at, done=not fact.error)
            else:
                del asked[fact.line, fact.request]
        elif isinstance(fact, LineEnded):
            for line, request in [key for key in asked if key[0] == fact.line]:
                yield seek(line, request, at, done=False)
    for line, request in list(asked):
        yield seek(line, request, len(history.facts), done=False)
    for number in list(resets):
        yield reset(number, len(history.facts), done=False)
