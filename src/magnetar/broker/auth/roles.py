"""A principal: someone who said who they are, and proved it.

| how a client comes      | method  | proof                              | role             |
|-------------------------|---------|------------------------------------|------------------|
| with a token            | token   | its signature and its times        | the claim `sub`  |
| with one of an OpenID   | token   | the same, by a key that the issuer | the claim that   |
| Connect issuer          |         | publishes                          | settings name    |
| with a password         | basic   | the file of users has it           | the user         |
| with a certificate      | tls     | the handshake, by a trusted issuer | its common name  |
| with none of these      | none    | none: only if there is a role for  | `anonymous_role` |
|                         |         | such clients                       |                  |

A method that is not served counts as none, as Apache Pulsar has it. Who it is may have to be
found out beside the loop, so the answer is a promise; most are kept at once. What a proxy says of
those behind it counts by the rule in `proxied.py`.
"""

import base64
import binascii
from typing import Final, final

from magnetar.broker.auth.issuers import Issuers
from magnetar.broker.auth.log_ins import LogIns, ProvedUser
from magnetar.broker.auth.proxied import NO_PROXIES, Original, Proxies
from magnetar.broker.auth.revoked import NOTHING_REVOKED, Revoked
from magnetar.broker.auth.token import (
    Token,
    TokenKey,
    TokenRules,
    refusal,
    unverified_parts,
    verify_token,
)
from magnetar.broker.host import Host
from magnetar.broker.promise import Promise, broken, kept
from magnetar.errors import BrokerError
from magnetar.model import ServerError

__all__ = ["BASIC", "NONE", "TLS", "TOKEN", "Authentication", "Principal", "Proof"]

TOKEN: Final = "token"
BASIC: Final = "basic"
TLS: Final = "tls"
NONE: Final = "none"
# Of an original principal: the word of a proxy.
PROXY: Final = "proxy"

NO_ORIGINAL: Final = Original()


@final
class Principal:
    """Someone with a role; `expires_ms` is when the proof ends, -1 if it does not.

    `proof_id` is by what the proof can be taken back: the id of a token, if it has one, or what
    the file of users had. `original` is who is behind a proxy, if this is one.
    """

    def __init__(
        self,
        role: str,
        method: str,
        expires_ms: int = -1,
        proof_id: str = "",
        original: "Principal | None" = None,
    ) -> None:
        self.role: Final = role
        self.method: Final = method
        self.expires_ms: Final = expires_ms
        self.proof_id: Final = proof_id
        self.original: Final = original

    def speaking_for(self, original: "Principal | None") -> "Principal":
        """Returns the same principal, as a proxy of another one."""
        return Principal(self.role, self.method, self.expires_ms, self.proof_id, original)

    def __str__(self) -> str:
        behind = "" if self.original is None else f" for {self.original}"
        return f"role {self.role!r}{behind}"

    def has_expired(self, now_ms: int) -> bool:
        return 0 <= self.expires_ms <= now_ms


@final
class Proof:
    """What somebody brings: a method with its data, and the certificate of the connection.

    `address` is where from, without the port; `original` what is said of who is behind it.
    """

    def __init__(
        self,
        method: str,
        data: bytes,
        certificate_role: str,
        address: str,
        original: Original = NO_ORIGINAL,
    ) -> None:
        self.original: Final = original
        self.method: Final = method
        self.data: Final = data
        self.certificate_role: Final = certificate_role
        self.address: Final = address


