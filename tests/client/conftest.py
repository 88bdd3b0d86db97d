"""A broker to talk to, coroutines as tests, and the certainty that nothing is left behind.

`engine` is the plugin's `magnetar_broker`, Apache Pulsar, or a cluster of it. A test marked
`both_engines` runs over ours and Apache's, every other one over ours alone; the runs over Apache's
are marked `apache`, and are skipped where it cannot be had. MAGNETAR_APACHE_LONG=1 has every test
run over both, MAGNETAR_APACHE_TARGET=apache over Apache's alone, and `cluster` over a cluster
(tests/cluster) alone. With MAGNETAR_CLUSTER=1 marked tests run over that as well.

A test that is a coroutine runs on a loop of its own, and fails if it leaves tasks there; every
test fails if it leaves threads of a client.
"""

import asyncio
import contextlib
import inspect
import itertools
import os
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import httpx
import pytest
from support.proxy import Proxy
from support.waiting import wait_until

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.server import BrokerServer
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client
from magnetar.errors import Timeout
from magnetar.testing.embedded import EmbeddedBroker

# How long anything that must come may take, on a machine with other things to do.
WAIT_S = 30.0
WAIT_MS = 30_000
# How long one waits to see that nothing comes.
QUIET_MS = 150
# For batches that are closed by hand.
NEVER_MS = 60_000
# More turns of the loop than any call takes on an idle machine.
TURNS_MAX = 400

# Over what all tests run, if not over ours: `apache` or `cluster`.
TARGET = os.environ.get("MAGNETAR_APACHE_TARGET", "")

_numbers = itertools.count()


