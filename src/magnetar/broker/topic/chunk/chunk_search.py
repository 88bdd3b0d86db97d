"""All chunks of messages that are named by any one of their chunks, or by the first and the last.

Most ids name messages that are none of this, and cost a look at what the topic knows of its
entries (see `chunk_map.py`). Of those that it does not know the entry is read. From each
chunk a walk leads to the others (`chunk_walk.py`); what it finds counts for all other ids of
the same message. Chunks that were trimmed are left out, and so is what was never sent.

Whoever says where a message begins and ends is held to it: what is not a chunk, or of another
message, is refused.
"""

from typing import Final, final

from magnetar.broker.promise import Promise, broken
from magnetar.broker.topic.chunk.chunk_map import NONE
from magnetar.broker.topic.chunk.chunk_walk import GAP_MAX, ChunkWalk, look_at
from magnetar.broker.topic.entry_search import EntrySearch, run_search
from magnetar.broker.topic.skip.skip import MessageFinder
from magnetar.broker.topic.topic import Topic
from magnetar.broker.turn.looks import Looks
from magnetar.broker.turn.pieces import PIECE_IDS
from magnetar.errors import InvalidMessageIdError, NoSuchEntryError, UsageError
from magnetar.model import Position
from magnetar.model.message_id_data import MessageIdData
from magnetar.storage.ledger.read_plan import ReadPlan

__all__ = ["ChunkSearch", "find_acked", "find_chunks"]

# What one plan reads of entries that nobody knows: as much as a dispatcher would.
PLAN_ENTRIES: Final = 200
PLAN_BYTES: Final = 1 << 20


def find_chunks(topics: list[Topic], ids: list[MessageIdData]) -> Promise[list[MessageIdData]]:
    """Returns the ids, and for messages that were sent in chunks those of all their chunks.

    Breaks the promise with UsageError (an id that names nothing) or StorageError.
    """
    try:
        search = ChunkSearch(topics, ids)
    except UsageError as error:
        return broken(error)
    promise: Promise[list[MessageIdData]] = Promise()

    def searched(done: None) -> None:
        try:
            found = search.chunks()
        except UsageError as error:
            promise.fail(error)
        else:
            promise.keep(found)

    run_search(topics[0], search).then(searched, promise.fail)
    return promise


def find_acked(topic: Topic, ids: list[MessageIdData]) -> Promise[list[MessageIdData]]:
    """Returns the ids of an ACK, with all chunks of those that name a first and a last one.

    Others are taken as they are: to ack one chunk is to ack that entry. Thousands are looked for
    a piece at a time.
    """
    found = [id for id in ids if id.first_chunk is None]
    ends = [MessageIdData(id.ledger_id, id.entry_id) for id in ids if id.first_chunk is not None]
    promise: Promise[list[MessageIdData]] = Promise()

    def find_next(first: int) -> None:
        if first >= len(ends):
            promise.keep(found)
            return
        piece = ends[first : first + PIECE_IDS]
        find_chunks([topic], piece).then(lambda chunks: take(first, chunks), promise.fail)

    def take(first: int, chunks: list[MessageIdData]) -> None:
        found.extend(chunks)
        find_next(first + PIECE_IDS)

    find_next(0)
    return promise


@final
class _Named:
    """A message that may be in chunks; its topic is None if it was trimmed."""

    def __init__(self, id: MessageIdData, topic: Topic | None) -> None:
        self.id: Final = id
        self.topic: Final = topic
        self.key: Final[int] = (
            NONE if topic is None else topic.ledgers.key(id.ledger_id, id.entry_id)
        )
        # Where it is said to begin, 0 if that was trimmed.
        self.first_key: Final[int] = _first_key(id, topic)

    @property
    def indexed(self) -> bool:
        """Whether it is one message of a batch, or is said to be: then it is not a chunk."""
        return self.id.batch_index > 0

    @property
    def known(self) -> bool:
        """Whether it is known if it is a chunk."""
        if not self.there or self.indexed:
            return True
        return self.topic is None or self.topic.chunk_map.knows(self.key)

    @property
    def there(self) -> bool:
        """Whether its entry was not trimmed meanwhile."""
        return self.topic is not None and self.topic.ledgers.entry_count(self.id.ledger_id) >= 0


