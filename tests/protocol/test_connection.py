"""Streams of frames: any cut gives the same commands, and the first bad byte ends it."""

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.plain import describe, parsed
from support.strategies import COMMANDS, cuts, frame, frames, messages, mutations

from magnetar.errors import LocalProtocolError, RemoteProtocolError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    MESSAGE_SIZE_MAX,
    CommandAck,
    CommandAckResponse,
    CommandFlow,
    CommandMessage,
    CommandSend,
    CommandSendReceipt,
    Connection,
    UnknownCommand,
    encode,
    encode_head,
    encode_with_fields,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.limit import FRAME_OVERHEAD_MAX

PING = encode(pb.CommandPing())


def commands(pieces: list[bytes]) -> list[str]:
    """What a connection makes of a stream; an error is the last thing it says."""
    connection = Connection()
    said: list[str] = []
    try:
        for piece in pieces:
            connection.receive_data(piece)
            while (command := connection.next_command()) is not None:
                said.append(describe(command))
    except RemoteProtocolError as error:
        said.append(f"error {error}")
    return said


@given(st.data())
def test_any_cut_of_the_stream_gives_the_same_commands(data: st.DataObject) -> None:
    parts = data.draw(st.lists(frames(), min_size=1, max_size=5))
    stream = b"".join(parts)
    whole = commands([stream])
    assert len(whole) == len(parts)
    assert commands(data.draw(cuts(stream))) == whole
    assert commands([stream[i : i + 1] for i in range(len(stream))]) == whole


@given(st.lists(st.integers(0, 200_000), min_size=1, max_size=4), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_any_cut_of_large_frames_gives_the_same_commands(
    sizes: list[int], data: st.DataObject
) -> None:
    stream = PING.join(
        encode(CommandMessage(1, MessageIdData(1, number), bytes([number]) * size))
        for number, size in enumerate(sizes)
    )
    # Behind a command that has none, an entry is an error, however it comes.
    if data.draw(st.booleans()):
        head = encode_head(pb.CommandPing(), 100_000)
        stream += head + bytes(100_000)
    whole = commands([stream])
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=8))
    edges = [0, *sorted(places), len(stream)]
    assert commands([stream[a:b] for a, b in pairwise(edges)]) == whole
    size = data.draw(st.integers(5_000, 60_000))
    assert commands([stream[i : i + size] for i in range(0, len(stream), size)]) == whole


def test_large_frames_may_all_be_there_before_any_is_read() -> None:
    entries = [bytes([number]) * 50_000 for number in range(4)]
    stream = b"".join(encode(CommandMessage(1, MessageIdData(1, 1), entry)) for entry in entries)
    connection = Connection()
    for first in range(0, len(stream), 20_000):
        connection.receive_data(stream[first : first + 20_000])
    for entry in entries:
        command = connection.next_command()
        assert isinstance(command, CommandMessage)
        assert command.entry == entry
    assert connection.next_command() is None


@given(st.data())
def test_any_cut_of_a_damaged_stream_gives_the_same_commands(data: st.DataObject) -> None:
    stream = data.draw(mutations(b"".join(data.draw(st.lists(frames(), max_size=3)))))
    whole = commands([stream])
    assert commands(data.draw(cuts(stream))) == whole
    assert commands([stream[i : i + 1] for i in range(len(stream))]) == whole


@pytest.mark.parametrize("number", COMMANDS, ids=lambda n: COMMANDS[n].name)
@given(st.data())
def test_every_command_comes_out_as_it_went_in(number: int, data: st.DataObject) -> None:
    body = data.draw(messages(COMMANDS[number], nesting=1))
    connection = Connection()
    connection.receive_data(frame(number, body.SerializeToString()))
    command = connection.next_command()
    assert command is not None
    assert not isinstance(command, UnknownCommand)
    assert type(command).__name__ == COMMANDS[number].name
    again = Connection()
    again.receive_data(encode(command))
    assert describe(again.next_command()) == describe(command)
    assert again.next_command() is None


