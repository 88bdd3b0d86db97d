"""What the store has of a topic: how much, from when, and what of it may go.

Of a topic that is not persistent, or whose record is not durable yet, the store has nothing:
sizes are 0, and there are no ledgers.
"""

from typing import TYPE_CHECKING, Final, final

from magnetar.model import Position
from magnetar.storage.ledger.retention import LedgerInfo, Retention

if TYPE_CHECKING:
    from magnetar.broker.topic.topic import Topic

__all__ = ["TopicStorage", "bytes_after"]


def bytes_after(ledgers: list[LedgerInfo], position: Position) -> int:
    """What of these ledgers lies behind a position; of the one that it is in, a share."""
    total = 0
    for ledger in ledgers:
        if ledger.id > position.ledger_id:
            total += ledger.size_bytes
        elif ledger.id == position.ledger_id and ledger.entries > 0:
            left = max(ledger.entries - position.entry_id - 1, 0)
            total += ledger.size_bytes * left // ledger.entries
    return total


@final
class TopicStorage:
    """See the module."""

    def __init__(self, topic: "Topic") -> None:
        self._topic: Final = topic
        self._trim_wanted: bool = False

    def position_at(self, time_ms: int) -> Position:
        """The first entry that was not published before `time_ms`.

        Publish times are the producers' and need not ascend; as in Pulsar the search
        takes them as if they did.
        """
        topic, store = self._topic, self._topic.store
        for ledger in store.ledgers(topic.id) if self.stored else []:
            if ledger.entries == 0:
                continue
            if store.publish_time_ms(ledger.id, ledger.entries - 1) < time_ms:
                continue
            low, high = 0, ledger.entries - 1
            while low < high:
                middle = (low + high) // 2
                if store.publish_time_ms(ledger.id, middle) < time_ms:
                    low = middle + 1
                else:
                    high = middle
            return Position(ledger.id, low)
        last = topic.ledgers.last()
        return Position(last.ledger_id, last.entry_id + 1)

    @property
    def stored(self) -> bool:
        """Whether the store knows the topic; a new one it knows when it is durable."""
        return self._topic.id in self._topic.store.log.state.topics

    def size_bytes(self) -> int:
        if not self.stored:
            return 0
        return sum([ledger.size_bytes for ledger in self._topic.store.ledgers(self._topic.id)])

    def backlog_bytes(self, position: Position) -> int:
        """What lies behind a position; of the ledger that it is in, a share."""
        return (
            bytes_after(self._topic.store.ledgers(self._topic.id), position) if self.stored else 0
        )

    def slowest(self, *, uncompacted: bool = False) -> Position | None:
        """The position up to which nobody needs anything any more; None if nobody is there.

        Compaction needs what is not in its view yet, unless that may go `uncompacted`.
        """
        slowest = self.slowest_subscription()
        topic = self._topic
        own = None if topic.deduplication is None else topic.deduplication.position
        for other in (own, None if uncompacted else topic.compaction.floor):
            if other is not None:
                slowest = other if slowest is None else min(slowest, other)
        return slowest

    def slowest_subscription(self) -> Position | None:
        """That of subscriptions only; the broker's own cursors are nobody's backlog."""
        floors = [s.floor for s in self._topic.subscriptions.values() if s.durable]
        return min(floors) if floors else None

    def acks_moved(self) -> None:
        """Ledgers may have become free."""
        if not self._trim_wanted and len(self.ledger_ids()) > 1:
            self._trim_wanted = True
            self._topic.broker.upkeep.trim_later(self._topic)

    def ledger_ids(self) -> list[int]:
        return self._topic.store.log.state.topics[self._topic.id].ledger_ids if self.stored else []

    def trim(self, retention: Retention | None = None, *, uncompacted: bool = False) -> None:
        """Deletes ledgers that are acked and not retained, as policies say unless told.

        With `uncompacted`, what is in no compacted view goes as well.
        """
        self._trim_wanted = False
        if self._topic.closed or not self.stored:
            return
        if retention is None:
            retention = Retention(
                time_ms=self._topic.policies.retention_time_ms,
                size_bytes=self._topic.policies.retention_size_bytes,
            )
        slowest = self.slowest(uncompacted=uncompacted)
        trimmed = self._topic.store.trim(self._topic.id, slowest, retention)
        if not trimmed:
            return
        self._topic.host.kick()
        self._topic.wait_for(self._topic.store.ticket_last).when_done(
            lambda error: self._trimmed(trimmed) if error is None else None
        )

    def _trimmed(self, ledger_ids: list[int]) -> None:
        for ledger_id in ledger_ids:
            if self._topic.ledgers.entry_count(ledger_id) >= 0:
                self._topic.ledgers.remove(ledger_id)
            self._topic.chunk_map.remove(ledger_id)
        for subscription in list(self._topic.subscriptions.values()):
            subscription.have_trimmed()
