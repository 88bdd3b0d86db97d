"""Exclusive and Failover: one consumer is active and gets everything, in order.

A redelivery means all of it again from mark-delete, whoever and whatever was named; the
consumer's epoch tells it which messages are from before. On Failover the active one is
chosen by priority and name, and a change takes effect after a while, so that the one
before can finish.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.broker.host import Timer
from magnetar.broker.peer import Peer
from magnetar.broker.promise import Promise, kept
from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.dispatch.dispatcher import Dispatcher
from magnetar.broker.topic.dispatch.failover import Candidates
from magnetar.broker.topic.dispatch.subscription_type import SubscriptionType
from magnetar.errors import BrokerError
from magnetar.model import Position, ServerError
from magnetar.protocol import EntryFacts, entry_facts, split_entry
from magnetar.storage.ledger.read_plan import ReadPlan, StoredEntry

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["SingleDispatcher"]


@final
class SingleDispatcher(Dispatcher):
    """See the module."""

    def __init__(self, subscription: "Subscription", type: SubscriptionType) -> None:
        super().__init__(subscription, type)
        self.failover: Final = not type.takes_one
        self._candidates: Final = Candidates(int(self.partition), str(subscription.topic.name))
        self._switch: Timer | None = None
        self.rewind()

    def add(self, consumer: Consumer) -> None:
        if self.consumers and not self.failover:
            raise BrokerError(
                ServerError.ConsumerBusy,
                f"{self.subscription.title} is Exclusive and has a consumer: close it, or "
                "subscribe as Failover, Shared or Key_Shared",
            )
        self._put(consumer)
        if self.failover:
            self._candidates.add(consumer.priority, consumer.name, consumer.key)
        self._choose()
        if self.failover and consumer is not self.active:
            consumer.tell_active(False)

    def remove(self, consumer: Consumer) -> Promise[None]:
        if not self.has(consumer):
            return kept(None)
        self._take_out(consumer)
        if self.failover:
            self._candidates.remove(consumer.key)
        if consumer is self.active:
            self.active = None
            self.rewind()
        self._choose()
        return kept(None)

    def _choose(self) -> None:
        chosen = self._candidate()
        if chosen is self.active:
            return
        waits = self.active is not None and self.subscription.failover_delay_ms > 0
        before = self.active
        self.active = chosen
        self.generation += 1
        if self._switch is not None:
            self._switch.cancel()
            self._switch = None
        if self.failover:
            if before is not None:
                before.tell_active(False)
            if chosen is not None:
                chosen.tell_active(True)
        if chosen is None:
            return
        if waits:
            self._switch = self.host.call_later(self.subscription.failover_delay_ms, self._switched)
        else:
            self._begin()

    def _switched(self) -> None:
        self._switch = None
        self._begin()

    def _begin(self) -> None:
        self.rewind()
        self.pump()

    def _candidate(self) -> Consumer | None:
        if not self.consumers:
            return None
        if not self.failover:
            return self.consumers[0]
        return self.by_key[self._candidates.pick()]

    def redeliver(self, consumer: Consumer, keys: list[int] | None, epoch: int | None) -> None:
        # Of one that waits, too: when it is active again it drops what is of an older epoch.
        if epoch is not None:
            consumer.epoch = epoch
        if consumer is not self.active:
            return
        self.rewind()
        self.pump()

    def taker(self, facts: EntryFacts) -> Consumer | None:
        active = self.active
        return active if active is not None and active.available else None

    def close(self) -> None:
        super().close()
        if self._switch is not None:
            self._switch.cancel()
            self._switch = None

    # ---- The pump ------------------------------------------------------------

    def _plan(self) -> ReadPlan | None:
        consumer = self.active
        if consumer is None or self._switch is not None or not consumer.available:
            return None
        settings = self.subscription.topic.settings
        entries: i64 = min(consumer.permits, settings.dispatch_read_entries)
        return self._plan_run(entries, settings.dispatch_read_bytes)

    def _reads_for(self) -> Peer | None:
        return None if self.active is None else self.active.peer

    def _deliver(self, entries: list[StoredEntry]) -> bool:
        consumer = self.active
        if consumer is None or self._switch is not None:
            return False
        now_ms = self.host.now_ms()
        for entry in entries:
            if not consumer.available:
                return False
            position = Position(entry.ledger_id, entry.entry_id)
            remaining = self.cursor.remaining(position)
            if remaining != 0:
                consumer.deliver(
                    entry, self.partition, remaining=remaining, redelivery_count=0, now_ms=now_ms
                )
                if self.subscription.topic.chunks > 0:
                    self._count_chunk(consumer, entry)
            self.read_position = Position(entry.ledger_id, entry.entry_id + 1)
        return True

    def _count_chunk(self, consumer: Consumer, entry: StoredEntry) -> None:
        assert entry.data is not None
        if entry_facts(split_entry(entry.data)).chunk_id >= 0:
            consumer.chunks += 1
