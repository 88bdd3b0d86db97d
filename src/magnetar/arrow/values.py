"""Values: bytes as they are, text, or records by the schema that they were written with.

What the `value` column is asked to be decides. Bytes are passed on; text is checked; a
struct is decoded by the topic's schema of the version that each message names, JSON or Avro.
Fields that a version lacks are null, fields that nobody asks for are left out.
"""

import io
import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pyarrow as pa

from magnetar.arrow.plan.settings import ReadSettings
from magnetar.client.door.bulk import BulkClient
from magnetar.client.schema.schema_info import SchemaInfo
from magnetar.errors import InvalidMessage, OperationNotSupported, SettingsError, TopicNotFound
from magnetar.model import SchemaType
from magnetar.protocol.payload.columns import NumberColumn

__all__ = ["ValueDecoder", "value_type_of"]

Decode = Callable[[bytes], Any]


class ValueDecoder:
    """Decodes the values of one topic partition."""

    def __init__(
        self, client: BulkClient, topic: str, schema: "pa.Schema", settings: ReadSettings
    ) -> None:
        self._client = client
        self._topic = topic
        self._names = settings.names
        self._fails = settings.bad_records == "fail"
        self._type: pa.DataType = (
            schema.field("value").type if "value" in schema.names else pa.binary()
        )
        self._decoders: dict[bytes, Decode] = {}

    def decode(
        self, values: "pa.Array", versions: "pa.Array", run_ends: NumberColumn
    ) -> "tuple[pa.Array, dict[int, str]]":
        """Returns the value column, and which rows have none because they cannot be decoded."""
        if pa.types.is_binary(self._type):
            return values, {}
        if pa.types.is_string(self._type):
            return self._decode_text(values)
        return self._decode_records(values, versions, run_ends)

    def _decode_text(self, values: "pa.Array") -> "tuple[pa.Array, dict[int, str]]":
        try:
            return values.cast(pa.string()), {}
        except pa.ArrowInvalid:
            return self._one_by_one(values.to_pylist(), lambda value, row: value.decode())

    def _decode_records(
        self, values: "pa.Array", versions: "pa.Array", run_ends: NumberColumn
    ) -> "tuple[pa.Array, dict[int, str]]":
        by_row: list[Decode] = []
        for run, version in enumerate(versions.to_pylist()):
            decode = self._decoder_of(version or b"")
            by_row.extend([decode] * (run_ends.at(run) - len(by_row)))
        raw = values.to_pylist()
        try:
            found = [None if value is None else by_row[row](value) for row, value in enumerate(raw)]
            return pa.array(found, self._type), {}
        except Exception:
            # One of them; which, and whether that matters, is found out one by one.
            return self._one_by_one(raw, lambda value, row: by_row[row](value))

    def _one_by_one(
        self, raw: list[bytes | None], decode: Callable[[bytes, int], Any]
    ) -> "tuple[pa.Array, dict[int, str]]":
        found: list[Any] = []
        problems: dict[int, str] = {}
        for row, value in enumerate(raw):
            try:
                one = None if value is None else decode(value, row)
                pa.array([one], self._type)
            except Exception as error:  # whatever a decoder raises for bytes that are not its
                problem = f"not what the schema describes: {type(error).__name__}: {error}"[:500]
                if self._fails:
                    raise InvalidMessage(
                        f"a message of {self._topic} is {problem}; set {self._names.bad_records} "
                        "to null or column to read on"
                    ) from error
                one = None
                problems[row] = problem
            found.append(one)
        return pa.array(found, self._type), problems

    def _decoder_of(self, version: bytes) -> Decode:
        decode = self._decoders.get(version)
        if decode is None:
            option = self._names.values
            info = schema_of(self._client, self._topic, version, option)
            decode = self._decoders[version] = _decoder(self._topic, info, option)
        return decode


def schema_of(client: BulkClient, topic: str, version: bytes, option: str) -> SchemaInfo:
    """Returns a topic's schema of a version; without one, the latest."""
    try:
        return client.schema_info(topic, version)
    except TopicNotFound as error:
        raise SettingsError(
            option, f"{topic} has no schema to decode by ({error}): read bytes"
        ) from error


