"""The schema of a protobuf class, typed: the stubs know two kinds of descriptors."""

from typing import cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from magnetar.protocol import pulsar_pb2 as pb


def descriptor_of(kind: Message | type[Message]) -> Descriptor:
    return cast("Descriptor", kind.DESCRIPTOR)


def fields_of(kind: Message | type[Message]) -> list[FieldDescriptor]:
    return list(descriptor_of(kind).fields)


def enum_of(name: str, kind: type[Message] | None = None) -> EnumDescriptor:
    """An enum of the schema, nested in a message or not."""
    scope = pb.DESCRIPTOR if kind is None else descriptor_of(kind)
    return scope.enum_types_by_name[name]
