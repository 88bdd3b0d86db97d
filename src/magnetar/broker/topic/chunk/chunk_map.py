"""Which entries of a topic are chunks of larger messages, as far as that is known.

Nothing in the log says so but the metadata of the entry itself, and to read it may mean to
read megabytes. So a topic remembers what it saw:

| an entry                                     | is known      | because                        |
|----------------------------------------------|---------------|--------------------------------|
| of a batch of several                        | to be no chunk| the index has its size         |
| published since the topic was loaded         | either way    | it went through here           |
| from before, and looked at since             | either way    | somebody needed to know        |
| from before                                  | not at all    |                                |

Only chunks cost memory. There is a limit to them: beyond it the oldest become unknown again,
with everything in front of them; not while somebody looks, or he would never come to an end.
Positions stand as keys (see `ack/ledgers.py`), and ledgers as their numbers.
"""

from typing import Final, final

from mypy_extensions import i64
from pyroaring import BitMap

from magnetar.ack import Ledgers
from magnetar.ack.bitmap import next_set
from magnetar.broker.turn.looks import Looks
from magnetar.model import Position
from magnetar.model.position_key import NARROW_ENTRY_BITS, NARROW_ENTRY_MASK, narrow_key
from magnetar.protocol import EntryFacts

__all__ = ["NONE", "Chunk", "ChunkMap"]

NONE: Final = -1
# What one topic remembers: 20 MB at most.
CHUNKS_MAX: Final = 100_000


@final
class Chunk:
    """Which chunk an entry is, and of which message."""

    __slots__ = ("count", "id", "name")

    def __init__(self, name: str, id: i64, count: i64) -> None:
        self.name: Final = name
        self.id: Final[i64] = id
        self.count: Final[i64] = count

    @property
    def last(self) -> bool:
        return self.id + 1 >= self.count


def chunk_of(facts: EntryFacts) -> Chunk | None:
    """The chunk that an entry with these facts is, if it is one."""
    if facts.chunk_id < 0:
        return None
    return Chunk(facts.chunked_name(), facts.chunk_id, facts.chunk_count)


