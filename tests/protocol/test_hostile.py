"""Bytes from hell: nothing but the one error comes out, at a bounded price."""

import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.exercise import transcript
from support.strategies import frame, frames, mutations, varint

from magnetar.errors import RemoteProtocolError
from magnetar.protocol import MESSAGE_SIZE_MAX, Connection, encode_entry, split_entry

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


@pytest.mark.parametrize("data", AMPLIFIERS.values(), ids=AMPLIFIERS)
def test_no_frame_costs_many_times_its_size(data: bytes) -> None:
    assert len(data) <= MESSAGE_SIZE_MAX
    connection = Connection()
    connection.receive_data(data)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            connection.next_command()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * MIB


def test_metadata_of_empty_properties_costs_no_more_either() -> None:
    data = encode_entry(METADATA + EMPTY_PROPERTY * (ROOM // 6), b"")
    entry = split_entry(data)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="more than"):
            entry.metadata()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * MIB
