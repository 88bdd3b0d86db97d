"""Admin REST, called: one connection, JSON in and out, errors as `AdminError`.

    with AdminClient("http://127.0.0.1:8080") as admin:
        admin.get(topic_path("orders", "stats"))

A redirect (307), with which Pulsar's brokers send a request to the owner of a topic, is
followed. The standard library's client is used, since it is there in a twentieth of a second
and a command makes one request. `magnetar.rest.async_admin_client` is the same for asyncio.
"""

import http.client
import socket
import threading
from collections.abc import Mapping
from typing import TypeVar, Unpack

from magnetar.errors import MagnetarError
from magnetar.rest.answer import Answer
from magnetar.rest.request import Plan, Request
from magnetar.rest.site import BODY_BYTES_MAX, REDIRECTS_MAX, Site, SiteOptions, target_of

__all__ = ["AdminClient"]

T = TypeVar("T")


class AdminClient:
    """Speaks to the admin REST at a URL; close it, or use it in a `with`.

    Threads may share one: their requests go one after the other. It may be used again after
    `close`, which only gives up the connection. The options are those of `Site`.
    """

    def __init__(self, url: str, **options: Unpack[SiteOptions]) -> None:
        self._site = Site(url, **options)
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None
        self._origin = ""

    @property
    def url(self) -> str:
        return self._site.url

    def __enter__(self) -> "AdminClient":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection, once no request is under way."""
        with self._lock:
            self._drop()

    # ---- Requests ------------------------------------------------------------

    def get(self, path: str, **query: object) -> object:
        """Returns the JSON there. Raises AdminError, ConnectError, Timeout."""
        return self.request("GET", path, query=query).json()

    def put(self, path: str, body: object = None, **query: object) -> object:
        """Puts a body, and returns the JSON of the answer. Raises as `get`."""
        return self.request("PUT", path, body, query).json()

    def post(self, path: str, body: object = None, **query: object) -> object:
        """Posts a body, and returns the JSON of the answer. Raises as `get`."""
        return self.request("POST", path, body, query).json()

    def delete(self, path: str, **query: object) -> object:
        """Deletes, and returns the JSON of the answer. Raises as `get`."""
        return self.request("DELETE", path, query=query).json()

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
    ) -> Answer:
        """Returns the answer to any request; a body is sent as JSON. Raises as `get`."""
        return self.send(Request(method, path, body, query))

    def send(self, request: Request) -> Answer:
        """Returns the answer to a request. Raises as `get`."""
        url = self._site.url + request.target
        with self._lock:
            for _ in range(REDIRECTS_MAX):
                answer = self._exchange(request.method, url, request.data)
                following = self._site.redirect(url, answer)
                if following is None:
                    break
                url = following
        return self._site.checked(answer)

    def do(self, plan: Plan[T]) -> T:
        """Carries out a plan, and returns what it returns. Raises as `get`, and what it raises."""
        try:
            request = next(plan)
            while True:
                try:
                    answer = self.send(request)
                except MagnetarError as error:
                    request = plan.throw(error)
                else:
                    request = plan.send(answer)
        except StopIteration as done:
            found: T = done.value
            return found
        finally:
            plan.close()

    # ---- The connection ------------------------------------------------------

    def _exchange(self, method: str, url: str, data: bytes | None) -> Answer:
        headers = self._site.headers(method, has_body=data is not None)
        target = target_of(url)
        try:
            # One that was idle may be closed at this moment. To ask again is harmless, to do
            # something twice need not be.
            if method != "GET":
                self._drop()
            reused = self._open(url)
            try:
                return self._send(method, target, data, headers)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                if not reused:
                    raise
                self._drop()
                self._open(url)
                return self._send(method, target, data, headers)
        except TimeoutError:
            self._drop()
            raise self._site.silent(self._origin) from None
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise self._site.unreachable(error, self._origin) from None
        except BaseException:
            # Ctrl-C in the middle of an answer: the next request must not read the rest of it.
            self._drop()
            raise

    def _send(
        self, method: str, target: str, data: bytes | None, headers: dict[str, str]
    ) -> Answer:
        connection = self._connection
        assert connection is not None
        connection.request(method, target, data, headers)
        response = connection.getresponse()
        body = response.read(BODY_BYTES_MAX)
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, body)

    def _open(self, url: str) -> bool:
        """Connects to where a URL leads; True if that connection has been used before."""
        origin = self._site.origin(url)
        if self._connection is not None and origin.text == self._origin:
            return True
        self._drop()
        self._origin = origin.text
        timeout_s = self._site.timeout_s
        if origin.secure:
            self._connection = http.client.HTTPSConnection(
                origin.host, origin.port, timeout=timeout_s, context=self._site.context()
            )
        else:
            self._connection = http.client.HTTPConnection(
                origin.host, origin.port, timeout=timeout_s
            )
        self._connection.connect()
        # A request is two small writes, and the second must not wait for an answer to the first.
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return False

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
