"""Who is let in, made of settings and the files and issuers that they name: a shell.

Keys are read once. The list of tokens that were taken back and the users with their passwords are
read again when their files change; ones that cannot be used are reported and left alone.
"""

import logging
import os
from collections.abc import Callable

from magnetar.broker.auth.issuer_keys import KeyTimes
from magnetar.broker.auth.issuers import Issuers
from magnetar.broker.auth.log_ins import LogIns
from magnetar.broker.auth.password import Passwords, read_passwords
from magnetar.broker.auth.proxied import Proxies
from magnetar.broker.auth.roles import Authentication
from magnetar.broker.auth.token import (
    TokenKey,
    TokenRules,
    load_library,
    public_key,
    secret_key,
)
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.issuer_http import IssuerHttp
from magnetar.broker.shell.key_source import RevokedFile, key_path, read_key
from magnetar.broker.shell.tls import file_stamp
from magnetar.errors import SettingsError

__all__ = ["ProofFiles"]

log: logging.Logger = logging.getLogger("magnetar.broker")

# What digests of proved passwords are made under.
LOG_IN_KEY_BYTES = 32


class PasswordFile:
    """The users that `basic_auth_file` names: a path, `file:`, or the lines behind `data:`."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._path = None if source.startswith("data:") else str(key_path(source))
        self._seen = None if self._path is None else file_stamp(self._path)

    @property
    def may_change(self) -> bool:
        return self._path is not None

    def read(self) -> Passwords:
        """Returns the users. Raises SettingsError."""
        try:
            text = read_key("basic_auth_file", self._source).decode()
        except UnicodeDecodeError:
            raise SettingsError("basic_auth_file", "the users are not UTF-8") from None
        return read_passwords("basic_auth_file", text)

    def changed(self) -> Passwords | None:
        """Returns the users, if the file changed and can be used."""
        if self._path is None:
            return None
        stamp = file_stamp(self._path)
        if stamp == self._seen:
            return None
        self._seen = stamp
        try:
            passwords = self.read()
        except SettingsError as error:
            log.warning("the users changed, and are not taken: %s", error)
            return None
        log.info("the users changed: %s has %d", self._path, len(passwords))
        return passwords


class ProofFiles:
    """See the module. Raises SettingsError as it is made, and by `authentication`."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._revoked: RevokedFile | None = None
        self._users: PasswordFile | None = None
        if settings.token_revoked_file:
            self._revoked = RevokedFile(settings.token_revoked_file)
        if settings.basic_auth_file:
            self._users = PasswordFile(settings.basic_auth_file)

    @property
    def may_change(self) -> bool:
        return self._revoked is not None or (self._users is not None and self._users.may_change)

    def authentication(self) -> Authentication:
        """Returns what finds out who somebody is."""
        settings = self._settings
        rules = TokenRules(
            role_claim=settings.token_role_claim,
            audience_claim=settings.token_audience_claim,
            audiences=(settings.token_audience,) if settings.token_audience else (),
            clock_skew_ms=settings.token_clock_skew_seconds * 1000,
        )
        log_ins = None
        if self._users is not None:
            log_ins = LogIns(self._users.read(), os.urandom(LOG_IN_KEY_BYTES))
        key = self._token_key()
        if key is not None or settings.openid_issuers:
            load_library()
        made = Authentication(
            key,
            rules,
            certificates=bool(settings.tls_trust_certs_file),
            anonymous_role=settings.anonymous_role,
            log_ins=log_ins,
            issuers=_issuers(settings) if settings.openid_issuers else None,
            proxies=Proxies(
                settings.proxy_roles, authenticate=settings.authenticate_original_auth_data
            ),
        )
        if self._revoked is not None:
            made.revoked = self._revoked.read()
        return made

    def _token_key(self) -> TokenKey | None:
        for name, value, make in self._keys():
            if value:
                return make(name, read_key(name, value))
        return None

    def _keys(self) -> list[tuple[str, str, Callable[[str, bytes], TokenKey]]]:
        return [
            ("token_secret_key", self._settings.token_secret_key, secret_key),
            ("token_public_key", self._settings.token_public_key, public_key),
        ]

    def refresh(self, authentication: Authentication) -> bool:
        """Looks whether files changed; returns whether somebody may no longer be let in."""
        revoked = None if self._revoked is None else self._revoked.changed()
        if revoked is not None:
            authentication.revoked = revoked
        users = None if self._users is None else self._users.changed()
        if users is not None and authentication.log_ins is not None:
            authentication.log_ins.passwords = users
        return revoked is not None or users is not None


def _issuers(settings: BrokerSettings) -> Issuers:
    rules = TokenRules(
        role_claim=settings.openid_role_claim,
        audiences=settings.openid_audiences,
        clock_skew_ms=settings.openid_leeway_seconds * 1000,
        of_issuer=True,
    )
    times = KeyTimes(
        refresh_ms=settings.openid_refresh_seconds * 1000,
        expire_ms=settings.openid_expire_seconds * 1000,
        unknown_key_ms=settings.openid_unknown_key_seconds * 1000,
    )
    return Issuers(settings.openid_issuers, rules, IssuerHttp(settings).keys, times)
