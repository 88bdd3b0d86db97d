"""What an interceptor is told of something that ended otherwise than well."""

from magnetar.errors import Interrupted

__all__ = ["failure_of"]


def failure_of(error: BaseException) -> Exception:
    """The error; of a call that was cancelled or interrupted nobody knows what became."""
    return error if isinstance(error, Exception) else Interrupted("it was interrupted")
