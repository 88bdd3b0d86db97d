"""The official Python client on the other end of the wire: a codec nobody here wrote."""

from collections.abc import Iterator

import pulsar
import pytest
from support.wire_peer import LEDGER, WirePeer

from magnetar import ChunkMessageId, CompressionType, MessageId
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    MESSAGE_SIZE_MAX,
    MessageMetadata,
    SingleMessage,
    compress,
    decode_batch,
    decompress,
    encode_batch,
    encode_entry,
    plan_chunks,
    split_entry,
)

every_compression = pytest.mark.parametrize("kind", CompressionType, ids=lambda k: k.name)
COUNT = 10


def client_of(peer: WirePeer) -> pulsar.Client:
    return pulsar.Client(peer.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))


@pytest.fixture
def quiet_peer() -> Iterator[WirePeer]:
    with WirePeer() as peer:
        yield peer


def payload(i: int) -> bytes:
    return b"message %d " % i * 20


@every_compression
def test_we_read_its_batches(quiet_peer: WirePeer, kind: CompressionType) -> None:
    client = client_of(quiet_peer)
    producer = client.create_producer(
        "t",
        compression_type=getattr(pulsar.CompressionType, kind.name),
        batching_enabled=True,
        batching_max_messages=COUNT,
        batching_max_publish_delay_ms=10_000,
    )
    for i in range(COUNT):
        producer.send_async(
            payload(i),
            lambda *_: None,
            properties={"i": str(i), "ü": "é"},
            partition_key=f"key-{i}",
            ordering_key=f"order-{i}",
            event_timestamp=1000 + i,
        )
    quiet_peer.wait(lambda: len(quiet_peer.sent) == 1)
    producer.close()
    client.close()

    (send,) = quiet_peer.sent
    entry = split_entry(send.entry)
    metadata = entry.metadata()
    assert entry.checksum >= 0
    assert entry.intact()
    assert (metadata.producer_name, metadata.compression) == ("official", kind)
    assert send.num_messages == metadata.num_messages_in_batch == COUNT
    data = decompress(
        metadata.compression, entry.payload(), metadata.uncompressed_size, MESSAGE_SIZE_MAX
    )
    messages = decode_batch(data, COUNT)
    assert [m.payload for m in messages] == [payload(i) for i in range(COUNT)]
    assert [dict(m.properties or []) for m in messages] == [
        {"i": str(i), "ü": "é"} for i in range(COUNT)
    ]
    assert [m.partition_key for m in messages] == [f"key-{i}" for i in range(COUNT)]
    assert [m.ordering_key for m in messages] == [b"order-%d" % i for i in range(COUNT)]
    assert [m.event_time for m in messages] == list(range(1000, 1000 + COUNT))


def batch_entry(kind: CompressionType) -> bytes:
    messages = []
    for i in range(COUNT):
        message = SingleMessage(payload(i), i)
        message.properties = [("i", str(i))]
        message.partition_key = f"key-{i}"
        messages.append(message)
    data = encode_batch(messages)
    metadata = MessageMetadata("ours", 0, 1_790_000_000_000)
    metadata.num_messages_in_batch = COUNT
    metadata.compression = kind
    metadata.uncompressed_size = len(data)
    return encode_entry(metadata.encode(), compress(kind, data))


@every_compression
def test_it_reads_our_batches_and_hides_what_is_acked(kind: CompressionType) -> None:
    message_id = MessageIdData(LEDGER, 3)
    unacked = [0, 2, 3, 7, 9]
    ack_set = sum(1 << i for i in unacked)
    with WirePeer([(message_id, batch_entry(kind), ack_set)]) as peer:
        client = client_of(peer)
        consumer = client.subscribe("t", "s", batch_index_ack_enabled=True)
        got = [consumer.receive(20_000) for _ in unacked]
        assert [m.data() for m in got] == [payload(i) for i in unacked]
        assert [m.properties() for m in got] == [{"i": str(i)} for i in unacked]
        assert [m.partition_key() for m in got] == [f"key-{i}" for i in unacked]
        assert [str(m.message_id()) for m in got] == [
            str(MessageId(-1, LEDGER, 3, i)) for i in unacked
        ]
        ours = MessageId.deserialize(got[1].message_id().serialize())
        assert (ours, ours.batch_size()) == (MessageId(-1, LEDGER, 3, 2), COUNT)
        client.close()


