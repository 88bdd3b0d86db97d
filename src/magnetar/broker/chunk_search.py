"""All chunks of messages that are named by their first chunk and their last.

Nothing in the log says which entries are chunks of one message: their metadata does, by a
uuid. So what lies between the first chunk and the last is read, a little at a time, and
whoever reads asks for the next plan until there is none:

| state     | next_plan            | take         | chunks                       |
|-----------|----------------------|--------------|------------------------------|
| searching | what to read next    | looks at it  | -                            |
| done      | None                 | -            | plain ids, or what is wrong  |

Ranges that overlap are read once, for large messages of one topic are often sent at the
same time. A message whose last chunk was trimmed has no chunks any more; one of which only
the first were trimmed has those that are left.
"""

from typing import Final, final

from magnetar.ack.delta import key_position, position_key
from magnetar.broker.skip import MessageFinder
from magnetar.broker.topic import Topic
from magnetar.errors import InvalidMessageIdError, NoSuchEntryError
from magnetar.model import Position
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import entry_facts, split_entry
from magnetar.storage.read_plan import ReadPlan

__all__ = ["ChunkSearch"]

# What one plan reads: as much as a dispatcher would, or one chunk that is larger.
PLAN_ENTRIES: Final = 200
PLAN_BYTES: Final = 1 << 20
# Entries that one search looks at. Chunks of one message lie closer together.
ENTRIES_MAX: Final = 1_000_000


@final
class ChunkSearch:
    """See the module."""

    def __init__(
        self, topics: list[Topic], ids: list[MessageIdData], entries_max: int = ENTRIES_MAX
    ) -> None:
        """Raises NoSuchEntryError, InvalidMessageIdError."""
        self._finder: Final = MessageFinder(topics)
        self._wanted: Final[list[tuple[Topic, MessageIdData]]] = []
        self._ranges: Final[list[tuple[Topic, Position, Position]]] = []
        # By entry: the uuid of the message that it is a chunk of.
        self._uuids: Final[dict[int, str]] = {}
        # By uuid: its chunks, in order.
        self._chunks: Final[dict[str, list[int]]] = {}
        for id in ids:
            self._want(id)
        self._merge(entries_max)

    def _want(self, id: MessageIdData) -> None:
        first = id.first_chunk
        assert first is not None
        topic = self._finder.find(id)
        begins = self._finder.find(first)
        last = Position(id.ledger_id, id.entry_id)
        if Position(first.ledger_id, first.entry_id) > last:
            raise InvalidMessageIdError(
                f"its first chunk {first.ledger_id}:{first.entry_id} is behind its last, "
                f"{id.ledger_id}:{id.entry_id}"
            )
        if topic is None:
            return
        if begins is not None and begins is not topic:
            raise InvalidMessageIdError(f"its chunks are of {begins.name} and of {topic.name}")
        self._wanted.append((topic, id))
        begin = topic.ledgers.at_or_after(Position(first.ledger_id, first.entry_id))
        assert begin is not None
        self._ranges.append((topic, begin, last))

    def _merge(self, entries_max: int) -> None:
        """Puts the ranges in order and joins those that overlap."""
        self._ranges.sort(key=lambda one: (one[0].id, one[1]))
        merged: list[tuple[Topic, Position, Position]] = []
        total = 0
        for topic, begin, last in self._ranges:
            if merged and merged[-1][0] is topic and begin <= merged[-1][2]:
                merged[-1] = (topic, merged[-1][1], max(last, merged[-1][2]))
            else:
                merged.append((topic, begin, last))
        for topic, begin, last in merged:
            total += topic.ledgers.entries_after(begin) - topic.ledgers.entries_after(last) + 1
        if total > entries_max:
            raise InvalidMessageIdError(
                f"{total} entries lie between first chunks and last ones, and {entries_max} are "
                "looked through at most: name the chunks one by one"
            )
        merged.reverse()
        self._ranges[:] = merged

    # ---- Reading -------------------------------------------------------------

    def next_plan(self) -> ReadPlan | None:
        """What is to be read next; whoever has read it calls `take`."""
        while self._ranges:
            topic, begin, last = self._ranges[-1]
            if begin <= last and topic.stored:
                plan = topic.store.plan_read(
                    topic.id, begin, entries_max=PLAN_ENTRIES, bytes_max=PLAN_BYTES
                )
                if plan.entries:
                    return plan
                topic.store.finish_read(plan)  # trimmed, just now
            self._ranges.pop()
        return None

    def take(self, plan: ReadPlan) -> None:
        """Looks at what was read."""
        topic, begin, last = self._ranges.pop()
        for entry in plan.entries:
            begin = Position(entry.ledger_id, entry.entry_id + 1)
            if Position(entry.ledger_id, entry.entry_id) > last:
                break
            assert entry.data is not None
            facts = entry_facts(split_entry(entry.data))
            if facts.chunk_id >= 0:
                key = position_key(entry.ledger_id, entry.entry_id)
                self._uuids[key] = facts.uuid
                self._chunks.setdefault(facts.uuid, []).append(key)
        self._ranges.append((topic, begin, last))

    # ---- What was found ------------------------------------------------------

    def chunks(self) -> list[MessageIdData]:
        """The chunks of all messages, as plain ids. Raises InvalidMessageIdError."""
        assert not self._ranges, "not everything was read"
        found: list[MessageIdData] = []
        for topic, id in self._wanted:
            for key in self._chunks_of(topic, id):
                place = key_position(key)
                found.append(MessageIdData(place.ledger_id, place.entry_id, topic.partition))
        return found

    def _chunks_of(self, topic: Topic, id: MessageIdData) -> list[int]:
        first = id.first_chunk
        assert first is not None
        last_key = position_key(id.ledger_id, id.entry_id)
        first_key = position_key(first.ledger_id, first.entry_id)
        uuid = self._uuids.get(last_key)
        if uuid is None:
            if topic.ledgers.entry_count(id.ledger_id) < 0:
                return []  # trimmed while the search went on
            raise NoSuchEntryError(
                id.ledger_id, id.entry_id, "it is no chunk: name it without a first one"
            )
        there = topic.ledgers.entry_count(first.ledger_id) >= 0
        if there and self._uuids.get(first_key) != uuid:
            raise InvalidMessageIdError(
                f"{first.ledger_id}:{first.entry_id} and {id.ledger_id}:{id.entry_id} are no "
                "chunks of one message"
            )
        return [key for key in self._chunks[uuid] if first_key <= key <= last_key]
