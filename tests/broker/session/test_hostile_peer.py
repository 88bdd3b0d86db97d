"""Peers that misbehave (I8): only their own connection suffers, and the log says why once."""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import example, given
from hypothesis import strategies as st
from support.wire_client import Shared, WireClient, WireConsumer
from support.world import World

from magnetar.broker.setting.setting import MIB
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.server import BrokerServer
from magnetar.model import SchemaType, TopicName
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    CommandAck,
    CommandFlow,
    CommandMessage,
    CommandSend,
    CommandSendReceipt,
    Connection,
    MessageMetadata,
    encode,
    encode_entry,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage.catalog.catalog import Catalog
from magnetar.storage.disk.memory_disk import MemoryDisk

CONNECT = pb.CommandConnect(client_version="x", protocol_version=21)


def frame(base: bytes) -> bytes:
    """A frame around what claims to be a BaseCommand."""
    return (len(base) + 4).to_bytes(4, "big") + len(base).to_bytes(4, "big") + base


@contextmanager
def bystander(world: World) -> Iterator[WireClient]:
    """Somebody else on the same broker, who must not notice anything."""
    client = world.connect()
    consumer = client.subscribe("bystander", "sub", Shared)
    producer = client.producer("bystander")
    before = producer.send("before")
    yield client
    producer.send("after")
    assert consumer.receive() == ["before", "after"]
    consumer.acked(before)
    assert not client.hung_up


# ---- Bytes that are nothing ------------------------------------------------------


