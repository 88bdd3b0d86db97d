"""Schemas and records: `from magnetar.schema import *` where it was `pulsar.schema`."""

from magnetar.client.schema.avro_schema import AvroSchema
from magnetar.client.schema.protobuf_schema import ProtobufNativeSchema
from magnetar.client.schema.record import (
    Array,
    Boolean,
    Bytes,
    CustomEnum,
    Double,
    Field,
    Float,
    Integer,
    Long,
    Map,
    Null,
    Record,
    String,
)
from magnetar.client.schema.schema import BytesSchema, JsonSchema, Schema, StringSchema
from magnetar.client.schema.schema_info import SchemaInfo
from magnetar.model.enums import SchemaType

__all__ = [
    "Array",
    "AvroSchema",
    "Boolean",
    "Bytes",
    "BytesSchema",
    "CustomEnum",
    "Double",
    "Field",
    "Float",
    "Integer",
    "JsonSchema",
    "Long",
    "Map",
    "Null",
    "ProtobufNativeSchema",
    "Record",
    "Schema",
    "SchemaInfo",
    "SchemaType",
    "String",
    "StringSchema",
]
