"""Refusals of admin REST, by what the caller can do about them.

    AdminError                     any other status
    ├── NotAuthorizedError         401, 403: prove who asks, or ask for the permission
    ├── NotFoundError              404: there is no such tenant, namespace, topic, subscription...
    ├── OperationNotAllowedError   405: it cannot be done to this, or this server cannot do it
    ├── ConflictError              409: it is there already, or something else stands in its way
    ├── PreconditionFailedError    412: a name or a value is wrong, or something is in use
    └── ServerSideError            500 and above: the server failed, or cannot serve now

Pulsar's Java admin tells the same kinds apart.
"""

from typing import Final

from magnetar.errors import MagnetarError

__all__ = [
    "AdminError",
    "ConflictError",
    "NotAuthorizedError",
    "NotFoundError",
    "OperationNotAllowedError",
    "PreconditionFailedError",
    "ServerSideError",
    "refusal",
]


class AdminError(MagnetarError):
    """Admin REST refuses a request. `status` is HTTP's number, `reason` what the server says."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.reason} (HTTP {self.status})"


class NotAuthorizedError(AdminError):
    """The server does not know who asks (401), or the role may not do this (403)."""


class NotFoundError(AdminError):
    """There is no such thing (404)."""


class OperationNotAllowedError(AdminError):
    """This cannot be done to the topic or subscription, or this server cannot do it (405)."""


class ConflictError(AdminError):
    """It is there already, or something else stands in its way (409)."""


class PreconditionFailedError(AdminError):
    """A name or a value is wrong, or something is still in use (412)."""


class ServerSideError(AdminError):
    """The server failed, or cannot serve at the moment (500 and above)."""


_BY_STATUS: Final[dict[int, type[AdminError]]] = {
    401: NotAuthorizedError,
    403: NotAuthorizedError,
    404: NotFoundError,
    405: OperationNotAllowedError,
    409: ConflictError,
    412: PreconditionFailedError,
}


def refusal(status: int, reason: str) -> AdminError:
    """Returns the error for a status.

    >>> refusal(404, "gone")
    NotFoundError(404, 'gone')
    """
    usual = ServerSideError if status >= 500 else AdminError
    return _BY_STATUS.get(status, usual)(status, reason)
