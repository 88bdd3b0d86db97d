"""Every error that Magnetar raises, grouped by who must act.

    MagnetarError
    ├── UsageError (also a ValueError)     fix the call
    │   ├── InvalidMessageIdError          bytes or numbers that are no message id
    │   ├── InvalidTopicNameError          also an InvalidTopicName: one that Pulsar would refuse
    │   ├── MessageTooLargeError           also a MessageTooBig: more than one message may have
    │   ├── NoSuchEntryError               a position that was never in its topic
    │   ├── AckSizeError                   more parts of batches than one ack may name
    │   ├── BatchIndexError                an index that cannot be placed in its batch
    │   ├── SchemaTypeError                also a TypeError: a value that its field cannot take
    │   ├── SettingsError                  also an InvalidConfiguration: a bad option or policy
    │   └── UnknownFieldError              also an AttributeError: a field that is not declared
    ├── PulsarException                    a client could not do it; the official client's names
    │   ├── InvalidMessage
    │   │   └── SchemaDecodeError          also a ValueError: bytes that are not of the schema
    │   ├── the call or the options:
    │   │     InvalidConfiguration, InvalidUrl, InvalidTopicName, MessageTooBig,
    │   │     OperationNotSupported, NotAllowedError, CumulativeAcknowledgementNotAllowedError,
    │   │     ConsumerNotInitialized, ProducerNotInitialized, AlreadyClosed
    │   ├── the other side is out of reach:
    │   │     Timeout (also a TimeoutError), ConnectError, NotConnected, ReadError, LookupError,
    │   │     Interrupted
    │   ├── who asks:
    │   │     AuthenticationError, AuthorizationError, ErrorGettingAuthenticationData
    │   ├── the broker:
    │   │     UnknownError, BrokerMetadataError, BrokerPersistenceError, ServiceUnitNotReady,
    │   │     TooManyLookupRequestException, UnsupportedVersionError, ChecksumError, CryptoError,
    │   │     IncompatibleSchema
    │   ├── others hold or lack it:
    │   │     TopicNotFound, TopicTerminated, SubscriptionNotFound, ConsumerNotFound,
    │   │     ConsumerBusy, ConsumerAssignError, ProducerBusy, ProducerFenced
    │   ├── no room:
    │   │     ProducerQueueIsFull, MemoryBufferIsFull, ProducerBlockedQuotaExceededError,
    │   │     ProducerBlockedQuotaExceededException
    │   └── transactions:
    │         TransactionCoordinatorNotFoundError, TransactionNotFound, TransactionConflict,
    │         InvalidTxnStatusError
    │         TransactionTimeoutError        also a TransactionNotFound: it was not ended in time
    │         TransactionOutcomeUnknownError also a ConnectError: committed or not, nobody knows
    │         TransactionsDisabledError      also a NotAllowedError: the broker has none
    ├── BrokerError                        a broker refuses a request, and says why
    ├── CorruptAckError                    bytes that no ack state was written as
    ├── StorageError                       the store cannot do what was asked
    │   ├── DataDirectoryError             the directory cannot be used; nothing was touched
    │   │   ├── DirectoryInUseError        another process holds it
    │   │   ├── FormatVersionError         written by a version that this one cannot read
    │   │   ├── CatalogLossError           the catalog is not the one that the journal knows
    │   │   └── CorruptionError            bytes that were durable are damaged or missing
    │   ├── DiskError                      the operating system refused an operation
    │   │   ├── DiskFullError              because there is no space left
    │   │   └── DiskShortageError          because descriptors or memory ran out for the moment
    │   ├── StorageFullError               publishes are refused to keep room for acks
    │   ├── StorageReadOnlyError           a write failed that forbids all later ones
    │   ├── StoreClosedError               the store was closed
    │   └── UnknownObjectError             no such topic, ledger, cursor or entry
    └── ProtocolError                      the conversation itself is broken
        ├── LocalProtocolError             we were about to say something invalid
        └── RemoteProtocolError            the peer said something invalid

Errors carry fields; the text is built from them. The line of a class says all else that is to be
known of its errors: their number on the wire, the status of REST, the exit code of the command
line, and what is tried again. This file stays interpreted, since mypyc compiles only some
exception bases.
"""

