"""One connection to a broker: handshake, requests and their answers, keep-alive.

| state      | becomes                                                                   |
|------------|---------------------------------------------------------------------------|
| connecting | ready, when CONNECTED came; closed                                        |
| ready      | closed: either side hung up, the peer was silent, or said something wrong |
| closed     | -                                                                         |

Producers and consumers register under their ids and get the commands that name them; when
the connection ends they are told, once, and requests without an answer fail.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from google.protobuf.message import Message as Pb

from magnetar.client.errors import error_of
from magnetar.client.network.direct_writer import DirectWriter
from magnetar.client.option.logger import LOGGER
from magnetar.client.producer.chunks import Part
from magnetar.client.telemetry.totals import ConnectionCounts
from magnetar.errors import ConnectError, MagnetarError, RemoteProtocolError, Timeout
from magnetar.protocol import (
    MESSAGE_SIZE_MAX,
    PROTOCOL_VERSION,
    Command,
    CommandAckResponse,
    CommandMessage,
    CommandSendReceipt,
    Connection,
    UnknownCommand,
    encode,
    signed,
)
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["ClientConnection", "ConsumerHandler", "ProducerHandler", "problem_of"]

KEEP_ALIVE_SECONDS = 30.0
# What a peer has for reading our last words.
HANG_UP_SECONDS = 2.0
# Beyond this a peer that does not read makes writers wait.
WRITE_BUFFER_BYTES = 4 << 20

T = TypeVar("T", bound=Pb)


class ProducerHandler(Protocol):
    """What a producer wants to hear."""

    def on_receipt(self, receipt: CommandSendReceipt) -> None: ...
    def on_send_error(self, error: pb.CommandSendError) -> None: ...
    def on_ready(self, success: pb.CommandProducerSuccess) -> None: ...
    def on_closed(self, connection: "ClientConnection") -> None: ...
    def on_writable(self) -> None: ...


class ConsumerHandler(Protocol):
    """What a consumer wants to hear."""

    def on_message(self, command: CommandMessage) -> None: ...
    def on_ack_response(self, response: CommandAckResponse) -> None: ...
    def on_active_change(self, active: bool) -> None: ...
    def on_end_of_topic(self) -> None: ...
    def on_withdraw(self, command: pb.CommandWithdraw) -> None: ...
    def on_closed(self, connection: "ClientConnection") -> None: ...


class ClientConnection(asyncio.Protocol):
    """See the module; made by `open`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: str,
        timeout_s: float,
        keep_alive_s: float = KEEP_ALIVE_SECONDS,
        counts: ConnectionCounts | None = None,
        log: logging.Logger = LOGGER,
        sockets: "set[ClientConnection] | None" = None,
    ) -> None:
        self._loop = loop
        self.address = address
        self._timeout_s = timeout_s
        self._keep_alive_s = keep_alive_s
        self._counts = counts or ConnectionCounts()
        self._log = log
        self._sockets = set() if sockets is None else sockets
        self._incoming = Connection()
        self._transport: asyncio.Transport | None = None
        self._requests: dict[int, asyncio.Future[Pb]] = {}
        self._abandoned: dict[int, Pb] = {}
        self._producers: dict[int, ProducerHandler] = {}
        self._consumers: dict[int, ConsumerHandler] = {}
        self._connected: asyncio.Future[pb.CommandConnected] = loop.create_future()
        self._gone: asyncio.Future[None] = loop.create_future()
        self._heard = True
        self._keep_alive: asyncio.TimerHandle | None = None
        self.max_message_size: int = MESSAGE_SIZE_MAX
        self.protocol_version: int = 0
        self.server_version: str = ""
        self.closed: bool = False
        # Whether it ended though nobody here wanted it to.
        self.lost: bool = False
        self.writable: bool = True
        self._auth_data: Callable[[], bytes] = bytes
        # Whether that waits for another machine, and who waits for it.
        self._auth_waits = False
        self._proving: asyncio.Task[None] | None = None
        self._client_version = ""
        # For other threads than the loop's, if there are any.
        self._threaded = False
        self._extended = True
        self._direct: DirectWriter | None = None

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        timeout_s: float,
        connect_timeout_s: float,
        tls: ssl.SSLContext | None = None,
        auth_method: str = "",
        auth_data: Callable[[], bytes] | None = None,
        auth_waits: bool = False,
        client_version: str,
        keep_alive_s: float = KEEP_ALIVE_SECONDS,
        proxy_to: str = "",
        counts: ConnectionCounts | None = None,
        threaded: bool = False,
        log: logging.Logger = LOGGER,
        sockets: "set[ClientConnection] | None" = None,
        extended: bool = True,
    ) -> "ClientConnection":
        """Connects and shakes hands. Raises ConnectError, AuthenticationError.

        If it is not `extended`, the broker is told nothing of commands that are Magnetar's own.

        If it is `threaded`, other threads than the loop's may write too. It is in `sockets` while
        its socket is open, which is longer than it is of use.
        """
        loop = asyncio.get_running_loop()
        connection = cls(loop, f"{host}:{port}", timeout_s, keep_alive_s, counts, log, sockets)
        connection._auth_data = auth_data or bytes
        connection._auth_waits = auth_waits
        connection._client_version = client_version
        connection._threaded = threaded
        connection._extended = extended
        try:
            async with asyncio.timeout(connect_timeout_s):
                await loop.create_connection(
                    lambda: connection,
                    host,
                    port,
                    ssl=tls,
                    server_hostname=host if tls is not None else None,
                )
                data = await connection._ask_auth_data() if auth_method else b""
                command = connection._introduction(auth_method, data, proxy_to)
                connection.write([encode(command)])
                hello = await connection._connected
        except TimeoutError:
            connection._give_up()
            raise ConnectError(
                f"no connection to {host}:{port} within {connect_timeout_s:g} s: is it a broker?"
            ) from None
        except OSError as error:
            connection._give_up()
            raise problem_of(error, f"{host}:{port}", tls is not None) from error
        except MagnetarError:
            connection._give_up()
            raise
        except BaseException:
            connection.close()
            connection._abort()
            raise
        connection._begin(hello)
        return connection

    async def _ask_auth_data(self) -> bytes:
        if self._auth_waits:
            return await asyncio.to_thread(self._auth_data)
        return self._auth_data()

    def _introduction(self, auth_method: str, data: bytes, proxy_to: str) -> pb.CommandConnect:
        command = pb.CommandConnect(
            client_version=self._client_version,
            protocol_version=PROTOCOL_VERSION,
            feature_flags=pb.FeatureFlags(
                supports_auth_refresh=True,
                supports_broker_entry_metadata=True,
                supports_partial_producer=True,
                supports_get_partitioned_metadata_without_auto_creation=True,
                supports_magnetar=self._extended,
            ),
        )
        if auth_method:
            command.auth_method_name = auth_method
            command.auth_data = data
        if proxy_to:
            command.proxy_to_broker_url = proxy_to
        return command

    def _give_up(self) -> None:
        """There was no handshake, so there is nothing to finish either."""
        if self._transport is None:
            self._counts.failed_connect += 1
        else:
            self._counts.failed_handshake += 1
        self.close()
        self._abort()

    def _begin(self, hello: pb.CommandConnected) -> None:
        self.protocol_version = hello.protocol_version
        self.server_version = hello.server_version
        if hello.HasField("max_message_size"):
            self.max_message_size = hello.max_message_size
            self._incoming.message_size_max = hello.max_message_size
        self._keep_alive = self._loop.call_later(self._keep_alive_s, self._check_alive)

    def _check_alive(self) -> None:
        if not self._heard:
            self.fail("the broker did not answer a PING")
            self._abort()
            return
        self._heard = False
        self.write([encode(pb.CommandPing())])
        self._keep_alive = self._loop.call_later(self._keep_alive_s, self._check_alive)

    # ---- Sending -------------------------------------------------------------

    def write(self, frames: Sequence[Part]) -> None:
        """Writes frames; on a closed connection they are lost, and their senders know.

        A transport is lost a while before it says so, and complains about writes meanwhile.
        """
        if self._transport is None or self.closed or self._transport.is_closing():
            return
        if self._direct is None:
            self._transport.writelines(frames)
        else:
            self._direct.write_on_loop(frames)

    def write_here(self, frames: Sequence[Part]) -> bool:
        """Writes from another thread than the loop's; False if that cannot be done now.

        If `has_rest` is true afterwards, the loop is to `write` nothing more, or anything.
        """
        return self._direct is not None and not self.closed and self._direct.write(frames)

    @property
    def has_rest(self) -> bool:
        return self._direct is not None and self._direct.has_rest

    def send(self, commands: list[Command]) -> None:
        self.write([encode(command) for command in commands])

    async def request(self, command: Pb, answer: type[T]) -> T:
        """Sends a command that has a request id and returns what answers it.

        Raises what the broker answers if that is an error; Timeout, ConnectError.
        """
        request_id: int = command.request_id  # type: ignore[attr-defined]
        if self.closed:
            raise ConnectError(f"the connection to {self.address} is closed")
        future: asyncio.Future[Pb] = self._loop.create_future()
        self._requests[request_id] = future
        self.write([encode(command)])
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await future
        except TimeoutError:
            raise Timeout(
                f"no answer to {command.DESCRIPTOR.name} within {self._timeout_s:g} s"
            ) from None
        finally:
            self._requests.pop(request_id, None)
        assert isinstance(found, answer), found
        return found

    async def subscribe(
        self,
        command: pb.CommandSubscribe,
        handler: ConsumerHandler,
        undo: Callable[[], pb.CommandCloseConsumer],
    ) -> str:
        """Has the broker make a consumer, of which the handler hears.

        Returns which life of the subscription it joined, or nothing if the broker does not say.

        If it gives no answer it may make it nonetheless; `undo` says how that is undone.
        """
        self._consumers[command.consumer_id] = handler
        try:
            return (await self.request(command, pb.CommandSuccess)).subscription_life
        except BaseException as error:
            self.remove_consumer(command.consumer_id)
            if isinstance(error, asyncio.CancelledError):
                self.abandon(command.request_id, undo())
            elif isinstance(error, Timeout):
                self.send([undo()])  # the next attempt has the same id
            raise

    def abandon(self, request_id: int, undo: Pb) -> None:
        """Nobody waits for a request any more: undoes what it asks for.

        Once now, and once more if the answer comes later, for then a broker did it after it
        had undone it; Apache's does, where the topic is not loaded yet.
        """
        self.write([encode(undo)])
        self._abandoned[request_id] = undo

    # ---- Handlers ------------------------------------------------------------

    def add_producer(self, id: int, handler: ProducerHandler) -> None:
        self._producers[id] = handler

    def remove_producer(self, id: int) -> None:
        self._producers.pop(id, None)

    def remove_consumer(self, id: int) -> None:
        self._consumers.pop(id, None)

    # ---- The socket's side ---------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        assert self._transport is not None
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        if self._threaded:
            self._direct = DirectWriter(self._transport)
        self._sockets.add(self)
        self._counts.opened += 1

    def data_received(self, data: bytes) -> None:
        self._heard = True
        self._incoming.receive_data(data)
        try:
            while (command := self._incoming.next_command()) is not None:
                self._take(command)
        except RemoteProtocolError as error:
            self._take_invalid(error)

    def _take_invalid(self, error: RemoteProtocolError) -> None:
        if self._connected.done():
            self.fail(f"the broker sent something invalid: {error}")
        else:
            self._end(_no_broker(self.address, str(error)))
        self._abort()

    def eof_received(self) -> None:
        """The broker hung up. It need not read what is left to write, so nothing waits for that."""
        self._lose("the broker hung up")
        self._abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._lose(str(error or "the broker hung up"))
        self._sockets.discard(self)
        self._counts.closed += 1
        if not self._gone.done():
            self._gone.set_result(None)

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        for producer in list(self._producers.values()):
            producer.on_writable()

    # ---- Commands ------------------------------------------------------------

    def _take(self, command: Command | UnknownCommand) -> None:
        if isinstance(command, CommandMessage):
            consumer = self._consumers.get(command.consumer_id)
            if consumer is not None:
                consumer.on_message(command)
        elif isinstance(command, CommandSendReceipt):
            producer = self._producers.get(command.producer_id)
            if producer is not None:
                producer.on_receipt(command)
        elif isinstance(command, CommandAckResponse):
            consumer = self._consumers.get(command.consumer_id)
            if consumer is not None:
                consumer.on_ack_response(command)
        elif isinstance(command, Pb):
            self._take_cold(command)

    def _take_cold(self, command: Pb) -> None:
        if isinstance(command, pb.CommandPing):
            self.write([encode(pb.CommandPong())])
        elif isinstance(command, pb.CommandConnected):
            if not self._connected.done():
                self._connected.set_result(command)
        elif isinstance(command, pb.CommandError):
            self._refused(command.request_id, error_of(command.error, command.message))
        elif isinstance(command, pb.CommandSendError):
            producer = self._producers.get(signed(command.producer_id))
            if producer is not None:
                producer.on_send_error(command)
        elif isinstance(command, pb.CommandCloseProducer):
            self._close_producer(signed(command.producer_id))
        elif isinstance(command, pb.CommandCloseConsumer):
            self._close_consumer(signed(command.consumer_id))
        elif isinstance(command, pb.CommandActiveConsumerChange):
            consumer = self._consumers.get(signed(command.consumer_id))
            if consumer is not None:
                consumer.on_active_change(command.is_active)
        elif isinstance(command, pb.CommandReachedEndOfTopic):
            consumer = self._consumers.get(signed(command.consumer_id))
            if consumer is not None:
                consumer.on_end_of_topic()
        elif isinstance(command, pb.CommandWithdraw):
            consumer = self._consumers.get(signed(command.consumer_id))
            if consumer is not None:
                consumer.on_withdraw(command)
        elif isinstance(command, pb.CommandAuthChallenge):
            self._on_challenge(command)
        else:
            self._answered(command)

    def _answered(self, command: Pb) -> None:
        request_id: int | None = getattr(command, "request_id", None)
        if request_id in self._abandoned:
            self.write([encode(self._abandoned.pop(request_id))])
            return
        future = None if request_id is None else self._requests.get(request_id)
        if future is None or future.done():
            # The second of two may come before anyone has looked at the first.
            if isinstance(command, pb.CommandProducerSuccess):
                self._ready_later(command)
            return
        error = _error_in(command)
        if error is None:
            future.set_result(command)
        else:
            future.set_exception(error)

    def _ready_later(self, command: pb.CommandProducerSuccess) -> None:
        """A producer that waited for its topic has it now; it knows its request."""
        for producer in list(self._producers.values()):
            producer.on_ready(command)

    def _refused(self, request_id: int, error: MagnetarError) -> None:
        if not self._connected.done():
            self._connected.set_exception(error)
            return
        self._abandoned.pop(request_id, None)
        future = self._requests.get(request_id)
        if future is not None and not future.done():
            future.set_exception(error)

    def _close_producer(self, id: int) -> None:
        producer = self._producers.pop(id, None)
        if producer is not None:
            producer.on_closed(self)

    def _close_consumer(self, id: int) -> None:
        consumer = self._consumers.pop(id, None)
        if consumer is not None:
            consumer.on_closed(self)

    def _on_challenge(self, command: pb.CommandAuthChallenge) -> None:
        if self._auth_waits:
            self._proving = self._loop.create_task(self._answer_later(command))
            return
        try:
            data = self._auth_data()
        except MagnetarError as error:
            self.fail(f"the broker asked again who we are: {error}")
        else:
            self._answer_challenge(command, data)

    async def _answer_later(self, command: pb.CommandAuthChallenge) -> None:
        try:
            data = await asyncio.to_thread(self._auth_data)
        except MagnetarError as error:
            self.fail(f"the broker asked again who we are: {error}")
        else:
            self._answer_challenge(command, data)

    def _answer_challenge(self, command: pb.CommandAuthChallenge, data: bytes) -> None:
        answer = pb.CommandAuthResponse(
            client_version=self._client_version,
            protocol_version=PROTOCOL_VERSION,
            response=pb.AuthData(
                auth_method_name=command.challenge.auth_method_name, auth_data=data
            ),
        )
        self.write([encode(answer)])

    # ---- The end -------------------------------------------------------------

    def fail(self, reason: str) -> None:
        """Ends the connection, and says why."""
        if not self.closed:
            self._log.warning("closing the connection to %s: %s", self.address, reason)
            self.lost = True
            self._end(ConnectError(reason))

    def _lose(self, why: str) -> None:
        """The broker, or what lies between, ended the connection."""
        reason = f"the connection to {self.address} was lost: {why}"
        if not self.closed and self._keep_alive is not None:
            self._log.warning("%s; connecting again", reason)
            self.lost = True
        self._end(ConnectError(reason))

    def close(self) -> None:
        self._end(ConnectError(f"the connection to {self.address} is closed"))

    @property
    def is_magnetar(self) -> bool:
        """Whether the broker is one of ours, by its own account."""
        return self.server_version.startswith("Magnetar")

    async def wait_closed(self) -> None:
        """Returns when the socket is closed, which a peer that does not read cannot put off."""
        if self._transport is None:
            return
        try:
            async with asyncio.timeout(HANG_UP_SECONDS):
                await asyncio.shield(self._gone)
        except TimeoutError:
            self._transport.abort()
            await self._gone

    def _abort(self) -> None:
        """Lets go of the socket: nobody will read what is left to write."""
        if self._transport is not None:
            self._transport.abort()

    def _end(self, error: ConnectError) -> None:
        if self.closed:
            return
        self.closed = True
        if self._direct is not None:
            self._direct.close()
        if self._keep_alive is not None:
            self._keep_alive.cancel()
        if self._transport is not None:
            self._transport.close()
        if not self._connected.done():
            self._connected.set_exception(error)
            self._connected.exception()  # nobody need ask
        for future in self._requests.values():
            if not future.done():
                future.set_exception(ConnectError(str(error)))
        self._requests.clear()
        self._abandoned.clear()
        producers, consumers = list(self._producers.values()), list(self._consumers.values())
        self._producers.clear()
        self._consumers.clear()
        for producer in producers:
            producer.on_closed(self)
        for consumer in consumers:
            consumer.on_closed(self)


