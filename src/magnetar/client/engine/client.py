"""The engine: everything of one client that lives on its loop."""

import asyncio
import logging
import random
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from magnetar.client.engine.consumer import EngineConsumer
from magnetar.client.engine.coordinator import Coordinators
from magnetar.client.engine.fork import fork_error, release, watch_forks
from magnetar.client.engine.producer import EngineProducer
from magnetar.client.engine.transaction import EngineTransaction
from magnetar.client.network.clock import Clock
from magnetar.client.network.connection import ClientConnection
from magnetar.client.network.failover import Failover, can_reach
from magnetar.client.network.lookup import Lookup, Requests
from magnetar.client.network.pool import ConnectionPool
from magnetar.client.network.service import Service
from magnetar.client.option.backoff import Backoff
from magnetar.client.option.options import ClientOptions
from magnetar.client.option.service_info import (
    AutoClusterFailover,
    ServiceInfo,
    ServiceInfoProvider,
    first_service_info,
)
from magnetar.client.producer.chunks import Part
from magnetar.client.schema.schema_info import SchemaInfo
from magnetar.client.telemetry.client_log import ClientLog
from magnetar.client.telemetry.observer import Observer, Tracing
from magnetar.client.telemetry.stats_log import StatsLog
from magnetar.client.telemetry.totals import Totals
from magnetar.errors import RETRY_CONNECT, AlreadyClosed, ConnectError, MagnetarError, SettingsError
from magnetar.model.txn_id import TxnId
from magnetar.model.version import VERSION

__all__ = ["Engine"]

T = TypeVar("T")