def _decoder(topic: str, info: SchemaInfo, option: str) -> Decode:
    kind = info.schema_type()
    if kind == SchemaType.Json:
        return json.loads
    if kind == SchemaType.Avro:
        fastavro = _fastavro()
        schema = fastavro.parse_schema(json.loads(info.schema()))

        def decode(value: bytes) -> Any:
            return fastavro.schemaless_reader(io.BytesIO(value), schema, None)

        return decode
    raise SettingsError(
        option, f"{topic} has a schema of type {kind.name}: only JSON and Avro have fields"
    )


# ---- From Avro to Arrow ------------------------------------------------------


def value_type_of(client: BulkClient, topic: str, option: str) -> "pa.DataType":
    """Returns what the values of a topic are, by its latest schema."""
    info = schema_of(client, topic, b"", option)
    kind = info.schema_type()
    if kind in (SchemaType.Json, SchemaType.Avro):
        return _Types(option, kind == SchemaType.Avro).of(json.loads(info.schema()))
    if kind == SchemaType.String:
        return pa.string()
    if kind == SchemaType.NONE:
        return pa.binary()
    raise SettingsError(
        option,
        f"{topic} has a schema of type {kind.name}, which is not decoded here: read bytes",
    )


_TIME = pa.timestamp("us", tz="UTC")
_PLAIN: dict[str, "pa.DataType"] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "enum": pa.string(),
    "fixed": pa.binary(),
    "null": pa.string(),
}
_LOGICAL: dict[str, "pa.DataType"] = {
    "date": pa.date32(),
    "timestamp-millis": _TIME,
    "timestamp-micros": _TIME,
}


class _Types:
    """Arrow types of one Avro schema. In JSON there are no logical types, and bytes are text."""

    def __init__(self, option: str, avro: bool) -> None:
        self._option = option
        self._avro = avro
        # Records, enums and fixed by name; None while a record's own fields are looked at.
        self._names: dict[str, Any] = {}

    def of(self, schema: Any) -> "pa.DataType":
        if isinstance(schema, list):
            return self._of_union(schema)
        if isinstance(schema, str):
            return self._of_name(schema)
        kind = schema["type"]
        if kind == "record":
            return self._of_record(schema)
        if kind == "array":
            return pa.list_(self.of(schema["items"]))
        if kind == "map":
            return pa.map_(pa.string(), self.of(schema["values"]))
        logical = schema.get("logicalType")
        if self._avro and logical == "decimal":
            return pa.decimal128(schema["precision"], schema.get("scale", 0))
        if self._avro and logical in _LOGICAL:
            return _LOGICAL[logical]
        if kind in ("enum", "fixed"):
            self._names[schema["name"]] = schema
            return _PLAIN[kind] if self._avro or kind == "enum" else pa.string()
        return self.of(kind)

    def _of_union(self, schema: list[Any]) -> "pa.DataType":
        kinds = [one for one in schema if one != "null"]
        if len(kinds) != 1:
            raise self._error(f"a union of {len(kinds)} types has no column type")
        return self.of(kinds[0])

    def _of_name(self, name: str) -> "pa.DataType":
        if name in self._names:
            if self._names[name] is None:
                raise self._error(f"{name} has itself as a field, for which there is no column")
            return self.of(self._names[name])
        if not self._avro and name == "bytes":
            return pa.string()
        if name in _PLAIN:
            return _PLAIN[name]
        raise self._error(f"unknown type {name!r} in the topic's schema")

    def _of_record(self, schema: dict[str, Any]) -> "pa.DataType":
        self._names[schema["name"]] = None
        fields = [(field["name"], self.of(field["type"])) for field in schema["fields"]]
        self._names[schema["name"]] = schema
        return pa.struct(fields)

    def _error(self, reason: str) -> SettingsError:
        return SettingsError(self._option, reason)


def _fastavro() -> ModuleType:
    try:
        import fastavro
    except ImportError as missing:
        raise OperationNotSupported(
            f"values of an Avro schema need fastavro ({missing}): pip install fastavro"
        ) from missing
    return fastavro
