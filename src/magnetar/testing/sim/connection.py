"""A connection: two ends, and a pipe in each direction.

Bytes go

    write() -> the sender's buffer -> in flight (at most a window full) -> data_received()

and never overtake each other within a pipe. A receiver that does not read lets the window
fill, then the sender's buffer, and the sender is told to pause. An end that is closed
answers data with a reset, as TCP does, and a reset may overtake what is in flight.
"""

import asyncio
import errno
from collections.abc import Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

from magnetar.testing.sim.process import process_of
from magnetar.testing.sim.trace import fingerprint

if TYPE_CHECKING:
    from magnetar.testing.sim.network import SimNetwork, SimServer

__all__ = ["SimConnection", "SimTransport"]

# asyncio's default.
HIGH_WATER: Final = 64 * 1024

# How the stream of a pipe ends.
OPEN: Final = ""
EOF: Final = "eof"
RESET: Final = "reset"


class SimConnection:
    """Two ends and two pipes."""

    def __init__(
        self, network: "SimNetwork", number: int, context: Context, server: "SimServer"
    ) -> None:
        self.number: Final = number
        self.label: Final = f"connection {number}"
        self.listener: Final = server
        self._network: Final = network
        self.client: Final = SimTransport(network, self, context)
        self.server: Final = SimTransport(network, self, server.context.copy())
        request = _Pipe(network, f"{self.label} >", self.client, self.server)
        answer = _Pipe(network, f"{self.label} <", self.server, self.client)
        self.client.outgoing, self.client.incoming = request, answer
        self.server.outgoing, self.server.incoming = answer, request

    def ends(self) -> "tuple[SimTransport, SimTransport]":
        return (self.client, self.server)

    def cut(self) -> None:
        """Breaks the connection: both ends see a reset, each in its time; what was in flight is
        lost."""
        self._network.loop.note(self.label, "cut")
        for end in self.ends():
            end.outgoing.sever()
        for end in self.ends():
            end.reset_later()

    def hold(self) -> None:
        """Holds everything up: nothing arrives any more, and nobody is told."""
        self._network.loop.note(self.label, "held")
        for end in self.ends():
            end.outgoing.is_held = True

    def heal(self) -> None:
        if any(end.is_silent for end in self.ends()):
            return
        self._network.loop.note(self.label, "healed")
        for end in self.ends():
            end.outgoing.is_held = False
            end.outgoing.go_on()

    def end_lost(self, end: "SimTransport") -> None:
        if end is self.server:
            self.listener.forget(self)
        if all(e.is_lost or e.is_silent for e in self.ends()):
            self._network.connections.pop(self.number, None)

    def __repr__(self) -> str:
        return f"<{self.label}>"


