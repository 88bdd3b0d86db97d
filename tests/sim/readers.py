"""A reader that goes over a topic to its end, and a producer that dies in mid-message."""

import asyncio
import contextlib
from collections.abc import Sequence
from random import Random

from sim.scenario import Scenario
from sim.workload import CLIENT

from magnetar.client.consumer.message import Message
from magnetar.client.door.aio import Client, Consumer, Reader
from magnetar.errors import Timeout
from magnetar.model import InitialPosition, MessageId
from magnetar.protocol import (
    CommandSend,
    CommandSendReceipt,
    Connection,
    MessageMetadata,
    encode,
    encode_entry,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.testing.checker.history import Sent
from magnetar.testing.sim.simulation import Simulation

# Of virtual time; a reader that waits for what never comes waits for ever.
PATIENCE_S = 400
READ_MS = 60_000
QUIET_MS = 3000
SEEKS = 3
TRIES = 3


async def read_to_the_end(simulation: Simulation, scenario: Scenario) -> None:
    """I3: a reader gets what is there, and then knows that it has; whole messages (I6)."""
    client = simulation.client(**CLIENT)
    sent = {fact.payload for fact in simulation.history.of(Sent)}
    for topic in scenario.topics:
        for tries_left in reversed(range(TRIES)):
            got, end = await _read_twice(client, topic)
            assert sent.issuperset(got), f"I6: a reader of {topic} got what was never sent"
            # What is acked everywhere may be trimmed between the two.
            if end in ([], got[-1:]):
                break
            # And what a producer had sent when it ended may have become durable between them.
            assert tries_left, f"I3: {end} is the end of {topic}, and not {got[-1:]}"
    await client.close()


async def _read_twice(client: Client, topic: str) -> tuple[list[bytes], list[bytes]]:
    """Everything that is there, and what a reader gets that begins with the last message."""
    async with asyncio.timeout(PATIENCE_S):
        everything = await client.create_reader(topic, MessageId.earliest)
        got = await _rest(everything)
        await everything.close()
        last = await client.create_reader(topic, MessageId.latest, start_message_id_inclusive=True)
        end = await _rest(last)
        await last.close()
    return got, end


async def _rest(reader: Reader) -> list[bytes]:
    got: list[bytes] = []
    while await reader.has_message_available():
        try:
            got.append((await reader.read_next(READ_MS)).data())
        except Timeout:
            # A reader holds nothing: what all have acked may be trimmed before it comes there.
            if await reader.has_message_available():
                raise
    return got


async def seek_about(simulation: Simulation, scenario: Scenario) -> None:
    """I5, I6: a seek brings all that stands from its place on, whole, and nothing else."""
    random = simulation.loop.random_for("seeks of the reader")
    client = simulation.client(**CLIENT)
    for topic in scenario.topics:
        inclusive = random.random() < 0.5
        # Not recorded: it acks nothing, and is no part of the history but on the wire.
        consumer = await Client.subscribe(
            client,
            topic,
            "auditor",
            initial_position=InitialPosition.Earliest,
            start_message_id_inclusive=inclusive,
        )
        everything = await _drain(consumer)
        # Never back: what it sought past may be trimmed.
        for at in sorted(_some(range(len(everything)), random) | _some(_apart(everything), random)):
            await consumer.seek(everything[at].message_id())
            got = [message.data() for message in await _drain(consumer)]
            first = at if inclusive else at + 1
            expected = [message.data() for message in everything[first:]]
            assert got == expected, f"I5: after a seek {got} came, and not {expected}"
        await consumer.unsubscribe()
    await client.close()


def _some(numbers: Sequence[int], random: Random) -> set[int]:
    return set(random.sample(numbers, min(SEEKS, len(numbers))))


def _apart(messages: list[Message]) -> list[int]:
    """Which of them have others between their chunks: the hard ones."""
    found: list[int] = []
    for number, message in enumerate(messages):
        chunks = message._delivery.chunks
        if chunks is not None and chunks[-1] - chunks[0] >= len(chunks):
            found.append(number)
    return found


async def _drain(consumer: Consumer) -> list[Message]:
    """All that comes until nothing does for a while."""
    got: list[Message] = []
    with contextlib.suppress(Timeout):
        while True:
            got.append(await consumer.receive(QUIET_MS))
    return got


async def desert(simulation: Simulation, scenario: Scenario) -> None:
    """Publishes two chunks of a message of three, and is gone."""
    while True:
        try:
            await _desert(simulation, scenario.topics[-1])
            return
        except OSError:
            await asyncio.sleep(1)


async def _desert(simulation: Simulation, topic: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", simulation.broker.port)
    connection = Connection()

    async def hear(kind: type) -> None:
        while True:
            while (command := connection.next_command()) is not None:
                if isinstance(command, kind):
                    return
            data = await reader.read(1 << 16)
            if not data:
                raise ConnectionResetError("the broker hung up")
            connection.receive_data(data)

    writer.write(encode(pb.CommandConnect(client_version="deserter", protocol_version=21)))
    await hear(pb.CommandConnected)
    writer.write(encode(pb.CommandProducer(topic=topic, producer_id=1, request_id=1)))
    await hear(pb.CommandProducerSuccess)
    for number in range(2):
        metadata = MessageMetadata("deserter", 0, simulation.loop.clock_ms())
        metadata.uuid = "deserter-0"
        metadata.num_chunks_from_msg, metadata.chunk_id = 3, number
        metadata.total_chunk_msg_size = 30
        entry = encode_entry(metadata.encode(), b"." * 10)
        writer.write(encode(CommandSend(1, 0, entry, is_chunk=True)))
        await hear(CommandSendReceipt)
    writer.close()