def test_hot_commands_keep_their_entries() -> None:
    message_id = MessageIdData(1, 2)
    stream = b"".join(
        encode(command)
        for command in (
            CommandSend(1, 2, b"entry one", num_messages=3, highest_sequence_id=4, is_chunk=True),
            CommandSendReceipt(1, 2, message_id, 4),
            CommandMessage(1, message_id, b"entry two", 3, 0b101, 5),
            CommandAck(1, 1, [message_id], request_id=9, validation_error=2),
            CommandAckResponse(1, 9, 6, "not now"),
            CommandFlow(1, 1000),
        )
    )
    connection = Connection()
    connection.receive_data(stream)
    send, receipt, message, ack, response, flow = (connection.next_command() for _ in range(6))
    assert isinstance(send, CommandSend)
    assert (send.entry, send.num_messages, send.is_chunk) == (b"entry one", 3, True)
    assert isinstance(receipt, CommandSendReceipt)
    assert (receipt.message_id, receipt.highest_sequence_id) == (message_id, 4)
    assert isinstance(message, CommandMessage)
    assert (message.entry, message.ack_set, message.consumer_epoch) == (b"entry two", 0b101, 5)
    assert isinstance(ack, CommandAck)
    assert (ack.ack_type, ack.request_id, ack.validation_error) == (1, 9, 2)
    assert isinstance(response, CommandAckResponse)
    assert (response.request_id, response.error, response.message) == (9, 6, "not now")
    assert isinstance(flow, CommandFlow)
    assert flow.message_permits == 1000


def test_an_entry_can_be_written_by_itself() -> None:
    message = CommandMessage(1, MessageIdData(1, 2), b"a large entry")
    assert encode_head(message, len(message.entry)) + message.entry == encode(message)


@pytest.mark.parametrize("number", [1, 41, 69, 70, 81, 1000])
def test_commands_of_other_versions_are_told_and_passed_over(number: int) -> None:
    connection = Connection()
    connection.receive_data(frame(number, b"whatever", b"and more") + PING)
    unknown = connection.next_command()
    assert isinstance(unknown, UnknownCommand)
    assert unknown.command_type == number
    assert isinstance(connection.next_command(), pb.CommandPing)


SEND = b"\x08\x01\x10\x01"
ID = b"\x08\x01\x10\x01"
ID_2, ID_3, ID_9 = b"\x12\x04" + ID, b"\x1a\x04" + ID, b"\x4a\x04" + ID
CHUNK = b"\x3a\x04" + ID
CHUNKS_TWICE = b"\x4a\x10" + ID + CHUNK + CHUNK


NEW_FIELD = b"\xf8\x07\x01"  # number 127
LONG_PROPERTY = b"\x0a\x01k\x10\x05" + NEW_FIELD
FUTURE = {
    "SEND": frame(6, SEND + NEW_FIELD),
    "SEND_RECEIPT": frame(7, SEND + NEW_FIELD),
    "MESSAGE": frame(9, b"\x08\x01" + NEW_FIELD + b"\x12\x07" + ID + NEW_FIELD),
    "ACK": frame(10, b"\x08\x01\x10\x00" + NEW_FIELD + b"\x2a\x08" + LONG_PROPERTY),
    "ACK_RESPONSE": frame(38, b"\x08\x01" + NEW_FIELD),
    "FLOW": frame(11, b"\x08\x01\x10\x05" + NEW_FIELD),
    "CONSUMER_STATS_RESPONSE": frame(26, b"\x08\x01\x21" + bytes(8) + NEW_FIELD),
}


@pytest.mark.parametrize("stream", FUTURE.values(), ids=FUTURE)
def test_fields_of_versions_to_come_are_passed_over(stream: bytes) -> None:
    command = parsed(stream)
    assert command is not None
    assert not isinstance(command, UnknownCommand)
    assert describe(command) == describe(parsed(encode(command)))


def size(n: int) -> bytes:
    return n.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("stream", "field", "offset"),
    [
        (size(MESSAGE_SIZE_MAX + FRAME_OVERHEAD_MAX + 1) + size(5), "frame.totalSize", 0),
        (size(0xFFFFFFFF) + size(5), "frame.totalSize", 0),
        (size(3) + size(0), "frame.commandSize", 4),
        (size(9) + size(6), "frame.commandSize", 4),
        (size(9) + size(0xFFFFFFFF), "frame.commandSize", 4),
        (size(4) + size(0), "BaseCommand.type", 8),
        (size(6) + size(2) + b"\x08\x12", "BaseCommand.CommandPing", 10),
        (frame(18, b"", b"tail"), "frame", 13),
        (frame(18, b"")[:8] + b"\x08\x13" + frame(18, b"")[10:], "BaseCommand.CommandPong", 13),
        (size(12) + size(8) + b"\x08\x12\x92\x01\x00\x9a\x01\x00", "BaseCommand.CommandPong", 15),
        (frame(6, b"\x08\x01"), "CommandSend.sequence_id", 14),
        (frame(7, b"\x08\x01"), "CommandSendReceipt.sequence_id", 14),
        (frame(10, b"\x08\x01"), "CommandAck.ack_type", 14),
        (frame(11, b"\x08\x01"), "CommandFlow.messagePermits", 14),
        (frame(38, b""), "CommandAckResponse.consumer_id", 13),
        (frame(6, SEND + ID_9 + ID_9), "CommandSend.message_id", 23),
        (frame(7, SEND + ID_3 + ID_3), "CommandSendReceipt.message_id", 23),
        (frame(9, b"\x08\x01" + ID_2 + ID_2), "CommandMessage.message_id", 21),
        (frame(6, SEND + CHUNKS_TWICE), "MessageIdData.first_chunk_message_id", 29),
        (frame(9, b"\x08\x01\x12\x02\x08\x01"), "MessageIdData.entryId", 18),
        (frame(13, b""), "CommandSuccess.request_id", 12),
        (frame(4, b"\x0a\x01\xff"), "CommandSubscribe.topic", 13),
        (frame(11, b"\x08\x01\x10"), "CommandFlow.messagePermits", 15),
    ],
)
def test_bad_frames_name_the_field_and_the_offset(stream: bytes, field: str, offset: int) -> None:
    for before in (b"", PING):  # the offset counts from the frame, wherever that begins
        connection = Connection()
        connection.receive_data(before + stream)
        if before:
            connection.next_command()
        with pytest.raises(RemoteProtocolError) as caught:
            connection.next_command()
        assert (caught.value.field, caught.value.offset) == (field, offset)


