"""The texts of commands that the broker would keep, checked before anything is done.

Each function raises BrokerError for a text that is longer than `text_limits.py` allows.
"""

from collections.abc import Sequence

from magnetar.broker.broker import Broker
from magnetar.broker.setting.text_limits import (
    CLIENT_VERSION,
    HASH_RANGES,
    METADATA,
    PROPERTIES,
    SCHEMA,
    TextLimit,
    check_count,
    check_properties,
    check_text,
)
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["check_connect", "check_producer", "check_schema", "check_subscribe"]


def check_connect(command: pb.CommandConnect) -> None:
    size = len(command.client_version.encode())
    check_text("the client version", size, CLIENT_VERSION.bytes_max)


def check_producer(broker: Broker, command: pb.CommandProducer) -> None:
    broker.require_short("producer", command.producer_name)
    _check_pairs("the metadata of the producer", command.metadata, METADATA)
    if command.HasField("schema"):
        check_schema(broker, command.schema)


def check_subscribe(broker: Broker, command: pb.CommandSubscribe) -> None:
    broker.require_short("consumer", command.consumer_name)
    _check_pairs("the metadata of the consumer", command.metadata, METADATA)
    properties = command.subscription_properties
    _check_pairs("the properties of the subscription", properties, PROPERTIES)
    ranges = command.keySharedMeta.hashRanges
    check_count("the Key_Shared meta of the consumer", len(ranges), HASH_RANGES)
    if command.HasField("schema"):
        check_schema(broker, command.schema)


def check_schema(broker: Broker, schema: pb.Schema) -> None:
    limit = broker.settings.schema_size_max
    check_text("the definition of the schema", len(schema.schema_data), limit, SCHEMA.setting)
    _check_pairs("the properties of the schema", schema.properties, PROPERTIES)


def _check_pairs(what: str, pairs: Sequence[pb.KeyValue], limit: TextLimit) -> None:
    """Counts before anything is made of them: there may be hundreds of thousands."""
    check_count(what, len(pairs), limit)
    check_properties(what, {item.key: item.value for item in pairs}, limit)
