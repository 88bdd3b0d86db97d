"""Tokens: which are taken, for whom, until when; and that nothing of one is ever told."""

import base64
import hashlib
import hmac
import json
import subprocess
import sys
from contextlib import suppress
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import assume, given
from hypothesis import strategies as st
from support.tokens import (
    OTHER_SECRET,
    SECRET,
    SECRET_SETTING,
    ec_key,
    private_pem,
    public_bytes,
    rsa_key,
    token,
)

from magnetar.broker.auth.token import (
    RSA_ALGORITHMS,
    Token,
    TokenKey,
    TokenRules,
    make_token,
    public_key,
    secret_key,
    signing_key,
    unverified_parts,
    verify_token,
    verifying_key,
)
from magnetar.broker.setting.text_limits import TOKEN
from magnetar.errors import BrokerError, SettingsError
from magnetar.model import ServerError

NOW_S = 1_700_000_000
NOW_MS = NOW_S * 1000
KEY = secret_key("key", SECRET)


def verify(
    text: str | bytes, key: TokenKey = KEY, rules: TokenRules | None = None, now_ms: int = NOW_MS
) -> Token:
    data = text.encode() if isinstance(text, str) else text
    return verify_token(data, key, rules or TokenRules(), now_ms)


def refusal(
    text: str | bytes, key: TokenKey = KEY, rules: TokenRules | None = None, now_ms: int = NOW_MS
) -> str:
    with pytest.raises(BrokerError) as caught:
        verify(text, key, rules, now_ms)
    assert caught.value.code == ServerError.AuthenticationError
    return caught.value.reason


def by_hand(header: object, claims: object, secret: bytes = SECRET) -> str:
    """A token of any header and claims, signed with HMAC whatever the header says."""

    def encoded(part: object) -> bytes:
        data = part if isinstance(part, bytes) else json.dumps(part).encode()
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    signed = encoded(header) + b"." + encoded(claims)
    digest = hmac.new(secret, signed, hashlib.sha256).digest()
    return (signed + b"." + base64.urlsafe_b64encode(digest).rstrip(b"=")).decode()


# ---- Keys and algorithms ----------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_secret_takes_what_it_signed(algorithm: str) -> None:
    found = verify(token("me", algorithm=algorithm))
    assert (found.role, found.expires_ms) == ("me", -1)


@pytest.mark.parametrize("algorithm", RSA_ALGORITHMS)
def test_an_rsa_key_takes_what_its_private_half_signed(algorithm: str) -> None:
    text = make_token(signing_key("key", private_pem(rsa_key())), {"sub": "me"}, algorithm)
    for form in (Encoding.PEM, Encoding.DER):
        assert verify(text, public_key("key", public_bytes(rsa_key(), form))).role == "me"


@pytest.mark.parametrize(
    ("curve", "algorithm"), [("P-256", "ES256"), ("P-384", "ES384"), ("P-521", "ES512")]
)
def test_a_curve_takes_its_own_algorithm(curve: str, algorithm: str) -> None:
    key = public_key("key", public_bytes(ec_key(curve)))
    assert key.algorithms == (algorithm,)
    text = make_token(signing_key("key", private_pem(ec_key(curve))), {"sub": "me"})
    assert jwt.get_unverified_header(text)["alg"] == algorithm
    assert verify(text, key).role == "me"


def test_another_key_s_token_is_refused() -> None:
    assert "not signed by the key" in refusal(token("me", secret=OTHER_SECRET))
    other = make_token(signing_key("key", private_pem(ec_key())), {"sub": "me"})
    assert "its algorithm is none of HS256, HS384, HS512" in refusal(other)


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", None, 0])
def test_no_algorithm_is_refused(algorithm: object) -> None:
    header = {"alg": algorithm, "typ": "JWT"}
    signed = by_hand(header, {"sub": "admin"})
    bare = signed.rpartition(".")[0] + "."
    for text in (signed, bare, bare[:-1]):
        for key in (KEY, public_key("key", public_bytes(rsa_key()))):
            refusal(text, key)


def test_a_public_key_is_not_taken_for_a_secret() -> None:
    """What everybody knows must sign nothing: the old confusion of algorithms."""
    for private in (rsa_key(), ec_key()):
        for form in (Encoding.PEM, Encoding.DER):
            data = public_bytes(private, form)
            text = by_hand({"alg": "HS256", "typ": "JWT"}, {"sub": "admin"}, data)
            assert "its algorithm is none of" in refusal(text, public_key("key", data))
    with pytest.raises(SettingsError, match="not a secret"):
        secret_key("key", public_bytes(rsa_key()))


