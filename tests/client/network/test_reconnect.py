"""Connections that break and brokers that go: nothing lost, nothing twice, order kept."""

import asyncio
import contextlib
import logging
import re
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from client.conftest import (
    WAIT_MS,
    Engine,
    datas,
    new_batcher,
    nothing_comes,
    payloads,
    receive,
    send_all,
    through_proxy,
    until,
)
from support.broker_process import BrokerProcess
from support.proxy import Proxy
from support.tokens import Issuer

from magnetar import (
    Authentication,
    AuthenticationToken,
    ConnectError,
    ConsumerType,
    ErrorGettingAuthenticationData,
    InitialPosition,
    MessageId,
    NotConnected,
    SettingsError,
    Timeout,
    TopicTerminated,
)
from magnetar.client.door import aio
from magnetar.client.network.connection import ClientConnection
from magnetar.protocol import pulsar_pb2 as pb

Earliest = InitialPosition.Earliest
RECEIPT = 7  # the number of SEND_RECEIPT
QUICK: dict[str, Any] = {"initial_backoff_ms": 5, "max_backoff_ms": 50}


async def send_with_cuts(producer: aio.Producer, cut: Any, count: int) -> None:
    """Sends in bursts, and breaks the connections in between."""
    sent: list[Any] = []
    for first in range(0, count, 50):
        sent += [producer.send(content) for content in payloads(50, first)]
        await asyncio.sleep(0)
        if first // 50 % 3 == 1:
            await sent[-50]  # so there was a connection, and the rest of the burst is under way
        cut()
    await asyncio.gather(*sent)


@pytest.mark.parametrize("batched", [True, False], ids=["batched", "single"])
async def test_through_cuts_everything_is_stored_once_and_in_order(
    deduplicating: Engine, topic: str, batched: bool
) -> None:
    async with through_proxy(deduplicating) as (proxy, client):
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(
            topic, batching_enabled=batched, batching_max_publish_delay_ms=1
        )
        await send_with_cuts(producer, proxy.cut, 1000)
        assert proxy.accepted > 2
        await consumer.close()
        reader = await client.create_reader(topic, MessageId.earliest)
        assert datas(await read_all(reader)) == payloads(1000)


async def read_all(reader: aio.Reader) -> list[Any]:
    got = []
    while await reader.has_message_available():
        got.append(await reader.read_next(30_000))
    return got


async def test_without_deduplication_nothing_is_lost_and_order_is_kept(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url, **QUICK) as client:
        producer = await client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=1
        )
        await send_with_cuts(producer, engine.cut, 500)
        reader = await client.create_reader(topic, MessageId.earliest)
        got = datas(await read_all(reader))
        assert list(dict.fromkeys(got)) == payloads(500)


async def test_what_was_stored_and_not_confirmed_is_not_stored_again(
    deduplicating: Engine, topic: str
) -> None:
    async with through_proxy(deduplicating) as (proxy, client):
        producer = await client.create_producer(topic)
        proxy.passes = lambda command: command.type != RECEIPT
        sent = [producer.send(content) for content in payloads(10)]
        reader = await client.create_reader(topic, MessageId.earliest)
        for _ in range(10):
            await reader.read_next(30_000)
        assert not any(future.done() for future in sent)
        proxy.passes = lambda command: True
        proxy.cut()
        await asyncio.gather(*sent)
        assert datas(await read_all(reader)) == []
        assert producer.last_sequence_id() == 9


async def test_a_missing_receipt_is_noticed_by_the_next_one(
    deduplicating: Engine, topic: str
) -> None:
    async with through_proxy(deduplicating) as (proxy, client):
        producer = await client.create_producer(topic)
        first = True

        def all_but_one(command: pb.BaseCommand) -> bool:
            nonlocal first
            if command.type != RECEIPT or not first:
                return True
            first = False
            return False

        proxy.passes = all_but_one
        await asyncio.gather(*(producer.send(content) for content in payloads(5)))
        assert proxy.accepted == 2
        reader = await client.create_reader(topic, MessageId.earliest)
        assert datas(await read_all(reader)) == payloads(5)


@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Shared])
async def test_a_consumer_that_lost_its_connection_gets_all_that_it_did_not_ack(
    engine: Engine, topic: str, kind: ConsumerType
) -> None:
    async with through_proxy(engine) as (proxy, client):
        consumer = await client.subscribe(
            topic, "s", consumer_type=kind, acknowledgement_group_time_ms=60_000
        )
        async with aio.Client(engine.url) as direct:
            await send_all(await new_batcher(direct, topic, 5), payloads(20))
        got = await receive(consumer, 12)
        # Acked and not told to the broker yet: it is told on the next connection.
        await consumer.acknowledge([*got[:5], got[7]])
        proxy.cut()
        await until(lambda: proxy.accepted > 1 and consumer.is_connected(), lambda: "no return")
        left = sorted(set(payloads(20)) - set(datas([*got[:5], got[7]])))
        again = await receive(consumer, 14)
        assert sorted(datas(again)) == left
        await consumer.acknowledge(again)
        await consumer.close()
        assert engine.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0


