"""Tokens of OpenID Connect issuers: which issuer one is of, and by which key it is checked.

The claim `iss` says the first and the header `kid` the second. Neither is believed, they only
choose: a token counts if the key of an issuer that the settings name has signed it. Its times,
its audience and its role are looked at as those of any token, and it must have an end.
"""

from typing import Final, final

from magnetar.broker.auth.issuer_keys import FetchKeys, IssuerKeys, KeyTimes
from magnetar.broker.auth.token import Token, TokenKey, TokenRules, refusal, verify_token
from magnetar.broker.host import Host
from magnetar.broker.promise import Promise, broken
from magnetar.errors import BrokerError

__all__ = ["Issuers"]


@final
class Issuers:
    """See the module."""

    def __init__(
        self, issuers: tuple[str, ...], rules: TokenRules, fetch: FetchKeys, times: KeyTimes
    ) -> None:
        self._rules: Final = rules
        self._issuers: Final = {name: IssuerKeys(name, fetch, times) for name in issuers}

    def has(self, issuer: object) -> bool:
        return isinstance(issuer, str) and issuer in self._issuers

    def verify(
        self, text: bytes, issuer: str, header: dict[str, object], host: Host
    ) -> Promise[Token]:
        """Returns what a token of this issuer says; broken with BrokerError if it is none."""
        id = header.get("kid")
        if not isinstance(id, str):
            return broken(refusal("its header does not name its key (kid)"))
        found: Promise[Token] = Promise()

        def check(key: TokenKey) -> None:
            try:
                token = verify_token(text, key, self._rules, host.now_ms())
            except BrokerError as error:
                found.fail(error)
            else:
                found.keep(token)

        self._issuers[issuer].find(id, host).then(check, found.fail)
        return found
