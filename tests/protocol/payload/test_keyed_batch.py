"""Batches of which compaction leaves some messages out: what stays, and what is said of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import RemoteProtocolError
from magnetar.model.enums import CompressionType
from magnetar.protocol import MessageMetadata, SingleMessage, decode_batch, decompress, split_entry
from magnetar.protocol.entry import encode_entry
from magnetar.protocol.payload.batch import encode_batch
from magnetar.protocol.payload.compression import compress
from magnetar.protocol.payload.keyed_batch import (
    COMPACTED_OUT,
    KeyedBatch,
    compacted_entry,
    staying_indexes,
)
from magnetar.wire.writer import BytesWriter, put_bytes_field, put_int_field

COUNT = 20


def batch_of(compression: int) -> tuple[bytes, bytes]:
    """An entry, and its payload before that was compressed."""
    payload = encode_batch([SingleMessage(b"%d" % i, i) for i in range(COUNT)])
    metadata = MessageMetadata("p", 1, 2)
    metadata.num_messages_in_batch = COUNT
    metadata.compression = compression
    metadata.uncompressed_size = len(payload)
    metadata.properties = [("a", "b")]
    return encode_entry(metadata.encode(), compress(compression, payload)), payload


@given(
    kept=st.sets(st.integers(0, COUNT - 1), min_size=1),
    compression=st.sampled_from(CompressionType),
)
def test_what_stays_is_listed_and_the_rest_says_that_it_is_gone(
    kept: set[int], compression: CompressionType
) -> None:
    data, payload = batch_of(compression)
    batch = KeyedBatch(payload, 0, COUNT)
    while batch.read(7):
        pass
    parts = [batch.part(i) if i in kept else COMPACTED_OUT for i in range(COUNT)]
    for _ in range(2):  # the second time the indexes of the first are replaced
        data = compacted_entry(split_entry(data), parts, sorted(kept))
    entry = split_entry(data)
    assert entry.intact()
    assert staying_indexes(entry, COUNT) == sum(1 << i for i in kept)
    metadata = entry.metadata()
    assert metadata.compacted_batch_indexes == sorted(kept)
    assert (metadata.producer_name, metadata.properties) == ("p", [("a", "b")])
    left = decompress(compression, entry.payload(), metadata.uncompressed_size, 1 << 20)
    for i, message in enumerate(decode_batch(left, COUNT)):
        assert message.compacted_out == (i not in kept)
        assert message.payload == (b"%d" % i if i in kept else b"")


def test_a_batch_that_nobody_compacted_stays_whole() -> None:
    data, _ = batch_of(CompressionType.NONE)
    assert staying_indexes(split_entry(data), COUNT) is None


@pytest.mark.parametrize("packed", [True, False])
def test_indexes_that_the_batch_does_not_have_are_passed_over(packed: bool) -> None:
    head = BytesWriter()
    head.write(MessageMetadata("p", 1, 2).encode())
    indexes = [3, -1, COUNT, 1 << 30]
    if packed:
        inner = BytesWriter()
        for index in indexes:
            put_int_field(inner, 0xF8, index)
        # Each varint stands behind its tag, of two bytes, which a packed list has not.
        values = inner.getvalue().split(b"\xf8\x01")[1:]
        put_bytes_field(head, 0xFA, b"".join(values))
    else:
        for index in indexes:
            put_int_field(head, 0xF8, index)
    entry = split_entry(encode_entry(head.getvalue(), b""))
    assert entry.metadata().compacted_batch_indexes == indexes
    assert staying_indexes(entry, COUNT) == 1 << 3


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (b"\x18" + b"\xff" * 9 + b"\x01", "payload of -1 bytes"),
        (b"\x12\x01k", "payload_size"),
    ],
)
def test_a_message_of_no_size_is_refused(metadata: bytes, said: str) -> None:
    payload = len(metadata).to_bytes(4, "big") + metadata
    with pytest.raises(RemoteProtocolError, match=said):
        KeyedBatch(payload, 0, 1).read(1)
