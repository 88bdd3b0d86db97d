"""Batches: as objects and as columns, which must agree."""

import itertools
import tracemalloc
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.columns import bits, cells, numbers
from support.strategies import INT64, TEXT, mutations
from support.untraced import untraced

from magnetar.errors import LocalProtocolError, RemoteProtocolError
from magnetar.protocol import (
    BatchColumns,
    BatchWriter,
    BinaryColumn,
    SingleMessage,
    decode_batch,
    decode_batch_columns,
    encode_batch,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.payload.columns import (
    ALL_COLUMNS,
    EVENT_TIMES,
    KEYS,
    ORDERING_KEYS,
    PROPERTIES,
    SEQUENCE_IDS,
)
from magnetar.wire.ack_set import BATCH_SIZE_MAX


@st.composite
def singles(draw: st.DrawFn) -> SingleMessage:
    message = SingleMessage(draw(st.binary(max_size=30)), draw(st.none() | INT64))
    message.properties = draw(st.none() | st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=3))
    message.partition_key = draw(st.none() | TEXT)
    message.partition_key_b64_encoded = draw(st.booleans())
    message.null_partition_key = draw(st.booleans())
    message.ordering_key = draw(st.none() | st.binary(max_size=10))
    message.event_time = draw(st.integers(0, 2**62))
    message.null_value = draw(st.booleans())
    message.compacted_out = draw(st.booleans())
    return message


def fields(message: SingleMessage) -> tuple[object, ...]:
    return (
        message.payload,
        message.sequence_id,
        message.properties,
        message.partition_key,
        message.partition_key_b64_encoded,
        message.null_partition_key,
        message.ordering_key,
        message.event_time,
        message.null_value,
        message.compacted_out,
    )


@given(st.lists(singles(), max_size=6))
def test_messages_come_out_as_they_went_in(messages: list[SingleMessage]) -> None:
    payload = encode_batch(messages)
    back = decode_batch(payload, len(messages))
    assert [fields(m) for m in back] == [fields(m) for m in messages]
    assert encode_batch(back) == payload


def test_the_writer_tells_its_size_and_count_as_it_grows() -> None:
    writer = BatchWriter()
    assert (writer.count, writer.size) == (0, 0)
    for n in range(1, 4):
        writer.add(bytes(1000), n)
        assert writer.count == n
        assert writer.size == len(writer.getvalue())
    assert [m.sequence_id for m in decode_batch(writer.getvalue(), 3)] == [1, 2, 3]


def test_a_batch_has_a_bounded_number_of_messages() -> None:
    writer = BatchWriter()
    with untraced():
        for _ in range(BATCH_SIZE_MAX):
            writer.add(b"")
    with pytest.raises(LocalProtocolError, match="at most 1048576 messages"):
        writer.add(b"")
    assert writer.count == BATCH_SIZE_MAX
    for count in (-1, BATCH_SIZE_MAX + 1, 2**31 - 1):
        with pytest.raises(RemoteProtocolError, match="num_messages_in_batch"):
            decode_batch(b"", count)
        with pytest.raises(RemoteProtocolError, match="num_messages_in_batch"):
            decode_batch_columns(b"", count, BatchColumns())


@given(st.lists(singles(), max_size=6), st.none() | st.integers(0, 255))
def test_columns_hold_what_the_objects_hold(
    messages: list[SingleMessage], keep: int | None
) -> None:
    columns = BatchColumns()
    decode_batch_columns(encode_batch(messages), len(messages), columns, keep=keep)
    rows = [
        (i, m)
        for i, m in enumerate(messages)
        if not m.compacted_out and (keep is None or keep >> i & 1)
    ]
    assert numbers(columns.indexes) == [i for i, _ in rows]
    assert len(columns) == len(rows)
    assert cells(columns.values) == [None if m.null_value else m.payload for _, m in rows]
    assert cells(columns.keys) == [key_of(m) for _, m in rows]
    assert bits(columns.b64_keys) == [m.partition_key_b64_encoded for _, m in rows]
    assert cells(columns.ordering_keys) == [m.ordering_key for _, m in rows]
    assert numbers(columns.event_times) == [m.event_time for _, m in rows]
    assert numbers(columns.sequence_ids) == [
        -1 if m.sequence_id is None else m.sequence_id for _, m in rows
    ]
    pairs = list(zip(cells(columns.property_keys), cells(columns.property_values), strict=True))
    assert [pairs[a:b] for a, b in itertools.pairwise(numbers(columns.property_offsets))] == [
        [(k.encode(), v.encode()) for k, v in m.properties or []] for _, m in rows
    ]


def key_of(message: SingleMessage) -> bytes | None:
    if message.partition_key is None or message.null_partition_key:
        return None
    return message.partition_key.encode()


def test_only_the_columns_asked_for_are_built() -> None:
    message = SingleMessage(b"v", 1)
    message.partition_key, message.ordering_key = "k", b"o"
    message.event_time, message.properties = 5, [("a", "b")]
    payload = encode_batch([message, message])
    for wanted in (0, KEYS, ORDERING_KEYS, EVENT_TIMES, SEQUENCE_IDS, PROPERTIES, ALL_COLUMNS):
        columns = BatchColumns()
        decode_batch_columns(payload, 2, columns, wanted)
        assert len(columns.values) == 2
        assert len(columns.keys) == (2 if wanted & KEYS else 0)
        assert len(columns.ordering_keys) == (2 if wanted & ORDERING_KEYS else 0)
        assert len(columns.event_times) == (2 if wanted & EVENT_TIMES else 0)
        assert len(columns.sequence_ids) == (2 if wanted & SEQUENCE_IDS else 0)
        assert len(columns.property_keys) == (2 if wanted & PROPERTIES else 0)


