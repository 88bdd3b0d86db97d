"""What all dispatchers share: consumers, and reading entries without getting in anyone's way.

A dispatcher decides who gets which entry. It is told of consumers, permits, acks and new
entries, and pumps: reads what may be delivered and hands it out, until there is nothing to
read, nobody to read for, or enough was done by all dispatchers in one round (`rounds.py`).

| reading | pump                 | entries arrive                             |
|---------|----------------------|--------------------------------------------|
| no      | plan a read, begin   | -                                          |
| yes     | nothing, it will be  | deliver, unless the plan is of another     |
|         | pumped when they are | generation: a rewind came in between       |

Nothing is changed by planning. An entry leaves the place that it waits in when it is
delivered, so a read that is thrown away loses nothing.

A read that the disk refuses is tried again. What nobody foresaw ends the dispatcher, and its
topic is given up.
"""

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from magnetar.ack import Cursor
from magnetar.broker.host import Host
from magnetar.broker.peer import Peer
from magnetar.broker.promise import Promise
from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.delayed import DelayedMessages
from magnetar.broker.topic.dispatch.replay import Redeliveries
from magnetar.broker.topic.subscribe_request import KeySharedOptions
from magnetar.broker.turn.rounds import ENTRY_BYTES, ROUND_BYTES_MAX, Rounds
from magnetar.errors import CorruptionError, StorageError
from magnetar.model import Position
from magnetar.model.subscription_type import SubscriptionType
from magnetar.protocol import EntryFacts
from magnetar.storage.ledger.read_plan import ReadPlan, StoredEntry
from magnetar.storage.store import Store

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["LOOKS_FREE", "Dispatcher"]

# What looking at a consumer costs of a round, for each entry: thousands of them take time too.
# So many are for nothing.
LOOK_BYTES: Final = 16
LOOKS_FREE: Final = 100
# A read that failed is tried again after so long.
READ_RETRY_MS: Final = 1000


def _rank(consumer: Consumer) -> tuple[int, int]:
    return (consumer.priority, consumer.key)


