"""Magnetar: messaging with acks that stick.

`Client` and what it makes are loaded when they are first asked for, so that a program that
wants an id, an error or the broker does not load a network client.
"""

from typing import TYPE_CHECKING

from magnetar import exceptions, schema
from magnetar.client.authentication import (
    Authentication,
    AuthenticationAthenz,
    AuthenticationBasic,
    AuthenticationOauth2,
    AuthenticationTLS,
    AuthenticationToken,
)
from magnetar.client.backoff import (
    MultiplierRedeliveryBackoff,
)
from magnetar.client.crypto_key_reader import (
    CryptoKeyReader,
)
from magnetar.client.encryption_context import (
    EncryptionContext,
    EncryptionKey,
)
from magnetar.client.errors import (
    Result,
)
from magnetar.client.logger import (
    ConsoleLogger,
    FileLogger,
    LoggerLevel,
)
from magnetar.client.message import (
    Message,
)
from magnetar.client.options import (
    BatchingType,
    ConsumerBatchReceivePolicy,
    ConsumerCryptoFailureAction,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    PartitionsRoutingMode,
)
from magnetar.client.schema import (
    BytesSchema,
)
from magnetar.client.service_info import (
    AutoClusterFailover,
    ServiceInfo,
    ServiceInfoProvider,
)
from magnetar.errors import (
    AlreadyClosed,
    AuthenticationError,
    AuthorizationError,
    BatchIndexError,
    BrokerError,
    BrokerMetadataError,
    BrokerPersistenceError,
    ChecksumError,
    ConnectError,
    ConsumerAssignError,
    ConsumerBusy,
    ConsumerNotFound,
    ConsumerNotInitialized,
    CorruptAckError,
    CorruptionError,
    CryptoError,
    CumulativeAcknowledgementNotAllowedError,
    DataDirectoryError,
    DirectoryInUseError,
    DiskError,
    DiskFullError,
    ErrorGettingAuthenticationData,
    FormatVersionError,
    IncompatibleSchema,
    Interrupted,
    InvalidConfiguration,
    InvalidMessage,
    InvalidMessageIdError,
    InvalidTopicName,
    InvalidTopicNameError,
    InvalidTxnStatusError,
    InvalidUrl,
    LocalProtocolError,
    LookupError,
    MagnetarError,
    MemoryBufferIsFull,
    MessageTooBig,
    MessageTooLargeError,
    NoSuchEntryError,
    NotAllowedError,
    NotConnected,
    OperationNotSupported,
    ProducerBlockedQuotaExceededError,
    ProducerBlockedQuotaExceededException,
    ProducerBusy,
    ProducerFenced,
    ProducerNotInitialized,
    ProducerQueueIsFull,
    ProtocolError,
    PulsarException,
    ReadError,
    RemoteProtocolError,
    SchemaDecodeError,
    SchemaTypeError,
    ServiceUnitNotReady,
    SettingsError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StoreClosedError,
    SubscriptionNotFound,
    Timeout,
    TooManyLookupRequestException,
    TopicNotFound,
    TopicTerminated,
    TransactionConflict,
    TransactionCoordinatorNotFoundError,
    TransactionNotFound,
    UnknownError,
    UnknownFieldError,
    UnknownObjectError,
    UnsupportedVersionError,
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

if TYPE_CHECKING:
    from magnetar.client import aio
    from magnetar.client.blocking import Client, Consumer, Producer, Reader, TableView

__all__ = [
    "COMPILED",
    "AlreadyClosed",
    "Authentication",
    "AuthenticationAthenz",
    "AuthenticationBasic",
    "AuthenticationError",
    "AuthenticationOauth2",
    "AuthenticationTLS",
    "AuthenticationToken",
    "AuthorizationError",
    "AutoClusterFailover",
    "BatchIndexError",
    "BatchingType",
    "BrokerError",
    "BrokerMetadataError",
    "BrokerPersistenceError",
    "BytesSchema",
    "ChecksumError",
    "ChunkMessageId",
    "Client",
    "CompressionType",
    "ConnectError",
    "ConsoleLogger",
    "Consumer",
    "ConsumerAssignError",
    "ConsumerBatchReceivePolicy",
    "ConsumerBusy",
    "ConsumerCryptoFailureAction",
    "ConsumerDeadLetterPolicy",
    "ConsumerKeySharedPolicy",
    "ConsumerNotFound",
    "ConsumerNotInitialized",
    "ConsumerType",
    "CorruptAckError",
    "CorruptionError",
    "CryptoError",
    "CryptoKeyReader",
    "CumulativeAcknowledgementNotAllowedError",
    "DataDirectoryError",
    "DirectoryInUseError",
    "DiskError",
    "DiskFullError",
    "EncryptionContext",
    "EncryptionKey",
    "ErrorGettingAuthenticationData",
    "FileLogger",
    "FormatVersionError",
    "IncompatibleSchema",
    "InitialPosition",
    "Interrupted",
    "InvalidConfiguration",
    "InvalidMessage",
    "InvalidMessageIdError",
    "InvalidTopicName",
    "InvalidTopicNameError",
    "InvalidTxnStatusError",
    "InvalidUrl",
    "KeySharedMode",
    "LocalProtocolError",
    "LoggerLevel",
    "LookupError",
    "MagnetarError",
    "MemoryBufferIsFull",
    "Message",
    "MessageId",
    "MessageTooBig",
    "MessageTooLargeError",
    "MultiplierRedeliveryBackoff",
    "NoSuchEntryError",
    "NotAllowedError",
    "NotConnected",
    "OperationNotSupported",
    "PartitionsRoutingMode",
    "Position",
    "Producer",
    "ProducerAccessMode",
    "ProducerBlockedQuotaExceededError",
    "ProducerBlockedQuotaExceededException",
    "ProducerBusy",
    "ProducerFenced",
    "ProducerNotInitialized",
    "ProducerQueueIsFull",
    "ProtocolError",
    "PulsarException",
    "ReadError",
    "Reader",
    "RegexSubscriptionMode",
    "RemoteProtocolError",
    "Result",
    "SchemaDecodeError",
    "SchemaTypeError",
    "ServiceInfo",
    "ServiceInfoProvider",
    "ServiceUnitNotReady",
    "SettingsError",
    "StorageError",
    "StorageFullError",
    "StorageReadOnlyError",
    "StoreClosedError",
    "SubscriptionNotFound",
    "TableView",
    "Timeout",
    "TooManyLookupRequestException",
    "TopicName",
    "TopicNotFound",
    "TopicTerminated",
    "TransactionConflict",
    "TransactionCoordinatorNotFoundError",
    "TransactionNotFound",
    "UnknownError",
    "UnknownFieldError",
    "UnknownObjectError",
    "UnsupportedVersionError",
    "UsageError",
    "aio",
    "exceptions",
    "schema",
]

__version__ = "0.1.0"

COMPILED: bool = not position.__file__.endswith(".py")
"""Whether the pure rooms run compiled by mypyc; the same code runs interpreted."""

_LATE = ("Client", "Consumer", "Producer", "Reader", "TableView")


def __getattr__(name: str) -> object:
    """The parts that are loaded late; see above."""
    if name == "aio":
        from magnetar.client import aio

        return aio
    if name in _LATE:
        from magnetar.client import blocking

        return getattr(blocking, name)
    raise AttributeError(f"module 'magnetar' has no attribute {name!r}")
