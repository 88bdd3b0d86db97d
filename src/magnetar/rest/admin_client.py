"""Admin REST, called: one connection, JSON in and out, errors as `AdminError`.

    with AdminClient("http://127.0.0.1:8080") as admin:
        admin.get(topic_path("orders", "stats"))

A redirect (307), with which Pulsar's brokers send a request to the owner of a topic, is
followed. The standard library's client is used, since it is there in a twentieth of a second
and a command makes one request.
"""

import http.client
import json
import socket
import threading
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode, urljoin, urlsplit

from magnetar.errors import ConnectError, InvalidUrl, Timeout
from magnetar.rest.admin_error import AdminError
from magnetar.rest.answer import Answer
from magnetar.rest.trouble import trouble
from magnetar.rest.trust import Trust

__all__ = ["AdminClient"]

TIMEOUT_S: Final = 60.0
REDIRECTS_MAX: Final = 5
# No answer that is asked for here is larger; a peer may send anything.
BODY_BYTES_MAX: Final = 1 << 30


class AdminClient:
    """Speaks to the admin REST at a URL; close it, or use it in a `with`.

    Threads may share one: their requests go one after the other. It may be used again after
    `close`, which only gives up the connection.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        trust_certs: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        allow_insecure: bool = False,
        validate_hostname: bool = True,
        timeout_s: float = TIMEOUT_S,
        url_option: str = "the URL",
    ) -> None:
        """`url_option` is what the caller's users know the URL by; errors name it."""
        self.url: str = url.rstrip("/")
        self._token = token
        self._trust = Trust(
            trust_certs,
            certificate,
            key,
            allow_insecure=allow_insecure,
            validate_hostname=validate_hostname,
        )
        self._timeout_s = timeout_s
        self._url_option = url_option
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None
        self._origin = ""

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
        """The JSON there. Raises AdminError, ConnectError, Timeout."""
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
        """The answer to any request; a body is sent as JSON. Raises as `get`."""
        given = {k: _text(v) for k, v in (query or {}).items() if v is not None}
        url = self.url + path + (f"?{urlencode(given)}" if given else "")
        data = None if body is None else json.dumps(body).encode()
        with self._lock:
            for _ in range(REDIRECTS_MAX):
                answer = self._exchange(method, url, data)
                if answer.status not in (307, 308):
                    break
                url = urljoin(url, answer.headers.get("location", ""))
        if answer.status >= 300:
            raise AdminError(answer.status, answer.reason())
        return answer

    # ---- The connection ------------------------------------------------------

    def _exchange(self, method: str, url: str, data: bytes | None) -> Answer:
        parts = urlsplit(url)
        headers = {"Accept": "application/json, text/plain, */*"}
        # Java's server wants the type of a body that is not there, too.
        if data is not None or method in ("POST", "PUT"):
            headers["Content-Type"] = "application/json"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        target = parts.path + (f"?{parts.query}" if parts.query else "")
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
            raise Timeout(f"{self._origin} did not answer in {self._timeout_s:.0f} s") from None
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            why = trouble(error, self._origin, self._url_option)
            raise ConnectError(f"cannot reach admin REST at {self._origin}: {why}") from None
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
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise InvalidUrl(
                f"{url!r} is not an address of admin REST: write it as http://HOST:PORT or "
                "https://HOST:PORT"
            )
        origin = f"{parts.scheme}://{parts.netloc}"
        if self._connection is not None and origin == self._origin:
            return True
        self._drop()
        self._origin = origin
        if parts.scheme == "https":
            self._connection = http.client.HTTPSConnection(
                parts.hostname, port, timeout=self._timeout_s, context=self._trust.context()
            )
        else:
            self._connection = http.client.HTTPConnection(
                parts.hostname, port, timeout=self._timeout_s
            )
        self._connection.connect()
        # A request is two small writes, and the second must not wait for an answer to the first.
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return False

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
