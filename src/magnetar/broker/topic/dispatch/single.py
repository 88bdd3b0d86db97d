"""Exclusive and Failover: one consumer is active and gets everything, in order.

A redelivery means all of it again from mark-delete, whoever and whatever was named; the
consumer's epoch tells it which messages are from before. On Failover the active one is
chosen by priority and name, and a change takes effect after a while, so that the one
before can finish.

What an open transaction has acked that another consumer sent is a wall: nobody knows yet whether
the active one will have to do it. Were it handed what stands behind, an abort would bring it back
out of order, and a cumulative ack would take along what its consumer was never handed. A consumer
that lost its connection is another one when it comes back, for its client may be another one too.

In transactions one consumer at a time may ack, the one that is *at work*, or else two could do the
same: a cumulative ack takes along what another one has done, whatever became of it.

| at work is            | until                                                                   |
|-----------------------|-------------------------------------------------------------------------|
| who was handed        | another one is handed something, which is after the failover delay, or  |
| something last        | it is gone: so one that is replaced may finish, and one that becomes    |
|                       | active must not do what it had been handed before                       |
| nobody, at first and  | the active one acks in a transaction, for it may have been handed that  |
| when that one is gone | on a connection before, or is handed something                          |
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.broker.host import Timer
from magnetar.broker.peer import Peer
from magnetar.broker.promise import Promise, kept
from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.dispatch.absent import Absent
from magnetar.broker.topic.dispatch.dispatcher import Dispatcher
from magnetar.broker.topic.dispatch.failover import Candidates
from magnetar.broker.topic.dispatch.replay import Replay
from magnetar.errors import BrokerError
from magnetar.model import Position, ServerError
from magnetar.model.subscription_type import SubscriptionType
from magnetar.protocol import EntryFacts, entry_facts, split_entry
from magnetar.protocol.payload.keyed_batch import staying_indexes
from magnetar.storage.compaction.view_log import View
from magnetar.storage.compaction.view_table import ViewTable
from magnetar.storage.ledger.read_plan import ReadPlan, StoredEntry

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["SingleDispatcher"]

# So many acked entries of a compacted view are passed over in one go.
PASSED_MAX: Final = 1000


@final
class SingleDispatcher(Dispatcher):
    """See the module."""

    def __init__(self, subscription: "Subscription", type: SubscriptionType) -> None:
        super().__init__(subscription, type)
        self.failover: Final = not type.takes_one
        self._candidates: Final = Candidates(int(self.partition), str(subscription.topic.name))
        self._switch: Timer | None = None
        # What an aborted transaction had acked, to be delivered again; whether that was planned.
        self._again: Final = Replay()
        self._plans_again: bool = False
        # Where entries of the compacted view were published, if those were planned.
        self._plans_view: ViewTable | None = None
        # What lies between these was delivered already: read again up to the first one only.
        self._delivered_from: Position | None = None
        self._delivered_to: Position = Position(0, 0)
        # The entry that it stopped at, since another consumer's transaction has acked it.
        self._wall: Position | None = None
        # Who was handed something last.
        self._at_work: Consumer | None = None
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
        if consumer.was_lost and consumer.out.messages > 0:
            # Whoever shares the subscription later may skip what its client has.
            self.subscription.have_lost(Absent(consumer, self.host.now_ms()))
        if self.failover:
            self._candidates.remove(consumer.key)
        if consumer is self._at_work:
            self._at_work = None
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

    def acked(self, keys: list[int], by: Consumer | None) -> None:
        self._look_at_wall()

    def passed(self) -> None:
        self._look_at_wall()

    def _look_at_wall(self) -> None:
        if self._wall is not None:
            self.pump()

    def _is_walled(self, consumer: Consumer) -> bool:
        """Whether it has to wait where it stopped."""
        if self._wall is not None and not self._is_held(self._wall, consumer):
            self._wall = None
        return self._wall is not None

    def _is_held(self, position: Position, consumer: Consumer) -> bool:
        pending = self.subscription.pending
        return pending.is_held_from(position, consumer.key) and self.cursor.remaining(position) != 0

    def released(self, keys: list[int]) -> None:
        """Only these come again. To begin anew would double what is in the consumer's queue."""
        ledgers = self.subscription.topic.ledgers
        for key in keys:
            position = ledgers.position(key)
            if position < self.read_position and self.cursor.remaining(position) != 0:
                self._again.add(key)
        self.pump()

    def released_through(self, target: Position) -> None:
        """The same for all that is unacked up to a place."""
        if target >= self.read_position:
            self.rewind()
        elif self._delivered_from is None:
            before = self.read_position
            self.rewind()
            self._delivered_from = Position(target.ledger_id, target.entry_id + 1)
            self._delivered_to = before
        else:
            self.rewind()
        self.pump()

    def rewind(self) -> None:
        super().rewind()
        self._again.clear()
        self._delivered_from = None
        self._wall = None

    def may_not_transact(self, consumer: Consumer) -> bool:
        if self._at_work is None:
            return consumer is not self.active
        return consumer is not self._at_work

    def transacts(self, consumer: Consumer) -> None:
        self._at_work = consumer

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
        self._plans_again = False
        self._plans_view = None
        view = self.subscription.topic.compaction.view if consumer.read_compacted else None
        while len(self._again) > 0:
            plan = self._plan_again(view, entries, settings.dispatch_read_bytes)
            if plan is not None:
                return plan
            if self._waits_for_table(view):
                return None
        if self._is_walled(consumer):
            return None
        self._pass_delivered(self.read_position)
        if view is not None and self.read_position <= view.facts.through:
            return self._plan_view(view, entries, settings.dispatch_read_bytes)
        return self._plan_run(entries, settings.dispatch_read_bytes)

    def _waits_for_table(self, view: View | None) -> bool:
        """Whether it is being read; who waits is pumped for when it is there."""
        return view is not None and self.subscription.topic.compaction.table() is None

    def _any_available(self) -> bool:
        return self.active is not None and self._switch is None and self.active.available

    def _anything(self) -> bool:
        if len(self._again) > 0 or (self.active is not None and self.active.read_compacted):
            return True
        return self.cursor.next_run(self.read_position, 1) is not None

    def _plan_view(self, view: View, entries_max: i64, bytes_max: int) -> ReadPlan | None:
        """What comes next of the compacted view; of the topic, if the view has no more."""
        table = self.subscription.topic.compaction.table()
        if table is None:
            return None  # it is being read, and pumped for when it is there
        number: i64 = table.first_from(self.read_position)
        end: i64 = len(table)
        passed: i64 = 0
        while number < end and self.subscription.pending.deliverable(table.position(number)) == 0:
            if self.active is not None and self._is_held(table.position(number), self.active):
                self._wall = self.read_position = table.position(number)
                return None
            number += 1
            passed += 1
            if passed == PASSED_MAX and number < end:
                self.read_position = table.position(number)
                self.pump_later()
                return None
        if number == end:
            through = view.facts.through
            self.read_position = Position(through.ledger_id, through.entry_id + 1)
            return self._plan_run(entries_max, bytes_max)
        end = min(end, number + entries_max)
        wanted = [Position(view.ledger_id, each) for each in range(number, end)]
        plan = self.store.plan_entries(wanted, bytes_max)
        if not plan.entries:
            # It was replaced just now, and the topic will hear of it.
            self.store.finish_read(plan)
            return None
        self._plans_view = table
        return plan

    def _place_of(self, entry: StoredEntry) -> Position:
        table = self._plans_view
        return super()._place_of(entry) if table is None else table.position(entry.entry_id)

    def _plan_again(self, view: View | None, entries_max: i64, bytes_max: int) -> ReadPlan | None:
        """A plan for entries that come again; those that are gone are forgotten."""
        ledgers = self.subscription.topic.ledgers
        keys = self._again.first(entries_max)
        if view is not None and ledgers.position(keys[0]) <= view.facts.through:
            table = self.subscription.topic.compaction.table()
            if table is None:
                return None
            keys = [key for key in keys if ledgers.position(key) <= view.facts.through]
            wanted = places_in_view(view, table, [ledgers.position(key) for key in keys])
            self._plans_view = table
        else:
            wanted = [ledgers.position(key) for key in keys]
        plan = self.store.plan_entries(wanted, bytes_max)
        places = [self._place_of(entry) for entry in plan.entries]
        there = {ledgers.key(place.ledger_id, place.entry_id) for place in places}
        last = max(there, default=keys[-1])
        for key in keys:
            if key <= last and key not in there:
                self._again.discard(key)
        self._plans_again = bool(there)
        if not there:
            self._plans_view = None
            self.store.finish_read(plan)
            return None
        return plan

    def _pass_delivered(self, position: Position) -> bool:
        """Goes on behind what was delivered already, if the reading has come to it."""
        if self._delivered_from is None or position < self._delivered_from:
            return False
        self._delivered_from = None
        self.read_position = max(position, self._delivered_to)
        return True

    def _reads_for(self) -> Peer | None:
        return None if self.active is None else self.active.peer

    def _deliver(self, entries: list[StoredEntry]) -> bool:
        consumer = self.active
        if consumer is None or self._switch is not None:
            return False
        if len(self._again) > 0 and not self._plans_again:
            return True  # an abort gave back what stands before these, while they were read
        now_ms = self.host.now_ms()
        pending = self.subscription.pending
        may_be_held = len(pending) > 0
        gate = self.subscription.gate
        table = self._plans_view
        for entry in entries:
            if not consumer.available or (gate is not None and gate.is_shut()):
                return False
            if table is None:
                position = Position(entry.ledger_id, entry.entry_id)
            else:
                position = table.position(entry.entry_id)
                entry = published_at(entry, position)
            if self._plans_again:
                key = self.subscription.topic.ledgers.key(entry.ledger_id, entry.entry_id)
                self._again.discard(key)
            elif self._pass_delivered(position):
                return True
            elif may_be_held and self._is_held(position, consumer):
                self._wall = position
                return False
            remaining = pending.deliverable(position)
            if table is not None and entry.batch_size > 1:
                remaining = without_compacted(entry, remaining)
            if remaining != 0:
                messages = consumer.deliver(
                    entry, self.partition, remaining=remaining, redelivery_count=0, now_ms=now_ms
                )
                if gate is not None:
                    gate.take(messages, entry.length)
                self._at_work = consumer
                if self.subscription.topic.chunks > 0:
                    self._count_chunk(consumer, entry)
            if not self._plans_again:
                self.read_position = Position(entry.ledger_id, entry.entry_id + 1)
        return True

    def _count_chunk(self, consumer: Consumer, entry: StoredEntry) -> None:
        assert entry.data is not None
        if entry_facts(split_entry(entry.data)).chunk_id >= 0:
            consumer.chunks += 1


def places_in_view(view: View, table: ViewTable, positions: list[Position]) -> list[Position]:
    """Returns where a view has what was published there; nothing of what it does not have."""
    found: list[Position] = []
    for position in positions:
        number = table.first_from(position)
        if number < len(table) and table.position(number) == position:
            found.append(Position(view.ledger_id, number))
    return found


def published_at(entry: StoredEntry, position: Position) -> StoredEntry:
    """Returns an entry of a compacted view as one of its topic."""
    return StoredEntry(
        position.ledger_id,
        position.entry_id,
        address=entry.address,
        length=entry.length,
        batch_size=entry.batch_size,
        publish_time_ms=entry.publish_time_ms,
        data=entry.data,
    )


def without_compacted(entry: StoredEntry, remaining: int | None) -> int | None:
    """Returns what is to be delivered of a batch of which compaction left some messages out.

    Those say so, but the C++ client hands them out all the same, as messages without a key. The
    bits that hide what is acked hide them from every client.
    """
    assert entry.data is not None
    staying = staying_indexes(split_entry(entry.data), entry.batch_size)
    if staying is None or remaining is None:
        return remaining if staying is None else staying
    return remaining & staying