from typing import Final

__all__ = [
    "AckSizeError",
    "AlreadyClosed",
    "AuthenticationError",
    "AuthorizationError",
    "BatchIndexError",
    "BrokerError",
    "BrokerMetadataError",
    "BrokerPersistenceError",
    "CatalogLossError",
    "ChecksumError",
    "ConnectError",
    "ConsumerAssignError",
    "ConsumerBusy",
    "ConsumerNotFound",
    "ConsumerNotInitialized",
    "CorruptAckError",
    "CorruptionError",
    "CryptoError",
    "CumulativeAcknowledgementNotAllowedError",
    "DataDirectoryError",
    "DirectoryInUseError",
    "DiskError",
    "DiskFullError",
    "DiskShortageError",
    "ErrorGettingAuthenticationData",
    "FormatVersionError",
    "IncompatibleSchema",
    "Interrupted",
    "InvalidConfiguration",
    "InvalidMessage",
    "InvalidMessageIdError",
    "InvalidTopicName",
    "InvalidTopicNameError",
    "InvalidTxnStatusError",
    "InvalidUrl",
    "LocalProtocolError",
    "LookupError",
    "MagnetarError",
    "MemoryBufferIsFull",
    "MessageTooBig",
    "MessageTooLargeError",
    "NoSuchEntryError",
    "NotAllowedError",
    "NotConnected",
    "OperationNotSupported",
    "ProducerBlockedQuotaExceededError",
    "ProducerBlockedQuotaExceededException",
    "ProducerBusy",
    "ProducerFenced",
    "ProducerNotInitialized",
    "ProducerQueueIsFull",
    "ProtocolError",
    "PulsarException",
    "ReadError",
    "RemoteProtocolError",
    "SchemaDecodeError",
    "SchemaTypeError",
    "ServiceUnitNotReady",
    "SettingsError",
    "StorageError",
    "StorageFullError",
    "StorageReadOnlyError",
    "StoreClosedError",
    "SubscriptionNotFound",
    "Timeout",
    "TooManyLookupRequestException",
    "TopicNotFound",
    "TopicTerminated",
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
]


# How a command ends that met an error; `magnetar.cli.exit_code` says what each means.
REFUSED: Final = 2
UNREACHABLE: Final = 3
FORBIDDEN: Final = 4
MISSING: Final = 5
NOT_TAKEN: Final = 6
FAILED: Final = 7


class MagnetarError(Exception):
    """The root: whatever Magnetar raises on purpose is one of these."""

    # What the line of a class says of its errors; what it does not say is its base's.
    code: int = 0  # the number on the wire, one of `ServerError`
    status: int = 500  # of admin REST
    exit_code: int = REFUSED  # of the command line
    # An ack that failed with it may succeed later, as it is. ConsumerNotFound: the broker has
    # closed us, and we are about to hear of it and subscribe again. UnknownError is what Apache
    # Pulsar says of a cursor that is being closed.
    retry_ack: bool = False
    # An attempt to produce, to subscribe or to look up that failed with it may succeed later.
    retry_connect: bool = False

    def __init_subclass__(
        cls,
        *,
        code: int | None = None,
        status: int | None = None,
        exit_code: int | None = None,
        retry_ack: bool | None = None,
        retry_connect: bool | None = None,
    ) -> None:
        super().__init_subclass__()
        said = {"code": code, "status": status, "exit_code": exit_code}
        said |= {"retry_ack": retry_ack, "retry_connect": retry_connect}
        for name, value in said.items():
            if value is not None:
                setattr(cls, name, value)


