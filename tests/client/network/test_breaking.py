"""Honest when things break: one line for a lost connection, errors at once where users can act."""

import asyncio
import logging
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from client.conftest import Engine, receive, until
from support.proxy import Proxy
from support.tokens import Issuer

from magnetar import Client, aio
from magnetar.errors import ConnectError, Timeout
from magnetar.testing import Simulation

# Far more than "at once", and far less than the time that an operation may take.
PATIENCE_S = 20
OPERATION_S = 60


async def failure(url: str, **options: str | bool) -> ConnectError:
    """What a client fails with, which must be long before its time is up."""
    async with aio.Client(
        url,
        operation_timeout_seconds=OPERATION_S,
        **options,  # type: ignore[arg-type]
    ) as client:
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(ConnectError) as caught:
                await client.create_producer("t")
            with pytest.raises(ConnectError):
                await client.subscribe("t", "s")
    return caught.value


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[int]:
    """A server that says the same whatever it hears, and hangs up."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        port: int = server.sockets[0].getsockname()[1]
        yield port


@pytest.mark.parametrize("operation", ["create_producer", "get_topic_partitions"])
def test_no_attempt_begins_after_an_operation_may_take_no_longer(operation: str) -> None:
    """The waits double: the last of them is cut short, not begun whole before the time is up."""
    with Simulation(0) as simulation:

        async def program() -> float:
            client = simulation.client(
                operation_timeout_seconds=30, initial_backoff_ms=20_000, max_backoff_ms=60_000
            )
            began = asyncio.get_running_loop().time()
            ask = getattr(client, operation)
            with pytest.raises(ConnectError):
                await ask("t")
            took = asyncio.get_running_loop().time() - began
            await client.close()
            return took

        assert 30 <= simulation.run(program()) < 31


# ---- Errors that stay ------------------------------------------------------------------


async def test_a_refused_connection_fails_at_once() -> None:
    port = free_port()
    error = await failure(f"pulsar://127.0.0.1:{port}")
    assert f"127.0.0.1:{port}" in str(error)
    assert "is the broker started?" in str(error)


async def test_a_host_that_does_not_exist_fails_at_once() -> None:
    error = await failure("pulsar://no-such-host.invalid:6650")
    assert "is the name of the host right?" in str(error)


async def test_what_is_no_broker_fails_at_once() -> None:
    async with answering(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n") as port:
        error = await failure(f"pulsar://127.0.0.1:{port}")
        assert "is no broker, or wants TLS" in str(error)


async def test_tls_to_a_broker_without_it_fails_at_once(engine: Engine) -> None:
    error = await failure(engine.url.replace("pulsar://", "pulsar+ssl://"))
    assert "if it speaks no TLS, the service URL is pulsar://" in str(error)


async def test_a_tls_port_that_only_hangs_up_says_why_it_may() -> None:
    async with answering(b"") as port:
        error = await failure(f"pulsar+ssl://127.0.0.1:{port}")
        assert "cannot connect" in str(error)
        assert ": ;" not in str(error)


# What stands where a URL of admin REST leads: a port of brokers hangs up on a request.
NOT_HTTP = {"hangs up": b"", "is another protocol": b"220 mail ready\r\n"}


@pytest.mark.parametrize("answer", NOT_HTTP.values(), ids=NOT_HTTP)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_url_of_rest_that_leads_elsewhere_fails_at_once(scheme: str, answer: bytes) -> None:
    async with answering(answer) as port:
        error = await failure(f"{scheme}://127.0.0.1:{port}")
        assert f"pulsar://127.0.0.1:{port}" in str(error)


async def test_tls_to_a_rest_without_it_fails_at_once(engine: Engine) -> None:
    error = await failure(engine.http_url.replace("http://", "https://"))
    assert f"the service URL is {engine.http_url}" in str(error)


async def test_a_certificate_that_is_not_trusted_fails_at_once(
    engine: Engine, tmp_path: Path
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*Issuer(tmp_path).issue("broker"))
    async with Proxy(engine.one_url, context) as proxy:
        error = await failure(proxy.url)
        assert "certificate verify failed" in str(error)
        assert "tls_trust_certs_file_path" in str(error)


async def test_all_hosts_must_refuse_before_that_is_final(engine: Engine, topic: str) -> None:
    there = engine.one_url.removeprefix("pulsar://")
    async with aio.Client(f"pulsar://127.0.0.1:{free_port()},{there}") as client:
        await (await client.create_producer(topic)).send(b"x")


async def test_a_client_that_waits_for_its_broker_gets_it(engine: Engine, topic: str) -> None:
    port = free_port()
    async with aio.Client(
        f"pulsar://127.0.0.1:{port}", wait_for_broker=True, max_backoff_ms=200
    ) as client:
        counts = client._engine.totals.connections
        making = asyncio.ensure_future(client.create_producer(topic))
        await until(lambda: counts.failed_connect >= 2, lambda: str(counts))
        assert not making.done()
        async with Proxy(engine.one_url, port=port):
            await (await making).send(b"x")
            await client.close()


async def test_who_was_connected_waits_for_the_broker_to_come_back(
    engine: Engine, topic: str
) -> None:
    """A broker that restarts refuses for a while: that is no mistake of the user's."""
    port = free_port()
    url = f"pulsar://127.0.0.1:{port}"
    async with aio.Client(url, wait_for_broker=True, max_backoff_ms=200) as client:
        async with Proxy(engine.one_url, port=port):
            await (await client.create_producer(topic)).send(b"x")
        counts = client._engine.totals.connections
        failed = counts.failed_connect
        making = asyncio.ensure_future(client.create_producer(topic))
        await until(lambda: counts.failed_connect >= failed + 2, lambda: str(counts))
        async with Proxy(engine.one_url, port=port):
            await (await making).send(b"x")
            await client.close()


