"""One request as ASGI tells it: method, path, query, headers, and the body piece by piece.

That is all that admin REST needs of a web framework, and it costs no other package.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

__all__ = ["Address", "ClientDisconnect", "Headers", "Receive", "Request", "Scope", "Send"]

# ASGI's own words for what a server hands to an application.
Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


class ClientDisconnect(Exception):
    """The client left before its request was there."""


class Address(NamedTuple):
    """Where a client is."""

    host: str
    port: int


class Headers:
    """Headers by name; a name may come several times.

    >>> headers = Headers([(b"host", b"here"), (b"host", b"there")])
    >>> headers.get("Host"), headers.getlist("host"), headers.get("origin"), "host" in headers
    ('here', ['here', 'there'], None, True)
    """

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: Final[dict[str, list[str]]] = {}
        for name, value in raw:
            values = self._values.setdefault(name.decode("latin-1").lower(), [])
            values.append(value.decode("latin-1"))

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def getlist(self, name: str) -> list[str]:
        """Returns all values under a name."""
        return self._values.get(name.lower(), [])

    def get(self, name: str, default: str | None = None) -> str | None:
        """Returns the first value under a name."""
        values = self.getlist(name)
        return values[0] if values else default


class Request:
    """See the module."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self._receive = receive
        self.headers = Headers(scope["headers"])

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @property
    def path(self) -> str:
        """The path, decoded: for people to read."""
        return str(self.scope["path"])

    @property
    def scheme(self) -> str:
        return str(self.scope.get("scheme", "http"))

    @property
    def client(self) -> Address | None:
        found = self.scope.get("client")
        return None if found is None else Address(*found)

    def query(self, name: str) -> str | None:
        """Returns the value of a name in the query, the last if there are several."""
        return self._query.get(name)

    @cached_property
    def _query(self) -> dict[str, str]:
        text = self.scope["query_string"].decode("latin-1")
        return dict(parse_qsl(text, keep_blank_values=True))

    async def stream(self) -> AsyncIterator[bytes]:
        """Yields the body in the pieces that it comes in. Raises ClientDisconnect."""
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            if message.get("body"):
                yield message["body"]
            more = message.get("more_body", False)
