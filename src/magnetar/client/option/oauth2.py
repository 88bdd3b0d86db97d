"""OAuth 2.0 client credentials (RFC 6749, 4.4): a token from an issuer, kept until it ends.

| token      | `data` is asked                          | becomes                          |
|------------|------------------------------------------|----------------------------------|
| none       | fetched, while all who ask wait for one  | kept; none, if it says no end    |
| kept       | the same again                           | spent, MARGIN_SECONDS before its |
|            |                                          | end (a tenth of a short life)    |
| spent      | as with none                             |                                  |

The issuer is found by its discovery document. Both requests wait for another machine, so the
client asks on a thread (`waits`); a broker that challenges gets a token that was fetched since the
old one ended. Secrets are in no error and no log.
"""

import base64
import binascii
import http.client
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from magnetar.errors import ErrorGettingAuthenticationData, OperationNotSupported, SettingsError

__all__ = ["ClientCredentials"]

TIMEOUT_SECONDS = 10.0
ANSWER_BYTES_MAX = 1 << 20
MARGIN_SECONDS = 10.0


class ClientCredentials:
    """Where to get tokens, and with what; see the module. Raises SettingsError.

    `fields` are those of the official client: `issuer_url`, and `private_key` (a file in JSON with
    `client_id` and `client_secret`) or these two themselves; `audience`, `scope`, `type` and
    `tls_trust_certs_file_path` may be left out.
    """

    def __init__(self, fields: dict[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        kind = _text(fields, "type") or "client_credentials"
        if kind != "client_credentials":
            raise OperationNotSupported(
                f"OAuth 2.0 of type {kind!r} is not supported: use client_credentials"
            )
        self.issuer_url: str = _text(fields, "issuer_url")
        if not self.issuer_url.startswith(("https://", "http://")):
            raise SettingsError("issuer_url", "must be the address of the issuer: https://HOST/...")
        key = _key_file(_text(fields, "private_key")) if "private_key" in fields else fields
        self._client_id = _needed(key, "client_id")
        self._client_secret = _needed(key, "client_secret")
        self._audience = _text(fields, "audience")
        self._scope = _text(fields, "scope")
        self.trust: str | None = _text(fields, "tls_trust_certs_file_path") or None
        self._clock = clock
        self._lock = threading.Lock()
        self._token = b""
        self._spent_at = float("-inf")

    def token(self) -> bytes:
        """Returns one that counts now. Raises ErrorGettingAuthenticationData."""
        with self._lock:
            if self._clock() >= self._spent_at:
                self._fetch()
            return self._token

    def _fetch(self) -> None:
        asked = self._clock()
        found = self._post(self._token_endpoint())
        token = found.get("access_token")
        if not isinstance(token, str) or not token:
            raise self._error("its answer has no access_token")
        self._token = token.encode()
        lives = found.get("expires_in", 0)
        lives_s = float(lives) if isinstance(lives, int | float | str) and _is_number(lives) else 0
        self._spent_at = asked + lives_s - min(MARGIN_SECONDS, lives_s / 10)

    def _token_endpoint(self) -> str:
        url = self.issuer_url.rstrip("/") + "/.well-known/openid-configuration"
        found = self._ask(urllib.request.Request(url)).get("token_endpoint")
        if not isinstance(found, str) or not found.startswith(("https://", "http://")):
            raise self._error("its openid-configuration names no token_endpoint")
        return found

    def _post(self, url: str) -> dict[str, Any]:
        form = {
            "grant_type": "client_credentials",
            "client_id": self._client_id,
            "client_secret": self._client_secret,
            "audience": self._audience,
            "scope": self._scope,
        }
        body = urllib.parse.urlencode({name: form[name] for name in form if form[name]})
        return self._ask(urllib.request.Request(url, body.encode(), method="POST"))

    def _ask(self, request: urllib.request.Request) -> dict[str, Any]:
        request.add_header("Accept", "application/json")
        try:
            with self._opener().open(request, timeout=TIMEOUT_SECONDS) as answer:
                body = answer.read(ANSWER_BYTES_MAX)
        except urllib.error.HTTPError as error:
            with error:
                raise self._error(f"it answered {error.code}{_said(error)}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise self._error(f"it cannot be reached: {reason or type(error).__name__}") from error
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._error("its answer is not a JSON object")
        return found

    def _opener(self) -> urllib.request.OpenerDirector:
        try:
            context = ssl.create_default_context(cafile=self.trust)
        except (OSError, ValueError) as error:
            raise self._error(f"cannot use {self.trust}: {error}") from error
        return urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))

    def _error(self, reason: str) -> ErrorGettingAuthenticationData:
        return ErrorGettingAuthenticationData(f"no token from {self.issuer_url}: {reason}")


def _said(error: urllib.error.HTTPError) -> str:
    """What an issuer says of a refusal: a code that RFC 6749 has a list of."""
    try:
        code = json.loads(error.read(ANSWER_BYTES_MAX)).get("error", "")
    except (OSError, ValueError, AttributeError):
        return ""
    return f" ({code[:100]})" if isinstance(code, str) and code else ""


def _is_number(value: int | float | str) -> bool:
    try:
        return 0 <= float(value) < float("inf")
    except ValueError:
        return False


def _key_file(source: str) -> dict[str, Any]:
    """Reads what `private_key` names: a path, `file:`, or JSON behind data:...;base64."""
    if source.startswith("data:"):
        head, _, data = source.partition(",")
        try:
            text = base64.b64decode(data, validate=True) if head.endswith(";base64") else b""
        except binascii.Error:
            text = b""
    else:
        path = unquote(urlparse(source).path) if source.startswith("file:") else source
        try:
            text = Path(path).read_bytes()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "this is no path"
            raise SettingsError("private_key", f"cannot read {path!r}: {reason}") from None
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise SettingsError("private_key", 'must be a JSON object: {"client_id": ..., ...}')
    return fields


def _text(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise SettingsError(key, f"must be a str, not {type(value).__name__}")
    return value


def _needed(fields: dict[str, Any], key: str) -> str:
    value = _text(fields, key)
    if not value:
        raise SettingsError(key, "is missing: give it, or a private_key file that has it")
    return value
