"""Schemas: how values become the bytes of messages and back.

A schema is given to a producer, which encodes by it what it sends, and to a consumer, whose
messages decode their value by it. Both tell the broker its `schema_info`, and the broker
refuses those that do not fit the topic. Definitions are the JSON text that the official
Python client writes, byte for byte: a broker that compares text sees one schema, not two.

A schema of one's own derives from `Schema` and defines `encode` and `decode`. These classes
are made to be derived from, so this file is not compiled.
"""

import enum
import json
from typing import Any, Generic, Protocol

from magnetar.client.schema.model.model import Model, model_errors, model_of
from magnetar.client.schema.record import Record, RecordMeta, plain_fields
from magnetar.client.schema.schema_info import SchemaInfo
from magnetar.client.schema.value import T
from magnetar.errors import SchemaDecodeError, SchemaTypeError, UsageError
from magnetar.model.enums import SchemaType

__all__ = [
    "BytesSchema",
    "JsonSchema",
    "Schema",
    "SchemaMessage",
    "SchemaSource",
    "StringSchema",
    "schema_of",
]

# The official client's own numbers for bytes and for schemas of the broker's choice.
_OFFICIAL_TYPES = {-1: SchemaType.NONE, -3: SchemaType.AutoConsume, -4: SchemaType.AutoConsume}


class SchemaMessage(Protocol):
    """What a schema needs to know of a message."""

    def data(self) -> bytes: ...
    def topic_name(self) -> str: ...
    def int_schema_version(self) -> int:
        """Returns the number of the schema that it was written with, or less than 0 without one."""
        ...


class SchemaSource(Protocol):
    """Where a schema learns what messages of other versions look like: a blocking client."""

    def get_schema_info(self, topic: str, version: int) -> SchemaInfo: ...


class Schema(Generic[T]):
    """The base of all schemas. `schema_definition` is what is written as JSON."""

    def __init__(
        self, record_cls: Any, schema_type: int, schema_definition: Any, schema_name: str
    ) -> None:
        self._record_cls = record_cls
        self._client: SchemaSource | None = None
        self._schema_info = SchemaInfo(
            _type_of(schema_type), schema_name, _definition(schema_name, schema_definition)
        )

    def encode(self, obj: T) -> bytes:
        """Returns the bytes of a value."""
        raise NotImplementedError(f"{type(self).__name__} must say how it encodes")

    def decode(self, data: bytes) -> T:
        """Returns the value that these bytes are."""
        raise NotImplementedError(f"{type(self).__name__} must say how it decodes")

    def decode_message(self, msg: SchemaMessage) -> T:
        """Returns the value of a message, by the schema that it was written with."""
        return self.decode(msg.data())

    def schema_info(self) -> SchemaInfo:
        """Returns what the broker is told about the schema."""
        return self._schema_info

    def attach_client(self, client: SchemaSource) -> None:
        """Lets the schema ask a client for versions of itself that it does not know."""
        self._client = client

    def _validate_object_type(self, obj: object) -> None:
        if not isinstance(obj, self._record_cls):
            raise SchemaTypeError(
                str(self),
                f"cannot encode a {type(obj).__name__}, expected: {self._record_cls.__name__}",
            )

    def __str__(self) -> str:
        return type(self).__name__


def _type_of(number: int) -> SchemaType:
    """Returns the type on the wire; programs may also have the numbers of the official client."""
    value = int(number)
    try:
        return _OFFICIAL_TYPES[value] if value < 0 else SchemaType(value)
    except (KeyError, ValueError):
        raise UsageError(f"{value} is no schema type: use one of SchemaType") from None


def _definition(name: str, definition: Any) -> bytes:
    try:
        return json.dumps(definition, indent=True).encode()
    except TypeError as error:
        raise UsageError(
            f"the {name} schema cannot be written as JSON ({error}): "
            "leave required_default off where a default is no plain value"
        ) from error


class BytesSchema(Schema[bytes]):
    """Bytes as they are; what producers and consumers have if they are given no schema."""

    def __init__(self) -> None:
        super().__init__(bytes, SchemaType.NONE, None, "BYTES")

    def encode(self, data: bytes) -> bytes:
        self._validate_object_type(data)
        return data

    def decode(self, data: bytes) -> bytes:
        return data


class StringSchema(Schema[str]):
    """Text as UTF-8.

    >>> StringSchema().encode("größer")
    b'gr\\xc3\\xb6\\xc3\\x9fer'
    """

    def __init__(self) -> None:
        super().__init__(str, SchemaType.String, None, "STRING")

    def encode(self, obj: str) -> bytes:
        self._validate_object_type(obj)
        return obj.encode()

    def decode(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise SchemaDecodeError(str(self), str(error)) from error


class JsonSchema(Schema[T]):
    """Records as JSON objects; dataclasses, msgspec structs and Pydantic models, too.

    >>> from magnetar.client.schema.record import Integer
    >>> class Point(Record):
    ...     x = Integer()
    >>> JsonSchema(Point).encode(Point(x=1))
    b'{"x":1}'
    """

    def __init__(self, record_cls: type[T]) -> None:
        self._model = model_of(record_cls, json=True)
        definition = schema_of(record_cls) if self._model is None else self._model.definition
        super().__init__(record_cls, SchemaType.Json, definition, "JSON")

    def encode(self, obj: T) -> bytes:
        self._validate_object_type(obj)
        if self._model is not None:
            return self._encode_model(self._model, obj)
        try:
            return _JSON.encode(plain_fields(obj)).encode()  # type: ignore[arg-type]  # a Record
        except (TypeError, ValueError) as error:
            raise SchemaTypeError(str(self), f"not JSON: {error}") from error

    def _encode_model(self, model: Model, obj: Any) -> bytes:
        try:
            return model.to_json(obj)
        except model_errors() as error:
            raise SchemaTypeError(str(self), f"not JSON: {error}") from error

    def _decode_model(self, model: Model, data: bytes) -> T:
        try:
            value: T = model.from_json(data)
        except model_errors() as error:
            raise SchemaDecodeError(str(self), str(error)) from error
        return value

    def decode(self, data: bytes) -> T:
        if self._model is not None:
            return self._decode_model(self._model, data)
        try:
            fields = json.loads(data)
        except ValueError as error:
            raise SchemaDecodeError(str(self), f"not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise SchemaDecodeError(str(self), f"{type(fields).__name__} is not a JSON object")
        value: T = self._record_cls(**fields)
        return value

    def __str__(self) -> str:
        return f"JsonSchema({self._record_cls.__name__})"


def schema_of(record_cls: Any) -> Any:
    """Returns the Avro schema of a record, or a clear error if it is none."""
    if not isinstance(record_cls, RecordMeta):
        raise UsageError(
            f"{record_cls!r} is no record: derive a class from Record, or give a dataclass, a "
            "msgspec struct or a Pydantic model"
        )
    assert issubclass(record_cls, Record)
    return record_cls.schema()


def _json_value(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode()
    if isinstance(value, Record):
        return plain_fields(value)
    raise TypeError(f"a {type(value).__name__} cannot be written")


_JSON = json.JSONEncoder(separators=(",", ":"), default=_json_value)
