"""What a session answers to questions about schemas."""

from typing import Final

from magnetar.broker.auth.access import LOOK, PRODUCE
from magnetar.broker.broker import Broker
from magnetar.broker.peer import Peer
from magnetar.broker.schema.schema import SchemaInfo, StoredSchema, schema_topic
from magnetar.broker.session.session_texts import check_schema
from magnetar.broker.topic_loading import LoadFirst
from magnetar.broker.wire_error import wire_error
from magnetar.errors import MagnetarError
from magnetar.model import SchemaType, TopicName
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.wire.writer import BytesWriter, put_varint, varint_size

__all__ = ["get_or_create_schema", "get_schema", "read_schema"]

# Tags of CommandGetSchemaResponse.schema and of Schema.schema_data.
SCHEMA_TAG: Final = 4 << 3 | 2
SCHEMA_DATA_TAG: Final = 3 << 3 | 2


def read_schema(schema: pb.Schema) -> SchemaInfo:
    """The schema that a client brings."""
    return SchemaInfo(
        schema.type, schema.schema_data, {item.key: item.value for item in schema.properties}
    )


def get_schema(broker: Broker, peer: Peer, command: pb.CommandGetSchema) -> None:
    """Answers with a schema. Its text may be long: it is not copied."""
    try:
        name = TopicName.parse(command.topic)
        broker.access.require_topic(peer.principal, LOOK, name)
        stored = broker.schemas.lookup(schema_topic(name), command.schema_version)
        broker.outbound.require_room(len(stored.data))
    except MagnetarError as error:
        code, reason = wire_error(error)
        peer.send(
            pb.CommandGetSchemaResponse(
                request_id=command.request_id, error_code=code, error_message=reason
            )
        )
        return
    answer = pb.CommandGetSchemaResponse(
        request_id=command.request_id, schema_version=stored.version_bytes
    )
    peer.send_with_fields(answer, [_schema_head(schema_topic(name), stored), stored.data])


def _schema_head(name: str, stored: StoredSchema) -> bytes:
    """The field `schema` of an answer, up to the bytes of `schema_data`."""
    schema = pb.Schema(name=name, schema_data=b"", type=stored.type)
    for key, value in stored.properties.items():
        schema.properties.add(key=key, value=value)
    # The empty one counts nothing: of a field that comes twice the last is taken.
    facts = schema.SerializeToString()
    size = len(stored.data)
    out = BytesWriter()
    put_varint(out, SCHEMA_TAG)
    put_varint(out, len(facts) + 1 + varint_size(size) + size)
    out.write(facts)
    put_varint(out, SCHEMA_DATA_TAG)
    put_varint(out, size)
    return out.getvalue()


def get_or_create_schema(broker: Broker, peer: Peer, command: pb.CommandGetOrCreateSchema) -> None:
    """Answers the peer, when the schema was compared with those of the topic."""
    request_id = command.request_id

    def refuse(error: Exception) -> None:
        code, reason = wire_error(error)
        peer.send(
            pb.CommandGetOrCreateSchemaResponse(
                request_id=request_id, error_code=code, error_message=reason
            )
        )

    def found(version: bytes) -> None:
        peer.send(
            pb.CommandGetOrCreateSchemaResponse(request_id=request_id, schema_version=version)
        )

    try:
        name = TopicName.parse(command.topic)
        broker.access.require_topic(peer.principal, PRODUCE, name)
        loading = broker.prepare(name)
        if loading is not None:
            first = LoadFirst(loading)
            first.loaded.then(lambda done: get_or_create_schema(broker, peer, command), refuse)
            peer.begin(first)
            return
        broker.find(name)
        check_schema(broker, command.schema)
        schema = read_schema(command.schema)
    except (MagnetarError, ValueError) as error:
        refuse(error)
        return
    given = None if schema.type == SchemaType.NONE else schema
    broker.add_producer_schema(name, given).then(found, refuse)
