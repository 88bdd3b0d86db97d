"""Which handler a request is for, and what becomes of what handlers raise.

Paths are matched as they were sent: split at `/`, then each piece is decoded by itself. So
a subscription may have a `/` in its name, and a `+` is a space, as Java's clients write it.
Where a fixed piece and a name both fit, the fixed one is tried first, and a path that has
no such method there goes on to the next: a topic may be called `partitioned`.
"""

import ipaddress
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Final
from urllib.parse import unquote_plus

from magnetar.admin.http.answer import (
    BAD_REQUEST,
    FORBIDDEN,
    INTERNAL,
    NOT_ALLOWED,
    NOT_FOUND,
    TIMEOUT,
    TOO_LARGE,
    TOO_MANY,
    UNAUTHORIZED,
    Refusal,
    reason_answer,
    status_of,
)
from magnetar.admin.http.bridge import prepare, wait_for
from magnetar.admin.http.call import Admin, Call
from magnetar.admin.http.request import ClientDisconnect, Receive, Request, Scope, Send
from magnetar.admin.http.required_permission import PUBLIC, SCRAPE, Need, check_need
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.broker.auth.roles import Principal
from magnetar.errors import BrokerError, MagnetarError

__all__ = ["AdminApp", "App"]

CUT_OFF: Final = (TIMEOUT, TOO_LARGE, TOO_MANY)

log = logging.getLogger("magnetar.admin")


# An ASGI application.
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class _Node:
    """A piece of the paths that there are: `word`, `{name}`, or `{name:this|that}`."""

    def __init__(self, choices: frozenset[str] = frozenset()) -> None:
        self.choices = choices
        self.fixed: dict[str, _Node] = {}
        self.named: dict[str, _Node] = {}
        # By method.
        self.routes: dict[str, Route] = {}

    def at(self, piece: str) -> "_Node":
        """The node of the next piece of a route, made if need be."""
        if not piece.startswith("{"):
            return self.fixed.setdefault(piece, _Node())
        name, _, choices = piece[1:-1].partition(":")
        return self.named.setdefault(name, _Node(frozenset(filter(None, choices.split("|")))))

    def find(
        self, pieces: list[str], index: int, path: dict[str, str]
    ) -> Iterator[tuple["_Node", dict[str, str]]]:
        """Yields all nodes that a path leads to, fixed pieces first."""
        if index == len(pieces):
            if self.routes:
                yield self, path
            return
        fixed = self.fixed.get(pieces[index])
        if fixed is not None:
            yield from fixed.find(pieces, index + 1, path)
        for name, node in self.named.items():
            if node.choices and pieces[index] not in node.choices:
                continue
            yield from node.find(pieces, index + 1, {**path, name: pieces[index]})


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


class AdminApp:
    """The ASGI application."""

    def __init__(self, admin: Admin, routes: list[Route], websockets: "App | None" = None) -> None:
        self._admin = admin
        self._websockets = websockets
        self._root = _Node()
        for route in routes:
            node = self._root
            for piece in route.path.strip("/").split("/"):
                node = node.at(piece)
            assert route.method not in node.routes, f"{route.method} {route.path} is there twice"
            node.routes[route.method] = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and self._websockets is not None:
            await self._serve_websocket(self._websockets, scope, receive, send)
            return
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _serve_websocket(
        self, serve: "App", scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Guarded as every request: a page of another site may open a WebSocket to any address."""
        scheme = "https" if scope["scheme"] == "wss" else "http"
        try:
            self._admin.guard.check(Request({**scope, "scheme": scheme, "method": "GET"}, receive))
        except Refusal as refusal:
            await receive()
            body = str(refusal).encode()
            start = {"type": "websocket.http.response.start", "status": refusal.status}
            await send({**start, "headers": [(b"content-type", b"text/plain; charset=utf-8")]})
            await send({"type": "websocket.http.response.body", "body": body})
            return
        await serve(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        try:
            self._admin.guard.check(request)
            return await self._handle(request)
        except MagnetarError as error:
            status = status_of(error)
            if status >= INTERNAL:
                log.warning("%s %s: %s", request.method, request.path, error)
            reason = error.reason if isinstance(error, BrokerError) else str(error)
            # What is left of a body that is not read is not waited for.
            headers = {"Connection": "close"} if status in CUT_OFF else None
            if status == UNAUTHORIZED:
                self._tell_refused(request, reason)
                headers = {"WWW-Authenticate": "Bearer"}
            return reason_answer(status, reason, headers)
        except ClientDisconnect:
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return reason_answer(INTERNAL, "an unexpected error: the broker's log has it")

    def _tell_refused(self, request: Request, reason: str) -> None:
        client = request.client
        address = "?" if client is None else f"{client.host}:{client.port}"
        self._admin.broker.refused_log_ins.warn(
            f"refusing the log-in of {address} for HTTP: {reason}"
        )

    def _is_open(self, need: Need) -> bool:
        """Whether the route asks for no authentication."""
        if need is SCRAPE:
            return not self._admin.broker.settings.authenticate_metrics
        return need is PUBLIC

    def _require_near(self, need: Need, request: Request) -> None:
        """Raises Refusal for closed metrics from other machines, if nobody can authenticate."""
        if need is not SCRAPE or self._admin.broker.authentication is not None:
            return
        if request.client is None or not _is_loopback(request.client.host):
            raise Refusal(
                FORBIDDEN,
                "authenticate_metrics is set and authentication is not: /metrics is for this "
                "machine alone",
            )

    async def _principal(self, request: Request) -> Principal | None:
        """Who asks; None if everybody may. Raises BrokerError."""
        broker = self._admin.broker
        if broker.authentication is None:
            return None
        state: dict[str, str] = request.scope.get("state") or {}
        return await wait_for(
            broker.authentication.by_header(
                request.headers.get("authorization"),
                state.get("certificate_role", ""),
                "?" if request.client is None else request.client.host,
                broker.host,
                request.headers.get("x-original-principal") or "",
            )
        )

    async def _handle(self, request: Request) -> Response:
        raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        try:
            pieces = [
                unquote_plus(piece, errors="strict")
                for piece in raw.decode("ascii").strip("/").split("/")
            ]
        except UnicodeDecodeError:
            return reason_answer(BAD_REQUEST, "the path is not UTF-8")
        methods: list[str] = []
        for node, path in self._root.find(pieces, 0, {}):
            route = node.routes.get(request.method)
            if route is not None:
                call = Call(self._admin, request, path, route)
                if not self._is_open(route.need):
                    self._require_near(route.need, request)
                    call.principal = await self._principal(request)
                    check_need(route.need, call)
                if "topic" in path:
                    await prepare(self._admin.broker, call.topic_name)
                return await route.handler(call)
            methods.extend(node.routes)
        await self._principal(request)  # only those who are known learn what there is
        if not methods:
            return reason_answer(NOT_FOUND, f"there is nothing at {request.path}")
        allowed = ", ".join(sorted(set(methods)))
        return reason_answer(
            NOT_ALLOWED,
            f"{request.path} does not take {request.method}, it takes {allowed}",
            {"Allow": allowed},
        )
