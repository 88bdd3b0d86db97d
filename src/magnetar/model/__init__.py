"""Values that every other room speaks in: ids, positions, names, enums."""

from magnetar.model.enums import (
    AckType,
    CompressionType,
    InitialPosition,
    KeySharedMode,
    ProducerAccessMode,
    RegexSubscriptionMode,
    SchemaType,
    ServerError,
    ValidationError,
)
from magnetar.model.message_id import ChunkMessageId, MessageId
from magnetar.model.position import Position
from magnetar.model.subscription_type import ConsumerType
from magnetar.model.topic_name import TopicName

__all__ = [
    "AckType",
    "ChunkMessageId",
    "CompressionType",
    "ConsumerType",
    "InitialPosition",
    "KeySharedMode",
    "MessageId",
    "Position",
    "ProducerAccessMode",
    "RegexSubscriptionMode",
    "SchemaType",
    "ServerError",
    "TopicName",
    "ValidationError",
]