@final
class Authentication:
    """Finds out who someone is; see the module.

    `key`, `log_ins` and `issuers` are None where there are no tokens with one key, users with
    passwords or issuers. `revoked` may be changed at any time; those who are in already are asked
    by `is_revoked`.
    """

    def __init__(
        self,
        key: TokenKey | None,
        rules: TokenRules,
        *,
        certificates: bool = False,
        anonymous_role: str = "",
        log_ins: LogIns | None = None,
        issuers: Issuers | None = None,
        proxies: Proxies = NO_PROXIES,
    ) -> None:
        self.proxies: Final = proxies
        self._key: Final = key
        self._rules: Final = rules
        self._certificates: Final = certificates
        self._anonymous_role: Final = anonymous_role
        self.log_ins: Final = log_ins
        self._issuers: Final = issuers
        self.revoked: Revoked = NOTHING_REVOKED

    def by_command(self, proof: Proof, host: Host) -> Promise[Principal]:
        """Returns who a CONNECT or an AUTH_RESPONSE is from; broken with BrokerError."""
        return self._behind(proof, host, prove=self.proxies.authenticate)

    def by_response(self, proof: Proof, before: Principal, host: Host) -> Promise[Principal]:
        """Returns who an AUTH_RESPONSE is from; whoever was behind a proxy still is."""
        found: Promise[Principal] = Promise()
        self._prove(proof, host).then(
            lambda principal: found.keep(principal.speaking_for(before.original)), found.fail
        )
        return found

    def by_header(
        self,
        header: str | None,
        certificate_role: str,
        address: str,
        host: Host,
        original_role: str = "",
    ) -> Promise[Principal]:
        """Returns who an HTTP request is from; broken with BrokerError."""
        method, data = NONE, b""
        if header is not None:
            scheme, _, text = header.partition(" ")
            if scheme.lower() == "bearer":
                method, data = TOKEN, _ascii(text.strip())
            elif scheme.lower() == "basic":
                method, data = BASIC, _pair(text.strip())
        elif certificate_role:
            method = TLS
        original = Original(original_role)
        proof = Proof(method, data, certificate_role, address, original)
        return self._behind(proof, host, prove=False)

    def speaker(self, principal: Principal, original_role: str) -> Principal:
        """Returns who asks, if a command names who is behind a proxy. Raises BrokerError."""
        known = principal.original
        if not original_role or (known is not None and known.role == original_role):
            return principal
        self.proxies.check(principal.role, Original(original_role))
        if self.proxies.authenticate:
            raise BrokerError(
                ServerError.AuthorizationError,
                "the original principal of a command must be that of its connection",
            )
        return principal.speaking_for(Principal(original_role, PROXY))

    def is_revoked(self, principal: Principal) -> bool:
        """Returns whether the proof of somebody who was let in is taken back by now."""
        if principal.original is not None and self.is_revoked(principal.original):
            return True
        if principal.method == TOKEN:
            return self.revoked.has(principal.role, principal.proof_id)
        if principal.method == BASIC:
            user = ProvedUser(principal.role, principal.proof_id)
            return self.log_ins is None or not self.log_ins.counts(user)
        return False

    def _prove(self, proof: Proof, host: Host) -> Promise[Principal]:
        try:
            return self._by_proof(proof, host)
        except BrokerError as error:
            return broken(error)

    def _behind(self, proof: Proof, host: Host, *, prove: bool) -> Promise[Principal]:
        """Returns who this is, and who is behind it, if it is a proxy."""
        found: Promise[Principal] = Promise()
        original = proof.original

        def admit(principal: Principal) -> None:
            try:
                self.proxies.check(principal.role, original)
            except BrokerError as error:
                found.fail(error)
                return
            if not original.is_named or original.role == principal.role:
                found.keep(principal)
            elif not prove:
                found.keep(principal.speaking_for(Principal(original.role, PROXY)))
            else:
                client = Proof(original.method, original.data, "", proof.address)
                self._prove(client, host).then(
                    lambda proved: self._speak_for(found, principal, proved), found.fail
                )

        self._prove(proof, host).then(admit, found.fail)
        return found

    def _speak_for(
        self, found: Promise[Principal], principal: Principal, original: Principal
    ) -> None:
        try:
            self.proxies.check(principal.role, Original(original.role))
        except BrokerError as error:
            found.fail(error)
        else:
            found.keep(principal.speaking_for(original))

    def _by_proof(self, proof: Proof, host: Host) -> Promise[Principal]:
        if proof.method == TOKEN and (self._key is not None or self._issuers is not None):
            return self._by_token(proof.data, host)
        if proof.method == BASIC and self.log_ins is not None:
            return self._by_password(self.log_ins, proof, host)
        if proof.method == TLS and self._certificates:
            return kept(self._by_certificate(proof.certificate_role))
        return kept(self._anonymous())

    def _by_token(self, data: bytes, host: Host) -> Promise[Principal]:
        issuers = self._issuers
        if issuers is not None:
            header, claims = unverified_parts(data)
            issuer = claims.get("iss")
            if isinstance(issuer, str) and issuers.has(issuer):
                found: Promise[Principal] = Promise()

                def admit(token: Token) -> None:
                    try:
                        found.keep(self._bearer(token))
                    except BrokerError as error:
                        found.fail(error)

                issuers.verify(data, issuer, header, host).then(admit, found.fail)
                return found
        if self._key is None:
            raise refusal("its issuer (iss) is none of those that this broker trusts")
        return kept(self._bearer(verify_token(data, self._key, self._rules, host.now_ms())))

    def _bearer(self, token: Token) -> Principal:
        principal = Principal(token.role, TOKEN, token.expires_ms, token.id)
        if self.is_revoked(principal):
            raise refusal("it was taken back")
        return principal

    def _by_password(self, log_ins: LogIns, proof: Proof, host: Host) -> Promise[Principal]:
        found: Promise[Principal] = Promise()
        log_ins.prove(proof.data, proof.address, host).then(
            lambda user: found.keep(Principal(user.name, BASIC, proof_id=user.known)), found.fail
        )
        return found

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
        wanted: list[str] = []
        if self._key is not None or self._issuers is not None:
            wanted.append("a token")
        if self.log_ins is not None:
            wanted.append("a user with a password")
        if self._certificates:
            wanted.append("a client certificate")
        return "give " + ", or ".join(wanted)


def _ascii(text: str) -> bytes:
    """Headers are Latin-1; what is not ASCII is no token, and is refused as one."""
    return text.encode("utf-8", "replace")


def _pair(text: str) -> bytes:
    """What stands in base64 behind `Basic`; what does not is no pair, and is refused as one."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
