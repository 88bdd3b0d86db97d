"""A reader that goes over a topic to its end, and a producer that dies in mid-message."""

import asyncio

from sim.scenario import Scenario
from sim.workload import CLIENT

from magnetar.client.aio import Reader
from magnetar.model import MessageId
from magnetar.protocol import (
    CommandSend,
    CommandSendReceipt,
    Connection,
    MessageMetadata,
    encode,
    encode_entry,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.testing.history import Sent
from magnetar.testing.simulation import Simulation

# Of virtual time; a reader that waits for what never comes waits for ever.
PATIENCE_S = 400
READ_MS = 60_000


async def read_to_the_end(simulation: Simulation, scenario: Scenario) -> None:
    """I3: a reader gets what is there, and then knows that it has; whole messages (I6)."""
    client = simulation.client(**CLIENT)
    sent = {fact.payload for fact in simulation.history.of(Sent)}
    for topic in scenario.topics:
        async with asyncio.timeout(PATIENCE_S):
            everything = await client.create_reader(topic, MessageId.earliest)
            got = await _rest(everything)
            await everything.close()
            last = await client.create_reader(
                topic, MessageId.latest, start_message_id_inclusive=True
            )
            end = await _rest(last)
            await last.close()
        assert sent.issuperset(got), f"I6: a reader of {topic} got what was never sent"
        # What is acked everywhere may be trimmed between the two.
        assert end in ([], got[-1:]), f"I3: {end} is the end of {topic}, and not {got[-1:]}"
    await client.close()


async def _rest(reader: Reader) -> list[bytes]:
    got: list[bytes] = []
    while await reader.has_message_available():
        got.append((await reader.read_next(READ_MS)).data())
    return got


async def desert(simulation: Simulation, scenario: Scenario) -> None:
    """Publishes two chunks of a message of three, and is gone."""
    topic = scenario.topics[-1]
    reader, writer = await asyncio.open_connection("127.0.0.1", simulation.broker.port)
    connection = Connection()

    async def hear(kind: type) -> None:
        while True:
            while (command := connection.next_command()) is not None:
                if isinstance(command, kind):
                    return
            connection.receive_data(await reader.read(1 << 16))

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
