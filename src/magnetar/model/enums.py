"""Pulsar's enumerations.

The first group has the names of the official Python client, so that a program written
for it finds them; the second, which only the wire knows, has Pulsar's own names. The
numbers are those of the wire throughout.
"""

from enum import IntEnum
from typing import Final


class InitialPosition(IntEnum):
    """Where a subscription that did not exist yet begins."""

    Latest = 0
    Earliest = 1


class CompressionType(IntEnum):
    """How a producer compresses what it sends."""

    NONE = 0
    LZ4 = 1
    ZLib = 2
    ZSTD = 3
    SNAPPY = 4


# As Pulsar's configuration and REST write them.
COMPRESSION_NAMES: Final = {kind.name.upper(): kind for kind in CompressionType}


class ProducerAccessMode(IntEnum):
    """Whether a producer tolerates others on its topic."""

    Shared = 0
    Exclusive = 1
    WaitForExclusive = 2
    ExclusiveWithFencing = 3


class KeySharedMode(IntEnum):
    """Who decides which consumer of a Key_Shared subscription owns which keys."""

    AutoSplit = 0
    Sticky = 1


class RegexSubscriptionMode(IntEnum):
    """Which topics a pattern may match."""

    PersistentOnly = 0
    NonPersistentOnly = 1
    AllTopics = 2


class AckType(IntEnum):
    """An ack of single messages, or of everything up to one."""

    Individual = 0
    Cumulative = 1


class ValidationError(IntEnum):
    """Why a consumer acknowledges a message that it could not read."""

    UncompressedSizeCorruption = 0
    DecompressionError = 1
    ChecksumMismatch = 2
    BatchDeSerializeError = 3
    DecryptionError = 4


class SchemaType(IntEnum):
    """The kind of a schema as the broker stores it."""

    NONE = 0
    String = 1
    Json = 2
    Protobuf = 3
    Avro = 4
    Bool = 5
    Int8 = 6
    Int16 = 7
    Int32 = 8
    Int64 = 9
    Float = 10
    Double = 11
    Date = 12
    Time = 13
    Timestamp = 14
    KeyValue = 15
    Instant = 16
    LocalDate = 17
    LocalTime = 18
    LocalDateTime = 19
    ProtobufNative = 20
    AutoConsume = 21
    External = 22


class ServerError(IntEnum):
    """What a broker says when it refuses."""

    UnknownError = 0
    MetadataError = 1
    PersistenceError = 2
    AuthenticationError = 3
    AuthorizationError = 4
    ConsumerBusy = 5
    ServiceNotReady = 6
    ProducerBlockedQuotaExceededError = 7
    ProducerBlockedQuotaExceededException = 8
    ChecksumError = 9
    UnsupportedVersionError = 10
    TopicNotFound = 11
    SubscriptionNotFound = 12
    ConsumerNotFound = 13
    TooManyRequests = 14
    TopicTerminatedError = 15
    ProducerBusy = 16
    InvalidTopicName = 17
    IncompatibleSchema = 18
    ConsumerAssignError = 19
    TransactionCoordinatorNotFound = 20
    InvalidTxnStatus = 21
    NotAllowedError = 22
    TransactionConflict = 23
    TransactionNotFound = 24
    ProducerFenced = 25