@given(data=st.binary(max_size=200), greet=st.booleans())
@example(data=b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", greet=False)
@example(data=b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", greet=False)
@example(data=b"\x00\x00\x00\x00" * 3, greet=True)
@example(data=b"\xff" * 20, greet=True)
def test_random_bytes_harm_only_their_sender(data: bytes, greet: bool) -> None:
    world = World()
    with bystander(world):
        peer = world.connect(greet=greet)
        peer.say_bytes(data)
        assert len(world.host.warnings) == (1 if peer.hung_up else 0)
        said = len(peer.received)
        peer.say_bytes(data)  # whatever comes behind is not heard
        if peer.hung_up:
            assert len(peer.received) == said
            assert len(world.host.warnings) == 1


COMMANDS: list[Any] = [
    CONNECT,
    pb.CommandLookupTopic(topic="t", request_id=1),
    pb.CommandPartitionedTopicMetadata(topic="t", request_id=2),
    pb.CommandProducer(topic="t", producer_id=1, request_id=3, producer_name="p"),
    pb.CommandSubscribe(topic="t", subscription="s", subType=1, consumer_id=1, request_id=4),
    CommandFlow(1, 100),
    CommandSend(1, 0, encode_entry(MessageMetadata("p", 0, 1).encode(), b"payload")),
    CommandAck(1, 0, [MessageIdData(3, 0, -1, -1, 5, 3)], 5),
    CommandAck(1, 1, [MessageIdData(3, 0)], 6),
    pb.CommandSeek(consumer_id=1, request_id=7, message_publish_time=5),
    pb.CommandGetLastMessageId(consumer_id=1, request_id=8),
    pb.CommandConsumerStats(consumer_id=1, request_id=9),
    pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1),
    pb.CommandUnsubscribe(consumer_id=1, request_id=10),
    pb.CommandCloseProducer(producer_id=1, request_id=11),
    pb.CommandCloseConsumer(consumer_id=1, request_id=12),
    pb.CommandGetTopicsOfNamespace(namespace="public/default", request_id=13),
    pb.CommandWatchTopicList(
        namespace="public/default", request_id=14, watcher_id=1, topics_pattern=".*"
    ),
    pb.CommandGetSchema(topic="t", request_id=15),
    pb.CommandGetOrCreateSchema(
        topic="t",
        request_id=16,
        schema=pb.Schema(name="s", schema_data=b"x", type=SchemaType.String),
    ),
    pb.CommandPing(),
    pb.CommandPong(),
    pb.CommandSuccess(request_id=17),
    pb.CommandAuthResponse(),
]


@given(st.data())
def test_damaged_commands_harm_only_their_sender(data: st.DataObject) -> None:
    world = World()
    with bystander(world):
        peer = world.connect()
        for _ in range(data.draw(st.integers(1, 6))):
            frames = bytearray(encode(data.draw(st.sampled_from(COMMANDS))))
            for _ in range(data.draw(st.integers(0, 2))):
                at = data.draw(st.integers(0, len(frames) - 1))
                frames[at] = data.draw(st.integers(0, 255))
            peer.say_bytes(bytes(frames))
        world.advance(10_000)
        assert len(world.host.warnings) <= 1


@given(st.lists(st.sampled_from(COMMANDS[1:]), max_size=25))
def test_commands_in_any_order_harm_only_their_sender(commands: list[Any]) -> None:
    world = World()
    with bystander(world):
        peer = world.connect()
        for command in commands:
            peer.say(command)
        world.advance(10_000)
        assert len(world.host.warnings) == (1 if peer.hung_up else 0)


@given(st.lists(st.sampled_from(COMMANDS[1:]), max_size=15), st.integers(1, 40))
def test_bytes_may_be_cut_anywhere(commands: list[Any], size: int) -> None:
    whole, cut = World(), World()
    stream = b"".join(encode(command) for command in commands)
    one, two = whole.connect(), cut.connect()
    one.say_bytes(stream)
    for first in range(0, len(stream), size):
        two.session.receive(stream[first : first + size])
    cut.settle()
    assert [repr(c) for c in one.received if isinstance(c, Message)] == [
        repr(c) for c in two.received if isinstance(c, Message)
    ]
    assert one.hung_up == two.hung_up


# ---- Frames ----------------------------------------------------------------------


def test_an_oversized_frame_closes_before_it_is_all_there() -> None:
    world = World(message_size_max=1024)
    with bystander(world):
        peer = world.connect()
        peer.say_bytes((1024 + 10240 + 1).to_bytes(4, "big") + bytes(100))
        assert peer.hung_up
        assert "frame" in world.host.warnings[0]


def test_the_largest_frame_is_taken() -> None:
    world = World(message_size_max=1024)
    client = world.connect()
    client.producer("t").send("x" * 11_000)
    assert not client.hung_up


@pytest.mark.parametrize(
    "base",
    [
        b"",
        b"\x08",
        b"\x08\x12",  # PING without its sub-message
        b"\x08\x12\x92\x01\x05",  # a sub-message that is cut off
        b"\x08\x04\x22\x00",  # SUBSCRIBE without any of its required fields
        b"\x08\x05\x2a\x03\x0a\x01t",  # PRODUCER without ids
        b"\x08\x06\x32\x02\x08\x01",  # SEND without a sequence id
        b"\x08\x0a\x52\x02\x08\x01",  # ACK without a type
        b"\x08\x0b\x5a\x02\x08\x01",  # FLOW without permits
        b"\x08\x1c\xe2\x01\x02\x08\x01",  # SEEK without a request id
        b"\x08\x17\xba\x01\x04\x0a\x02\xff\xfe",  # LOOKUP of what is not text
    ],
)
def test_commands_without_what_they_need_close(world: World, base: bytes) -> None:
    with bystander(world):
        peer = world.connect()
        peer.say_bytes(frame(base))
        assert peer.hung_up
        assert len(world.host.warnings) == 1
        assert "invalid bytes" in world.host.warnings[0]


def test_a_command_that_is_larger_than_its_frame_closes(world: World) -> None:
    peer = world.connect()
    peer.say_bytes((9).to_bytes(4, "big") + (500).to_bytes(4, "big") + bytes(5))
    assert peer.hung_up


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"\x0e\x01",
        b"\x0e\x01\x00\x00\x00\x00\xff\xff\xff\xff",
        bytes(100),
        encode_entry(b"", b"x"),
        encode_entry(b"\x0a\x01p", b"x"),
    ],
)
@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_an_entry_that_is_none_closes_and_is_not_stored(
    world: World, entry: bytes, domain: str
) -> None:
    with bystander(world):
        peer = world.connect()
        topic = f"{domain}://public/default/t"
        producer = peer.producer(topic)
        peer.say(CommandSend(producer.id, 0, entry))
        assert peer.hung_up
        assert world.topic(topic).incoming.messages == 0
        assert len(world.host.warnings) == 1


