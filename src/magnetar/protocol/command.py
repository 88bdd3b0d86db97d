"""Commands to and from bytes.

Six commands carry the traffic: SEND, SEND_RECEIPT, MESSAGE, ACK, ACK_RESPONSE and FLOW.
They have classes and codecs of their own, named as in Pulsar. All others are protobuf's
classes, from `pulsar_pb2`. A command is thus always an object of a class of its own,
whichever side made it, and `encode` takes either kind.
"""

from typing import Final, TypeAlias, final

from google.protobuf.message import EncodeError, Message
from mypy_extensions import i64

from magnetar.errors import LocalProtocolError, RemoteProtocolError
from magnetar.protocol.ack import (
    ACK_RESPONSE_SHAPE,
    ACK_SHAPE,
    CommandAck,
    CommandAckResponse,
    decode_ack,
    decode_ack_response,
)
from magnetar.protocol.cold import COMMANDS, decode_cold
from magnetar.protocol.frame import put_frame_head, put_frame_sizes
from magnetar.protocol.long_command import LongAckCommand, LongColdCommand, LongCommand
from magnetar.protocol.message import (
    FLOW_SHAPE,
    MESSAGE_SHAPE,
    CommandFlow,
    CommandMessage,
    decode_flow,
    decode_message,
)
from magnetar.protocol.send import (
    RECEIPT_SHAPE,
    SEND_SHAPE,
    CommandSend,
    CommandSendReceipt,
    decode_send,
    decode_send_receipt,
)
from magnetar.wire.reader import LENGTH, Reader, Shape
from magnetar.wire.writer import BytesWriter

SEND: Final = 6
SEND_RECEIPT: Final = 7
MESSAGE: Final = 9
ACK: Final = 10
FLOW: Final = 11
ACK_RESPONSE: Final = 38

# Field numbers of BaseCommand's sub-messages, which are the types there are.
_TYPE_TAG: Final = 0x08
_SHAPE: Final = Shape(
    "BaseCommand", {1: "type"} | {number: d.name for number, d in COMMANDS.items()}
)
_TYPES: Final[dict[str, int]] = {d.name: number for number, d in COMMANDS.items()}


@final
class UnknownCommand:
    """A command of a type that this protocol version does not have: to be ignored."""

    def __init__(self, command_type: i64) -> None:
        self.command_type: i64 = command_type


HotCommand: TypeAlias = (
    CommandSend
    | CommandSendReceipt
    | CommandMessage
    | CommandAck
    | CommandAckResponse
    | CommandFlow
)
Command: TypeAlias = HotCommand | Message


def encode(command: Command) -> bytes:
    """Returns a command as a frame, with the entry that SEND and MESSAGE carry.

    Raises LocalProtocolError for a protobuf command with a required field missing.
    """
    entry = entry_of(command)
    head = encode_head(command, len(entry))
    return head + entry if entry else head


def entry_of(command: Command) -> bytes:
    if isinstance(command, (CommandSend, CommandMessage)):
        return command.entry
    return b""


def encode_head(command: Command, entry_size: i64) -> bytes:
    """Returns the frame up to its entry of `entry_size` bytes, which a caller can write by
    itself instead of copying it. Raises as `encode` does."""
    out = BytesWriter()
    if isinstance(command, CommandSend):
        put_frame_head(out, SEND, command.encode_body(), entry_size)
    elif isinstance(command, CommandSendReceipt):
        put_frame_head(out, SEND_RECEIPT, command.encode_body(), entry_size)
    elif isinstance(command, CommandMessage):
        put_frame_head(out, MESSAGE, command.encode_body(), entry_size)
    elif isinstance(command, CommandAck):
        put_frame_head(out, ACK, command.encode_body(), entry_size)
    elif isinstance(command, CommandAckResponse):
        put_frame_head(out, ACK_RESPONSE, command.encode_body(), entry_size)
    elif isinstance(command, CommandFlow):
        put_frame_head(out, FLOW, command.encode_body(), entry_size)
    else:
        put_frame_head(out, _cold_type(command), _cold_body(command), entry_size)
    return out.getvalue()


