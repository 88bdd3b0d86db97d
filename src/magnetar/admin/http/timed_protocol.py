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
"""

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["TimedProtocol"]


class TimedProtocol(H11Protocol):
    """See the module."""

    head_seconds: ClassVar[float] = 10.0
    unread_seconds: ClassVar[float] = 10.0
    answer_seconds: ClassVar[float] = 60.0

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _answering: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watch()
        self._stop_unread()
        self._stop_answering()
        super().connection_lost(exc)

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