class Dispatcher:
    """Base of the dispatchers; see the module."""

    def __init__(self, subscription: "Subscription", type: SubscriptionType) -> None:
        self.subscription: Final = subscription
        self.type: Final = type
        # The one that gets everything, if the type has one and it is there.
        self.active: Consumer | None = None
        self.host: Final[Host] = subscription.topic.host
        self.store: Final[Store] = subscription.topic.store
        self.topic_id: Final[int] = subscription.topic.id
        self.partition: Final[i64] = subscription.topic.name.partition
        # In order of priority, and of their coming; and the same by key.
        self.consumers: list[Consumer] = []
        self.by_key: Final[dict[int, Consumer]] = {}
        # Where consumers share, who has which entry, how often each came back, and what is not due
        # yet. Where one is active nobody keeps these, and they are empty.
        self.owners: Final[dict[int, Consumer]] = {}
        self.redeliveries: Final = Redeliveries()
        self.delayed: Final = DelayedMessages()
        self.read_position: Position = Position(0, 0)
        self.generation: int = 0
        self.reading: bool = False
        self._rounds: Final[Rounds] = subscription.topic.broker.rounds
        # Whether it stands in line for a round.
        self._scheduled: bool = False
        self._closed: bool = False

    @property
    def cursor(self) -> Cursor:
        return self.subscription.cursor

    # ---- Consumers -----------------------------------------------------------

    def has(self, consumer: Consumer) -> bool:
        """Whether it is one of its consumers."""
        return self.by_key.get(consumer.key) is consumer

    def _put(self, consumer: Consumer) -> None:
        insort(self.consumers, consumer, key=_rank)
        self.by_key[consumer.key] = consumer
        consumer.late_ms = self.subscription.topic.broker.latency.dispatch_ms

    def _take_out(self, consumer: Consumer) -> None:
        self.subscription.have_left(consumer)
        del self.consumers[bisect_left(self.consumers, _rank(consumer), key=_rank)]
        del self.by_key[consumer.key]

    # ---- What each type does -------------------------------------------------

    def suits(self, type: SubscriptionType, options: KeySharedOptions) -> bool:
        """Whether a consumer that asks for this may join those that are here."""
        return type is self.type

    def join(self, consumer: Consumer, options: KeySharedOptions) -> None:
        """Adds a consumer with what it asks for. Raises BrokerError if that cannot be."""
        self.add(consumer)

    def add(self, consumer: Consumer) -> None:
        raise NotImplementedError

    def taker(self, facts: EntryFacts) -> Consumer | None:
        """Who gets an entry that is not stored, if somebody has room for it now."""
        raise NotImplementedError

    def remove(self, consumer: Consumer) -> Promise[None]:
        """Kept when it is gone, and nothing is its own any more."""
        raise NotImplementedError

    def retire(self) -> list[Consumer]:
        """Closes, and has no consumers any more; those that it had."""
        self.close()
        consumers = self.consumers
        self.consumers = []
        self.by_key.clear()
        return consumers

    def flow(self, consumer: Consumer, permits: i64) -> None:
        """The consumer has room for so many more."""
        consumer.permits += permits
        consumer.last_flow_ms = self.host.now_ms()
        self.changed()

    def redeliver(self, consumer: Consumer, keys: list[int] | None, epoch: int | None) -> None:
        """The consumer wants these again, or everything that it holds if there is no list."""
        raise NotImplementedError

    def acked(self, keys: list[int], by: Consumer | None) -> None:
        """Something of these entries was acked, and is durable; by an operator if by nobody."""

    def acked_again(self, keys: list[int], by: Consumer) -> None:
        """A consumer acked what was acked before."""

    def pending(self, key: int, indexes: int, by: Consumer) -> None:
        """These of a batch are acked in a transaction; `acked` follows."""

    def released(self, keys: list[int]) -> None:
        """A transaction aborted that had acked these entries: they are free again."""

    def may_not_transact(self, consumer: Consumer) -> bool:
        """Whether another one is at work on what a consumer would ack in a transaction."""
        return False

    def transacts(self, consumer: Consumer) -> None:
        """A consumer acks in a transaction."""

    def refused(self, keys: list[int]) -> None:
        """Acks of these entries in transactions came and could not be written."""

    def released_through(self, target: Position) -> None:
        """The same for all that is unacked up to a place, where cumulative acks are accepted."""

    def holder(self, key: int) -> Consumer | None:
        """Who has an entry and may hand it out, acked or not, where that is kept."""
        return None

    def take_overtaken(self, key: int) -> Consumer | None:
        """Who has an entry that is not counted as its own, if there is one more; it is asked
        for it now."""
        return None

    def has_still(self, key: int, holder: Consumer) -> None:
        """Who was taken for an entry, and is asked for a part of it, has the rest."""

    @property
    def has_overtaken(self) -> bool:
        """Whether there is such an entry."""
        return False

    def changed(self) -> None:
        """What could not be delivered before may be possible now.

        There are more permits, other limits on unacked messages, or a slow peer reads again.
        """
        self.pump()

    def passed(self) -> None:
        """The cursor moved by itself, or ledgers are gone: skip, expire, clear, trim.

        What is acked, or not there any more, is let go of.
        """

    def rewind(self) -> None:
        """Begin anew behind mark-delete, forgetting what was to be delivered again."""
        mark_delete = self.cursor.mark_delete
        self.read_position = Position(mark_delete.ledger_id, mark_delete.entry_id + 1)
        self.generation += 1

    def delayed_count(self) -> int:
        return 0

    def replay_count(self) -> int:
        return 0

    def unacked_count(self) -> int:
        """Messages that consumers have and have not acked, where that is kept."""
        return 0

    @property
    def full(self) -> bool:
        """Whether the limit on unacked messages holds everything up."""
        return False

    def delayed_bytes(self) -> int:
        """The memory that delayed messages take."""
        return 0

    def most_redelivered(self, limit: int) -> list[tuple[int, int]]:
        """The keys of entries that were redelivered most, with how often."""
        return []

    # ---- What types that go by key know -----------------------------------------

    @property
    def is_sticky(self) -> bool:
        """Whether consumers named their slots."""
        return False

    @property
    def allows_disorder(self) -> bool:
        """Whether the messages of a key may be delivered out of order."""
        return False

    def ranges(self, consumer: Consumer) -> list[tuple[int, int]]:
        """The slots that a consumer has, as ranges with both ends in them."""
        return []

    def draining(self) -> list[tuple[int, int, int]]:
        """Slots that wait for their holder before: slot, holder's key and unacked entries."""
        return []

    # ---- The end -------------------------------------------------------------

    def close(self) -> None:
        """No more: the subscription goes."""
        self._closed = True
        self.generation += 1

    # ---- The pump ------------------------------------------------------------

    def pump(self) -> None:
        """Hands out what can be handed out now."""
        try:
            self._pump()
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self.close()
        self.subscription.topic.give_up(error)

    def _pump(self) -> None:
        while not self.reading and not self._closed and not self.subscription.fenced:
            if self._rounds.full:
                self.pump_later()
                return
            gate = self.subscription.gate
            if gate is not None and gate.holds_up():
                return
            try:
                plan = self._plan()
            except StorageError as error:
                self._read_later(error)
                return
            if plan is None:
                return
            if plan.complete:
                self.store.finish_read(plan)
                if not self._hand_out(plan.entries):
                    return
            else:
                self._read(plan)

    def pump_later(self) -> None:
        """Others first."""
        if not self._scheduled:
            self._scheduled = True
            self._rounds.wait(self)

    def work_on(self) -> None:
        """There is a new round, and it is first in line."""
        self._scheduled = False
        self.pump()

    def _plan(self) -> ReadPlan | None:
        """What to read next; None if there is nothing, or nobody wants it."""
        raise NotImplementedError

    def _deliver(self, entries: list[StoredEntry]) -> bool:
        """Hands entries out; False if it is no use to go on."""
        raise NotImplementedError

    def _hand_out(self, entries: list[StoredEntry]) -> bool:
        """Delivers, and says what that takes of the round."""
        looks: i64 = max(len(self.consumers) - LOOKS_FREE, 0) * LOOK_BYTES
        size: i64 = 0
        for entry in entries:
            size += entry.length + ENTRY_BYTES + looks
        self._rounds.spend(size)
        return self._deliver(entries)

    def wants_tokens(self) -> bool:
        """Whether something may be there for somebody who has room."""
        return not self.full and self._any_available() and self._anything()

    def _anything(self) -> bool:
        """Whether there is something to deliver, if somebody has room for it."""
        raise NotImplementedError

    def _any_available(self) -> bool:
        for consumer in self.consumers:
            if consumer.available:
                return True
        return False

    def _has_sent(self, messages: i64, size: int) -> None:
        """So much was handed out, which counts for rates."""
        gate = self.subscription.gate
        if gate is not None:
            gate.take(messages, size)

    def _is_waiting(self) -> bool:
        """Whether it will go on by itself, for tests: when a read ends, or in its turn."""
        gate = self.subscription.gate
        return self.reading or self._scheduled or (gate is not None and gate.check())

    def _is_shut(self) -> bool:
        """Whether a rate is reached by what was handed out; then it is pumped in its time."""
        gate = self.subscription.gate
        return gate is not None and gate.is_shut()

    def _reads_for(self) -> Peer | None:
        """Whose memory it is that entries are read into: that of one who may be sent to."""
        for consumer in self.consumers:
            if consumer.available:
                return consumer.peer
        return None

    def _entries_max(self) -> i64:
        """How many entries may be handed out at once."""
        most: i64 = self.subscription.topic.settings.dispatch_read_entries
        if len(self.consumers) <= LOOKS_FREE:
            return most
        return max(min(most, ROUND_BYTES_MAX // (len(self.consumers) * LOOK_BYTES)), 1)

    def _read(self, plan: ReadPlan) -> None:
        self.reading = True
        generation = self.generation
        peer = self._reads_for()
        size = plan.missing_bytes
        if peer is not None:
            peer.read_began(size)

        def done(error: Exception | None) -> None:
            try:
                # Before, for there is room for what was read; and after it for others.
                full = peer is not None and peer.read_ended(size)
                self._have_read(plan, generation, error)
                if full and peer is not None:
                    peer.have_room()
            except Exception as fault:
                self._give_up(fault)

        self.host.read(plan).when_done(done)

    def _have_read(self, plan: ReadPlan, generation: int, error: Exception | None) -> None:
        self.reading = False
        self.store.finish_read(plan)
        if self._closed:
            return
        if error is not None:
            if not isinstance(error, StorageError):
                raise error
            if not isinstance(error, CorruptionError):
                self._read_later(error)
            elif generation == self.generation and not self.subscription.fenced:
                self._have_read_some(plan, error)
            else:
                self.pump()
            return
        self.subscription.damage.read(plan)
        if generation == self.generation and not self.subscription.fenced:
            self._hand_out(plan.entries)
        self.pump()

    def _have_read_some(self, plan: ReadPlan, error: CorruptionError) -> None:
        """An entry is damaged. What lies in front of it is handed out first."""
        whole = plan.whole()
        if whole:
            self._hand_out(whole)
            self.pump_later()
            return
        first = plan.entries[0]
        self.subscription.damage.found(self._place_of(first), error)
        self.host.call_later(READ_RETRY_MS, self.pump)

    def _place_of(self, entry: StoredEntry) -> Position:
        """Where an entry that was read was published."""
        return Position(entry.ledger_id, entry.entry_id)

    def _read_later(self, error: StorageError) -> None:
        self.host.warn(f"{self.subscription.title}: {error}; trying again")
        self.host.call_later(READ_RETRY_MS, self.pump)

    def _plan_run(self, entries_max: i64, bytes_max: int) -> ReadPlan | None:
        """The next unacked entries from the read position on."""
        run = self.cursor.next_run(self.read_position, entries_max)
        if run is None:
            return None
        plan = self.store.plan_read(
            self.topic_id,
            Position(run.ledger_id, run.first),
            entries_max=run.end - run.first,
            bytes_max=bytes_max,
        )
        # None of them may be there: they were trimmed just now, and the topic will hear of it.
        return plan if plan.entries else None
