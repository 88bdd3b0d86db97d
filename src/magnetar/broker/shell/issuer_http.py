"""What OpenID Connect issuers publish, by HTTP: a shell. It waits, so it runs beside the loop.

Two requests: the discovery document, which says where the keys are, and the keys. Answers are
small and whole in time, or refused; redirects are not followed, for the settings say whom to trust.
"""

import http.client
import ssl
import urllib.error
import urllib.request
from email.message import Message
from typing import IO

from magnetar.broker.auth.jwks import discovery_url, issuer_error, read_discovery, read_keys
from magnetar.broker.auth.token import TokenKey
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.http_deadline import HttpDeadline
from magnetar.errors import SettingsError

__all__ = ["IssuerHttp"]

ANSWER_BYTES_MAX = 1 << 20


class IssuerHttp:
    """See the module. Raises SettingsError as it is made."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._require_https = settings.openid_require_https
        self._timeout_s = settings.openid_timeout_ms / 1000
        trust = settings.openid_trust_certs_file or None
        try:
            self._context = ssl.create_default_context(cafile=trust)
        except (OSError, ValueError) as error:
            raise SettingsError("openid_trust_certs_file", f"cannot use {trust}: {error}") from None

    def keys(self, issuer: str) -> dict[str, TokenKey]:
        """Returns the keys of an issuer, by id. Raises BrokerError."""
        found = self._get(discovery_url(issuer))
        url = read_discovery(issuer, found, require_https=self._require_https)
        return read_keys(self._get(url))

    def _get(self, url: str) -> bytes:
        request = urllib.request.Request(url, headers={"Accept": "application/json"})
        deadline = HttpDeadline(self._timeout_s, self._context)
        opener = urllib.request.build_opener(_NoRedirects(), *deadline.handlers)
        try:
            with deadline, opener.open(request, timeout=self._timeout_s) as answer:
                body: bytes = answer.read(ANSWER_BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            error.close()
            raise issuer_error(f"{url}: it answered {error.code}") from None
        except (OSError, http.client.HTTPException, ValueError, RuntimeError) as error:
            # The last is of the deadline: there is no memory for its thread.
            reason = "it did not answer in time" if deadline.over else _reason(error)
            raise issuer_error(f"{url}: {reason}") from error
        if deadline.over:
            raise issuer_error(f"{url}: it did not answer in time")
        if len(body) > ANSWER_BYTES_MAX:
            raise issuer_error(f"{url}: the answer has more than {ANSWER_BYTES_MAX} bytes")
        return body


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage | Message,
        newurl: str,
    ) -> None:
        return None  # the answer is then an error with its status


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(reason) or type(error).__name__
