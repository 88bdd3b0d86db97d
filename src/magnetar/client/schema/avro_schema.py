"""Avro: values in the binary form of a schema, read with the schema that they were written by.

The bytes of Avro cannot be read without the schema of their writer, which need not be the
reader's: a message says by number which version of its topic's schema that was. A version
that is not known yet is asked of the attached client, or is told beforehand by
`add_writer_schema`, which is how a client that must not wait does it. What the writer had and
the reader has not is left out, and what it had not gets the reader's default.

fastavro is imported with the first schema, not before: the extra `avro` brings it.
"""

import enum
import io
import json
from types import ModuleType
from typing import Any, overload

from magnetar.client.schema.model.model import Model, model_errors, model_of
from magnetar.client.schema.record import Record, plain_fields
from magnetar.client.schema.schema import Schema, SchemaMessage, schema_of
from magnetar.client.schema.schema_info import SchemaInfo
from magnetar.client.schema.value import T
from magnetar.errors import (
    MagnetarError,
    OperationNotSupported,
    SchemaDecodeError,
    SchemaTypeError,
    UsageError,
)
from magnetar.model.enums import SchemaType

__all__ = ["AvroSchema"]


class AvroSchema(Schema[T]):
    """Records in Avro's binary form; or dicts, with an Avro schema and None for the record.

    A record may also be a dataclass, a msgspec struct or a Pydantic model.

    >>> schema = AvroSchema(None, {"type": "record", "name": "P", "fields": [
    ...     {"name": "x", "type": "int"}]})
    >>> schema.decode(schema.encode({"x": 5}))
    {'x': 5}
    """

    @overload
    def __init__(
        self, record_cls: type[T], schema_definition: dict[str, Any] | None = None
    ) -> None: ...
    @overload
    def __init__(
        self: "AvroSchema[dict[str, Any]]", record_cls: None, schema_definition: dict[str, Any]
    ) -> None: ...
    def __init__(
        self, record_cls: type[Any] | None, schema_definition: dict[str, Any] | None = None
    ) -> None:
        if record_cls is None and schema_definition is None:
            raise UsageError("AvroSchema takes a record class, or None and a schema definition")
        self._model = model_of(record_cls, json=False)
        if self._model is not None:
            definition = self._model.definition
        else:
            definition = schema_definition if record_cls is None else schema_of(record_cls)
        super().__init__(record_cls, SchemaType.Avro, definition, "AVRO")
        self._fastavro = _fastavro()
        self._schema: Any = self._parsed(definition)
        self._writer_schemas: dict[tuple[str, int], Any] = {}
        # Why those could not be had that were asked for.
        self._problems: dict[tuple[str, int], MagnetarError] = {}

    def encode(self, obj: T) -> bytes:
        buffer = io.BytesIO()
        fields = self._fields(obj)
        try:
            self._fastavro.schemaless_writer(buffer, self._schema, fields)
        except (TypeError, ValueError, KeyError, IndexError, OverflowError) as error:
            raise SchemaTypeError(str(self), f"cannot be encoded: {error}") from error
        return buffer.getvalue()

    def decode(self, data: bytes) -> T:
        return self._decode(data, self._schema)

    def decode_message(self, msg: SchemaMessage) -> T:
        version = msg.int_schema_version()
        if version < 0:
            return self.decode(msg.data())
        return self._decode(msg.data(), self._writer_schema(msg.topic_name(), version))

    def knows(self, topic: str, version: int) -> bool:
        """Returns whether messages of this version can be decoded without asking."""
        return version < 0 or (topic, version) in self._writer_schemas

    def add_writer_schema(self, topic: str, version: int, info: SchemaInfo) -> None:
        """Tells what messages of a version were written with."""
        if info.schema_type() is not SchemaType.Avro:
            raise SchemaDecodeError(
                str(self), f"version {version} of {topic} is {info.schema_type().name}, not Avro"
            )
        try:
            definition = json.loads(info.data())
        except ValueError as error:
            raise SchemaDecodeError(str(self), f"version {version} of {topic}: {error}") from error
        # Avro compares the names of records, which classes that fit otherwise need not share.
        if isinstance(definition, dict) and isinstance(self._schema, dict):
            definition["name"] = self._schema["name"]
        self._writer_schemas[topic, version] = self._parsed(definition)
        self._problems.pop((topic, version), None)

    def add_problem(self, topic: str, version: int, problem: MagnetarError) -> None:
        """A version could not be had: messages of it raise this, until it can."""
        self._problems[topic, version] = problem

    def _writer_schema(self, topic: str, version: int) -> Any:
        if not self.knows(topic, version):
            if self._client is None:
                if (topic, version) in self._problems:
                    raise self._problems[topic, version]
                return self._schema
            self.add_writer_schema(topic, version, self._client.get_schema_info(topic, version))
        return self._writer_schemas[topic, version]

    def _fields(self, obj: Any) -> Any:
        if self._record_cls is not None:
            self._validate_object_type(obj)
            if self._model is not None:
                return self._model_fields(self._model, obj)
            return {name: _avro_value(value) for name, value in plain_fields(obj).items()}
        if not isinstance(obj, dict):
            raise SchemaTypeError(str(self), f"cannot encode a {type(obj).__name__}, only a dict")
        return obj

    def _model_fields(self, model: Model, obj: Any) -> Any:
        try:
            return model.to_fields(obj)
        except model_errors() as error:
            raise SchemaTypeError(str(self), f"cannot be encoded: {error}") from error

    def _from_fields(self, fields: Any) -> Any:
        if self._model is None:
            return fields if self._record_cls is None else self._record_cls(**fields)
        try:
            return self._model.from_fields(fields)
        except model_errors() as error:
            raise SchemaDecodeError(str(self), str(error)) from error

    def _decode(self, data: bytes, writer_schema: Any) -> T:
        try:
            fields = self._fastavro.schemaless_reader(io.BytesIO(data), writer_schema, self._schema)
        except Exception as error:  # fastavro's readers fail with whatever the bytes lead to
            raise SchemaDecodeError(str(self), f"{type(error).__name__} {error}") from error
        value: T = self._from_fields(fields)
        return value

    def _parsed(self, definition: Any) -> Any:
        try:
            return self._fastavro.parse_schema(definition)
        except Exception as error:  # fastavro has an error of its own for each kind of fault
            raise UsageError(f"no Avro schema: {error}") from error

    def __str__(self) -> str:
        return f"AvroSchema({'dict' if self._record_cls is None else self._record_cls.__name__})"


# What most fields hold.
_PLAIN = frozenset({bool, bytes, float, int, str, type(None)})


def _fastavro() -> ModuleType:
    try:
        import fastavro
    except ImportError as missing:
        raise OperationNotSupported(
            f"AvroSchema needs fastavro ({missing}): pip install fastavro"
        ) from missing
    return fastavro


def _avro_value(value: Any) -> Any:
    """Returns a value as fastavro takes it: enums by name, records as dicts."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Record):
        return {name: _avro_value(item) for name, item in plain_fields(value).items()}
    if isinstance(value, dict):
        return {key: _avro_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_avro_value(item) for item in value]
    return value.name if isinstance(value, enum.Enum) else value
