"""Which messages a compaction keeps: what its two passes make of one entry.

| a message                    | first pass                          | second pass: kept         |
|------------------------------|-------------------------------------|---------------------------|
| with a key                   | the last of its key so far          | if it is still the last   |
| with a key, without payload  | its key has none any more           | never; but see below      |
| without a key                | -                                   | if `retain_null_key`      |
| left out before, of a batch  | -                                   | never                     |
| opaque, or damaged inside    | nobody knows its keys               | always, whole             |
| a chunk, not the last        | its message is open                 | if its message is kept    |
| the last chunk               | its message is the last of its key  | the same                  |
| a chunk behind a missing one | nobody can put its message together | never, unless sent anew   |
| a marker                     | -                                   | never                     |

A message without payload behind something opaque is kept, if it is the last of its key: the key
may be in there, and would come back to life. A message whose last chunk has not come stays open,
and is kept: the rest of it is in the topic.

Of a batch all messages are read before the first of them counts: it may be damaged at its end.

Both passes are done some messages at a time, and count them alike. `digest` is that of what was
read, so that it can be seen that they read the same.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.broker.topic.compaction.key_map import KeyMap
from magnetar.broker.topic.compaction.unpacking import Unpacked
from magnetar.broker.turn.work import Work
from magnetar.errors import RemoteProtocolError
from magnetar.protocol import EntryFacts
from magnetar.protocol.payload.keyed_batch import COMPACTED_OUT, KeyedBatch

__all__ = ["Kept", "KeptEntries"]

# A batch of so many messages is soon put together.
PARTS_SOON: Final = 1000
# Of a message in chunks: no chunk of it is the next one.
MISSING: Final = -1
# Of the digest, which is for accidents only.
FACTOR: Final = 1_000_003
MASK: Final = (1 << 40) - 1


@final
class Kept:
    """What is kept of an entry: all of it, or these messages of a batch."""

    def __init__(self, unpacked: Unpacked, indexes: list[int], parts: list[bytes] | None) -> None:
        self.unpacked: Final = unpacked
        self.indexes: Final = indexes
        # The bytes of all messages of a batch of which some go; None if it stays as it is.
        self.parts: Final = parts

    @property
    def messages(self) -> int:
        """How many messages are kept."""
        return len(self.indexes)

    @property
    def is_long_to_pack(self) -> bool:
        """Whether its bytes are long to make: they are many, or to be compressed."""
        if self.parts is None:
            return False
        return self.unpacked.facts.compression != 0 or len(self.parts) > PARTS_SOON

    @property
    def last_index(self) -> int:
        """The batch index of the last one; -1 if it is no batch."""
        return self.indexes[-1] if self.unpacked.facts.batched else -1

    @property
    def ends_message(self) -> bool:
        """Whether a message ends here: not so with a chunk that others follow."""
        facts = self.unpacked.facts
        return facts.chunk_id < 0 or facts.chunk_id + 1 >= facts.chunk_count


@final
class KeptEntries:
    """See the module. `piece` is how many messages are dealt with at a time."""

    def __init__(self, *, retain_null_key: bool, piece: int) -> None:
        self._retain_null_key: Final = retain_null_key
        self._piece: Final = piece
        self.last: Final = KeyMap()
        # Messages in chunks: which chunk comes next of those that are open, or that one is
        # missing; and the key of each that is the last of it.
        self._open: Final[dict[str, i64]] = {}
        self._chunked: Final[dict[bytes, str]] = {}
        self._keyless: Final[set[str]] = set()
        self._wanted: set[str] = set()
        self._opaque_seen: bool = False
        self._number: int = 0
        self.removed: int = 0
        # Of the entries of this pass, and of the one before.
        self.digest: i64 = 0
        self._digest_before: i64 = 0

    # ---- The first pass ------------------------------------------------------

    def note(self, unpacked: Unpacked) -> Work[None]:
        """Notes what an entry says of keys."""
        facts = unpacked.facts
        number = self._take(unpacked)
        if facts.batched and not unpacked.opaque and not facts.marker:
            yield from self._note_batch(unpacked, number)
        elif facts.batched and not facts.marker:
            self._opaque_seen = True
        elif facts.chunk_id >= 0:
            self._note_chunk(unpacked, number)
        elif facts.partition_key is not None and not facts.marker:
            self._note_message(facts.partition_key, number, empty=unpacked.is_empty)

    def _take(self, unpacked: Unpacked) -> int:
        """Counts an entry; the number of its first message."""
        number = self._number
        self._number += unpacked.count
        place = unpacked.position
        ledger: i64 = place.ledger_id & MASK
        self.digest = ((self.digest + ledger) * FACTOR + place.entry_id) & MASK
        return number

    def _note_batch(self, unpacked: Unpacked, number: int) -> Work[None]:
        batch = KeyedBatch(unpacked.payload, unpacked.payload_first, unpacked.count)
        more = True
        while more:
            try:
                more = batch.read(self._piece)
            except RemoteProtocolError:
                self._opaque_seen = True
                return
            if more:
                yield
        for index, key in enumerate(batch.keys):
            if key is not None and not batch.gone[index]:
                self._note_message(key, number + index, empty=batch.empty[index])
            if (index + 1) % self._piece == 0:
                yield

    def _note_message(self, key: bytes, number: int, *, empty: bool) -> None:
        if self._chunked:
            self._chunked.pop(key, None)
        if empty and not self._opaque_seen:
            self.last.remove(key)
        else:
            self.last.put(key, number)

    def _note_chunk(self, unpacked: Unpacked, number: int) -> None:
        facts = unpacked.facts
        name = facts.chunked_name()
        if not self._joins(name, facts):
            return
        if facts.chunk_id + 1 < facts.chunk_count:
            self._open[name] = facts.chunk_id + 1
            return
        self._open.pop(name, None)
        key = facts.partition_key
        if key is None:
            if self._retain_null_key:
                self._keyless.add(name)
            return
        self.last.put(key, number)
        self._chunked[key] = name

    def _joins(self, name: str, facts: EntryFacts) -> bool:
        """Whether a chunk is the next one of its message."""
        if facts.chunk_id == 0:
            return True
        wanted = self._open.get(name, MISSING)
        if facts.chunk_id > wanted:
            # What comes of it now nobody can put together, unless it is all sent anew.
            self._open[name] = MISSING
        return facts.chunk_id == wanted

    def turn(self) -> None:
        """The first pass is over; the second one begins."""
        self._number = 0
        self._digest_before, self.digest = self.digest, 0
        still_open = {name for name, wanted in self._open.items() if wanted != MISSING}
        self._wanted = still_open | self._keyless | set(self._chunked.values())

    def has_read_the_same(self) -> bool:
        """Whether the second pass, which is over, was about the same entries as the first."""
        return self.digest == self._digest_before

    # ---- The second pass -----------------------------------------------------

    def judge(self, unpacked: Unpacked, out: list[Kept]) -> Work[None]:
        """Appends what is kept of an entry, if anything is."""
        facts = unpacked.facts
        number = self._take(unpacked)
        if facts.marker:
            return
        if facts.batched and not unpacked.opaque:
            yield from self._judge_batch(unpacked, number, out)
            return
        if facts.batched:
            stays = True
        elif facts.chunk_id >= 0:
            stays = facts.chunked_name() in self._wanted
        elif facts.partition_key is None:
            stays = self._retain_null_key
        else:
            stays = self.last.is_last(facts.partition_key, number)
        if stays:
            out.append(Kept(unpacked, list(range(unpacked.count)), None))
        else:
            self.removed += 1

    def _judge_batch(self, unpacked: Unpacked, number: int, out: list[Kept]) -> Work[None]:
        batch = KeyedBatch(unpacked.payload, unpacked.payload_first, unpacked.count)
        kept: list[int] = []
        parts: list[bytes] = []
        done = 0
        more = True
        while more:
            try:
                more = batch.read(self._piece)
            except RemoteProtocolError:
                out.append(Kept(unpacked, list(range(unpacked.count)), None))
                return
            for index in range(done, len(batch.keys)):
                if self._stays(batch, index, number + index):
                    kept.append(index)
                    parts.append(batch.part(index))
                else:
                    parts.append(COMPACTED_OUT)
                    self.removed += 0 if batch.gone[index] else 1
            done = len(batch.keys)
            if more:
                yield
        if len(kept) == unpacked.count:
            out.append(Kept(unpacked, kept, None))
        elif kept:
            out.append(Kept(unpacked, kept, parts))

    def _stays(self, batch: KeyedBatch, index: int, number: int) -> bool:
        if batch.gone[index]:
            return False
        key = batch.keys[index]
        return self._retain_null_key if key is None else self.last.is_last(key, number)
