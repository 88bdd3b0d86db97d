"""The real broker and wire-level clients on the simulated loop: several lives under a seed.

Producers and consumers stand outside the broker's process and come back whenever their
connection ends. The broker is killed or loses power between any two callbacks, connections
are cut, the disk stalls. The oracle holds what clients were told: a message with a receipt
is delivered until it is acked (I1, I3), one whose ack has a receipt never again (I2), and no
id names two messages (I9).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.model import AckType, ConsumerType, InitialPosition
from magnetar.protocol import (
    PROTOCOL_VERSION,
    Command,
    CommandAck,
    CommandAckResponse,
    CommandFlow,
    CommandMessage,
    CommandSend,
    CommandSendReceipt,
    Connection,
    MessageMetadata,
    UnknownCommand,
    encode,
    encode_entry,
    split_entry,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.testing import DiskFaults, SimBroker, SimDisk, SimLoop

TOPIC = "persistent://public/default/t"
LIVES = 3
FAULTS = DiskFaults(stall_share=0.01, stall_s_max=1.0)
SETTINGS = BrokerSettings(segment_bytes=1 << 20, watermark_bytes=0, ledger_entries_max=20)
PRODUCERS = 2
CONSUMERS = 2
PERMITS = 10
IN_FLIGHT = 5
# What the last life, in which nothing fails, has for the rest.
PATIENCE_S = 300


class Gone(Exception):
    """The connection ended, or the broker would not serve us now."""


class Oracle:
    def __init__(self) -> None:
        self.sent: dict[bytes, None] = {}
        self.receipted: dict[bytes, tuple[int, int]] = {}
        self.acked: dict[bytes, None] = {}
        # Acked, but the answer may have been lost with the connection.
        self.acks_sent: dict[bytes, None] = {}
        self.deliveries = 0
        self.named: dict[tuple[int, int], bytes] = {}
        self.publishing = True

    def name(self, key: tuple[int, int], payload: bytes) -> None:
        assert self.named.setdefault(key, payload) == payload, f"{key} names two messages"

    def is_done(self) -> bool:
        return all(payload in self.acks_sent for payload in self.receipted)


class WireClient(asyncio.Protocol):
    """A connection to the broker, command by command."""

    def __init__(self) -> None:
        self._connection = Connection()
        self._commands: asyncio.Queue[Command | UnknownCommand | None] = asyncio.Queue()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._connection.receive_data(data)
        while (command := self._connection.next_command()) is not None:
            self._commands.put_nowait(command)

    def connection_lost(self, exc: Exception | None) -> None:
        self._commands.put_nowait(None)

    def send(self, command: Command) -> None:
        self._transport.write(encode(command))

    def close(self) -> None:
        self._transport.close()

    async def next(self) -> Command | UnknownCommand:
        """The next command that is not for the connection itself."""
        while True:
            command = await self._commands.get()
            if command is None or isinstance(command, (pb.CommandError, pb.CommandSendError)):
                raise Gone
            if isinstance(command, (pb.CommandCloseProducer, pb.CommandCloseConsumer)):
                raise Gone
            if isinstance(command, pb.CommandPing):
                self.send(pb.CommandPong())
            elif not isinstance(command, pb.CommandPong):
                return command

    async def ask(self, command: Command, answer: type) -> None:
        self.send(command)
        while not isinstance(await self.next(), answer):
            pass


class World:
    """The clients, and what they know."""

    def __init__(self, loop: SimLoop, oracle: Oracle, port: int) -> None:
        self.loop = loop
        self.oracle = oracle
        self.port = port
        self.random = loop.random_for("clients")
        self.subscribed = asyncio.Event()

    async def client(self, work: Callable[[WireClient], Awaitable[None]]) -> None:
        """Does its work on one connection after the other."""
        while True:
            with contextlib.suppress(OSError, Gone):
                _, client = await self.loop.create_connection(WireClient, "localhost", self.port)
                assert isinstance(client, WireClient)
                try:
                    hello = pb.CommandConnect(
                        client_version="sim", protocol_version=PROTOCOL_VERSION
                    )
                    await client.ask(hello, pb.CommandConnected)
                    await work(client)
                finally:
                    client.close()
            await asyncio.sleep(0.01 + self.random.random() * 0.05)

    async def produce(self, client: WireClient, name: str) -> None:
        await self.subscribed.wait()
        create = pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=1)
        await client.ask(create, pb.CommandProducerSuccess)
        oracle = self.oracle
        waiting: dict[int, bytes] = {}
        sequence_id = 0
        while oracle.publishing or waiting:
            while oracle.publishing and len(waiting) < IN_FLIGHT:
                payload = f"{name} {len(oracle.sent)}".encode()
                oracle.sent[payload] = None
                waiting[sequence_id] = payload
                metadata = MessageMetadata(name, sequence_id, self.loop.clock_ms())
                entry = encode_entry(metadata.encode(), payload)
                client.send(CommandSend(1, sequence_id, entry))
                sequence_id += 1
            receipt = await client.next()
            assert isinstance(receipt, CommandSendReceipt)
            assert receipt.message_id is not None
            payload = waiting.pop(receipt.sequence_id)
            key = (int(receipt.message_id.ledger_id), int(receipt.message_id.entry_id))
            oracle.receipted[payload] = key
            oracle.name(key, payload)
            self.loop.note("receipt", f"{key[0]}:{key[1]}")
            await asyncio.sleep(self.random.random() * 0.01)
        while True:
            await client.next()

    async def consume(self, client: WireClient) -> None:
        subscribe = pb.CommandSubscribe(
            topic=TOPIC,
            subscription="s",
            subType=ConsumerType.Shared,
            consumer_id=1,
            request_id=1,
            initialPosition=InitialPosition.Earliest,
        )
        await client.ask(subscribe, pb.CommandSuccess)
        self.subscribed.set()
        client.send(CommandFlow(1, PERMITS))
        waiting: dict[int, bytes] = {}
        while True:
            command = await client.next()
            if isinstance(command, CommandMessage):
                payload = self._take(command)
                request_id = 10 + self.oracle.deliveries
                waiting[request_id] = payload
                self.oracle.acks_sent[payload] = None
                client.send(
                    CommandAck(1, AckType.Individual, [command.message_id], request_id=request_id)
                )
                client.send(CommandFlow(1, 1))
            elif isinstance(command, CommandAckResponse):
                assert command.request_id is not None
                payload = waiting.pop(command.request_id)
                if command.error is None:
                    self.oracle.acked[payload] = None
                    self.loop.note("acked", payload.decode())

    def _take(self, command: CommandMessage) -> bytes:
        oracle = self.oracle
        payload = split_entry(command.entry).payload()
        assert payload in oracle.sent
        assert payload not in oracle.acked, f"{payload!r} was acked and came back"
        oracle.name((int(command.message_id.ledger_id), int(command.message_id.entry_id)), payload)
        oracle.deliveries += 1
        return payload


async def live(loop: SimLoop, oracle: Oracle, disk_class: type[SimDisk]) -> None:
    random = loop.random_for("life")
    broker = SimBroker(loop, SETTINGS, disk_class=disk_class)
    broker.faults = FAULTS
    world = World(loop, oracle, broker.port)
    clients = [
        asyncio.create_task(world.client(partial(world.produce, name=f"p{i}")))
        for i in range(PRODUCERS)
    ]
    clients += [asyncio.create_task(world.client(world.consume)) for _ in range(CONSUMERS)]
    for _ in range(LIVES):
        await broker.start()
        await _disturb(loop, random)
        broker.crash(power_loss=random.random() < 0.7)
        _raise_errors(clients)
    broker.faults = DiskFaults()
    await broker.start()
    oracle.publishing = False
    async with asyncio.timeout(PATIENCE_S):
        while not oracle.is_done():
            await asyncio.sleep(0.1)
            _raise_errors(clients)
    for task in clients:
        task.cancel()
    await asyncio.wait(clients)
    await asyncio.sleep(1)
    await broker.stop()


async def _disturb(loop: SimLoop, random: Random) -> None:
    """A while, in which connections are cut."""
    for _ in range(random.randrange(1, 4)):
        await asyncio.sleep(random.random() * 0.3)
        connections = list(loop.network.connections.values())
        if connections and random.random() < 0.5:
            random.choice(connections).cut()


def _raise_errors(tasks: "list[asyncio.Task[None]]") -> None:
    for task in tasks:
        if task.done():
            task.result()


def run_seed(seed: int, disk_class: type[SimDisk] = SimDisk) -> tuple[SimLoop, Oracle]:
    oracle = Oracle()
    with SimLoop(seed) as loop:
        loop.run(live(loop, oracle, disk_class))
    return loop, oracle
