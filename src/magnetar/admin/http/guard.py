"""What is looked at before any handler is: that no web page drives the broker by a browser.

A page of somebody else, opened on the operator's machine, may send requests to loopback and
to every address that the machine reaches. Browsers say where a request comes from, and that
is what is gone by:

| header         | must be                                          | else |
|----------------|--------------------------------------------------|------|
| Host           | once, and nothing but an address or a name that  | 403  |
|                | this broker goes by, and a port                  |      |
| Origin         | absent, or where the request itself goes         | 403  |
| Sec-Fetch-Site | absent, `none` or `same-origin`; any where a     | 403  |
|                | link leads to the console's page, which is at `/` |      |
| Content-Type   | JSON, if there is a body                         | 415  |

A name in Host is what a page would need to be taken for one of ours (a name that leads to
this machine is easily had); an address of its own it cannot fake. What is no host and port to
the letter (`localhost:80@evil.example`) is refused: browsers and proxies may read it as another.
Names that count are
`localhost`, that of the machine, what the broker was told to listen on or to advertise, and
`http_allowed_hosts` of the settings.

Bodies are limited in size and time, each by itself, and together in number of bytes: see
`Bodies`.
"""

import asyncio
import ipaddress
import re
import socket
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from magnetar.admin.http.answer import FORBIDDEN, TIMEOUT, TOO_LARGE, TOO_MANY, UNSUPPORTED, Refusal
from magnetar.admin.http.request import Request
from magnetar.broker.setting.text_limits import BODY, SKIP_BODY, TextLimit

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Bodies", "Guard", "host_names"]

# All of it must have come by then. Ten times the time that 16 MiB take at 40 Mbit/s.
BODY_SECONDS: Final = 30.0
# Of a body that is too large so much is read and thrown away, in that time, so that who sends it
# sees the answer: he looks for it when all is sent.
DRAIN_BYTES_MAX: Final = 256 << 20
# Bodies that are being read, of all requests together.
IN_FLIGHT_BYTES_MAX: Final = 64 << 20
# What one address may send, at once and in a second from then on.
BURST_BYTES: Final = 64 << 20
BYTES_A_SECOND: Final = 16 << 20
ADDRESSES_MAX: Final = 1024

OWN_SITES: Final = ("none", "same-origin")
# What Host may be (RFC 9110), and what people call their machines.
HOST_AND_PORT: Final = re.compile(
    r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[0-9A-Za-z._-]+))(?::[0-9]{1,5})?"
)


def host_names(url: str, told: Iterable[str]) -> frozenset[str]:
    """Returns the names that a broker goes by, in lower case."""
    listens = _host_of(url.partition("://")[2])
    names = ("localhost", socket.gethostname(), listens, *told)
    # What is no host is empty, and must be no name of ours.
    return frozenset(name.lower() for name in names if name)


