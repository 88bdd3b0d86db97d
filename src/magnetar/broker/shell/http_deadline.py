"""A deadline for one request by `urllib`: a shell.

A timeout of sockets begins anew with each byte that comes, so an answer of a byte in a while would
never end. When the deadline is over, the connection is shut under whoever reads from it.
"""

import contextlib
import http.client
import socket
import ssl
import threading
import urllib.request
from types import TracebackType
from typing import Any

__all__ = ["HttpDeadline"]


class HttpDeadline:
    """See the module. `handlers` are what makes the connections that it is for.

    deadline = HttpDeadline(10.0, context)
    with deadline:
        build_opener(*deadline.handlers).open(url, timeout=10.0).read()
    """

    def __init__(self, seconds: float, context: ssl.SSLContext) -> None:
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        # `urllib` takes them from their connections before it has read all of an answer.
        self._sockets: list[socket.socket] = []
        self.over = False
        self.handlers = (_Plain(self), _OverTls(self, context))

    def __enter__(self) -> "HttpDeadline":
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()

    def connected(self, to: socket.socket) -> None:
        """Nothing is said yet. Raises TimeoutError if it is too late."""
        self._sockets.append(to)
        if self.over:
            raise TimeoutError("timed out")

    def _end(self) -> None:
        self.over = True
        for one in list(self._sockets):
            with contextlib.suppress(OSError):
                # Not what TLS has under the same name, which lets the other side finish.
                socket.socket.shutdown(one, socket.SHUT_RDWR)


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, deadline: HttpDeadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        deadline = self._deadline

        class Connection(http.client.HTTPConnection):
            def connect(self) -> None:
                super().connect()
                deadline.connected(self.sock)

        return self.do_open(Connection, req)


class _OverTls(urllib.request.HTTPSHandler):
    def __init__(self, deadline: HttpDeadline, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._deadline = deadline
        self._tls = context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        deadline, context = self._deadline, self._tls

        class Connection(http.client.HTTPSConnection):
            _tunnel_host: Any

            def connect(self) -> None:
                # As its class does, but the handshake comes once the socket can be shut.
                http.client.HTTPConnection.connect(self)
                self.sock = context.wrap_socket(
                    self.sock,
                    server_hostname=self._tunnel_host or self.host,
                    do_handshake_on_connect=False,
                )
                deadline.connected(self.sock)
                self.sock.do_handshake()

        return self.do_open(Connection, req, context=context)
