"""HTTP on a socket, for peers that take their time: what they begin they must also end.

| the peer                                   | has                                           |
|--------------------------------------------|-----------------------------------------------|
| has connected, or begun the head of a      | `head_seconds` until that head is complete    |
| request                                    |                                               |
| sends a body that a handler reads          | what `Bodies` gives it                        |
| has its answer, and sends on with its body | `head_seconds`                                |
| has its answer, and is silent              | uvicorn's keep-alive time                     |
| does not read its answer                   | `unread_seconds` until it reads some of it    |
| reads its answer slowly                    | `answer_seconds` since it was first held up   |

Else the connection is closed. Without this a few thousand that send a byte a minute would
take all the connections that there are, and those that do not read would keep their answers
in memory.

What comes is parsed in Python, line by line: a header or the size of a chunk takes 40 us, and one
read may bring tens of thousands of them, from a stranger. So a head has `HEAD_LINES_MAX` lines at
most, and so has the trailer of a body in chunks; `LINES_AT_ONCE` are parsed in one event (I10), and
meanwhile nothing more is read. Of many connections a few are parsed in each round of the loop
(`ParseLine`).

What is no HTTP is refused, and the connection ends. Where an answer has begun already there is
nothing left to say, and it ends without a word.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable
from typing import ClassVar, Final

import h11
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HEAD_LINES_MAX", "ParseLine", "TimedProtocol"]

# As many as Apache's server takes; browsers and proxies send some twenty. Of a trailer, which comes
# in several reads, so many may be left over from the one before.
HEAD_LINES_MAX: Final = 100
LINES_AT_ONCE: Final = 200
ROUND_SECONDS: Final = 0.004
SPEECHLESS: Final = (h11.SEND_BODY, h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.ERROR)
# Where a head ends, for those too who leave a carriage return out.
END_OF_HEAD: Final = re.compile(rb"\n\r?\n")


class HeldFlow(FlowControl):
    """Reading goes on when uvicorn wants it to, and not while there is something left to parse."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._held = False
        self._wanted = True

    def pause_reading(self) -> None:
        self._wanted = False
        super().pause_reading()

    def resume_reading(self) -> None:
        self._wanted = True
        if not self._held:
            super().resume_reading()

    def hold(self) -> None:
        self._held = True
        self._transport.pause_reading()

    def leave(self) -> None:
        """Another protocol has the connection, and says what is read."""
        self._held = False

    def let_go(self) -> None:
        if not self._held:
            return
        self._held = False
        if self._wanted and not self._transport.is_closing():
            self.read_paused = False
            self._transport.resume_reading()


class ParseLine:
    """What all connections together have parsed in one round of the loop, and who stands in line.

    A request takes half a millisecond to parse, and begins a handler. Thousands of connections may
    have said something in one round, and sockets are read between rounds only. So they share
    ROUND_SECONDS of each (I10); those that come then are first in the next one.
    """

    # `call_soon` is the loop's.
    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._line: deque[Callable[[], None]] = deque()
        # When this round has had enough; 0 if nothing was parsed in it.
        self._end = 0.0

    @property
    def full(self) -> bool:
        """Whether who has something to parse must wait."""
        if self._line:
            return True
        if self._end == 0.0:
            self._begin()
        return time.monotonic() >= self._end

    def wait(self, parse: Callable[[], None]) -> None:
        """It is called in its turn."""
        if self._end == 0.0:
            self._begin()
        self._line.append(parse)

    def _begin(self) -> None:
        self._end = time.monotonic() + ROUND_SECONDS
        self._call_soon(self._next_round)

    def _next_round(self) -> None:
        self._end = 0.0
        left = len(self._line)
        if left:
            self._begin()  # first, or a parse that fails would be the last of all
        while left > 0 and time.monotonic() < self._end:
            left -= 1
            self._line.popleft()()