def test_a_key_in_the_token_itself_has_no_effect() -> None:
    """Headers that name or bring a key (jwk, jku, x5u, kid) are passed over."""
    header = {
        "alg": "HS256",
        "kid": "../../../../dev/null",
        "jku": "https://example.invalid/keys",
        "jwk": {"kty": "oct", "k": base64.urlsafe_b64encode(OTHER_SECRET).decode()},
    }
    refusal(by_hand(header, {"sub": "admin"}, OTHER_SECRET))
    refusal(by_hand(header, {"sub": "admin"}, b""))
    assert verify(by_hand(header, {"sub": "me"})).role == "me"


def test_a_critical_extension_is_not_passed_over() -> None:
    refusal(by_hand({"alg": "HS256", "crit": ["exp"], "exp": 0}, {"sub": "me"}))


@pytest.mark.parametrize(("size", "count"), [(32, 1), (47, 1), (48, 2), (63, 2), (64, 3)])
def test_the_length_of_a_secret_says_what_it_is_good_for(size: int, count: int) -> None:
    assert len(secret_key("key", bytes(size)).algorithms) == count


def test_weak_or_wrong_keys_are_refused_with_the_name_of_the_setting() -> None:
    for make, data, reason in (
        (secret_key, bytes(31), "31 bytes"),
        (public_key, b"nothing", "not a public key"),
        (public_key, private_pem(rsa_key()), "private key"),
        (public_key, public_bytes(rsa_key(1024)), "1024 bits is weak"),
        (public_key, public_bytes(ec_key("K-256")), "secp256k1 is not supported"),
        (signing_key, b"-----BEGIN nothing", "no private key"),
        (signing_key, bytes(3), "3 bytes"),
    ):
        with pytest.raises(SettingsError, match=reason) as caught:
            make("token_key", data)
        assert caught.value.key == "token_key"


def test_any_key_file_checks_what_it_or_its_other_half_signed() -> None:
    pem = private_pem(ec_key())
    text = make_token(signing_key("key", pem), {"sub": "me"})
    for data in (pem, public_bytes(ec_key()), public_bytes(ec_key(), Encoding.DER)):
        assert verify(text, verifying_key("key", data)).role == "me"
    # A secret that begins like a DER file.
    odd = b"\x30" + SECRET
    assert verify(token("me", secret=odd), verifying_key("key", odd)).role == "me"


def test_a_key_makes_only_what_it_is_good_for() -> None:
    with pytest.raises(SettingsError, match="does not fit"):
        make_token(signing_key("key", SECRET), {"sub": "me"}, "RS256")


def test_keys_do_not_show_themselves() -> None:
    assert "x01" not in repr(KEY)
    assert "x01" not in repr(signing_key("key", SECRET))


# ---- Claims -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "skew_s", "reason"),
    [
        ({"exp": NOW_S + 1}, 0, ""),
        ({"exp": NOW_S}, 0, "expired"),
        ({"exp": NOW_S - 1}, 0, "expired"),
        ({"exp": NOW_S - 1}, 2, ""),
        ({"exp": NOW_S - 2}, 2, "expired"),
        ({"exp": 0}, 0, "expired"),
        ({"exp": -5}, 0, "expired"),
        ({"exp": NOW_S + 0.5}, 0, ""),
        ({"exp": 10**400}, 0, ""),
        ({"nbf": 10**400}, 0, "not valid yet"),
        ({"nbf": NOW_S}, 0, ""),
        ({"nbf": NOW_S + 1}, 0, "not valid yet"),
        ({"nbf": NOW_S + 1}, 1, ""),
        ({"nbf": NOW_S - 1, "exp": NOW_S + 1}, 0, ""),
    ],
)
def test_a_token_holds_in_its_time(claims: dict[str, Any], skew_s: int, reason: str) -> None:
    text = token("me", **claims)
    rules = TokenRules(clock_skew_ms=skew_s * 1000)
    if reason:
        assert reason in refusal(text, KEY, rules)
    else:
        assert verify(text, KEY, rules).role == "me"


def test_when_it_expires_is_told_with_the_skew() -> None:
    text = token("me", exp=NOW_S + 10)
    assert verify(text).expires_ms == NOW_MS + 10_000
    assert verify(text, KEY, TokenRules(clock_skew_ms=500)).expires_ms == NOW_MS + 10_500


