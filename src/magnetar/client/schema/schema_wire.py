"""Schemas as the wire has them."""

from magnetar.client.schema.schema import Schema
from magnetar.client.schema.schema_info import SchemaInfo
from magnetar.model.enums import SchemaType
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["schema_from_pb", "schema_to_pb"]


def schema_to_pb(schema: Schema) -> pb.Schema | None:
    """Returns what PRODUCER and SUBSCRIBE carry; nothing for bytes, which have no schema."""
    info = schema.schema_info()
    if not info.is_registered():
        return None
    found = pb.Schema(name=info.name(), schema_data=info.data(), type=int(info.schema_type()))
    for key, value in info.properties().items():
        found.properties.add(key=key, value=value)
    return found


def schema_from_pb(schema: pb.Schema) -> SchemaInfo:
    """Returns what a broker says of a schema."""
    return SchemaInfo(
        SchemaType(schema.type),
        schema.name,
        schema.schema_data,
        {pair.key: pair.value for pair in schema.properties},
    )
