"""A topic: producers put entries in, subscriptions take them out.

| state      | publish              | subscribe | becomes                                      |
|------------|----------------------|-----------|----------------------------------------------|
| open       | stored, receipted    | yes       | terminated; closed, by unload or deletion    |
| terminated | TopicTerminatedError | yes       | closed                                       |
| closed     | -                    | -         | loaded anew when somebody asks for it        |

What becomes of an entry is for `persistent_topic.py` and `non_persistent.py` to say. Here is what
both are: a name, policies, producers (`admission.py`), subscriptions, and an end. What the store
has of a topic is told by `topic_storage.py`.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from magnetar.ack import Ledgers
from magnetar.broker.commits import Commits
from magnetar.broker.host import Host
from magnetar.broker.policy.effective_policies import EffectivePolicies
from magnetar.broker.promise import Promise, broken
from magnetar.broker.rate.topic_rates import TopicRates
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.topic.chunk.chunk_map import ChunkMap
from magnetar.broker.topic.compaction.topic_compaction import TopicCompaction
from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.counters import Traffic
from magnetar.broker.topic.dismissal import dismiss
from magnetar.broker.topic.dispatch.choice import check_options
from magnetar.broker.topic.producer import Producer
from magnetar.broker.topic.publish.admission import Admission
from magnetar.broker.topic.publish.deduplication import (
    Deduplication,
)
from magnetar.broker.topic.subscribe_request import SubscribeRequest
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic_storage import TopicStorage
from magnetar.broker.turn.slices import Step, in_slices
from magnetar.errors import BrokerError, StorageError
from magnetar.model import (
    Position,
    ServerError,
    TopicName,
)
from magnetar.protocol import (
    CommandSend,
)
from magnetar.storage.store import Store

if TYPE_CHECKING:
    from magnetar.broker.broker import Broker

__all__ = ["BEGINNING", "Topic"]

PERSISTENCE: Final = int(ServerError.PersistenceError)


class Topic:
    """Base of persistent and non-persistent topics; see the module."""

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
        # Of a topic that stores nothing, both stay empty.
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
        self.storage: Final = TopicStorage(self)
        self.compaction: Final = TopicCompaction(self)
        self.admission: Final = Admission(self, epoch)
        self.producers: Final[dict[str, Producer]] = self.admission.producers
        self.rates: Final = TopicRates(self)

    # ---- Publishing ----------------------------------------------------------

    def publish(self, producer: Producer, send: CommandSend) -> None:
        """Takes an entry; the receipt or the refusal goes to the producer's peer."""
        raise NotImplementedError

    def turn_away(self, producer: Producer, send: CommandSend) -> None:
        """Refuses what a producer may not send now."""
        if self.closed or producer.leaving:
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
        self.refuse_in_turn(producer, send, code, reason)

    def refuse_in_turn(self, producer: Producer, send: CommandSend, code: int, why: str) -> None:
        """Refuses, in turn: answers of one producer keep their order."""
        sequence_id = send.sequence_id
        if producer.pending == 0:
            producer.refuse(sequence_id, code, why)
            return
        self.wait_for(self.store.ticket_last).when_done(
            lambda error: producer.refuse(sequence_id, code, why)
        )

    def refresh(self) -> None:
        """Tells subscriptions of the entries that became durable."""
        for subscription in list(self.subscriptions.values()):
            subscription.pump()

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
            self.rates.require_subscribe(consumer)
            subscription = self.subscriptions.get(request.subscription)
            if subscription is None:
                subscription = self._create_for(request)
            else:
                self._require_kind(subscription, request)
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
        if request.read_compacted:
            self._check_compacted(request)
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

    def _check_compacted(self, request: SubscribeRequest) -> None:
        if not self.name.persistent:
            raise BrokerError(
                ServerError.NotAllowedError, "readCompacted only valid on persistent topics"
            )
        if not request.type.has_active:
            raise BrokerError(
                ServerError.NotAllowedError,
                "readCompacted only allowed on failover or exclusive subscriptions",
            )

    def require_room(self) -> None:
        """Raises BrokerError if there may be no more consumers."""
        limit = self.policies.limits.max_consumers
        if limit > 0 and self.consumer_count() >= limit:
            raise BrokerError(
                ServerError.ConsumerBusy,
                f"{self.name} has {limit} consumers, the most that it may have",
            )

    def _require_kind(self, subscription: Subscription, request: SubscribeRequest) -> None:
        """Raises BrokerError if the subscription is not of the kind that is asked for."""

    def _create_for(self, request: SubscribeRequest) -> Subscription:
        """Returns a new subscription for whoever subscribes. Raises BrokerError, StorageError."""
        raise NotImplementedError

    def create_subscription(
        self, name: str, mark_delete: Position, properties: dict[str, str]
    ) -> Subscription:
        """Returns a new durable subscription. Raises BrokerError if the topic stores nothing."""
        raise BrokerError(ServerError.NotAllowedError, f"{self.name} is not persistent")

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
                self.storage.acks_moved()
                told.then(promise.keep, promise.fail)

        self.wait_for(ticket).when_done(settled)
        return promise

    def _bring_back(self, gone: Subscription) -> None:
        """The subscription could not be deleted: it is there, and its acks are."""
        if not self.closed:
            back = Subscription(
                self, gone.name, gone.cursor, gone.cursor_id, gone.properties, gone.last_type
            )
            back.pending.load(self.broker.transactions.acks_of(gone.cursor_id))
            self.subscriptions[gone.name] = back

    def drop(self, subscription: Subscription) -> None:
        """The subscription is gone."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            subscription.share.end()
            self.active_ticks = self.host.ticks_ms()
            messages, size = subscription.out_totals()
            self._out_before.add(messages, size)

    @property
    def out_before(self) -> tuple[int, int]:
        """Messages and bytes that went out to subscriptions that are gone."""
        return int(self._out_before.messages), int(self._out_before.bytes)

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

    # ---- The end -------------------------------------------------------------

    def terminate(self) -> Position:
        """Takes no entries any more, and returns the position of the last one."""
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
        """Closes producers and subscriptions; done when all that is on its way is settled.

        Of thousands of subscriptions the last may serve their consumers for a moment more.
        """
        promise: Promise[None] = Promise()
        self.closed = True
        self.admission.dismiss_all()
        self.rates.end()
        if self.deduplication is not None and not self.deleted:
            self.deduplication.snapshot()
        steps: list[Step] = [
            partial(self._close_subscription, subscription)
            for subscription in self.subscriptions.values()
        ]

        def told(error: Exception | None) -> None:
            self.wait_for(self.store.ticket_last).when_done(lambda error: promise.keep(None))
            self.host.kick()

        in_slices(self.host, steps, self.broker.pieces.subscriptions).when_done(told)
        return promise

    def _close_subscription(self, subscription: Subscription) -> Promise[None]:
        return self.dismiss(subscription.close())

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


BEGINNING: Final = Position(-1, -1)