def test_an_entry_of_a_producer_whose_name_is_no_text_does_not_spoil_the_topic() -> None:
    world = World(deduplication=True)
    peer = world.connect()
    peer.subscribe("t", "sub")
    producer = peer.producer("t", producer_name="p")
    producer.send("good")
    metadata = MessageMetadata("?", 1, 1).encode().replace(b"?", b"\xff")
    peer.say(CommandSend(producer.id, 1, encode_entry(metadata, b"bad name")))
    world.crash()
    client = world.connect()
    assert client.producer("t", producer_name="p").success.last_sequence_id == 0
    consumer = client.subscribe("t", "sub")
    consumer.flow(1)
    assert consumer.payloads() == ["good"]


# ---- Ids and numbers -------------------------------------------------------------

EDGES = [0, 1, -1, -2, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, -(1 << 63)]


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
@pytest.mark.parametrize("type", range(4))
def test_ids_at_the_edges_are_refused_or_fine_and_nobody_else_notices(
    world: World, domain: str, type: int
) -> None:
    topic = f"{domain}://public/default/t"
    with bystander(world):
        peer = world.connect()
        consumer = peer.subscribe(topic, "sub", type)
        producer = peer.producer(topic)
        real = producer.send("a", "b")
        consumer.flow(1)
        for ledger in (*EDGES, int(real.ledger_id)):
            for entry in EDGES:
                for ack_set in (None, 0, 1, (1 << 64) - 1):
                    id = MessageIdData(ledger, entry, -1, -1, ack_set)
                    for cumulative in (False, True):
                        request_id = consumer.ask_ack(id, cumulative=cumulative)
                        assert consumer.receipt(request_id) is not None
                consumer.redeliver(MessageIdData(ledger, entry))
        for ledger, entry in ((-1, 5), (5, -1), (1 << 62, 1 << 62), (-(1 << 63), -(1 << 63))):
            peer.request_or_refusal(consumer.seek_command(MessageIdData(ledger, entry)))
            peer.subscribe(topic, "sub", type, consumer_id=consumer.id)
            for index in (-5, 0, 1, 1 << 30):
                id = MessageIdData(ledger, entry, -1, index, None, 7)
                peer.request_or_refusal(consumer.seek_command(id))
                peer.subscribe(topic, "sub", type, consumer_id=consumer.id)
            reader = WireConsumer(peer, 77, topic)
            command = reader.command("reader", 0, durable=False, start=MessageIdData(ledger, entry))
            peer.request_or_refusal(command)
            reader.close()
        assert not peer.hung_up
        assert not world.host.warnings


def test_producer_and_consumer_ids_may_be_any_number(world: World) -> None:
    peer = world.connect()
    for id in (0, 1, (1 << 63), (1 << 64) - 1):
        producer = peer.producer("t", producer_id=id)
        consumer = peer.subscribe("t", f"sub{id}", consumer_id=id)
        producer.id, consumer.id = producer.id - (id >> 63 << 64), consumer.id - (id >> 63 << 64)
        producer.send("a")
        assert consumer.receive(5) == ["a"]
        producer.id = consumer.id = id
        producer.close()
        consumer.close()


