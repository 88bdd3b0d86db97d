"""The HTTP server beside the broker: uvicorn on the same loop, without its signal handlers."""

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any, Protocol, cast

import h11
import uvicorn

from magnetar.admin.http.request import Receive, Scope, Send
from magnetar.admin.http.spare import SpareConnections
from magnetar.admin.http.timed_protocol import ParseLine, TimedProtocol
from magnetar.broker.shell.counted_tls import CountedTls
from magnetar.broker.shell.tls import certificate_role

if TYPE_CHECKING:
    from magnetar.broker.shell.server import BrokerServer

__all__ = ["HttpServer"]


# Of a text besides its payload.
WEBSOCKET_REST_BYTES = 64 << 10


class WebSockets(Protocol):
    """Who serves WebSockets: an ASGI application that can be stopped, and `connections` of it."""

    connections: type[asyncio.Protocol]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...
    async def stop(self) -> None: ...


class _Server(uvicorn.Server):
    """Signals are the caller's, who can wait until it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


class _Protocol(TimedProtocol):
    """Tells requests whose certificate the connection was made with; turns away too many."""

    doors: "BrokerServer"
    spare: SpareConnections
    # Whether connections are counted before they come here.
    counted: bool
    _address: str = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        peer = transport.get_extra_info("peername") or ("?", 0)
        reason = "" if self.counted else self.doors.http_limits.admit(str(peer[0]))
        super().connection_made(transport)
        if reason:
            self.doors.tell_refused(f"{peer[0]}:{peer[1]} for HTTP", reason)
            self.spare.take(transport, reason)
            return
        self._address = str(peer[0])
        self.doors.certified.add(transport)
        role = certificate_role(transport.get_extra_info("ssl_object"))
        self.app_state = {**self.app_state, "certificate_role": role}

    def data_received(self, data: bytes) -> None:
        if self._address:
            super().data_received(data)
        else:
            self.spare.hear(self.transport, data)

    def send_400_response(self, msg: str) -> None:
        self.doors.broker.strangers.warn(
            f"closing the connection of {self._address} for HTTP: {msg}"
        )
        super().send_400_response(msg)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Leaves the connection to another protocol, and counts it until that has lost it."""
        super().handle_websocket_upgrade(event)
        self.give_up()
        successor: Any = self.transport.get_protocol()
        lost = successor.connection_lost

        def connection_lost(exc: Exception | None) -> None:
            self._leave()
            lost(exc)

        successor.connection_lost = connection_lost

    def _leave(self) -> None:
        if self._address:
            if not self.counted:
                self.doors.http_limits.leave(self._address)
            self.doors.certified.remove(self.transport)
            self._address = ""

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        self.spare.lost(self.transport)
        super().connection_lost(exc)


class HttpServer:
    """Serves admin REST, over TLS if `tls` says so. `url` is there after `start`."""

    url: str

    def __init__(
        self,
        broker: "BrokerServer",
        host: str,
        port: int,
        *,
        tls: bool = False,
        websockets: WebSockets | None = None,
    ) -> None:
        self._broker = broker
        self._websockets = websockets
        self._host = host
        self._port = port
        self._tls = tls

    async def start(self) -> None:
        """Listens. Raises OSError."""
        from magnetar.admin.http.routes import create_app

        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        # Named, for asyncio switches Nagle's delays off only where it can see that this is TCP.
        self._socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((self._host, self._port))
        except OSError:
            self._socket.close()
            raise
        self._port = self._socket.getsockname()[1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"{'https' if self._tls else 'http'}://{host}:{self._port}"
        known = self.url.replace(host, self._broker.advertised_host or host, 1)
        if self._tls:
            self._broker.http_url_tls = known
        else:
            self._broker.http_url = known
        app = create_app(self._broker, self.url, self._websockets)
        size_max = self._broker.settings.message_size_max * 2 + WEBSOCKET_REST_BYTES
        config = uvicorn.Config(
            app,
            log_config=None,
            # What it warns of is what strangers say: `_Protocol` tells of it once in a while.
            log_level="error",
            access_log=False,
            lifespan="off",
            ws="none" if self._websockets is None else self._websockets.connections,
            # In base64 a payload takes a third more, and it has properties and a key.
            ws_max_size=size_max,
            # Nobody is made to unpack what is a thousand times as large.
            ws_per_message_deflate=False,
            loop="none",
            http=self._protocols(),
            backlog=self._broker.backlog,
        )
        config.load()
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({listening, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            listening.cancel()
            self._socket.close()
            raise OSError(f"the HTTP server ended at its start: {self._task.exception()}")

    def _protocols(self) -> type[asyncio.Protocol]:
        """What uvicorn calls for each connection, and takes for a class."""
        doors = self._broker
        facts = {
            "doors": doors,
            "spare": SpareConnections(self._unready),
            "line": ParseLine(asyncio.get_running_loop().call_soon),
            "counted": self._tls,
        }
        plain = type("_Protocol", (_Protocol,), facts)
        if not self._tls:
            return plain
        assert doors.tls is not None, "TLS needs a certificate"
        context = doors.tls.context

        def over_tls(**options: Any) -> CountedTls:
            return CountedTls(plain(**options), context, doors.http_limits, self._tell_refused)

        return cast("type[asyncio.Protocol]", over_tls)

    def _tell_refused(self, address: str, reason: str) -> None:
        self._broker.tell_refused(f"{address} for HTTP", reason)

    def _unready(self) -> str:
        """Returns why the broker does not serve; empty if it does."""
        return self._broker.store.read_only_reason

    async def stop(self) -> None:
        if self._websockets is not None:
            await self._websockets.stop()
        self._server.should_exit = True
        self._server.force_exit = True
        await self._task
        self._socket.close()
