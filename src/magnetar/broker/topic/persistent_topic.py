"""Persistent topics: entries go to the journal, and subscriptions have cursors there.

An entry is queued in the store and becomes part of the topic when it is durable; then the
receipt goes out, and subscriptions hear of it. Nothing is delivered before.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64
from pyroaring import BitMap

from magnetar.ack import Cursor, Ledgers, encode_snapshot
from magnetar.broker.commits import Commit
from magnetar.broker.policy.effective_policies import EffectivePolicies
from magnetar.broker.topic.chunk.chunk_map import Chunk, chunk_of
from magnetar.broker.topic.producer import Producer
from magnetar.broker.topic.properties import pack_properties, unpack_properties
from magnetar.broker.topic.publish.deduplication import DUPLICATE, FRESH, OVERLAPPING, UNDECIDED
from magnetar.broker.topic.publish.entry_check import entry_fault
from magnetar.broker.topic.subscribe_request import SubscribeRequest
from magnetar.broker.topic.subscription import NO_CURSOR, Subscription
from magnetar.broker.topic.topic import BEGINNING, Topic
from magnetar.broker.topic.transaction.horizon import Horizon
from magnetar.broker.turn.work import Work
from magnetar.errors import BrokerError, StorageError
from magnetar.model import InitialPosition, Position, ServerError, TopicName
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandSend, EntryFacts, entry_facts, split_entry
from magnetar.storage.cursor.cursor_load import load_cursor_steps

if TYPE_CHECKING:
    from magnetar.broker.broker import Broker
    from magnetar.broker.transaction.transaction import Transaction

__all__ = ["PersistentTopic"]

PERSISTENCE: Final = int(ServerError.PersistenceError)
# Cursors of the broker's own begin so; no subscription may.
INTERNAL: Final = "pulsar."


@final
class _Publish(Commit):
    """An entry on its way to the disk."""

    def __init__(
        self,
        ticket: int,
        topic: "PersistentTopic",
        producer: Producer,
        position: Position,
        sequence_id: i64,
        highest_sequence_id: i64,
        messages: i64,
        size: i64,
        chunk: Chunk | None,
        came_us: i64,
        transaction: int,
    ) -> None:
        super().__init__(ticket)
        self._came_us: Final[i64] = came_us
        self._topic: Final = topic
        self._producer: Final = producer
        self._position: Final = position
        self._sequence_id: Final[i64] = sequence_id
        self._highest_sequence_id: Final[i64] = highest_sequence_id
        self._messages: Final[i64] = messages
        self._size: Final[i64] = size
        self._chunk: Final = chunk
        # The number of the transaction that it is part of; 0 if of none.
        self._transaction: Final = transaction
        # Not so for a chunk that others follow: its sequence id is theirs too.
        self._whole: Final = chunk is None or chunk.last

    def topic(self) -> "Topic | None":
        return self._topic

    def settle(self, error: Exception | None) -> None:
        producer = self._producer
        topic = self._topic
        producer.pending -= 1
        topic.broker.publish_limit.settled(producer.peer, self._size)
        if error is not None:
            reason = f"the message was not stored: {error}"
            topic.publish_failed(producer, reason)
            producer.refuse(self._sequence_id, PERSISTENCE, reason)
            return
        position = self._position
        topic.broker.latency.stored(self._came_us)
        if self._transaction != 0:
            topic.horizon.sent(self._transaction, position)
        topic.have_stored(position, self._messages, self._size)
        if self._chunk is not None:
            topic.chunk_map.published(position, self._chunk)
        producer.traffic.add(self._messages, self._size)
        if topic.deduplication is not None:
            last: i64 = max(self._highest_sequence_id, self._sequence_id) if self._whole else -1
            topic.deduplication.stored(producer.name, last, position, self._size)
        producer.receipt(
            self._sequence_id,
            self._highest_sequence_id,
            MessageIdData(position.ledger_id, position.entry_id, topic.partition),
        )


@final
class PersistentTopic(Topic):
    """A persistent topic, or one partition of it; see the module."""

    def __init__(
        self,
        broker: "Broker",
        name: TopicName,
        id: int,
        ledgers: Ledgers,
        policies: EffectivePolicies,
        *,
        terminated: bool = False,
        epoch: int = -1,
    ) -> None:
        super().__init__(broker, name, id, ledgers, policies, terminated=terminated, epoch=epoch)
        # The last ledger, and how many of its entries were there when the topic was loaded, or are
        # settled since. The store may have more: what its last write has brought, and nobody was
        # told of yet.
        self._open_ledger: i64 = -1
        self._open_entries: i64 = 0
        for ledger_id in ledgers.ids_from(0)[-1:]:
            self._open_entries = self._stored_count(ledger_id)
            self._open_ledger = ledger_id
        self._fresh: bool = False
        # What open transactions hide of it.
        self.horizon: Final = Horizon(ledgers, broker.store)
        if not self.horizon.clear:
            self.chunk_map.there_before(self.last_stored())

    # ---- Publishing ----------------------------------------------------------

    def publish(self, producer: Producer, send: CommandSend) -> None:
        """Stores an entry; the receipt or the refusal goes to the producer's peer."""
        if producer.broken or not producer.ready or self.terminated or self.blocked is not None:
            self.turn_away(producer, send)
            return
        entry = split_entry(send.entry)
        if not entry.intact():
            reason = "the entry arrived damaged: its checksum does not match, send it again"
            producer.break_off(reason)  # or those behind it would be stored before it
            self.refuse_in_turn(producer, send, ServerError.ChecksumError, reason)
            return
        facts = entry_facts(entry)
        now_ms = self.host.now_ms()
        reason = entry_fault(self, entry, facts, now_ms)
        if reason:
            self.refuse_in_turn(producer, send, ServerError.NotAllowedError, reason)
            return
        if self.rates.publishing is not None:
            self.rates.publish(producer, facts.batch_size, len(send.entry))
        transaction: Transaction | None = None
        if send.txnid_least_bits != 0 or send.txnid_most_bits != 0:
            transaction = self._transaction_of(producer, send)
            if transaction is None:
                return
        pushed = -1
        if self.deduplication is not None:
            pushed = self.deduplication.pushed(producer.name)
            if self._is_duplicate(producer, send, facts):
                return
        data = entry.without_broker_metadata()
        size: i64 = len(data)
        try:
            position = self.store.append(
                self.id,
                data,
                batch_size=facts.batch_size,
                publish_time_ms=facts.publish_time_ms,
            )
        except StorageError as error:
            producer.break_off(str(error))
            if self.deduplication is not None:
                # Those before it are still on their way: only this one was not pushed.
                self.deduplication.take_back(producer.name, pushed)
            self.refuse_in_turn(producer, send, PERSISTENCE, str(error))
            return
        number = 0
        if transaction is not None:
            self.broker.transactions.sent(transaction, position)
            number = transaction.number
        producer.pending += 1
        self.last_publish_ms = now_ms
        if facts.chunk_id >= 0:
            self.chunks += 1
            producer.chunks += 1
        self.host.kick()
        self.commits.add(
            _Publish(
                self.store.ticket_last,
                self,
                producer,
                position,
                send.sequence_id,
                send.highest_sequence_id,
                facts.batch_size,
                size,
                chunk_of(facts),
                self.host.kicked_us,
                number,
            )
        )
        self.broker.publish_limit.queued(producer.peer, size)

    def _transaction_of(self, producer: Producer, send: CommandSend) -> "Transaction | None":
        """The transaction that a SEND is part of; None after telling the producer why not.

        NotAllowedError, whatever the reason: clients fail that message, and connect again for
        any error that they do not know from a SEND.
        """
        try:
            return self.broker.transactions.for_send(
                int(send.txnid_most_bits),
                int(send.txnid_least_bits),
                str(self.name),
                producer.peer.principal,
            )
        except BrokerError as error:
            self.refuse_in_turn(producer, send, ServerError.NotAllowedError, error.reason)
            return None

    def _is_duplicate(self, producer: Producer, send: CommandSend, facts: EntryFacts) -> bool:
        """Answers a publish that was stored before, or that may have been."""
        assert self.deduplication is not None
        first, last = send.sequence_id, max(send.highest_sequence_id, send.sequence_id)
        if facts.chunk_id >= 0 and facts.chunk_id + 1 < facts.chunk_count:
            # The sequence id is that of the message, and counts when that is complete.
            verdict = self.deduplication.look(producer.name, first, last)
        else:
            verdict = self.deduplication.judge(producer.name, first, last)
        if verdict == DUPLICATE:
            if producer.pending == 0:
                producer.duplicate(send.sequence_id, send.highest_sequence_id)
            else:
                sequence_id, highest = send.sequence_id, send.highest_sequence_id
                self.wait_for(self.store.ticket_last).when_done(
                    lambda error: producer.duplicate(sequence_id, highest)
                )
        elif verdict == UNDECIDED:
            reason = "an entry with this sequence id is on its way: connect again and resend"
            self.refuse_in_turn(producer, send, PERSISTENCE, reason)
        elif verdict == OVERLAPPING:
            pushed = self.deduplication.pushed(producer.name)
            reason = (
                f"a batch of the sequence ids {first} to {last}, and those up to {pushed} were "
                "published already: send the others by themselves"
            )
            self.refuse_in_turn(producer, send, ServerError.NotAllowedError, reason)
        return verdict != FRESH

    def publish_failed(self, producer: Producer, reason: str) -> None:
        """What is behind the entry that failed must fail too."""
        producer.break_off(reason)
        if self.deduplication is not None:
            self.deduplication.forget_pushed(producer.name)

    def have_stored(self, position: Position, messages: i64, size: i64) -> None:
        """An entry is durable."""
        if position.ledger_id != self._open_ledger:
            self._grow()
            self._open_ledger = position.ledger_id
            if self.ledgers.entry_count(position.ledger_id) < 0:
                self.ledgers.add(position.ledger_id)
        self._open_entries = position.entry_id + 1
        self.incoming.add(messages, size)
        if not self._fresh:
            self._fresh = True
            self.broker.refresh_later(self)

    def _grow(self) -> None:
        if self._open_ledger >= 0 and self.ledgers.entry_count(self._open_ledger) >= 0:
            self._show(self._open_ledger, self._open_entries)

    def _show(self, ledger_id: i64, count: i64) -> None:
        """The first `count` entries of a ledger are there, and to be seen up to the horizon."""
        if self.horizon.clear and not self.ledgers.has_voids:
            self.ledgers.grow(ledger_id, count)
            return
        before = self.ledgers.entry_count(ledger_id)
        count = self.horizon.limit(ledger_id, count)
        if count > before:
            self.ledgers.grow(ledger_id, count)
            if self.ledgers.has_voids:
                self._pass_over(Position(ledger_id, before))

    def _pass_over(self, start: Position) -> None:
        """No subscription waits for what is void from here on."""
        for subscription in self.subscriptions.values():
            subscription.cursor.pass_over(start)
        if self.deduplication is not None:
            self.deduplication.cursor.pass_over(start)

    def transaction_ended(self, number: int, aborted: dict[int, BitMap]) -> None:
        """A transaction is over: its entries are there for all, or void if they are given."""
        first = self.horizon.first_of(number)
        before = self.horizon.position
        self.horizon.ended(number, aborted)
        if aborted and first is not None:
            self._pass_over(first)
        if before is not None and before != self.horizon.position:
            for ledger_id in self.ledgers.ids_from(before.ledger_id):
                self._show(ledger_id, self._stored_count(ledger_id))
        self.storage.acks_moved()
        if not self._fresh:
            self._fresh = True
            self.broker.refresh_later(self)

    def last_stored(self) -> Position:
        """The last entry, whether it is to be seen or not."""
        for ledger_id in reversed(self.ledgers.ids_from(0)):
            count = self._stored_count(ledger_id)
            if count > 0:
                return Position(ledger_id, count - 1)
        return self.ledgers.last()

    def _stored_count(self, ledger_id: int) -> i64:
        """How many entries of a ledger the topic has been told of."""
        if ledger_id == self._open_ledger:
            return self._open_entries
        ledger = self.store.log.state.ledgers.get(ledger_id)
        return 0 if ledger is None else ledger.index.count()

    def refresh(self) -> None:
        """Tells subscriptions of the entries that became durable."""
        self._fresh = False
        self._grow()
        for subscription in list(self.subscriptions.values()):
            subscription.pump()
        if not self.subscriptions:
            self.storage.acks_moved()

    # ---- Subscriptions -------------------------------------------------------

    def _require_kind(self, subscription: Subscription, request: SubscribeRequest) -> None:
        if subscription.durable != request.durable:
            kind = "durable" if subscription.durable else "not durable"
            raise BrokerError(
                ServerError.NotAllowedError, f"{subscription.title} is {kind}: use another name"
            )

    def _create_for(self, request: SubscribeRequest) -> Subscription:
        mark_delete = self._start_of(request)
        if request.durable:
            return self.create_subscription(request.subscription, mark_delete, request.properties)
        cursor = Cursor(self.ledgers, mark_delete)
        subscription = Subscription(
            self, request.subscription, cursor, NO_CURSOR, request.properties
        )
        self.subscriptions[request.subscription] = subscription
        return subscription

    def _start_of(self, request: SubscribeRequest) -> Position:
        """Where a new subscription begins: the last position that it does not want."""
        start = None if request.durable else request.start
        if request.rollback_seconds > 0:
            since = self.host.now_ms() - request.rollback_seconds * 1000
            return self.ledgers.previous(self.storage.position_at(since))
        last = self.ledgers.last()
        if request.read_compacted:
            last = max(last, self.compaction.through)  # which may be all that there is
        if start is None:
            earliest = request.initial_position == InitialPosition.Earliest
            return BEGINNING if earliest else last
        if start.ledger_id < 0:
            return BEGINNING
        # One back: the entry may be a batch, and the client drops what it does not want.
        return min(Position(start.ledger_id, start.entry_id - 1), last)

    def create_subscription(
        self, name: str, mark_delete: Position, properties: dict[str, str]
    ) -> Subscription:
        """A new durable subscription; it exists once `ticket_last` is durable."""
        self.require_open()
        if name in self.subscriptions:
            raise BrokerError(
                ServerError.NotAllowedError, f"{self.name} has a subscription {name!r} already"
            )
        limit = self.policies.limits.max_subscriptions
        if limit > 0 and len(self.subscriptions) >= limit:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"{self.name} has {limit} subscriptions, the most that it may have",
            )
        if not name or name.startswith(INTERNAL):
            raise BrokerError(ServerError.NotAllowedError, f"no subscription is called {name!r}")
        self.broker.require_short("subscription", name)
        cursor = Cursor(self.ledgers, mark_delete)
        cursor_id = self.store.create_cursor(
            self.id, name, encode_snapshot(cursor), properties=pack_properties(properties)
        )
        self.host.kick()
        subscription = Subscription(self, name, cursor, cursor_id, properties)
        subscription.created(self.store.ticket_last)
        self.subscriptions[name] = subscription
        self.active_ticks = self.host.ticks_ms()
        return subscription

    def load_subscriptions(self) -> Work[None]:
        """Brings back the cursors that the store has, but for those that are being deleted."""
        left: i64 = self.broker.pieces.loads
        for cursor_id in self.store.cursor_ids(self.id):
            state = self.store.log.state.cursors.get(cursor_id)
            if state is None or self.store.log.deleting(cursor_id):
                continue
            if state.name.startswith(INTERNAL):
                continue
            steps = load_cursor_steps(self.store, cursor_id, self.ledgers)
            while True:
                try:
                    left -= next(steps)
                except StopIteration as end:
                    cursor: Cursor = end.value
                    break
                if left <= 0:
                    left = self.broker.pieces.loads
                    yield
            properties, last_type = unpack_properties(state.properties)
            subscription = Subscription(self, state.name, cursor, cursor_id, properties, last_type)
            subscription.pending.load(self.broker.transactions.acks_of(cursor_id))
            self.subscriptions[state.name] = subscription
