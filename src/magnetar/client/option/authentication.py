"""How a client says who it is.

Each kind has a name that the broker knows it by (`method`) and data that the client
sends as it connects, and again when the broker asks for it (`data`). Tokens and user
names go that way; a TLS client certificate is shown as the connection is made and needs no
data. Athenz is refused where it is made, not at the first connection.

Programs may derive kinds of their own from `Authentication`, so this file is not compiled.
"""

import json
from collections.abc import Callable
from typing import Any

from magnetar.errors import (
    ErrorGettingAuthenticationData,
    OperationNotSupported,
    PulsarException,
    SettingsError,
)

__all__ = [
    "Authentication",
    "AuthenticationAthenz",
    "AuthenticationBasic",
    "AuthenticationOauth2",
    "AuthenticationTLS",
    "AuthenticationToken",
]

_JAVA = "org.apache.pulsar.client.impl.auth."


class Authentication:
    """A kind by its name, `token`, `tls` or `basic`, with its parameters as one string.

    The official client also loads shared libraries this way, which cannot be done here.

    >>> Authentication("token", "token:abc").data()
    b'abc'
    """

    method: str
    # Where the client certificate and its key are, for TLS.
    certificate_path: str | None = None
    private_key_path: str | None = None
    # Whether `data` may wait for another machine: then it is asked on a thread.
    waits: bool = False

    def __init__(self, dynamicLibPath: str, authParamsString: str) -> None:
        name = _text("dynamicLibPath", dynamicLibPath)
        params = _text("authParamsString", authParamsString)
        self._kind = _by_name(name, params)
        self.method = self._kind.method
        self.certificate_path = self._kind.certificate_path
        self.private_key_path = self._kind.private_key_path
        self.waits = self._kind.waits

    def data(self) -> bytes:
        """Returns what is sent to the broker now; raises if it cannot be had."""
        return self._kind.data()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(method={self.method!r})"  # never the secret


class AuthenticationToken(Authentication):
    """A token, or a function that returns the one that is valid now.

    The function is called for each connection and whenever the broker asks again. Space around
    a token, as files end with it, is no part of it.

    >>> AuthenticationToken(lambda: "a.b.c\\n").data()
    b'a.b.c'
    """

    def __init__(self, token: str | Callable[[], str]) -> None:
        given: object = token
        if not isinstance(given, str) and not callable(given):
            raise SettingsError("token", "must be a str or a function that returns one")
        self.method = "token"
        self._token = token

    def data(self) -> bytes:
        token: object = self._token
        if callable(token):
            try:
                token = token()
            except PulsarException:
                raise
            except Exception as error:
                raise ErrorGettingAuthenticationData(
                    f"the function that gives the token failed: {error!r}"
                ) from error
        if not isinstance(token, str):
            raise ErrorGettingAuthenticationData(
                f"the function that gives the token returned a {type(token).__name__}, not a str"
            )
        return token.strip().encode()


class AuthenticationBasic(Authentication):
    """A user name and a password, or both in JSON: {"username": ..., "password": ...}.

    >>> AuthenticationBasic("me", "secret").data()
    b'me:secret'
    """

    def __init__(
        self,
        username: str | None = None,
        password: str | None = None,
        method: str = "basic",
        auth_params_string: str | None = None,
    ) -> None:
        if auth_params_string is not None:
            fields = _json_fields("auth_params_string", auth_params_string)
            username, password = fields.get("username"), fields.get("password")
            method = fields.get("method", "basic")
        self._username = _text("username", username)
        self._password = _text("password", password)
        self.method: str = _text("method", method)

    def data(self) -> bytes:
        return f"{self._username}:{self._password}".encode()


class AuthenticationTLS(Authentication):
    """A client certificate and its private key, both files in PEM form."""

    def __init__(self, certificate_path: str, private_key_path: str) -> None:
        self.method = "tls"
        self.certificate_path: str | None = _text("certificate_path", certificate_path)
        self.private_key_path: str | None = _text("private_key_path", private_key_path)

    def data(self) -> bytes:
        return b""


class AuthenticationAthenz(Authentication):
    """Not supported."""

    def __init__(self, auth_params_string: str) -> None:
        _text("auth_params_string", auth_params_string)
        raise OperationNotSupported(
            "Athenz is not supported: use AuthenticationToken, with a function that gets a token"
        )


class AuthenticationOauth2(Authentication):
    """Tokens from an issuer of OAuth 2.0, for client credentials, all in JSON.

    `issuer_url` and `private_key` (a file in JSON with `client_id` and `client_secret`) or these
    two themselves; `audience` and `scope`, if the issuer asks for them. A token is fetched for the
    first connection, kept until it ends, and fetched anew when the broker asks again. The issuer's
    certificate is held against `tls_trust_certs_file_path`, of this JSON or of the client.

    >>> AuthenticationOauth2('{"issuer_url": "https://i", "client_id": "a", "client_secret": "b"}')
    AuthenticationOauth2(method='token')
    """

    waits = True

    def __init__(self, auth_params_string: str) -> None:
        # Here, for it brings Python's HTTP client along.
        from magnetar.client.option.oauth2 import ClientCredentials

        self.method = "token"
        what = '{"issuer_url": ..., "client_id": ..., "client_secret": ...}'
        self._credentials = ClientCredentials(
            _json_fields("auth_params_string", auth_params_string, what)
        )

    def data(self) -> bytes:
        return self._credentials.token()

    def trust(self, certificates: str | None) -> None:
        """Says whose certificates count, if the JSON does not."""
        self._credentials.trust = self._credentials.trust or certificates


def _by_name(name: str, params: str) -> Authentication:
    short = name.removeprefix(_JAVA).removeprefix("Authentication").lower()
    if short == "token":
        return AuthenticationToken(_token(params))
    if short == "tls":
        fields = dict(part.partition(":")[::2] for part in params.split(","))
        return AuthenticationTLS(fields.get("tlsCertFile", ""), fields.get("tlsKeyFile", ""))
    if short == "basic":
        return AuthenticationBasic(auth_params_string=params)
    if short == "athenz":
        return AuthenticationAthenz(params)
    if short == "oauth2":
        return AuthenticationOauth2(params)
    raise OperationNotSupported(
        f"authentication {name!r} is not supported: use token, tls, basic or oauth2, or derive "
        "a class from Authentication with method and data"
    )


def _token(params: str) -> str:
    if params.startswith(("file:", "env:")):
        raise OperationNotSupported(
            "tokens from files and the environment are not supported by this name: "
            "give AuthenticationToken a function that reads it"
        )
    return params.removeprefix("token:")


def _json_fields(
    key: str, text: str, what: str = '{"username": ..., "password": ...}'
) -> dict[str, Any]:
    try:
        fields = json.loads(_text(key, text))
    except ValueError as error:
        raise SettingsError(key, f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise SettingsError(key, f"must be a JSON object: {what}")
    return fields


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise SettingsError(key, f"must be a str, not {type(value).__name__}")
    return value
