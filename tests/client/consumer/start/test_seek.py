"""Seeks right after a reader or consumer was made, while the broker still reads for it.

Over both engines as often as they can be had, and once in simulated time against a peer that
does what Apache's broker does: it closes who seeks, and a read that was under way goes on. If
somebody is there again when it ends, it begins anew for him, beside the read that he has. (Now
and then Apache's broker loses the latter, too, and then nothing comes at all.)
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from client.conftest import Engine, datas, new_batcher, payloads, receive, send_all, until
from client.consumer_model import plain_entry
from google.protobuf.message import Message as Pb

from magnetar.client.door import aio
from magnetar.client.network.clock import Clock
from magnetar.errors import Timeout
from magnetar.model import ConsumerType, InitialPosition, MessageId
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandFlow, CommandMessage, Connection, encode
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.testing import SimLoop

COUNT = 40
TRIES = 4
LEDGER = 7
URL = "pulsar://broker:6650"
# How long a read takes, and how long one waits to see that nothing is read twice.
READ_S = 0.05
QUIET_MS = 500


async def until_quiet(read: Callable[[int], Any], count: int, quiet_ms: int) -> list[bytes]:
    """So many messages, and whatever comes behind them."""
    got = [await read(10_000) for _ in range(count)]
    try:
        while True:
            got.append(await read(quiet_ms))
    except Timeout:
        return datas(got)


@pytest.mark.both_engines
@pytest.mark.parametrize("to", ["id", "earliest", "time"])
async def test_a_reader_seeks_at_once(engine: Engine, topic: str, to: str) -> None:
    async with aio.Client(engine.url) as client:
        for number in range(TRIES):
            name = f"{topic}-{number}"
            producer = await client.create_producer(name, batching_enabled=False)
            ids = await send_all(producer, payloads(COUNT))
            places = {"id": ids[4], "earliest": MessageId.earliest, "time": 0}
            first = 5 if to == "id" else 0
            reader = await client.create_reader(name, MessageId.earliest)
            await reader.seek(places[to])
            got = await until_quiet(reader.read_next, COUNT - first, 50)
            assert got == payloads(COUNT - first, first)


@pytest.mark.both_engines
@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Shared])
async def test_a_consumer_seeks_at_once(engine: Engine, topic: str, kind: ConsumerType) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic, batching_enabled=False)
        ids = await send_all(producer, payloads(COUNT))
        for number in range(TRIES):
            consumer = await client.subscribe(
                topic,
                f"number-{number}",
                consumer_type=kind,
                initial_position=InitialPosition.Earliest,
            )
            await consumer.seek(ids[4])
            assert sorted(datas(await receive(consumer, COUNT - 5))) == payloads(COUNT - 5, 5)
            with pytest.raises(Timeout):
                await consumer.receive(50)


@pytest.mark.both_engines
@pytest.mark.parametrize("inclusive", [True, False], ids=["inclusive", "exclusive"])
@pytest.mark.parametrize("number", [0, 4, 5, 7, 8, 11])
async def test_a_seek_brings_only_what_was_asked_for_and_nothing_is_left_unacked(
    engine: Engine, topic: str, number: int, inclusive: bool
) -> None:
    """Of batches of four, and with no message that the client must drop."""
    async with aio.Client(engine.url) as client:
        ids = await send_all(await new_batcher(client, topic, 4), payloads(12))
        consumer = await client.subscribe(
            topic,
            "sub",
            consumer_type=ConsumerType.Shared,
            initial_position=InitialPosition.Earliest,
            start_message_id_inclusive=inclusive,
            ack_receipt_enabled=True,
        )
        await consumer.acknowledge(await receive(consumer, 12))
        await consumer.seek(ids[number])
        first = number if inclusive else number + 1
        got = await receive(consumer, 12 - first)
        assert datas(got) == payloads(12 - first, first)
        assert consumer.stats().messages_dropped == 0
        if got:
            await consumer.acknowledge(got)
        await until(lambda: backlog(engine, topic) == 0, lambda: str(backlog(engine, topic)))


def backlog(engine: Engine, topic: str) -> int:
    return int(engine.stats(topic)["subscriptions"]["sub"]["msgBacklog"])


# A broker that says that it is ours is not waited for: it reads for nobody who is gone.
@pytest.mark.parametrize(("version", "waits"), [("Pulsar Server4.2.4", True), ("Magnetar", False)])
def test_who_seeks_waits_until_the_broker_has_stopped_reading(version: str, waits: bool) -> None:
    with SimLoop(1) as loop:
        peer = SlowReader(loop, version)
        assert loop.run(seek_at_once(loop, peer)) == payloads(COUNT)
    assert peer.reads_for_others == (0 if waits else 1)


async def seek_at_once(loop: SimLoop, peer: "SlowReader") -> list[bytes]:
    server = await loop.create_server(lambda: peer, "broker", 6650)
    clock = Clock(loop.clock_ms, loop.steady_ms)
    async with aio.Client(URL, clock=clock) as client:
        reader = await client.create_reader("topic", MessageId.earliest)
        await reader.seek(MessageId.earliest)
        got = await until_quiet(reader.read_next, COUNT, QUIET_MS)
    server.close()
    return got


class SlowReader(asyncio.Protocol):
    """A broker of one topic and one consumer, whose reads take `READ_S`."""

    def __init__(self, loop: SimLoop, version: str) -> None:
        self._loop = loop
        self._version = version
        self._connection = Connection()
        # Which consumer of the same id is there; 0 is none.
        self._number = 0
        self._consumer = 0
        # Reads that ended when somebody else than who they were for was there.
        self.reads_for_others = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._connection.receive_data(data)
        while (command := self._connection.next_command()) is not None:
            self._take(command)

    def _take(self, command: Any) -> None:
        if isinstance(command, CommandFlow):
            if self._consumer:
                self._loop.call_later(READ_S, self._have_read, command, self._consumer)
        elif isinstance(command, pb.CommandConnect):
            self._send(pb.CommandConnected(server_version=self._version, protocol_version=21))
        elif isinstance(command, pb.CommandPartitionedTopicMetadata):
            self._answer(command, pb.CommandPartitionedTopicMetadataResponse(partitions=0))
        elif isinstance(command, pb.CommandLookupTopic):
            found = pb.CommandLookupTopicResponse(brokerServiceUrl=URL, response=1)
            self._answer(command, found)
        elif isinstance(command, Pb):
            if isinstance(command, pb.CommandSubscribe):
                self._number += 1
                self._consumer = self._number
            elif isinstance(command, pb.CommandSeek):
                self._consumer = 0
                self._send(pb.CommandCloseConsumer(consumer_id=command.consumer_id, request_id=0))
            self._answer(command, pb.CommandSuccess())

    def _have_read(self, flow: CommandFlow, consumer: int) -> None:
        if self._consumer == consumer:
            for number, payload in enumerate(payloads(COUNT)):
                id = MessageIdData(LEDGER, number)
                self._send(CommandMessage(flow.consumer_id, id, plain_entry(payload)))
        elif self._consumer:
            # As if nothing was being read for the new one.
            self.reads_for_others += 1
            self._loop.call_later(READ_S, self._have_read, flow, self._consumer)

    def _answer(self, command: Any, answer: Any) -> None:
        answer.request_id = command.request_id
        self._send(answer)

    def _send(self, command: Any) -> None:
        self._transport.write(encode(command))
