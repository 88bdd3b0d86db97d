"""Entries that change hands by the thousand, a piece in each event.

A consumer may hold tens of thousands of entries. When it leaves, or wants them all again, or when
an operator clears what it holds, each of them goes somewhere else; in one event that would hold
everybody up (I10). So these are *handovers*, which stand in line:

| a handover is | each entry is                     | with the last one                      |
|---------------|-----------------------------------|----------------------------------------|
| a leave       | given back                        | its consumer is taken out              |
| a redelivery  | given back, and counted as that   | its consumer is served again           |
| a clearance   | let go of: it is acked, or gone   | -                                      |

What is small, and finds nobody in line, is done at once. Between two pieces all is as it
should be: an entry that is still to be given back is held as before, so nobody else gets
others of its key (I4), and it may be acked. Entries are given back in order. A consumer that
gives back is sent nothing, or what comes later would overtake what it is to get again.
"""

from collections import deque
from typing import Final, final

from magnetar.broker.topic.consumer import Consumer

__all__ = ["CLEARANCE", "LEAVE", "REDELIVERY", "Handover", "Handovers"]

LEAVE: Final = 0
REDELIVERY: Final = 1
CLEARANCE: Final = 2


@final
class Handover:
    """Some entries, by their keys, and whose they are; nobody's in a clearance."""

    def __init__(self, kind: int, keys: list[int], consumer: Consumer | None = None) -> None:
        self.kind: Final = kind
        self.keys: Final = keys
        self.consumer: Final = consumer
        self.next: int = 0

    @property
    def done(self) -> bool:
        return self.next >= len(self.keys)

    def take(self, count: int) -> list[int]:
        """The next entries, so many at most."""
        keys = self.keys[self.next : self.next + count]
        self.next += len(keys)
        return keys


@final
class Handovers:
    """Those that are under way, in line."""

    def __init__(self) -> None:
        self._line: Final[deque[Handover]] = deque()

    def __len__(self) -> int:
        return len(self._line)

    def add(self, handover: Handover) -> bool:
        """Says whether nobody else is in line."""
        if handover.kind == CLEARANCE:
            # First, or what is acked would be given back.
            self._line.appendleft(handover)
        else:
            self._line.append(handover)
        return len(self._line) == 1

    def first(self) -> Handover:
        return self._line[0]

    def end_first(self) -> None:
        self._line.popleft()

    def clear(self) -> None:
        self._line.clear()

    def to_be_cleared(self) -> set[int]:
        """Entries that are acked or gone, and not let go of yet."""
        found: set[int] = set()
        for handover in self._line:
            if handover.kind == CLEARANCE:
                found.update(handover.keys[handover.next :])
        return found
