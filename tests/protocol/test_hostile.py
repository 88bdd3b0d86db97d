"""Bytes from hell: nothing but the one error comes out, at a bounded price."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.exercise import transcript
from support.plain import parsed
from support.strategies import frame, frames, mutations, varint
from support.untraced import untraced

from magnetar.errors import RemoteProtocolError
from magnetar.protocol import (
    MESSAGE_SIZE_MAX,
    BatchColumns,
    CommandAck,
    MessageMetadata,
    decode_batch,
    decode_batch_columns,
    encode_entry,
    split_entry,
)
from magnetar.protocol.message import MESSAGE_SHAPE, decode_message
from magnetar.wire.reader import FIELDS_MAX, Reader

MIB = 1024 * 1024


@given(
    st.binary(max_size=300)
    | st.lists(frames(), min_size=1, max_size=3).map(b"".join).flatmap(mutations)
)
@example(b"")
@example(b"\x00" * 64)
@example(b"\xff" * 64)
@example(b"\x00\x00\x00\x04\x00\x00\x00\x00")
@example(b"\x80" * 64)
@example(b"\x0e\x01" * 16)
@example(b"\x0e\x02" * 16)
def test_garbage_gives_the_one_error_or_a_result(data: bytes) -> None:
    """Whatever else is raised in there fails this test."""
    assert transcript(data)


def ack_of(ids: bytes) -> bytes:
    return frame(10, b"\x08\x01\x10\x00" + ids)


ROOM = MESSAGE_SIZE_MAX - 1000
EMPTY_PROPERTY = b"\x22\x04\x0a\x00\x12\x00"
METADATA = b"\x0a\x01p\x10\x00\x18\x00"

AMPLIFIERS = {
    "an ACK of the smallest ids": ack_of(b"\x1a\x04\x08\x00\x10\x00" * (ROOM // 6)),
    "an ACK of one id with a long set": ack_of(
        b"\x1a" + varint(ROOM - 10) + b"\x08\x00\x10\x00" + b"\x28\x01" * ((ROOM - 14) // 2)
    ),
    "an ACK of one id with a long packed set": ack_of(
        b"\x1a" + varint(ROOM) + b"\x08\x00\x10\x00\x2a" + varint(ROOM - 9) + b"\x01" * (ROOM - 9)
    ),
    "an ACK of properties": ack_of(b"\x2a\x04\x0a\x00\x10\x00" * (ROOM // 6)),
    "a SUBSCRIBE of empty properties": frame(4, b"\x52\x04\x0a\x00\x12\x00" * (ROOM // 6)),
    "a REDELIVER of the smallest ids": frame(
        20, b"\x08\x01" + b"\x12\x04\x08\x00\x10\x00" * (ROOM // 6)
    ),
    "a list of topics without names": frame(33, b"\x08\x01" + b"\x12\x00" * (ROOM // 2)),
    "unknown fields": frame(18, b"\x28\x00" * (ROOM // 2)),
    "groups in groups": frame(18, b"\x2b" * ROOM),
}


@pytest.mark.once
@pytest.mark.parametrize("data", AMPLIFIERS.values(), ids=AMPLIFIERS)
def test_no_frame_costs_many_times_its_size(data: bytes) -> None:
    assert len(data) <= MESSAGE_SIZE_MAX
    with pytest.raises(RemoteProtocolError):
        costing_at_most(100 * MIB, lambda: parsed(data))


INDEX_LIST = b"\xf8\x01\x05"
PACKED_INDEXES = b"\xfa\x01" + varint(ROOM - 100) + b"\x05" * (ROOM - 100)
SMALLEST = b"\x00\x00\x00\x02\x18\x00"


@pytest.mark.once
@pytest.mark.parametrize(
    "more",
    [
        EMPTY_PROPERTY * (ROOM // 6),
        INDEX_LIST * (ROOM // 3),
        PACKED_INDEXES,
        b"\x3a\x00" * (ROOM // 2),
    ],
    ids=["properties", "indexes", "packed indexes", "clusters"],
)
def test_no_metadata_costs_many_times_its_size(more: bytes) -> None:
    entry = split_entry(encode_entry(METADATA + more, b""))
    with pytest.raises(RemoteProtocolError, match="more than"):
        costing_at_most(100 * MIB, entry.metadata)


@pytest.mark.once
def test_lists_just_below_the_limit_are_read_in_linear_time() -> None:
    """In quadratic time this would take minutes."""
    count = FIELDS_MAX - 3
    entry = split_entry(encode_entry(METADATA + INDEX_LIST * count, b""))
    metadata = costing_at_most(100 * MIB, entry.metadata)
    assert isinstance(metadata, MessageMetadata)
    assert metadata.compacted_batch_indexes == [5] * count
    ack = costing_at_most(150 * MIB, lambda: parsed(ack_of(SMALLEST_ID * (FIELDS_MAX // 3 - 1))))
    assert isinstance(ack, CommandAck)
    assert len(ack.message_ids) == FIELDS_MAX // 3 - 1


SMALLEST_ID = b"\x1a\x04\x08\x00\x10\x00"


@pytest.mark.once
def test_a_batch_of_the_smallest_messages_costs_what_its_messages_cost() -> None:
    count = MESSAGE_SIZE_MAX // len(SMALLEST) // 10
    columns = BatchColumns()
    costing_at_most(10 * MIB, lambda: decode_batch_columns(SMALLEST * count, count, columns))
    assert len(columns) == count
    messages = costing_at_most(25 * MIB, lambda: decode_batch(SMALLEST * count, count))
    assert isinstance(messages, list)
    assert len(messages) == count


def costing_at_most(peak_max: int, work: Callable[[], object]) -> object:
    tracemalloc.start()
    try:
        with untraced():
            return work()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < peak_max


@pytest.mark.parametrize("data", [b"", b"\x08\x01"])
def test_a_message_without_its_required_fields_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="required"):
        decode_message(Reader(data, 0, len(data), MESSAGE_SHAPE), b"")
