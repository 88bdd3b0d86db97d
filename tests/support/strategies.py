"""Generated input: protobuf messages by schema, unknown fields, frames, entries, cuts."""

import itertools

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from magnetar.protocol import pulsar_pb2 as pb
from magnetar.wire.writer import BytesWriter, put_varint
from support.schema import descriptor_of, fields_of

INT32 = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)])
UINT32 = st.integers(0, 2**32 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, -1, 2**63 - 1, -(2**63)])
UINT64 = st.integers(0, 2**64 - 1) | st.sampled_from([0, 2**63, 2**63 - 1, 2**64 - 1])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)

SCALARS: dict[int, st.SearchStrategy[object]] = {
    FieldDescriptor.TYPE_DOUBLE: st.floats(allow_nan=False),
    FieldDescriptor.TYPE_INT64: INT64,
    FieldDescriptor.TYPE_UINT64: UINT64,
    FieldDescriptor.TYPE_INT32: INT32,
    FieldDescriptor.TYPE_UINT32: UINT32,
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_STRING: TEXT,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=20),
    FieldDescriptor.TYPE_ENUM: st.integers(0, 30),
}

COMMANDS: dict[int, Descriptor] = {
    f.number: f.message_type for f in fields_of(pb.BaseCommand) if f.message_type
}


@st.composite
def messages(draw: st.DrawFn, descriptor: Descriptor, nesting: int = 2) -> Message:
    """Any message of a kind: required fields always, the others as it comes."""
    message = GetMessageClass(descriptor)()
    for field in descriptor.fields:
        if not field.is_required and not draw(st.booleans()):
            continue
        if field.message_type is not None and nesting == 0:
            continue
        if field.is_repeated:
            items = draw(st.lists(values(field, nesting), max_size=3))
            if field.name == "ack_set" and not any(items):
                continue  # nobody sends a set of nothing; test_ack_set has it
            getattr(message, field.name).extend(items)
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(draw(values(field, nesting)))
        else:
            setattr(message, field.name, draw(values(field, nesting)))
    return message


def values(field: FieldDescriptor, nesting: int) -> st.SearchStrategy[object]:
    if field.message_type is not None:
        return messages(field.message_type, nesting - 1)
    return SCALARS[field.type]


def message_ids() -> st.SearchStrategy[Message]:
    """Ids as they occur: a first chunk, if any, is a plain id."""
    return messages(descriptor_of(pb.MessageIdData), nesting=1)


def varint(value: int) -> bytes:
    out = BytesWriter()
    put_varint(out, value - (1 << 64) if value >> 63 else value)
    return out.getvalue()


@st.composite
def unknown_fields(draw: st.DrawFn, numbers: st.SearchStrategy[int] | None = None) -> bytes:
    """Fields that no schema of ours has, groups among them."""
    out = b""
    for _ in range(draw(st.integers(0, 3))):
        number = draw(numbers if numbers is not None else st.integers(100, 2**29 - 1))
        wire_type = draw(st.sampled_from([0, 1, 2, 3, 5]))
        out += varint(number << 3 | wire_type)
        if wire_type == 0:
            out += varint(draw(UINT64))
        elif wire_type == 1:
            out += draw(st.binary(min_size=8, max_size=8))
        elif wire_type == 5:
            out += draw(st.binary(min_size=4, max_size=4))
        elif wire_type == 2:
            data = draw(st.binary(max_size=10))
            out += varint(len(data)) + data
        else:
            out += draw(unknown_fields()) + varint(number << 3 | 4)
    return out


@st.composite
def mutations(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with a few of them changed, inserted, removed or cut off."""
    out = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(out)))
        kind = draw(st.sampled_from(["set", "insert", "delete", "cut"]))
        if kind == "set" and at < len(out):
            out[at] = draw(st.integers(0, 255))
        elif kind == "insert":
            out[at:at] = draw(st.binary(min_size=1, max_size=4))
        elif kind == "delete":
            del out[at : at + draw(st.integers(1, 4))]
        elif kind == "cut":
            del out[at:]
    return bytes(out)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """A valid frame of any command, written by protobuf; SEND and MESSAGE have an entry."""
    number = draw(st.sampled_from(sorted(COMMANDS)))
    body = draw(messages(COMMANDS[number], nesting=1)).SerializeToString()
    entry = draw(st.binary(max_size=40)) if number in (6, 9) else b""
    return frame(number, body, entry)


def frame(command_type: int, body: bytes, entry: bytes = b"") -> bytes:
    tag = varint(command_type << 3 | 2)
    command = b"\x08" + varint(command_type) + tag + varint(len(body)) + body
    sizes = (len(command) + 4 + len(entry)).to_bytes(4, "big") + len(command).to_bytes(4, "big")
    return sizes + command + entry


@st.composite
def cuts(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The stream in pieces, empty ones too."""
    points = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    edges = [0, *points, len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]
