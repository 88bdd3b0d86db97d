"""A topic: producers put entries in, subscriptions take them out.

| state      | publish              | subscribe | becomes                                      |
|------------|----------------------|-----------|----------------------------------------------|
| open       | stored, receipted    | yes       | terminated; closed, by unload or deletion    |
| terminated | TopicTerminatedError | yes       | closed                                       |
| closed     | -                    | -         | loaded anew when somebody asks for it        |

An entry is queued in the store and becomes part of the topic when it is durable; then the
receipt goes out, and subscriptions hear of it. Nothing is delivered before.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.ack import Cursor, Ledgers, encode_snapshot
from magnetar.broker.commits import Commit, Commits
from magnetar.broker.host import Host
from magnetar.broker.policy.effective_policies import EffectivePolicies
from magnetar.broker.promise import Promise, broken
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.setting.text_limits import UUID_BEYOND_NAME
from magnetar.broker.topic.admission import Admission
from magnetar.broker.topic.chunk.chunk_map import Chunk, ChunkMap, chunk_of
from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.counters import Traffic
from magnetar.broker.topic.deduplication import (
    DUPLICATE,
    FRESH,
    OVERLAPPING,
    UNDECIDED,
    Deduplication,
)
from magnetar.broker.topic.dismissal import dismiss
from magnetar.broker.topic.dispatch.choice import check_options
from magnetar.broker.topic.producer import Producer
from magnetar.broker.topic.properties import pack_properties, unpack_properties
from magnetar.broker.topic.subscribe_request import SubscribeRequest
from magnetar.broker.topic.subscription import NO_CURSOR, Subscription
from magnetar.errors import BrokerError, StorageError
from magnetar.model import (
    InitialPosition,
    Position,
    ServerError,
    TopicName,
)
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    CommandSend,
    Entry,
    EntryFacts,
    batch_fault,
    entry_facts,
    split_entry,
)
from magnetar.storage.cursor.cursor_load import load_cursor
from magnetar.storage.ledger.retention import Retention
from magnetar.storage.store import Store

if TYPE_CHECKING:
    from magnetar.broker.broker import Broker

__all__ = ["BEGINNING", "Topic"]

PERSISTENCE: Final = int(ServerError.PersistenceError)


@final
class _Publish(Commit):
    """An entry on its way to the disk."""

    def __init__(
        self,
        ticket: int,
        topic: "Topic",
        producer: Producer,
        position: Position,
        sequence_id: i64,
        highest_sequence_id: i64,
        messages: i64,
        size: i64,
        chunk: Chunk | None,
    ) -> None:
        super().__init__(ticket)
        self._topic: Final = topic
        self._producer: Final = producer
        self._position: Final = position
        self._sequence_id: Final[i64] = sequence_id
        self._highest_sequence_id: Final[i64] = highest_sequence_id
        self._messages: Final[i64] = messages
        self._size: Final[i64] = size
        self._chunk: Final = chunk
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
        topic.have_stored(position, self._messages, self._size)
        if self._chunk is not None:
            topic.chunk_map.published(position, self._chunk)
        producer.traffic.add(self._messages, self._size)
        if topic.deduplication is not None:
            last: i64 = max(self._highest_sequence_id, self._sequence_id) if self._whole else -1
            topic.deduplication.stored(producer.name, last, position)
        producer.receipt(
            self._sequence_id,
            self._highest_sequence_id,
            MessageIdData(position.ledger_id, position.entry_id, topic.partition),
        )


class Topic:
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
        self.broker: Final = broker
        self.host: Final[Host] = broker.host
        self.store: Final[Store] = broker.store
        self.commits: Final[Commits] = broker.commits
        self.settings: Final[BrokerSettings] = broker.settings
        self.name: Final = name
        self.id: Final = id
        self.partition: Final[i64] = name.partition
        self.ledgers: Final = ledgers
        self.chunk_map: Final = ChunkMap(ledgers)
        self.policies: EffectivePolicies = policies
        self.terminated: bool = terminated
        self.closed: bool = False
        self.deleted: bool = False
        # Set while the quota of its backlog is exceeded: why producers are turned away.
        self.blocked: BrokerError | None = None
        self.subscriptions: Final[dict[str, Subscription]] = {}
        self.deduplication: Deduplication | None = None
        self.incoming: Final = Traffic()
        self._out_before: Final = Traffic()
        self.chunks: i64 = 0
        self.created_ms: Final = broker.host.now_ms()
        # By ticks, not by the time of day: how long nobody used it is an interval.
        self.active_ticks: int = broker.host.ticks_ms()
        self.last_publish_ms: int = 0
        self._open_ledger: i64 = -1
        self._open_entries: i64 = 0
        self._fresh: bool = False
        self._trim_wanted: bool = False
        self.admission: Final = Admission(self, epoch)
        self.producers: Final[dict[str, Producer]] = self.admission.producers

    # ---- Publishing ----------------------------------------------------------

    def publish(self, producer: Producer, send: CommandSend) -> None:
        """Stores an entry; the receipt or the refusal goes to the producer's peer."""
        if producer.broken or not producer.ready or self.terminated or self.blocked is not None:
            self._turn_away(producer, send)
            return
        entry = split_entry(send.entry)
        if not entry.intact():
            reason = "the entry arrived damaged: its checksum does not match, send it again"
            producer.break_off(reason)  # or those behind it would be stored before it
            self._after_pending(producer, send, ServerError.ChecksumError, reason)
            return
        facts = entry_facts(entry)
        now_ms = self.host.now_ms()
        reason = self._entry_fault(entry, facts, now_ms) or transaction_fault(send)
        if reason:
            self._after_pending(producer, send, ServerError.NotAllowedError, reason)
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
            self._after_pending(producer, send, PERSISTENCE, str(error))
            return
        producer.pending += 1
        self.last_publish_ms = now_ms
        if facts.chunk_id >= 0:
            self.chunks += 1
            producer.chunks += 1
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
            )
        )
        self.broker.publish_limit.queued(producer.peer, size)
        self.host.kick()

    def _turn_away(self, producer: Producer, send: CommandSend) -> None:
        if self.closed:
            return  # The client hears that its producer is closed, comes back and sends it again.
        if self.terminated:
            code, reason = ServerError.TopicTerminatedError, f"{self.name} is terminated"
        elif self.blocked is not None:
            code, reason = ServerError(self.blocked.code), self.blocked.reason
        elif producer.broken:
            code, reason = ServerError.PersistenceError, producer.broken
        else:
            code = ServerError.ProducerFenced
            reason = f"the producer waits for {self.name} to be its own"
        self._after_pending(producer, send, code, reason)

    def _after_pending(self, producer: Producer, send: CommandSend, code: int, why: str) -> None:
        """Refuses, in turn: answers of one producer keep their order."""
        sequence_id = send.sequence_id
        if producer.pending == 0:
            producer.refuse(sequence_id, code, why)
            return
        self.wait_for(self.store.ticket_last).when_done(
            lambda error: producer.refuse(sequence_id, code, why)
        )

    def _entry_fault(self, entry: Entry, facts: EntryFacts, now_ms: int) -> str:
        """Why the topic does not take an entry; nothing, if it does."""
        limit = self.policies.message_size_max
        delay_max = self.policies.delayed_delivery_max_ms
        size = len(entry.data)
        if limit > 0 and facts.chunk_id < 0 and size > limit + 10240:
            return f"the entry has {size} bytes, {self.name} takes {limit}"
        if delay_max > 0 and facts.deliver_at_ms > now_ms + delay_max:
            return f"Exceeds max allowed delivery delay of {delay_max} milliseconds"
        too_long = self._too_long(facts)
        if too_long or not facts.batched:
            return too_long
        return self._batch_fault(entry, facts)

    def _batch_fault(self, entry: Entry, facts: EntryFacts) -> str:
        """Why an entry is not the batch that it says it is; nothing, if it is."""
        fault = batch_fault(entry, facts)
        if not fault:
            return ""
        self.broker.batches_refused += 1
        return f"the entry was not stored: {fault}; send what num_messages_in_batch says"

    def _too_long(self, facts: EntryFacts) -> str:
        """What of the metadata is kept in memory and too long for it; empty if nothing is."""
        limit = self.settings.max_name_length
        if limit == 0:
            return ""
        if len(facts.producer_name) > limit:
            size = len(facts.producer_name)
            return f"the producer's name in the message has {size} bytes, and {limit} are allowed"
        if facts.chunk_id < 0:
            return ""
        limit += UUID_BEYOND_NAME
        size = len(facts.uuid.encode())
        if size > limit:
            return f"the uuid of the chunk has {size} bytes, and {limit} are allowed"
        return ""

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
            self._after_pending(producer, send, PERSISTENCE, reason)
        elif verdict == OVERLAPPING:
            pushed = self.deduplication.pushed(producer.name)
            reason = (
                f"a batch of the sequence ids {first} to {last}, and those up to {pushed} were "
                "published already: send the others by themselves"
            )
            self._after_pending(producer, send, ServerError.NotAllowedError, reason)
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
            self.ledgers.grow(self._open_ledger, self._open_entries)

    def refresh(self) -> None:
        """Tells subscriptions of the entries that became durable."""
        self._fresh = False
        self._grow()
        for subscription in list(self.subscriptions.values()):
            subscription.pump()
        if not self.subscriptions:
            self.acks_moved()

    def wait_for(self, ticket: int) -> Promise[None]:
        """Returns a promise that a ticket about this topic is durable; see `Commits.wait_for`."""
        return self.commits.wait_for(ticket, self)

    def require_open(self) -> None:
        """Raises BrokerError if it was unloaded or deleted."""
        if self.closed:
            raise BrokerError(ServerError.ServiceNotReady, f"{self.name} is unloading: try again")

    # ---- Subscriptions -------------------------------------------------------

    def subscribe(self, request: SubscribeRequest, consumer: Consumer) -> Promise[Subscription]:
        """Adds a consumer, creating its subscription if need be."""
        promise: Promise[Subscription] = Promise()
        try:
            self.broker.require_short("consumer", consumer.name)
            self._check_subscribe(request)
            subscription = self.subscriptions.get(request.subscription)
            if subscription is None:
                subscription = self._create_for(request)
            elif subscription.durable != request.durable:
                kind = "durable" if subscription.durable else "not durable"
                raise BrokerError(
                    ServerError.NotAllowedError,
                    f"{subscription.title} is {kind}: use another name",
                )
        except BrokerError as error:
            return broken(error)
        except StorageError as error:
            return broken(BrokerError(ServerError.PersistenceError, str(error)))
        found = subscription
        # A subscription that is being created is durable when its ticket is.
        joined = found.join(consumer, request.type, request.key_shared)
        joined.then(
            lambda done: promise.keep(found), lambda error: self._refuse(found, promise, error)
        )
        return promise

    def _refuse(
        self, subscription: Subscription, promise: Promise[Subscription], error: Exception
    ) -> None:
        """A consumer could not join; what was in memory for its sake goes."""
        if not subscription.durable and not subscription.busy:
            self.drop(subscription)
        promise.fail(error)

    def _check_subscribe(self, request: SubscribeRequest) -> None:
        self.require_open()
        if request.type.name not in self.policies.subscription_types:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"{self.name} does not allow {request.type.name} subscriptions",
            )
        # Before anything is created for a consumer that will be refused.
        check_options(request.type, request.key_shared)
        self.require_room()
        known = request.subscription in self.subscriptions
        if not known:
            self.broker.require_short("subscription", request.subscription)
        if not known and request.durable and not request.may_create:
            raise BrokerError(
                ServerError.SubscriptionNotFound,
                f"{self.name} has no subscription {request.subscription!r}, and it may not be "
                "created by subscribing: create it first",
            )

    def require_room(self) -> None:
        """Raises BrokerError if there may be no more consumers."""
        limit = self.policies.max_consumers
        if limit > 0 and self.consumer_count() >= limit:
            raise BrokerError(
                ServerError.ConsumerBusy,
                f"{self.name} has {limit} consumers, the most that it may have",
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
            return self.ledgers.previous(self.position_at(since))
        if start is None:
            earliest = request.initial_position == InitialPosition.Earliest
            return BEGINNING if earliest else self.ledgers.last()
        if start.ledger_id < 0:
            return BEGINNING
        # One back: the entry may be a batch, and the client drops what it does not want.
        return min(Position(start.ledger_id, start.entry_id - 1), self.ledgers.last())

    def create_subscription(
        self, name: str, mark_delete: Position, properties: dict[str, str]
    ) -> Subscription:
        """A new durable subscription; it exists once `ticket_last` is durable."""
        self.require_open()
        if name in self.subscriptions:
            raise BrokerError(
                ServerError.NotAllowedError, f"{self.name} has a subscription {name!r} already"
            )
        limit = self.policies.max_subscriptions
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

    def load_subscriptions(self) -> None:
        """Brings back the cursors that the store has, but for those that are being deleted."""
        for cursor_id in self.store.cursor_ids(self.id):
            if self.store.log.deleting(cursor_id):
                continue
            image = self.store.cursor_image(cursor_id)
            if image.name.startswith(INTERNAL):
                continue
            cursor = load_cursor(self.store, cursor_id, self.ledgers)
            properties, last_type = unpack_properties(image.properties)
            self.subscriptions[image.name] = Subscription(
                self, image.name, cursor, cursor_id, properties, last_type
            )

    def unsubscribe(self, subscription: Subscription) -> Promise[None]:
        """Deletes a subscription; its consumers are closed."""
        promise: Promise[None] = Promise()
        if subscription.durable and self.subscriptions.get(subscription.name) is not subscription:
            reason = f"{subscription.title} is deleted already, or about to be"
            return broken(BrokerError(ServerError.SubscriptionNotFound, reason))
        self.drop(subscription)
        told = self.dismiss(subscription.close())
        if not subscription.durable:
            return told
        try:
            ticket = self.store.delete_cursor(subscription.cursor_id)
        except StorageError as error:
            self._bring_back(subscription)
            promise.fail(error)
            return promise
        self.host.kick()

        def settled(error: Exception | None) -> None:
            if error is not None:
                self._bring_back(subscription)
                promise.fail(error)
            else:
                self.acks_moved()
                told.then(promise.keep, promise.fail)

        self.wait_for(ticket).when_done(settled)
        return promise

    def _bring_back(self, gone: Subscription) -> None:
        """The subscription could not be deleted: it is there, and its acks are."""
        if not self.closed:
            self.subscriptions[gone.name] = Subscription(
                self, gone.name, gone.cursor, gone.cursor_id, gone.properties, gone.last_type
            )

    def drop(self, subscription: Subscription) -> None:
        """The subscription is gone."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            subscription.share.end()
            self.active_ticks = self.host.ticks_ms()
            messages, size = subscription.out_totals()
            self._out_before.add(messages, size)

    def out_totals(self) -> tuple[int, int]:
        """Messages and bytes that went out, to all subscriptions that ever were here."""
        messages: i64 = self._out_before.messages
        size: i64 = self._out_before.bytes
        for subscription in self.subscriptions.values():
            more, bytes_more = subscription.out_totals()
            messages += more
            size += bytes_more
        return messages, size

    def consumer_count(self) -> int:
        return sum([len(s.consumers) for s in self.subscriptions.values()])

    # ---- Positions -----------------------------------------------------------

    def position_at(self, time_ms: int) -> Position:
        """The first entry that was not published before `time_ms`.

        Publish times are the producers' and need not ascend; as in Pulsar the search
        takes them as if they did.
        """
        store = self.store
        for ledger in store.ledgers(self.id) if self.stored else []:
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
        last = self.ledgers.last()
        return Position(last.ledger_id, last.entry_id + 1)

    @property
    def stored(self) -> bool:
        """Whether the store knows the topic; a new one it knows when it is durable."""
        return self.id in self.store.log.state.topics

    def size_bytes(self) -> int:
        if not self.stored:
            return 0
        return sum([ledger.size_bytes for ledger in self.store.ledgers(self.id)])

    def backlog_bytes(self, position: Position) -> int:
        """What lies behind a position; of the ledger that it is in, a share."""
        total = 0
        for ledger in self.store.ledgers(self.id) if self.stored else []:
            if ledger.id > position.ledger_id:
                total += ledger.size_bytes
            elif ledger.id == position.ledger_id and ledger.entries > 0:
                left = max(ledger.entries - position.entry_id - 1, 0)
                total += ledger.size_bytes * left // ledger.entries
        return total

    def slowest(self) -> Position | None:
        """The mark-delete position that everything before may go by; None without cursors."""
        slowest = self.slowest_subscription()
        if self.deduplication is None:
            return slowest
        own = self.deduplication.position
        return own if slowest is None else min(slowest, own)

    def slowest_subscription(self) -> Position | None:
        """That of subscriptions only; the broker's own cursors are nobody's backlog."""
        floors = [s.floor for s in self.subscriptions.values() if s.durable]
        return min(floors) if floors else None

    # ---- Trimming ------------------------------------------------------------

    def acks_moved(self) -> None:
        """Ledgers may have become free."""
        if not self._trim_wanted and len(self.ledgers_ids()) > 1:
            self._trim_wanted = True
            self.broker.upkeep.trim_later(self)

    def ledgers_ids(self) -> list[int]:
        return self.store.log.state.topics[self.id].ledger_ids if self.stored else []

    def trim(self, retention: Retention | None = None) -> None:
        """Deletes ledgers that are acked and not retained, as policies say unless told."""
        self._trim_wanted = False
        if self.closed or not self.stored:
            return
        if retention is None:
            retention = Retention(
                time_ms=self.policies.retention_time_ms,
                size_bytes=self.policies.retention_size_bytes,
            )
        trimmed = self.store.trim(self.id, self.slowest(), retention)
        if not trimmed:
            return
        self.host.kick()
        self.wait_for(self.store.ticket_last).when_done(
            lambda error: self._trimmed(trimmed) if error is None else None
        )

    def _trimmed(self, ledger_ids: list[int]) -> None:
        for ledger_id in ledger_ids:
            if self.ledgers.entry_count(ledger_id) >= 0:
                self.ledgers.remove(ledger_id)
            self.chunk_map.remove(ledger_id)
        for subscription in list(self.subscriptions.values()):
            subscription.have_trimmed()

    # ---- The end -------------------------------------------------------------

    def terminate(self) -> Position:
        """No more entries; the last one."""
        if not self.terminated:
            self.terminated = True
            try:
                self.broker.save_topic(self)
            except StorageError:
                self.terminated = False
                raise
            self.admission.dismiss_all()
            self.refresh()
        return self.ledgers.last()

    def close(self) -> Promise[None]:
        """Closes producers and subscriptions; done when all that is on its way is settled."""
        promise: Promise[None] = Promise()
        self.closed = True
        self.admission.dismiss_all()
        consumers: list[Consumer] = []
        for subscription in list(self.subscriptions.values()):
            consumers.extend(subscription.close())
        told = self.dismiss(consumers)
        if self.deduplication is not None and not self.deleted:
            self.deduplication.snapshot()
        self.wait_for(self.store.ticket_last).when_done(
            lambda error: told.then(promise.keep, promise.fail)
        )
        self.host.kick()
        return promise

    def dismiss(self, consumers: list[Consumer]) -> Promise[None]:
        """Tells consumers that they are closed; kept when all are told."""
        return dismiss(self.host, self.broker.pieces, consumers)

    def give_up(self, error: Exception) -> None:
        """Something happened here that nobody foresaw: what is in memory is not to be trusted.

        The topic is unloaded, and loaded from what is durable when clients come back.
        """
        self.host.fault(f"unloading {self.name}", error)
        self.host.call_soon(self._unload)

    def _unload(self) -> None:
        if not self.closed:
            self.deduplication = None  # nor is this: it would be written at the end
            self.broker.unload(self.name)

    @property
    def idle(self) -> bool:
        """Whether nobody is connected."""
        if not self.admission.empty:
            return False
        for subscription in self.subscriptions.values():
            if subscription.busy:
                return False
        return True


def transaction_fault(send: CommandSend) -> str:
    """Why a SEND is not taken if it is part of a transaction."""
    if send.txnid_least_bits != 0 or send.txnid_most_bits != 0:
        return "this broker has no transactions: publish without one"
    return ""


BEGINNING: Final = Position(-1, -1)
# Cursors of the broker's own begin so; no subscription may.
INTERNAL: Final = "pulsar."