class Engine:
    """What a test may ask of a broker, whoever made it."""

    def __init__(self, url: str, http_url: str, embedded: EmbeddedBroker | None = None) -> None:
        self.url = url
        self.http_url = http_url
        self._embedded = embedded

    @property
    def is_ours(self) -> bool:
        """Whether it is our broker, and not Apache Pulsar."""
        return self._embedded is not None

    @property
    def one_url(self) -> str:
        """Where it is, for tests that stand between a client and the one broker that there is."""
        if "," in self.url:
            pytest.skip("a cluster sends clients on, past what stands before one of its brokers")
        return self.url

    @property
    def embedded(self) -> EmbeddedBroker:
        """Our broker itself, for tests that look inside."""
        if self._embedded is None:
            pytest.skip("only our own broker can be looked into")
        return self._embedded

    def call(self, function: Callable[[BrokerServer], None]) -> None:
        """Calls on our broker's thread, where its state may be looked at."""
        embedded = self.embedded

        async def work() -> None:
            function(embedded._server)

        embedded._call(work())

    def rest(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Asks the REST, and fails unless it agrees."""
        url = f"{self.http_url}/admin/v2/{path}"
        # A cluster sends requests on to the owner of a topic.
        answer = httpx.request(method, url, timeout=60, follow_redirects=True, **options)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer

    def make_partitions(self, topic: str, count: int) -> None:
        self.rest("PUT", f"{path_of(topic)}/partitions", json=count)

    def grow_partitions(self, topic: str, count: int) -> None:
        self.rest("POST", f"{path_of(topic)}/partitions", json=count)

    def unload(self, topic: str) -> None:
        self.rest("PUT", f"{path_of(topic)}/unload")

    def stats(self, topic: str) -> Any:
        return self.rest("GET", f"{path_of(topic)}/stats").json()

    def cut(self) -> None:
        """Breaks every connection to the broker."""

        def cut(server: BrokerServer) -> None:
            for link in list(server._links):
                link.abort()

        self.call(cut)


def path_of(topic: str) -> str:
    return topic.replace("://", "/")


def make_engine(
    settings: BrokerSettings | None = None, kind: str | None = None
) -> contextlib.AbstractContextManager[Engine]:
    kind = kind or TARGET or "ours"
    makers = {"ours": _ours, "apache": _apache, "cluster": _cluster}
    return makers[kind](settings)


def engines_of(marked: bool) -> list[Any]:
    """What a test runs over; `marked` says that it is for both."""
    from apache.harness import LONG

    apache = pytest.param("apache", marks=pytest.mark.apache)
    cluster = pytest.param("cluster", marks=pytest.mark.apache)
    if TARGET:
        return [apache if TARGET == "apache" else cluster]
    # Once is enough: what an engine does is not for the build to say.
    brief = os.environ.get("MAGNETAR_BUILD") == "interpreted"
    found: list[Any] = ["ours"]
    if LONG or (marked and not brief):
        found.append(apache)
    if marked and not brief and os.environ.get("MAGNETAR_CLUSTER"):
        found.append(cluster)
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine" in metafunc.fixturenames:
        marked = metafunc.definition.get_closest_marker("both_engines") is not None
        metafunc.parametrize("engine", engines_of(marked), indirect=True, scope="session")


@contextlib.contextmanager
def _ours(settings: BrokerSettings | None) -> Iterator[Engine]:
    with EmbeddedBroker(settings) as broker:
        yield Engine(broker.url, broker.http_url, broker)


@contextlib.contextmanager
def _apache(settings: BrokerSettings | None) -> Iterator[Engine]:
    from apache.harness import ApachePulsar, require_artifacts

    require_artifacts()
    with ApachePulsar(fsync=False) as apache:
        engine = Engine(apache.url, apache.http_url)
        if settings is not None and settings.deduplication:
            engine.rest("POST", "namespaces/public/default/deduplication", json=True)
        yield engine


@contextlib.contextmanager
def _cluster(settings: BrokerSettings | None) -> Iterator[Engine]:
    from cluster.pulsar_cluster import PulsarCluster, require_cluster

    require_cluster()
    with PulsarCluster() as cluster:
        engine = Engine(cluster.url, cluster.http_url)
        if settings is not None and settings.deduplication:
            engine.rest("POST", "namespaces/public/default/deduplication", json=True)
        yield engine


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "ours":
        broker = request.getfixturevalue("magnetar_broker")
        yield Engine(broker.url, broker.http_url, broker)
        return
    with make_engine(kind=request.param) as engine:
        yield engine


@pytest.fixture(scope="session")
def deduplicating() -> Iterator[Engine]:
    """A broker that removes duplicates."""
    with make_engine(BrokerSettings(deduplication=True)) as engine:
        yield engine


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    name = name.replace("-partition-", "-part-")  # which is for partitions
    return f"persistent://public/default/{name}-{next(_numbers)}"


@pytest.fixture
def client(engine: Engine) -> Iterator[Client]:
    """The blocking door."""
    with Client(engine.url) as client:
        yield client


# ---- Coroutines, and what they leave -----------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    function = pyfuncitem.obj
    if not inspect.iscoroutinefunction(function):
        return None
    names = inspect.signature(function).parameters
    asyncio.run(_leaving_nothing(function(**{name: pyfuncitem.funcargs[name] for name in names})))
    return True


async def _leaving_nothing(test: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(6 * WAIT_S):
        await test
    await until(lambda: not other_tasks(), lambda: f"left behind: {other_tasks()}")


def other_tasks() -> set["asyncio.Task[Any]"]:
    return asyncio.all_tasks() - {asyncio.current_task()}


def client_threads() -> list[str]:
    """The threads of clients; a broker's are not ours to count."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("magnetar-")]


@pytest.fixture(autouse=True)
def leaves_no_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    for name in ("engine", "magnetar_broker"):
        if name in request.fixturenames:
            request.getfixturevalue(name)
    before = client_threads()
    yield
    # The fixtures of the test may be closed after this one: a client closes itself.
    if not {"client", "magnetar_client"} & set(request.fixturenames):
        wait_until(lambda: len(client_threads()) <= len(before), lambda: str(client_threads()))


async def until(condition: Callable[[], bool], what: Callable[[], str]) -> None:
    """Waits for a condition; fails with `what` if it does not come true."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what()
        await asyncio.sleep(0.005)


def on_topic(engine: Engine, topic: str) -> tuple[int, int]:
    """How many producers and consumers the broker knows there."""
    stats = engine.stats(topic)
    consumers = [len(one["consumers"]) for one in stats["subscriptions"].values()]
    return len(stats["publishers"]), sum(consumers)


async def nobody_is_left(engine: Engine, topic: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while (found := await asyncio.to_thread(on_topic, engine, topic)) != (0, 0):
        assert time.monotonic() < deadline, f"left at the broker: {found}"
        await asyncio.sleep(0.01)


# ---- Messages ----------------------------------------------------------------


def payloads(count: int, first: int = 0) -> list[bytes]:
    return [b"message-%05d" % number for number in range(first, first + count)]


def datas(messages: list[Any]) -> list[bytes]:
    return [message.data() for message in messages]


async def send_all(producer: aio.Producer, contents: list[bytes], **fields: Any) -> list[Any]:
    """Sends all, and returns their ids once they are stored."""
    sent = [producer.send(content, **fields) for content in contents]
    await producer.flush()
    return await asyncio.gather(*sent)


async def receive(consumer: aio.Consumer, count: int) -> list[Any]:
    """The next messages; fails if they do not come."""
    got: list[Any] = []
    for _ in range(count):
        try:
            got.append(await consumer.receive(WAIT_MS))
        except Timeout:
            raise AssertionError(f"{len(got)} of {count} came: {datas(got)}") from None
    return got


async def nothing_comes(consumer: aio.Consumer) -> None:
    try:
        message = await consumer.receive(QUIET_MS)
    except Timeout:
        return
    pytest.fail(f"{message.data()!r} came")


def new_batcher(client: aio.Client, topic: str, size: int, **options: Any) -> Any:
    """A producer whose batches have `size` messages, and wait until they do or are flushed."""
    return client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=size,
        batching_max_publish_delay_ms=NEVER_MS,
        **options,
    )


# ---- Something between the client and the broker -----------------------------


@contextlib.asynccontextmanager
async def through_proxy(engine: Engine, **options: Any) -> AsyncIterator[tuple[Proxy, aio.Client]]:
    """A proxy before the broker, and a client that knows only the proxy."""
    async with (
        Proxy(engine.one_url) as proxy,
        aio.Client(proxy.url, initial_backoff_ms=5, max_backoff_ms=50, **options) as client,
    ):
        yield proxy, client
