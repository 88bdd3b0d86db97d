"""Which entries of a history are chunks of one message, by what the broker handed out.

A message may be stored twice, or some of its chunks may: a copy is what stands between a chunk 0
and the next last chunk.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from magnetar.testing.history import AckCame, Dispatched, History, Place

__all__ = ["ChunkFacts"]

Entry = tuple[int, int]
Bits = tuple[int, int, int]


class ChunkFacts:
    """See the module."""

    def __init__(self, history: History) -> None:
        # By message: its chunks in order, each with its number; by entry: the message.
        self._chunks: Final[dict[str, list[tuple[Entry, int]]]] = {}
        self._message: Final[dict[Entry, tuple[str, int]]] = {}
        for fact in history.of(Dispatched):
            entry = (fact.ledger, fact.entry)
            if fact.chunk >= 0 and entry not in self._message:
                self._message[entry] = (fact.uuid, fact.chunks)
                self._chunks.setdefault(fact.uuid, []).append((entry, fact.chunk))
        for chunks in self._chunks.values():
            chunks.sort()

    def end(self, entry: Entry) -> Entry | None:
        """Where the message of a chunk ends; None if nobody was ever sent its end."""
        uuid, count = self._message[entry]
        for other, number in self._from(uuid, entry):
            if number + 1 == count:
                return other
        return None

    def _from(self, uuid: str, entry: Entry) -> list[tuple[Entry, int]]:
        chunks = self._chunks[uuid]
        return chunks[bisect_left(chunks, (entry, -1)) :]

    def whole(self, entry: Entry) -> list[Entry]:
        """All chunks of the message that an entry is one of; else the entry."""
        if entry not in self._message:
            return [entry]
        uuid, count = self._message[entry]
        found: list[Entry] = []
        chunks = self._chunks[uuid]
        for other, number in reversed(chunks[: len(chunks) - len(self._from(uuid, entry))]):
            if self._number(entry) == 0:
                break
            found.append(other)
            if number == 0:
                break
        for other, number in self._from(uuid, entry):
            if number == 0 and other != entry:
                break
            found.append(other)
            if number + 1 == count:
                break
        return found

    def _number(self, entry: Entry) -> int:
        return self._from(self._message[entry][0], entry)[0][1]

    def bits(self, places: Iterable[Place]) -> list[Bits]:
        """Messages one by one as acks of theirs stand on the wire, with all their chunks."""
        found: list[Bits] = []
        for place in places:
            if place.index >= 0:
                found.append((place.ledger, place.entry, ~(1 << place.index)))
            else:
                whole = self.whole((place.ledger, place.entry))
                found += [(ledger, entry, 0) for ledger, entry in whole]
        return found

    def acked(self, ack: AckCame) -> list[Bits]:
        """What an ACK acks, and leaves of it."""
        more = [entry for whole in ack.whole for entry in self.whole(whole)]
        return [*ack.entries, *((ledger, entry, 0) for ledger, entry in more)]
