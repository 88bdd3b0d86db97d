"""The engine: everything of one client that lives on its loop."""

import asyncio
import base64
import logging
import random
import ssl
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import metadata
from typing import TypeVar

from magnetar.client.authentication import Authentication
from magnetar.client.backoff import Backoff
from magnetar.client.connection import ClientConnection
from magnetar.client.engine.consumer import EngineConsumer
from magnetar.client.engine.lookup import Lookup, Requests
from magnetar.client.engine.pool import ConnectionPool
from magnetar.client.engine.producer import EngineProducer
from magnetar.client.engine.reconnect import RETRIABLE
from magnetar.client.options import ClientOptions
from magnetar.client.schema_info import SchemaInfo
from magnetar.client.service_url import parse_service_url
from magnetar.errors import AlreadyClosed, ConnectError, MagnetarError, SettingsError

__all__ = ["Engine"]

log: logging.Logger = logging.getLogger("magnetar.client")

T = TypeVar("T")


class Engine:
    """See the module. Both doors are thin around it."""

    def __init__(
        self,
        service_url: str,
        options: ClientOptions,
        *,
        clock_ms: Callable[[], int] | None = None,
        rng: random.Random | None = None,
        lock: "AbstractContextManager[object] | None" = None,
    ) -> None:
        self._url = parse_service_url(service_url)
        self.options = options
        self.timeout_s: float = float(options.operation_timeout_seconds)
        self.now_ms: Callable[[], int] = clock_ms or _system_clock_ms
        self._random = rng or random.Random()
        self.random: Callable[[], float] = self._random.random
        # Held by whoever works on a core: the loop, and with the blocking door its callers.
        self.lock: AbstractContextManager[object] = lock or nullcontext()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        # What other threads want done on the loop, in order.
        self._posted: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._awake = False
        self._requests = Requests()
        self._producer_ids = 0
        self._consumer_ids = 0
        auth = options.authentication
        if auth is not None and not isinstance(auth, Authentication):
            raise SettingsError("authentication", f"expected an Authentication, not {auth!r:.40}")
        # Made now, so that files that cannot be read are found now.
        tls = self._make_tls(auth) if self._url.tls else None
        self._pool = ConnectionPool(
            timeout_s=self.timeout_s,
            connect_timeout_s=options.connection_timeout_ms / 1000,
            tls=lambda: tls or self._make_tls(auth),
            auth_method="" if auth is None else auth.method,
            auth_data=None if auth is None else auth.data,
            client_version=f"Magnetar-{metadata.version('magnetar')}",
            keep_alive_s=float(options.keep_alive_interval_seconds),
        )
        self.lookup: Lookup = Lookup(
            self._pool,
            self._url,
            self._requests,
            listener_name=options.listener_name or "",
            timeout_s=self.timeout_s,
            tls=tls,
            headers=lambda: _http_headers(auth),
        )
        self._open: dict[EngineProducer | EngineConsumer, None] = {}
        self._closing: asyncio.Task[None] | None = None
        self.closed: bool = False

    def _make_tls(self, auth: Authentication | None) -> ssl.SSLContext:
        options = self.options
        trusted = options.tls_trust_certs_file_path
        try:
            context = ssl.create_default_context(cafile=trusted)
        except OSError as error:
            raise SettingsError("tls_trust_certs_file_path", f"{trusted}: {error}") from error
        if options.tls_allow_insecure_connection:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif not options.tls_validate_hostname:
            context.check_hostname = False
        certificate, key = options.tls_certificate_file_path, options.tls_private_key_file_path
        if auth is not None and auth.certificate_path is not None:
            certificate, key = auth.certificate_path, auth.private_key_path
        if certificate is not None:
            try:
                context.load_cert_chain(certificate, key)
            except OSError as error:
                raise SettingsError(
                    "tls_certificate_file_path", f"{certificate} with {key}: {error}"
                ) from error
        return context

    # ---- Threads -------------------------------------------------------------

    def bind(self) -> None:
        """This is the loop, and this its thread."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def on_loop(self, call: Callable[..., object], *arguments: object) -> None:
        """Calls now if this is the loop's thread, else soon on it.

        Calls are made in the order in which they were asked for, so what one thread writes
        under the lock does not overtake what another wrote under it before.
        """
        if self._thread in (0, threading.get_ident()):
            if self._posted:
                self._call_posted()
            call(*arguments)
            return
        self._posted.append((call, arguments))
        if not self._awake and self._loop is not None:
            self._awake = True
            try:
                self._loop.call_soon_threadsafe(self._call_posted)
            except RuntimeError:
                self._posted.clear()  # the loop is closed, and so is everything on it

    def _call_posted(self) -> None:
        # Before the first is taken: who posts from now on wakes us again.
        self._awake = False
        posted = self._posted
        while posted:
            call, arguments = posted.popleft()
            call(*arguments)

    # ---- Small things --------------------------------------------------------

    def next_request_id(self) -> int:
        return self._requests.next()

    def next_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    def next_consumer_id(self) -> int:
        self._consumer_ids += 1
        return self._consumer_ids

    def backoff(self) -> Backoff:
        return Backoff(
            self.random,
            initial_ms=self.options.initial_backoff_ms,
            max_ms=self.options.max_backoff_ms,
        )

    def connection_lost(self, connection: ClientConnection | None) -> ConnectError:
        where = "the broker" if connection is None else connection.address
        return ConnectError(f"not connected to {where} now: try again")

    def log_problem(self, doing: str, error: Exception) -> None:
        log.warning("%s: %s", doing, error)

    async def retrying(self, request: Callable[[], Awaitable[T]]) -> T:
        """Asks again while that may help, for as long as an operation may take."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout_s
        backoff = self.backoff()
        while True:
            try:
                return await request()
            except RETRIABLE:
                if self.closed or loop.time() > deadline:
                    raise
            await asyncio.sleep(backoff.next_ms() / 1000)

    async def partitions(self, topic: str) -> int:
        """How many partitions a topic has, 0 if it has none."""
        self._check_open()
        return await self.retrying(lambda: self.lookup.partitions(topic))

    # ---- Producers and consumers ---------------------------------------------

    async def schema_info(self, topic: str, version: bytes) -> SchemaInfo:
        """A topic's schema of a version, or its latest."""
        self._check_open()
        return await self.retrying(lambda: self.lookup.schema(topic, version))

    async def open(self, what: "EngineProducer | EngineConsumer") -> None:
        """Starts a producer or consumer, which is closed with the client."""
        self._check_open()
        self.bind()
        self._open[what] = None
        try:
            await what.start()
            self._check_open()
        except BaseException as error:
            await what.close()
            if self.closed and isinstance(error, MagnetarError):
                raise AlreadyClosed("the client was closed meanwhile") from error
            raise

    def _check_open(self) -> None:
        if self.closed:
            raise AlreadyClosed("the client is closed: make another")

    def forget(self, what: "EngineProducer | EngineConsumer") -> None:
        self._open.pop(what, None)

    async def close(self) -> None:
        """Closes everything that was opened. Who stops waiting does not stop it."""
        self.closed = True
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        results = await asyncio.gather(
            *(what.close() for what in list(self._open)), return_exceptions=True
        )
        await self._pool.close()
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, MagnetarError):
                raise result

    async def shutdown(self) -> None:
        """Drops all connections at once, and fails what is on its way."""
        self.closed = True
        self._pool.drop()
        await self.close()


def _http_headers(auth: Authentication | None) -> dict[str, str]:
    """How lookups over HTTP say who asks."""
    if auth is None or auth.method not in ("token", "basic"):
        return {}
    if auth.method == "token":
        return {"Authorization": f"Bearer {auth.data().decode()}"}
    return {"Authorization": f"Basic {base64.b64encode(auth.data()).decode()}"}


def _system_clock_ms() -> int:
    return time.time_ns() // 1_000_000
