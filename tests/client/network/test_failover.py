"""Going over to another cluster: by itself, or because the program says so."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from client.conftest import (
    Engine,
    datas,
    make_engine,
    payloads,
    receive,
    send_all,
    until,
)
from support.proxy import Proxy
from support.waiting import wait_until

import magnetar
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client
from magnetar.client.network.failover import Failover, can_reach
from magnetar.client.option.service_info import (
    AutoClusterFailover,
    ServiceInfo,
    ServiceInfoProvider,
)
from magnetar.errors import SettingsError

A, B, C = (ServiceInfo(f"pulsar://{name}:6650") for name in ("a", "b", "c"))


class Clusters:
    """Clusters that can be reached or not, and a failover that looks at them."""

    def __init__(self, **thresholds: int) -> None:
        self.up = {A, B, C}
        self.at = A
        policy = AutoClusterFailover(A, [B, C], **thresholds)
        self._failover = Failover(policy, self._probe, self._switch)

    async def _probe(self, info: ServiceInfo) -> bool:
        return info in self.up

    def _switch(self, info: ServiceInfo) -> None:
        self.at = info

    async def look(self, times: int = 1) -> ServiceInfo:
        for _ in range(times):
            await self._failover.look()
        return self.at


async def test_it_stays_where_it_can_be() -> None:
    clusters = Clusters()
    assert await clusters.look(5) is A
    clusters.up = {A}
    assert await clusters.look(5) is A


async def test_it_goes_to_the_first_that_can_be_reached_and_back() -> None:
    clusters = Clusters()
    clusters.up = {C}
    assert await clusters.look() is C
    clusters.up = {B, C}
    assert await clusters.look(3) is C
    clusters.up = {B}
    assert await clusters.look() is B
    clusters.up = {A, B}
    assert await clusters.look() is A


async def test_thresholds_count_what_comes_in_a_row() -> None:
    clusters = Clusters(failover_threshold=3, switch_back_threshold=2)
    for up in ({B}, {B}, {A, B}, {B}, {B}):
        clusters.up = up
        assert await clusters.look() is A
    assert await clusters.look() is B
    for up in ({A, B}, {B}, {A, B}):
        clusters.up = up
        assert await clusters.look() is B
    clusters.up = {A, B}
    assert await clusters.look() is A


async def test_where_nothing_can_be_reached_it_stays() -> None:
    clusters = Clusters()
    clusters.up = set()
    assert await clusters.look(4) is A
    clusters.up = {B}
    assert await clusters.look() is B


async def test_one_host_of_a_cluster_is_enough(engine: Engine) -> None:
    host = engine.one_url.removeprefix("pulsar://")
    nobody = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = nobody.sockets[0].getsockname()[1]
    nobody.close()
    await nobody.wait_closed()
    assert await can_reach(ServiceInfo(f"pulsar://127.0.0.1:{port},{host}"), 5)
    assert not await can_reach(ServiceInfo(f"pulsar://127.0.0.1:{port}"), 5)


async def test_a_client_goes_over_and_its_producers_and_consumers_with_it(
    engine: Engine, topic: str
) -> None:
    with make_engine() as other:
        async with Proxy(engine.one_url) as proxy:
            failover = AutoClusterFailover(
                ServiceInfo(proxy.url), [ServiceInfo(other.url)], check_interval_ms=20
            )
            async with aio.Client(failover, connection_timeout_ms=2000) as client:
                consumer = await client.subscribe(topic, "s")
                producer = await client.create_producer(topic)
                await send_all(producer, payloads(2))
                assert datas(await receive(consumer, 2)) == payloads(2)
                assert client.get_service_info().service_url == proxy.url
                # Nobody listens there any more.
                proxy._server.close()
                proxy.refusing = True
                proxy.cut()
                await until(
                    lambda: client.get_service_info().service_url == other.url,
                    lambda: "it stays where nobody is",
                )
                await send_all(producer, payloads(3, 2))
                assert datas(await receive(consumer, 3)) == payloads(3, 2)
                if other._embedded is not None:
                    assert other.stats(topic)["msgInCounter"] == 3


class Provider(ServiceInfoProvider):
    """Says where to go when it is told to."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.update: Callable[[ServiceInfo], None] = lambda info: None
        self.closed = 0

    def initial_service_info(self) -> ServiceInfo:
        return ServiceInfo(self._url)

    def initialize(self, on_service_info_update: Callable[[ServiceInfo], None]) -> None:
        self.update = on_service_info_update

    def close(self) -> None:
        self.closed += 1


def test_a_program_may_say_where_its_cluster_is(engine: Engine, topic: str) -> None:
    with make_engine() as other:
        provider = Provider(engine.url)
        with Client(provider) as client:
            producer = client.create_producer(topic)
            producer.send(b"here")
            provider.update(ServiceInfo(other.url))
            wait_until(
                lambda: client.get_service_info().service_url == other.url, lambda: "still there"
            )
            producer.send(b"there")
            reader = client.create_reader(topic, magnetar.MessageId.earliest)
            assert reader.read_next(30_000).data() == b"there"
            # What cannot be used changes nothing.
            provider.update(
                ServiceInfo("pulsar+ssl://127.0.0.1:1", tls_trust_certs_file_path="/no/such/file")
            )
            with pytest.raises(SettingsError, match="ServiceInfo"):
                provider.update("pulsar://elsewhere")  # type: ignore[arg-type]
            producer.send(b"there still")
            assert client.get_service_info().service_url == other.url
        assert provider.closed == 1


def test_changes_may_come_from_any_thread_and_at_any_time(
    deduplicating: Engine, topic: str
) -> None:
    provider = Provider(deduplicating.url)
    with Client(provider) as client:
        provider.update(ServiceInfo(deduplicating.url))  # before anything is connected
        producer = client.create_producer(topic)
        done = threading.Event()

        def change() -> None:
            # Not for ever: beside other work a connection may take longer than the pause.
            for _ in range(100):
                provider.update(ServiceInfo(deduplicating.url))
                if done.wait(0.03):
                    break

        changing = threading.Thread(target=change)
        changing.start()
        try:
            for content in payloads(10):
                producer.send(content)
        finally:
            done.set()
            changing.join()
        reader = client.create_reader(topic, magnetar.MessageId.earliest)
        got = [reader.read_next(30_000).data() for _ in range(10)]
        assert got == payloads(10)


def test_a_provider_that_cannot_be_closed_leaves_nothing_open(engine: Engine) -> None:
    class Stuck(Provider):
        def close(self) -> None:
            raise ValueError("not now")

    client = Client(Stuck(engine.url))
    client.create_producer("stuck")
    with pytest.raises(ValueError, match="not now"):
        client.close()
    assert client.stats().connections_closed == client.stats().connections_opened > 0


class Liar(ServiceInfoProvider):
    def initial_service_info(self) -> Any:
        return "pulsar://a"

    def initialize(self, on_service_info_update: Callable[[ServiceInfo], None]) -> None:
        raise AssertionError("it said nothing useful before")


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        (5, {}, "service_url"),
        (Liar(), {}, "must begin with a ServiceInfo"),
        (
            AutoClusterFailover(A, [B]),
            {"authentication": magnetar.AuthenticationToken("t")},
            "each",
        ),
        (Provider("pulsar://a"), {"tls_trust_certs_file_path": "certs"}, "each ServiceInfo"),
    ],
)
def test_wrong_sources_are_refused(source: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        Client(source, **options)
