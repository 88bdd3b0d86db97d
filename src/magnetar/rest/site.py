"""Where admin REST is and how it is spoken to; both senders, blocking and asyncio, share it.

A site knows its URL, who asks and whom to believe. It makes the headers of a request, says where
a redirect leads and whether an answer is a refusal. It opens no connection.
"""

import base64
import ssl
from typing import Final, NamedTuple, Protocol, TypedDict
from urllib.parse import urljoin, urlsplit

from magnetar.errors import ConnectError, InvalidUrl, Timeout
from magnetar.rest.admin_error import refusal
from magnetar.rest.answer import Answer
from magnetar.rest.trouble import trouble
from magnetar.rest.trust import Trust

__all__ = [
    "BODY_BYTES_MAX",
    "REDIRECTS_MAX",
    "TIMEOUT_S",
    "Origin",
    "Proof",
    "Site",
    "SiteOptions",
    "target_of",
]

TIMEOUT_S: Final = 60.0
REDIRECTS_MAX: Final = 5
# No answer that is asked for here is larger; a peer may send anything.
BODY_BYTES_MAX: Final = 1 << 30


class Proof(Protocol):
    """What says who asks: `magnetar.AuthenticationToken` and its kin have this form."""

    method: str
    certificate_path: str | None
    private_key_path: str | None

    def data(self) -> bytes:
        """Returns the token, or the user's name and password."""


class SiteOptions(TypedDict, total=False):
    """What may be said about a site besides its URL; see `Site`."""

    token: str
    authentication: Proof | None
    trust_certs: str | None
    certificate: str | None
    key: str | None
    allow_insecure: bool
    validate_hostname: bool
    timeout_s: float
    url_option: str


class Origin(NamedTuple):
    """The server that a URL names."""

    secure: bool
    host: str
    port: int
    text: str


class Site:
    """See the module."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        authentication: Proof | None = None,
        trust_certs: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        allow_insecure: bool = False,
        validate_hostname: bool = True,
        timeout_s: float = TIMEOUT_S,
        url_option: str = "the URL",
    ) -> None:
        """`url_option` is what the caller's users know the URL by; errors name it."""
        self.url: Final = url.rstrip("/")
        self.timeout_s: Final = timeout_s
        self._token = token
        self._authentication = authentication
        self._url_option = url_option
        if authentication is not None and authentication.certificate_path:
            certificate, key = authentication.certificate_path, authentication.private_key_path
        self._trust = Trust(
            trust_certs,
            certificate,
            key,
            allow_insecure=allow_insecure,
            validate_hostname=validate_hostname,
        )

    def context(self) -> ssl.SSLContext:
        """Returns what TLS connections are made with. Raises SettingsError."""
        return self._trust.context()

    def origin(self, url: str) -> Origin:
        """Returns the server that a URL names. Raises InvalidUrl."""
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
        secure = parts.scheme == "https"
        port = port or (443 if secure else 80)
        return Origin(secure, parts.hostname, port, f"{parts.scheme}://{parts.netloc}")

    @property
    def waits(self) -> bool:
        """Whether `headers` may wait for another machine, for a token."""
        return bool(getattr(self._authentication, "waits", False))

    def headers(self, method: str, *, has_body: bool) -> dict[str, str]:
        """Returns the headers of a request. Raises what the authentication raises."""
        headers = {"Accept": "application/json, text/plain, */*"}
        # Java's server wants the type of a body that is not there, too.
        if has_body or method in ("POST", "PUT"):
            headers["Content-Type"] = "application/json"
        if authorization := self._authorization():
            headers["Authorization"] = authorization
        return headers

    def _authorization(self) -> str:
        if self._authentication is None:
            return f"Bearer {self._token}" if self._token else ""
        # Asked each time: a function that gives tokens may give another one.
        data = self._authentication.data()
        if self._authentication.method == "basic":
            return f"Basic {base64.b64encode(data).decode()}"
        return f"Bearer {data.decode()}" if data else ""

    def redirect(self, url: str, answer: Answer) -> str | None:
        """Returns where a redirect leads; None if the answer is none."""
        if answer.status not in (307, 308):
            return None
        return urljoin(url, answer.headers.get("location", ""))

    def checked(self, answer: Answer) -> Answer:
        """Returns the answer. Raises AdminError if it is a refusal."""
        if answer.status >= 300:
            raise refusal(answer.status, answer.reason())
        return answer

    def unreachable(self, error: Exception, origin: str) -> ConnectError:
        """Returns the error for a server that cannot be reached."""
        why = trouble(error, origin, self._url_option)
        return ConnectError(f"cannot reach admin REST at {origin}: {why}")

    def silent(self, origin: str) -> Timeout:
        """Returns the error for a server that does not answer."""
        return Timeout(f"{origin} did not answer in {self.timeout_s:.0f} s")


def target_of(url: str) -> str:
    """Returns the path and the query of a URL.

    >>> target_of("http://h:1/a?b=c")
    '/a?b=c'
    """
    parts = urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")
