"""A WebSocket on its socket: frames become texts for the service, and its texts become frames.

What a peer says is parsed in Python, frame by frame, and one read may bring tens of thousands of
them; what it is sent waits in memory until it reads. So (I10):

| the peer                              | the connection                                           |
|---------------------------------------|----------------------------------------------------------|
| is not let in yet                     | reads nothing of it                                      |
| sends many frames                     | handles FRAMES_AT_ONCE in one event, and reads no more   |
|                                       | meanwhile                                                |
| sends a text before the one before    | waits: one text at a time                                |
| is handled                            |                                                          |
| says half of a text, as others do     | counts it with what all peers have half said             |
|                                       | (`max_inbound_bytes`)                                    |
| does not read what it was sent        | handles nothing of it, pings neither, and hangs up if it |
|                                       | has taken nothing for UNREAD_SECONDS                     |

What waits for it counts with what waits for all peers (`max_outbound_bytes`); while that is spent
`room` waits.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any, ClassVar, Final

from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from wsproto import events

from magnetar.broker.peer import Peer, Port

if TYPE_CHECKING:
    from magnetar.broker.shell.server import BrokerServer

__all__ = ["WebSocketConnection", "connections_of"]

# One takes 30 us.
FRAMES_AT_ONCE: Final = 100

log: logging.Logger = logging.getLogger("magnetar.websocket")


class _Speaker(Port):
    """What the budgets of the broker ask of a connection."""

    def __init__(self, connection: "WebSocketConnection") -> None:
        self._connection = connection

    def pause(self) -> None:
        self._connection.hold(held=True)

    def resume(self) -> None:
        self._connection.hold(held=False)

    def unwritten(self) -> int:
        return self._connection.unwritten()


class _Peer(Peer):
    """Who is at the other end, as the budgets know it."""

    def __init__(self, connection: "WebSocketConnection", address: str, doors: "BrokerServer"):
        super().__init__(_Speaker(connection), address, doors.broker.outbound)
        self._connection = connection

    def have_room(self) -> None:
        self._connection.have_room()

    def fail(self, reason: str) -> None:
        log.warning("closing the WebSocket of %s: %s", self.address, reason)
        self._connection.transport.abort()


class WebSocketConnection(WSProtocol):
    """See the module; `doors` is set by whoever serves it."""

    doors: "BrokerServer"
    unread_seconds: ClassVar[float] = 10.0

    _peer: _Peer
    # Others have said too much: nothing is read of this one.
    _held: bool = False
    # Whether there may be frames that were read and not handled.
    _has_frames: bool = False
    _handling: bool = False
    # The service has a text, and has not asked for the next one.
    _busy: bool = False
    _reads: bool = True
    _unread: asyncio.TimerHandle | None = None
    _ending: asyncio.TimerHandle | None = None
    _room: "asyncio.Future[None] | None" = None

    # ---- The socket ------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        host, port = self.client or ("?", 0)
        self._peer = _Peer(self, f"{host}:{port}", self.doors)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_unread()
        if self._ending is not None:
            self._ending.cancel()
        self.doors.broker.inbound.forget(self._peer)
        self.doors.broker.outbound.forget(self._peer)
        self.have_room()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._have_written()
        self._stop_unread()
        self._unread = self.loop.call_later(self.unread_seconds, self._check_unread)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._have_written()
        self._stop_unread()
        self._let_on()

    def unwritten(self) -> int:
        return self.transport.get_write_buffer_size()

    def _have_written(self) -> int:
        before = self._peer.unwritten
        self._peer.have_written(0 if self.disconnected else self.unwritten())
        return int(before)

    def _check_unread(self) -> None:
        self._unread = None
        if self._have_written() <= self._peer.unwritten:
            self._peer.fail(f"it has not read anything for {self.unread_seconds:.0f} seconds")
        else:
            self._unread = self.loop.call_later(self.unread_seconds, self._check_unread)

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        self._steer()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._steer()

    # ---- What the peer says ----------------------------------------------------

    def handle_events(self) -> None:
        """There may be frames."""
        self._has_frames = True
        if not self._handling:
            self._handle_some()

    def hold(self, *, held: bool) -> None:
        self._held = held
        self._steer()

    def _handle_some(self) -> None:
        self._handling = False
        if not self._may_handle():
            self._steer()
            return
        self._has_frames = False
        for number, event in enumerate(self.conn.events(), 1):
            self._handle(event)
            if number == FRAMES_AT_ONCE or not self._may_handle():
                self._has_frames = True
                break
        if self._has_frames and self._may_handle():
            self._handling = True
            self.loop.call_soon(self._handle_some)
        self._steer()

    def _may_handle(self) -> bool:
        if self.close_sent or self.transport.is_closing():
            return True  # all but the end of it is passed over
        if self.conn.state.name == "CONNECTING":
            return not hasattr(self, "scope")  # the service has not been asked
        return self.handshake_complete and self.writable.is_set() and not self._busy

    def _handle(self, event: events.Event) -> None:
        if self.close_sent:
            if isinstance(event, events.CloseConnection):
                self.handle_close(event)
        elif isinstance(event, events.Request):
            self.handle_connect(event)
        elif isinstance(event, events.TextMessage | events.BytesMessage):
            self._handle_text(event)
        elif isinstance(event, events.CloseConnection):
            self.handle_close(event)
        elif isinstance(event, events.Ping):
            self.handle_ping(event)
        elif isinstance(event, events.Pong):
            self.handle_pong(event)

    def _handle_text(self, event: events.TextMessage | events.BytesMessage) -> None:
        self._busy = event.message_finished
        self.handle_message(event)
        # A whole one is the service's, and counts no more.
        self.doors.broker.inbound.holds(self._peer, self.buffer.length)

    def _let_on(self) -> None:
        if self._has_frames and not self._handling:
            self._handling = True
            self.loop.call_soon(self._handle_some)
        self._steer()

    def _steer(self) -> None:
        """Reads, or reads no more. What ends has ended soon, though the peer reads nothing."""
        if self._ending is None and (self.close_sent or self.transport.is_closing()):
            seconds = self.close_timeout + self.unread_seconds
            self._ending = self.loop.call_later(seconds, self.transport.abort)
        wanted = not self._has_frames and not self._held and self._may_handle()
        if wanted == self._reads or self.transport.is_closing():
            return
        self._reads = wanted
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    # ---- The service -----------------------------------------------------------

    async def receive(self) -> Any:
        if self._busy and self.queue.empty():
            self._busy = False
            self._let_on()
        return await self.queue.get()

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.send":
            await self._wait_for_room()
        await super().send(message)
        if not self.disconnected:
            self._have_written()
        self._let_on()

    async def _wait_for_room(self) -> None:
        """Waits while too much waits for all peers together."""
        outbound = self.doors.broker.outbound
        while outbound.spent and not self.disconnected:
            self._room = self.loop.create_future()
            outbound.wait(self._peer)
            await self._room

    def have_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)


def connections_of(doors: "BrokerServer") -> type[asyncio.Protocol]:
    """Returns what uvicorn calls for each WebSocket, and takes for a class."""
    return type("_WebSocketConnection", (WebSocketConnection,), {"doors": doors})
