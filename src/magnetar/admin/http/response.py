"""An answer as ASGI takes it: status, headers, and a body in one piece or in many."""

from collections.abc import AsyncIterator, Mapping

from magnetar.admin.http.request import Receive, Scope, Send

__all__ = ["Response", "StreamingResponse"]

# These have no body by HTTP's rules, and so no length of one.
BODYLESS = (204, 304)


class Response:
    """An answer whose body is known."""

    def __init__(
        self,
        content: bytes | str = b"",
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
    ) -> None:
        self.body = content.encode() if isinstance(content, str) else content
        self.status_code = status_code
        length = {} if status_code in BODYLESS else {"content-length": str(len(self.body))}
        self.headers = _headers({**length, **(headers or {})}, media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _begin(send, self.status_code, self.headers)
        await send({"type": "http.response.body", "body": self.body})


class StreamingResponse(Response):
    """An answer whose body comes in pieces; each is sent before the next is asked for."""

    def __init__(self, pieces: AsyncIterator[bytes], media_type: str) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _begin(send, self.status_code, self.headers)
        async for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _headers(given: Mapping[str, str], media_type: str | None) -> dict[str, str]:
    """Headers by name in lower case, with the type of the body."""
    headers = {name.lower(): value for name, value in given.items()}
    # A browser that is told so takes no answer for more than it says it is.
    headers.setdefault("x-content-type-options", "nosniff")
    if media_type is not None:
        plain = media_type.startswith("text/") and "charset=" not in media_type
        headers.setdefault("content-type", media_type + ("; charset=utf-8" if plain else ""))
    return headers


async def _begin(send: Send, status: int, headers: Mapping[str, str]) -> None:
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
