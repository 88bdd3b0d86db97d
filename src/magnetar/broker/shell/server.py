"""The shell: sockets, timers and threads around the broker. It decides nothing.

BrokerServer   opens the store, listens, and stops in order
_Link          one connection: bytes to its session, the outbox to its socket
_LoopHost      time, timers and reads, on an event loop
"""

import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Protocol, cast

from magnetar.broker.auth.roles import Authentication
from magnetar.broker.broker import Broker
from magnetar.broker.host import Host, Timer
from magnetar.broker.peer import Port
from magnetar.broker.promise import Promise
from magnetar.broker.session.session import Session
from magnetar.broker.setting.listeners import LOOPBACK, Listener
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.connection_limits import ConnectionLimits
from magnetar.broker.shell.counted_tls import CountedTls
from magnetar.broker.shell.proof_files import ProofFiles
from magnetar.broker.shell.tls import CertifiedConnections, TlsFiles, certificate_role
from magnetar.errors import CatalogLossError, SettingsError, StorageError
from magnetar.model import ServerError
from magnetar.protocol import encode
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage.catalog.catalog import Catalog
from magnetar.storage.catalog.catalog_guard import copy_catalog
from magnetar.storage.disk.descriptors import DescriptorShares
from magnetar.storage.disk.disk import Disk, descriptor_limit
from magnetar.storage.ledger.read_plan import ReadPlan
from magnetar.storage.log.journal import Outcome
from magnetar.storage.log.writer import StoreWriter
from magnetar.storage.store import Store, open_store

__all__ = ["BrokerServer", "Writer", "system_clock_ms", "system_ticks_ms"]

log: logging.Logger = logging.getLogger("magnetar.broker")

# A socket takes about this much before whoever feeds it is told to wait.
WRITE_BUFFER_BYTES = 1 << 20
# What a peer has for reading our last words.
HANG_UP_SECONDS = 2.0
# Of reads that were asked for, so much is in memory at a time: what was read and not looked at,
# and what is being read.
READ_BYTES_MAX = 32 << 20
# What is on its way at a stop has this long.
STOP_SECONDS = 4.0
READ_THREADS = 4
# A session and all that belongs to it, which refer to each other.
SESSION_OBJECTS = 40
# So many sessions are looked at in one round: each may have a PING to write.
SESSIONS_AT_ONCE = 100
# A token or a password that is taken back counts for so long at most.
REVOKED_SECONDS = 1.0
# Refused connections are told of once in so long.
REFUSED_SECONDS = 1.0
# A catalog that changed is copied so often.
CATALOG_COPY_SECONDS = 10.0
WILDCARDS = ("", "0.0.0.0", "::")
# asyncio's `writelines` never pauses its protocol in Python 3.12 before 3.12.9 and in 3.13 before
# 3.13.2 (CVE-2024-12254), so that all would pile up that a peer does not read.
WRITELINES_UNPAUSED: bool = (
    0x030C0000 <= sys.hexversion < 0x030C09F0 or 0x030D0000 <= sys.hexversion < 0x030D02F0
)


def system_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def system_ticks_ms() -> int:
    """Milliseconds that only go on, whatever is done to the clock."""
    return time.monotonic_ns() // 1_000_000


class Writer(Protocol):
    """What runs the jobs of a store: threads, or a simulation."""

    def kick(self) -> None: ...
    def stop(self) -> None: ...


WriterFactory = Callable[
    [Store, Callable[[Callable[[], None]], object], Callable[[Outcome], None]], Writer
]


