"""A principal: someone who said who they are, and proved it.

| how a client comes      | method  | proof                              | role             |
|-------------------------|---------|------------------------------------|------------------|
| with a token            | token   | its signature and its times        | the claim `sub`  |
| with a certificate      | tls     | the handshake, by a trusted issuer | its common name  |
| with neither            | none    | none: only if there is a role for  | `anonymous_role` |
|                         |         | such clients                       |                  |

A method that is not served counts as neither, as Apache Pulsar has it. What a proxy says of
those behind it is not believed.
"""

from typing import Final, final

from magnetar.broker.auth.revoked import NOTHING_REVOKED, Revoked
from magnetar.broker.auth.token import TokenKey, TokenRules, verify_token
from magnetar.errors import BrokerError
from magnetar.model import ServerError

__all__ = ["NONE", "TLS", "TOKEN", "Authentication", "Principal"]

TOKEN: Final = "token"
TLS: Final = "tls"
NONE: Final = "none"


@final
class Principal:
    """Someone with a role; `expires_ms` is when the proof ends, -1 if it does not.

    `token_id` is that of a token, if it has one.
    """

    def __init__(self, role: str, method: str, expires_ms: int = -1, token_id: str = "") -> None:
        self.role: Final = role
        self.method: Final = method
        self.expires_ms: Final = expires_ms
        self.token_id: Final = token_id

    def has_expired(self, now_ms: int) -> bool:
        return 0 <= self.expires_ms <= now_ms


@final
class Authentication:
    """Finds out who someone is; see the module. `key` is None where there are no tokens.

    `revoked` may be changed at any time; those who are in already are asked by `is_revoked`.
    """

    def __init__(
        self,
        key: TokenKey | None,
        rules: TokenRules,
        *,
        certificates: bool = False,
        anonymous_role: str = "",
    ) -> None:
        self._key: Final = key
        self._rules: Final = rules
        self._certificates: Final = certificates
        self._anonymous_role: Final = anonymous_role
        self.revoked: Revoked = NOTHING_REVOKED

    def by_command(self, method: str, data: bytes, certificate_role: str, now_ms: int) -> Principal:
        """Who a CONNECT or an AUTH_RESPONSE is from. Raises BrokerError."""
        if method == TOKEN and self._key is not None:
            return self._by_token(data, self._key, now_ms)
        if method == TLS and self._certificates:
            return self._by_certificate(certificate_role)
        return self._anonymous()

    def by_header(self, header: str | None, certificate_role: str, now_ms: int) -> Principal:
        """Who an HTTP request is from. Raises BrokerError."""
        if header is not None:
            scheme, _, data = header.partition(" ")
            if scheme.lower() == "bearer" and self._key is not None:
                return self._by_token(_ascii(data.strip()), self._key, now_ms)
        elif certificate_role and self._certificates:
            return self._by_certificate(certificate_role)
        return self._anonymous()

    def is_revoked(self, principal: Principal) -> bool:
        """Whether the token of somebody who was let in is taken back by now."""
        return principal.method == TOKEN and self.revoked.has(principal.role, principal.token_id)

    def _by_token(self, data: bytes, key: TokenKey, now_ms: int) -> Principal:
        token = verify_token(data, key, self._rules, now_ms)
        principal = Principal(token.role, TOKEN, token.expires_ms, token.id)
        if self.is_revoked(principal):
            raise BrokerError(
                ServerError.AuthenticationError, "the token is not accepted: it was taken back"
            )
        return principal

    def _by_certificate(self, role: str) -> Principal:
        if not role:
            raise BrokerError(
                ServerError.AuthenticationError,
                "a client certificate with a common name is required, and there was none",
            )
        return Principal(role, TLS)

    def _anonymous(self) -> Principal:
        if not self._anonymous_role:
            raise BrokerError(
                ServerError.AuthenticationError, f"authentication is required: {self._wanted()}"
            )
        return Principal(self._anonymous_role, NONE)

    def _wanted(self) -> str:
        if self._key is None:
            return "give a client certificate"
        if not self._certificates:
            return "give a token"
        return "give a token, or a client certificate"


def _ascii(text: str) -> bytes:
    """Headers are Latin-1; what is not ASCII is no token, and is refused as one."""
    return text.encode("utf-8", "replace")
