"""Cold commands: the walk refuses what protobuf refuses, and says where."""

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st
from support.schema import descriptor_of
from support.strategies import COMMANDS, message_ids, messages, mutations, varint
from support.untraced import untraced

from magnetar.errors import RemoteProtocolError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import message_id_from_pb, message_id_to_pb
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.cold import decode_cold
from magnetar.protocol.limit import MESSAGE_NESTING_MAX
from magnetar.wire.reader import FIELDS_MAX

STRICTER = ("nested deeper", "more than")


@given(st.data())
def test_accepts_and_rejects_as_protobuf_does(data: st.DataObject) -> None:
    descriptor = COMMANDS[data.draw(st.sampled_from(sorted(COMMANDS)))]
    message = data.draw(messages(descriptor))
    encoded = data.draw(st.just(b"") | mutations(message.SerializeToString()))
    try:
        expected = type(message).FromString(encoded)
        sound = expected.IsInitialized()
    except DecodeError:
        sound = False
    try:
        decoded = decode_cold(descriptor, encoded, 0, len(encoded))
    except RemoteProtocolError as error:
        # Required fields of a sub-message that comes in parts are the one other case.
        assert not sound or any(w in error.reason for w in (*STRICTER, "required")), error
        return
    assert sound
    assert decoded == expected


def test_a_field_at_fault_is_named_however_deep() -> None:
    subscribe = pb.CommandSubscribe(
        topic="t", subscription="s", subType=3, consumer_id=1, request_id=2
    ).SerializeToString()
    bad_range = b"\x8a\x01\x06\x08\x00\x1a\x02\x08\x01"  # a hash range without its end
    with pytest.raises(RemoteProtocolError, match=r"^IntRange\.end at byte 21: required"):
        decode(pb.CommandSubscribe, subscribe + bad_range)
    not_utf8 = b"\x52\x05\x0a\x01\xff\x12\x00"
    with pytest.raises(RemoteProtocolError, match=r"^KeyValue\.key at byte 15: text"):
        decode(pb.CommandSubscribe, subscribe + not_utf8)


def decode(kind: type[Message], data: bytes) -> object:
    return decode_cold(descriptor_of(kind), data, 0, len(data))


def test_required_fields_of_another_wire_type_are_missing() -> None:
    with pytest.raises(RemoteProtocolError, match=r"CommandSuccess\.request_id"):
        decode(pb.CommandSuccess, b"\x0a\x01a")


def nested_ids(depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        inner = b"" if not data else b"\x3a" + varint(len(data)) + data
        data = b"\x08\x01\x10\x01" + inner
    return data


def seek_to(message_id: bytes) -> bytes:
    return b"\x08\x01\x10\x01\x1a" + varint(len(message_id)) + message_id


def test_nesting_is_bounded() -> None:
    allowed = MESSAGE_NESTING_MAX - 1
    assert decode(pb.CommandSeek, seek_to(nested_ids(allowed))) is not None
    for depth in (allowed + 1, 1000, 100_000):
        with pytest.raises(RemoteProtocolError, match="nested deeper"):
            decode(pb.CommandSeek, seek_to(nested_ids(depth) if depth < 5000 else deep(depth)))


def deep(depth: int) -> bytes:
    """As nested_ids, in linear time: lengths of three bytes all the way."""
    size = 4
    sizes = [size]
    for _ in range(depth):
        size += 4 + 1 + 4
        sizes.append(size)
    return (
        b"".join(b"\x08\x01\x10\x01\x3a" + fixed_varint(inner) for inner in reversed(sizes[:-1]))
        + b"\x08\x01\x10\x01"
    )


def fixed_varint(value: int) -> bytes:
    return bytes([value & 127 | 128, value >> 7 & 127 | 128, value >> 14 & 127 | 128, value >> 21])


def test_the_number_of_fields_is_bounded_over_all_levels() -> None:
    message_id = b"\x12\x04\x08\x01\x10\x01"  # three fields of a REDELIVER
    many = b"\x08\x01" + message_id * (FIELDS_MAX // 3)
    assert len(many) < 5 * 1024 * 1024
    with untraced():
        assert decode(pb.CommandRedeliverUnacknowledgedMessages, many) is not None
        with pytest.raises(RemoteProtocolError, match="more than"):
            decode(pb.CommandRedeliverUnacknowledgedMessages, many + message_id)


def test_packed_lists_are_walked_too() -> None:
    redeliver = b"\x08\x01\x12\x07\x08\x01\x10\x01\x2a\x01"
    assert decode(pb.CommandRedeliverUnacknowledgedMessages, redeliver + b"\x05") is not None
    with pytest.raises(RemoteProtocolError, match=r"^MessageIdData\.ack_set at byte 10"):
        decode(pb.CommandRedeliverUnacknowledgedMessages, redeliver + b"\x80")


def test_values_of_enums_to_come_arrive_as_numbers() -> None:
    error = decode(pb.CommandError, b"\x08\x01\x10\x63\x1a\x02hi")
    assert isinstance(error, pb.CommandError)
    assert error.error == 99


@given(message_ids())
def test_ids_pass_between_the_two_codecs(message: pb.MessageIdData) -> None:
    data = message_id_from_pb(message)
    assert message_id_from_pb(message_id_to_pb(data)) == data


def test_earliest_and_latest_keep_their_meaning() -> None:
    earliest = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
    assert message_id_from_pb(earliest) == MessageIdData(-1, -1)
    assert message_id_to_pb(MessageIdData(-1, -1)) == earliest