async def test_a_reader_goes_on_where_it_was(engine: Engine, topic: str) -> None:
    async with through_proxy(engine) as (proxy, client):
        await send_all(await new_batcher(client, topic, 7), payloads(21))
        reader = await client.create_reader(topic, MessageId.earliest)
        got = [await reader.read_next(30_000) for _ in range(10)]
        proxy.cut()
        await until(lambda: proxy.accepted > 1 and reader.is_connected(), lambda: "no return")
        got += [await reader.read_next(30_000) for _ in range(11)]
        assert datas(got) == payloads(21)
        assert not await reader.has_message_available()


async def test_unloading_a_topic_disturbs_nobody(deduplicating: Engine, topic: str) -> None:
    async with aio.Client(deduplicating.url, **QUICK) as client:
        consumer = await client.subscribe(topic, "s", ack_receipt_enabled=True)
        producer = await client.create_producer(topic)
        for first in range(0, 30, 10):
            await send_all(producer, payloads(10, first))
            got = await receive(consumer, 10)
            assert datas(got) == payloads(10, first)
            await consumer.acknowledge(got)
            await asyncio.to_thread(deduplicating.unload, topic)


async def test_a_request_waits_for_the_connection_to_come_back(engine: Engine, topic: str) -> None:
    async with through_proxy(engine) as (proxy, client):
        ids = await send_all(await client.create_producer(topic), payloads(5))
        consumer = await client.subscribe(topic, "s", initial_position=Earliest)
        await receive(consumer, 5)
        for work, result in ((consumer.seek(ids[2]), None), (last_id(consumer), ids[-1])):
            proxy.refusing = True
            proxy.cut()
            await until(lambda: not consumer.is_connected(), lambda: "still connected")
            asking = asyncio.ensure_future(work)
            await asyncio.sleep(0.02)
            assert not asking.done()
            proxy.refusing = False
            assert await asking == result
        assert datas(await receive(consumer, 2)) == payloads(2, 3)


async def last_id(consumer: aio.Consumer) -> MessageId:
    return await consumer.get_last_message_id()


async def test_seeks_and_cuts_together(engine: Engine, topic: str) -> None:
    async with through_proxy(engine) as (proxy, client):
        ids = await send_all(await new_batcher(client, topic, 4), payloads(12))
        consumer = await client.subscribe(
            topic, "s", initial_position=Earliest, start_message_id_inclusive=True
        )
        for number in (7, 0, 11, 3):
            proxy.cut()
            await consumer.seek(ids[number])
            assert datas(await receive(consumer, 12 - number)) == payloads(12 - number, number)


async def test_a_broker_that_is_killed_and_comes_back(tmp_path: Path, topic: str) -> None:
    options = ["--set", "deduplication=true"]
    with BrokerProcess(tmp_path / "data", options=options) as broker:
        async with aio.Client(broker.url, **QUICK) as client:
            consumer = await client.subscribe(topic, "s", ack_receipt_enabled=True)
            producer = await client.create_producer(topic, batching_enabled=True)
            sent = []
            for first in range(0, 400, 100):
                sent += [producer.send(content) for content in payloads(100, first)]
                await asyncio.sleep(0.02)
                await asyncio.to_thread(broker.kill if first % 200 else broker.stop)
                await asyncio.to_thread(broker.start)
            await asyncio.gather(*sent)
            got = await receive(consumer, 200)
            await consumer.acknowledge(got)
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            got += await receive(consumer, 200)
            assert datas(got) == payloads(400)
            await consumer.acknowledge(got[200:])
            await consumer.close()
            consumer = await client.subscribe(topic, "s")
            await nothing_comes(consumer)


async def test_sends_fail_when_their_time_is_over(engine: Engine, topic: str) -> None:
    async with through_proxy(engine) as (proxy, client):
        producer = await client.create_producer(topic, send_timeout_millis=200)
        proxy.passes = lambda command: command.type != RECEIPT
        with pytest.raises(Timeout, match="may be stored or not"):
            await producer.send(b"x")
        assert producer.stats().pending_messages == 0


