"""Admin REST, called: one connection, JSON in and out, errors as `AdminError`.

A redirect (307), with which Pulsar's brokers send a request to the owner of a topic, is
followed. The standard library's client is used, since it is there in a twentieth of a second
and a command makes one request.
"""

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode, urljoin, urlsplit

from magnetar.cli.exit_code import AdminError
from magnetar.errors import ConnectError, InvalidUrl, SettingsError, Timeout

__all__ = ["AdminClient", "Answer"]

TIMEOUT_S: Final = 60.0
REDIRECTS_MAX: Final = 5
# Nothing that the commands ask for is larger; a peer may send anything.
BODY_BYTES_MAX: Final = 1 << 30


class Answer:
    """What came back for a request that was granted."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        # By names in lower case.
        self.headers = headers
        self.body = body

    def json(self) -> object:
        """The body; None if there is none. Raises AdminError if it is no JSON."""
        if not self.body.strip():
            return None
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise AdminError(self.status, f"the answer is no JSON: {error}") from None


class AdminClient:
    """Speaks to the admin REST at an address; close it, or use it in a `with`."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        trust_certs: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._tls = (trust_certs, certificate, key)
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None
        self._origin = ""

    def __enter__(self) -> "AdminClient":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # ---- Requests ------------------------------------------------------------

    def get(self, path: str, **query: object) -> object:
        """The JSON there. Raises AdminError, ConnectError, Timeout."""
        return self.request("GET", path, query=query).json()

    def put(self, path: str, body: object = None, **query: object) -> object:
        return self.request("PUT", path, body, query).json()

    def post(self, path: str, body: object = None, **query: object) -> object:
        return self.request("POST", path, body, query).json()

    def delete(self, path: str, **query: object) -> object:
        return self.request("DELETE", path, query=query).json()

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
    ) -> Answer:
        """Any request; a body is sent as JSON."""
        given = {k: _text(v) for k, v in (query or {}).items() if v is not None}
        url = self.url + path + (f"?{urlencode(given)}" if given else "")
        data = None if body is None else json.dumps(body).encode()
        for _ in range(REDIRECTS_MAX):
            answer = self._exchange(method, url, data)
            if answer.status not in (307, 308):
                break
            url = urljoin(url, answer.headers.get("location", ""))
        if answer.status >= 300:
            raise AdminError(answer.status, _reason(answer))
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
                self.close()
            reused = self._open(url)
            try:
                return self._send(method, target, data, headers)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                if not reused:
                    raise
                self.close()
                self._open(url)
                return self._send(method, target, data, headers)
        except TimeoutError:
            self.close()
            raise Timeout(f"{self._origin} did not answer in {self._timeout_s:.0f} s") from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ConnectError(
                f"cannot reach admin REST at {self._origin}: {why}; is it up, and is --admin-url "
                "right?"
            ) from None

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
                f"{url!r} is no address of admin REST: write it as http://HOST:PORT or "
                "https://HOST:PORT"
            )
        origin = f"{parts.scheme}://{parts.netloc}"
        if self._connection is not None and origin == self._origin:
            return True
        self.close()
        self._origin = origin
        if parts.scheme == "https":
            self._connection = http.client.HTTPSConnection(
                parts.hostname, port, timeout=self._timeout_s, context=self._ssl()
            )
        else:
            self._connection = http.client.HTTPConnection(
                parts.hostname, port, timeout=self._timeout_s
            )
        self._connection.connect()
        # A request is two small writes, and the second must not wait for an answer to the first.
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return False

    def _ssl(self) -> ssl.SSLContext:
        trust_certs, certificate, key = self._tls
        try:
            context = ssl.create_default_context(cafile=trust_certs)
            if certificate:
                context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError("tls", f"cannot use the certificates: {error}") from None
        return context


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _reason(answer: Answer) -> str:
    """What the server says about a refusal, in one line."""
    try:
        found = json.loads(answer.body)
    except ValueError:
        found = None
    if isinstance(found, dict) and isinstance(found.get("reason"), str) and found["reason"]:
        return str(found["reason"])
    known = http.client.responses.get(answer.status, "refused")
    text = answer.body.decode(errors="replace").strip()
    # A page or an object is for browsers and the like.
    return known if not text or text[0] in "<{" else f"{known}: {text[:200]}"
