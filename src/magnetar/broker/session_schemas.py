"""What a session answers to questions about schemas."""

from magnetar.broker.auth.access import LOOK, PRODUCE
from magnetar.broker.auth.roles import Principal
from magnetar.broker.broker import Broker
from magnetar.broker.schema import SchemaInfo, schema_topic
from magnetar.broker.wire_error import wire_error
from magnetar.errors import MagnetarError
from magnetar.model import SchemaType, TopicName
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["get_or_create_schema", "get_schema", "read_schema"]


def read_schema(schema: pb.Schema) -> SchemaInfo:
    """The schema that a client brings."""
    return SchemaInfo(
        schema.type, schema.schema_data, {item.key: item.value for item in schema.properties}
    )


def get_schema(
    broker: Broker, principal: Principal | None, command: pb.CommandGetSchema
) -> pb.CommandGetSchemaResponse:
    try:
        name = TopicName.parse(command.topic)
        broker.access.require_topic(principal, LOOK, name)
        stored = broker.schemas.lookup(schema_topic(name), command.schema_version)
    except MagnetarError as error:
        code, reason = wire_error(error)
        return pb.CommandGetSchemaResponse(
            request_id=command.request_id, error_code=code, error_message=reason
        )
    schema = pb.Schema(name=schema_topic(name), schema_data=stored.data, type=stored.type)
    for key, value in stored.properties.items():
        schema.properties.add(key=key, value=value)
    return pb.CommandGetSchemaResponse(
        request_id=command.request_id, schema=schema, schema_version=stored.version_bytes
    )


def get_or_create_schema(
    broker: Broker, principal: Principal | None, command: pb.CommandGetOrCreateSchema
) -> pb.CommandGetOrCreateSchemaResponse:
    try:
        name = TopicName.parse(command.topic)
        broker.access.require_topic(principal, PRODUCE, name)
        broker.find(name)
        schema = read_schema(command.schema)
        version = broker.schemas.add_producer_schema(
            schema_topic(name),
            None if schema.type == SchemaType.NONE else schema,
            broker.schema_policy(name),
        )
    except (MagnetarError, ValueError) as error:
        code, reason = wire_error(error)
        return pb.CommandGetOrCreateSchemaResponse(
            request_id=command.request_id, error_code=code, error_message=reason
        )
    return pb.CommandGetOrCreateSchemaResponse(
        request_id=command.request_id, schema_version=version
    )
