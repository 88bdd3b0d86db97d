"""How a command ends: one table from errors to exit codes, and what those mean.

Every error of `magnetar.errors` has a code, and so has every status of admin REST.
"""

from typing import Final

from magnetar import errors
from magnetar.errors import MagnetarError
from magnetar.rest.admin_error import AdminError

__all__ = [
    "DONE",
    "EXIT_CODES",
    "FAILED",
    "FORBIDDEN",
    "FOUND_WRONG",
    "INTERRUPTED",
    "MISSING",
    "NOT_TAKEN",
    "REFUSED",
    "UNREACHABLE",
    "exit_code_of",
    "exit_code_of_status",
]

DONE: Final = 0
FOUND_WRONG: Final = 1
REFUSED: Final = 2
UNREACHABLE: Final = 3
FORBIDDEN: Final = 4
MISSING: Final = 5
NOT_TAKEN: Final = 6
FAILED: Final = 7
# As shells have it for a process that SIGINT ended.
INTERRUPTED: Final = 130

# As the reference has it.
EXIT_CODES: Final[dict[int, str]] = {
    DONE: "done, and nothing is wrong",
    FOUND_WRONG: "the command did its work and found something wrong",
    REFUSED: "the command could not or would not begin: one sentence on standard error says why",
    UNREACHABLE: "the other side is out of reach or busy: the same command may work later",
    FORBIDDEN: "who asks may not do it: give another --token",
    MISSING: "the topic, subscription or whatever was named is not there",
    NOT_TAKEN: "the other side refuses: it is there already, in use, or not of the kind",
    FAILED: "the other side failed; its log says more",
    INTERRUPTED: "Ctrl-C ended it",
}


_BY_ERROR: Final[tuple[tuple[tuple[type[MagnetarError], ...], int], ...]] = (
    (
        (
            errors.Timeout,
            errors.ConnectError,
            errors.NotConnected,
            errors.ReadError,
            errors.LookupError,
            errors.Interrupted,
            errors.ServiceUnitNotReady,
            errors.TooManyLookupRequestException,
            errors.ProducerQueueIsFull,
            errors.MemoryBufferIsFull,
            errors.ProducerBlockedQuotaExceededError,
            errors.ProducerBlockedQuotaExceededException,
            errors.TransactionCoordinatorNotFoundError,
        ),
        UNREACHABLE,
    ),
    (
        (
            errors.AuthenticationError,
            errors.AuthorizationError,
            errors.ErrorGettingAuthenticationData,
        ),
        FORBIDDEN,
    ),
    (
        (
            errors.TopicNotFound,
            errors.SubscriptionNotFound,
            errors.ConsumerNotFound,
            errors.TransactionNotFound,
        ),
        MISSING,
    ),
    (
        (
            errors.ConsumerBusy,
            errors.ConsumerAssignError,
            errors.ProducerBusy,
            errors.ProducerFenced,
            errors.TopicTerminated,
            errors.NotAllowedError,
            errors.OperationNotSupported,
            errors.IncompatibleSchema,
            errors.TransactionConflict,
            errors.InvalidTxnStatusError,
            errors.UnsupportedVersionError,
        ),
        NOT_TAKEN,
    ),
    (
        (
            errors.UnknownError,
            errors.BrokerMetadataError,
            errors.BrokerPersistenceError,
            errors.ChecksumError,
            errors.CryptoError,
            errors.InvalidMessage,
            errors.BrokerError,
            errors.ProtocolError,
        ),
        FAILED,
    ),
)


def exit_code_of(error: MagnetarError) -> int:
    """What a command ends with that met this error; REFUSED where nobody else is to blame."""
    if isinstance(error, AdminError):
        return exit_code_of_status(error.status)
    if isinstance(error, errors.UsageError):
        return REFUSED
    for kinds, code in _BY_ERROR:
        if isinstance(error, kinds):
            return code
    return REFUSED


def exit_code_of_status(status: int) -> int:
    """The same for a status of admin REST.

    >>> [exit_code_of_status(s) for s in (400, 403, 404, 405, 412, 429, 500, 503)]
    [2, 4, 5, 6, 6, 3, 7, 3]
    """
    if status in (400, 413):
        return REFUSED
    if status in (401, 403):
        return FORBIDDEN
    if status == 404:
        return MISSING
    if status in (429, 502, 503, 504):
        return UNREACHABLE
    return NOT_TAKEN if status < 500 else FAILED
