"""Magnetar: messaging with acks that stick.

`Client`, what it makes and what speaks the wire are loaded when they are first asked for, so that
a program that wants an id, an error or the broker loads neither a network client nor protobuf.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from magnetar import exceptions, schema
from magnetar.client.errors import Result
from magnetar.client.intercept.consumer_interceptor import ConsumerInterceptor
from magnetar.client.intercept.producer_interceptor import MessageToSend, ProducerInterceptor
from magnetar.client.option.authentication import (
    Authentication,
    AuthenticationAthenz,
    AuthenticationBasic,
    AuthenticationOauth2,
    AuthenticationTLS,
    AuthenticationToken,
)
from magnetar.client.option.backoff import MultiplierRedeliveryBackoff
from magnetar.client.option.logger import ConsoleLogger, FileLogger, LoggerLevel
from magnetar.client.option.policy import (
    BatchingType,
    ConsumerBatchReceivePolicy,
    ConsumerCryptoFailureAction,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    PartitionsRoutingMode,
)
from magnetar.client.schema.schema import BytesSchema
from magnetar.errors import (
    AckSizeError,
    AlreadyClosed,
    AuthenticationError,
    AuthorizationError,
    BatchIndexError,
    BrokerError,
    BrokerMetadataError,
    BrokerPersistenceError,
    CatalogLossError,
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
    DiskShortageError,
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
    TransactionOutcomeUnknownError,
    TransactionsDisabledError,
    TransactionTimeoutError,
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
from magnetar.model.version import VERSION

if TYPE_CHECKING:
    from magnetar import aio, cloudevents
    from magnetar.arrow.door import read_arrow, scan_arrow
    from magnetar.client.consumer.message import Message
    from magnetar.client.door.blocking import (
        Client,
        Consumer,
        Producer,
        Reader,
        TableView,
        Transaction,
    )
    from magnetar.client.option.crypto_key_reader import CryptoKeyReader
    from magnetar.client.option.encryption_context import EncryptionContext, EncryptionKey
    from magnetar.client.option.service_info import (
        AutoClusterFailover,
        ServiceInfo,
        ServiceInfoProvider,
    )
    from magnetar.client.worker.health import WorkerHealth
    from magnetar.client.worker.runner.aio import AsyncWorker
    from magnetar.client.worker.runner.aio_work import AsyncWork
    from magnetar.client.worker.runner.decorator import worker
    from magnetar.client.worker.runner.run import run
    from magnetar.client.worker.runner.thread_work import ThreadWork
    from magnetar.client.worker.runner.threads import ThreadWorker
    from magnetar.client.worker.state import WorkerState
    from magnetar.rest.admin import Admin
    from magnetar.rest.admin_error import AdminError

__all__ = [
    "COMPILED",
    "AckSizeError",
    "Admin",
    "AdminError",
    "AlreadyClosed",
    "AsyncWork",
    "AsyncWorker",
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
    "CatalogLossError",
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
    "ConsumerInterceptor",
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
    "DiskShortageError",
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
    "MessageToSend",
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
    "ProducerInterceptor",
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
    "ThreadWork",
    "ThreadWorker",
    "Timeout",
    "TooManyLookupRequestException",
    "TopicName",
    "TopicNotFound",
    "TopicTerminated",
    "Transaction",
    "TransactionConflict",
    "TransactionCoordinatorNotFoundError",
    "TransactionNotFound",
    "TransactionOutcomeUnknownError",
    "TransactionTimeoutError",
    "TransactionsDisabledError",
    "UnknownError",
    "UnknownFieldError",
    "UnknownObjectError",
    "UnsupportedVersionError",
    "UsageError",
    "WorkerHealth",
    "WorkerState",
    "aio",
    "cloudevents",
    "exceptions",
    "read_arrow",
    "run",
    "scan_arrow",
    "schema",
    "worker",
]

__version__ = VERSION

COMPILED: bool = not position.__file__.endswith(".py")
"""Whether the pure rooms run compiled by mypyc; the same code runs interpreted."""

# Where those names are from that are loaded late.
_LATE = {
    "Admin": "magnetar.rest.admin",
    "AdminError": "magnetar.rest.admin_error",
    **dict.fromkeys(
        ("Client", "Consumer", "Producer", "Reader", "TableView", "Transaction"),
        "magnetar.client.door.blocking",
    ),
    "CryptoKeyReader": "magnetar.client.option.crypto_key_reader",
    "Message": "magnetar.client.consumer.message",
    **dict.fromkeys(
        ("EncryptionContext", "EncryptionKey"), "magnetar.client.option.encryption_context"
    ),
    **dict.fromkeys(
        ("AutoClusterFailover", "ServiceInfo", "ServiceInfoProvider"),
        "magnetar.client.option.service_info",
    ),
    "AsyncWork": "magnetar.client.worker.runner.aio_work",
    "AsyncWorker": "magnetar.client.worker.runner.aio",
    "ThreadWork": "magnetar.client.worker.runner.thread_work",
    "ThreadWorker": "magnetar.client.worker.runner.threads",
    "WorkerHealth": "magnetar.client.worker.health",
    "WorkerState": "magnetar.client.worker.state",
    "read_arrow": "magnetar.arrow.door",
    "scan_arrow": "magnetar.arrow.door",
    "run": "magnetar.client.worker.runner.run",
    "worker": "magnetar.client.worker.runner.decorator",
}


def __getattr__(name: str) -> object:
    """The parts that are loaded late; see above."""
    if name == "aio":
        return import_module("magnetar.aio")
    if name == "cloudevents":
        return import_module("magnetar.cloudevents")
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module 'magnetar' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What completion shows: the parts that are loaded late as well."""
    return sorted({*globals(), *__all__})
