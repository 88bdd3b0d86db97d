"""A subscription: a cursor, and a dispatcher for the consumers that are there.

| state  | ack                   | consumers              | becomes                              |
|--------|-----------------------|------------------------|--------------------------------------|
| open   | planned, written, ... | served                 | fenced, when it is reset; closed     |
| fenced | ServiceNotReady       | closed, subscribe waits| open, when the reset is settled      |
| closed | ServiceNotReady       | refused                |                                      |

An ack is planned against what is durable, written, and applied when it is durable; then it
is answered; an ACK of very many messages goes that way in pieces (`long_ack.py`). Whoever
asked for an answer gets one in every case. What depends on acks that
are on their way (redelivery, a consumer that comes or goes) waits until they are settled,
so that nothing comes back that was acked before.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from magnetar.ack import AckDelta, Cursor, Delta, encode_delta
from magnetar.broker.promise import Promise, broken, kept
from magnetar.broker.rate.dispatch_gate import DispatchGate, Held
from magnetar.broker.rate.rate import NO_RATE
from magnetar.broker.rate.throttle import Throttle
from magnetar.broker.topic.ack.ack_answer import answer_ack, refuse_ack
from magnetar.broker.topic.ack.ack_budget import AckShare
from magnetar.broker.topic.ack.ack_commit import AckCommit
from magnetar.broker.topic.ack.ack_refusal import ack_refusal
from magnetar.broker.topic.ack.cursor_move import move_cursor
from magnetar.broker.topic.ack.cursor_reset import CursorReset, FindSpanning, beside_view
from magnetar.broker.topic.ack.long_ack import PIECE_IDS, PIECE_RECORD_BYTES, LongAck
from magnetar.broker.topic.ack.searched_ack import ack_when_found
from magnetar.broker.topic.ack.unsettled_acks import UnsettledAcks
from magnetar.broker.topic.ack.view_ack import ViewAcks
from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.counters import Traffic
from magnetar.broker.topic.damage import Damage
from magnetar.broker.topic.dispatch.absent import Absent
from magnetar.broker.topic.dispatch.choice import make_dispatcher
from magnetar.broker.topic.dispatch.dispatcher import Dispatcher
from magnetar.broker.topic.properties import pack_properties
from magnetar.broker.topic.subscribe_request import KeySharedOptions
from magnetar.broker.topic.transaction.pending_acks import PendingAcks
from magnetar.broker.topic.transaction.transactional_ack import transactional_ack
from magnetar.errors import AckSizeError, BrokerError, StorageError, UsageError
from magnetar.model import AckType, Position, ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.subscription_type import SubscriptionType, type_named
from magnetar.protocol import CommandAck
from magnetar.wire.ack_set import BATCH_SIZE_MAX

if TYPE_CHECKING:
    from magnetar.broker.topic.skip.recall import Withdrawal
    from magnetar.broker.topic.topic import Topic

__all__ = ["NO_CURSOR", "Subscription"]

# What the cursor of a subscription that is in memory only has for an id.
NO_CURSOR: Final = -1


class Subscription:
    """See the module."""

    def __init__(
        self,
        topic: "Topic",
        name: str,
        cursor: Cursor,
        cursor_id: int,
        properties: dict[str, str],
        last_type: str = "",
    ) -> None:
        self.topic: Final = topic
        self.name: Final = name
        self.cursor: Final = cursor
        self.cursor_id: Final = cursor_id
        self.properties: dict[str, str] = properties
        # Exclusive or Failover, if that is what it was last used as. It is kept with the
        # cursor: what may be done with a subscription does not change by an unload.
        self.last_type: str = last_type
        self.dispatcher: Dispatcher | None = None
        self.fenced: bool = False
        self.closed: bool = False
        self.unsettled_acks: Final = UnsettledAcks(topic)
        self.view_acks: Final = ViewAcks()
        # Subscribes that are on their way.
        self.joining: int = 0
        # What consumers that left got, got again and acked; and acks of what was acked before.
        self._out_before: Final = Traffic()
        self._redelivered_before: i64 = 0
        self._acked_before: i64 = 0
        self.acked_again: i64 = 0
        self.expired: Final = Traffic()
        # Messages that operators skipped by their ids, and what of that consumers gave back.
        self.skipped: int = 0
        self.taken_back: int = 0
        # What consumers were asked to give back and have not; see `recall.py`.
        self.withdrawals: Final[list[Withdrawal]] = []
        # Skips that are applied, while dispatchers have not heard of all of it.
        self.letting_go: int = 0
        self.created_ms: Final = topic.host.now_ms()
        self.last_active_ms: int = self.created_ms
        # The same by the clock that only goes on.
        self.active_ticks: int = topic.host.ticks_ms()
        self.last_acked_ms: int = 0
        self.last_flow_ms: int = 0
        self.last_expired_ms: int = 0
        self.last_moved_ms: int = 0
        self._told_end: bool = False
        # That of its consumers, or of the last ones.
        self.type: SubscriptionType | None = type_named(last_type)
        self.damage: Final = Damage(self)
        self._cursor_reset: Final = CursorReset(self)
        self.share: Final = AckShare(topic.broker.ack_budget, cursor)
        self.share.count(cursor.record_bytes())
        # Acks that wait for the end of their transactions.
        self.pending: Final = PendingAcks(topic.ledgers, cursor, self.share)
        # Its own rate, and the gate of that and all others that hold for it, if any does.
        self.throttle: Final = Throttle(topic.host, NO_RATE)
        self.held: Final = Held()
        self.gate: DispatchGate | None = None
        self.gate = topic.rates.gate_of(self)

    def rates(self) -> list[Traffic]:
        """What is reckoned anew after each interval, beside what its consumers have."""
        return [self.expired]

    @property
    def durable(self) -> bool:
        return self.cursor_id != NO_CURSOR

    @property
    def type_name(self) -> str:
        """Its type as people and REST write it; "None" if nobody has used it yet."""
        return "None" if self.type is None else self.type.name

    @property
    def life(self) -> str:
        """Differs from what it was when acks given then mean nothing now: after a reset, or
        if the subscription, its topic or the whole store was made anew. A subscription that
        is not durable has none: it is anew each time."""
        return f"{self.cursor_id}.{self.cursor.epoch}" if self.durable else ""

    @property
    def floor(self) -> Position:
        """Up to here it needs nothing of the topic any more, nor will after a reset that is
        under way: that takes acks back, and what it makes unacked must not be trimmed."""
        mark_delete = self.cursor.mark_delete
        reset_to = self._cursor_reset.target
        return mark_delete if reset_to is None else min(mark_delete, reset_to)

    @property
    def title(self) -> str:
        """What it is called in messages to people."""
        return f"subscription {self.name!r} of {self.topic.name}"

    @property
    def was_reset(self) -> str:
        """Why an ack that came before a reset is not applied after it."""
        return f"{self.title} was reset while the ack was on its way"

    def created(self, ticket: int) -> None:
        """It is being created: nobody joins before that is durable."""
        self.unsettled_acks.have_queued(ticket)

        def settled(error: Exception | None) -> None:
            if error is not None:
                self.topic.drop(self)
                self.topic.dismiss(self.close())

        self.topic.wait_for(ticket).when_done(settled)

    # ---- Limits and policies -------------------------------------------------

    @property
    def unacked_per_consumer(self) -> int:
        return self.topic.policies.limits.max_unacked_per_consumer if self.durable else 0

    @property
    def unacked_max(self) -> int:
        return self.topic.policies.limits.max_unacked_per_subscription if self.durable else 0

    @property
    def delayed_delivery(self) -> bool:
        return self.topic.policies.delayed_delivery

    @property
    def failover_delay_ms(self) -> int:
        return self.topic.settings.failover_delay_ms

    def policies_changed(self) -> None:
        """Limits may be others now; who was blocked by the old ones may go on."""
        self.gate = self.topic.rates.gate_of(self)
        if self.dispatcher is not None:
            for consumer in self.consumers:
                consumer.limit(self.unacked_per_consumer)
            self.dispatcher.changed()

    def look_ahead(self, consumers: int) -> int:
        """How many entries may wait in replay while new ones are read."""
        settings = self.topic.settings
        return min(
            settings.key_shared_look_ahead_per_consumer * max(consumers, 1),
            settings.key_shared_look_ahead_per_subscription,
        )

    # ---- Consumers -----------------------------------------------------------

    @property
    def consumers(self) -> list[Consumer]:
        return [] if self.dispatcher is None else self.dispatcher.consumers

    @property
    def busy(self) -> bool:
        """Whether somebody is connected, or about to be."""
        return bool(self.consumers) or self.joining > 0

    def join(
        self, consumer: Consumer, type: SubscriptionType, options: KeySharedOptions
    ) -> Promise[None]:
        """Adds a consumer once nothing stands in its way; BrokerError if something does."""
        promise: Promise[None] = Promise()
        self.joining += 1

        def go_on() -> None:
            self.joining -= 1
            try:
                self._join(consumer, type, options)
            except BrokerError as error:
                promise.fail(error)
                return
            promise.keep(None)

        self.unsettled_acks.settled().when_done(lambda error: go_on())
        return promise

    def _join(self, consumer: Consumer, type: SubscriptionType, options: KeySharedOptions) -> None:
        if self.closed or consumer.closed:
            raise BrokerError(ServerError.ServiceNotReady, f"{self.title} is closed: try again")
        self.topic.require_room()
        limit = self.topic.policies.limits.max_consumers_per_subscription
        if limit > 0 and len(self.consumers) >= limit:
            raise BrokerError(
                ServerError.ConsumerBusy,
                f"{self.title} has {limit} consumers, the most that it may have",
            )
        self._dispatcher_for(type, options).join(consumer, options)
        self.last_active_ms = self.topic.host.now_ms()
        self.active_ticks = self.topic.host.ticks_ms()
        self._told_end = False

    def _dispatcher_for(self, type: SubscriptionType, options: KeySharedOptions) -> Dispatcher:
        """The present dispatcher if it suits, or a new one if nobody needs the present one."""
        present = self.dispatcher
        if present is not None and present.suits(type, options):
            return present
        if present is not None and present.consumers:
            raise BrokerError(
                ServerError.ConsumerBusy,
                f"{self.title} has consumers of type {present.type.name}: close them first, or "
                "subscribe in the same way",
            )
        if present is not None:
            present.close()
        self.dispatcher = make_dispatcher(self, type, options)
        self.type = type
        self._keep_type(type)
        return self.dispatcher

    def _keep_type(self, type: SubscriptionType) -> None:
        last_type = type.name if type.is_kept else ""
        if not self.durable or last_type == self.last_type:
            return
        self.last_type = last_type
        try:
            self.save_properties()
        except StorageError as error:
            # The consumer may read all the same.
            self.topic.host.warn(f"the type of {self.title} is not kept: {error}")

    def save_properties(self) -> int:
        """Queues properties and type to be written; the ticket of that. Raises StorageError."""
        ticket = self.topic.store.set_cursor_properties(
            self.cursor_id, pack_properties(self.properties, self.last_type)
        )
        self.topic.host.kick()
        return ticket

    def leave(self, consumer: Consumer) -> Promise[None]:
        """Removes a consumer, when the acks that it sent are settled."""
        promise: Promise[None] = Promise()
        consumer.closed = True
        consumer.held = True

        # Not a function of its own: compiled, that refers to itself, and to the consumer.
        self.unsettled_acks.settled().when_done(
            lambda error: self._remove(consumer).then(
                lambda done: self._left(promise), promise.fail
            )
        )
        return promise

    def _left(self, promise: Promise[None]) -> None:
        self.last_active_ms = self.topic.host.now_ms()
        self.active_ticks = self.topic.host.ticks_ms()
        if not self.durable and not self.busy:
            self.topic.drop(self)
        promise.keep(None)

    def _remove(self, consumer: Consumer) -> Promise[None]:
        dispatcher = self.dispatcher
        return kept(None) if dispatcher is None else dispatcher.remove(consumer)

    def have_lost(self, absent: Absent) -> None:
        """A consumer lost its connection, and nobody knows what its client still hands out."""
        self.topic.broker.strays.lose(str(self.topic.name), self.name, absent)

    def have_left(self, consumer: Consumer) -> None:
        """A consumer is gone."""
        self._out_before.add(consumer.out.messages, consumer.out.bytes)
        self._redelivered_before += consumer.redelivered.messages
        self._acked_before += consumer.acked.messages

    def flow(self, consumer: Consumer, permits: i64) -> None:
        self.last_flow_ms = self.topic.host.now_ms()
        strays = self.topic.broker.strays
        if consumer.last_flow_ms == 0 and consumer.is_first and strays.any_lost:
            strays.came_back(str(self.topic.name), self.name, consumer)
        if consumer.permits == 0 and consumer.out.messages == 0:
            # One that comes back acks first what it has from before: that is not for it again.
            self.unsettled_acks.settled().when_done(lambda error: self._flow(consumer, permits))
        else:
            self._flow(consumer, permits)

    def _flow(self, consumer: Consumer, permits: i64) -> None:
        if self.dispatcher is not None and not consumer.closed:
            self.dispatcher.flow(consumer, permits)

    def redeliver(self, consumer: Consumer, keys: list[int] | None, epoch: int | None) -> None:
        """Delivers again what a consumer gives back, all of it if there is no list, but for
        what it has acked before.

        During a reset that waits for its end: if it fails, the consumer still wants it.
        """

        def go_on() -> None:
            if self.fenced:
                self._cursor_reset.ended.when_done(lambda error: go_on())
            elif self.dispatcher is not None and not consumer.closed:
                self.dispatcher.redeliver(consumer, keys, epoch)

        self.unsettled_acks.settled().when_done(lambda error: go_on())

    def pump(self) -> None:
        """There may be something new."""
        if self.dispatcher is not None:
            self.dispatcher.pump()
            self._check_end()

    def resume(self) -> None:
        """A consumer can be sent to again: what it was passed over for is offered anew."""
        if self.dispatcher is not None:
            self.dispatcher.changed()

    # ---- Acks ----------------------------------------------------------------

    def ack(self, consumer: Consumer, ack: CommandAck) -> None:
        """What an ACK asks for, all of it or nothing."""
        refusal = ack_refusal(self, ack)
        if refusal is not None:
            refuse_ack(consumer, ack.request_id, refusal.code, refusal.reason)
            return
        if ack.txnid_least_bits != 0 or ack.txnid_most_bits != 0:
            transactional_ack(self, consumer, ack)
            return
        cumulative = ack.ack_type == AckType.Cumulative
        if len(ack.message_ids) > PIECE_IDS:
            self._ack_in_pieces(consumer, ack)
            return
        try:
            if cumulative:
                delta = self.cursor.plan_cumulative(
                    ack.message_ids[0], whole_entries=not self.topic.settings.batch_index_ack
                )
            else:
                delta = self.cursor.plan_acks(ack.message_ids, PIECE_RECORD_BYTES)
            if consumer.read_compacted and self.durable:
                delta = self.view_acks.with_view(self, ack, delta)
        except AckSizeError:
            self._ack_in_pieces(consumer, ack)
            return
        except UsageError as error:
            refuse_ack(consumer, ack.request_id, ServerError.NotAllowedError, str(error))
            return
        except BrokerError as refused:
            refuse_ack(consumer, ack.request_id, refused.code, refused.reason)
            return
        refusal = self.pending.conflict(delta)
        if refusal is None and delta.growth > 0:
            refusal = self.share.fault(self.title, delta.growth)
        if refusal is not None:
            refuse_ack(consumer, ack.request_id, refusal.code, refusal.reason)
            return
        now_ms = self.topic.host.now_ms()
        consumer.last_acked_ms = now_ms
        self.last_acked_ms = now_ms
        keys = [] if cumulative else self.topic.ledgers.keys(ack.message_ids)
        if delta.empty:
            self.acked_again += max(len(ack.message_ids), 1)
            if self.dispatcher is not None:
                self.dispatcher.acked_again(keys, consumer)
            self.answer_in_turn(consumer, ack.request_id)
            return
        if not self.durable:
            self.apply_acks(delta)
            self.have_acked(keys, consumer, moves=cumulative)
            answer_ack(consumer, ack.request_id)
            return
        data = encode_delta(delta)
        try:
            ticket = self._write(delta.epoch, data)
        except StorageError as error:
            refuse_ack(consumer, ack.request_id, ServerError.PersistenceError, str(error))
            return
        self.unsettled_acks.have_queued(ticket)
        self.view_acks.have_queued(delta)
        self.share.reserve(delta.growth)
        size = len(data) if delta.record_bytes > 0 else 0
        consumer.peer.acks_began(size)
        self.topic.commits.add(
            AckCommit(
                ticket, self, delta, consumer, ack.request_id, keys, moves=cumulative, size=size
            )
        )

    def _ack_in_pieces(self, consumer: Consumer, ack: CommandAck) -> None:
        now_ms = self.topic.host.now_ms()
        consumer.last_acked_ms = now_ms
        self.last_acked_ms = now_ms
        self.unsettled_acks.begin_search()
        LongAck(self, consumer, ack).plan()

    def apply_acks(self, delta: AckDelta, *, single: bool = False) -> bool:
        """They are durable: the cursor knows them. False if it was reset since."""
        applied = self.cursor.apply(delta, single=single)
        self.share.count(self.cursor.record_bytes())
        return applied

    def apply_named(self, delta: AckDelta, *, single: bool) -> int:
        """The same of messages that an operator named; returns how many were not acked before."""
        messages = self.cursor.apply_named(delta, single=single)
        self.share.count(self.cursor.record_bytes())
        return messages

    def ack_when(
        self, consumer: Consumer, ack: CommandAck, found: Promise[list[MessageIdData]]
    ) -> None:
        """The same for an ACK of which it is still looked for what it names.

        What depends on acks waits for it as if it were on its way to the disk; and as there, a
        reset that comes meanwhile makes it void.
        """
        ack_when_found(self, consumer, ack, found)

    def not_now(self) -> BrokerError | None:
        """Why nothing can be acked now, but perhaps later; None if it can."""
        if not self.closed and not self.fenced:
            return None
        doing = "closed" if self.closed else "being reset"
        return BrokerError(ServerError.ServiceNotReady, f"{self.title} is {doing}: try again")

    def answer_in_turn(self, consumer: Consumer, request_id: int | None) -> None:
        """Everything asked for is acked already; but an answer waits for those before it."""
        if request_id is not None:
            self.unsettled_acks.settled().when_done(lambda error: answer_ack(consumer, request_id))

    def write(self, delta: Delta) -> int:
        """Queues a delta to be written; its ticket. Raises StorageError."""
        return self._write(delta.epoch, encode_delta(delta))

    def _write(self, epoch: int, data: bytes) -> int:
        ticket = self.topic.store.append_delta(self.cursor_id, epoch, data)
        self.topic.host.kick()
        return ticket

    def have_acked(self, keys: list[int], consumer: Consumer, *, moves: bool) -> None:
        """An ack is durable and applied."""
        consumer.acked.add(max(len(keys), 1), 0)
        if moves:
            self.last_moved_ms = self.topic.host.now_ms()
        if self.dispatcher is not None and keys:
            self.dispatcher.acked(keys, consumer)
        self.topic.storage.acks_moved()
        self._check_end()

    # ---- Moving the cursor ---------------------------------------------------

    def skip(self, entry_count: int) -> Promise[None]:
        """Acks the next entries that are not."""
        return self.move(self.cursor.plan_skip(entry_count))

    def clear(self) -> Promise[None]:
        """Acks everything."""
        return self.move(self.cursor.plan_clear())

    def expire(self, position: Position) -> Promise[None]:
        """Acks everything through a position."""
        return self.move(self.cursor.plan_expire(position), expires=True)

    def expire_before(self, position: Position) -> Promise[None]:
        """The same for everything before a position."""
        ledgers = self.topic.ledgers
        last = ledgers.previous(position)
        oldest = ledgers.next(self.cursor.mark_delete)
        return self.expire(last) if oldest is not None and oldest <= last else kept(None)

    def move(self, delta: AckDelta, *, expires: bool = False) -> Promise[None]:
        """Acks what an operator or a policy wants acked."""
        return move_cursor(self, delta, expires=expires)

    def have_moved(self, delta: AckDelta) -> None:
        """An operator's acks are durable and applied: consumers let go of what they name."""
        if self.closed:
            return  # They have let go of everything.
        if self.dispatcher is not None:
            named = self.keys_of(delta)
            if named:
                self.dispatcher.acked(named, None)
            if delta.mark_delete is not None:
                self.dispatcher.passed()
        self.last_moved_ms = self.topic.host.now_ms()
        self.topic.storage.acks_moved()
        self._check_end()

    def keys_of(self, delta: AckDelta) -> list[int]:
        """The entries that it names."""
        ledgers = self.topic.ledgers
        keys: list[int] = []
        for ledger_id, entries, records in delta.ledgers:
            keys.extend([ledgers.key(ledger_id, entry_id) for entry_id in entries])
            keys.extend([ledgers.key(ledger_id, entry_id) for entry_id, _ in records])
        return keys

    def have_trimmed(self) -> None:
        """Ledgers of the topic are gone. What only a reader in memory still had of them is
        let go of: for the others nothing is trimmed that they need."""
        self.cursor.trim()
        self.share.count(self.cursor.record_bytes())
        if self.dispatcher is not None and not self.durable:
            self.dispatcher.passed()
        self.pump()

    def reset(
        self,
        position: Position,
        *,
        batch_index: i64 = -1,
        ack_set: int | None = None,
        batch_size: i64 = 0,
        find_spanning: FindSpanning | None = None,
    ) -> Promise[None]:
        """Puts the cursor where `position` is next; consumers are closed and come back.

        They are told before the promise is kept. With `find_spanning`, messages in chunks that
        end there or later are spared, though they begin before.
        """
        if self.closed or self.fenced:
            reason = f"{self.title} is being reset: try again when that is done"
            return broken(BrokerError(ServerError.ServiceNotReady, reason))
        try:
            delta = self.cursor.plan_reset(
                position, batch_index=batch_index, ack_set=ack_set, batch_size=batch_size
            )
        except UsageError as error:
            return broken(error)
        delta = beside_view(self.topic, delta, position)
        return self._cursor_reset.begin(delta, find_spanning)

    def close_consumers(self) -> list[Consumer]:
        """Closes all from this side; those that are to be told, for they did not leave.

        Their clients will come back. What was known of deliveries is void.
        """
        dispatcher = self.dispatcher
        if dispatcher is None:
            return []
        self.dispatcher = None
        strays, topic_name = self.topic.broker.strays, str(self.topic.name)
        told: list[Consumer] = []
        for consumer in dispatcher.retire():
            self.have_left(consumer)
            if not consumer.closed:
                strays.add(topic_name, self.name, consumer)
                told.append(consumer)
            elif consumer.keeps_queue and consumer.out.messages > 0:
                self.have_lost(Absent(consumer, self.topic.host.now_ms()))
            consumer.closed = True
            consumer.held = True
        return told

    def close_for_recall(self, consumer: Consumer) -> None:
        """Has the client of a consumer empty its queue; what it holds stays with it meanwhile."""
        if not consumer.recalled:
            consumer.recalled = True
            consumer.held = True
            consumer.tell_closed()

    def batch_size(self, position: Position) -> int:
        """How many messages an entry has, as far as that is known and can be."""
        return self.size_at(position.ledger_id, position.entry_id)

    def size_at(self, ledger_id: i64, entry_id: i64) -> int:
        """The same, of an entry that is named in two numbers."""
        size = self.topic.ledgers.sizes.batch_size(ledger_id, entry_id)
        return min(max(int(size), 1), BATCH_SIZE_MAX)

    def write_all(self, deltas: Sequence[Delta]) -> Promise[None]:
        """Writes them, all or none; kept when they are durable."""
        written: Promise[None] = Promise()
        if not self.durable or all(delta.empty for delta in deltas):
            self.unsettled_acks.settled().when_done(lambda error: written.keep(None))
            return written
        try:
            ticket = self.topic.store.append_deltas(
                [(self.cursor_id, int(delta.epoch), encode_delta(delta)) for delta in deltas]
            )
        except StorageError as error:
            return broken(error)
        self.topic.host.kick()
        self.unsettled_acks.have_queued(ticket)
        return self.topic.wait_for(ticket)

    # ---- The end -------------------------------------------------------------

    def _check_end(self) -> None:
        """Tells consumers, once, that a terminated topic has nothing more for them."""
        if not self.topic.terminated or self._told_end or not self.consumers:
            return
        if self.cursor.unacked_entries() == 0:
            self._told_end = True
            for consumer in self.consumers:
                consumer.tell_end_of_topic()

    def close(self) -> list[Consumer]:
        """Closes it and its consumers: unload, delete, unsubscribe. Those that are to be told."""
        if self.closed:
            return []
        self.closed = True
        if self.gate is not None:
            self.gate.leave()
        self.pending.clear()
        self.share.end()
        return self.close_consumers()

    # ---- Figures -------------------------------------------------------------

    def out_totals(self) -> tuple[int, int]:
        """Messages and bytes that went out, to all consumers that ever were here."""
        messages: i64 = self._out_before.messages
        size: i64 = self._out_before.bytes
        for consumer in self.consumers:
            messages += consumer.out.messages
            size += consumer.out.bytes
        return messages, size

    def ack_totals(self) -> tuple[int, int]:
        """Messages that were delivered again, and ids that were acked, by all those consumers."""
        redelivered: i64 = self._redelivered_before
        acked: i64 = self._acked_before
        for consumer in self.consumers:
            redelivered += consumer.redelivered.messages
            acked += consumer.acked.messages
        return redelivered, acked
