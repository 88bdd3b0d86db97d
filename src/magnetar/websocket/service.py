"""The WebSocket service on the HTTP ports: each WebSocket is a client of this very broker.

As in Apache Pulsar it speaks for its peer with the peer's own credentials, over a connection like
any other: so roles, limits, policies and metrics are those of clients, and nothing here decides
about them. Credentials come in the head (`Authorization`), or as `token` in the query, which
browsers need. A client certificate cannot be passed on, and counts for nothing here.

| the broker says       | the peer is told, instead of being let in |
|-----------------------|-------------------------------------------|
| no proof, or a bad one | 401                                       |
| not authorized        | 403                                       |
| not now               | 503                                       |
| no such topic         | 404                                       |
| somebody else has it  | 409                                       |
| anything else         | 400, or 500                               |
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from magnetar.broker.auth.roles import Principal
from magnetar.broker.promise import Promise
from magnetar.client.door import aio
from magnetar.client.option.authentication import (
    Authentication,
    AuthenticationBasic,
    AuthenticationToken,
)
from magnetar.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    ConsumerBusy,
    InvalidConfiguration,
    MagnetarError,
    ProducerBusy,
    SettingsError,
    SubscriptionNotFound,
    TopicNotFound,
    UsageError,
)
from magnetar.model import ServerError
from magnetar.websocket.talk import UnderWay, begin
from magnetar.websocket.target import Target, read_target

if TYPE_CHECKING:
    from magnetar.broker.shell.server import BrokerServer

__all__ = ["WebSocketService"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (AuthenticationError, 401),
    (AuthorizationError, 403),
    (TopicNotFound, 404),
    (SubscriptionNotFound, 404),
    (ProducerBusy, 409),
    (ConsumerBusy, 409),
    (InvalidConfiguration, 400),
    (SettingsError, 400),
    (UsageError, 400),
)
INTERNAL: Final = 500
UNAVAILABLE: Final = 503
BROKER_STATUSES: Final[dict[int, int]] = {
    ServerError.AuthenticationError: 401,
    ServerError.AuthorizationError: 403,
}
# How a WebSocket ends (RFC 6455): all is well, the peer said something wrong, we cannot go on.
NORMAL: Final = 1000
UNSUPPORTED: Final = 1003
FAILED: Final = 1011
REASON_BYTES_MAX: Final = 120
OPERATION_SECONDS: Final = 10

log: logging.Logger = logging.getLogger("magnetar.websocket")


class WebSocketService:
    """See the module. Raises SettingsError as it is made where its library is missing."""

    def __init__(self, server: "BrokerServer") -> None:
        try:
            import wsproto  # noqa: F401
        except ImportError:
            raise SettingsError(
                "websocket", "wsproto is not installed: pip install '.[websocket]' in a clone"
            ) from None
        if server.port is None and server.settings.tls_require_client_certificate:
            raise SettingsError(
                "websocket",
                "every client must show a certificate, and a WebSocket cannot pass one on: open "
                "a plain port for it, or leave tls_require_client_certificate out",
            )
        from magnetar.websocket.connection import connections_of

        self._server = server
        self.connections = connections_of(server)
        self._under_way = UnderWay(server.settings.max_pending_publish_bytes)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serves one WebSocket: an ASGI application."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await receive()  # it wants to connect
            await self._serve(scope, receive, send)
        finally:
            self._tasks.discard(task)

    async def stop(self) -> None:
        """Ends all that are open."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            target = read_target(scope["raw_path"], scope["query_string"])
            if target is None:
                await _refuse(send, 404, f"there is no WebSocket at {scope['path']}")
                return
            await self._require_known(scope, target)
            client = self._client(_authentication(scope, target))
        except MagnetarError as error:
            await _refuse(send, _status_of(error), _reason_of(error))
            return
        async with client:
            try:
                talk = await begin(client, target, self._under_way)
            except MagnetarError as error:
                await _refuse(send, _status_of(error), str(error))
                return
            await send({"type": "websocket.accept"})
            code, reason = NORMAL, ""
            try:
                await talk.run(_hearing(receive), _saying(send))
            except InvalidConfiguration as error:
                code, reason = UNSUPPORTED, str(error)
            except MagnetarError as error:
                code, reason = FAILED, str(error)
            await _close(send, code, reason)

    async def _require_known(self, scope: Message, target: Target) -> None:
        """Raises BrokerError for a stranger, who costs what one costs over HTTP: no connection,
        and if it guesses passwords the turn of its own address.
        """
        broker = self._server.broker
        if broker.authentication is None:
            return
        headers = {name: value.decode("latin-1") for name, value in reversed(scope["headers"])}
        if headers.get(b"x-original-principal"):
            # The proxy's own role would do whatever its client asks for.
            raise BrokerError(
                ServerError.AuthorizationError,
                "a WebSocket cannot speak for somebody behind a proxy: connect to the broker",
            )
        proof = headers.get(b"authorization")
        if proof is None and target.token:
            proof = f"Bearer {target.token}"
        address, port = scope.get("client") or ("?", 0)
        try:
            await _kept(broker.authentication.by_header(proof, "", address, broker.host))
        except BrokerError as error:
            broker.refused_log_ins.warn(
                f"refusing the log-in of {address}:{port} for a WebSocket: {error.reason}"
            )
            raise

    def _client(self, authentication: Authentication | None) -> aio.Client:
        url, listener = self._server.loopback()
        return aio.Client(
            url,
            authentication=authentication,
            operation_timeout_seconds=OPERATION_SECONDS,
            # It is this process: there is nobody in between to be kept away.
            tls_allow_insecure_connection=True,
            listener_name=listener,
            logger=log,
        )