class UsageError(MagnetarError, ValueError, code=22, status=400, exit_code=REFUSED):
    """The call is invalid; nothing was changed."""


class PulsarException(MagnetarError):
    """What a client raises: the root of the errors that the official Python client has.

    Their names are its names, and like there each stands directly under this one. The one
    argument is the text: what happened and, where something can be done, what.
    """

    def __str__(self) -> str:
        return super().__str__() or type(self).__name__


class InvalidConfiguration(PulsarException):
    """An option does not exist, or its value is invalid."""


class InvalidUrl(PulsarException, ValueError):
    """A service URL that cannot be understood; where the official client has a ValueError."""


class InvalidTopicName(PulsarException, code=17, status=412):
    """The topic name is invalid."""


class InvalidMessage(PulsarException, exit_code=FAILED):
    """The bytes are not a message, or not one that the schema describes."""


class MessageTooBig(PulsarException):
    """A message exceeds what one message may take."""


class OperationNotSupported(PulsarException, exit_code=NOT_TAKEN):
    """The feature does not exist, or not for this kind of topic or consumer."""


class NotAllowedError(PulsarException, code=22, status=412, exit_code=NOT_TAKEN):
    """The broker forbids the operation in this state or on this subscription."""


class CumulativeAcknowledgementNotAllowedError(PulsarException):
    """Cumulative acknowledgement is not allowed on Shared and Key_Shared subscriptions."""


class ConsumerNotInitialized(PulsarException):
    """The consumer is not open."""


class ProducerNotInitialized(PulsarException):
    """The producer is not open."""


class AlreadyClosed(PulsarException):
    """The client, producer, consumer or reader was closed."""


class Timeout(
    PulsarException, TimeoutError, exit_code=UNREACHABLE, retry_ack=True, retry_connect=True
):
    """No answer came in time. It is Python's own TimeoutError too."""


class ConnectError(PulsarException, exit_code=UNREACHABLE, retry_ack=True, retry_connect=True):
    """The connection could not be made, or broke."""

    # Whether the next attempt would fail alike, until somebody does something: no such host, a
    # certificate that is not trusted, a port of something else.
    permanent: bool = False
    # Whether nothing listens there: a broker that is not started, or about to be.
    refused: bool = False


class NotConnected(PulsarException, exit_code=UNREACHABLE, retry_ack=True):
    """There is no connection to the broker at the moment."""


class ReadError(PulsarException, exit_code=UNREACHABLE, retry_ack=True):
    """The connection broke while something was read from it."""


class LookupError(PulsarException, exit_code=UNREACHABLE, retry_connect=True):
    """The broker of a topic could not be found."""


class Interrupted(PulsarException, exit_code=UNREACHABLE):
    """The wait was interrupted."""


class AuthenticationError(PulsarException, code=3, status=401, exit_code=FORBIDDEN):
    """Authentication failed: the broker did not accept the credentials."""


class AuthorizationError(PulsarException, code=4, status=403, exit_code=FORBIDDEN):
    """The role of the client is not allowed to do this."""


class ErrorGettingAuthenticationData(PulsarException, exit_code=FORBIDDEN):
    """The credentials could not be read."""


class UnknownError(PulsarException, code=0, exit_code=FAILED, retry_ack=True):
    """The broker failed in an unknown way."""


class BrokerMetadataError(PulsarException, code=1, exit_code=FAILED, retry_ack=True):
    """The broker could not read or write its metadata."""


class BrokerPersistenceError(PulsarException, code=2, exit_code=FAILED, retry_ack=True):
    """The broker could not store it."""


class ServiceUnitNotReady(
    PulsarException, code=6, status=503, exit_code=UNREACHABLE, retry_ack=True, retry_connect=True
):
    """The broker does not serve the topic at the moment."""


class TooManyLookupRequestException(
    PulsarException, code=14, status=429, exit_code=UNREACHABLE, retry_ack=True, retry_connect=True
):
    """Too many requests at once."""


