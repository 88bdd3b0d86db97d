"""Connections that are too many may still ask whether the broker is well.

Those who watch over a broker must have an answer however many others are connected, from the
same address too. So a connection beyond the limits is not turned away before its first bytes:

| it sends                             | it gets                                             |
|--------------------------------------|-----------------------------------------------------|
| GET of one of `PATHS`                | the answer                                          |
| anything else                        | 503, and why                                        |
| nothing for `SPARE_SECONDS`          | 503, and why                                        |
| nothing, while `SPARE_MAX` more come | 503, and why                                        |

In every case it is closed then.
"""

import asyncio
from collections.abc import Callable
from typing import Final

__all__ = ["PATHS", "SPARE_MAX", "SpareConnections"]

PATHS: Final = (
    b"/healthz",
    b"/admin/v2/brokers/live",
    b"/admin/v2/brokers/ready",
    b"/status.html",
)
SPARE_MAX: Final = 16
SPARE_SECONDS: Final = 1.0
# A first line that is longer asks for something else.
LINE_BYTES_MAX: Final = 1024

ANSWER: Final = (
    b"HTTP/1.1 %b\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%b"
)


class SpareConnections:
    """See the module. `unready` says why the broker does not serve; empty if it does."""

    def __init__(self, unready: Callable[[], str]) -> None:
        self._unready = unready
        # In order of arrival: why each is too many, what it sent, and when it is given up.
        self._waiting: dict[asyncio.Transport, tuple[str, asyncio.TimerHandle]] = {}
        self._heads: dict[asyncio.Transport, bytes] = {}

    def take(self, transport: asyncio.Transport, reason: str) -> None:
        """A connection is one too many."""
        if len(self._waiting) >= SPARE_MAX:
            self._turn_away(next(iter(self._waiting)))
        loop = asyncio.get_running_loop()
        timer = loop.call_later(SPARE_SECONDS, self._turn_away, transport)
        self._waiting[transport] = (reason, timer)
        self._heads[transport] = b""

    def hear(self, transport: asyncio.Transport, data: bytes) -> None:
        """Notes that a connection has sent something."""
        if transport not in self._waiting:
            return
        head = self._heads[transport] + data
        self._heads[transport] = head
        line, ended, _ = head.partition(b"\r\n")
        if not ended and len(line) < LINE_BYTES_MAX:
            return
        if not asks_if_well(line):
            self._turn_away(transport)
            return
        reason = self._unready() if b"/ready" in line or b"/status" in line else ""
        if reason:
            self._answer(transport, b"503 Service Unavailable", reason)
        else:
            self._answer(transport, b"200 OK", "ok")

    def lost(self, transport: asyncio.Transport) -> None:
        """Notes that a connection is gone."""
        self._heads.pop(transport, None)
        waiting = self._waiting.pop(transport, None)
        if waiting is not None:
            waiting[1].cancel()

    def _turn_away(self, transport: asyncio.Transport) -> None:
        reason, _ = self._waiting[transport]
        self._answer(transport, b"503 Service Unavailable", reason)

    def _answer(self, transport: asyncio.Transport, status: bytes, text: str) -> None:
        self.lost(transport)
        body = text.encode()
        transport.write(ANSWER % (status, len(body), body))
        transport.close()


def asks_if_well(line: bytes) -> bool:
    """Returns whether the first line of a request asks for one of `PATHS`.

    >>> asks_if_well(b"GET /healthz HTTP/1.1"), asks_if_well(b"GET /metrics HTTP/1.1")
    (True, False)
    """
    method, _, rest = line.partition(b" ")
    return method == b"GET" and rest.partition(b" ")[0].partition(b"?")[0] in PATHS
