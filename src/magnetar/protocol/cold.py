"""Commands that are rare enough to leave to protobuf: all but the six hot ones.

protobuf builds the objects; whether the bytes are sound is decided before, by walking
them along the schema. The walk knows where it is, so the error names the field and the
offset (protobuf's says only that something was corrupt), and it bounds nesting and
counts before anything is built. What passes the walk, protobuf accepts.
"""

from typing import Final, final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from mypy_extensions import i64

from magnetar.model.message_id_data import SHAPE as MESSAGE_ID_SHAPE
from magnetar.model.message_id_data import (
    MessageIdData,
    decode_message_id_data,
    encode_message_id_data,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.limit import MESSAGE_NESTING_MAX
from magnetar.wire.reader import LENGTH, VARINT, Reader, Shape
from magnetar.wire.writer import BytesWriter

# Each command's sub-message, by its field number in BaseCommand, which is its type.
COMMANDS: Final[dict[int, Descriptor]] = {
    field.number: field.message_type
    for field in pb.DESCRIPTOR.message_types_by_name["BaseCommand"].fields
    if field.message_type is not None
}


@final
class ColdShape:
    """What the walk must know of a message: fields by tag (number and wire type)."""

    def __init__(self, descriptor: Descriptor) -> None:
        fields = descriptor.fields
        self.shape: Final = Shape(descriptor.name, {f.number: f.name for f in fields})
        self.required: Final = {_tag(f): f.number for f in fields if f.is_required}
        self.texts: Final = {_tag(f) for f in fields if f.type == FieldDescriptor.TYPE_STRING}
        self.messages: Final = {_tag(f): f.message_type for f in fields if f.message_type}
        self.packed: Final = {
            f.number << 3 | LENGTH for f in fields if f.is_repeated and _tag(f) & 7 == VARINT
        }


def decode_cold(descriptor: Descriptor, data: bytes, first: i64, end: i64) -> Message:
    """Returns a message as a protobuf object. Raises RemoteProtocolError."""
    cold = shape_of(descriptor)
    _check(Reader(data, first, end, cold.shape), cold, MESSAGE_NESTING_MAX)
    return parse_cold(descriptor, data[first:end])


def parse_cold(descriptor: Descriptor, body: bytes) -> Message:
    """Returns a message that was walked along the schema, as a protobuf object."""
    message = GetMessageClass(descriptor)()
    message.ParseFromString(body)
    return message


def _check(reader: Reader, cold: ColdShape, nesting_left: i64) -> None:
    if nesting_left == 0:
        reader.fail(f"messages nested deeper than {MESSAGE_NESTING_MAX}")
    present: i64 = 0
    while (tag := reader.tag()) != 0:
        if tag in cold.texts:
            reader.text()
        elif tag in cold.messages:
            inner = shape_of(cold.messages[tag])
            _check(reader.message(inner.shape), inner, nesting_left - 1)
        elif tag in cold.packed:
            numbers = reader.packed()
            while numbers.more():
                numbers.varint()
        else:
            reader.skip()
        if tag in cold.required:
            present |= 1 << cold.required[tag]
    reader.require(present, tuple(cold.required.values()))


def message_id_from_pb(message: pb.MessageIdData) -> MessageIdData:
    """Returns the id in a cold command, with numbers folded to signed ones.

    Raises RemoteProtocolError if it is nested deeper than an id can be.
    """
    data = message.SerializeToString()
    return decode_message_id_data(Reader(data, 0, len(data), MESSAGE_ID_SHAPE))


def message_id_to_pb(message_id: MessageIdData) -> pb.MessageIdData:
    """Returns an id for a cold command."""
    out = BytesWriter()
    encode_message_id_data(out, message_id)
    return pb.MessageIdData.FromString(out.getvalue())


def _tag(field: FieldDescriptor) -> int:
    """Returns the tag of a text, a message, a list or a required field; doubles are none of
    these."""
    assert field.type != FieldDescriptor.TYPE_DOUBLE
    lengthy = (
        FieldDescriptor.TYPE_STRING,
        FieldDescriptor.TYPE_BYTES,
        FieldDescriptor.TYPE_MESSAGE,
    )
    return field.number << 3 | (LENGTH if field.type in lengthy else VARINT)


_shapes: Final[dict[str, ColdShape]] = {}


def shape_of(descriptor: Descriptor) -> ColdShape:
    shape = _shapes.get(descriptor.name)
    if shape is None:
        shape = _shapes[descriptor.name] = ColdShape(descriptor)
    return shape