def test_columns_skip_what_a_property_does_not_know() -> None:
    columns = BatchColumns()
    message = b"\x18\x00\x0a\x08\x0a\x01k\x78\x01\x12\x01v"
    decode_batch_columns(len(message).to_bytes(4, "big") + message, 1, columns)
    assert (columns.property_keys.data, columns.property_values.data) == (b"k", b"v")


def test_several_batches_share_columns() -> None:
    columns = BatchColumns()
    decode_batch_columns(encode_batch([SingleMessage(b"a"), SingleMessage(b"bc")]), 2, columns)
    assert columns.values.data == b"abc"
    decode_batch_columns(encode_batch([SingleMessage(b"d")]), 1, columns)
    assert columns.values.data == b"abcd"
    assert columns.values.offsets == array("i", [0, 1, 3, 4]).tobytes()
    assert numbers(columns.indexes) == [0, 1, 0]


def test_a_large_batch_is_filtered_in_linear_time() -> None:
    """A shift of the whole bitset for each index would take minutes here."""
    count = 200_000
    payload = b"\x00\x00\x00\x02\x18\x00" * count
    columns = BatchColumns()
    with untraced():
        decode_batch_columns(payload, count, columns, 0, keep=(1 << count) - 1 - 2)
    assert len(columns) == count - 1
    assert numbers(columns.indexes)[:3] == [0, 2, 3]


@pytest.mark.once
def test_columns_keep_no_object_for_a_message() -> None:
    payload = encode_batch([SingleMessage(b"payload", i) for i in range(10_000)])
    columns = BatchColumns()
    tracemalloc.start()
    try:
        decode_batch_columns(payload, 10_000, columns)
        kept = sum(s.count for s in tracemalloc.take_snapshot().statistics("filename"))
    finally:
        tracemalloc.stop()
    assert len(columns) == 10_000
    assert kept < 100


def test_a_column_refuses_to_outgrow_its_offsets() -> None:
    column = BinaryColumn(size_max=100)
    column.append(bytes(60))
    column.append(bytes(40))
    with pytest.raises(LocalProtocolError, match="at most 100 bytes: begin another"):
        column.append(b"x")
    column.append(b"")
    assert (len(column), len(column.data)) == (3, 100)


SOUND = b"\x00\x00\x00\x02\x18\x03abc"


@pytest.mark.parametrize(
    ("payload", "field", "offset"),
    [
        (b"", "batch", 0),
        (b"\x00\x00\x00", "batch", 0),
        (b"\x00\x00\x00\x05\x18\x01", "batch", 0),
        (b"\xff\xff\xff\xff\x18\x01", "batch", 0),
        (b"\x00\x00\x00\x02\x18\x04abc", "SingleMessageMetadata.payload_size", 6),
        (b"\x00\x00\x00\x00", "SingleMessageMetadata.payload_size", 4),
        (
            b"\x00\x00\x00\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "SingleMessageMetadata.payload_size",
            15,
        ),
        (b"\x00\x00\x00\x04\x18\x00\x12\x05", "SingleMessageMetadata.partition_key", 7),
        (b"\x00\x00\x00\x04\x18\x00\x0a\x00", "KeyValue.key", 8),
        (SOUND + b"x", "batch", 9),
    ],
)
def test_damaged_batches_say_where(payload: bytes, field: str, offset: int) -> None:
    for decode in (
        lambda: decode_batch(payload, 1),
        lambda: decode_batch_columns(payload, 1, BatchColumns()),
    ):
        with pytest.raises(RemoteProtocolError) as caught:
            decode()
        assert (caught.value.field, caught.value.offset) == (field, offset)


@given(st.data())
def test_objects_and_columns_accept_and_refuse_the_same(data: st.DataObject) -> None:
    messages = data.draw(st.lists(singles(), min_size=1, max_size=3))
    payload = data.draw(mutations(encode_batch(messages)))
    try:
        objects = decode_batch(payload, len(messages))
    except RemoteProtocolError as error:
        if "UTF-8" in error.reason or error.field.startswith("KeyValue"):
            return  # columns hold bytes, whatever they are, and read properties last
        with pytest.raises(RemoteProtocolError) as caught:
            decode_batch_columns(payload, len(messages), BatchColumns())
        assert str(caught.value) == str(error)
        return
    columns = BatchColumns()
    decode_batch_columns(payload, len(messages), columns)
    kept = [m for m in objects if not m.compacted_out]
    assert cells(columns.values) == [None if m.null_value else m.payload for m in kept]


def test_metadata_is_protobufs() -> None:
    message = SingleMessage(b"abc", 2**63 - 1)
    message.properties = [("k", "v")]
    payload = encode_batch([message])
    size = int.from_bytes(payload[:4], "big")
    metadata = pb.SingleMessageMetadata.FromString(payload[4 : 4 + size])
    assert metadata.payload_size == 3
    assert [(p.key, p.value) for p in metadata.properties] == [("k", "v")]
    assert payload[4 + size :] == b"abc"