def test_we_read_its_acks_of_single_indexes() -> None:
    message_id = MessageIdData(LEDGER, 3)
    with WirePeer([(message_id, batch_entry(CompressionType.NONE), None)]) as peer:
        client = client_of(peer)
        consumer = client.subscribe(
            "t", "s", consumer_type=pulsar.ConsumerType.Shared, batch_index_ack_enabled=True
        )
        got = [consumer.receive(20_000) for _ in range(COUNT)]
        consumer.acknowledge(got[1])
        consumer.acknowledge(got[4])
        left = (1 << COUNT) - 1
        for index in (1, 4):
            left &= ~(1 << index)
        # It may send one ack or two: what stays unacked is what all of them left.
        peer.wait(lambda: remaining(peer) == left)
        (position,) = {(i.ledger_id, i.entry_id) for a in peer.acks for i in a.message_ids}
        assert position == (LEDGER, 3)
        client.close()


def remaining(peer: WirePeer) -> int:
    left = (1 << COUNT) - 1
    for ack in peer.acks:
        for message_id in ack.message_ids:
            left &= message_id.ack_set or 0
    return left


CHUNK_LIMIT = 20 * 1024
LARGE = bytes(i * 7 % 256 for i in range(100_000))


def test_we_read_its_chunks() -> None:
    with WirePeer(message_size_max=CHUNK_LIMIT) as peer:
        client = client_of(peer)
        producer = client.create_producer("t", batching_enabled=False, chunking_enabled=True)
        message_id = producer.send(LARGE)
        client.close()
    entries = [split_entry(send.entry) for send in peer.sent]
    chunks = [entry.metadata() for entry in entries]
    assert len(chunks) > 1
    assert all(send.is_chunk for send in peer.sent)
    assert [c.chunk_id for c in chunks] == list(range(len(chunks)))
    assert {c.num_chunks_from_msg for c in chunks} == {len(chunks)}
    assert {c.total_chunk_msg_size for c in chunks} == {len(LARGE)}
    assert {c.uuid for c in chunks} == {"official-0"}
    assert b"".join(entry.payload() for entry in entries) == LARGE
    ours = MessageId.deserialize(message_id.serialize())
    assert isinstance(ours, ChunkMessageId)
    assert str(ours) == str(message_id)
    assert ours.first_chunk_message_id().entry_id() == 0
    assert ours.entry_id() == len(chunks) - 1


def test_it_reassembles_our_chunks() -> None:
    metadata = MessageMetadata("ours", 0, 1_790_000_000_000)
    plan = plan_chunks(metadata, len(LARGE), message_size_max=CHUNK_LIMIT)
    deliveries: list[tuple[MessageIdData, bytes, int | None]] = []
    for chunk_id in range(plan.count):
        plan.label(metadata, chunk_id)
        part = LARGE[plan.first(chunk_id) : plan.first(chunk_id + 1)]
        entry = encode_entry(metadata.encode(), part)
        deliveries.append((MessageIdData(LEDGER, chunk_id), entry, None))
    with WirePeer(deliveries) as peer:
        client = client_of(peer)
        message = client.subscribe("t", "s").receive(20_000)
        assert message.data() == LARGE
        first, last = MessageId(-1, LEDGER, 0), MessageId(-1, LEDGER, plan.count - 1)
        assert str(message.message_id()) == str(ChunkMessageId(first, last))
        client.close()


def test_it_believes_our_checksums_and_catches_damage() -> None:
    entry = encode_entry(MessageMetadata("ours", 0, 1).encode(), b"payload")
    damaged = entry[:-1] + bytes([entry[-1] ^ 1])
    sound_id, damaged_id = MessageIdData(LEDGER, 1), MessageIdData(LEDGER, 0)
    with WirePeer([(damaged_id, damaged, None), (sound_id, entry, None)]) as peer:
        client = client_of(peer)
        consumer = client.subscribe("t", "s")
        message = consumer.receive(20_000)
        assert (message.data(), message.message_id().entry_id()) == (b"payload", 1)
        peer.wait(lambda: any(a.validation_error == 2 for a in peer.acks))
        client.close()