# What DNS says of a name that does not exist; of other trouble it may know better later.
_NO_SUCH_HOST = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


def problem_of(error: OSError, address: str, tls: bool) -> ConnectError:
    """Returns why a connection could not be made, with what to do about it."""
    text, permanent = f"cannot connect to {address}: {str(error) or 'it hung up'}", True
    if isinstance(error, ssl.SSLCertVerificationError):
        text += (
            "; give the certificate of its CA by tls_trust_certs_file_path, and use the name that "
            "the certificate is for"
        )
    elif tls and isinstance(error, ssl.SSLError | ConnectionResetError):
        text += f"; if it speaks no TLS, the service URL is pulsar://{address}"
    elif isinstance(error, socket.gaierror) and error.errno in _NO_SUCH_HOST:
        text += "; is the name of the host right?"
    else:
        permanent = False
    refused = isinstance(error, ConnectionRefusedError)
    if refused:
        text += "; is the broker started?"
    problem = ConnectError(text)
    problem.permanent, problem.refused = permanent, refused
    return problem


def _no_broker(address: str, detail: str) -> ConnectError:
    problem = ConnectError(
        f"{address} is no broker, or wants TLS (pulsar+ssl://): what it answered is not Pulsar's "
        f"protocol ({detail}). Admin REST has a port of its own, and so has TLS"
    )
    problem.permanent = True
    return problem


def _error_in(command: Pb) -> MagnetarError | None:
    """The error that an answer of some kinds carries inside."""
    if isinstance(command, pb.CommandLookupTopicResponse):
        failed = command.response == 2
        return error_of(command.error, command.message) if failed else None
    if isinstance(command, pb.CommandPartitionedTopicMetadataResponse):
        failed = command.response == 1
        return error_of(command.error, command.message) if failed else None
    if isinstance(
        command,
        pb.CommandGetSchemaResponse
        | pb.CommandGetOrCreateSchemaResponse
        | pb.CommandConsumerStatsResponse,
    ):
        failed = command.HasField("error_code")
        return error_of(command.error_code, command.error_message) if failed else None
    if isinstance(
        command,
        pb.CommandTcClientConnectResponse
        | pb.CommandNewTxnResponse
        | pb.CommandAddPartitionToTxnResponse
        | pb.CommandAddSubscriptionToTxnResponse
        | pb.CommandEndTxnResponse,
    ):
        failed = command.HasField("error")
        return error_of(command.error, command.message) if failed else None
    return None
