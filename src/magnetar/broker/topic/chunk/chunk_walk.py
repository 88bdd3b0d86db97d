"""From one chunk to all others of its message: back to the first, then on to the last.

| direction | goes on until                                | takes                               |
|-----------|----------------------------------------------|-------------------------------------|
| back      | chunk 0, and `first_key` if that is known    | every chunk of the message          |
| on        | the last chunk, or a chunk 0: another copy   | the same, but that chunk 0          |
| done      |                                              |                                     |

A producer sends the chunks of a message one after the other; only others' come between them.
One that connects again sends some of them twice, and they all count. So each direction ends,
too, when too many entries are passed without another chunk of the message: its producer died
before the end, or its beginning was trimmed.
"""

from typing import Final, final

from magnetar.broker.topic.chunk.chunk_map import NONE, Chunk, chunk_of
from magnetar.broker.topic.topic import Topic
from magnetar.broker.turn.looks import Looks
from magnetar.protocol import entry_facts, split_entry
from magnetar.storage.ledger.read_plan import ReadPlan, StoredEntry

__all__ = ["GAP_MAX", "ChunkWalk", "look_at"]

# How many entries that are chunks of others, or may be, stand between two chunks of a message.
GAP_MAX: Final = 1000
# What is read at once, of entries of which nobody knows whether they are chunks.
WINDOW_ENTRIES: Final = 16
WINDOW_BYTES: Final = 1 << 20

BACK: Final = 0
ON: Final = 1
DONE: Final = 2


@final
class ChunkWalk:
    """See the module. `keys` has what was found, the chunk that it begins with too."""

    def __init__(
        self,
        topic: Topic,
        key: int,
        *,
        first_key: int = NONE,
        gap_max: int = GAP_MAX,
        only_back: bool = False,
    ) -> None:
        chunk = topic.chunk_map.chunk(key)
        assert chunk is not None
        self._topic: Final = topic
        self._looks: Final[Looks] = topic.broker.looks
        self._key: Final = key
        self._start: Final[Chunk] = chunk
        self._first_key: Final = first_key
        self._gap_max: Final = gap_max
        self._only_back: Final = only_back
        self._direction: int = BACK
        self._at: int = key
        # The chunk that was found last, and how many others were passed since.
        self._edge: Chunk = chunk
        self._gap: int = 0
        self._ids: Final[set[int]] = {int(chunk.id)}
        self.keys: Final[list[int]] = [key]
        # How many entries it has looked at.
        self.looked: int = 0

    @property
    def has_first(self) -> bool:
        return 0 in self._ids

    @property
    def whole(self) -> bool:
        """Whether all chunks of the message were found."""
        return len(self._ids) == self._start.count

    def next_plan(self) -> ReadPlan | None:
        """Returns what is to be read, and then looked at, before it can go on.

        None: it is done, or it rests, for there are no looks left.
        """
        while (unknown := self._go()) != NONE:
            positions = [self._topic.ledgers.position(key) for key in self._window(unknown)]
            plan = self._topic.store.plan_entries(positions, WINDOW_BYTES)
            if plan.entries:
                return plan
            self._topic.store.finish_read(plan)
            self._turn()  # they were trimmed just now, and so is what comes behind them
        return None

    def _go(self) -> int:
        """Goes as far as entries are known; the first that is not, or NONE: it ends, or rests."""
        while self._direction != DONE and not self._looks.is_over():
            at = NONE if self._ended() else self._next(self._at)
            if at == NONE:
                self._turn()
            elif not self._topic.chunk_map.knows(at):
                return at
            else:
                self._at = at
                self.looked += 1
                self._pass(at, self._topic.chunk_map.chunk(at))
        return NONE

    def _next(self, key: int) -> int:
        chunk_map = self._topic.chunk_map
        if self._direction == BACK:
            return chunk_map.before(key, self._looks)
        return chunk_map.after(key, self._looks)

    def _ended(self) -> bool:
        if self._gap > self._gap_max:
            return True
        if self._direction == ON:
            return self._edge.last
        return self._edge.id == 0 and (self._first_key == NONE or self._at <= self._first_key)

    def _turn(self) -> None:
        self._direction = DONE if self._only_back else self._direction + 1
        self._at = self._key
        self._edge = self._start
        self._gap = 0

    def _pass(self, key: int, chunk: Chunk | None) -> None:
        if chunk is None:
            return  # This is how far it came before it rested.
        if chunk.name != self._start.name:
            self._gap += 1
        elif self._direction == ON and chunk.id == 0:
            self._turn()
        else:
            self._gap = 0
            self._edge = chunk
            self._ids.add(int(chunk.id))
            self.keys.append(key)

    def _window(self, key: int) -> list[int]:
        """Returns an entry that is not known, and those behind it that are not, the nearest
        first."""
        keys: list[int] = []
        while key != NONE and len(keys) < WINDOW_ENTRIES and not (keys and self._looks.is_over()):
            if not self._topic.chunk_map.knows(key):
                keys.append(key)
            key = self._next(key)
        return keys


def look_at(topic: Topic, entry: StoredEntry) -> None:
    """Tells a topic what an entry of it is that was read."""
    assert entry.data is not None
    key = topic.ledgers.key(entry.ledger_id, entry.entry_id)
    topic.chunk_map.looked(key, chunk_of(entry_facts(split_entry(entry.data))))
