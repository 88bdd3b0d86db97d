"""`/`: the console's page, and the files that it is made of.

The files are what a browser reads: no build step made them, and they ask no other host for
anything. They are read once, when somebody asks for the first.

| header                    | says                                                          |
|---------------------------|---------------------------------------------------------------|
| `content-security-policy` | scripts, styles and requests are this broker's alone; no text  |
|                           | becomes markup (`trusted-types`), nobody shows it in a frame   |
| `etag`                    | the bytes, so that a browser has them once for each version    |

They hold no data, so everybody may have them; what the page asks for then is asked for with
the operator's token, and answered as any other request is.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from magnetar.admin.http.answer import NOT_FOUND, Refusal
from magnetar.admin.http.call import Call
from magnetar.admin.http.required_permission import PUBLIC
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import TEXT, Answer

__all__ = ["HEADERS", "ROUTES", "STATIC", "files"]

STATIC: Final = Path(__file__).parent / "static"
INDEX: Final = "index.html"
TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
POLICY: Final = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
HEADERS: Final = {
    "content-security-policy": "; ".join(POLICY),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    # Asked for each time, and answered by 304 as long as it is the same.
    "cache-control": "no-cache",
}
NOT_MODIFIED: Final = 304


class File(NamedTuple):
    """What is sent for a path."""

    body: bytes
    media_type: str
    tag: str


@cache
def files() -> dict[str, File]:
    """Returns all files by their paths."""
    found: dict[str, File] = {}
    for path in sorted(STATIC.rglob("*")):
        media_type = TYPES.get(path.suffix)
        if media_type is not None and path.is_file():
            body = path.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            found[path.relative_to(STATIC).as_posix()] = File(body, media_type, tag)
    return found


def _answer(call: Call, name: str) -> Response:
    file = files().get(name)
    if file is None:
        raise Refusal(NOT_FOUND, f"the console has no file {name!r}")
    headers = HEADERS | {"etag": file.tag}
    if file.tag in (call.request.headers.get("if-none-match") or ""):
        return Response(b"", NOT_MODIFIED, headers)
    return Response(file.body, 200, headers, file.media_type)


async def get_page(call: Call) -> Response:
    """Returns the console, for people with a browser."""
    return _answer(call, INDEX)


async def get_file(call: Call) -> Response:
    """Returns a file of the console."""
    return _answer(call, call.path["file"])


async def get_file_of_part(call: Call) -> Response:
    """Returns a file of one part of the console."""
    return _answer(call, f"{call.path['part']}/{call.path['file']}")


def _text(media_type: str) -> Answer:
    return Answer((200, NOT_MODIFIED), media_type, TEXT)


ROUTES: Final[list[Route]] = [
    Route("GET", "/", get_page, PUBLIC, answer=_text("text/html")),
    Route("GET", "/console/{file}", get_file, PUBLIC, answer=_text("text/javascript")),
    Route(
        "GET", "/console/{part}/{file}", get_file_of_part, PUBLIC, answer=_text("text/javascript")
    ),
]
