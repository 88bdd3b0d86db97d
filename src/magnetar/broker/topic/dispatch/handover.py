"""Entries that change hands by the thousand, a piece in each event.

A consumer may hold tens of thousands of entries. When it leaves, or wants them all again, or when
an operator clears what it holds, each of them goes somewhere else; in one event that would hold
everybody up (I10). So these are *handovers*, which stand in line:

| a handover is | of                    | each entry is                   | with the last one      |
|---------------|-----------------------|---------------------------------|------------------------|
| a leave       | all that is held      | given back                      | its consumer goes      |
| a redelivery  | what is named, or all | given back, and counted as that | its consumer is served |
| a clearance   | all up to a floor     | let go of: it is acked, or gone | -                      |

It is first *gathered*: its entries are looked at and put in order, which is also done in pieces.
Then they change hands. A redelivery that names the end of what a consumer has of a message in
chunks is of all that it has of it: the official clients name the last chunk only, and could
not put the message together. Who names another chunk wants that one: it may be of a copy that
is not the last.

| a handover is | look                        | take                | becomes                 |
|---------------|-----------------------------|---------------------|-------------------------|
| in gathering  | some more are in order      | our mistake         | ready, with the last    |
| ready         | our mistake                 | the first ones      | done, with the last     |

What is small, and finds nobody in line, is done at once. Between two pieces all is as it
should be: an entry that is still to be given back is held as before, so nobody else gets
others of its key (I4), and it may be acked. Entries are given back in order. A consumer that
gives back is sent nothing, or what comes later would overtake what it is to get again. What is
to be cleared may still wait to be delivered, but is not: whoever is about to sees that it is
acked, or gone.
"""

from collections import deque
from typing import Final, final

from magnetar.ack.key_set import KeySet
from magnetar.ack.ledgers import KEY_MAX
from magnetar.broker.topic.chunk.chunk_owners import ChunkOwners
from magnetar.broker.topic.consumer import Consumer

__all__ = ["CLEARANCE", "LEAVE", "REDELIVERY", "Handover", "Handovers"]

LEAVE: Final = 0
REDELIVERY: Final = 1
CLEARANCE: Final = 2
NO_FLOOR: Final = -1


@final
class Handover:
    """Some entries, by their keys in any order, and whose they are; nobody's in a clearance.

    Keys beyond the floor are none of it.
    """

    def __init__(
        self,
        kind: int,
        keys: list[int],
        consumer: Consumer | None = None,
        *,
        floor: int = KEY_MAX,
        chunks: ChunkOwners | None = None,
        everything: bool = False,
    ) -> None:
        self.kind: Final = kind
        # Whether its consumer named nothing.
        self.everything: Final = everything
        self.consumer: Final = consumer
        self.floor: Final = floor
        self._keys: Final = keys
        self._looked: int = 0
        self._ordered: Final = KeySet()
        self._chunks: Final = chunks
        # Messages in chunks of which some are named.
        self._messages: Final[dict[str, None]] = {}

    @property
    def ready(self) -> bool:
        return self._looked >= len(self._keys) and not self._messages

    @property
    def done(self) -> bool:
        return self.ready and len(self._ordered) == 0

    def look(self, count: int) -> int:
        """Looks at about so many entries at most; returns how many it were."""
        looked = self._look_at_keys(count)
        while self._looked >= len(self._keys) and self._messages and looked < count:
            looked += self._look_at_message(self._messages.popitem()[0])
        return min(looked, count)

    def _look_at_keys(self, count: int) -> int:
        chunks = self._chunks
        end = min(self._looked + count, len(self._keys))
        for index in range(self._looked, end):
            key = self._keys[index]
            if 0 <= key <= self.floor:
                self._ordered.add(key)
                name = None if chunks is None else chunks.name(key)
                if name is not None:
                    self._messages[name] = None
        looked = end - self._looked
        self._looked = end
        return looked

    def _look_at_message(self, name: str) -> int:
        assert self._chunks is not None
        assert self.consumer is not None
        held = self._chunks.held_of(name, self.consumer.pending)
        if held and max(held) in self._ordered:
            for key in held:
                self._ordered.add(key)
        return len(held) + 1

    def take(self, count: int) -> list[int]:
        """Returns the next entries, so many at most."""
        assert self.ready, "it is not gathered yet"
        return self._ordered.take(count)


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
            # First, or what is acked would be given back. It does what the one before did not.
            if self._line and self._line[0].kind == CLEARANCE:
                self._line[0] = handover
                return False
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

    @property
    def floor(self) -> int:
        """Up to here entries are acked or gone, and perhaps not let go of yet."""
        if self._line and self._line[0].kind == CLEARANCE:
            return self._line[0].floor
        return NO_FLOOR