@final
class ChunkMap:
    """See the module."""

    def __init__(self, ledgers: Ledgers, chunks_max: int = CHUNKS_MAX) -> None:
        self._ledgers: Final = ledgers
        self._chunks_max: Final = chunks_max
        last = ledgers.last()
        # Up to here entries were there before: those that were looked at are in `_looked`.
        self._before: int = ledgers.key(last.ledger_id, last.entry_id)
        self._looked: Final[dict[int, BitMap]] = {}
        self._places: Final[dict[int, BitMap]] = {}
        self._chunks: Final[dict[int, Chunk]] = {}

    def there_before(self, position: Position) -> None:
        """Entries up to here are older, though not all of them are to be seen yet."""
        key = self._ledgers.key(position.ledger_id, position.entry_id)
        self._before = max(self._before, key)

    def __len__(self) -> int:
        """How many chunks are known."""
        return len(self._chunks)

    def published(self, position: Position, chunk: Chunk) -> None:
        """A chunk is stored."""
        self._put(self._ledgers.key(position.ledger_id, position.entry_id), chunk)
        self.tidy()

    def looked(self, key: int, chunk: Chunk | None) -> None:
        """An entry was read: it is this chunk, or none."""
        if self.knows(key):
            return
        number = key >> NARROW_ENTRY_BITS
        if number not in self._looked:
            self._looked[number] = BitMap()
        self._looked[number].add(key & NARROW_ENTRY_MASK)
        if chunk is not None:
            self._put(key, chunk)

    def _put(self, key: int, chunk: Chunk) -> None:
        number = key >> NARROW_ENTRY_BITS
        if number not in self._places:
            self._places[number] = BitMap()
        self._places[number].add(key & NARROW_ENTRY_MASK)
        self._chunks[key] = chunk

    def tidy(self) -> None:
        """Forgets what is too much: to be called before one begins to look."""
        while len(self._chunks) > self._chunks_max:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        """The oldest ledger with chunks, and all before it, are as before they were looked at."""
        oldest = min(self._places)
        end = narrow_key(oldest, self._places[oldest].max())
        self._before = max(self._before, end)
        for number in [number for number in self._looked if number <= oldest]:
            del self._looked[number]
        self._drop_chunks(oldest)

    def remove(self, ledger_id: int) -> None:
        """The ledger was trimmed."""
        number = self._ledgers.key(ledger_id, 0) >> NARROW_ENTRY_BITS
        self._looked.pop(number, None)
        if number in self._places:
            self._drop_chunks(number)

    def _drop_chunks(self, number: int) -> None:
        for entry_id in self._places.pop(number):
            del self._chunks[narrow_key(number, entry_id)]

    # ---- Asking --------------------------------------------------------------

    def knows(self, key: int) -> bool:
        """Whether it is known if the entry is a chunk."""
        if key > self._before:
            return True
        looked = self._looked.get(key >> NARROW_ENTRY_BITS)
        if looked is not None and key & NARROW_ENTRY_MASK in looked:
            return True
        return (
            self._ledgers.sizes.batch_size(self._ledgers.ledger_of(key), key & NARROW_ENTRY_MASK)
            > 1
        )

    def chunk(self, key: int) -> Chunk | None:
        """The chunk that an entry is known to be."""
        return self._chunks.get(key)

    def before(self, key: int, looks: Looks) -> int:
        """The entry before this one that is a chunk or may be one, or NONE.

        It is a plain one if there are no looks left: how far this has come.
        """
        while True:
            looks.take()
            found = self._before_in(key >> NARROW_ENTRY_BITS, key & NARROW_ENTRY_MASK, looks)
            if found >= 0:
                return narrow_key(key >> NARROW_ENTRY_BITS, found)
            previous = self._ledgers.previous(Position(self._ledgers.ledger_of(key), 0))
            if previous.entry_id < 0:
                return NONE
            key = self._ledgers.key(previous.ledger_id, previous.entry_id) + 1

    def _before_in(self, number: int, end: i64, looks: Looks) -> i64:
        places = self._places.get(number)
        if narrow_key(number, 0) > self._before:
            # Everything here is known.
            smaller = places.rank(end - 1) if places is not None and end > 0 else 0
            return -1 if places is None or smaller == 0 else places[smaller - 1]
        entry_id = end - 1
        while entry_id >= 0:
            if self._may_be(narrow_key(number, entry_id)) or looks.is_over():
                return entry_id
            looks.take()
            entry_id -= 1
        return -1

    def after(self, key: int, looks: Looks) -> int:
        """The same behind an entry."""
        key += 1
        while True:
            looks.take()
            ledger_id = self._ledgers.ledger_of(key)
            found = self._after_in(
                key >> NARROW_ENTRY_BITS, ledger_id, key & NARROW_ENTRY_MASK, looks
            )
            if found >= 0:
                return narrow_key(key >> NARROW_ENTRY_BITS, found)
            following = self._ledgers.at_or_after(Position(ledger_id + 1, 0))
            if following is None:
                return NONE
            key = self._ledgers.key(following.ledger_id, 0)

    def _after_in(self, number: int, ledger_id: i64, first: i64, looks: Looks) -> i64:
        end = self._ledgers.entry_count(ledger_id)
        if narrow_key(number, 0) > self._before:
            places = self._places.get(number)
            found = -1 if places is None else next_set(places, first, -1)
            return found if found < end else -1
        entry_id = first
        while entry_id < end:
            if self._may_be(narrow_key(number, entry_id)) or looks.is_over():
                return entry_id
            looks.take()
            entry_id += 1
        return -1

    def is_plain(self, key: int) -> bool:
        """Whether an entry is known to be no chunk."""
        return self.knows(key) and key not in self._chunks

    def _may_be(self, key: int) -> bool:
        return key in self._chunks or not self.knows(key)