# ---- What is logged --------------------------------------------------------------------


async def test_a_lost_connection_is_one_warning_and_its_recovery_one_info(
    engine: Engine, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "magnetar.client")
    async with (
        Proxy(engine.one_url) as proxy,
        aio.Client(proxy.url, initial_backoff_ms=5, max_backoff_ms=20) as client,
    ):
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic)
        other = await client.create_producer(topic)
        for _ in range(2):
            caplog.clear()
            proxy.refusing = True
            proxy.cut()
            refused = proxy.accepted
            await until(
                lambda so_many=refused + 3: proxy.accepted >= so_many,  # type: ignore[misc]
                lambda: str(proxy.accepted),
            )
            proxy.refusing = False
            await asyncio.gather(producer.send(b"x"), other.send(b"y"))
            await receive(consumer, 2)
            told = [(one.levelname, one.getMessage()) for one in caplog.records]
            address = proxy.url.removeprefix("pulsar://")
            assert [level for level, _ in told] == ["WARNING", "INFO"], told
            assert f"the connection to {address} was lost" in told[0][1]
            assert told[1][1] == f"connected to {address} again"
        caplog.clear()
    assert caplog.records == []


# ---- Timeout ---------------------------------------------------------------------------


async def test_a_timeout_is_one_of_pythons_own(engine: Engine, topic: str) -> None:
    assert issubclass(Timeout, TimeoutError)
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        with pytest.raises(TimeoutError, match="no message within 1 ms"):
            await consumer.receive(1)


def test_a_blocking_timeout_is_one_of_pythons_own(engine: Engine, topic: str) -> None:
    with Client(engine.url) as client:
        consumer = client.subscribe(topic, "s")
        with pytest.raises(TimeoutError, match="no message within 1 ms"):
            consumer.receive(1)


# ---- Forks -----------------------------------------------------------------------------

FORKED = """
import os, sys, warnings
import magnetar

warnings.simplefilter("ignore")  # Python's own, of forks in programs with threads
url, topic = sys.argv[1:]
client = magnetar.Client(url)
consumer, producer = client.subscribe(topic, "s"), client.create_producer(topic)
reader = client.create_reader(topic, magnetar.MessageId.earliest)
producer.send(b"1")
message = consumer.receive(30_000)
producer.send(b"2")  # one more that waits in the queue


def told(call):
    try:
        call()
    except magnetar.UsageError as error:
        assert "forked off" in str(error) and "Make a client in each process" in str(error)
        return True
    print("no error from", call, flush=True)
    return False


child = os.fork()
if child == 0:
    good = [
        told(lambda: producer.send(b"x")),
        told(lambda: producer.send_async(b"x", lambda *result: None)),
        told(producer.flush),
        told(lambda: consumer.receive(1000)),
        told(lambda: consumer.acknowledge(message)),
        told(lambda: consumer.acknowledge_cumulative(message)),
        told(lambda: consumer.negative_acknowledge(message)),
        told(lambda: next(iter(consumer))),
        told(lambda: reader.read_next(1000)),
        told(lambda: client.create_producer(topic)),
        told(lambda: client.subscribe(topic, "other")),
    ]
    for handle in (producer, consumer, reader, client):
        handle.close()
    with magnetar.Client(url) as own:  # which works
        own.create_producer(topic).send(b"child")
    os._exit(0 if all(good) else 1)
assert os.waitpid(child, 0)[1] == 0
consumer.acknowledge(message)  # the parent goes on
assert [consumer.receive(30_000).data() for _ in range(2)] == [b"2", b"child"]
client.close()
"""

FORKED_ASYNCIO = """
import asyncio, os, sys
import magnetar
from magnetar import aio

url, topic = sys.argv[1:]
loop = asyncio.new_event_loop()


async def made():
    client = aio.Client(url)
    producer, consumer = await client.create_producer(topic), await client.subscribe(topic, "s")
    await producer.send(b"1")
    return client, producer, consumer


client, producer, consumer = loop.run_until_complete(made())


async def use():
    for call in (
        lambda: producer.send(b"x"), consumer.receive, lambda: client.create_producer(topic)
    ):
        try:
            await call()
        except magnetar.UsageError as error:
            assert "forked off" in str(error)
        else:
            os._exit(1)
    await client.close()


child = os.fork()
if child == 0:
    asyncio.run(use())
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert loop.run_until_complete(consumer.receive()).data() == b"1"
loop.run_until_complete(client.close())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("program", [FORKED, FORKED_ASYNCIO], ids=["blocking", "asyncio"])
def test_a_forked_child_is_told_that_the_client_is_its_parents(
    engine: Engine, topic: str, program: str
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", program, engine.url, topic],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
