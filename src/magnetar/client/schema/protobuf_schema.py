"""Protobuf messages, with their descriptors as the definition of the schema.

The definition is the JSON that the Java client writes: the files that the message's own file
needs, itself last, as one FileDescriptorSet in base64, and the names of the message and of
its file. protobuf is imported with the first schema, not before.
"""

import base64
from typing import TYPE_CHECKING, Any, TypeVar

from magnetar.client.schema.schema import Schema
from magnetar.errors import SchemaDecodeError, SchemaTypeError
from magnetar.model.enums import SchemaType

if TYPE_CHECKING:
    from google.protobuf.message import Message as ProtobufMessage

__all__ = ["ProtobufNativeSchema"]


M = TypeVar("M", bound="ProtobufMessage")


class ProtobufNativeSchema(Schema[M]):
    """Messages of one generated protobuf class, in protobuf's own form."""

    def __init__(self, record_cls: type[M]) -> None:
        from google.protobuf.message import Message

        given: object = record_cls
        if not (isinstance(given, type) and issubclass(given, Message)):
            raise SchemaTypeError("record_cls", f"{given!r} is no class that protoc generated")
        definition = _definition(record_cls.DESCRIPTOR)
        super().__init__(record_cls, SchemaType.ProtobufNative, definition, "PROTOBUF_NATIVE")

    def encode(self, obj: M) -> bytes:
        from google.protobuf.message import EncodeError

        self._validate_object_type(obj)
        try:
            return obj.SerializeToString()
        except EncodeError as error:
            raise SchemaTypeError(str(self), f"cannot be encoded: {error}") from error

    def decode(self, data: bytes) -> M:
        from google.protobuf.message import DecodeError

        try:
            value: M = self._record_cls.FromString(data)
        except DecodeError as error:
            raise SchemaDecodeError(str(self), str(error)) from error
        return value

    def __str__(self) -> str:
        return f"ProtobufNativeSchema({self._record_cls.__name__})"


def _definition(descriptor: Any) -> dict[str, str]:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    files = FileDescriptorSet()
    _add_file(descriptor.file, set(), files)
    return {
        "fileDescriptorSet": base64.b64encode(files.SerializeToString()).decode(),
        "rootMessageTypeName": descriptor.full_name,
        "rootFileDescriptorName": descriptor.file.name,
    }


def _add_file(file: Any, seen: set[str], files: Any) -> None:
    """Adds a file behind everything that it imports, each once."""
    if file.name in seen:
        return
    for needed in file.dependencies:
        _add_file(needed, seen, files)
    seen.add(file.name)
    file.CopyToProto(files.file.add())
