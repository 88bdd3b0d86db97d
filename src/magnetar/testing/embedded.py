"""A broker in the process that tests run in: nothing on disk, ports of its own.

| state   | becomes                                                                     |
|---------|-----------------------------------------------------------------------------|
| new     | running, by `start` or `with`                                               |
| running | stopped, by `stop` or the end of the block; with the process, if by neither |
| stopped |                                                                             |

It runs on a thread of its own, for any client: the official one too. Its admin REST is
started by whoever first asks where it is, since few tests want it.
"""

import asyncio
import itertools
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from magnetar.errors import UsageError

if TYPE_CHECKING:
    from magnetar.admin.http.server import HttpServer
    from magnetar.broker.setting.settings import BrokerSettings
    from magnetar.broker.shell.server import BrokerServer

__all__ = ["EmbeddedBroker"]

T = TypeVar("T")

# How long it may take to stop, with everything that is under way.
STOP_S = 20.0

NEW = "not started yet"
RUNNING = "running"
STOPPED = "stopped"


class EmbeddedBroker:
    """A broker in this process, on a free port; `settings` are those of `magnetar serve`."""

    def __init__(
        self, settings: "BrokerSettings | None" = None, *, host: str = "127.0.0.1"
    ) -> None:
        self._settings = settings
        self._host = host
        self._state = NEW
        self._topics = itertools.count(1)
        self._http_lock = threading.Lock()
        self._http: HttpServer | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # ---- What it is for ------------------------------------------------------

    @property
    def url(self) -> str:
        """What clients connect to: pulsar://host:port."""
        return self._running().url

    @property
    def http_url(self) -> str:
        """Where the admin REST and /metrics are: http://host:port."""
        server = self._running()
        with self._http_lock:
            if self._http is None:
                self._http = self._call(_serve_http(server, self._host))
            return self._http.url

    def topic(self, name: str = "test") -> str:
        """Returns the name of a topic that nobody else has been given."""
        return f"persistent://public/default/{name}-{next(self._topics)}"

    # ---- Beginning and end ---------------------------------------------------

    def start(self) -> None:
        """Returns when clients can connect. Raises OSError if there is no port."""
        if self._state != NEW:
            raise UsageError(f"the broker is {self._state}: make another")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="embedded-broker", daemon=True)
        self._thread.start()
        try:
            self._server = self._call(_serve(self._settings, self._host))
        except BaseException:
            self._end_loop()
            raise
        self._state = RUNNING

    def stop(self) -> None:
        """Ends it, and its connections; what it had is gone. Once is enough."""
        if self._state != RUNNING:
            return
        self._state = STOPPED
        try:
            self._call(self._stop())
        finally:
            self._end_loop()

    def _running(self) -> "BrokerServer":
        if self._state != RUNNING:
            raise UsageError(f"the broker is {self._state}: it has no address")
        return self._server

    async def _stop(self) -> None:
        if self._http is not None:
            await self._http.stop()
        await self._server.stop()

    # ---- Its thread ----------------------------------------------------------

    def _run(self) -> None:
        from magnetar.client.door.threads.loop_thread import run_to_end

        run_to_end(self._loop)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(STOP_S)

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


async def _serve(settings: "BrokerSettings | None", host: str) -> "BrokerServer":
    from magnetar.broker.shell.server import BrokerServer
    from magnetar.storage import Catalog, MemoryDisk

    server = BrokerServer(MemoryDisk(), Catalog, settings, host=host)
    await server.start()
    return server


async def _serve_http(server: "BrokerServer", host: str) -> "HttpServer":
    from magnetar.admin.http.server import HttpServer

    websockets = None
    if server.settings.websocket:
        from magnetar.websocket.service import WebSocketService

        websockets = WebSocketService(server)
    http = HttpServer(server, host, 0, websockets=websockets)
    await http.start()
    return http