class UnsupportedVersionError(PulsarException, code=10, exit_code=NOT_TAKEN):
    """The client or the broker is too old for the request."""


class ChecksumError(PulsarException, code=9, exit_code=FAILED):
    """The message was damaged on its way."""


class CryptoError(PulsarException, exit_code=FAILED):
    """A message could not be encrypted or decrypted."""


class IncompatibleSchema(PulsarException, code=18, status=409, exit_code=NOT_TAKEN):
    """The topic has a schema that this one cannot follow."""


class TopicNotFound(PulsarException, code=11, status=404, exit_code=MISSING):
    """There is no such topic."""


class TopicTerminated(PulsarException, code=15, status=412, exit_code=NOT_TAKEN):
    """The topic was terminated: it takes no more messages."""


class SubscriptionNotFound(PulsarException, code=12, status=404, exit_code=MISSING):
    """There is no such subscription."""


class ConsumerNotFound(PulsarException, code=13, status=404, exit_code=MISSING, retry_ack=True):
    """The broker does not know the consumer."""


class ConsumerBusy(PulsarException, code=5, status=412, exit_code=NOT_TAKEN):
    """Another consumer uses the subscription."""


class ConsumerAssignError(PulsarException, code=19, exit_code=NOT_TAKEN):
    """The broker could not assign keys to the consumer."""


class ProducerBusy(PulsarException, code=16, status=412, exit_code=NOT_TAKEN):
    """Another producer uses the name, or has the topic for itself."""


class ProducerFenced(PulsarException, code=25, exit_code=NOT_TAKEN):
    """Another producer took over the topic."""


class ProducerQueueIsFull(PulsarException, exit_code=UNREACHABLE):
    """Too many messages of this producer wait for a receipt."""


class MemoryBufferIsFull(PulsarException, exit_code=UNREACHABLE):
    """Pending messages take more memory than the client may use."""


class ProducerBlockedQuotaExceededError(
    PulsarException, code=7, exit_code=UNREACHABLE, retry_connect=True
):
    """The backlog has reached its quota: the producer must wait."""


class ProducerBlockedQuotaExceededException(PulsarException, code=8, exit_code=UNREACHABLE):
    """The backlog has reached its quota."""


class TransactionCoordinatorNotFoundError(
    PulsarException, code=20, status=404, exit_code=UNREACHABLE
):
    """There is no coordinator for the transaction."""


class TransactionNotFound(PulsarException, code=24, status=404, exit_code=MISSING):
    """There is no such transaction."""


class TransactionConflict(PulsarException, code=23, status=409, exit_code=NOT_TAKEN):
    """Another transaction has acked the message."""


class InvalidTxnStatusError(PulsarException, code=21, status=409, exit_code=NOT_TAKEN):
    """The transaction is not in a state that allows this."""


class TransactionTimeoutError(TransactionNotFound):
    """The transaction was not ended in its time, so that the broker has aborted it."""


class TransactionOutcomeUnknownError(ConnectError, retry_ack=False, retry_connect=False):
    """The broker was asked to commit, and there is no answer: it may have done so or not."""


class TransactionsDisabledError(NotAllowedError):
    """The broker or cluster has no transactions, or they are switched off."""


class InvalidMessageIdError(UsageError):
    """The bytes, text or numbers are not a message id."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"not a message id: {self.reason}"


class InvalidTopicNameError(UsageError, InvalidTopicName, code=17, status=412):
    """The topic name is invalid; Pulsar would refuse it too."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"invalid topic name {self.name!r}: {self.reason}"


class MessageTooLargeError(UsageError, MessageTooBig):
    """A message, or what is fixed of it, exceeds what one message may take."""

    def __init__(self, size: int, size_max: int, advice: str) -> None:
        super().__init__(size, size_max, advice)
        self.size = size
        self.size_max = size_max
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.size} bytes exceed the limit of {self.size_max}: {self.advice}"


