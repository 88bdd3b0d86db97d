"""Admin REST, called from asyncio: `AdminClient`'s twin, over streams and h11.

What is asked and what an answer means is in the plans and in `Site`; here is only how bytes come
and go. A request that is cancelled gives up its connection, for the rest of its answer is of no
use to the next one.
"""

import asyncio
import http.client
import ssl
from typing import Final, TypeVar, Unpack

import h11

from magnetar.errors import MagnetarError
from magnetar.rest.answer import Answer
from magnetar.rest.request import Plan, Request
from magnetar.rest.site import BODY_BYTES_MAX, REDIRECTS_MAX, Origin, Site, SiteOptions, target_of

__all__ = ["AsyncAdminClient"]

T = TypeVar("T")

READ_BYTES: Final = 1 << 16
# Properties of a message come as one header.
HEAD_BYTES_MAX: Final = 1 << 20


class AsyncAdminClient:
    """Speaks to the admin REST at a URL; close it, or use it in an `async with`.

    Tasks of one loop may share one: their requests go one after the other. It may be used again
    after `close`. The options are those of `Site`.
    """

    def __init__(self, url: str, **options: Unpack[SiteOptions]) -> None:
        self._site = Site(url, **options)
        self._lock = asyncio.Lock()
        self._connection: _Connection | None = None

    @property
    def url(self) -> str:
        return self._site.url

    async def __aenter__(self) -> "AsyncAdminClient":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection, once no request is under way."""
        async with self._lock:
            connection = self._connection
            self._drop()
            if connection is not None:
                await connection.gone()

    async def send(self, request: Request) -> Answer:
        """Returns the answer to a request. Raises AdminError, ConnectError, Timeout."""
        url = self._site.url + request.target
        async with self._lock:
            for _ in range(REDIRECTS_MAX):
                answer = await self._exchange(request.method, url, request.data)
                following = self._site.redirect(url, answer)
                if following is None:
                    break
                url = following
        return self._site.checked(answer)

    async def do(self, plan: Plan[T]) -> T:
        """Carries out a plan, and returns what it returns. Raises as `send`, and what it raises."""
        try:
            request = next(plan)
            while True:
                try:
                    answer = await self.send(request)
                except MagnetarError as error:
                    request = plan.throw(error)
                else:
                    request = plan.send(answer)
        except StopIteration as done:
            found: T = done.value
            return found
        finally:
            plan.close()

    # ---- The connection ------------------------------------------------------

    async def _exchange(self, method: str, url: str, data: bytes | None) -> Answer:
        origin = self._site.origin(url)
        has_body = data is not None
        if self._site.waits:
            headers = await asyncio.to_thread(self._site.headers, method, has_body=has_body)
        else:
            headers = self._site.headers(method, has_body=has_body)
        try:
            async with asyncio.timeout(self._site.timeout_s):
                # As in `AdminClient`: only to ask again is harmless.
                if method != "GET":
                    self._drop()
                connection, reused = await self._open(origin)
                try:
                    return await connection.ask(method, target_of(url), data, headers)
                except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                    if not reused:
                        raise
                    self._drop()
                    connection, _ = await self._open(origin)
                    return await connection.ask(method, target_of(url), data, headers)
        except TimeoutError:
            self._drop()
            raise self._site.silent(origin.text) from None
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise self._site.unreachable(error, origin.text) from None
        except BaseException:
            self._drop()
            raise

    async def _open(self, origin: Origin) -> "tuple[_Connection, bool]":
        """Connects to a server; True if that connection has been used before."""
        found = self._connection
        if found is not None and found.origin == origin and found.usable:
            return found, True
        self._drop()
        context = self._site.context() if origin.secure else None
        self._connection = await _Connection.make(origin, context)
        return self._connection, False

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Connection:
    """One connection: h11 decides what bytes mean, streams carry them."""

    def __init__(
        self, origin: Origin, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.origin: Final = origin
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)

    @staticmethod
    async def make(origin: Origin, context: ssl.SSLContext | None) -> "_Connection":
        """Connects. Raises OSError."""
        reader, writer = await asyncio.open_connection(origin.host, origin.port, ssl=context)
        return _Connection(origin, reader, writer)

    @property
    def usable(self) -> bool:
        """Whether another request may go over it."""
        return self._http.our_state is h11.IDLE and not self._writer.is_closing()

    def close(self) -> None:
        self._writer.close()

    async def gone(self) -> None:
        """Waits until the socket is closed."""
        try:
            await self._writer.wait_closed()
        except (OSError, ssl.SSLError):
            return  # the other side was first

    async def ask(
        self, method: str, target: str, data: bytes | None, headers: dict[str, str]
    ) -> Answer:
        """Returns the answer. Raises OSError, HTTPException."""
        host = self.origin.text.partition("://")[2].rpartition("@")[2]
        sent = {"Host": host, **headers}
        if data is not None or method in ("POST", "PUT"):
            sent["Content-Length"] = str(len(data or b""))
        head = h11.Request(method=method, target=target, headers=list(sent.items()))
        out = self._http.send(head) or b""
        if data:
            out += self._http.send(h11.Data(data=data)) or b""
        out += self._http.send(h11.EndOfMessage()) or b""
        self._writer.write(out)
        await self._writer.drain()
        return await self._answer()

    async def _answer(self) -> Answer:
        status = 0
        headers: dict[str, str] = {}
        pieces: list[bytes] = []
        size = 0
        while True:
            event = await self._next(begun=status > 0)
            if isinstance(event, h11.Response):
                status = event.status_code
                headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
            elif isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
                size += len(event.data)
                if size > BODY_BYTES_MAX:
                    raise http.client.HTTPException("the answer is too large")
            elif isinstance(event, h11.EndOfMessage):
                break
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        return Answer(status, headers, b"".join(pieces))

    async def _next(self, *, begun: bool) -> object:
        """Returns the next event of an answer, with as much read for it as it needs."""
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise http.client.BadStatusLine(str(error)) from None
            if event is not h11.NEED_DATA:
                return event
            data = await self._reader.read(READ_BYTES)
            if not data and not begun:
                raise http.client.RemoteDisconnected("no answer")
            self._http.receive_data(data)
