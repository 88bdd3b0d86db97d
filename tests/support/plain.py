"""Commands and messages as plain dicts, from either codec, so that they can be compared.

The two sides differ in form only: protobuf knows unsigned numbers, camel case in places
and lists of words; ours are signed, snake case and bitsets. Values that equal the
schema's default are the same as absent ones where the schema has a default.
"""

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    BrokerEntryMetadata,
    Command,
    CommandAck,
    CommandAckResponse,
    CommandFlow,
    CommandMessage,
    CommandSend,
    CommandSendReceipt,
    Connection,
    EncryptionKeys,
    MessageMetadata,
    SingleMessage,
    UnknownCommand,
)
from magnetar.protocol import pulsar_pb2 as pb
from support.schema import fields_of

Plain = dict[str, object]

HOT: dict[type, type[Message]] = {
    MessageIdData: pb.MessageIdData,
    CommandSend: pb.CommandSend,
    CommandSendReceipt: pb.CommandSendReceipt,
    CommandMessage: pb.CommandMessage,
    CommandAck: pb.CommandAck,
    CommandAckResponse: pb.CommandAckResponse,
    CommandFlow: pb.CommandFlow,
    MessageMetadata: pb.MessageMetadata,
    EncryptionKeys: pb.EncryptionKeys,
    SingleMessage: pb.SingleMessageMetadata,
    BrokerEntryMetadata: pb.BrokerEntryMetadata,
}

# (message, field in the schema) -> attribute of ours, where the names differ.
RENAMED = {
    ("MessageIdData", "ledgerId"): "ledger_id",
    ("MessageIdData", "entryId"): "entry_id",
    ("MessageIdData", "first_chunk_message_id"): "first_chunk",
    ("CommandFlow", "messagePermits"): "message_permits",
    ("CommandAck", "message_id"): "message_ids",
}


def plain_pb(message: Message) -> Plain:
    """A protobuf message as our classes would show it."""
    return {f.name: _pb_value(message, f) for f in fields_of(message)}


def _pb_value(message: Message, field: FieldDescriptor) -> object:
    value = getattr(message, field.name)
    if field.name == "ack_set":
        return sum((w & (1 << 64) - 1) << 64 * i for i, w in enumerate(value)) if value else None
    if field.is_repeated:
        return [_pb_scalar(item, field) for item in value] or None
    if not message.HasField(field.name) and not _has_default(field):
        return None
    return _pb_scalar(value, field)


def _pb_scalar(value: object, field: FieldDescriptor) -> object:
    if isinstance(value, pb.KeyValue | pb.KeyLongValue):
        return (value.key, value.value if isinstance(value, pb.KeyValue) else signed(value.value))
    if isinstance(value, Message):
        return plain_pb(value)
    if field.type == FieldDescriptor.TYPE_UINT64:
        assert isinstance(value, int)
        return signed(value)
    return value


# Without a default in the schema, but numbers of ours that are 0 (or 1) when absent.
DEFAULTED = {("MessageIdData", "batch_size"), ("SingleMessageMetadata", "payload_size")}


def _has_default(field: FieldDescriptor) -> bool:
    assert field.containing_type is not None
    name = (field.containing_type.name, field.name)
    if name == ("MessageMetadata", "num_messages_in_batch"):
        return False  # its presence makes a batch
    return field.has_default_value or field.is_required or name in DEFAULTED


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def plain(value: object) -> Plain:
    """One of our objects by its schema's names."""
    kind = HOT[type(value)]
    return {f.name: _our_value(value, kind.__name__, f) for f in fields_of(kind)}


def _our_value(owner: object, message: str, field: FieldDescriptor) -> object:
    if (message, field.name) == ("SingleMessageMetadata", "payload_size"):
        assert isinstance(owner, SingleMessage)
        return len(owner.payload)
    value = getattr(owner, RENAMED.get((message, field.name), field.name))
    if isinstance(value, list):
        return [plain(item) if type(item) in HOT else item for item in value] or None
    return plain(value) if type(value) in HOT else value


def parsed(data: bytes) -> Command | UnknownCommand | None:
    """The first command of a stream."""
    connection = Connection()
    connection.receive_data(data)
    return connection.next_command()


def describe(command: object) -> str:
    """A command in full, the same for equal commands of either build."""
    if isinstance(command, UnknownCommand):
        return f"UnknownCommand {command.command_type}"
    if isinstance(command, Message):
        return f"{command.DESCRIPTOR.name} {command.SerializeToString(deterministic=True).hex()}"
    entry = getattr(command, "entry", b"")
    return f"{type(command).__name__} {plain(command)} {entry.hex()}"