class BrokerServer:
    """A broker that listens. `start` it, `stop` it; `url` and `broker` are there in between.

    `port` is for plain connections and `tls_port` for TLS; None is none, 0 a free one. Clocks,
    disk and writer can be replaced, which is how the simulation runs all of this.
    """

    broker: Broker
    store: Store
    _catalog: Catalog
    _writer: Writer

    def __init__(
        self,
        disk: Disk,
        catalog: Callable[[], Catalog],
        settings: BrokerSettings | None = None,
        *,
        host: str = "127.0.0.1",
        port: int | None = 0,
        tls_port: int | None = None,
        advertised_host: str = "",
        version: str = "Magnetar",
        clock_ms: Callable[[], int] = system_clock_ms,
        ticks_ms: Callable[[], int] = system_ticks_ms,
        writer: WriterFactory = StoreWriter,
        reads: Executor | None = None,
    ) -> None:
        self.settings = settings or BrokerSettings()
        self._disk = disk
        self._open_catalog = catalog
        self._host = host
        self.port = port
        self.tls_port = tls_port
        # Of REST beside this broker, for those who look topics up.
        self.http_url = ""
        self.http_url_tls = ""
        self.advertised_host = advertised_host
        self._version = version
        self._clock_ms = clock_ms
        self._ticks_ms = ticks_ms
        self._make_writer = writer
        self._reads = reads
        # In order of arrival, for a set would have an order of its own.
        self._links: dict[_Link, None] = {}
        shares = DescriptorShares(descriptor_limit())
        self._backlog: int = shares.backlog
        self._limits = self._limits_within(shares.connections)
        # Of REST beside this broker.
        self.http_limits: ConnectionLimits = ConnectionLimits(shares.http_connections, 0)
        self._refused_at = float("-inf")
        # The generation of the catalog that there is a copy of.
        self._copied = -1
        self._servers: list[asyncio.Server] = []
        # What is done again and again.
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        # There if the settings name a certificate.
        self.tls: TlsFiles | None = None
        self.certified: CertifiedConnections = CertifiedConnections()
        self._proofs: ProofFiles | None = None

    def _limits_within(self, count_max: int) -> ConnectionLimits:
        """What the settings allow, as far as there are descriptors for it."""
        settings = self.settings
        if settings.max_connections:
            count_max = min(count_max, settings.max_connections)
        return ConnectionLimits(count_max, settings.max_connections_per_ip)

    @property
    def backlog(self) -> int:
        """How many connections may wait at a port until they are accepted."""
        return self._backlog

    @property
    def url(self) -> str:
        """Of the plain port if there is one, else of the other."""
        return self.service_url(self._host) or self.service_url_tls(self._host)

    @property
    def url_tls(self) -> str:
        return self.service_url_tls(self._host)

    def service_url(self, host: str) -> str:
        """What clients are told to connect to; one that listens everywhere says where they are."""
        return "" if self.port is None else f"pulsar://{self._public_host(host)}:{self.port}"

    def service_url_tls(self, host: str) -> str:
        """The same for TLS; empty if there is none."""
        if self.tls_port is None:
            return ""
        return f"pulsar+ssl://{self._public_host(host)}:{self.tls_port}"

    def loopback(self) -> tuple[str, str]:
        """Returns where this process reaches its own broker: a URL, and the name of a listener."""
        host = self._loopback_host()
        if self.port is not None:
            return f"pulsar://{host}:{self.port}", LOOPBACK
        return f"pulsar+ssl://{host}:{self.tls_port}", LOOPBACK

    def _loopback_host(self) -> str:
        host = "127.0.0.1" if self._host in ("", "0.0.0.0") else self._host
        host = "::1" if host == "::" else host
        return f"[{host}]" if ":" in host else host

    def _public_host(self, host: str) -> str:
        if self.advertised_host:
            host = self.advertised_host
        elif self._host not in WILDCARDS:
            host = self._host
        return f"[{host}]" if ":" in host else host

    async def start(self) -> None:
        """Opens the store and listens. Raises StorageError, SettingsError, OSError."""
        loop = asyncio.get_running_loop()
        # First, for nothing was touched yet.
        authentication: Authentication | None = None
        if self.settings.authentication:
            self._proofs = ProofFiles(self.settings)
            authentication = self._proofs.authentication()
        if self.settings.tls_certificate_file:
            self.tls = TlsFiles(self.settings)
        if self._reads is None:
            self._reads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="store-read")
        self.store = open_store(
            self._disk, self._clock_ms, self.settings.store_options(), ticks_ms=self._ticks_ms
        )
        for cut in self.store.cuts:
            log.warning("recovery cut the log: %s", cut)
        catalog: Catalog | None = None
        for doubt in self.store.doubts:
            log.warning("the end of the log may be missing: %s", doubt)
        try:
            self.loop_host = _LoopHost(
                loop, self._clock_ms, self._ticks_ms, self._disk, self._reads
            )
            # Not before the directory is ours.
            catalog = self._catalog = self._open_catalog()
            self._require_catalog()
            self.broker = Broker(
                self.loop_host, self.store, self._catalog, self.settings, authentication
            )
            self._writer = self._make_writer(
                self.store, loop.call_soon_threadsafe, self.broker.take_outcome
            )
            self.loop_host.writer = self._writer
            self.broker.start()
            await self._listen(loop)
            url, _ = self.loopback()
            self.broker.listeners.add_loopback(Listener({url.partition("://")[0]: url}))
        except BaseException:
            for server in self._servers:
                server.close()
            self.loop_host.closed = True
            if self.loop_host.writer is not None:
                self.loop_host.writer.stop()
            self.store.close()
            if catalog is not None:
                catalog.close()
            raise
        self._every(self.settings.keep_alive_ms / 1000, self._check_alive)
        self._every(CATALOG_COPY_SECONDS, self._copy_catalog)
        if self.tls is not None:
            self._every(max(1, self.settings.tls_refresh_seconds), self._refresh_tls)
        if self._proofs is not None and self._proofs.may_change:
            self._every(REVOKED_SECONDS, self._look_for_revoked)

    def _require_catalog(self) -> None:
        """Raises CatalogLossError unless the catalog can be the one that the journal knows."""
        known = self.store.catalog_mark
        reason = "" if known is None else self._catalog.mark.follows(known)
        if reason:
            raise CatalogLossError(reason)

    def _copy_catalog(self) -> None:
        """Keeps a copy of a catalog that changed, for the day that it is damaged."""
        file, generation = self._catalog.file, self._catalog.mark.generation
        if file is None or generation == self._copied or self._reads is None:
            return
        self._copied = generation

        def copy(file: Path) -> None:
            try:
                copy_catalog(file)
            except StorageError as error:
                log.warning("no copy of the catalog was made: %s", error)

        try:
            self._reads.submit(copy, file)
        except RuntimeError as error:
            # There is no memory for a thread; it must not end a stop in the middle.
            self._copied = -1
            log.warning("no copy of the catalog was made: %s", error)

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        def make_link() -> _Link:
            return _Link(self, loop)

        def make_link_over_tls() -> CountedTls:
            assert self.tls is not None
            link = _Link(self, loop, counted=True)
            return CountedTls(link, self.tls.context, self._limits, self.tell_refused)

        if self.port is not None:
            server = await loop.create_server(
                make_link, self._host, self.port, backlog=self._backlog
            )
            self._servers.append(server)
            self.port = server.sockets[0].getsockname()[1]
        if self.tls_port is not None:
            if self.tls is None:
                raise SettingsError("tls_certificate_file", "a TLS port needs a certificate")
            server = await loop.create_server(
                make_link_over_tls, self._host, self.tls_port, backlog=self._backlog
            )
            self._servers.append(server)
            self.tls_port = server.sockets[0].getsockname()[1]

    def _every(self, seconds: float, work: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            # First, or work that fails once would never be done again.
            self._timers[work] = loop.call_later(seconds, again)
            work()

        self._timers[work] = loop.call_later(seconds, again)

    def _check_alive(self) -> None:
        self._each_session(lambda session: session.check_alive())

    def _each_session(self, work: Callable[[Session], None]) -> None:
        """Does something with all of them, a few in each round of the loop (I10)."""
        links = iter(list(self._links))
        loop = asyncio.get_running_loop()

        def go_on() -> None:
            some = list(islice(links, SESSIONS_AT_ONCE))
            if some:
                loop.call_soon(go_on)
            for link in some:
                if link in self._links:
                    work(link.session)

        go_on()

    def _refresh_tls(self) -> None:
        assert self.tls is not None
        if self.tls.refresh():
            self.certified.close_revoked(self.tls)

    def _look_for_revoked(self) -> None:
        authentication = self.broker.authentication
        assert self._proofs is not None
        assert authentication is not None
        if self._proofs.refresh(authentication):
            self._each_session(lambda session: session.check_revoked())

    async def stop(self) -> None:
        """Closes connections, waits for what is on its way, and seals the log."""
        for timer in self._timers.values():
            timer.cancel()
        for server in self._servers:
            server.close()
        self.broker.stop()
        await self._wait_for_commits()
        for link in list(self._links):
            link.session.shut()
        await asyncio.sleep(0)
        for link in list(self._links):
            link.abort()
        self.loop_host.closed = True
        self._copy_catalog()
        try:
            self._writer.stop()
        finally:
            self.store.close()
            self._catalog.close()
            if isinstance(self._reads, ThreadPoolExecutor):
                self._reads.shutdown(wait=True)

    async def _wait_for_commits(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + STOP_SECONDS
        while len(self.broker.commits) and loop.time() < deadline:  # noqa: ASYNC110, rare and short
            await asyncio.sleep(0.005)

    # ---- Connections ---------------------------------------------------------

    def admit(self, link: "_Link", ip: str) -> str:
        """Why a connection may not be; empty if it may. Without an address it counts already."""
        reason = self._limits.admit(ip) if ip else ""
        if not reason:
            self._links[link] = None
        self._count()
        return reason

    def forget(self, link: "_Link", ip: str) -> None:
        if link in self._links:
            del self._links[link]
            if ip:
                self._limits.leave(ip)
            self.broker.left_behind += SESSION_OBJECTS
        self._count()

    def _count(self) -> None:
        self.broker.sessions = len(self._links)
        self.broker.refused_connections = self._limits.refused

    def tell_refused(self, address: str, reason: str) -> None:
        """Tells of it in the log, though not of each of thousands."""
        now = asyncio.get_running_loop().time()
        if now - self._refused_at >= REFUSED_SECONDS:
            self._refused_at = now
            refused = self._limits.refused + self.http_limits.refused
            log.warning(
                "refusing the connection of %s: %s (%d refused since the start)",
                address,
                reason,
                refused,
            )

    def make_session(self, link: "_Link", address: str, local_host: str, role: str) -> Session:
        return Session(
            self.broker,
            link,
            address,
            self.service_url(local_host),
            self._version,
            service_url_tls=self.service_url_tls(local_host),
            certificate_role=role,
        )


class _Link(asyncio.Protocol, Port):
    """One connection. Reading stops while the session wants that, or the peer does not read."""

    # Not there if the connection was refused.
    session: Session
    _transport: asyncio.Transport

    def __init__(
        self, server: BrokerServer, loop: asyncio.AbstractEventLoop, *, counted: bool = False
    ) -> None:
        self._server = server
        self._loop = loop
        self._counted = counted
        # Empty if somebody else counts this connection.
        self._ip = ""
        self._awake = False
        self._refused = False

    # The socket's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        transport = self._transport
        # Below what ends the reading of a peer, which begins again when the socket says so.
        limit = self._server.settings.max_outbound_bytes_per_connection
        transport.set_write_buffer_limits(high=min(WRITE_BUFFER_BYTES, limit // 2))
        peer = transport.get_extra_info("peername") or ("?", 0)
        local = transport.get_extra_info("sockname") or ("127.0.0.1", 0)
        self._ip = "" if self._counted else str(peer[0])
        address = f"{peer[0]}:{peer[1]}"
        reason = self._server.admit(self, self._ip)
        if reason:
            self._refuse(address, reason)
            return
        self._server.certified.add(transport)
        role = certificate_role(transport.get_extra_info("ssl_object"))
        self.session = self._server.make_session(self, address, str(local[0]), role)

    def _refuse(self, address: str, reason: str) -> None:
        """Tells a peer that there is no room. It gets no session: there may be many of them."""
        self._refused = True
        self._server.tell_refused(address, reason)
        refusal = pb.CommandError(
            request_id=(1 << 64) - 1, error=ServerError.TooManyRequests, message=reason
        )
        self._transport.write(encode(refusal))
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            self.session.receive(data)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._server.forget(self, self._ip)
        self._server.certified.remove(self._transport)
        if not self._refused:
            self.session.gone()

    def pause_writing(self) -> None:
        self.session.writable = False

    def resume_writing(self) -> None:
        self.session.have_written(self.unwritten())
        self.session.lag_ended()

    # The session's side.

    def wake(self) -> None:
        if not self._awake:
            self._awake = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._awake = False
        session = self.session
        full = not session.ready
        frames = session.take_outbox()
        if frames and not self._transport.is_closing():
            if WRITELINES_UNPAUSED:
                self._transport.write(b"".join(frames))
            else:
                self._transport.writelines(frames)
        session.have_written(self.unwritten())
        if full and session.ready:
            session.lag_ended()  # there is room again for those who found none

    def unwritten(self) -> int:
        return self._transport.get_write_buffer_size()

    def pause(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def hang_up(self) -> None:
        self._flush()
        self._transport.close()
        if self._server.broker.outbound.spent:
            self.abort()  # there is no room for last words
        else:
            self._loop.call_later(HANG_UP_SECONDS, self.abort)

    def abort(self) -> None:
        self._transport.abort()


class _LoopTimer(Timer):
    def __init__(self, handle: asyncio.TimerHandle) -> None:
        self._handle = handle

    def cancel(self) -> None:
        self._handle.cancel()


class _LoopHost(Host):
    """Time, timers and reads on an event loop."""

    writer: Writer | None = None

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock_ms: Callable[[], int],
        ticks_ms: Callable[[], int],
        disk: Disk,
        reads: Executor,
    ) -> None:
        self._loop = loop
        self._clock_ms = clock_ms
        self._ticks_ms = ticks_ms
        self._disk = disk
        self._reads = reads
        self._kicked = False
        self.closed = False
        self._read_bytes = 0
        self._unread: deque[tuple[ReadPlan, Promise[None]]] = deque()

    def now_ms(self) -> int:
        return self._clock_ms()

    def ticks_ms(self) -> int:
        return self._ticks_ms()

    def ticks_us(self) -> int:
        if self._ticks_ms is system_ticks_ms:
            return time.monotonic_ns() // 1000
        return self._ticks_ms() * 1000

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return _LoopTimer(self._loop.call_later(delay_ms / 1000, callback))

    def read(self, plan: ReadPlan) -> Promise[None]:
        promise: Promise[None] = Promise()
        self._unread.append((plan, promise))
        self._read_next()
        return promise

    def _read_next(self) -> None:
        """Begins reads in the order in which they were asked for, as far as memory goes."""
        while self._unread and self._read_bytes < READ_BYTES_MAX:
            plan, promise = self._unread.popleft()
            self._begin_read(plan, promise)

    def _begin_read(self, plan: ReadPlan, promise: Promise[None]) -> None:
        size = plan.missing_bytes
        self._read_bytes += size
        future = self._loop.run_in_executor(self._reads, self._run, plan)

        def finished(result: "asyncio.Future[Exception | None]") -> None:
            self._read_bytes -= size
            self._read_next()
            with contextlib.suppress(asyncio.CancelledError):
                promise.end(result.result())

        future.add_done_callback(finished)

    def _run(self, plan: ReadPlan) -> Exception | None:
        try:
            plan.run(self._disk)
        except Exception as error:
            return error  # whoever waits for it knows which ones are none of ours
        return None

    def run_aside(self, job: Callable[[], None]) -> Promise[None]:
        """On a thread of its own, which does not keep the process from ending: a job may wait for
        another machine. There are a few at a time: one password, and one fetch for each issuer."""
        promise: Promise[None] = Promise()

        def run() -> None:
            error: Exception | None = None
            try:
                job()
            except Exception as failed:
                error = failed  # whoever waits for it knows which ones are none of ours
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                self._loop.call_soon_threadsafe(promise.end, error)

        try:
            threading.Thread(target=run, name="aside", daemon=True).start()
        except RuntimeError as error:
            # There is no memory for a thread.
            promise.fail(error)
        return promise

    def kick(self) -> None:
        if not self._kicked and not self.closed:
            self._kicked = True
            self.kicked_us = self.ticks_us()
            self._loop.call_soon(self._kick)

    def _kick(self) -> None:
        self._kicked = False
        if self.writer is not None and not self.closed:
            self.writer.kick()

    def warn(self, text: str) -> None:
        log.warning("%s", text)

    def fault(self, text: str, error: Exception) -> None:
        # As asyncio does for callbacks; a loop may be told to do more than log it.
        self._loop.call_exception_handler({"message": text, "exception": error})
