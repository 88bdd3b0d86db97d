"""What lies between the chunks of a message, for those who ack cumulatively.

A chunked message stands where its last chunk does. Others may stand between its chunks: they
are delivered before it, and may be acked before it. To ack such a one cumulatively must not
ack the chunks in front of it, or the message behind it could never be delivered again:

    topic      A0  B  A1  C           B is delivered, then A, then C
    ack B      everything before A0 cumulatively, then B, and not A0

The same holds for a message that came late, since it was not whole in its time and came again:
until somebody has taken it, no ack of others reaches it. One that was taken is acked like any
other, also if it comes again meanwhile, since an ack before failed. On a new connection one that
nobody took comes again, in order; if what is behind it comes first, another consumer acked it.

So while a message spans others, the entries received since it began are remembered, and are
acked one by one where a cumulative ack would reach into it. It spans others from the arrival
of its first chunk until it is acked. There is a limit to what is remembered; beyond it entries
stay unacked, and may be delivered again, but are not lost.

A seek ends all that, but an id from before it can still be acked, before anything came again:
where messages in chunks stood is remembered for that, so that none is acked in part. Of an id
from elsewhere, in a topic of which nothing came yet, it cannot be known.
"""

from typing import Final, final

from magnetar.client.consumer.chunk.assembler import ChunkAssembler

__all__ = ["ChunkSpans", "Split"]

# Entries that are remembered, and messages whose chunks are.
ENTRIES_MAX: Final = 100_000
MESSAGES_MAX: Final = 10_000
# Behind every entry.
NO_END: Final = 1 << 128


@final
class Split:
    """A cumulative ack in two parts: everything through `before`, and each of `keys`.

    A `before` of -1 is nothing: no entry came before.
    """

    def __init__(self, before: int, keys: list[int]) -> None:
        self.before: Final = before
        self.keys: Final = keys


@final
class ChunkSpans:
    """See the module. `chunks` has the chunks of messages that are whole and not acked, by
    the last of them; others read it too, and take out what is acked."""

    def __init__(self, assembler: ChunkAssembler, chunks: dict[int, list[int]]) -> None:
        self._assembler: Final = assembler
        self._chunks: Final = chunks
        self._before: Final[dict[int, int]] = {}
        # The chunks of those that somebody took, by the first; they may come again.
        self._taken: Final[dict[int, list[int]]] = {}
        # Those that nobody took when the connection broke, by the last chunk.
        self._awaited: Final[dict[int, None]] = {}
        # In the order in which they came.
        self._received: dict[int, None] = {}
        # The last chunk by the first, of messages that came before the last seek: what came then
        # is forgotten, but where it stands is still true. Of one that is not whole, no end.
        self._past: dict[int, int] = {}

    @property
    def active(self) -> bool:
        return len(self._chunks) > 0 or self._assembler.active

    def whole(self, keys: list[int], before: int) -> None:
        """A message became whole."""
        self._chunks[keys[-1]] = keys
        self._before[keys[-1]] = before
        self._awaited.pop(keys[-1], None)
        if len(self._chunks) > MESSAGES_MAX:
            del self._chunks[next(iter(self._chunks))]
        if len(self._before) > 2 * MESSAGES_MAX:
            for key in [key for key in self._before if key not in self._chunks]:
                del self._before[key]

    def taken(self, key: int) -> None:
        """Notes that somebody took the message whose last chunk this is."""
        keys = self._chunks.get(key)
        if keys is not None:
            self._taken[keys[0]] = keys
            if len(self._taken) > MESSAGES_MAX:
                del self._taken[next(iter(self._taken))]

    def reconnected(self) -> None:
        """What is not acked comes again."""
        for last, keys in self._chunks.items():
            if not self._was_taken(keys):
                self._awaited[last] = None

    @property
    def awaits(self) -> bool:
        """Whether something is spared that may have been acked by another consumer."""
        return len(self._awaited) > 0 or self._assembler.expects

    def passed(self, key: int) -> None:
        """An entry came in its turn: what stands before it and did not come is acked."""
        for last in [last for last in self._awaited if last < key]:
            del self._awaited[last]
            self._chunks.pop(last, None)
            self._before.pop(last, None)
        self._assembler.passed(key)

    def received(self, keys: list[int]) -> None:
        """An entry came while something spans others; of a whole message, all its chunks."""
        if len(self._received) < ENTRIES_MAX:
            for key in keys:
                self._received[key] = None

    def rest(self) -> None:
        """Nothing spans anything."""
        if self._received or self._before:
            self._received.clear()
            self._before.clear()

    def came_in_part(self, key: int) -> list[int]:
        """Returns the chunks of messages up to an entry that somebody took and that come again just
        now.

        Those that came are forgotten: who acks that entry acks them.
        """
        chunks: list[int] = []
        for first in self._assembler.firsts():
            keys = self._taken.get(first)
            if keys is not None and keys[-1] <= key:
                self._assembler.forget_from(first)
                chunks.extend(keys)
        return chunks

    def split(self, key: int) -> Split | None:
        """Returns how to ack everything through an entry; None: simply so."""
        before = self._assembler.before(key)
        spared = set(self._assembler.pending_keys(key)) if before is not None else set()
        for last, keys in self._chunks.items():
            if self._spared(key, last, keys):
                first = self._before.get(last, -1)
                before = first if before is None else min(before, first)
                spared.update(keys)
        if before is None:
            return None
        between = [other for other in self._received if before < other <= key]
        return Split(before, [other for other in between if other not in spared])

    def _spared(self, key: int, last: int, keys: list[int]) -> bool:
        return keys[0] < key and (key < last or not self._was_taken(keys)) and key != last

    def _was_taken(self, keys: list[int]) -> bool:
        before = self._taken.get(keys[0])
        return before is not None and before[-1] == keys[-1]

    def acked_through(self, key: int) -> None:
        """Notes that everything through an entry is acked, but what `split` spared."""
        for last, keys in list(self._chunks.items()):
            if last <= key and not self._spared(key, last, keys):
                del self._chunks[last]
                self._before.pop(last, None)

    def first_pending(self, key: int, queued: list[list[int]]) -> int:
        """Returns the first chunk in front of an entry of all messages that nobody took, or -1.

        `queued` has the chunks of those that are whole.
        """
        first = -1
        for keys in [*queued, self._assembler.pending_keys(key)]:
            if keys and keys[0] < key and (first < 0 or min(keys) < first):
                first = min(keys)
        return first

    def sought(self, start: int) -> None:
        """Notes that the subscription is moved to an entry: all of it before that is acked."""
        past = {keys[0]: keys[-1] for keys in [*self._taken.values(), *self._chunks.values()]}
        for first in self._assembler.firsts():
            past.setdefault(first, NO_END)
        past = self._past | past
        self._past = {first: past[first] for first in past if first >= start}
        while len(self._past) > MESSAGES_MAX:
            del self._past[next(iter(self._past))]
        self._forget()

    def reached_over(self, key: int) -> bool:
        """Returns whether a message in chunks that came before the last seek began before an
        entry, or there, and ended behind it."""
        for first, last in self._past.items():
            if first <= key < last:
                return True
        return False

    def clear(self) -> None:
        """Forgets everything: positions mean something else now."""
        self._past.clear()
        self._forget()

    def _forget(self) -> None:
        self._chunks.clear()
        self._awaited.clear()
        self._taken.clear()
        self.rest()
