"""Magnetar: messaging with acks that stick."""

from magnetar.errors import (
    BatchIndexError,
    CorruptAckError,
    InvalidMessageIdError,
    InvalidTopicNameError,
    LocalProtocolError,
    MagnetarError,
    MessageTooLargeError,
    NoSuchEntryError,
    ProtocolError,
    RemoteProtocolError,
    UsageError,
)
from magnetar.model import (
    ChunkMessageId,
    CompressionType,
    ConsumerType,
    InitialPosition,
    KeySharedMode,
    MessageId,
    Position,
    ProducerAccessMode,
    RegexSubscriptionMode,
    TopicName,
    position,
)

__all__ = [
    "COMPILED",
    "BatchIndexError",
    "ChunkMessageId",
    "CompressionType",
    "ConsumerType",
    "CorruptAckError",
    "InitialPosition",
    "InvalidMessageIdError",
    "InvalidTopicNameError",
    "KeySharedMode",
    "LocalProtocolError",
    "MagnetarError",
    "MessageId",
    "MessageTooLargeError",
    "NoSuchEntryError",
    "Position",
    "ProducerAccessMode",
    "ProtocolError",
    "RegexSubscriptionMode",
    "RemoteProtocolError",
    "TopicName",
    "UsageError",
]

__version__ = "0.1.0"

COMPILED: bool = not position.__file__.endswith(".py")
"""Whether the pure rooms run compiled by mypyc; the same code runs interpreted."""
