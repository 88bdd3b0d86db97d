"""A session: the conversation with one client, command by command.

| state     | CONNECT   | anything else | becomes                                             |
|-----------|-----------|---------------|-----------------------------------------------------|
| new       | answered  | hang up       | connected                                           |
| connected | hang up   | see below     | closed: the peer went, said something invalid, or   |
|           |           |               | did not answer a PING                               |
| closed    | -         | -             |                                                     |

Bytes that are no command end the session and nothing else; the reason is logged once. A
request that cannot be served is answered with an error, and nothing has changed. Requests
are answered in the order in which their work is done, which need not be that of asking.
"""

from collections.abc import Callable
from typing import Final, TypeAlias, final

from google.protobuf.message import Message
from mypy_extensions import i64

from magnetar.ack.delta import position_key
from magnetar.broker.broker import Broker
from magnetar.broker.consumer import Consumer
from magnetar.broker.host import Timer
from magnetar.broker.peer import Peer, Port, unsigned
from magnetar.broker.producer import Producer
from magnetar.broker.schema import SchemaInfo, schema_topic
from magnetar.broker.subscription import KeySharedOptions, Subscription
from magnetar.broker.topic import SubscribeRequest, Topic
from magnetar.broker.topic_list import TopicFilter, TopicWatcher, topics_hash
from magnetar.errors import (
    BrokerError,
    InvalidTopicNameError,
    MagnetarError,
    RemoteProtocolError,
    StorageError,
    UsageError,
)
from magnetar.model import ConsumerType, Position, RegexSubscriptionMode, ServerError, TopicName
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    PROTOCOL_VERSION,
    Command,
    CommandAck,
    CommandAckResponse,
    CommandFlow,
    CommandSend,
    Connection,
    UnknownCommand,
    entry_facts,
    message_id_from_pb,
    message_id_to_pb,
    signed,
    split_entry,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage.read_plan import ReadPlan

__all__ = ["Session"]

# Each takes the class of its command.
Handler: TypeAlias = Callable[..., None]

# So many producer ids are remembered after they were closed: SENDs may still be under way.
CLOSED_PRODUCERS_MAX: Final = 1000
PROBE_MS: Final = 5000
NO_TRANSACTIONS: Final = "this broker has no transactions: switch them off in the client"


@final
class _Link:
    """A consumer of this session, and what it consumes once that is settled."""

    def __init__(self, consumer: Consumer, topic: Topic) -> None:
        self.consumer: Final = consumer
        self.topic: Final = topic
        self.subscription: Subscription | None = None


