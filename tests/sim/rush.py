"""I10: peers in a rush, who ask for many things at once and may not read the answers.

What they ask for is drawn: topics that are looked up, patterns over all topics, patterns to be
watched, schemas of a size, and a sign of life in between. All of it is written in one go.
"""

import asyncio
import contextlib
from random import Random
from typing import TYPE_CHECKING, Any

from sim.scenario import TOPIC

from magnetar.model import SchemaType
from magnetar.protocol import PROTOCOL_VERSION, Connection, encode
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.testing.sim.simulation import Simulation

if TYPE_CHECKING:
    from sim.workload import Book

RUSH_TOPIC = "persistent://public/default/rush"
SCHEMA_BYTES = 12_000
NAMESPACE = "public/default"
# What is asked for in one go: more than one turn may cost.
REQUESTS = (20, 150, 300)
# In the time of peace: so many read nothing, and who reads waits no longer for all answers.
SILENT = 3
PATIENCE_S = 60


class _Rushing(asyncio.Protocol):
    """A connection that counts the answers it gets."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.answers = 0
        self._connection = Connection()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._connection.receive_data(data)
        while (command := self._connection.next_command()) is not None:
            self.answers += not isinstance(command, (pb.CommandPing, pb.CommandWatchTopicUpdate))


async def rush(simulation: Simulation, book: "Book", name: str) -> None:
    """Asks, reads or does not read, and hangs up; again and again."""
    random = simulation.loop.random_for(name)
    while book.publishing:
        await asyncio.sleep(random.random() * 3)
        with contextlib.suppress(OSError):
            reads = random.random() < 0.4
            peer = await _ask(simulation, random, random.choice(REQUESTS), reads=reads)
            await asyncio.sleep(random.random() * 5)
            peer.transport.abort()


async def rush_in_peace(simulation: Simulation) -> None:
    """I3: who reads gets an answer to each request, though others read nothing of theirs."""
    random = simulation.loop.random_for("rush in peace")
    silent = [await _ask(simulation, random, max(REQUESTS), reads=False) for _ in range(SILENT)]
    count = random.choice(REQUESTS)
    reader = await _ask(simulation, random, count, reads=True)
    for _ in range(PATIENCE_S):
        # CONNECT and PRODUCER are answered too.
        if reader.answers == count + 2:
            break
        await asyncio.sleep(1)
    for peer in [*silent, reader]:
        peer.transport.abort()
    assert reader.answers == count + 2, f"I3: {reader.answers} of {count + 2} answers came"


async def _ask(simulation: Simulation, random: Random, count: int, *, reads: bool) -> _Rushing:
    loop = simulation.loop
    _, peer = await loop.create_connection(_Rushing, "127.0.0.1", simulation.broker.port)
    assert isinstance(peer, _Rushing)
    if not reads:
        peer.transport.pause_reading()
    peer.transport.write(_requests(random, count))
    return peer


def _requests(random: Random, count: int) -> bytes:
    hello = pb.CommandConnect(client_version="rush", protocol_version=PROTOCOL_VERSION)
    requests = [encode(hello), encode(_producer())]
    requests += [encode(_request(random, number)) for number in range(count)]
    return b"".join(requests)


def _producer() -> pb.CommandProducer:
    text = '{"type": "record", "name": "r", "fields": [], "doc": "%s"}' % ("x" * SCHEMA_BYTES)
    schema = pb.Schema(name="rush", type=SchemaType.Avro, schema_data=text.encode())
    return pb.CommandProducer(topic=RUSH_TOPIC, producer_id=1, request_id=0, schema=schema)


def _request(random: Random, number: int) -> Any:
    kind = random.randrange(6)
    if kind == 0:
        return pb.CommandLookupTopic(topic=TOPIC, request_id=number)
    if kind == 1:
        return pb.CommandPartitionedTopicMetadata(topic=TOPIC, request_id=number)
    if kind == 2:
        pattern = f"{NAMESPACE}/.*{random.randrange(9)}"
        return pb.CommandGetTopicsOfNamespace(
            request_id=number, namespace=NAMESPACE, topics_pattern=pattern
        )
    if kind == 3:
        return pb.CommandWatchTopicList(
            request_id=number,
            watcher_id=random.randrange(20),
            namespace=NAMESPACE,
            topics_pattern=f"{NAMESPACE}/.*",
        )
    if kind == 4:
        return pb.CommandGetSchema(request_id=number, topic=RUSH_TOPIC)
    return pb.CommandPing()
