"""A session: the conversation with one client, command by command.

| state     | CONNECT   | anything else | becomes                                             |
|-----------|-----------|---------------|-----------------------------------------------------|
| new       | answered  | hang up       | connected; closed, if the client may not come in    |
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

from magnetar.broker.auth.access import LOOK
from magnetar.broker.broker import Broker
from magnetar.broker.host import Timer
from magnetar.broker.peer import Peer, Port, unsigned
from magnetar.broker.producer import Producer
from magnetar.broker.session_auth import SessionAuth, refuse_proxied
from magnetar.broker.session_consumers import SessionConsumers
from magnetar.broker.session_producers import SessionProducers
from magnetar.broker.session_schemas import get_or_create_schema, get_schema
from magnetar.broker.session_topics import SessionTopics
from magnetar.broker.session_transactions import TRANSACTION_COMMANDS, refuse_transaction
from magnetar.broker.wire_error import wire_error
from magnetar.errors import BrokerError, MagnetarError, RemoteProtocolError
from magnetar.model import ServerError, TopicName
from magnetar.protocol import (
    PROTOCOL_VERSION,
    Command,
    CommandAck,
    CommandFlow,
    CommandSend,
    Connection,
    UnknownCommand,
)
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["Session"]

# Each takes the class of its command.
Handler: TypeAlias = Callable[..., None]

PROBE_MS: Final = 5000


@final
class Session(Peer):
    """See the module. The shell feeds it bytes and carries away its outbox."""

    def __init__(
        self,
        broker: Broker,
        port: Port,
        address: str,
        service_url: str,
        server_version: str,
        *,
        service_url_tls: str = "",
        certificate_role: str = "",
    ) -> None:
        super().__init__(port, address)
        self.broker: Final = broker
        self._service_url: Final = service_url
        self._service_url_tls: Final = service_url_tls
        self._server_version: Final = server_version
        self._connection: Final = Connection(broker.settings.message_size_max)
        self._connected: bool = False
        self._auth: Final = SessionAuth(broker, self, certificate_role, server_version)
        self._producers: Final = SessionProducers(broker, self)
        self._consumers: Final = SessionConsumers(broker, self)
        self._topics: Final = SessionTopics(broker, self)
        self._probes: list[Callable[[bool], None]] = []
        self._probe_timer: Timer | None = None
        self._asked_alive: bool = False
        self._handlers: Final[dict[str, Handler]] = self._table()

    def _table(self) -> dict[str, Handler]:
        producers, consumers, topics = self._producers, self._consumers, self._topics
        return {
            "CommandPing": self._on_ping,
            "CommandPong": self._on_pong,
            "CommandLookupTopic": self._on_lookup,
            "CommandPartitionedTopicMetadata": self._on_partitions,
            "CommandProducer": producers.on_producer,
            "CommandCloseProducer": producers.on_close_producer,
            "CommandSubscribe": consumers.on_subscribe,
            "CommandCloseConsumer": consumers.on_close_consumer,
            "CommandUnsubscribe": consumers.on_unsubscribe,
            "CommandRedeliverUnacknowledgedMessages": consumers.on_redeliver,
            "CommandSeek": consumers.on_seek,
            "CommandGetLastMessageId": consumers.on_last_message_id,
            "CommandConsumerStats": consumers.on_consumer_stats,
            "CommandWithdrawn": consumers.on_withdrawn,
            "CommandGetTopicsOfNamespace": topics.on_topics,
            "CommandWatchTopicList": topics.on_watch,
            "CommandWatchTopicListClose": topics.on_watch_close,
            "CommandGetSchema": self._on_get_schema,
            "CommandGetOrCreateSchema": self._on_get_or_create_schema,
            "CommandAuthResponse": self._auth.on_response,
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
        # Asked by a call, for mypy does not see that handling a command may change it.
        return self.closed

    def _handle(self, command: Command | UnknownCommand) -> None:
        if isinstance(command, CommandSend):
            self._producers.on_send(command)
        elif isinstance(command, CommandAck):
            self._consumers.on_ack(command)
        elif isinstance(command, CommandFlow):
            self._consumers.on_flow(command)
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
        if handler is not None:
            handler(command)
        elif name in TRANSACTION_COMMANDS:
            request_id: int = command.request_id  # type: ignore[attr-defined]
            self.send(refuse_transaction(name, request_id))
        else:
            self.fail(f"{name} is a broker's to say")

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
        self._auth.lost()
        self._topics.lost()
        self._producers.lost()
        self._consumers.lost()
        # Last, when what it held is free.
        self._answer_probes(False)

    def lag_ended(self) -> None:
        """The peer reads again: its consumers may be served."""
        self.writable = True
        self._consumers.lag_ended()

    def producer_ready(self, producer_id: int, topic_epoch: int) -> None:
        self._producers.ready(producer_id, topic_epoch)

    def close_producer(self, producer: Producer) -> None:
        self._producers.close(producer)

    # ---- Life ----------------------------------------------------------------

    def check_revoked(self) -> None:
        """To be called when tokens were taken back."""
        self._auth.check_revoked()

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
        try:
            self._auth.connect(command)
        except BrokerError as error:
            self.refuse(unsigned(-1), error)
            self.fail(error.reason)
            return
        self._connected = True
        self.client_version = command.client_version
        self.protocol_version = min(command.protocol_version, PROTOCOL_VERSION)
        self.knows_magnetar = command.feature_flags.supports_magnetar
        self.send(
            pb.CommandConnected(
                server_version=self._server_version,
                protocol_version=self.protocol_version,
                max_message_size=self.broker.settings.message_size_max,
                feature_flags=pb.FeatureFlags(
                    supports_topic_watchers=self.broker.settings.topic_watchers,
                    supports_get_partitioned_metadata_without_auto_creation=True,
                    supports_topic_watcher_reconcile=self.broker.settings.topic_watchers,
                    supports_magnetar=True,
                ),
            )
        )

    # ---- Lookup --------------------------------------------------------------

    def _on_lookup(self, command: pb.CommandLookupTopic) -> None:
        try:
            name = TopicName.parse(command.topic)
            self._require_sight(name, command.original_principal)
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
                brokerServiceUrl=self._service_url or None,
                brokerServiceUrlTls=self._service_url_tls or None,
                authoritative=True,
                proxy_through_service_url=False,
            )
        )

    def _require_sight(self, name: TopicName, original_principal: str) -> None:
        """Raises BrokerError unless the client may know of a topic."""
        if self.broker.access.enabled:
            refuse_proxied(original_principal)
            self.broker.access.require_topic(self.principal, LOOK, name)

    def _on_partitions(self, command: pb.CommandPartitionedTopicMetadata) -> None:
        try:
            name = TopicName.parse(command.topic)
            self._require_sight(name, command.original_principal)
            found = self.broker.partitions(
                name,
                may_create=command.metadata_auto_creation_enabled
                and self.broker.access.may_create(self.principal, name),
            )
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

    # ---- Schemas -------------------------------------------------------------

    def _on_get_schema(self, command: pb.CommandGetSchema) -> None:
        self.send(get_schema(self.broker, self.principal, command))

    def _on_get_or_create_schema(self, command: pb.CommandGetOrCreateSchema) -> None:
        self.send(get_or_create_schema(self.broker, self.principal, command))
