"""Messages in chunks that reach over a place in a topic: they end behind it, and begin before.

    topic      A0  B  A1 | C  A2        A spans the place, and stands behind it, with its last chunk

Whoever puts a cursor there wants what stands behind it, A too, and not B. So the chunks of A in
front of the place are spared: they are unacked, and everything else there is acked.

| step | looks at                                          | finds                              |
|------|---------------------------------------------------|------------------------------------|
| on   | so many chunks behind the place                   | messages that do not begin there   |
| back | for each of them, chunks in front of the place    | those that it has, if all are there|
"""

from typing import Final, final

from magnetar.broker.promise import Promise
from magnetar.broker.topic.chunk.chunk_map import NONE
from magnetar.broker.topic.chunk.chunk_walk import GAP_MAX, ChunkWalk, look_at
from magnetar.broker.topic.entry_search import EntrySearch, run_search
from magnetar.broker.topic.topic import Topic
from magnetar.broker.turn.looks import Looks
from magnetar.model import Position
from magnetar.storage.ledger.read_plan import ReadPlan

__all__ = ["Spanning", "find_spanning"]

# How many entries behind the place are looked at that are chunks, or may be: as many as may stand
# between two chunks of one message.
LOOK_MAX: Final = GAP_MAX
# What is read at once; it is about to be delivered anyway.
PLAN_ENTRIES: Final = 50
PLAN_BYTES: Final = 1 << 20
# A message whose first chunk is further away is left to itself: all between would be acked singly.
SPAN_MAX: Final = 10_000


def find_spanning(topic: Topic, mark: Position) -> Promise[list[int]]:
    """Returns the chunks up to `mark` of messages that end behind it. Breaks with StorageError."""
    search = Spanning(topic, mark)
    promise: Promise[list[int]] = Promise()
    run_search(topic, search).then(lambda done: promise.keep(search.keys), promise.fail)
    return promise


@final
class Spanning(EntrySearch):
    """See the module. `keys` has what was found."""

    def __init__(self, topic: Topic, mark: Position) -> None:
        topic.chunk_map.tidy()
        self._topic: Final = topic
        self._looks: Final[Looks] = topic.broker.looks
        self._mark: Final = mark
        self._mark_key: Final = topic.ledgers.key(mark.ledger_id, mark.entry_id)
        self._at: int = self._mark_key
        self._looks_left: int = LOOK_MAX
        # By message: its first chunk behind the place, NONE once that is looked at.
        self._seen: Final[dict[str, int]] = {}
        self._open: Final[list[int]] = []
        self._walk: ChunkWalk | None = None
        self.keys: Final[list[int]] = []

    def next_plan(self) -> ReadPlan | None:
        plan = self._plan_on()
        if plan is not None or self._looks.is_over():
            return plan
        return self._plan_back()

    def _plan_on(self) -> ReadPlan | None:
        chunk_map = self._topic.chunk_map
        while self._looks_left > 0 and not self._looks.is_over():
            at = chunk_map.after(self._at, self._looks)
            if at == NONE:
                self._looks_left = 0
            elif not chunk_map.knows(at):
                return self._plan_unknown(at)
            else:
                self._look(at)
        return None

    def _plan_unknown(self, key: int) -> ReadPlan | None:
        """Reads what is not known from an entry on; None if it is gone, and the search over."""
        keys: list[int] = []
        while key != NONE and len(keys) < PLAN_ENTRIES and not (keys and self._looks.is_over()):
            if not self._topic.chunk_map.knows(key):
                keys.append(key)
            key = self._topic.chunk_map.after(key, self._looks)
        store = self._topic.store
        positions = [self._topic.ledgers.position(key) for key in keys]
        plan = store.plan_entries(positions, PLAN_BYTES)
        if plan.entries:
            return plan
        store.finish_read(plan)
        self._looks_left = 0
        return None

    def _look(self, key: int) -> None:
        self._at = key
        chunk = self._topic.chunk_map.chunk(key)
        if chunk is None:
            return  # This is how far it came before it rested.
        self._looks_left -= 1
        if chunk.name not in self._seen:
            self._seen[chunk.name] = key
            if chunk.id > 0:
                self._open.append(key)

    def _plan_back(self) -> ReadPlan | None:
        while (self._walk is not None or self._open) and not self._looks.is_over():
            if self._walk is None:
                self._walk = self._begin_walk(self._open.pop())
            if self._walk is not None:
                plan = self._walk.next_plan()
                if plan is not None or self._looks.is_over():
                    return plan
                self._spare(self._walk)
                self._walk = None
        return None

    def _begin_walk(self, key: int) -> ChunkWalk | None:
        self._looks.take()
        if self._topic.chunk_map.chunk(key) is None:
            return None  # trimmed, or forgotten for too many others
        return ChunkWalk(self._topic, key, only_back=True)

    def _spare(self, walk: ChunkWalk) -> None:
        keys = [key for key in walk.keys if key <= self._mark_key]
        if not walk.has_first or not keys or self._was_complete(keys):
            return
        ledgers = self._topic.ledgers
        first = ledgers.position(min(keys))
        between = ledgers.entries_after(first) - ledgers.entries_after(self._mark)
        if between <= SPAN_MAX:
            self.keys.extend(keys)

    def _was_complete(self, keys: list[int]) -> bool:
        """Returns whether the message ended in front of the place: what is behind it is a copy."""
        for key in keys:
            chunk = self._topic.chunk_map.chunk(key)
            if chunk is not None and chunk.last:
                return True
        return False

    def take(self, plan: ReadPlan) -> None:
        for entry in plan.entries:
            look_at(self._topic, entry)