def _authentication(scope: Message, target: Target) -> Authentication | None:
    """What the peer proves itself with; None for nothing. Raises InvalidConfiguration."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            return _by_header(value.decode("latin-1"))
    return AuthenticationToken(target.token) if target.token else None


def _by_header(text: str) -> Authentication:
    scheme, _, data = text.partition(" ")
    if scheme.lower() == "bearer":
        return AuthenticationToken(data.strip())
    if scheme.lower() == "basic":
        try:
            user, colon, password = base64.b64decode(data, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            colon = ""
        if colon:
            return AuthenticationBasic(user, password)
    raise AuthenticationError("Authorization is neither Bearer nor Basic")


async def _kept(promise: Promise[Principal]) -> Principal:
    """Returns what was promised. Raises what it was broken with."""
    future: asyncio.Future[Principal] = asyncio.get_running_loop().create_future()

    def keep(value: Principal) -> None:
        if not future.done():
            future.set_result(value)

    def fail(error: Exception) -> None:
        if not future.done():
            future.set_exception(error)

    promise.then(keep, fail)
    return await future


def _reason_of(error: MagnetarError) -> str:
    return error.reason if isinstance(error, BrokerError) else str(error)


def _status_of(error: Exception) -> int:
    if isinstance(error, BrokerError):
        return BROKER_STATUSES.get(error.code, UNAVAILABLE)
    for kind, status in STATUSES:
        if isinstance(error, kind):
            return status
    return INTERNAL


def _hearing(receive: Receive) -> Callable[[], Awaitable[bytes | None]]:
    async def hear() -> bytes | None:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return None
        text = message.get("text")
        found: bytes = text.encode() if text is not None else message.get("bytes") or b""
        return found

    return hear


def _saying(send: Send) -> Callable[[str], Awaitable[None]]:
    async def say(text: str) -> None:
        await send({"type": "websocket.send", "text": text})

    return say


async def _refuse(send: Send, status: int, reason: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": reason.encode()})


async def _close(send: Send, code: int, reason: str) -> None:
    text = reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
    try:
        await send({"type": "websocket.close", "code": code, "reason": text})
    except Exception as error:  # the peer is gone, and the server says so in its own way
        log.debug("a WebSocket was gone when it was to be closed: %r", error)