def _first_key(id: MessageIdData, topic: Topic | None) -> int:
    first = id.first_chunk
    if first is None:
        return NONE
    return 0 if topic is None else max(topic.ledgers.key(first.ledger_id, first.entry_id), 0)


@final
class ChunkSearch(EntrySearch):
    """See the module."""

    def __init__(
        self, topics: list[Topic], ids: list[MessageIdData], gap_max: int = GAP_MAX
    ) -> None:
        """Raises NoSuchEntryError, InvalidMessageIdError."""
        for topic in topics:
            topic.chunk_map.tidy()
        self._looks: Final[Looks] = topics[0].broker.looks
        self._looks.take(len(ids))
        self._gap_max: Final = gap_max
        self._finder: Final = MessageFinder(topics)
        self._ids: Final = ids
        # Those that may be in chunks, by their place among the ids: most are not.
        self._named: Final[dict[int, _Named]] = {}
        for index, id in enumerate(ids):
            found = self._finder.find(id)
            if id.first_chunk is not None:
                self._named[index] = self._find_both(id, found)
            elif found is not None and not _is_plain(id, found):
                self._named[index] = _Named(id, found)
        self._looking: Final = list(self._named.values())
        # Entries of which it is not known whether they are chunks, the last first.
        self._unknown: Final = self._unknown_ones()
        self._next: int = 0
        self._walk: ChunkWalk | None = None
        # By topic and chunk: all chunks of its message, in order.
        self._messages: Final[dict[tuple[int, int], list[int]]] = {}
        # Whose entries are being read, by ledger.
        self._reading: Final[dict[int, Topic]] = {}

    def _find_both(self, id: MessageIdData, topic: Topic | None) -> _Named:
        first = id.first_chunk
        assert first is not None
        begins = self._finder.find(first)
        if Position(first.ledger_id, first.entry_id) > Position(id.ledger_id, id.entry_id):
            raise InvalidMessageIdError(
                f"its first chunk {first.ledger_id}:{first.entry_id} is behind its last, "
                f"{id.ledger_id}:{id.entry_id}"
            )
        if topic is not None and begins is not None and begins is not topic:
            raise InvalidMessageIdError(f"its chunks are of {begins.name} and of {topic.name}")
        return _Named(id, topic)

    def _unknown_ones(self) -> list[tuple[int, Topic]]:
        found: dict[tuple[int, int], Topic] = {}
        for one in self._looking:
            if one.topic is not None and not one.known:
                found[one.topic.id, one.key] = one.topic
        return [(key, found[id, key]) for id, key in sorted(found, reverse=True)]

    # ---- Reading -------------------------------------------------------------

    def next_plan(self) -> ReadPlan | None:
        plan = self._plan_unknown()
        return self._plan_walks() if plan is None else plan

    def _plan_unknown(self) -> ReadPlan | None:
        """Reads the next of them, all of one topic."""
        while self._unknown:
            topic = self._unknown[-1][1]
            keys = [key for key, other in self._unknown[-PLAN_ENTRIES:] if other is topic]
            keys.reverse()
            positions = [topic.ledgers.position(key) for key in keys]
            self._will_read(topic, positions)
            plan = topic.store.plan_entries(positions, PLAN_BYTES)
            # Those in front of the last that is there, and are not there, were trimmed just now.
            last = keys[-1]
            if plan.entries:
                last = topic.ledgers.key(plan.entries[-1].ledger_id, plan.entries[-1].entry_id)
            while self._unknown and self._unknown[-1][1] is topic and self._unknown[-1][0] <= last:
                self._unknown.pop()
            if plan.entries:
                return plan
            topic.store.finish_read(plan)
        return None

    def _will_read(self, topic: Topic, positions: list[Position]) -> None:
        self._reading.clear()
        for position in positions:
            self._reading[position.ledger_id] = topic

    def _plan_walks(self) -> ReadPlan | None:
        while self._next < len(self._looking) and not self._looks.is_over():
            self._looks.take()
            one = self._looking[self._next]
            if self._walk is None and one.topic is not None and not one.known:
                # So much was published since that this was forgotten.
                self._unknown.append((one.key, one.topic))
                return self._plan_unknown()
            if self._walk is None:
                self._walk = self._begin_walk(one)
            if self._walk is not None:
                assert one.topic is not None
                plan = self._walk.next_plan()
                if plan is None and self._looks.is_over():
                    return None
                if plan is not None:
                    entries = plan.entries
                    self._will_read(one.topic, [Position(e.ledger_id, e.entry_id) for e in entries])
                    return plan
                keys = sorted(self._walk.keys)
                for key in keys:
                    self._messages[one.topic.id, key] = keys
                self._walk = None
            self._next += 1
        return None

    def _begin_walk(self, one: _Named) -> ChunkWalk | None:
        """Returns a walk to the other chunks of a message, if it has any and nobody went there."""
        topic = one.topic
        if topic is None or not one.there or one.indexed:
            return None
        known = self._messages.get((topic.id, one.key))
        if known is not None and (one.first_key == NONE or known[0] <= one.first_key):
            return None
        if topic.chunk_map.chunk(one.key) is None:
            return None
        return ChunkWalk(topic, one.key, first_key=one.first_key, gap_max=self._gap_max)

    def take(self, plan: ReadPlan) -> None:
        for entry in plan.entries:
            look_at(self._reading[int(entry.ledger_id)], entry)

    # ---- What was found ------------------------------------------------------

    def chunks(self) -> list[MessageIdData]:
        """Returns all chunks of messages in chunks as plain ids, each once, and other ids as they
        were.

        Raises InvalidMessageIdError.
        """
        assert self._next >= len(self._looking), "not everything was looked at"
        if not self._named:
            return self._ids
        found: list[MessageIdData] = []
        given: set[tuple[int, int]] = set()
        for index, id in enumerate(self._ids):
            one = self._named.get(index)
            if one is None:
                found.append(id)
            else:
                self._put_chunks(found, given, one)
        return found

    def _put_chunks(
        self, found: list[MessageIdData], given: set[tuple[int, int]], one: _Named
    ) -> None:
        topic = one.topic
        keys = None
        if topic is not None and not one.indexed:
            keys = self._messages.get((topic.id, one.key))
        if one.first_key != NONE:
            self._check(one, keys)
        elif keys is None:
            found.append(one.id)
        if topic is None or keys is None:
            return
        for key in keys:
            if (topic.id, key) not in given:
                given.add((topic.id, key))
                place = topic.ledgers.position(key)
                found.append(MessageIdData(place.ledger_id, place.entry_id, topic.partition))

    def _check(self, one: _Named, keys: list[int] | None) -> None:
        """Raises unless the entries that an id names are chunks of one message."""
        id, first = one.id, one.id.first_chunk
        assert first is not None
        if not one.there:
            return
        assert one.topic is not None
        if keys is None:
            raise NoSuchEntryError(
                id.ledger_id, id.entry_id, "it is not a chunk: name it without a first one"
            )
        if one.topic.ledgers.entry_count(first.ledger_id) >= 0 and one.first_key not in keys:
            raise InvalidMessageIdError(
                f"{first.ledger_id}:{first.entry_id} and {id.ledger_id}:{id.entry_id} are no "
                f"chunks of one message, or too far apart: {self._gap_max} entries between two "
                "chunks are looked through at most"
            )


def _is_plain(id: MessageIdData, topic: Topic) -> bool:
    """Returns whether an id is known to name no chunk."""
    if id.batch_index > 0:
        return True
    return topic.chunk_map.is_plain(topic.ledgers.key(id.ledger_id, id.entry_id))
