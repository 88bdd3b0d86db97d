"""What an OpenID Connect issuer publishes: where its keys are, and the keys (RFC 7517).

Both are JSON from another machine: what is not as it should be raises BrokerError, which says what
is wrong. A key counts for the algorithms that keys of its kind are good for, and for fewer if it
says so itself; secrets (`oct`) and keys that are for encryption do not count.
"""

import json
from typing import Final

from magnetar.broker.auth.token import TokenKey, key_of
from magnetar.errors import BrokerError, SettingsError
from magnetar.model import ServerError

__all__ = ["discovery_url", "issuer_error", "read_discovery", "read_keys"]

# Issuers have a handful, old ones included.
KEYS_MAX: Final = 100


def issuer_error(reason: str) -> BrokerError:
    """Returns why an issuer's keys cannot be had."""
    return BrokerError(ServerError.ServiceNotReady, reason)


def discovery_url(issuer: str) -> str:
    """
    >>> discovery_url("https://login.example.com/tenant/")
    'https://login.example.com/tenant/.well-known/openid-configuration'
    """
    return issuer.rstrip("/") + "/.well-known/openid-configuration"


def read_discovery(issuer: str, document: bytes, *, require_https: bool) -> str:
    """Returns the address of the issuer's keys."""
    fields = _object(document, "its openid-configuration")
    if fields.get("issuer") != issuer:
        raise issuer_error(
            f"its openid-configuration is of {str(fields.get('issuer'))[:200]!r}: give the issuer "
            "as it calls itself"
        )
    url = fields.get("jwks_uri")
    if not isinstance(url, str):
        raise issuer_error("its openid-configuration names no jwks_uri")
    if not url.startswith(("https://",) if require_https else ("https://", "http://")):
        raise issuer_error(f"its jwks_uri {url[:200]!r} does not begin with https://")
    return url


def read_keys(document: bytes) -> dict[str, TokenKey]:
    """Returns the keys that tokens may be signed with, by their ids (`kid`)."""
    listed = _object(document, "its list of keys").get("keys")
    if not isinstance(listed, list):
        raise issuer_error("its list of keys has no `keys`")
    found: dict[str, TokenKey] = {}
    for fields in listed[:KEYS_MAX]:
        key = _key(fields) if isinstance(fields, dict) else None
        if key is not None:
            found[str(fields["kid"])] = key
    if not found:
        raise issuer_error("its list has no RSA or EC key with an id (kid) for signatures")
    return found


def _key(fields: dict[str, object]) -> TokenKey | None:
    """Returns None for a key that is of no use here: others in the list may be."""
    from jwt.api_jwk import PyJWK
    from jwt.exceptions import PyJWTError

    if fields.get("kty") not in ("RSA", "EC") or not isinstance(fields.get("kid"), str):
        return None
    if fields.get("use", "sig") != "sig":
        return None
    try:
        # What it would be used with is decided by its kind, not by the library.
        material = PyJWK.from_dict(dict(fields, alg=None)).key
        key = key_of("jwks", material)
    except (PyJWTError, SettingsError, ValueError, TypeError, KeyError):
        return None
    named = fields.get("alg")
    if named is None:
        return key
    algorithms = tuple([one for one in key.algorithms if one == named])
    return TokenKey(key.key, algorithms) if algorithms else None


def _object(document: bytes, what: str) -> dict[str, object]:
    try:
        fields: object = json.loads(document)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise issuer_error(f"{what} is not a JSON object")
    return fields