async def test_a_terminated_topic_ends_producers_and_consumers(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(topic, "s")
        await producer.send(b"last")
        await asyncio.to_thread(engine.rest, "POST", f"{topic.replace('://', '/')}/terminate")
        with pytest.raises(TopicTerminated):
            await producer.send(b"more")
        (message,) = await receive(consumer, 1)
        await consumer.acknowledge(message)
        with pytest.raises(TopicTerminated, match="everything in it was received"):
            await consumer.receive(30_000)


async def test_a_broker_that_falls_silent_is_left(engine: Engine, topic: str) -> None:
    async with through_proxy(engine, keep_alive_interval_seconds=1) as (proxy, client):
        consumer = await client.subscribe(topic, "s")
        proxy.passes = lambda command: False
        await until(lambda: not consumer.is_connected(), lambda: "it waits still")
        proxy.passes = lambda command: True
        proxy.cut()
        await until(consumer.is_connected, lambda: "it did not come back")


@contextlib.asynccontextmanager
async def connection_to_peer() -> AsyncIterator[tuple[ClientConnection, socket.socket]]:
    """A connection, and the other end of its socket, where nobody reads."""
    loop = asyncio.get_running_loop()
    mine, peer = socket.socketpair()
    connection = ClientConnection(loop, "peer", 10.0)
    with peer:
        await loop.create_connection(lambda: connection, sock=mine)
        yield connection, peer
        connection.close()
        await connection.wait_closed()


async def test_nothing_is_written_to_a_connection_that_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """asyncio says only later that it is, and complains about every write until then."""
    async with connection_to_peer() as (connection, peer):
        peer.close()
        with caplog.at_level(logging.WARNING, "asyncio"):
            for _ in range(20):
                connection.write([b"lost"])
        assert not connection.closed
        assert caplog.text == ""
        await until(lambda: connection.closed, lambda: "it is open still")


async def test_a_broker_that_hung_up_need_not_read_what_is_left() -> None:
    async with connection_to_peer() as (connection, peer):
        connection.write([bytes(10 << 20)])
        peer.shutdown(socket.SHUT_WR)
        await until(lambda: connection.closed, lambda: "it is open still")


async def test_a_consumer_that_comes_back_has_the_name_it_had(engine: Engine, topic: str) -> None:
    async with through_proxy(engine) as (proxy, client):
        consumer = await client.subscribe(topic, "s", consumer_type=ConsumerType.KeyShared)
        accepted = proxy.accepted
        proxy.cut()
        await until(lambda: proxy.accepted > accepted and consumer.is_connected(), lambda: "away")
        subscribes = [c.subscribe for c in proxy.heard if c.HasField("subscribe")]
        assert len(subscribes) == 2
        assert len({subscribe.consumer_name for subscribe in subscribes}) == 1
        assert subscribes[0].consumer_name


# ---- Which broker ------------------------------------------------------------


async def test_a_service_url_may_name_several_hosts(engine: Engine, topic: str) -> None:
    async with Proxy(engine.one_url) as dead, Proxy(engine.one_url) as alive:
        dead.refusing = True
        url = f"pulsar://127.0.0.1:1,127.0.0.1:{dead.port},127.0.0.1:{alive.port}"
        async with aio.Client(url, **QUICK) as client:
            producer = await client.create_producer(topic)
            await producer.send(b"x")
        assert dead.accepted >= 1
        assert alive.accepted == 1


async def test_hosts_of_an_http_url_are_tried_in_turn(engine: Engine, topic: str) -> None:
    address = engine.http_url.removeprefix("http://")
    async with aio.Client(f"http://127.0.0.1:1,{address}") as client:
        await (await client.create_producer(topic)).send(b"x")


async def test_where_nobody_answers_there_is_one_clear_error(topic: str) -> None:
    async with aio.Client("pulsar://127.0.0.1:1", operation_timeout_seconds=1, **QUICK) as client:
        with pytest.raises(ConnectError, match=r"cannot connect to 127\.0\.0\.1:1"):
            await client.create_producer(topic)
    async with aio.Client("http://127.0.0.1:1", operation_timeout_seconds=1, **QUICK) as client:
        with pytest.raises(ConnectError, match=r"cannot connect to http://127\.0\.0\.1:1"):
            await client.subscribe(topic, "s")


async def test_a_peer_that_says_nothing_is_given_up(topic: str) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with aio.Client(
        f"pulsar://127.0.0.1:{port}",
        connection_timeout_ms=50,
        operation_timeout_seconds=1,
        **QUICK,
    ) as client:
        with pytest.raises(ConnectError, match="is it a broker"):
            await client.create_producer(topic)
    server.close()
    await server.wait_closed()


# ---- TLS and tokens ----------------------------------------------------------


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("tls"))


def served_by(issuer: Issuer) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*issuer.issue("broker"))
    return context


