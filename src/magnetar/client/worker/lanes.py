"""Which message may be handled now: those of one key one after another, all others at once.

A Key_Shared subscription keeps the order of a key by giving it to one consumer. A consumer
that handles many messages at once would lose that order again, so here a key is a lane, and a
message waits until the one before it in its lane is done. Messages without a lane wait for
nobody.
"""

from collections import deque
from typing import Generic, TypeVar, final

__all__ = ["Lanes"]

T = TypeVar("T")


@final
class Lanes(Generic[T]):
    """Messages that are in hand, by lane. All of them count as in hand, those that wait too."""

    def __init__(self) -> None:
        # Behind the message that is being handled; a lane without one is not here.
        self._waiting: dict[str, deque[T]] = {}

    def enter(self, lane: str | None, item: T) -> bool:
        """Says whether a message may be handled now; if not, it waits in its lane."""
        if lane is None:
            return True
        waiting = self._waiting.get(lane)
        if waiting is None:
            self._waiting[lane] = deque()
            return True
        waiting.append(item)
        return False

    def leave(self, lane: str | None) -> T | None:
        """Returns the message that is next in a lane whose first is done, if there is one."""
        if lane is None:
            return None
        waiting = self._waiting[lane]
        if waiting:
            return waiting.popleft()
        del self._waiting[lane]
        return None

    def clear(self) -> list[T]:
        """Takes out all that wait, and returns them: nobody will handle them here."""
        found = [item for waiting in self._waiting.values() for item in waiting]
        for waiting in self._waiting.values():
            waiting.clear()
        return found
