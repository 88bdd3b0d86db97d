"""The last message of a topic: what GET_LAST_MESSAGE_ID answers.

The last entry may hold none. It is passed over, and so are those in front of it, until a
message ends:

| an entry                                       | is the last message                          |
|------------------------------------------------|----------------------------------------------|
| a message or a batch                           | yes                                          |
| the last chunk of a message, all of it there   | yes, and the answer names the first chunk too|
| any other chunk: more may come, or it may not  | no                                           |
| a marker                                       | no                                           |
| of a transaction that aborted                  | no                                           |

Apache Pulsar answers with the last entry, whatever it holds. Who waits for that one to arrive
waits for ever, if it is a chunk and its producer is dead.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.broker.topic.chunk.chunk_walk import ChunkWalk, look_at
from magnetar.broker.topic.entry_search import EntrySearch
from magnetar.broker.topic.topic import Topic
from magnetar.broker.turn.looks import Looks
from magnetar.model import Position
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import entry_facts, split_entry
from magnetar.storage.ledger.read_plan import ReadPlan, StoredEntry

__all__ = ["LastMessage", "last_of_view"]

# So many entries at the end are passed over, and looked at for the beginnings of messages in
# chunks that have none; then the last one has to do, as for others.
PASSED_MAX: Final = 10_000


@final
class LastMessage(EntrySearch):
    """See the module. `id` is what was found; -1, -1 if there is no message."""

    def __init__(self, topic: Topic, passed_max: int = PASSED_MAX) -> None:
        topic.chunk_map.tidy()
        self._topic: Final = topic
        self._looks: Final[Looks] = topic.broker.looks
        self._passed_left: int = passed_max
        self._last: Final = topic.ledgers.last()
        self._at: Position = self._last
        self._walk: ChunkWalk | None = None
        self._done: bool = False
        self.id: MessageIdData = MessageIdData(-1, -1, topic.partition)

    def next_plan(self) -> ReadPlan | None:
        while not self._done and self._at.entry_id >= 0 and not self._looks.is_over():
            self._looks.take()
            plan = self._plan()
            if plan is not None:
                return plan
        return None

    def _plan(self) -> ReadPlan | None:
        """What to read at the present entry; None: it is dealt with."""
        if self._walk is not None:
            return self._plan_walk(self._walk)
        if self._topic.ledgers.is_void(self._at):
            self._pass()
            return None
        key = self._topic.ledgers.key(self._at.ledger_id, self._at.entry_id)
        chunk = self._topic.chunk_map.chunk(key)
        if chunk is not None and chunk.last:
            self._walk = ChunkWalk(self._topic, key, only_back=True)
        elif chunk is not None:
            self._pass()
        else:
            plan = self._topic.store.plan_entries([self._at])
            if plan.entries:
                return plan
            self._topic.store.finish_read(plan)
            self._pass()
        return None

    def _plan_walk(self, walk: ChunkWalk) -> ReadPlan | None:
        plan = walk.next_plan()
        if plan is not None or self._looks.is_over():
            return plan
        self._walk = None
        if walk.whole:
            first = self._topic.ledgers.position(min(walk.keys))
            self._found(-1, MessageIdData(first.ledger_id, first.entry_id, self._topic.partition))
        else:
            self._pass(walk.looked)
        return None

    def take(self, plan: ReadPlan) -> None:
        for entry in plan.entries:
            look_at(self._topic, entry)
        if self._walk is None:
            self._judge(plan.entries[0])

    def _judge(self, entry: StoredEntry) -> None:
        assert entry.data is not None
        facts = entry_facts(split_entry(entry.data))
        if facts.marker:
            self._pass()
        elif facts.chunk_id < 0:
            self._found(facts.batch_size - 1 if facts.batched else -1, None)

    def _found(self, index: i64, first: MessageIdData | None) -> None:
        at, partition = self._at, self._topic.partition
        self._done = True
        self.id = MessageIdData(at.ledger_id, at.entry_id, partition, index, None, 0, first)

    def _pass(self, looked: int = 0) -> None:
        self._passed_left -= 1 + looked
        self._at = self._topic.ledgers.previous(self._at)
        if self._passed_left <= 0:
            self._at = self._last
            self._found(-1, None)


def last_of_view(topic: Topic, last: MessageIdData) -> MessageIdData:
    """Returns the last message for those who read the compacted view.

    The topic's own may have been left out of that, and would be waited for in vain.
    """
    view = topic.compaction.view
    if view is None or Position(last.ledger_id, last.entry_id) > view.facts.through:
        return last
    at = view.facts.last
    return MessageIdData(at.ledger_id, at.entry_id, topic.partition, view.facts.last_index)