class Engine:
    """See the module. Both doors are thin around it."""

    def __init__(
        self,
        service_url: "str | AutoClusterFailover | ServiceInfoProvider",
        options: ClientOptions,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        lock: "AbstractContextManager[object] | None" = None,
    ) -> None:
        self.options = options
        self.timeout_s: float = float(options.operation_timeout_seconds)
        clock = clock or Clock()
        # What is measured, and what is told to others.
        self.now_ms: Callable[[], int] = clock.steady_ms
        self.day_ms: Callable[[], int] = clock.day_ms
        self._random = rng or random.Random()
        self.random: Callable[[], float] = self._random.random
        # Held by whoever works on a core: the loop, and with the blocking door its callers.
        self.lock: AbstractContextManager[object] = lock or nullcontext()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        # What other threads want done on the loop, in order.
        self._posted: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._awake = False
        # Whether what was posted is being done now.
        self._calling = False
        self._requests = Requests()
        self._producer_ids = 0
        self._consumer_ids = 0
        watcher = options.telemetry
        if watcher is not None and not isinstance(watcher, Observer):
            raise SettingsError("telemetry", f"expected a Telemetry, not {watcher!r:.40}")
        self.observer: Observer | None = watcher
        self.tracing: Tracing | None = None if watcher is None else watcher.tracing
        self.totals: Totals = Totals(self.lock)
        self._stats_log: asyncio.Task[None] | None = None
        # Made now, so that files that cannot be read are found now.
        self._source = service_url
        self._service = Service(first_service_info(service_url, options), options)
        self._watch: asyncio.Task[None] | None = None
        self._log = ClientLog(options.logger)
        self.log: logging.Logger = self._log.logger
        self._pool = ConnectionPool(
            self._service,
            timeout_s=self.timeout_s,
            connect_timeout_s=options.connection_timeout_ms / 1000,
            client_version=f"Magnetar-{VERSION}",
            keep_alive_s=float(options.keep_alive_interval_seconds),
            counts=self.totals.connections,
            threaded=lock is not None,
            log=self.log,
        )
        self.lookup: Lookup = Lookup(
            self._pool,
            self._service,
            self._requests,
            listener_name=options.listener_name or "",
            timeout_s=self.timeout_s,
            observer=watcher,
            patient=not isinstance(service_url, str),
            waits_for_broker=options.wait_for_broker,
        )
        self._open: dict[EngineProducer | EngineConsumer, None] = {}
        self._coordinators: Coordinators | None = None
        # Whether a transaction was begun: producers say so from then on.
        self.transactional: bool = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None
        self.closed: bool = False
        # Nothing is waited for any more.
        self.shut_down: bool = False
        # Whether this is a process that was forked off the client's own.
        self.forked: bool = False
        watch_forks(self)
        if isinstance(service_url, ServiceInfoProvider):
            service_url.initialize(self.change_service)
        if watcher is not None:
            watcher.opened(self.totals)

    # ---- Where ---------------------------------------------------------------

    @property
    def title(self) -> str:
        """Where the client connects to, for people."""
        return self._service.info.service_url

    @property
    def state(self) -> str:
        """Where the client stands, in words for people."""
        if self.closed:
            return "closed"
        counts = self.totals.connections
        return "connected" if counts.opened > counts.closed else "not connected"

    @property
    def service_info(self) -> ServiceInfo:
        """What the client connects to now."""
        return self._service.info

    def change_service(self, info: ServiceInfo) -> None:
        """Goes over to another cluster: everything connects again, there. Any thread."""
        if not isinstance(info, ServiceInfo):
            raise SettingsError("service_info", f"expected a ServiceInfo, not {info!r:.40}")
        self.on_loop(self._change_service, info)

    def _change_service(self, info: ServiceInfo) -> None:
        before = self._service.info.service_url
        try:
            self._service.use(info)
        except MagnetarError as error:
            self.log_problem(f"going over to {info.service_url}", error)
            return
        if info.service_url != before:
            for what in list(self._open):
                if isinstance(what, EngineConsumer):
                    what.moved()
        self.lookup.begin_anew()
        if self._coordinators is not None:
            self._coordinators.forget()
        self._pool.leave()

    def _follow_service(self) -> None:
        """Begins to look where the cluster is, if that is for us to do."""
        if isinstance(self._source, AutoClusterFailover) and self._watch is None:
            seconds = self.options.connection_timeout_ms / 1000
            failover = Failover(
                self._source, lambda info: can_reach(info, seconds), self.change_service, self.log
            )
            self._watch = asyncio.get_running_loop().create_task(failover.run())

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
        self._calling = True
        posted = self._posted
        try:
            while posted:
                call, arguments = posted.popleft()
                call(*arguments)
        finally:
            self._calling = False

    def write(self, connection: ClientConnection, frames: Sequence[Part], *, hurried: bool) -> None:
        """Writes for a producer, in order. With the lock.

        `hurried` is for one who waits for it: it is written here and now, unless something that
        was posted before is not written yet. All else is for the loop.
        """
        if (
            hurried
            and self._thread not in (0, threading.get_ident())
            and not self._posted
            and not self._calling
            and connection.write_here(frames)
        ):
            if connection.has_rest:
                self.on_loop(connection.write, ())
            return
        self.on_loop(connection.write, frames)

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
        self.log.warning("%s: %s", doing, error)

    def warn(self, problem: str) -> None:
        self.log.warning("%s", problem)

    async def retrying(
        self,
        request: Callable[[], Awaitable[T]],
        passing: tuple[type[Exception], ...] = RETRY_CONNECT,
    ) -> T:
        """Asks again while that may help, for as long as an operation may take: after errors
        that are `passing`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout_s
        backoff = self.backoff()
        while True:
            try:
                return await request()
            except passing as error:
                permanent = isinstance(error, ConnectError) and error.permanent
                left_s = deadline - loop.time()
                if self.closed or permanent or left_s <= 0:
                    raise
                self.log.debug("%s; trying again", error)
            # The last attempt is when the time is up, not when the wait before it is over.
            await asyncio.sleep(min(backoff.next_ms() / 1000, left_s))

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Runs something beside all else, which ends with the client. On the loop."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- Transactions --------------------------------------------------------

    async def begin_transaction(self, timeout_ms: int) -> EngineTransaction:
        """Begins one. Raises TransactionsDisabledError, and what a lookup raises."""
        coordinator = await self._transactions().next()
        begun_ms = self.now_ms()
        id = await coordinator.begin(timeout_ms)
        return EngineTransaction(self, coordinator, id, timeout_ms, begun_ms)

    async def join_transaction(self, id: TxnId, timeout_ms: int) -> EngineTransaction:
        """Takes part in one that another client began; `timeout_ms` is what that gave it.

        Nobody is asked whether it is there. Raises TransactionsDisabledError, TransactionNotFound,
        and what a lookup raises.
        """
        coordinator = await self._transactions().of(id)
        return EngineTransaction(self, coordinator, id, timeout_ms, self.now_ms())

    def _transactions(self) -> Coordinators:
        self._check_open()
        self.bind()
        self.transactional = True
        if self._coordinators is None:
            self._coordinators = Coordinators(self)
        return self._coordinators

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
            what.count_in(self.totals)
            self._log_stats()
        except BaseException as error:
            await what.close()
            if self.closed and isinstance(error, MagnetarError):
                raise AlreadyClosed("the client was closed meanwhile") from error
            raise

    def _log_stats(self) -> None:
        """Begins to log what is done, as often as the options say."""
        interval_s = self.options.stats_interval_in_seconds
        if interval_s > 0 and self._stats_log is None:
            task = StatsLog(self.totals, self._log.stats).run(float(interval_s))
            self._stats_log = asyncio.get_running_loop().create_task(task)

    def _check_open(self) -> None:
        if self.closed:
            raise self.closed_error("the client is closed: make another")
        self._follow_service()

    def closed_error(self, text: str) -> MagnetarError:
        """Returns why nothing can be done with what is closed: a fork may have closed it."""
        return fork_error() if self.forked else AlreadyClosed(text)

    def forked_off(self) -> None:
        """This is a process that was forked off: see `fork`."""
        self.forked = True
        self.closed = True
        release(self.lock)
        for what in self._open:
            what.forked_off()

    def forget(self, what: "EngineProducer | EngineConsumer") -> None:
        self._open.pop(what, None)
        what.count_out(self.totals)

    async def close(self) -> None:
        """Closes everything that was opened. Who stops waiting does not stop it."""
        if self.forked:
            return
        self.closed = True
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        results = await asyncio.gather(
            *(what.close() for what in list(self._open)), return_exceptions=True
        )
        await self._stop_tasks()
        await self._pool.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._log.close()
        if self.observer is not None:
            self.observer.closed(self.totals)
        if isinstance(self._source, ServiceInfoProvider):
            self._source.close()  # last: it is not ours, and may raise
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, MagnetarError):
                raise result

    async def _stop_tasks(self) -> None:
        tasks = [task for task in (self._stats_log, self._watch) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def shutdown(self) -> None:
        """Drops all connections at once, and fails what is on its way."""
        if self.forked:
            return
        self.closed = True
        self.shut_down = True
        self._pool.drop()
        await self.close()
