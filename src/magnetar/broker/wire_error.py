"""An error as the wire has it: a number that clients know, and a text."""

from magnetar.errors import BrokerError, InvalidTopicNameError, StorageError, UsageError
from magnetar.model import ServerError

__all__ = ["wire_error"]


def wire_error(error: Exception) -> tuple[int, str]:
    """An error's number and text."""
    if isinstance(error, BrokerError):
        return error.code, error.reason
    if isinstance(error, InvalidTopicNameError):
        return ServerError.InvalidTopicName, str(error)
    if isinstance(error, StorageError):
        return ServerError.PersistenceError, str(error)
    if isinstance(error, UsageError):
        return ServerError.NotAllowedError, str(error)
    return ServerError.UnknownError, str(error)