class Guard:
    """Refuses requests that a web page of another site sends; see the module."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names: Final = names

    def check(self, request: Request) -> None:
        """Raises Refusal unless the request may be looked at."""
        headers = request.headers
        hosts = headers.getlist("host")
        host = hosts[0] if len(hosts) == 1 else ""
        if not self._is_ours(_host_of(host)):
            raise Refusal(
                FORBIDDEN,
                f"this broker is not called {host[:100]!r}: use its address, or name it in "
                "http_allowed_hosts",
            )
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"{request.scheme}://{host.lower()}":
            raise Refusal(FORBIDDEN, "a page of another site may not use this")
        if headers.get("sec-fetch-site", "none") not in OWN_SITES and not _is_visit(request):
            raise Refusal(FORBIDDEN, "a page of another site may not use this")
        self._check_type(request)

    def _is_ours(self, host: str) -> bool:
        if host.lower() in self._names:
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True

    def _check_type(self, request: Request) -> None:
        kind = request.headers.get("content-type")
        if kind is None:
            length = request.headers.get("content-length", "0")
            if length == "0" and "transfer-encoding" not in request.headers:
                return
        elif _is_json(kind):
            return
        raise Refusal(UNSUPPORTED, "the body must be JSON, with Content-Type: application/json")


def _is_visit(request: Request) -> bool:
    """Returns whether a link was followed to the console, which holds no data and is in no
    frame."""
    headers = request.headers
    return (
        request.method == "GET"
        and request.path == "/"
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )


def _host_of(netloc: str) -> str:
    """Returns the host without its port, and an IPv6 address without brackets; empty if it is
    neither.

    >>> _host_of("localhost:8080"), _host_of("[::1]:8080"), _host_of("localhost:80@evil.example")
    ('localhost', '::1', '')
    """
    found = HOST_AND_PORT.fullmatch(netloc)
    return "" if found is None else found["address"] or found["name"]


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


class Bodies:
    """How much may be read at once, and from one address in a while.

    Each address has a bucket of bytes that fills again; of those that were used longest ago
    the buckets are forgotten, which is when they have long been full.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        seconds: float = BODY_SECONDS,
        in_flight_max: int = IN_FLIGHT_BYTES_MAX,
        burst: int = BURST_BYTES,
        rate: int = BYTES_A_SECOND,
    ) -> None:
        self._clock: Final = clock
        self.seconds: Final = seconds
        self._in_flight_max: Final = in_flight_max
        self._burst: Final = burst
        self._rate: Final = rate
        self.in_flight: int = 0
        # By address: bytes left, and when that was so.
        self._buckets: Final[OrderedDict[str, tuple[float, float]]] = OrderedDict()

    async def read(self, request: Request, limit: TextLimit = BODY) -> bytes:
        """Returns the whole body, if it is within the limit. Raises Refusal."""
        declared = request.headers.get("content-length") or ""
        stream = request.stream()
        try:
            async with asyncio.timeout(self.seconds):
                if declared.isdecimal() and int(declared) > limit.bytes_max:
                    raise _too_large(int(declared), limit)
                return await self._gather(request, stream, limit)
        except TimeoutError:
            raise Refusal(
                TIMEOUT, f"the body had not come after {self.seconds:.0f} seconds"
            ) from None
        except Refusal as refusal:
            if refusal.status == TOO_LARGE:
                await self._drain(stream)
            raise

    async def _gather(
        self, request: Request, stream: AsyncIterator[bytes], limit: TextLimit
    ) -> bytes:
        address = request.client.host if request.client is not None else ""
        pieces: list[bytes] = []
        with self._holding(limit) as hold:
            async for piece in stream:
                hold(len(piece))
                self._spend(address, len(piece))
                pieces.append(piece)
            return b"".join(pieces)

    async def _drain(self, stream: AsyncIterator[bytes]) -> None:
        """Reads what is left of a body, and keeps nothing of it."""
        left = DRAIN_BYTES_MAX
        with suppress(TimeoutError):
            async with asyncio.timeout(self.seconds):
                async for piece in stream:
                    left -= len(piece)
                    if left <= 0:
                        return

    @contextmanager
    def _holding(self, limit: TextLimit) -> "Iterator[Callable[[int], None]]":
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            held += size
            self.in_flight += size
            if held > limit.bytes_max:
                raise _too_large(held, limit)
            if self.in_flight > self._in_flight_max:
                raise Refusal(TOO_MANY, "too many bodies are being read: try again in a moment")

        try:
            yield hold
        finally:
            self.in_flight -= held

    def _spend(self, address: str, size: int) -> None:
        now = self._clock()
        left, since = self._buckets.pop(address, (float(self._burst), now))
        left = min(left + (now - since) * self._rate, float(self._burst)) - size
        # No debt: who was refused may try again as soon as anything is there.
        self._buckets[address] = (max(left, 0.0), now)
        if len(self._buckets) > ADDRESSES_MAX:
            self._buckets.popitem(last=False)
        if left < 0:
            raise Refusal(
                TOO_MANY, f"more than {self._rate >> 20} MiB a second come from {address}: wait"
            )


def _too_large(size: int, limit: TextLimit) -> Refusal:
    more = "send it in several requests" if limit is SKIP_BODY else "send less"
    return Refusal(
        TOO_LARGE,
        f"{limit.noun} has {size} bytes or more, and {limit.bytes_max} are allowed: {more}",
    )