class TimedProtocol(H11Protocol):
    """See the module."""

    head_seconds: ClassVar[float] = 10.0
    unread_seconds: ClassVar[float] = 10.0
    answer_seconds: ClassVar[float] = 60.0
    # All connections of a server have the same.
    line: ParseLine

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _answering: asyncio.TimerHandle | None = None

    # What was read and is not parsed yet.
    _rest: bytes = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow: HeldFlow = HeldFlow(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self._rest:
            self._rest += data  # uvicorn reads on behind a request that was refused
            self.flow.hold()
            return
        self._rest = data
        if self.line.full:
            self._parse_later()
        else:
            self._parse()

    def _parse_later(self) -> None:
        self.flow.hold()
        self.line.wait(self._parse)

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest = b""
        self._stop_watch()
        self._stop_unread()
        self._stop_answering()
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Another protocol has the connection."""
        self._rest = b""
        self.flow.leave()
        self._stop_watch()
        self._stop_unread()
        self._stop_answering()

    # ---- Answers -------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_unread()
        self._unread = self.loop.call_later(self.unread_seconds, self.transport.abort)
        if self._answering is None:
            self._answering = self.loop.call_later(self.answer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_unread()

    def on_response_complete(self) -> None:
        self._stop_answering()
        super().on_response_complete()
        waiting = self.transport.get_write_buffer_size()
        if waiting and self._unread is None:
            self._unread = self.loop.call_later(self.unread_seconds, self._check_unread, waiting)

    def _check_unread(self, before: int) -> None:
        """The end of an answer was not taken at once; by now some of it must have been."""
        self._unread = None
        waiting = self.transport.get_write_buffer_size()
        if waiting >= before:
            self.transport.abort()
        elif waiting:
            self._unread = self.loop.call_later(self.unread_seconds, self._check_unread, waiting)

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _stop_answering(self) -> None:
        if self._answering is not None:
            self._answering.cancel()
            self._answering = None

    # ---- Requests ------------------------------------------------------------

    def _parse(self) -> None:
        """Parses some lines, and the others in later events."""
        if self.transport.is_closing():
            self._rest = b""
        if not self._rest:
            return
        end = lines_end(self._rest, LINES_AT_ONCE)
        some, self._rest = self._rest[:end], self._rest[end:]
        if self._rest:
            self._parse_later()
        super().data_received(some)
        self._watch()
        if not self._rest:
            self.flow.let_go()

    def handle_events(self) -> None:
        if self.conn.their_state is h11.IDLE and has_long_head(self.conn.trailing_data[0]):
            self.send_400_response(f"A head of more than {HEAD_LINES_MAX} lines is refused.")
            return
        super().handle_events()
        # All of a body that came was taken, so what is left is one line, or lines of a trailer.
        if self.conn.their_state is h11.SEND_BODY and has_long_head(self.conn.trailing_data[0]):
            self.send_400_response(f"A trailer of more than {HEAD_LINES_MAX} lines is refused.")

    def send_400_response(self, msg: str) -> None:
        """Ends the connection, after an answer if none has begun."""
        self._rest = b""
        if self.cycle is not None:
            # As when the connection is lost, which its handler would hear of only later.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in SPEECHLESS:
            self.transport.close()
        else:
            super().send_400_response(msg)

    def _watch(self) -> None:
        head = self.conn.their_state is h11.IDLE
        rest = self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY
        if not head and not rest:
            self._stop_watch()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.head_seconds, self.transport.close)

    def _stop_watch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def lines_end(data: bytes, count: int) -> int:
    """Where so many lines end, or all of it."""
    at = 0
    for _ in range(count):
        at = data.find(b"\n", at) + 1
        if at == 0:
            return len(data)
    return at


def has_long_head(data: bytes) -> bool:
    """Whether there are too many lines in a head, as far as it has come."""
    end = END_OF_HEAD.search(data)
    return data.count(b"\n", 0, len(data) if end is None else end.start() + 1) > HEAD_LINES_MAX
