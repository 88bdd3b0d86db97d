"""The numbers of errors, and the classes that they become.

A broker says what went wrong by a number of `ServerError` and a text, and `error_of` makes
the exception of it that the official client would raise. `Result` is how that client tells
a callback how a send went: a number for each of its exceptions, and Ok. `result_of` finds
the number of an exception, ours included, by the nearest class that has one.
"""

from enum import IntEnum
from typing import Final

from magnetar import errors
from magnetar.errors import BY_CODE, MagnetarError, PulsarException, UnknownError

__all__ = ["Result", "error_of", "result_of"]


class Result(IntEnum):
    """How an operation ended, as callbacks are told; the names are those of the exceptions."""

    Ok = 0
    UnknownError = 1
    InvalidConfiguration = 2
    Timeout = 3
    LookupError = 4
    ConnectError = 5
    ReadError = 6
    AuthenticationError = 7
    AuthorizationError = 8
    ErrorGettingAuthenticationData = 9
    BrokerMetadataError = 10
    BrokerPersistenceError = 11
    ChecksumError = 12
    ConsumerBusy = 13
    NotConnected = 14
    AlreadyClosed = 15
    InvalidMessage = 16
    ConsumerNotInitialized = 17
    ProducerNotInitialized = 18
    ProducerBusy = 19
    TooManyLookupRequestException = 20
    InvalidTopicName = 21
    InvalidUrl = 22
    ServiceUnitNotReady = 23
    OperationNotSupported = 24
    ProducerBlockedQuotaExceededError = 25
    ProducerBlockedQuotaExceededException = 26
    ProducerQueueIsFull = 27
    MessageTooBig = 28
    TopicNotFound = 29
    SubscriptionNotFound = 30
    ConsumerNotFound = 31
    UnsupportedVersionError = 32
    TopicTerminated = 33
    CryptoError = 34
    IncompatibleSchema = 35
    ConsumerAssignError = 36
    CumulativeAcknowledgementNotAllowedError = 37
    TransactionCoordinatorNotFoundError = 38
    InvalidTxnStatusError = 39
    NotAllowedError = 40
    TransactionConflict = 41
    TransactionNotFound = 42
    ProducerFenced = 43
    MemoryBufferIsFull = 44
    Interrupted = 45

    def __str__(self) -> str:
        return f"Result.{self.name}"


def error_of(code: int, reason: str) -> PulsarException:
    """Returns the exception that a broker's refusal becomes; newer brokers may know more numbers.

    >>> error_of(5, "Exclusive consumer is already connected")
    ConsumerBusy('Exclusive consumer is already connected')
    >>> error_of(99, "no")
    UnknownError('no (error 99)')
    """
    kind = BY_CODE.get(code)
    if kind is None:
        return UnknownError(f"{reason} (error {code})")
    return kind(reason)


def result_of(error: BaseException | None) -> Result:
    """Returns what a callback is told of an operation that ended with this error, or with none.

    >>> str(result_of(None)), str(result_of(error_of(5, "")))
    ('Result.Ok', 'Result.ConsumerBusy')
    """
    if error is None:
        return Result.Ok
    if isinstance(error, MagnetarError):
        for kind in type(error).__mro__:
            found = _RESULTS.get(kind)
            if found is not None:
                return found
    return Result.UnknownError


def exception_of(result: Result) -> PulsarException:
    """Returns the exception of a result that is a failure.

    >>> exception_of(Result.Timeout)
    Timeout('Timeout')
    """
    kind: type[PulsarException] = getattr(errors, result.name)
    return kind(result.name)


_RESULTS: Final[dict[type, Result]] = {
    getattr(errors, result.name): result for result in Result if result is not Result.Ok
}
