"""Which entries of a history are chunks of one message, by what the broker handed out.

A message may be stored twice, or some of its chunks may: a copy is what stands between a chunk 0
and the next last chunk.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from magnetar.testing.checker.history import (
    AckCame,
    Dispatched,
    History,
    Place,
    Subscribed,
    TxnAckCame,
)
from magnetar.testing.checker.seeks import Seats

__all__ = ["ChunkFacts"]

Entry = tuple[int, int]
Message = tuple[str, str]  # a topic, and the uuid
Bits = tuple[int, int, int]


class ChunkFacts:
    """See the module."""

    def __init__(self, history: History) -> None:
        # By message: its chunks in order, each with its number; by entry: the message, and of
        # how many. A producer counts messages by partition, so partitions have some in common.
        self._chunks: Final[dict[Message, list[tuple[Entry, int]]]] = {}
        self._message: Final[dict[Entry, tuple[Message, int]]] = {}
        seats = Seats()
        for _, fact in history.among(Subscribed, Dispatched):
            seats.take(fact)
            if not isinstance(fact, Dispatched) or fact.chunk < 0:
                continue
            entry = (fact.ledger, fact.entry)
            if entry not in self._message:
                message = (seats.topic[fact.line, fact.consumer][0], fact.uuid)
                self._message[entry] = (message, fact.chunks)
                self._chunks.setdefault(message, []).append((entry, fact.chunk))
        for chunks in self._chunks.values():
            chunks.sort()

    def end(self, entry: Entry) -> Entry | None:
        """Returns where the message of a chunk ends; None if nobody was ever sent its end."""
        message, count = self._message[entry]
        for other, number in self._from(message, entry):
            if number + 1 == count:
                return other
        return None

    def _from(self, message: Message, entry: Entry) -> list[tuple[Entry, int]]:
        chunks = self._chunks[message]
        return chunks[bisect_left(chunks, (entry, -1)) :]

    def whole(self, entry: Entry) -> list[Entry]:
        """Returns all chunks of the message that an entry is one of; else the entry."""
        if entry not in self._message:
            return [entry]
        message, count = self._message[entry]
        found: list[Entry] = []
        chunks = self._chunks[message]
        for other, number in reversed(chunks[: len(chunks) - len(self._from(message, entry))]):
            # An older one of the same uuid ends there.
            if self._number(entry) == 0 or number + 1 == count:
                break
            found.append(other)
            if number == 0:
                break
        for other, number in self._from(message, entry):
            if number == 0 and other != entry:
                break
            found.append(other)
            if number + 1 == count:
                break
        return found

    def with_others(self, named: set[Entry], held: Iterable[Entry]) -> set[Entry]:
        """Returns what a negative ack brings back of what a consumer holds.

        Who names the last chunk that it has of a message gives back all that it has of it.
        """
        messages: dict[Message, list[Entry]] = {}
        for entry in held:
            if entry in self._message:
                messages.setdefault(self._message[entry][0], []).append(entry)
        given = set(named)
        for entries in messages.values():
            if max(entries) in named:
                given.update(entries)
        return given

    def first(self, place: Place) -> Place | None:
        """Returns where the message begins that ends at a place; None if nobody was sent its
        beginning."""
        entry = (place.ledger, place.entry)
        if entry not in self._message:
            return None
        begin = min(self.whole(entry))
        return Place(*begin) if self._number(begin) == 0 else None

    def _number(self, entry: Entry) -> int:
        return self._from(self._message[entry][0], entry)[0][1]

    def bits(self, places: Iterable[Place]) -> list[Bits]:
        """Returns messages one by one as acks of theirs stand on the wire, with all their
        chunks."""
        found: list[Bits] = []
        for place in places:
            if place.index >= 0:
                found.append((place.ledger, place.entry, ~(1 << place.index)))
            else:
                whole = self.whole((place.ledger, place.entry))
                found += [(ledger, entry, 0) for ledger, entry in whole]
        return found

    def acked(self, ack: AckCame | TxnAckCame) -> list[Bits]:
        """Returns what an ACK acks, and leaves of it."""
        more = [entry for whole in ack.whole for entry in self.whole(whole)]
        return [*ack.entries, *((ledger, entry, 0) for ledger, entry in more)]