def test_a_failed_connection_stays_failed_and_keeps_nothing() -> None:
    connection = Connection()
    connection.receive_data(size(3) + size(0) + PING)
    with pytest.raises(RemoteProtocolError) as first:
        connection.next_command()
    connection.receive_data(PING * 1000)
    with pytest.raises(RemoteProtocolError) as second:
        connection.next_command()
    assert str(second.value) == str(first.value)
    connection.receive_eof()
    connection.receive_data(PING)
    with pytest.raises(RemoteProtocolError):
        connection.next_command()


def test_failed_connections_do_not_keep_the_frames_they_failed_on() -> None:
    tracemalloc.start()
    try:
        failed = []
        for _ in range(10):
            connection = Connection()
            connection.receive_data(frame(6, b"\x08\x01", bytes(1 << 20)))
            with pytest.raises(RemoteProtocolError):
                connection.next_command()
            failed.append(connection)
        assert tracemalloc.get_traced_memory()[0] < 2 << 20
    finally:
        tracemalloc.stop()


def test_the_end_of_the_stream_between_frames_is_no_error() -> None:
    connection = Connection()
    connection.receive_data(PING + PING)
    connection.receive_eof()
    assert isinstance(connection.next_command(), pb.CommandPing)
    assert isinstance(connection.next_command(), pb.CommandPing)
    assert connection.next_command() is None
    with pytest.raises(AssertionError):
        connection.receive_data(PING)


@pytest.mark.parametrize("cut", range(1, len(PING)))
def test_the_end_of_the_stream_inside_a_frame_is_an_error(cut: int) -> None:
    connection = Connection()
    connection.receive_data(PING + PING[:cut])
    connection.receive_eof()
    assert isinstance(connection.next_command(), pb.CommandPing)
    with pytest.raises(RemoteProtocolError, match="ends inside a frame"):
        connection.next_command()


def test_the_limit_follows_what_the_broker_says() -> None:
    entry = bytes(MESSAGE_SIZE_MAX + FRAME_OVERHEAD_MAX)
    frame_bytes = encode(CommandSend(1, 2, entry))
    connection = Connection()
    connection.message_size_max = 2 * MESSAGE_SIZE_MAX
    assert connection.message_size_max == 2 * MESSAGE_SIZE_MAX
    connection.receive_data(frame_bytes)
    send = connection.next_command()
    assert isinstance(send, CommandSend)
    assert send.entry == entry
    strict = Connection(1024)
    strict.receive_data(frame_bytes)
    with pytest.raises(RemoteProtocolError, match="the limit is"):
        strict.next_command()


def test_an_oversized_frame_is_refused_before_it_is_gathered() -> None:
    with pytest.raises(RemoteProtocolError, match=r"frame\.totalSize at byte 0"):
        parsed(size(0x7FFFFFFF) + size(4))


def test_what_cannot_be_sent_says_so() -> None:
    with pytest.raises(LocalProtocolError, match="request_id"):
        encode(pb.CommandSuccess())
    with pytest.raises(LocalProtocolError, match="KeyValue is not a command"):
        encode(pb.KeyValue(key="a", value="b"))


def test_a_command_with_fields_that_are_encoded_already_is_the_whole_command() -> None:
    answer = pb.CommandGetTopicsOfNamespaceResponse(request_id=7, topics_hash="h")
    fields = pb.CommandGetTopicsOfNamespaceResponse(topics=["a", "b"]).SerializePartialToString()
    connection = Connection()
    connection.receive_data(encode_with_fields(answer, len(fields)) + fields)
    answer.topics.extend(["a", "b"])
    assert connection.next_command() == answer
    assert connection.next_command() is None
