"""An error as the wire has it: a number that clients know, and a text."""

from magnetar.errors import BrokerError, MagnetarError
from magnetar.model import ServerError

__all__ = ["wire_error"]


def wire_error(error: Exception) -> tuple[int, str]:
    """Returns an error's number and text."""
    if isinstance(error, BrokerError):
        return error.code, error.reason
    if isinstance(error, MagnetarError):
        return error.code, str(error)
    return ServerError.UnknownError, str(error)