def test_permits_that_never_end_are_fine(world: World) -> None:
    peer = world.connect()
    consumer = peer.subscribe("t", "sub", Shared)
    for _ in range(10):
        consumer.flow((1 << 32) - 1)
    peer.producer("t").send("a")
    assert consumer.payloads() == ["a"]


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandSubscribe(
            topic="t",
            subscription="s",
            subType=0,
            consumer_id=1,
            request_id=1,
            start_message_rollback_duration_sec=(1 << 64) - 1,
        ),
        pb.CommandSubscribe(
            topic="t",
            subscription="s" * 10_000,
            subType=3,
            consumer_id=1,
            request_id=1,
            keySharedMeta=pb.KeySharedMeta(keySharedMode=9),
        ),
        pb.CommandProducer(topic="t", producer_id=1, request_id=1, epoch=(1 << 64) - 1),
        pb.CommandProducer(topic="t", producer_id=1, request_id=1, topic_epoch=(1 << 64) - 1),
        pb.CommandProducer(topic="x" * 100_000, producer_id=1, request_id=1),
        pb.CommandProducer(topic="t/\x00", producer_id=1, request_id=1),
        pb.CommandGetSchema(topic="t", request_id=1, schema_version=b"\xff" * 50),
        pb.CommandGetOrCreateSchema(
            topic="t",
            request_id=1,
            schema=pb.Schema(name="s", schema_data=b"{", type=99),
        ),
        pb.CommandGetOrCreateSchema(
            topic="t",
            request_id=1,
            schema=pb.Schema(name="s", schema_data=b"\xff{", type=SchemaType.Avro),
        ),
        pb.CommandGetTopicsOfNamespace(namespace="no/such/namespace", request_id=1, mode=9),
        pb.CommandPartitionedTopicMetadata(topic="t-partition-99999999999999", request_id=1),
        pb.CommandSeek(consumer_id=(1 << 64) - 1, request_id=1),
        pb.CommandWatchTopicListClose(request_id=1, watcher_id=(1 << 64) - 1),
    ],
)
def test_absurd_requests_are_answered(world: World, command: Message) -> None:
    with bystander(world):
        peer = world.connect()
        assert peer.request_or_refusal(command) is not None
        assert not peer.hung_up


# ---- Sockets ---------------------------------------------------------------------