async def test_tls_and_a_token_reach_the_wire(engine: Engine, topic: str, issuer: Issuer) -> None:
    async with Proxy(engine.one_url, served_by(issuer)) as proxy:
        options: list[dict[str, Any]] = [
            {"tls_trust_certs_file_path": str(issuer.certificate), "tls_validate_hostname": True},
            {"tls_allow_insecure_connection": True},
        ]
        for number, option in enumerate(options):
            async with aio.Client(
                proxy.url, authentication=AuthenticationToken(lambda: "secret"), **option
            ) as client:
                consumer = await client.subscribe(topic, f"s-{number}")
                await (await client.create_producer(topic)).send(b"x")
                assert datas(await receive(consumer, 1)) == [b"x"]
        hellos = [command.connect for command in proxy.heard if command.HasField("connect")]
        assert [(hello.auth_method_name, hello.auth_data) for hello in hellos] == [
            ("token", b"secret")
        ] * 2


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    engine: Engine, topic: str, issuer: Issuer
) -> None:
    async with (
        Proxy(engine.one_url, served_by(issuer)) as proxy,
        aio.Client(proxy.url, operation_timeout_seconds=1) as client,
    ):
        with pytest.raises(ConnectError, match=r"(?i)certificate verify failed"):
            await client.create_producer(topic)


async def test_who_wants_tls_is_not_led_to_where_there_is_none(
    engine: Engine, topic: str, issuer: Issuer
) -> None:
    async with Proxy(engine.one_url, served_by(issuer)) as proxy:
        url, proxy.url = proxy.url, ""  # lookups now lead nowhere that has TLS
        async with aio.Client(url, tls_allow_insecure_connection=True) as client:
            with pytest.raises(NotConnected, match="no address with TLS"):
                await client.create_producer(topic)


async def test_files_that_cannot_be_read_are_told_at_once() -> None:
    with pytest.raises(SettingsError, match="tls_trust_certs_file_path: /nowhere"):
        aio.Client("pulsar+ssl://127.0.0.1", tls_trust_certs_file_path="/nowhere")
    with pytest.raises(SettingsError, match="tls_certificate_file_path: /nowhere"):
        aio.Client(
            "pulsar+ssl://127.0.0.1",
            tls_certificate_file_path="/nowhere",
            tls_private_key_file_path="/nowhere",
        )


async def test_after_a_seek_a_terminated_topic_has_messages_again(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        ids = await send_all(await client.create_producer(topic), payloads(3))
        consumer = await client.subscribe(
            topic, "s", initial_position=Earliest, start_message_id_inclusive=True
        )
        await asyncio.to_thread(engine.rest, "POST", f"{topic.replace('://', '/')}/terminate")
        for first in (0, 1):
            await consumer.acknowledge(await receive(consumer, 3 - first))
            with pytest.raises(TopicTerminated):
                await consumer.receive(30_000)
            await consumer.seek(ids[1])


async def test_when_all_topics_of_a_pattern_are_terminated_another_may_come(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        await send_all(await client.create_producer(f"{topic}-a"), payloads(1))
        consumer = await client.subscribe(re.compile(f"{topic}-.*"), "s", initial_position=Earliest)
        path = f"{topic}-a/terminate".replace("://", "/")
        await asyncio.to_thread(engine.rest, "POST", path)
        await consumer.acknowledge(await receive(consumer, 1))
        (part,) = consumer._consumer.parts.values()
        await until(lambda: part.ended, lambda: "it is not told of the end")
        waits = asyncio.ensure_future(consumer.receive(WAIT_MS))
        await send_all(await client.create_producer(f"{topic}-b"), payloads(1, 1))
        await consumer._consumer._find()  # as when the discovery period is over
        assert (await waits).data() == payloads(1, 1)[0]


class MoodyAuthentication(Authentication):
    """A kind of the application's own, which fails now and then."""

    method = "moody"

    def __init__(self) -> None:
        self.failures = 0

    def data(self) -> bytes:
        if self.failures:
            self.failures -= 1
            raise KeyError("no secret now")
        return b"secret"


async def test_an_authentication_of_ones_own_may_fail_for_a_while(
    engine: Engine, topic: str
) -> None:
    moody = MoodyAuthentication()
    async with aio.Client(engine.url, authentication=moody, **QUICK) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic)
        moody.failures = 3
        await asyncio.to_thread(engine.cut)
        await send_all(producer, payloads(1))
        assert datas(await receive(consumer, 1)) == payloads(1)
    moody.failures = 1000
    async with aio.Client(engine.url, authentication=moody, **QUICK) as client:
        with pytest.raises(ErrorGettingAuthenticationData, match="no secret now"):
            await client.subscribe(topic, "s")
