"""Batches that lie: how many messages an entry can have, against how many it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import mutations

from magnetar.errors import RemoteProtocolError
from magnetar.model import CompressionType
from magnetar.protocol import (
    BatchWriter,
    EncryptionKeys,
    MessageMetadata,
    SingleMessage,
    batch_fault,
    compress,
    decode_batch,
    encode_batch,
    encode_entry,
    entry_facts,
    messages_charged,
    split_entry,
    unpacked_size,
    with_broker_metadata,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.entry import BrokerEntryMetadata
from magnetar.protocol.payload.batch_claim import DECOMPRESS_BYTES_MAX
from magnetar.protocol.payload.batch_walk import walk_batch
from magnetar.wire.ack_set import BATCH_SIZE_MAX, MESSAGE_BYTES_MIN

PACKED = [kind for kind in CompressionType if kind != CompressionType.NONE]


def batch_of(*payloads: bytes) -> bytes:
    return encode_batch([SingleMessage(payload, i) for i, payload in enumerate(payloads)])


def fault(
    payload: bytes,
    count: int,
    *,
    compression: int = 0,
    uncompressed_size: int = 0,
    encrypted: bool = False,
    chunks: int | None = None,
) -> str:
    metadata = MessageMetadata("p", 5, 1000)
    metadata.num_messages_in_batch = count
    metadata.compression = compression
    metadata.uncompressed_size = uncompressed_size
    metadata.num_chunks_from_msg = chunks
    if encrypted:
        metadata.encryption_keys = [EncryptionKeys("k", b"v", [])]
    entry = split_entry(encode_entry(metadata.encode(), payload))
    return batch_fault(entry, entry_facts(entry))


def packed_fault(payload: bytes, count: int, kind: CompressionType) -> str:
    packed = compress(kind, payload)
    return fault(packed, count, compression=kind, uncompressed_size=len(payload))


# ---- Uncompressed: walked --------------------------------------------------------


def test_a_batch_that_says_what_it_has_is_fine() -> None:
    for size in (1, 2, 10, 500):
        assert fault(batch_of(*[bytes(i) for i in range(size)]), size) == ""


@pytest.mark.parametrize("wrong", [2, 4, 5, 1000, BATCH_SIZE_MAX])
def test_a_batch_of_three_that_says_another_number_is_refused(wrong: int) -> None:
    """apache/pulsar#6806: a count that is wrong kills the C++ client of every consumer."""
    assert fault(batch_of(b"a", b"b", b"c"), wrong) != ""


@pytest.mark.parametrize("count", [0, -1, -(2**31), BATCH_SIZE_MAX + 1, 2**31 - 1])
def test_a_number_that_no_batch_has_is_refused(count: int) -> None:
    reason = fault(batch_of(b"a"), count)
    assert reason == f"a batch of {count} messages: it has from 1 to {BATCH_SIZE_MAX}"


def test_one_byte_is_no_batch_of_a_million() -> None:
    assert "1048576 messages that it does not have" in fault(b"x", BATCH_SIZE_MAX)


def test_bytes_behind_the_last_message_are_refused() -> None:
    reason = fault(batch_of(b"a", b"b") + b"?", 2)
    assert reason == "1 bytes behind the last of 2 messages of a batch"


def test_a_chunk_is_no_batch() -> None:
    assert "chunks are not batched" in fault(batch_of(b"a"), 1, chunks=3)
    assert fault(batch_of(b"a"), 1, chunks=1) == ""


def test_messages_of_the_fewest_bytes_fill_a_batch() -> None:
    payload = b"\x00\x00\x00\x02\x18\x00" * 100
    assert len(payload) == 100 * MESSAGE_BYTES_MIN
    assert fault(payload, 100) == ""


def test_metadata_of_any_form_is_walked() -> None:
    head = pb.SingleMessageMetadata(payload_size=3, partition_key="k" * 300, event_time=2**62)
    head.properties.add(key="a", value="b" * 200)
    # Unknown fields: 1000 as a varint, 20 with eight bytes, 21 with four, an empty group.
    strange = (
        b"\xc0\x3e\x01" + b"\xa1\x01" + bytes(8) + b"\xad\x01" + bytes(4) + b"\xb3\x01\xb4\x01"
    )
    for data in (head.SerializeToString(), head.SerializeToString() + strange):
        payload = len(data).to_bytes(4, "big") + data + b"abc"
        assert fault(payload * 2, 2) == ""
        assert len(decode_batch(payload * 2, 2)) == 2


def test_of_two_sizes_the_last_counts_as_protobuf_has_it() -> None:
    payload = b"\x00\x00\x00\x04\x18\x63\x18\x01x"
    assert fault(payload, 1) == ""


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (b"", "required field is missing"),
        (b"\x28\x01", "required field is missing"),
        (b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "payload of -1 bytes"),
        (b"\x18\x80\x80\x80\x80\x08", "payload of -2147483648 bytes"),
        (b"\x18\x7f", "payload of 127 bytes where 0 are left"),
        (b"\x18", "truncated"),
        (b"\x18\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "more than 10 bytes"),
        (b"\x00\x00", "no field has this tag"),
        (b"\x18\x00\x12\x05k", "5"),
    ],
)
def test_messages_that_cannot_be_read_are_refused(metadata: bytes, why: str) -> None:
    payload = len(metadata).to_bytes(4, "big") + metadata
    assert why in fault(payload, 1)
    with pytest.raises(RemoteProtocolError):
        decode_batch(payload, 1)