@final
class Session(Peer):
    """See the module. The shell feeds it bytes and carries away its outbox."""

    def __init__(
        self, broker: Broker, port: Port, address: str, service_url: str, server_version: str
    ) -> None:
        super().__init__(port, address)
        self.broker: Final = broker
        self._service_url: Final = service_url
        self._server_version: Final = server_version
        self._connection: Final = Connection(broker.settings.message_size_max)
        self._connected: bool = False
        self._producers: Final[dict[int, Producer]] = {}
        self._producer_topics: Final[dict[int, Topic]] = {}
        self._closed_producers: Final[dict[int, None]] = {}
        self._waiting_producers: Final[dict[int, int]] = {}
        # Those that another connection is asked for first, and their requests.
        self._asking_producers: Final[dict[int, int]] = {}
        self._links: Final[dict[int, _Link]] = {}
        self._watchers: Final[dict[int, Callable[[str, str, bool], None]]] = {}
        self._probes: list[Callable[[bool], None]] = []
        self._probe_timer: Timer | None = None
        self._asked_alive: bool = False
        self._handlers: Final[dict[str, Handler]] = self._table()

    def _table(self) -> dict[str, Handler]:
        return {
            "CommandPing": self._on_ping,
            "CommandPong": self._on_pong,
            "CommandLookupTopic": self._on_lookup,
            "CommandPartitionedTopicMetadata": self._on_partitions,
            "CommandProducer": self._on_producer,
            "CommandCloseProducer": self._on_close_producer,
            "CommandSubscribe": self._on_subscribe,
            "CommandCloseConsumer": self._on_close_consumer,
            "CommandUnsubscribe": self._on_unsubscribe,
            "CommandRedeliverUnacknowledgedMessages": self._on_redeliver,
            "CommandSeek": self._on_seek,
            "CommandGetLastMessageId": self._on_last_message_id,
            "CommandConsumerStats": self._on_consumer_stats,
            "CommandGetTopicsOfNamespace": self._on_topics,
            "CommandWatchTopicList": self._on_watch,
            "CommandWatchTopicListClose": self._on_watch_close,
            "CommandGetSchema": self._on_get_schema,
            "CommandGetOrCreateSchema": self._on_get_or_create_schema,
            "CommandAuthResponse": self._on_pong,
            "CommandTcClientConnectRequest": self._on_tc_connect,
            "CommandNewTxn": self._on_new_txn,
            "CommandAddPartitionToTxn": self._on_add_partition_to_txn,
            "CommandAddSubscriptionToTxn": self._on_add_subscription_to_txn,
            "CommandEndTxn": self._on_end_txn,
            "CommandEndTxnOnPartition": self._on_end_txn_on_partition,
            "CommandEndTxnOnSubscription": self._on_end_txn_on_subscription,
        }

    # ---- Bytes ---------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Takes what came from the peer, and does what it asks for."""
        if self.closed:
            return
        if self._probes:
            self._answer_probes(True)
        self._asked_alive = False
        self._connection.receive_data(data)
        try:
            while (command := self._connection.next_command()) is not None:
                self._handle(command)
                if self._is_closed():
                    return
        except RemoteProtocolError as error:
            self.fail(f"invalid bytes: {error}")

    def _is_closed(self) -> bool:
        return self.closed

    def _handle(self, command: Command | UnknownCommand) -> None:
        if isinstance(command, CommandSend):
            self._on_send(command)
        elif isinstance(command, CommandAck):
            self._on_ack(command)
        elif isinstance(command, CommandFlow):
            self._on_flow(command)
        elif isinstance(command, UnknownCommand):
            self._require_connected(f"command {command.command_type}")
        elif isinstance(command, Message):
            self._on_cold(command)
        else:
            self.fail(f"{type(command).__name__} is a broker's to say")

    def _on_cold(self, command: Message) -> None:
        name = command.DESCRIPTOR.name
        if name == "CommandConnect":
            self._on_connect(command)
            return
        if not self._require_connected(name):
            return
        handler = self._handlers.get(name)
        if handler is None:
            self.fail(f"{name} is a broker's to say")
            return
        handler(command)

    def _require_connected(self, what: str) -> bool:
        if not self._connected:
            self.fail(f"{what} before CONNECT")
        return self._connected

    def fail(self, reason: str) -> None:
        """Ends the session, and says why in the log."""
        if not self.closed:
            self.broker.host.warn(f"closing the connection of {self.address}: {reason}")
            self.shut()

    def shut(self) -> None:
        """Hangs up, after what is in the outbox."""
        if not self.closed:
            self.port.hang_up()
            self.lost()

    def lost(self) -> None:
        """The connection is gone: its producers and consumers are too."""
        if self.closed:
            return
        self.closed = True
        for watcher in self._watchers.values():
            self.broker.watchers.remove(watcher)
        self._watchers.clear()
        for id, producer in list(self._producers.items()):
            self._producer_topics[id].remove_producer(producer)
        self._producers.clear()
        self._producer_topics.clear()
        for link in list(self._links.values()):
            link.consumer.closed = True
            if link.subscription is not None:
                link.subscription.leave(link.consumer)
        self._links.clear()
        # Last, when what it held is free.
        self._answer_probes(False)

    def lag_ended(self) -> None:
        """The peer reads again: its consumers may be served."""
        self.writable = True
        for link in list(self._links.values()):
            if link.subscription is not None and not link.consumer.closed:
                link.subscription.resume()

    # ---- Life ----------------------------------------------------------------

    def check_alive(self) -> None:
        """To be called at every keep-alive interval."""
        if self.closed:
            return
        if not self._connected:
            self.fail("no CONNECT within the keep-alive interval")
        elif self.paused:
            pass  # it may have answered: nobody reads what it says now
        elif self._asked_alive:
            self.fail("no answer to PING within the keep-alive interval")
        else:
            self._asked_alive = True
            self.send(pb.CommandPing())

    def probe(self, answer: Callable[[bool], None]) -> None:
        """Finds out whether the peer is still there; hangs up if it is not."""
        if self.closed:
            answer(False)
            return
        self._probes.append(answer)
        if len(self._probes) == 1:
            self.send(pb.CommandPing())
            self._probe_timer = self.broker.host.call_later(PROBE_MS, self._probe_failed)

    def _probe_failed(self) -> None:
        self._probe_timer = None
        if self.paused:
            self._answer_probes(True)  # nobody reads what it says now, so it is not its fault
            return
        self.fail("no answer to PING, and another client wants what it holds")

    def _answer_probes(self, alive: bool) -> None:
        if self._probe_timer is not None:
            self._probe_timer.cancel()
            self._probe_timer = None
        probes = self._probes
        self._probes = []
        for answer in probes:
            answer(alive)

    def _on_ping(self, command: pb.CommandPing) -> None:
        self.send(pb.CommandPong())

    def _on_pong(self, command: Message) -> None:
        pass  # that it came is all there is to it

    # ---- Connect -------------------------------------------------------------

    def _on_connect(self, message: Message) -> None:
        if self._connected:
            self.fail("a second CONNECT")
            return
        command: pb.CommandConnect = message  # type: ignore[assignment]
        self._connected = True
        self.client_version = command.client_version
        self.protocol_version = min(command.protocol_version, PROTOCOL_VERSION)
        self.takes_broker_metadata = command.feature_flags.supports_broker_entry_metadata
        self.send(
            pb.CommandConnected(
                server_version=self._server_version,
                protocol_version=self.protocol_version,
                max_message_size=self.broker.settings.message_size_max,
                feature_flags=pb.FeatureFlags(
                    supports_topic_watchers=self.broker.settings.topic_watchers,
                    supports_get_partitioned_metadata_without_auto_creation=True,
                    supports_topic_watcher_reconcile=self.broker.settings.topic_watchers,
                ),
            )
        )

    # ---- Lookup --------------------------------------------------------------

    def _on_lookup(self, command: pb.CommandLookupTopic) -> None:
        try:
            name = TopicName.parse(command.topic)
            self.broker.directory.require_namespace(name.namespace)
            if command.advertised_listener_name:
                listener = command.advertised_listener_name
                raise BrokerError(
                    ServerError.ServiceNotReady, f"the broker do not have {listener} listener"
                )
        except MagnetarError as error:
            code, reason = wire_error(error)
            self.send(
                pb.CommandLookupTopicResponse(
                    request_id=command.request_id, response=2, error=code, message=reason
                )
            )
            return
        self.send(
            pb.CommandLookupTopicResponse(
                request_id=command.request_id,
                response=1,
                brokerServiceUrl=self._service_url,
                authoritative=True,
                proxy_through_service_url=False,
            )
        )

    def _on_partitions(self, command: pb.CommandPartitionedTopicMetadata) -> None:
        try:
            name = TopicName.parse(command.topic)
            found = self.broker.partitions(name, may_create=command.metadata_auto_creation_enabled)
        except MagnetarError as error:
            code, reason = wire_error(error)
            self.send(
                pb.CommandPartitionedTopicMetadataResponse(
                    request_id=command.request_id, response=1, error=code, message=reason
                )
            )
            return
        self.send(
            pb.CommandPartitionedTopicMetadataResponse(
                request_id=command.request_id, response=0, partitions=found
            )
        )

    # ---- Producers -----------------------------------------------------------

    def _on_producer(self, command: pb.CommandProducer) -> None:
        id = signed(command.producer_id)
        old = self._producers.get(id)
        try:
            name = TopicName.parse(command.topic)
            if old is not None and not old.closed and command.epoch <= old.epoch:
                self._send_producer_success(command.request_id, old, -1)
                return
            if command.producer_access_mode not in ACCESS_MODES:
                raise BrokerError(
                    ServerError.NotAllowedError, f"no access mode {command.producer_access_mode}"
                )
            topic = self.broker.topic(name, may_create=True)
            holder = topic.producers.get(command.producer_name)
            if holder is not None and holder.peer is not self and not holder.peer.closed:
                self._asking_producers[id] = command.request_id
                holder.peer.probe(lambda alive: self._have_asked(command, id, topic))
                return
        except MagnetarError as error:
            self._refuse(command.request_id, error)
            return
        self._add_producer(command, id, topic)

    def _have_asked(self, command: pb.CommandProducer, id: int, topic: Topic) -> None:
        """Whoever had the producer's name has answered, or is gone."""
        if self._asking_producers.get(id) != command.request_id:
            reason = f"producer {id} was closed or created anew meanwhile"
            self._refuse(command.request_id, BrokerError(ServerError.ServiceNotReady, reason))
            return
        del self._asking_producers[id]
        self._add_producer(command, id, topic)

    def _add_producer(self, command: pb.CommandProducer, id: int, topic: Topic) -> None:
        if self.closed:
            return
        try:
            topic.require_open()
            schema = read_schema(command.schema) if command.HasField("schema") else None
            policy = self.broker.schema_policy(topic.name)
            version = self.broker.schemas.add_producer_schema(
                schema_topic(topic.name), schema, policy
            )
            generated = not command.producer_name
            producer = Producer(
                self,
                id,
                command.producer_name or self.broker.new_producer_name(),
                epoch=command.epoch,
                access_mode=command.producer_access_mode,
                generated_name=generated or not command.user_provided_producer_name,
                encrypted=command.encrypted,
                metadata={item.key: item.value for item in command.metadata},
                schema_version=version,
                connected_ms=self.broker.host.now_ms(),
            )
            created = self._create_initial(command, topic)
            epoch = command.topic_epoch if command.HasField("topic_epoch") else None
            admitted = topic.add_producer(producer, epoch)
        except (MagnetarError, ValueError) as error:
            self._refuse(command.request_id, error)
            return
        before = self._producers.get(id)
        if before is not None:
            # One of another name or topic: nobody else would let go of it.
            self._producer_topics[id].remove_producer(before)
        self._closed_producers.pop(id, None)
        self._producers[id] = producer
        self._producer_topics[id] = topic
        if admitted.done:
            # Not before the topic, and a subscription that was asked for, are safe.
            request_id = command.request_id
            waits = created or not topic.stored
            self.broker.commits.when(
                self.broker.store.ticket_last if waits else -1,
                lambda error: self._producer_admitted(request_id, producer, topic, error),
            )
        else:
            self._waiting_producers[id] = command.request_id
            self._send_producer_success(command.request_id, producer, topic.epoch)

    def _create_initial(self, command: pb.CommandProducer, topic: Topic) -> bool:
        """Whether a subscription had to be created for the producer."""
        name = command.initial_subscription_name
        if not name or name in topic.subscriptions or not topic.name.persistent:
            return False
        topic.create_subscription(name, topic.ledgers.last(), {})
        return True

    def _producer_admitted(
        self, request_id: int, producer: Producer, topic: Topic, error: Exception | None
    ) -> None:
        if producer.closed:
            if not self.closed:
                reason = f"{topic.name} was closed meanwhile: try again"
                self._refuse(request_id, BrokerError(ServerError.ServiceNotReady, reason))
            return
        if error is not None:
            self._drop_producer(int(producer.id))
            topic.remove_producer(producer)
            self._refuse(request_id, error)
            return
        self._send_producer_success(request_id, producer, topic.epoch)

    def _send_producer_success(self, request_id: int, producer: Producer, epoch: int) -> None:
        topic = self._producer_topics.get(int(producer.id))
        last = -1
        if topic is not None and topic.deduplication is not None:
            last = topic.deduplication.highest(producer.name)
        command = pb.CommandProducerSuccess(
            request_id=request_id,
            producer_name=producer.name,
            last_sequence_id=last,
            schema_version=producer.schema_version,
            producer_ready=producer.ready,
        )
        if epoch >= 0:
            command.topic_epoch = epoch
        self.send(command)

    def producer_ready(self, producer_id: int, topic_epoch: int) -> None:
        request_id = self._waiting_producers.pop(producer_id, None)
        producer = self._producers.get(producer_id)
        if request_id is not None and producer is not None:
            self._send_producer_success(request_id, producer, topic_epoch)

    def close_producer(self, producer_id: int) -> None:
        self._drop_producer(producer_id)
        self.send(
            pb.CommandCloseProducer(producer_id=unsigned(producer_id), request_id=unsigned(-1))
        )

    def _drop_producer(self, id: int) -> None:
        self._producers.pop(id, None)
        self._producer_topics.pop(id, None)
        self._waiting_producers.pop(id, None)
        self._closed_producers[id] = None
        if len(self._closed_producers) > CLOSED_PRODUCERS_MAX:
            del self._closed_producers[next(iter(self._closed_producers))]

    def _on_close_producer(self, command: pb.CommandCloseProducer) -> None:
        id = signed(command.producer_id)
        producer = self._producers.get(id)
        self._asking_producers.pop(id, None)
        if producer is None:
            self._succeed(command.request_id)
            return
        topic = self._producer_topics[id]
        self._drop_producer(id)
        request_id = command.request_id

        def settled(error: Exception | None) -> None:
            topic.remove_producer(producer)
            self._succeed(request_id)

        last = self.broker.store.ticket_last if producer.pending > 0 else -1
        self.broker.commits.when(last, settled)

    def _on_send(self, send: CommandSend) -> None:
        producer = self._producers.get(send.producer_id)
        if producer is not None:
            self._producer_topics[send.producer_id].publish(producer, send)
        elif send.producer_id not in self._closed_producers:
            self.fail(f"SEND of producer {send.producer_id}, which there is not")

    # ---- Consumers -----------------------------------------------------------

    def _on_subscribe(self, command: pb.CommandSubscribe) -> None:
        id = signed(command.consumer_id)
        link = self._links.get(id)
        if link is not None and not link.consumer.closed:
            if link.subscription is not None:
                self._succeed(command.request_id)
            else:
                reason = f"consumer {id} is being subscribed already: wait for that"
                self._refuse(command.request_id, BrokerError(ServerError.ServiceNotReady, reason))
            return
        try:
            name = TopicName.parse(command.topic)
            if command.subType not in VALID_TYPES:
                raise BrokerError(
                    ServerError.NotAllowedError, f"no subscription is of type {command.subType}"
                )
            topic = self.broker.topic(name, may_create=command.force_topic_creation)
            self._check_schema(command, topic)
        except (MagnetarError, ValueError) as error:
            self._refuse(command.request_id, error)
            return
        consumer = self._make_consumer(command, id)
        self._links[id] = _Link(consumer, topic)
        holder = self._exclusive_holder(command, topic)
        if holder is not None:
            holder.peer.probe(lambda alive: self._subscribe(command, topic, consumer))
        else:
            self._subscribe(command, topic, consumer)

    def _check_schema(self, command: pb.CommandSubscribe, topic: Topic) -> None:
        schema = read_schema(command.schema) if command.HasField("schema") else None
        idle = not topic.producers and topic.ledgers.last().entry_id < 0
        self.broker.schemas.add_consumer_schema(
            schema_topic(topic.name), schema, self.broker.schema_policy(topic.name), idle=idle
        )

    def _make_consumer(self, command: pb.CommandSubscribe, id: int) -> Consumer:
        key = self.broker.new_consumer_key()
        return Consumer(
            self,
            key,
            id,
            command.consumer_name or f"{key:05x}",
            priority=command.priority_level,
            epoch=signed(command.consumer_epoch) if command.HasField("consumer_epoch") else None,
            metadata={item.key: item.value for item in command.metadata},
            connected_ms=self.broker.host.now_ms(),
        )

    def _exclusive_holder(self, command: pb.CommandSubscribe, topic: Topic) -> Consumer | None:
        """Another connection's consumer that stands in the way, if it is alive."""
        subscription = topic.subscriptions.get(command.subscription)
        if subscription is None or command.subType != ConsumerType.Exclusive:
            return None
        for consumer in subscription.consumers:
            if consumer.peer is not self:
                return consumer
        return None

    def _subscribe(self, command: pb.CommandSubscribe, topic: Topic, consumer: Consumer) -> None:
        if self.closed:
            return
        if consumer.closed:
            reason = f"consumer {consumer.id} was closed meanwhile"
            self._refuse(command.request_id, BrokerError(ServerError.ServiceNotReady, reason))
            return
        start = None
        if command.HasField("start_message_id"):
            start = message_id_from_pb(command.start_message_id)
        request = SubscribeRequest(
            command.subscription,
            command.subType,
            durable=command.durable,
            initial_position=command.initialPosition,
            start=start,
            rollback_seconds=command.start_message_rollback_duration_sec,
            properties={item.key: item.value for item in command.subscription_properties},
            key_shared=read_key_shared(command),
            may_create=topic.policies.auto_create_subscriptions,
        )
        request_id = command.request_id

        def joined(subscription: Subscription) -> None:
            self._joined(request_id, consumer, subscription)

        def refused(error: Exception) -> None:
            link = self._links.get(int(consumer.id))
            if link is not None and link.consumer is consumer:
                del self._links[int(consumer.id)]
            self._refuse(request_id, error)

        topic.subscribe(request, consumer).then(joined, refused)

    def _joined(self, request_id: int, consumer: Consumer, subscription: Subscription) -> None:
        link = self._links.get(int(consumer.id))
        if self.closed or link is None or link.consumer is not consumer:
            subscription.leave(consumer)
            return
        link.subscription = subscription
        self._succeed(request_id)
        consumer.held = False
        subscription.pump()

    def _on_close_consumer(self, command: pb.CommandCloseConsumer) -> None:
        id = signed(command.consumer_id)
        request_id = command.request_id
        link = self._links.pop(id, None)
        if link is None or link.subscription is None:
            if link is not None:
                link.consumer.closed = True
            self._succeed(request_id)
            return
        link.subscription.leave(link.consumer).then(
            lambda done: self._succeed(request_id), lambda error: self._succeed(request_id)
        )

    def _on_unsubscribe(self, command: pb.CommandUnsubscribe) -> None:
        request_id = command.request_id
        link = self._ready_link(command.consumer_id, request_id)
        if link is None:
            return
        subscription = link.subscription
        assert subscription is not None
        topic = link.topic
        others = [c for c in subscription.consumers if c is not link.consumer]
        if others and not command.force:
            reason = f"{subscription.title} has {len(others)} other consumers: close them first"
            self._refuse(request_id, BrokerError(ServerError.MetadataError, reason))
            return
        del self._links[signed(command.consumer_id)]

        def left(done: None) -> None:
            topic.unsubscribe(subscription).then(
                lambda done: self._succeed(request_id),
                lambda error: self._refuse(request_id, error),
            )

        subscription.leave(link.consumer).then(left, lambda error: None)

    def _ready_link(self, consumer_id: int, request_id: int) -> _Link | None:
        """The consumer, or None after telling the client that there is none."""
        link = self._links.get(signed(consumer_id))
        if link is None or link.subscription is None or link.consumer.closed:
            reason = f"Consumer not found: {consumer_id} is closed or was never subscribed"
            self._refuse(request_id, BrokerError(ServerError.MetadataError, reason))
            return None
        return link

    def _on_flow(self, command: CommandFlow) -> None:
        link = self._links.get(command.consumer_id)
        if link is not None and link.subscription is not None:
            link.subscription.flow(link.consumer, command.message_permits)

    def _on_ack(self, command: CommandAck) -> None:
        link = self._links.get(command.consumer_id)
        if link is not None and link.subscription is not None and not link.consumer.closed:
            link.subscription.ack(link.consumer, command)
            return
        if command.request_id is None:
            return
        if link is not None:
            code = ServerError.ServiceNotReady
            reason = f"consumer {command.consumer_id} is not connected now: try again"
        else:
            code = ServerError.ConsumerNotFound
            reason = f"there is no consumer {command.consumer_id}: subscribe, then ack again"
        self.send(CommandAckResponse(command.consumer_id, command.request_id, int(code), reason))

    def _on_redeliver(self, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        link = self._links.get(signed(command.consumer_id))
        if link is None or link.subscription is None or link.consumer.closed:
            return
        ids = [message_id_from_pb(id) for id in command.message_ids]
        keys = sorted({position_key(id.ledger_id, id.entry_id) for id in ids})
        epoch = signed(command.consumer_epoch) if command.HasField("consumer_epoch") else None
        link.subscription.redeliver(link.consumer, keys, epoch)

    def _on_seek(self, command: pb.CommandSeek) -> None:
        request_id = command.request_id
        link = self._ready_link(command.consumer_id, request_id)
        if link is None:
            return
        subscription = link.subscription
        assert subscription is not None
        if command.HasField("message_id"):
            id = message_id_from_pb(command.message_id)
            moved = subscription.reset(
                Position(id.ledger_id, id.entry_id),
                batch_index=id.batch_index,
                ack_set=id.ack_set,
                batch_size=id.batch_size,
            )
        elif command.HasField("message_publish_time"):
            moved = subscription.reset(link.topic.position_at(command.message_publish_time))
        else:
            reason = "a seek needs a message id or a publish time"
            self._refuse(request_id, BrokerError(ServerError.MetadataError, reason))
            return
        moved.then(
            lambda done: self._succeed(request_id), lambda error: self._refuse(request_id, error)
        )

    def _on_consumer_stats(self, command: pb.CommandConsumerStats) -> None:
        link = self._links.get(signed(command.consumer_id))
        if link is None or link.subscription is None:
            self.send(
                pb.CommandConsumerStatsResponse(
                    request_id=command.request_id,
                    error_code=ServerError.ConsumerNotFound,
                    error_message=f"there is no consumer {command.consumer_id}",
                )
            )
            return
        consumer, subscription = link.consumer, link.subscription
        self.send(
            pb.CommandConsumerStatsResponse(
                request_id=command.request_id,
                msgRateOut=consumer.out.message_rate,
                msgThroughputOut=consumer.out.byte_rate,
                msgRateRedeliver=consumer.redelivered.message_rate,
                consumerName=consumer.name,
                availablePermits=unsigned(consumer.permits),
                unackedMessages=consumer.unacked,
                blockedConsumerOnUnackedMsgs=consumer.blocked,
                address=self.address,
                connectedSince=str(consumer.connected_ms),
                type=subscription.type_name,
                msgRateExpired=subscription.expired.message_rate,
                msgBacklog=subscription.cursor.unacked_entries(),
                messageAckRate=consumer.acked.message_rate,
            )
        )

    # ---- The last message ----------------------------------------------------

    def _on_last_message_id(self, command: pb.CommandGetLastMessageId) -> None:
        request_id = command.request_id
        link = self._ready_link(command.consumer_id, request_id)
        if link is None:
            return
        topic, subscription = link.topic, link.subscription
        assert subscription is not None
        last = topic.ledgers.last()
        mark_delete = subscription.cursor.mark_delete
        if last.entry_id < 0:
            self._send_last_id(request_id, MessageIdData(-1, -1, topic.partition), mark_delete)
            return
        plan = self.broker.store.plan_entries([last])

        def done(error: Exception | None) -> None:
            self.broker.store.finish_read(plan)
            if error is not None:
                self._refuse(request_id, error)
            else:
                self._send_last_id(request_id, last_id_of(plan, topic.partition), mark_delete)

        if plan.complete:
            done(None)
        else:
            self.broker.host.read(plan, done)

    def _send_last_id(self, request_id: int, id: MessageIdData, mark_delete: Position) -> None:
        mark = MessageIdData(mark_delete.ledger_id, mark_delete.entry_id)
        self.send(
            pb.CommandGetLastMessageIdResponse(
                request_id=request_id,
                last_message_id=message_id_to_pb(id),
                consumer_mark_delete_position=message_id_to_pb(mark),
            )
        )

    # ---- Lists of topics -----------------------------------------------------

    def _names(self, namespace: str, mode: int) -> list[str]:
        self.broker.directory.require_namespace(namespace)
        return self.broker.names(
            namespace,
            persistent=mode != RegexSubscriptionMode.NonPersistentOnly,
            others=mode != RegexSubscriptionMode.PersistentOnly,
        )

    def _on_topics(self, command: pb.CommandGetTopicsOfNamespace) -> None:
        try:
            topics = self._names(command.namespace, command.mode)
        except MagnetarError as error:
            self._refuse(command.request_id, error)
            return
        filtered = False
        if command.topics_pattern and self.broker.settings.topic_watchers:
            try:
                length_max = self.broker.settings.topics_pattern_length_max
                topics = TopicFilter(command.topics_pattern, length_max).keep(topics)
                filtered = True
            except BrokerError:
                filtered = False  # then the client filters, as it does with older brokers
        hash = topics_hash(topics)
        same = bool(command.topics_hash) and command.topics_hash == hash
        self.send(
            pb.CommandGetTopicsOfNamespaceResponse(
                request_id=command.request_id,
                topics=[] if same else topics,
                filtered=filtered,
                topics_hash=hash,
                changed=not same,
            )
        )

    def _on_watch(self, command: pb.CommandWatchTopicList) -> None:
        watcher_id = command.watcher_id
        try:
            length_max = self.broker.settings.topics_pattern_length_max
            pattern = TopicFilter(command.topics_pattern, length_max)
            topics = pattern.keep(
                self._names(command.namespace, RegexSubscriptionMode.PersistentOnly)
            )
        except MagnetarError as error:
            self._refuse(command.request_id, error)
            return
        watcher = TopicWatcher(command.namespace, pattern, topics)

        def tell(namespace: str, topic: str, created: bool) -> None:
            if watcher.take(namespace, topic, created):
                self.send(
                    pb.CommandWatchTopicUpdate(
                        watcher_id=watcher_id,
                        new_topics=[topic] if created else [],
                        deleted_topics=[] if created else [topic],
                        topics_hash=watcher.hash(),
                    )
                )

        self._stop_watching(watcher_id)
        self._watchers[watcher_id] = tell
        self.broker.watchers.append(tell)
        hash = watcher.hash()
        same = bool(command.topics_hash) and command.topics_hash == hash
        self.send(
            pb.CommandWatchTopicListSuccess(
                request_id=command.request_id,
                watcher_id=watcher_id,
                topic=[] if same else topics,
                topics_hash=hash,
            )
        )

    def _stop_watching(self, watcher_id: int) -> None:
        watcher = self._watchers.pop(watcher_id, None)
        if watcher is not None:
            self.broker.watchers.remove(watcher)

    def _on_watch_close(self, command: pb.CommandWatchTopicListClose) -> None:
        self._stop_watching(command.watcher_id)
        self._succeed(command.request_id)

    # ---- Schemas -------------------------------------------------------------

    def _on_get_schema(self, command: pb.CommandGetSchema) -> None:
        try:
            name = TopicName.parse(command.topic)
            stored = self.broker.schemas.lookup(schema_topic(name), command.schema_version)
        except MagnetarError as error:
            code, reason = wire_error(error)
            self.send(
                pb.CommandGetSchemaResponse(
                    request_id=command.request_id, error_code=code, error_message=reason
                )
            )
            return
        schema = pb.Schema(
            name=name.local_name,
            schema_data=stored.data,
            type=stored.type,
        )
        for key, value in stored.properties.items():
            schema.properties.add(key=key, value=value)
        self.send(
            pb.CommandGetSchemaResponse(
                request_id=command.request_id, schema=schema, schema_version=stored.version_bytes
            )
        )

    def _on_get_or_create_schema(self, command: pb.CommandGetOrCreateSchema) -> None:
        try:
            name = TopicName.parse(command.topic)
            version = self.broker.schemas.add_producer_schema(
                schema_topic(name), read_schema(command.schema), self.broker.schema_policy(name)
            )
        except (MagnetarError, ValueError) as error:
            code, reason = wire_error(error)
            self.send(
                pb.CommandGetOrCreateSchemaResponse(
                    request_id=command.request_id, error_code=code, error_message=reason
                )
            )
            return
        self.send(
            pb.CommandGetOrCreateSchemaResponse(
                request_id=command.request_id, schema_version=version
            )
        )

    # ---- Transactions, which there are not -----------------------------------

    def _on_tc_connect(self, command: pb.CommandTcClientConnectRequest) -> None:
        self.send(
            pb.CommandTcClientConnectResponse(
                request_id=command.request_id,
                error=ServerError.NotAllowedError,
                message=NO_TRANSACTIONS,
            )
        )

    def _on_new_txn(self, command: pb.CommandNewTxn) -> None:
        self.send(
            pb.CommandNewTxnResponse(
                request_id=command.request_id,
                error=ServerError.NotAllowedError,
                message=NO_TRANSACTIONS,
            )
        )

    def _on_add_partition_to_txn(self, command: pb.CommandAddPartitionToTxn) -> None:
        self.send(
            pb.CommandAddPartitionToTxnResponse(
                request_id=command.request_id,
                error=ServerError.NotAllowedError,
                message=NO_TRANSACTIONS,
            )
        )

    def _on_add_subscription_to_txn(self, command: pb.CommandAddSubscriptionToTxn) -> None:
        self.send(
            pb.CommandAddSubscriptionToTxnResponse(
                request_id=command.request_id,
                error=ServerError.NotAllowedError,
                message=NO_TRANSACTIONS,
            )
        )

    def _on_end_txn(self, command: pb.CommandEndTxn) -> None:
        self.send(
            pb.CommandEndTxnResponse(
                request_id=command.request_id,
                error=ServerError.NotAllowedError,
                message=NO_TRANSACTIONS,
            )
        )

    def _on_end_txn_on_partition(self, command: pb.CommandEndTxnOnPartition) -> None:
        self.send(
            pb.CommandEndTxnOnPartitionResponse(
                request_id=command.request_id,
                error=ServerError.NotAllowedError,
                message=NO_TRANSACTIONS,
            )
        )

    def _on_end_txn_on_subscription(self, command: pb.CommandEndTxnOnSubscription) -> None:
        self.send(
            pb.CommandEndTxnOnSubscriptionResponse(
                request_id=command.request_id,
                error=ServerError.NotAllowedError,
                message=NO_TRANSACTIONS,
            )
        )

    # ---- Answers -------------------------------------------------------------

    def _succeed(self, request_id: int) -> None:
        self.send(pb.CommandSuccess(request_id=request_id))

    def _refuse(self, request_id: int, error: Exception) -> None:
        code, reason = wire_error(error)
        self.send(pb.CommandError(request_id=request_id, error=code, message=reason))


VALID_TYPES: Final = (0, 1, 2, 3)
ACCESS_MODES: Final = (0, 1, 2, 3)


def wire_error(error: Exception) -> tuple[int, str]:
    """An error's number and text, as the wire has them."""
    if isinstance(error, BrokerError):
        return error.code, error.reason
    if isinstance(error, InvalidTopicNameError):
        return ServerError.InvalidTopicName, str(error)
    if isinstance(error, StorageError):
        return ServerError.PersistenceError, str(error)
    if isinstance(error, UsageError):
        return ServerError.NotAllowedError, str(error)
    return ServerError.UnknownError, str(error)


def read_schema(schema: pb.Schema) -> SchemaInfo:
    """The schema that a client brings."""
    return SchemaInfo(
        schema.type, schema.schema_data, {item.key: item.value for item in schema.properties}
    )


def read_key_shared(command: pb.CommandSubscribe) -> KeySharedOptions:
    """What a Key_Shared consumer asks for; the defaults if it says nothing."""
    if not command.HasField("keySharedMeta"):
        return KeySharedOptions()
    meta = command.keySharedMeta
    return KeySharedOptions(
        meta.keySharedMode,
        [(item.start, item.end) for item in meta.hashRanges],
        out_of_order=meta.allowOutOfOrderDelivery,
    )


def last_id_of(plan: ReadPlan, partition: i64) -> MessageIdData:
    """The id of the last message of the one entry that was read."""
    entry = plan.entries[0]
    assert entry.data is not None
    facts = entry_facts(split_entry(entry.data))
    index: i64 = facts.batch_size - 1 if facts.batched else -1
    return MessageIdData(entry.ledger_id, entry.entry_id, partition, index)
