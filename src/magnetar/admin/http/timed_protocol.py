"""HTTP on a socket, for peers that take their time: what they begin they must also end.

| the peer                                   | has                                           |
|--------------------------------------------|-----------------------------------------------|
| has connected, or begun the head of a      | `head_seconds` until that head is complete    |
| request                                    |                                               |
| sends a body that a handler reads          | what `Bodies` gives it                        |
| has its answer, and sends on with its body | `head_seconds`                                |
| has its answer, and is silent              | uvicorn's keep-alive time                     |

Else the connection is closed. Without this a few thousand that send a byte a minute would
take all the connections that there are.
"""

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["TimedProtocol"]


class TimedProtocol(H11Protocol):
    """See the module."""

    head_seconds: ClassVar[float] = 10.0

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watch()
        super().connection_lost(exc)

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