@pytest.mark.parametrize("raw", ["NaN", "Infinity", "-Infinity", "1e999", "true", '"soon"', "[]"])
@pytest.mark.parametrize("claim", ["exp", "nbf"])
def test_a_time_that_is_none_is_refused(claim: str, raw: str) -> None:
    claims = f'{{"sub":"me","{claim}":{raw}}}'.encode()
    assert f"its claim '{claim}' is not a time" in refusal(by_hand({"alg": "HS256"}, claims))


@pytest.mark.parametrize("sub", [None, "", 7, ["me"], {"me": 1}])
def test_a_token_without_a_role_is_refused(sub: object) -> None:
    assert "names no role" in refusal(by_hand({"alg": "HS256"}, {"sub": sub}))
    assert "names no role" in refusal(by_hand({"alg": "HS256"}, {}))


def test_the_role_may_be_in_another_claim() -> None:
    text = token("me", user="you")
    assert verify(text, KEY, TokenRules(role_claim="user")).role == "you"
    assert "names no role" in refusal(token("me"), KEY, TokenRules(role_claim="user"))


@pytest.mark.parametrize(
    ("audience", "valid"),
    [("here", True), (["there", "here"], True), ("there", False), ([], False), (None, False)],
)
def test_a_token_for_somebody_else_is_refused(audience: object, valid: bool) -> None:
    rules = TokenRules(audiences=("here",))
    text = token("me", aud=audience)
    if valid:
        assert verify(text, KEY, rules).role == "me"
    else:
        assert "not for 'here'" in refusal(text, KEY, rules)
    assert verify(text).role == "me"


@pytest.mark.parametrize("claims", [b"[]", b"7", b"{", b"\xff", b"[" * 100_000, b""])
def test_claims_that_are_no_object_are_refused(claims: bytes) -> None:
    refusal(by_hand({"alg": "HS256"}, claims))


@pytest.mark.parametrize("text", ["", ".", "..", "...", "a.b", "a.b.c", "é.é.é", "\0.\0.\0", " "])
def test_what_is_no_token_is_refused(text: str) -> None:
    assert "no JSON Web Token" in refusal(text)


def test_a_huge_token_is_not_looked_at() -> None:
    assert "are allowed" in refusal(token("me", more="x" * TOKEN.bytes_max))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    refusal(data)


@given(st.integers(min_value=0), st.integers(0, 255))
def test_any_changed_byte_is_refused(at: int, byte: int) -> None:
    text = bytearray(token("me").encode())
    at %= len(text)
    assume(text[at] != byte)
    text[at] = byte
    with suppress(BrokerError):
        # The last characters of a part have bits that say nothing.
        assert verify(bytes(text)).role == "me"
        before = base64.urlsafe_b64decode(token("me").rpartition(".")[2] + "==")
        after = base64.urlsafe_b64decode(bytes(text).rpartition(b".")[2] + b"==")
        assert before == after


def test_reasons_never_quote_a_token() -> None:
    for text in (
        token("somebody-secret", secret=OTHER_SECRET),
        token("somebody-secret", exp=1),
        token("somebody-secret", nbf=NOW_S * 2),
        token("somebody-secret", secret=OTHER_SECRET)[:-3],
        by_hand({"alg": "secret-algorithm"}, {"sub": "somebody-secret"}),
        "somebody-secret",
    ):
        reason = refusal(text)
        assert "secret" not in reason
        for part in text.split("."):
            assert part not in reason


def test_the_parts_of_any_token_can_be_shown() -> None:
    header, claims = unverified_parts(token("me", secret=OTHER_SECRET, exp=1).encode())
    assert (header["alg"], claims) == ("HS256", {"sub": "me", "exp": 1})
    with pytest.raises(BrokerError, match="no JSON Web Token"):
        unverified_parts(b"nothing")


@pytest.mark.parametrize(
    "settings",
    [
        {"token_secret_key": SECRET_SETTING},
        {"openid_issuers": ("https://issuer",), "openid_audiences": ("a",)},
    ],
    ids=["a key", "an issuer"],
)
def test_the_first_token_finds_the_library_loaded(settings: dict[str, object]) -> None:
    """Or it would hold everybody up meanwhile, whoever it is from (I10)."""
    code = (
        "import sys\n"
        "from magnetar.broker.setting.settings import BrokerSettings\n"
        "from magnetar.broker.shell.proof_files import ProofFiles\n"
        f"ProofFiles(BrokerSettings(**{settings!r})).authentication()\n"
        "print('jwt.api_jws' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert found.stdout == b"True\n"