class NoSuchEntryError(UsageError, status=412):
    """An ack names an entry that the topic does not have and never had."""

    def __init__(self, ledger_id: int, entry_id: int, reason: str) -> None:
        super().__init__(ledger_id, entry_id, reason)
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.reason = reason

    def __str__(self) -> str:
        return f"no entry {self.ledger_id}:{self.entry_id} in this topic: {self.reason}"


class AckSizeError(UsageError):
    """Acks of parts of batches that take more memory, together, than one request may."""

    def __init__(self, size_max: int) -> None:
        super().__init__(size_max)
        self.size_max = size_max

    def __str__(self) -> str:
        return (
            f"parts of batches that take more than {self.size_max} bytes to keep: name fewer at "
            "once, or whole batches"
        )


class BatchIndexError(UsageError):
    """A batch index or `ack_set` that does not fit the entry, or fits nobody knows what.

    It is never widened to the whole entry: that would ack what nobody asked for.
    """

    def __init__(self, ledger_id: int, entry_id: int, reason: str) -> None:
        super().__init__(ledger_id, entry_id, reason)
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.reason = reason

    def __str__(self) -> str:
        return f"entry {self.ledger_id}:{self.entry_id}: {self.reason}"


class SettingsError(UsageError, InvalidConfiguration, status=412):
    """An option or a policy does not exist, or its value is invalid."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(key, reason)
        self.key = key
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}"


class SchemaTypeError(UsageError, TypeError):
    """The value does not fit its field or schema."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class UnknownFieldError(UsageError, AttributeError):
    """The record does not declare the field."""

    def __init__(self, record: str, field: str) -> None:
        super().__init__(record, field)
        self.record = record
        self.field = field

    def __str__(self) -> str:
        return f"record {self.record} has no field {self.field}: declare it in the class"


class SchemaDecodeError(InvalidMessage, ValueError):
    """The bytes do not match the schema."""

    def __init__(self, schema: str, detail: str) -> None:
        super().__init__(schema, detail)
        self.schema = schema
        self.detail = detail

    def __str__(self) -> str:
        return (
            f"the message is not what {self.schema} describes: {self.detail}; "
            "read it with the schema that it was written with, or take its data() as it is"
        )


class BrokerError(MagnetarError, exit_code=FAILED):
    """A broker refuses a request. `code` is a number of `ServerError`, as the wire has it."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.reason} (error {self.code})"


class CorruptAckError(MagnetarError):
    """The bytes are not a delta or snapshot. `offset` is where the reader gave up."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(offset, reason)
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"corrupt ack state at byte {self.offset}: {self.reason}"


class StorageError(MagnetarError, code=2):
    """The store cannot do what was asked."""


class DataDirectoryError(StorageError):
    """The data directory cannot be used as it is; nothing in it was changed."""


class DirectoryInUseError(DataDirectoryError):
    """Another process has the directory open."""

    def __init__(self, directory: str, holder: str) -> None:
        super().__init__(directory, holder)
        self.directory = directory
        self.holder = holder

    def __str__(self) -> str:
        return (
            f"{self.directory} is in use by process {self.holder}: stop that process, "
            "or give this one a directory of its own"
        )


class FormatVersionError(DataDirectoryError):
    """The data was written in a format that this version does not read."""

    def __init__(self, found: str, supported: int) -> None:
        super().__init__(found, supported)
        self.found = found
        self.supported = supported

    def __str__(self) -> str:
        return (
            f"the data has format {self.found}, this version reads {self.supported}: "
            "start the version of magnetar that wrote it, or a newer one"
        )


