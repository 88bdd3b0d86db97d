"""Tokens: JSON Web Tokens that say which role their bearer has, signed by a key.

A key says by itself which algorithms it can be used with, and only those count, whatever a
token says of itself:

| key                      | algorithms                                           |
|--------------------------|------------------------------------------------------|
| a secret of 32 bytes     | HS256; of 48 bytes HS384 too, of 64 bytes HS512 too  |
| RSA, 2048 bits or more   | RS256, RS384, RS512, PS256, PS384, PS512             |
| the curve P-256          | ES256                                                |
| the curve P-384          | ES384                                                |
| the curve P-521          | ES512                                                |

So `none` is never taken, and a public key is never taken for a secret. Reasons say what is
wrong with a token and never quote it: they go to logs and to peers.

The libraries are imported where they are used: a broker without tokens starts without them. One
that has tokens calls `load_library` at its start, for that takes 50 ms, and the first token may be
a stranger's (I10).
"""

import json
import math
from collections.abc import Mapping
from typing import Final, final

from magnetar.broker.setting.text_limits import TOKEN
from magnetar.errors import BrokerError, SettingsError
from magnetar.model import ServerError

__all__ = [
    "SigningKey",
    "Token",
    "TokenKey",
    "TokenRules",
    "key_of",
    "load_library",
    "make_token",
    "public_key",
    "refusal",
    "secret_key",
    "signing_key",
    "unverified_parts",
    "verify_token",
    "verifying_key",
]

SECRET_BYTES_MIN: Final = 32
RSA_BITS_MIN: Final = 2048

RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
CURVE_ALGORITHMS: Final[dict[str, str]] = {
    "secp256r1": "ES256",
    "secp384r1": "ES384",
    "secp521r1": "ES512",
}


@final
class TokenKey:
    """What tokens are checked by, and the algorithms that it is good for."""

    def __init__(self, key: object, algorithms: tuple[str, ...]) -> None:
        self.key: Final = key
        self.algorithms: Final = algorithms

    def __repr__(self) -> str:
        return f"TokenKey(algorithms={self.algorithms})"


@final
class SigningKey:
    """What tokens are made by, and the algorithm that they are made with."""

    def __init__(self, key: object, algorithms: tuple[str, ...]) -> None:
        self.key: Final = key
        self.algorithms: Final = algorithms

    def __repr__(self) -> str:
        return f"SigningKey(algorithms={self.algorithms})"


@final
class TokenRules:
    """What a token must say: in which claim its role is, for whom it is (one of `audiences`, if
    there are any), and by which clock. One `of_issuer` must have an end, and its role may be the
    first of a list."""

    def __init__(
        self,
        *,
        role_claim: str = "sub",
        audience_claim: str = "aud",
        audiences: tuple[str, ...] = (),
        clock_skew_ms: int = 0,
        of_issuer: bool = False,
    ) -> None:
        self.role_claim: Final = role_claim
        self.audience_claim: Final = audience_claim
        self.audiences: Final = audiences
        self.clock_skew_ms: Final = clock_skew_ms
        self.of_issuer: Final = of_issuer


@final
class Token:
    """What a token says that was verified; `expires_ms` is -1 if it holds for ever.

    `id` is its claim `jti`, empty if it has none.
    """

    def __init__(self, role: str, expires_ms: int, id: str) -> None:
        self.role: Final = role
        self.expires_ms: Final = expires_ms
        self.id: Final = id


def load_library() -> None:
    """Imports what checks tokens, so that the first of them need not wait for that."""
    import jwt.api_jwk
    import jwt.api_jws  # noqa: F401


# ---- Keys ------------------------------------------------------------------------------


def secret_key(name: str, data: bytes) -> TokenKey:
    """Returns a secret that both sides have. Raises SettingsError under the setting's name."""
    if data.lstrip().startswith(b"-----BEGIN"):
        raise SettingsError(
            name,
            "this is a key or certificate in PEM form, not a secret: give it as public key",
        )
    if len(data) < SECRET_BYTES_MIN:
        raise SettingsError(
            name,
            f"the secret has {len(data)} bytes: take {SECRET_BYTES_MIN} or more, as "
            "`magnetar tokens init` does",
        )
    algorithms = ["HS256"]
    if len(data) >= 48:
        algorithms.append("HS384")
    if len(data) >= 64:
        algorithms.append("HS512")
    return TokenKey(data, tuple(algorithms))


