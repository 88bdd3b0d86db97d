"""How a command ends: the exit codes, and what they mean.

Every error of `magnetar.errors` says its own; a refusal of admin REST has one by its status.
"""

from typing import Final

from magnetar.errors import (
    FAILED,
    FORBIDDEN,
    MISSING,
    NOT_TAKEN,
    REFUSED,
    UNREACHABLE,
    MagnetarError,
)
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
# As shells have it for a process that SIGINT ended.
INTERRUPTED: Final = 130

# As the reference has it.
EXIT_CODES: Final[dict[int, str]] = {
    DONE: "the command succeeded",
    FOUND_WRONG: "the command succeeded, and found something wrong",
    REFUSED: "the command could not start, or its arguments are invalid: standard error says why",
    UNREACHABLE: "the broker is unreachable or busy: the same command may work later",
    FORBIDDEN: "authentication or authorization failed: give another --token",
    MISSING: "the topic, subscription or other thing that was named does not exist",
    NOT_TAKEN: "the broker refuses: it exists already, is in use, or is of another kind",
    FAILED: "the broker failed; its log says more",
    INTERRUPTED: "the command was interrupted by Ctrl-C",
}


def exit_code_of(error: MagnetarError) -> int:
    """Returns the exit code of a command that met this error; REFUSED where nobody else is to
    blame."""
    if isinstance(error, AdminError):
        return exit_code_of_status(error.status)
    return error.exit_code


def exit_code_of_status(status: int) -> int:
    """Returns the exit code of a command that admin REST answered with this status.

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