class _Pipe:
    """One direction of a connection.

    Arrivals are events of the receiver's process, one at a time; room in the window is an
    event of the sender's.
    """

    def __init__(
        self, network: "SimNetwork", label: str, source: "SimTransport", target: "SimTransport"
    ) -> None:
        conditions = network.conditions
        spread = conditions.window_bytes_max - conditions.window_bytes_min
        self.label: Final = label
        self.source: Final = source
        self.target: Final = target
        self.buffer: Final = bytearray()
        self.flight: Final = bytearray()
        self.ending: str = OPEN
        self.is_held: bool = False
        self.is_severed: bool = False
        self._network: Final = network
        self._window: Final = conditions.window_bytes_min + int(network.random.random() * spread)
        self._latency_ns: Final = network.latency_ns()
        self._is_arriving = False
        self._is_filling = False
        self._ended = False

    # ---- The sender's side ---------------------------------------------------

    def send(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_severed:
            return
        self.buffer.extend(data)
        self._fill()

    def end(self, ending: str, *, lose: bool = False) -> None:
        """The sender will send nothing more; a reset may overtake what is in flight."""
        if self.ending == RESET or self.is_severed:
            return
        self.ending = ending
        if ending == RESET:
            self._ended = False  # also after an end in order
            self.buffer.clear()
        if lose:
            self.flight.clear()
        self.go_on()

    def sever(self) -> None:
        """Everything is lost, and nothing arrives any more."""
        self.is_severed = True
        self.buffer.clear()
        self.flight.clear()

    def end_died(self) -> None:
        """The events of one end went with its process; the kernel takes over."""
        self._is_arriving = False
        self.go_on()

    def go_on(self) -> None:
        """Something may have become possible."""
        self._fill()
        self._expect(self._delay_ns())

    def _fill(self) -> None:
        room = self._window - len(self.flight)
        if room > 0 and self.buffer:
            self.flight.extend(self.buffer[:room])
            del self.buffer[:room]
        if self.flight:
            self._expect(self._delay_ns())

    def _drained(self) -> None:
        """There was room in the window: an event of the sender's loop."""
        self._is_filling = False
        self._fill()
        self.source.buffer_shrank()

    # ---- The receiver's side -------------------------------------------------

    def _expect(self, delay_ns: int) -> None:
        if self._is_arriving or self._ended or not (self.flight or self._is_at_end()):
            return
        self._is_arriving = True
        context = self._network.context if self.target.process.dead else self.target.context
        self._network.loop.call_arrival(delay_ns, self._arrive, context=context)

    def _is_at_end(self) -> bool:
        return self.ending != OPEN and not self.buffer and not self.flight

    def _arrive(self) -> None:
        self._is_arriving = False
        if self.is_held or self.is_severed or self._ended:
            return
        if self.ending == RESET and self._is_at_end() and not self.target.is_lost:
            self._arrive_end()
        elif self.target.is_closing():
            self._bounce()
        elif self.target.is_reading():
            if self.flight:
                self._arrive_data()
            elif self._is_at_end():
                self._arrive_end()

    def _arrive_data(self) -> None:
        size = self._network.piece(len(self.flight))
        data = bytes(self.flight[:size])
        del self.flight[:size]
        loop = self._network.loop
        if loop.trace.written:
            loop.note(self.label, fingerprint(data))
        if not self._is_filling:
            self._is_filling = True
            delay_ns = self._delay_ns()
            loop.call_arrival(delay_ns, self._drained, context=self.source.context)
        self.target.receive(data)
        self._expect(self._delay_ns() // 4)

    def _arrive_end(self) -> None:
        self._ended = True
        self._network.loop.note(self.label, self.ending)
        if self.ending == RESET:
            self.target.reset()
        else:
            self.target.receive_eof()

    def _bounce(self) -> None:
        """The receiver is closed. An end is fine with it; data are answered with a reset."""
        self._ended = True
        if not self.flight:
            return
        self.flight.clear()
        self.buffer.clear()
        lose = self._network.random.random() < 0.5
        self.target.outgoing.end(RESET, lose=lose)
        self.target.cannot_flush()

    def _delay_ns(self) -> int:
        return int(self._latency_ns * (0.5 + self._network.random.random()))


class SimTransport(asyncio.Transport):
    """One end of a connection.

    | state   | write          | close           | bytes arrive    | it becomes              |
    |---------|----------------|-----------------|-----------------|-------------------------|
    | waiting | -              | -               | wait in flight  | open, by `begin`        |
    | open    | sends          | flushes, closes | data_received   | lost, by reset or abort |
    | closing | is ignored     | nothing         | are bounced     | lost, when flushed      |
    | lost    | is ignored     | nothing         | are bounced     |                         |
    """

    outgoing: _Pipe
    incoming: _Pipe

    def __init__(self, network: "SimNetwork", connection: SimConnection, context: Context) -> None:
        super().__init__()
        self.connection: Final = connection
        self.context: Final = context
        self.process: Final = process_of(context, network.loop.main)
        self.sockname: tuple[str, int] = ("", 0)
        self.peername: tuple[str, int] = ("", 0)
        self.is_lost: bool = False
        # Its machine is gone, without a word.
        self.is_silent: bool = False
        self._network: Final = network
        self._protocol: asyncio.BaseProtocol | None = None
        self._is_closing = False
        self._is_paused = False
        self._has_ended = False
        self._high = HIGH_WATER
        self._low = HIGH_WATER // 4
        self._writing_is_paused = False
        self._reset_waits = False
        self._error: Exception | None = None

    # ---- The life of an end --------------------------------------------------

    def begin(self, protocol: asyncio.BaseProtocol, began: "asyncio.Future[None] | None") -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        if began is not None and not began.done():
            began.set_result(None)
        if self.is_lost:  # before anybody knew that it was there
            self._network.loop.call_soon(self._tell_lost, context=self.context)
        self.incoming.go_on()

    def refuse(self) -> None:
        """Nobody accepted it."""
        self._is_closing = True
        self.is_lost = True
        self.outgoing.end(RESET, lose=True)
        self.connection.end_lost(self)

    def reset_later(self) -> None:
        self._network.loop.call_arrival(
            self._network.latency_ns(), self.reset, context=self.context
        )

    def reset(self) -> None:
        """The connection is gone. Who neither reads nor writes does not notice."""
        unnoticed = self._is_paused and not self.outgoing.buffer
        self.outgoing.sever()
        self._reset_waits = unnoticed
        if not unnoticed:
            self._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def cannot_flush(self) -> None:
        """The peer got a reset: what was to be written before the close never will be."""
        self._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def _notice(self) -> None:
        if self._reset_waits:
            self._is_paused = False
            self.reset_later()

    def die(self, *, silent: bool) -> None:
        """The process of this end is dead."""
        if self.is_lost or self.is_silent:
            return
        self._begin_to_close()
        if silent:
            self.is_silent = True
            self.outgoing.sever()
            self.incoming.is_held = True
        else:
            self.is_lost = True
            unread = bool(self.incoming.flight)
            lose = unread and self._network.random.random() < 0.5
            self.outgoing.buffer.clear()
            self.outgoing.end(RESET if unread else EOF, lose=lose)
            self.incoming.end_died()
        self.connection.end_lost(self)

    def _lose(self, error: Exception | None) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self._begin_to_close()
        self._error = error
        if self._protocol is None:
            self.connection.end_lost(self)
        else:
            self._network.loop.call_soon(self._tell_lost, context=self.context)

    def _tell_lost(self) -> None:
        assert self._protocol is not None
        self._protocol.connection_lost(self._error)
        self.connection.end_lost(self)

    # ---- Reading -------------------------------------------------------------

    def is_reading(self) -> bool:
        return self._protocol is not None and not self._is_paused and not self._is_closing

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self.incoming.go_on()
            self._notice()

    def receive(self, data: bytes) -> None:
        if self._network.tap is not None and self is self.connection.server:
            self._network.tap.heard(self.connection, data)
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            while data:
                view = memoryview(protocol.get_buffer(len(data))).cast("B")
                count = min(len(view), len(data))
                view[:count] = data[:count]
                del view
                protocol.buffer_updated(count)
                data = data[count:]
        else:
            assert isinstance(protocol, asyncio.Protocol)
            protocol.data_received(data)

    def receive_eof(self) -> None:
        assert isinstance(self._protocol, (asyncio.Protocol, asyncio.BufferedProtocol))
        if not self._protocol.eof_received():
            self.close()

    # ---- Writing -------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__}")
        if self._has_ended:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._is_closing or not data:
            return
        if self._network.tap is not None and self is self.connection.server:
            self._network.tap.said(self.connection, bytes(data))
        self._notice()
        self.outgoing.send(data)
        if len(self.outgoing.buffer) > self._high and not self._writing_is_paused:
            self._writing_is_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def writelines(self, list_of_data: "Iterable[bytes | bytearray | memoryview]") -> None:
        self.write(b"".join(list_of_data))

    def buffer_shrank(self) -> None:
        if self.is_lost:
            return
        if self._writing_is_paused and len(self.outgoing.buffer) <= self._low:
            self._writing_is_paused = False
            assert self._protocol is not None
            self._protocol.resume_writing()
        if self._is_closing and not self.outgoing.buffer:
            self._flushed()

    def write_eof(self) -> None:
        if self._is_closing or self._has_ended:
            return
        self._has_ended = True
        self.outgoing.end(EOF)

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return len(self.outgoing.buffer)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return (self._low, self._high)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low

    # ---- Ending --------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._is_closing

    def _begin_to_close(self) -> None:
        """Nothing more is taken from whoever has this end, and nothing given to him."""
        if not self._is_closing:
            self._is_closing = True
            if self._network.tap is not None and self is self.connection.server:
                self._network.tap.ended(self.connection)

    def close(self) -> None:
        # Whoever holds it may be collected, and close it, after the run.
        if self._is_closing or self._network.loop.is_closed():
            return
        self._begin_to_close()
        self.incoming.go_on()
        if not self.outgoing.buffer:
            self._flushed()

    def _flushed(self) -> None:
        self.outgoing.end(EOF)
        self._lose(None)

    def abort(self) -> None:
        if self.is_lost or self._network.loop.is_closed():
            return
        self._begin_to_close()
        self.outgoing.end(RESET, lose=self._network.random.random() < 0.5)
        self._lose(None)

    # ---- Facts ---------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self.incoming.go_on()

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return self.peername
        if name == "sockname":
            return self.sockname
        return default

    def __repr__(self) -> str:
        side = "client" if self is self.connection.client else "server"
        return f"<{side} of {self.connection.label}>"
