"""Answers of admin REST, and what becomes of errors.

A refusal is JSON, `{"reason": ...}`, with the status that Pulsar's own clients turn into
the right exception. `magnetar.errors` says which error is which status; whoever knows better
raises `Refusal`.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from magnetar.admin.http.bridge import at_ease
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
    "long_json_answer",
    "no_content",
    "optional_answer",
    "reason_answer",
    "status_of",
    "text_answer",
]

JSON: Final = "application/json"
# Of an answer that is encoded in pieces: its fields, and what is in them by name.
PARTS_DEPTH: Final = 2

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


async def long_json_answer(value: object) -> Response:
    """The same of a value with thousands of parts, which are encoded a few in each event."""
    parts: list[bytes] = []
    async for part in at_ease(_parts(value, PARTS_DEPTH)):
        parts.append(part)
    return Response(b"".join(parts), media_type=JSON)


def _parts(value: object, depth: int) -> Iterator[bytes]:
    """The JSON of a value in pieces: what is in objects is a piece each, down to some depth."""
    if not isinstance(value, dict) or depth == 0:
        yield msgspec.json.encode(value)
        return
    before = b"{"
    for key, item in value.items():
        name = before + msgspec.json.encode(key) + b":"
        if isinstance(item, dict) and depth > 1:
            yield name
            yield from _parts(item, depth - 1)
        else:
            yield name + msgspec.json.encode(item)
        before = b","
    yield b"}" if value else b"{}"


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
