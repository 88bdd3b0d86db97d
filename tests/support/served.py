"""A broker with its admin REST, on a loop of its own, for tests that speak HTTP to it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pulsar

from magnetar.admin.http.server import HttpServer
from magnetar.broker.broker import Broker
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.server import BrokerServer
from magnetar.storage import Catalog, FileDisk, MemoryDisk
from magnetar.storage.catalog.catalog_guard import open_catalog
from magnetar.websocket.service import WebSocketService

T = TypeVar("T")
_numbers = count()


class Served:
    """A broker that serves; `http` speaks to its REST, from /admin/v2 on."""

    url: str
    http_url: str
    # There if the settings name a certificate.
    url_tls: str
    http_url_tls: str
    http: httpx.Client
    broker: Broker
    server: BrokerServer

    def __init__(
        self, settings: BrokerSettings | None = None, data: Path | None = None, *, port: int = 0
    ) -> None:
        """In memory, unless there is a directory for its data."""
        self._port = port
        self._settings = settings
        self._data = data
        self._https: HttpServer | None = None
        self._loop = asyncio.new_event_loop()
        # A daemon, or a start that failed would keep the tests from ending.
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> None:
        self._thread.start()
        self.run(self._start())
        self.http = httpx.Client(
            base_url=f"{self.http_url}/admin/v2",
            timeout=30,
            headers={"Content-Type": "application/json"},
        )

    async def _start(self) -> None:
        tls = self._settings is not None and self._settings.tls_certificate_file != ""
        tls_port = 0 if tls else None
        data = self._data

        def catalog() -> Catalog:
            return Catalog() if data is None else open_catalog(data, None, accept_loss=False)

        disk = MemoryDisk() if data is None else FileDisk(data)
        self.server = BrokerServer(
            disk, catalog, self._settings, port=self._port, tls_port=tls_port
        )
        await self.server.start()
        websockets = WebSocketService(self.server) if self.server.settings.websocket else None
        self._http = HttpServer(self.server, "127.0.0.1", 0, websockets=websockets)
        await self._http.start()
        self.url, self.http_url = self.server.url, self._http.url
        if tls:
            self._https = HttpServer(self.server, "127.0.0.1", 0, tls=True, websockets=websockets)
            await self._https.start()
            self.url_tls, self.http_url_tls = self.server.url_tls, self._https.url
        self.broker = self.server.broker

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs on the broker's loop, and waits."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def call(self, function: Callable[[], T]) -> T:
        """Calls on the broker's thread, where its state may be looked at."""

        async def work() -> T:
            return function()

        return self.run(work())

    def stop(self) -> None:
        self.http.close()
        self.run(self._http.stop())
        if self._https is not None:
            self.run(self._https.stop())
        self.run(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def namespace(self) -> str:
        """A namespace that no other test has."""
        name = f"public/ns-{next(_numbers)}"
        assert self.http.put(f"/namespaces/{name}").status_code == 204
        return name

    @contextmanager
    def client(self, url: str = "") -> Iterator[pulsar.Client]:
        """The official client."""
        client = pulsar.Client(
            url or self.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        try:
            yield client
        finally:
            client.close()

    def publish(self, topic: str, count: int, *, batch: int = 1, **options: object) -> list[Any]:
        """Publishes `count` messages in batches of `batch`, and returns their ids."""
        ids: list[Any] = []
        with self.client() as client:
            producer = client.create_producer(
                topic,
                batching_enabled=batch > 1,
                batching_max_messages=max(batch, 2),
                batching_max_publish_delay_ms=60_000,
                **options,
            )
            for i in range(count):
                producer.send_async(b"message %d" % i, lambda result, id: ids.append(id))
            producer.flush()
            producer.close()
        assert len(ids) == count
        return ids


def made(served: Served, partitions: int = 0) -> str:
    """A topic of a namespace of its own, with a subscription `s` that nobody ever joined."""
    name = f"{served.namespace()}/orders"
    path = f"/persistent/{name}"
    if partitions:
        assert served.http.put(f"{path}/partitions", json=partitions).status_code == 204
    else:
        assert served.http.put(path).status_code == 204
    assert served.http.put(f"{path}/subscription/s").status_code == 204
    return name