def encode_with_fields(command: Message, fields_size: i64) -> bytes:
    """Returns a protobuf command up to fields of `fields_size` bytes that are encoded already.

    A caller can write them by itself instead of copying them. Raises as `encode` does.
    """
    out = BytesWriter()
    body = _cold_body(command)
    put_frame_sizes(out, _cold_type(command), len(body) + fields_size, 0)
    out.write(body)
    return out.getvalue()


def _cold_type(command: Message) -> int:
    command_type = _TYPES.get(command.DESCRIPTOR.name)
    if command_type is None:
        raise LocalProtocolError(f"{command.DESCRIPTOR.name} is not a command")
    return command_type


def _cold_body(command: Message) -> bytes:
    try:
        return command.SerializeToString()
    except EncodeError as error:
        raise LocalProtocolError(str(error)) from None


def decode(
    data: bytes, first: i64, command_end: i64, end: i64, entry: bytes | None = None
) -> Command | UnknownCommand:
    """Returns the command at `first`, with the entry from `command_end` to `end` if it has one, or
    with `entry`, if that was taken out already.

    Raises RemoteProtocolError.
    """
    command_type, body_first, body_end = _find_body(data, first, command_end)
    if body_end == 0:
        return UnknownCommand(command_type)
    if command_type in (SEND, MESSAGE):
        if entry is None:
            entry = data[command_end:end]
        if command_type == SEND:
            return decode_send(Reader(data, body_first, body_end, SEND_SHAPE), entry)
        return decode_message(Reader(data, body_first, body_end, MESSAGE_SHAPE), entry)
    _refuse_entry(command_end, end, entry)
    return _decode_simple(command_type, data, body_first, body_end)


def decode_long(
    data: bytes, first: i64, command_end: i64, end: i64, entry: bytes | None
) -> LongCommand | None:
    """The same in steps, of commands that have lists; None for the others.

    Raises RemoteProtocolError.
    """
    command_type, body_first, body_end = _find_body(data, first, command_end)
    if body_end == 0 or command_type in (SEND, SEND_RECEIPT, MESSAGE, FLOW, ACK_RESPONSE):
        return None
    _refuse_entry(command_end, end, entry)
    if command_type == ACK:
        return LongAckCommand(Reader(data, body_first, body_end, ACK_SHAPE))
    return LongColdCommand(COMMANDS[command_type], data, body_first, body_end)


def _find_body(data: bytes, first: i64, command_end: i64) -> tuple[i64, i64, i64]:
    """Returns the type of a command, and where its sub-message begins and ends; 0 if it is
    unknown."""
    reader = Reader(data, first, command_end, _SHAPE)
    command_type: i64 = 0
    body_type: i64 = 0
    body_first: i64 = 0
    body_end: i64 = 0
    while (tag := reader.tag()) != 0:
        number = tag >> 3
        if tag == _TYPE_TAG:
            command_type = reader.int32()
        elif tag & 7 == LENGTH and number in COMMANDS:
            if body_type != 0:
                reader.fail("a second sub-message in one command")
            body_type = number
            size = reader.length()
            body_first = reader.pos
            body_end = body_first + size
            reader.pos = body_end
        else:
            reader.skip()
    if command_type not in COMMANDS:
        if command_type == 0:
            reader.require(0, (1,))
        return command_type, 0, 0
    if body_type != command_type:
        raise RemoteProtocolError(
            _SHAPE.field(command_type), command_end, f"missing in a command of type {command_type}"
        )
    return command_type, body_first, body_end


def _refuse_entry(command_end: i64, end: i64, entry: bytes | None) -> None:
    behind: i64 = end - command_end if entry is None else len(entry)
    if behind > 0:
        raise RemoteProtocolError(
            "frame", command_end, f"{behind} bytes behind a command that has no entry"
        )


def _decode_simple(command_type: i64, data: bytes, first: i64, end: i64) -> Command:
    if command_type == ACK:
        return decode_ack(Reader(data, first, end, ACK_SHAPE))
    if command_type == FLOW:
        return decode_flow(Reader(data, first, end, FLOW_SHAPE))
    if command_type == SEND_RECEIPT:
        return decode_send_receipt(Reader(data, first, end, RECEIPT_SHAPE))
    if command_type == ACK_RESPONSE:
        return decode_ack_response(Reader(data, first, end, ACK_RESPONSE_SHAPE))
    return decode_cold(COMMANDS[command_type], data, first, end)
