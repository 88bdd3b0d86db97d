"""Requests as values, and plans: what is to be asked, told apart from how it is sent.

A plan is a generator. It yields each `Request` that it needs, is given the `Answer`, and returns
what the caller wanted to know; a refusal is raised in it, where it may be caught. It does no I/O,
so that one plan serves the blocking sender (`AdminClient.do`) and the asyncio one
(`AsyncAdminClient.do`).

    def subscription_names(topic: str) -> Plan[list[str]]:
        answer = yield Request("GET", topic_path(topic, "subscriptions"))
        return answer.as_type(list[str])
"""

import json
from collections.abc import Generator, Mapping
from typing import Final, TypeAlias, TypeVar
from urllib.parse import urlencode

from magnetar.rest.answer import Answer

__all__ = ["Plan", "Request"]

T = TypeVar("T")

Plan: TypeAlias = Generator["Request", Answer, T]


class Request:
    """A method, a path, a query and a body that is sent as JSON."""

    def __init__(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
    ) -> None:
        """Values of the query that are None are left out."""
        self.method: Final = method
        self.path: Final = path
        self.body: Final = body
        self.query: Final = {k: _text(v) for k, v in (query or {}).items() if v is not None}

    @property
    def target(self) -> str:
        """The path with the query.

        >>> Request("GET", "/x", query={"force": True, "none": None}).target
        '/x?force=true'
        """
        return self.path + (f"?{urlencode(self.query)}" if self.query else "")

    @property
    def data(self) -> bytes | None:
        """The body as bytes; None if there is none."""
        return None if self.body is None else json.dumps(self.body).encode()

    def __repr__(self) -> str:
        return f"Request({self.method} {self.target})"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
