"""Small HTTP servers for tests: one that answers as it was told, one that lacks a request."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit


class Asked(NamedTuple):
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Said(NamedTuple):
    """What to answer."""

    status: int
    headers: dict[str, str]
    body: bytes


@contextmanager
def answering(answer: Callable[[Asked], Said]) -> Iterator[str]:
    """A server on loopback that has a function for its answers; its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            said = answer(Asked(self.command, self.path, headers, self.rfile.read(size)))
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        do_GET = do_PUT = do_POST = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def lacking(url: str, ending: str, seen: list[Asked] | None = None) -> Iterator[str]:
    """A server in front of another, which lacks the requests whose path ends so."""
    address = urlsplit(url).netloc

    def answer(asked: Asked) -> Said:
        if seen is not None:
            seen.append(asked)
        if asked.path.partition("?")[0].endswith(ending):
            return Said(404, {"Content-Type": "text/html"}, b"<html>Not Found</html>")
        connection = http.client.HTTPConnection(address)
        try:
            headers = {
                name: value for name, value in asked.headers.items() if name.startswith("content")
            }
            connection.request(asked.method, asked.path, asked.body or None, headers)
            found = connection.getresponse()
            kept = {
                name: value
                for name, value in found.getheaders()
                if name.lower().startswith(("x-", "content-type"))
            }
            return Said(found.status, kept, found.read())
        finally:
            connection.close()

    with answering(answer) as front:
        yield front
