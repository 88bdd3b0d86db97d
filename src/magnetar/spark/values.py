"""Values: bytes as they are, text, or records by the schema that they were written with.

What the `value` column is asked to be decides. Bytes are passed on; text is checked; a
struct is decoded by the topic's schema of the version that each message names, JSON or Avro.
Fields that a version lacks are null, fields that nobody asks for are left out.
"""

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from magnetar.client.door.bulk import BulkClient
from magnetar.client.schema.schema_info import SchemaInfo
from magnetar.errors import InvalidMessage, SettingsError, TopicNotFound
from magnetar.model import SchemaType
from magnetar.protocol.columns import NumberColumn

__all__ = ["ValueDecoder", "arrow_schema", "value_type_of"]

Decode = Callable[[bytes], Any]


def arrow_schema(schema: StructType) -> "pa.Schema":
    """What Spark compares record batches with."""
    return to_arrow_schema(schema, timezone="UTC")


class ValueDecoder:
    """Decodes the values of one topic partition."""

    def __init__(
        self, client: BulkClient, topic: str, schema: "pa.Schema", bad_records: str
    ) -> None:
        self._client = client
        self._topic = topic
        self._fails = bad_records == "fail"
        self._type: pa.DataType = (
            schema.field("value").type if "value" in schema.names else pa.binary()
        )
        self._decoders: dict[bytes, Decode] = {}

    def decode(
        self, values: "pa.Array", versions: "pa.Array", run_ends: NumberColumn
    ) -> "tuple[pa.Array, dict[int, str]]":
        """The value column, and which rows have none because they cannot be decoded."""
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
                        f"a message of {self._topic} is {problem}; set badRecords to null or "
                        "column to read on"
                    ) from error
                one = None
                problems[row] = problem
            found.append(one)
        return pa.array(found, self._type), problems

    def _decoder_of(self, version: bytes) -> Decode:
        decode = self._decoders.get(version)
        if decode is None:
            info = schema_of(self._client, self._topic, version)
            decode = self._decoders[version] = _decoder(self._topic, info)
        return decode


def schema_of(client: BulkClient, topic: str, version: bytes) -> SchemaInfo:
    """A topic's schema of a version; without one, the latest."""
    try:
        return client.schema_info(topic, version)
    except TopicNotFound as error:
        raise SettingsError(
            "valueSchema", f"{topic} has no schema to decode by ({error}): read bytes"
        ) from error


def _decoder(topic: str, info: SchemaInfo) -> Decode:
    kind = info.schema_type()
    if kind == SchemaType.Json:
        return json.loads
    if kind == SchemaType.Avro:
        schema = fastavro.parse_schema(json.loads(info.schema()))

        def decode(value: bytes) -> Any:
            return fastavro.schemaless_reader(io.BytesIO(value), schema, None)

        return decode
    raise SettingsError(
        "valueSchema", f"{topic} has a schema of type {kind.name}: only JSON and Avro have fields"
    )


# ---- From Avro to Spark ------------------------------------------------------


def value_type_of(client: BulkClient, topic: str) -> DataType:
    """What the values of a topic are, by its latest schema."""
    info = schema_of(client, topic, b"")
    kind = info.schema_type()
    if kind in (SchemaType.Json, SchemaType.Avro):
        names: dict[str, Any] = {}
        return _type_of(json.loads(info.schema()), kind == SchemaType.Avro, names)
    if kind == SchemaType.String:
        return StringType()
    if kind == SchemaType.NONE:
        return BinaryType()
    raise SettingsError(
        "valueSchema",
        f"{topic} has a schema of type {kind.name}, which is not decoded here: read bytes",
    )


_PLAIN: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "bytes": BinaryType(),
    "enum": StringType(),
    "fixed": BinaryType(),
    "null": StringType(),
}
_LOGICAL: dict[str, DataType] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
}


def _type_of(schema: Any, avro: bool, names: dict[str, Any]) -> DataType:
    """The Spark type of an Avro schema. In JSON there are no logical types, and bytes are text."""
    if isinstance(schema, list):
        kinds = [one for one in schema if one != "null"]
        if len(kinds) != 1:
            raise SettingsError("valueSchema", f"a union of {len(kinds)} types has no column type")
        return _type_of(kinds[0], avro, names)
    if isinstance(schema, str):
        if schema in names:
            if names[schema] is None:
                raise SettingsError(
                    "valueSchema", f"{schema} has itself as a field, for which there is no column"
                )
            return _type_of(names[schema], avro, names)
        if not avro and schema == "bytes":
            return StringType()
        if schema in _PLAIN:
            return _PLAIN[schema]
        raise SettingsError("valueSchema", f"unknown type {schema!r} in the topic's schema")
    kind = schema["type"]
    if kind == "record":
        names[schema["name"]] = None
        fields = [
            StructField(field["name"], _type_of(field["type"], avro, names))
            for field in schema["fields"]
        ]
        names[schema["name"]] = schema
        return StructType(fields)
    if kind == "array":
        return ArrayType(_type_of(schema["items"], avro, names))
    if kind == "map":
        return MapType(StringType(), _type_of(schema["values"], avro, names))
    logical = schema.get("logicalType")
    if avro and logical == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0))
    if avro and logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind in ("enum", "fixed"):
        names[schema["name"]] = schema
        return _PLAIN[kind] if avro or kind == "enum" else StringType()
    return _type_of(kind, avro, names)
