"""Producers that say another number of messages than they send, and what of it reaches whom."""

import tracemalloc
from typing import Any

import pytest
from support.wire_client import Earliest, Exclusive, KeyShared, Shared, WireProducer, but, refused
from support.world import World

from magnetar.broker.topic.persistent_topic import PersistentTopic
from magnetar.broker.topic.skip.skip import Skip
from magnetar.model import CompressionType, Position, ServerError
from magnetar.protocol import (
    CommandMessage,
    CommandSend,
    EncryptionKeys,
    SingleMessage,
    compress,
    encode_batch,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.wire.ack_set import BATCH_SIZE_MAX

NOT_ALLOWED = ServerError.NotAllowedError
TYPES = (Exclusive, Shared, KeyShared)


def lie(producer: WireProducer, count: int, payload: bytes = b"x", **metadata: Any) -> int:
    """SEND of an entry that says it has `count` messages; its sequence id."""
    producer.sequence_id += 1
    sequence_id = producer.sequence_id
    entry = producer.entry(payload, sequence_id, num_messages_in_batch=count, **metadata)
    producer.client.say(CommandSend(producer.id, sequence_id, entry, 1))
    return sequence_id


def store_lie(world: World, count: int, payload: bytes = b"x", **metadata: Any) -> None:
    """Stores an entry that lies, as a broker did that believed everything."""
    topic = world.topic("t")
    assert isinstance(topic, PersistentTopic)
    entry = WireProducer(world.connect(), 1, "t").entry(
        payload, 0, num_messages_in_batch=count, **metadata
    )
    position = world.store.append(topic.id, entry, batch_size=count, publish_time_ms=1)
    world.host.kick()
    topic.wait_for(world.store.ticket_last).when_done(
        lambda error: topic.have_stored(position, count, len(entry))
    )
    world.settle()


# ---- Publishing ------------------------------------------------------------------


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
@pytest.mark.parametrize("count", [0, -1, 2, 1000, BATCH_SIZE_MAX, 2**31 - 1])
def test_a_lie_is_refused_and_everything_else_survives_it(
    world: World, domain: str, count: int
) -> None:
    client = world.connect()
    topic = f"{domain}://public/default/t"
    consumer = client.subscribe(topic, "sub", Shared)
    consumer.flow(100)
    producer = client.producer(topic)
    producer.publish("a", "b")
    lie(producer, count)
    producer.publish("c")
    assert client.send_answers() == [(0, None), (2, NOT_ALLOWED), (3, None)]
    assert not client.hung_up
    assert consumer.payloads() == ["a", "b", "c"]
    assert world.broker.batches_refused == 1


def test_the_refusal_says_what_is_wrong_and_what_to_do(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    lie(producer, 2, encode_batch([SingleMessage(b"a")]))
    error = client.one(pb.CommandSendError)
    assert "a batch of 2 messages that it does not have" in error.message
    assert error.message.endswith("send what num_messages_in_batch says")


def test_answers_keep_their_order_while_the_disk_is_slow(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    world.hold_disk()
    producer.publish("a")
    lie(producer, BATCH_SIZE_MAX)
    producer.publish("b")
    assert client.send_answers() == []
    world.release_disk()
    assert client.send_answers() == [(0, None), (1, NOT_ALLOWED), (2, None)]


def test_the_sequence_id_of_a_lie_is_free_for_the_truth(world: World) -> None:
    world.set_policy("deduplicationEnabled", True)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    producer.send("a")
    refused_id = lie(producer, 1000)
    assert client.send_answers() == [(refused_id, NOT_ALLOWED)]
    truth = producer.send("b", "c", sequence_id=refused_id)
    assert truth.entry_id == 1
    assert producer.send("b", "c", sequence_id=refused_id).entry_id == -1, "it is a duplicate now"


@pytest.mark.parametrize("kind", [CompressionType.LZ4, CompressionType.ZSTD])
def test_a_compressed_lie_is_refused_and_the_truth_is_not(
    world: World, kind: CompressionType
) -> None:
    client = world.connect()
    producer = client.producer("t")
    payload = encode_batch([SingleMessage(b"a"), SingleMessage(b"b")])
    fields = {"compression": int(kind), "uncompressed_size": len(payload)}
    lie(producer, 3, compress(kind, payload), **fields)
    lie(producer, 2, compress(kind, payload), **fields)
    assert client.send_answers() == [(0, NOT_ALLOWED), (1, None)]


def test_an_encrypted_lie_is_refused_as_far_as_its_size_tells(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    keys = [EncryptionKeys("k", b"v", [])]
    lie(producer, 11, bytes(60), encryption_keys=keys)
    lie(producer, 10, bytes(60), encryption_keys=keys)
    assert client.send_answers() == [(0, NOT_ALLOWED), (1, None)]


def test_a_chunk_that_says_it_is_a_batch_is_refused(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    payload = encode_batch([SingleMessage(b"a")])
    lie(producer, 1, payload, uuid="u", chunk_id=0, num_chunks_from_msg=2, total_chunk_msg_size=99)
    (error,) = client.take(pb.CommandSendError)
    assert "chunks are not batched" in error.message
    assert len(world.topic("t").chunk_map) == 0


# ---- What is stored already ------------------------------------------------------


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("count", [1000, BATCH_SIZE_MAX, 2**31 - 1])
def test_lies_on_the_disk_starve_nobody_of_permits(world: World, type: int, count: int) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", type, initialPosition=Earliest)
    for _ in range(5):
        store_lie(world, count)
    client.producer("t").send("honest")
    consumer.flow(6)
    entries = client.take(CommandMessage)
    assert len(entries) == 6, "a lie costs one permit"
    for entry in entries[:5]:
        consumer.acked(entry.message_id)
    assert world.subscription("t", "sub").cursor.unacked_entries() == 1


@pytest.mark.parametrize("count", [BATCH_SIZE_MAX, 2**31 - 1])
def test_a_lie_that_a_consumer_holds_counts_as_one_unacked_message(
    world: World, count: int
) -> None:
    consumer = world.connect().subscribe("t", "sub", Shared, initialPosition=Earliest)
    store_lie(world, count)
    consumer.flow(10)
    assert len(consumer.client.take(CommandMessage)) == 1
    (holder,) = world.subscription("t", "sub").consumers
    assert (holder.unacked, holder.permits, holder.blocked) == (1, 9, False)


def test_a_well_compressed_batch_costs_all_its_messages(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared, initialPosition=Earliest)
    payload = encode_batch([SingleMessage(b"") for _ in range(1000)])
    packed = compress(CompressionType.ZSTD, payload)
    assert len(packed) < 500
    fields = {"compression": int(CompressionType.ZSTD), "uncompressed_size": len(payload)}
    lie(client.producer("t"), 1000, packed, **fields)
    assert client.send_answers() == [(0, None)]
    consumer.flow(1001)
    (holder,) = world.subscription("t", "sub").consumers
    assert (holder.unacked, holder.permits) == (1000, 1)


def test_an_index_of_a_lie_beyond_all_batches_cannot_be_acked(world: World) -> None:
    consumer = world.connect().subscribe("t", "sub", Shared, initialPosition=Earliest)
    store_lie(world, 2**31 - 1)
    consumer.flow(10)
    (message,) = consumer.client.take(CommandMessage)
    with refused(NOT_ALLOWED, "a batch of 2147483647 messages"):
        consumer.acked(but(message.message_id, 64, 0))
    consumer.acked(message.message_id)


# ---- The operator's way out ------------------------------------------------------


@pytest.mark.parametrize("magnetar", [True, False], ids=["knows WITHDRAW", "does not"])
@pytest.mark.parametrize("count", [1000, BATCH_SIZE_MAX, 2**31 - 1])
def test_a_lie_is_skipped_by_its_id_whole_though_a_consumer_holds_it(
    world: World, magnetar: bool, count: int
) -> None:
    flags = pb.FeatureFlags(supports_magnetar=magnetar)
    client = world.connect(feature_flags=flags)
    consumer = client.subscribe("t", "sub", Shared, initialPosition=Earliest)
    store_lie(world, count)
    client.producer("t").send("honest")
    consumer.flow(10)
    lying, honest = client.take(CommandMessage)
    skip = Skip([world.topic("t")], "sub", [lying.message_id], recall=True)
    assert not skip.plan_piece()
    tracemalloc.start()
    world.done(skip.carry_out())
    recalled = skip.recalled(100)
    world.settle()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20, "a bitset of 2^31 bits would be 256 MiB"
    world.advance(100)
    assert recalled.done
    cursor = world.subscription("t", "sub").cursor
    assert cursor.unacked_entries() == 1
    assert not cursor.is_acked(Position(honest.message_id.ledger_id, honest.message_id.entry_id))


def test_a_lie_in_front_of_an_exclusive_consumer_is_skipped_by_number(world: World) -> None:
    consumer = world.connect().subscribe("t", "sub", Exclusive, initialPosition=Earliest)
    store_lie(world, 2**31 - 1)
    consumer.client.producer("t").send("honest")
    world.done(world.subscription("t", "sub").skip(1))
    assert consumer.receive() == ["honest"]