@given(st.data())
def test_the_walk_ends_where_reading_does(data: st.DataObject) -> None:
    payloads = data.draw(st.lists(st.binary(max_size=200), max_size=5))
    writer = BatchWriter()
    for payload in payloads:
        writer.add(
            payload,
            data.draw(st.none() | st.integers(0, 2**62)),
            properties=data.draw(st.none() | st.just([("k", "v" * 150)])),
            partition_key=data.draw(st.none() | st.just("key")),
            event_time=data.draw(st.sampled_from([0, 2**62])),
            null_value=data.draw(st.booleans()),
        )
    good = writer.getvalue()
    assert walk_batch(b"before" + good, 6, len(payloads)) == 6 + len(good)
    mutated = data.draw(st.just(good) | mutations(good))
    count = data.draw(st.integers(0, 7))
    try:
        decode_batch(mutated, count)
    except RemoteProtocolError as error:
        if "UTF-8" in str(error) or "properties" in str(error) or "KeyValue" in str(error):
            return  # Texts are not looked at: they harm nobody but who reads them.
        assert fault(mutated, count) != ""
    else:
        assert walk_batch(mutated, 0, count) == len(mutated)


# ---- Compressed, encrypted -------------------------------------------------------


@pytest.mark.parametrize("kind", PACKED)
def test_a_small_compressed_batch_is_decompressed_and_walked(kind: CompressionType) -> None:
    payload = batch_of(*[b"payload"] * 20)
    assert len(payload) <= DECOMPRESS_BYTES_MAX
    assert packed_fault(payload, 20, kind) == ""
    for wrong in (1, 19, 21, 40):
        assert packed_fault(payload, wrong, kind) != ""


@pytest.mark.parametrize("kind", PACKED)
def test_a_small_batch_that_cannot_be_decompressed_is_refused(kind: CompressionType) -> None:
    reason = fault(b"\xff" * 50, 2, compression=kind, uncompressed_size=100)
    assert "cannot be decompressed" in reason


@pytest.mark.parametrize("kind", PACKED)
def test_a_large_compressed_batch_is_held_against_the_size_that_it_says(
    kind: CompressionType,
) -> None:
    payload = batch_of(*[bytes(100)] * 1000)
    room = len(payload) // MESSAGE_BYTES_MIN
    assert packed_fault(payload, 1000, kind) == ""
    assert packed_fault(payload, room + 1, kind) == (
        f"a batch of {room + 1} messages in bytes that have room for {room}"
    )


@pytest.mark.parametrize("kind", PACKED)
def test_no_honest_batch_is_too_small_for_its_compression(kind: CompressionType) -> None:
    """What compresses best of all, a million times the same, is below the bounds."""
    payload = b"\x00\x00\x00\x02\x18\x00" * BATCH_SIZE_MAX
    assert packed_fault(payload, BATCH_SIZE_MAX, kind) == ""


@pytest.mark.parametrize(
    ("kind", "ratio"),
    [
        (CompressionType.LZ4, 255),
        (CompressionType.ZLib, 1032),
        (CompressionType.ZSTD, 43691),
        (CompressionType.SNAPPY, 22),
        (77, 43691),
    ],
)
def test_a_size_that_no_compression_can_come_from_is_not_believed(kind: int, ratio: int) -> None:
    assert unpacked_size(10, kind, 2**32 - 1) == ratio * 10
    reason = fault(bytes(10), BATCH_SIZE_MAX, compression=kind, uncompressed_size=2**32 - 1)
    assert f"room for {ratio * 10 // MESSAGE_BYTES_MIN}" in reason


def test_an_encrypted_batch_is_held_against_its_bytes() -> None:
    assert fault(bytes(60), 10, encrypted=True) == ""
    assert "room for 10" in fault(bytes(60), 11, encrypted=True)
    zlib = CompressionType.ZLib
    for count, why in ((100, ""), (101, "a batch of 101 messages in bytes that have room for 100")):
        found = fault(bytes(60), count, compression=zlib, uncompressed_size=600, encrypted=True)
        assert found == why


# ---- What it costs ---------------------------------------------------------------


def test_a_batch_costs_its_unacked_messages_and_a_lie_costs_one() -> None:
    data = encode_entry(MessageMetadata("p", 5, 1000).encode(), bytes(100))
    room = len(data) // MESSAGE_BYTES_MIN
    for entry in (data, with_broker_metadata(data, BrokerEntryMetadata(index=9))):
        parts = split_entry(entry)
        assert messages_charged(parts, room, None, 0) == room
        assert messages_charged(parts, room, 0b101, 0) == 2
        assert messages_charged(parts, 3, ~0, 0) == 3
        for lie in (room + 1, BATCH_SIZE_MAX, 2**31 - 1, 0, -1):
            assert messages_charged(parts, lie, None, 0) == 1
            assert messages_charged(parts, lie, 0b101, 0) == 1
        assert messages_charged(parts, 1000, None, 6000) == 1000
        assert messages_charged(parts, 1001, None, 6000) == 1
    huge = encode_entry(MessageMetadata("p", 5, 1000).encode(), bytes(BATCH_SIZE_MAX * 7))
    assert messages_charged(split_entry(huge), BATCH_SIZE_MAX + 1, None, 0) == 1