def run(work: Callable[[BrokerServer], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """A broker that listens, for as long as the work takes."""

    async def serve() -> None:
        known = {"segment_bytes": MIB, "watermark_bytes": 0} | settings
        server = BrokerServer(MemoryDisk(), Catalog, BrokerSettings(**known))
        await server.start()
        try:
            async with asyncio.timeout(30):
                await work(server)
        finally:
            await server.stop()

    asyncio.run(serve())


class Dialogue:
    """A connection over a socket, one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._connection = Connection()
        self.answers_pings = True

    @classmethod
    async def open(cls, server: BrokerServer, *, greet: bool = True) -> "Dialogue":
        found = cls(*await asyncio.open_connection("127.0.0.1", server.port))
        if greet:
            await found.say(CONNECT)
            await found.hear(pb.CommandConnected)
        return found

    async def say(self, *commands: Any) -> None:
        for command in commands:
            self._writer.write(encode(command))
        await self._writer.drain()

    async def hear(self, kind: type[Any]) -> Any:
        """The next command of this kind; others are passed over."""
        while True:
            while (command := self._connection.next_command()) is not None:
                if isinstance(command, kind):
                    return command
                if isinstance(command, pb.CommandPing) and self.answers_pings:
                    await self.say(pb.CommandPong())
            data = await self._reader.read(1 << 16)
            if not data:
                raise EOFError
            self._connection.receive_data(data)

    async def works(self, topic: str = "other") -> None:
        """Publishes and gets a receipt."""
        await self.say(pb.CommandProducer(topic=topic, producer_id=1, request_id=1))
        await self.hear(pb.CommandProducerSuccess)
        await self.say(CommandSend(1, 0, encode_entry(MessageMetadata("p", 0, 1).encode(), b"x")))
        await self.hear(CommandSendReceipt)
        await self.say(pb.CommandCloseProducer(producer_id=1, request_id=2))
        await self.hear(pb.CommandSuccess)

    def close(self) -> None:
        self._writer.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - nobody tells of what is looked at here
        await asyncio.sleep(0.005)


def test_a_peer_that_never_reads_has_little_waiting_and_disturbs_nobody() -> None:
    async def work(server: BrokerServer) -> None:
        good = await Dialogue.open(server)
        await good.say(pb.CommandProducer(topic="t", producer_id=5, request_id=9))
        await good.hear(pb.CommandProducerSuccess)
        lazy = socket.socket()
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(("127.0.0.1", server.port))
        lazy.sendall(
            encode(CONNECT)
            + encode(
                pb.CommandSubscribe(
                    topic="t",
                    subscription="s",
                    subType=1,
                    consumer_id=1,
                    request_id=1,
                )
            )
        )
        topic = server.broker.find(TopicName.parse("t"))
        await until(lambda: topic.consumer_count() == 1)
        lazy.sendall(encode(CommandFlow(1, 100_000)))
        link = list(server._links)[1]
        entry = encode_entry(MessageMetadata("p", 0, 1).encode(), b"x" * 500_000)
        for sequence_id in range(40):
            await good.say(CommandSend(5, sequence_id, entry))
            await good.hear(CommandSendReceipt)
        waiting = link.session.outbox_bytes + link._transport.get_write_buffer_size()
        assert waiting < 4 * MIB
        assert not link.session.writable
        # It asks on, and reads no answer either.
        lazy.setblocking(False)
        flood = encode(pb.CommandPing()) * 1000
        refusals = 0
        while refusals < 5:
            try:
                lazy.send(flood)
                refusals = 0
            except BlockingIOError:
                refusals += 1
            await asyncio.sleep(0.002)
        waiting = link.session.outbox_bytes + link._transport.get_write_buffer_size()
        assert waiting < 4 * MIB
        await good.works()
        lazy.close()
        await until(lambda: len(server._links) == 1)
        good.close()

    run(work, max_outbound_bytes_per_connection=2 * MIB)


def test_a_half_open_peer_is_dropped_and_the_log_says_why_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work(server: BrokerServer) -> None:
        silent = await Dialogue.open(server)
        silent.answers_pings = False
        mute = await Dialogue.open(server, greet=False)
        with pytest.raises(EOFError):
            await silent.hear(pb.CommandPong)
        with pytest.raises(EOFError):
            await mute.hear(pb.CommandPong)
        good = await Dialogue.open(server)
        await good.works()
        for peer in (silent, mute, good):
            peer.close()

    with caplog.at_level(logging.WARNING, "magnetar.broker"):
        run(work, keep_alive_ms=100)
    texts = [record.getMessage() for record in caplog.records]
    assert len([t for t in texts if "no answer to PING" in t]) >= 1
    assert len([t for t in texts if "no CONNECT" in t]) == 1
    assert len(texts) == len(set(texts))


def test_garbage_over_a_socket_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def work(server: BrokerServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n" * 50)
        assert await reader.read() == b""
        good = await Dialogue.open(server)
        await good.works()
        writer.close()
        good.close()

    with caplog.at_level(logging.WARNING, "magnetar.broker"):
        run(work)
    (record,) = caplog.records
    assert "invalid bytes" in record.getMessage()


def test_too_many_connections_are_refused_with_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def work(server: BrokerServer) -> None:
        first = await Dialogue.open(server)
        second = await Dialogue.open(server, greet=False)
        refusal = await second.hear(pb.CommandError)
        assert "1 connections" in refusal.message
        with pytest.raises(EOFError):
            await second.hear(pb.CommandError)
        await first.works()
        first.close()
        await until(lambda: not server._links)
        third = await Dialogue.open(server)
        third.close()
        second.close()

    with caplog.at_level(logging.WARNING, "magnetar.broker"):
        run(work, max_connections=1)
    assert len(caplog.records) == 1
    run(work, max_connections_per_ip=1)


def test_messages_reach_a_peer_whose_outbox_was_full() -> None:
    """Large entries fill an outbox at once; all arrive though no more permits come."""

    async def work(server: BrokerServer) -> None:
        good = await Dialogue.open(server)
        await good.say(
            pb.CommandSubscribe(
                topic="t",
                subscription="s",
                subType=1,
                consumer_id=1,
                request_id=1,
            )
        )
        await good.hear(pb.CommandSuccess)
        await good.say(pb.CommandProducer(topic="t", producer_id=5, request_id=9))
        await good.hear(pb.CommandProducerSuccess)
        entry = encode_entry(MessageMetadata("p", 0, 1).encode(), b"x" * 1_500_000)
        for sequence_id in range(10):
            await good.say(CommandSend(5, sequence_id, entry))
            await good.hear(CommandSendReceipt)
        await good.say(CommandFlow(1, 100))
        for _ in range(10):
            await good.hear(CommandMessage)
        good.close()

    run(work)