def public_key(name: str, data: bytes) -> TokenKey:
    """Returns a public key in PEM or DER form. Raises SettingsError under the setting's name."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import (
        load_der_public_key,
        load_pem_public_key,
    )

    if b"PRIVATE KEY-----" in data:
        raise SettingsError(name, "this is a private key: give the broker the public one only")
    try:
        if data.lstrip().startswith(b"-----BEGIN"):
            key = load_pem_public_key(data)
        else:
            key = load_der_public_key(data)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SettingsError(name, "this is not a public key in PEM or DER form") from None
    return key_of(name, key)


def key_of(name: str, key: object) -> TokenKey:
    """Returns a public key of the library with its algorithms. Raises SettingsError."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if isinstance(key, rsa.RSAPublicKey):
        return TokenKey(key, _rsa_algorithms(name, key.key_size))
    if isinstance(key, ec.EllipticCurvePublicKey):
        return TokenKey(key, _curve_algorithms(name, key.curve.name))
    raise SettingsError(name, "this kind of key is not supported: give an RSA or EC key")


def signing_key(name: str, data: bytes) -> SigningKey:
    """Returns a secret, or a private key in PEM or DER form. Raises SettingsError."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import (
        load_der_private_key,
        load_pem_private_key,
    )

    key: object = None
    try:
        if data.lstrip().startswith(b"-----BEGIN"):
            key = load_pem_private_key(data, None)
        elif data[:1] == b"\x30":
            key = load_der_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if data.lstrip().startswith(b"-----BEGIN"):
            raise SettingsError(
                name, "this is no private key in PEM form, or one with a password"
            ) from None
    if isinstance(key, rsa.RSAPrivateKey):
        return SigningKey(key, _rsa_algorithms(name, key.key_size))
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return SigningKey(key, _curve_algorithms(name, key.curve.name))
    if key is not None:
        raise SettingsError(name, "this kind of key is not supported: give an RSA or EC key")
    return SigningKey(data, secret_key(name, data).algorithms)


def verifying_key(name: str, data: bytes) -> TokenKey:
    """Returns what checks tokens of any key file: a secret, a public or a private key."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if b"PUBLIC KEY-----" in data:
        return public_key(name, data)
    signing = signing_key(name, data)
    key = signing.key
    if isinstance(key, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)):
        return TokenKey(key.public_key(), signing.algorithms)
    if data[:1] == b"\x30":
        try:
            return public_key(name, data)
        except SettingsError:
            pass  # a secret may begin like that
    return TokenKey(key, signing.algorithms)


def _rsa_algorithms(name: str, bits: int) -> tuple[str, ...]:
    if bits < RSA_BITS_MIN:
        raise SettingsError(name, f"an RSA key of {bits} bits is weak: take {RSA_BITS_MIN} or more")
    return RSA_ALGORITHMS


def _curve_algorithms(name: str, curve: str) -> tuple[str, ...]:
    algorithm = CURVE_ALGORITHMS.get(curve)
    if algorithm is None:
        raise SettingsError(name, f"the curve {curve} is not supported: take P-256")
    return (algorithm,)


# ---- Tokens ----------------------------------------------------------------------------


