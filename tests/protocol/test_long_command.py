"""Long commands in steps: the same commands and errors as in one go, a few fields at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.plain import describe
from support.strategies import frame, frames, mutations, varint

from magnetar.errors import RemoteProtocolError
from magnetar.model import ConsumerType, KeySharedMode
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAck, Connection, encode
from magnetar.protocol import pulsar_pb2 as pb

REDELIVER = 20
SEEK = 28


def commands(connection: Connection, pieces: list[bytes]) -> list[str]:
    """What a connection makes of a stream; an error is the last thing it says."""
    said: list[str] = []
    try:
        for piece in pieces:
            connection.receive_data(piece)
            while (command := connection.next_command()) is not None or connection.unfinished:
                if command is not None:
                    said.append(describe(command))
    except RemoteProtocolError as error:
        said.append(f"error {error}")
        assert not connection.unfinished
    return said


@given(st.data(), st.integers(1, 20), st.integers(0, 30))
def test_in_steps_it_is_the_same(data: st.DataObject, fields: int, size: int) -> None:
    stream = b"".join(data.draw(st.lists(frames(), min_size=1, max_size=4)))
    stream = data.draw(st.just(stream) | mutations(stream))
    whole = commands(Connection(), [stream])
    assert commands(Connection(step_bytes=size, step_fields=fields), [stream]) == whole
    half = len(stream) // 2
    cut = [stream[:half], stream[half:]]
    assert commands(Connection(step_bytes=size, step_fields=fields), cut) == whole


def steps(connection: Connection, data: bytes) -> int:
    """How many steps it takes until the command is there."""
    connection.receive_data(data)
    count = 1
    while connection.next_command() is None:
        assert connection.unfinished
        count += 1
    assert not connection.unfinished
    assert connection.next_command() is None
    return count


def test_a_step_is_of_so_many_fields_however_deep_they_are() -> None:
    ids = [MessageIdData(5, number) for number in range(100)]
    connection = Connection(step_bytes=100, step_fields=10)
    # An id is one field of an ACK; of others, whose parts are walked along, it is three.
    assert steps(connection, encode(CommandAck(1, 0, ids))) >= 100 // 10
    wanted = [pb.MessageIdData(ledgerId=5, entryId=number) for number in range(100)]
    redeliver = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=wanted)
    assert steps(connection, encode(redeliver)) >= 300 // 10
    ranges = [pb.IntRange(start=number, end=number) for number in range(100)]
    subscribe = pb.CommandSubscribe(topic="t", subscription="s", consumer_id=1, request_id=2)
    subscribe.subType = ConsumerType.KeyShared
    subscribe.keySharedMeta.keySharedMode = KeySharedMode.Sticky
    subscribe.keySharedMeta.hashRanges.extend(ranges)
    assert steps(connection, encode(subscribe)) >= 300 // 10


def test_short_commands_are_decoded_at_once() -> None:
    connection = Connection(step_bytes=100, step_fields=1)
    assert steps(connection, encode(CommandAck(1, 0, [MessageIdData(5, 1)]))) == 1


def test_what_comes_meanwhile_is_kept() -> None:
    ids = [MessageIdData(5, number) for number in range(100)]
    connection = Connection(step_bytes=100, step_fields=10)
    connection.receive_data(encode(CommandAck(1, 0, ids)))
    assert connection.next_command() is None
    connection.receive_data(encode(pb.CommandPing()))
    found = []
    while (command := connection.next_command()) is not None or connection.unfinished:
        if command is not None:
            found.append(type(command).__name__)
    assert found == ["CommandAck", "CommandPing"]


def test_an_error_in_a_late_step_names_its_place() -> None:
    good = b"\x12\x04\x08\x01\x10\x01"
    body = b"\x08\x01" + good * 100 + b"\x12\x02\x08\x01"
    whole = commands(Connection(), [frame(REDELIVER, body)])
    assert "MessageIdData.entryId" in whole[-1]
    assert commands(Connection(step_bytes=10, step_fields=7), [frame(REDELIVER, body)]) == whole


def nested_id(depth: int) -> bytes:
    """A message id whose first chunk is an id, and so on."""
    data = b"\x08\x01\x10\x01"
    for _ in range(depth):
        data = b"\x08\x01\x10\x01\x3a" + bytes([len(data)]) + data
    return data


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (frame(SEEK, b"\x08\x01\x10\x01\x1a\x10" + nested_id(2)), "CommandSeek 08"),
        (frame(SEEK, b"\x08\x01\x10\x01\x1a\x1c" + nested_id(4)), "nested deeper"),
        # Lists that are packed, of which the second ends too early.
        (frame(REDELIVER, b"\x08\x01\x12\x08\x08\x01\x10\x01\x2a\x02\x05\x06"), "Messages 08"),
        (frame(REDELIVER, b"\x08\x01\x12\x07\x08\x01\x10\x01\x2a\x01\x80"), "ack_set at byte"),
    ],
)
def test_whatever_is_long_is_judged_as_in_one_go(stream: bytes, said: str) -> None:
    whole = commands(Connection(), [stream])
    assert said in "".join(whole)
    for fields in (1, 3):
        assert commands(Connection(step_bytes=5, step_fields=fields), [stream]) == whole


def test_a_long_command_that_cannot_be_begun_is_refused_as_in_one_go() -> None:
    body = b"\x08\x01" + b"\x12\x04\x08\x01\x10\x01" * 9
    tag = varint(REDELIVER << 3 | 2)
    one = tag + varint(len(body)) + body
    command = b"\x08" + varint(REDELIVER) + one + one
    stream = (len(command) + 4).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command
    (whole,) = commands(Connection(), [stream])
    assert "a second sub-message" in whole
    assert commands(Connection(step_bytes=5, step_fields=3), [stream]) == [whole]
