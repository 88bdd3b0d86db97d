"""Answers of admin REST, and what becomes of errors.

A refusal is JSON, `{"reason": ...}`, with the status that Pulsar's own clients turn into
the right exception. `magnetar.errors` says which error is which status; whoever knows better
raises `Refusal`.
"""

from typing import Final

import msgspec

from magnetar.admin.http.response import Response
from magnetar.errors import BY_CODE, BrokerError, MagnetarError

__all__ = [
    "BAD_REQUEST",
    "CONFLICT",
    "FORBIDDEN",
    "INTERNAL",
    "NOT_ACCEPTABLE",
    "NOT_ALLOWED",
    "NOT_FOUND",
    "PRECONDITION",
    "TIMEOUT",
    "TOO_LARGE",
    "TOO_MANY",
    "UNAUTHORIZED",
    "UNAVAILABLE",
    "UNPROCESSABLE",
    "UNSUPPORTED",
    "Refusal",
    "json_answer",
    "no_content",
    "optional_answer",
    "reason_answer",
    "status_of",
    "text_answer",
]

JSON: Final = "application/json"

BAD_REQUEST: Final = 400
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
NOT_ALLOWED: Final = 405
NOT_ACCEPTABLE: Final = 406
TIMEOUT: Final = 408
CONFLICT: Final = 409
PRECONDITION: Final = 412
TOO_LARGE: Final = 413
UNSUPPORTED: Final = 415
UNPROCESSABLE: Final = 422
TOO_MANY: Final = 429
INTERNAL: Final = 500
UNAVAILABLE: Final = 503


class Refusal(MagnetarError):
    """A request that is not done, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


def status_of(error: MagnetarError) -> int:
    """The status that tells a client what kind of error it is; `magnetar.errors` has them."""
    if isinstance(error, BrokerError):
        return BY_CODE[error.code].status if error.code in BY_CODE else INTERNAL
    return error.status


def json_answer(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=JSON)


def optional_answer(value: object | None) -> Response:
    """What may not be there: Pulsar's servers say null by saying nothing."""
    return no_content() if value is None else json_answer(value)


def text_answer(text: str) -> Response:
    return Response(text, media_type="text/plain")


def no_content() -> Response:
    return Response(status_code=204)


def reason_answer(status: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    body = msgspec.json.encode({"reason": reason})
    return Response(body, status, headers=headers, media_type=JSON)