def verify_token(text: bytes, key: TokenKey, rules: TokenRules, now_ms: int) -> Token:
    """Returns what a token says.

    Raises BrokerError with AuthenticationError, which never quotes it.
    """
    from jwt.exceptions import InvalidAlgorithmError, InvalidSignatureError, PyJWTError

    if len(text) > TOKEN.bytes_max:
        raise refusal(f"it has {len(text)} bytes, {TOKEN.bytes_max} are allowed")
    try:
        payload = _decode(text, key)
    except InvalidAlgorithmError:
        raise refusal(f"its algorithm is none of {', '.join(key.algorithms)}") from None
    except InvalidSignatureError:
        raise refusal("it was not signed by the key of this broker") from None
    except (PyJWTError, ValueError, TypeError, RecursionError):
        raise refusal("it is no JSON Web Token") from None
    claims = _claims(payload)
    expires_ms = _time_ms(claims, "exp")
    if 0 <= expires_ms <= now_ms - rules.clock_skew_ms:
        raise refusal("it has expired: get a new one")
    if expires_ms < 0 and rules.of_issuer:
        raise refusal("it does not say when it ends, in its claim 'exp'")
    begins_ms = _time_ms(claims, "nbf")
    if begins_ms > now_ms + rules.clock_skew_ms:
        raise refusal("it is not valid yet: compare the clocks")
    _check_audience(claims, rules)
    role = claims.get(rules.role_claim)
    if rules.of_issuer and isinstance(role, list) and role:
        role = role[0]  # as Apache Pulsar
    if not isinstance(role, str) or not role:
        raise refusal(f"it names no role in its claim {rules.role_claim!r}")
    if expires_ms >= 0:
        expires_ms += rules.clock_skew_ms
    id = claims.get("jti")
    return Token(role, expires_ms, id if isinstance(id, str) else "")


def _decode(text: bytes, key: TokenKey) -> bytes:
    """Returns the claims, if the signature is right; its errors are the library's."""
    from jwt.api_jws import PyJWS

    payload: bytes = PyJWS().decode(
        text,
        key.key,  # type: ignore[arg-type]
        algorithms=list(key.algorithms),
    )
    return payload


def _claims(payload: bytes) -> Mapping[str, object]:
    try:
        claims: object = json.loads(payload)
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise refusal("its claims are not a JSON object")
    return claims


def _time_ms(claims: Mapping[str, object], claim: str) -> int:
    """Returns a time of the token in ms, -1 if it says none."""
    value = claims.get(claim)
    if value is None:
        return -1
    if isinstance(value, int) and not isinstance(value, bool):
        return max(0, value * 1000)
    if isinstance(value, float) and math.isfinite(value) and math.isfinite(value * 1000):
        return max(0, int(value * 1000))
    raise refusal(f"its claim {claim!r} is not a time")


def _check_audience(claims: Mapping[str, object], rules: TokenRules) -> None:
    if not rules.audiences:
        return
    found = claims.get(rules.audience_claim)
    meant = found if isinstance(found, list) else [found]
    for audience in rules.audiences:
        if audience in meant:
            return
    raise refusal(f"it is not for {' or '.join([repr(one) for one in rules.audiences])}")


def refusal(reason: str) -> BrokerError:
    """Returns what a token is refused with; the reason must not quote it."""
    return BrokerError(ServerError.AuthenticationError, f"the token is not accepted: {reason}")


def make_token(key: SigningKey, claims: Mapping[str, object], algorithm: str = "") -> str:
    """Returns a token that says this. Raises SettingsError if the key has no such algorithm."""
    from jwt.api_jws import PyJWS

    chosen = algorithm or key.algorithms[0]
    if chosen not in key.algorithms:
        raise SettingsError(
            "algorithm", f"{chosen!r} does not fit the key: give {', '.join(key.algorithms)}"
        )
    payload = json.dumps(claims, separators=(",", ":")).encode()
    return PyJWS().encode(
        payload,
        key.key,  # type: ignore[arg-type]
        algorithm=chosen,
        headers={"typ": "JWT"},
    )


def unverified_parts(text: bytes) -> tuple[dict[str, object], dict[str, object]]:
    """Returns the header and the claims of a token, whoever made it. Raises BrokerError."""
    from jwt.api_jws import PyJWS
    from jwt.exceptions import PyJWTError

    if len(text) > TOKEN.bytes_max:
        raise refusal(f"it has {len(text)} bytes, {TOKEN.bytes_max} are allowed")
    try:
        found = PyJWS().decode_complete(text, options={"verify_signature": False})
        header: dict[str, object] = dict(found["header"])
        claims = dict(_claims(found["payload"]))
    except (PyJWTError, ValueError, TypeError, RecursionError):
        raise refusal("it is no JSON Web Token") from None
    return header, claims