class CorruptionError(DataDirectoryError):
    """Bytes that had reached the disk for certain are damaged or gone."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(path, offset, reason)
        self.path = path
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.path} at byte {self.offset}: {self.reason}; the disk lost data that it had "
            "confirmed: restore the directory from a backup, and check the disk"
        )


class CatalogLossError(DataDirectoryError):
    """The catalog is missing, damaged or older than what the journal says of it."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason, advice)
        self.reason = reason
        self.advice = advice

    def __str__(self) -> str:
        also = f" {self.advice}," if self.advice else ""
        return (
            f"the catalog (tenants, policies, permissions, schemas) was lost or damaged: "
            f"{self.reason}; restore the directory from a backup,{also} or start once with "
            "--accept-loss to go on with what is left"
        )


class DiskError(StorageError):
    """The operating system refused an operation on a file."""

    def __init__(self, operation: str, path: str, reason: str) -> None:
        super().__init__(operation, path, reason)
        self.operation = operation
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"cannot {self.operation} {self.path}: {self.reason}; "
            "check the disk and the permissions of the data directory"
        )


class DiskFullError(DiskError):
    """There is no space left for this operation."""

    def __str__(self) -> str:
        return (
            f"cannot {self.operation} {self.path}: {self.reason}; free some space on the disk, "
            "or let consumers acknowledge what they have"
        )


class DiskShortageError(DiskError):
    """The system has no descriptors or memory left for this; nothing was done, try again."""

    def __str__(self) -> str:
        return (
            f"cannot {self.operation} {self.path}: {self.reason}; it is tried again: allow the "
            "process more open files or memory, or have fewer connections"
        )


class StorageFullError(StorageError, status=503):
    """A publish was refused, so that acks, skips and trims keep the room they need."""

    def __init__(self, free_bytes: int, watermark_bytes: int) -> None:
        super().__init__(free_bytes, watermark_bytes)
        self.free_bytes = free_bytes
        self.watermark_bytes = watermark_bytes

    def __str__(self) -> str:
        return (
            f"the disk is full ({self.free_bytes} bytes free, publishes need "
            f"{self.watermark_bytes}): free some space, or acknowledge or skip what is stored"
        )


class StorageReadOnlyError(StorageError, status=503):
    """A write failed after which nothing more may be called durable."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the store is read-only since a write failed ({self.reason}): "
            "check the disk, then restart the broker"
        )


class StoreClosedError(StorageError, status=503):
    """The store was closed, and takes nothing more."""

    def __str__(self) -> str:
        return "the store is closed: open it again"


class UnknownObjectError(StorageError, status=404):
    """There is no such topic, cursor, ledger or entry."""

    def __init__(self, noun: str, name: str) -> None:
        super().__init__(noun, name)
        self.noun = noun
        self.name = name

    def __str__(self) -> str:
        return f"there is no {self.noun} {self.name}: it was deleted, trimmed or never stored"


class ProtocolError(MagnetarError, exit_code=FAILED):
    """Bytes that break the rules of Pulsar's protocol, sent or received."""


class LocalProtocolError(ProtocolError):
    """We were asked to send what the protocol cannot carry."""


class RemoteProtocolError(ProtocolError):
    """The peer sent bytes that break the protocol; its connection is of no more use.

    `field` names the offending field (`CommandSend.sequence_id`) or part of the frame,
    `offset` is where it stands, counted in bytes from the start of what was decoded: the
    frame for a connection, the entry or the batch for those.
    """

    def __init__(self, field: str, offset: int, reason: str) -> None:
        super().__init__(field, offset, reason)
        self.field = field
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.field} at byte {self.offset}: {self.reason}"


# The errors of clients by the number that a broker says them with.
BY_CODE: Final[dict[int, type[PulsarException]]] = {
    kind.code: kind for kind in PulsarException.__subclasses__() if "code" in vars(kind)
}
# What a client meets on its way to a broker and tries again after.
RETRY_CONNECT: Final[tuple[type[PulsarException], ...]] = tuple(
    kind for kind in PulsarException.__subclasses__() if kind.retry_connect
)
