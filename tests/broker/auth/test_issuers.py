"""Tokens of OpenID Connect issuers: which count, and how keys come and go."""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import jwt
import pytest
from support.openid import OpenidIssuer, dripping, issuing
from support.promised import promised
from support.tokens import SECRET, ec_key, public_bytes, token
from support.world import START_MS, ManualHost, World

from magnetar.broker.auth.issuer_keys import RETRY_MS, KeyTimes
from magnetar.broker.auth.issuers import Issuers
from magnetar.broker.auth.jwks import discovery_url, issuer_error, read_discovery, read_keys
from magnetar.broker.auth.roles import Authentication, Principal, Proof
from magnetar.broker.auth.token import TokenKey, TokenRules, secret_key
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.issuer_http import IssuerHttp
from magnetar.errors import BrokerError, SettingsError
from magnetar.model import ServerError
from magnetar.storage import MemoryDisk

ISSUER = "https://issuer"
REFRESH_MS, EXPIRE_MS, UNKNOWN_MS = 60_000, 100_000, 10_000


class Desk:
    """A broker's side of one issuer, whose answers and whose clock are in a test's hands."""

    def __init__(self, *, key: TokenKey | None = None, role_claim: str = "sub") -> None:
        self.issuer = OpenidIssuer(ISSUER)
        self.host = ManualHost(MemoryDisk(), START_MS)
        self.fetches = 0
        times = KeyTimes(refresh_ms=REFRESH_MS, expire_ms=EXPIRE_MS, unknown_key_ms=UNKNOWN_MS)
        rules = TokenRules(role_claim=role_claim, audiences=("magnetar", "other"), of_issuer=True)
        self.door = Authentication(
            key, TokenRules(), issuers=Issuers((ISSUER,), rules, self._fetch, times)
        )

    def _fetch(self, issuer: str) -> dict[str, TokenKey]:
        self.fetches += 1
        status, document = self.issuer.answer("/keys", {})
        if status != 200:
            raise issuer_error("connection refused")
        return read_keys(json.dumps(document).encode())

    def token(self, role: str = "worker", key_id: str = "", **claims: object) -> str:
        now = self.host.now_ms() // 1000
        return self.issuer.token(role, key_id, **{"iat": now, "exp": now + 3600} | claims)

    def prove(self, text: str) -> list[Any]:
        told: list[Any] = []
        proof = Proof("token", text.encode(), "", "127.0.0.1")
        self.door.by_command(proof, self.host).then(told.append, told.append)
        return told

    def settle(self) -> None:
        while self.host.reads or self.host.soon:
            (self.host.reads or self.host.soon).popleft()()

    def role(self, text: str) -> str:
        """The role that somebody has by a token. Raises BrokerError."""
        told = self.prove(text)
        self.settle()
        (found,) = told
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, Principal)
        return found.role


def refusal(desk: Desk, text: str) -> str:
    with pytest.raises(BrokerError) as caught:
        desk.role(text)
    assert text not in str(caught.value)
    return str(caught.value)


# ---- Which tokens count ---------------------------------------------------------------


def test_a_token_of_the_issuer_counts_and_its_keys_are_fetched_once() -> None:
    desk = Desk()
    assert [desk.role(desk.token(name)) for name in ("a", "b", "c")] == ["a", "b", "c"]
    assert desk.fetches == 1


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"aud": "somebody"}, "not for 'magnetar' or 'other'"),
        ({"aud": None}, "not for 'magnetar' or 'other'"),
        ({"exp": None}, "does not say when it ends"),
        ({"exp": START_MS // 1000}, "expired"),
        ({"nbf": START_MS // 1000 + 60}, "not valid yet"),
        ({"sub": None}, "names no role"),
        ({"sub": []}, "names no role"),
        ({"iss": "https://else"}, "none of those that this broker trusts"),
        ({"iss": None}, "none of those that this broker trusts"),
        ({"iss": ISSUER + "/"}, "none of those that this broker trusts"),
    ],
)
def test_what_a_token_must_say(claims: dict[str, object], reason: str) -> None:
    desk = Desk()
    assert reason in refusal(desk, desk.token("worker", "", **claims))


def test_one_of_several_audiences_is_enough() -> None:
    desk = Desk()
    assert desk.role(desk.token(aud=["somebody", "other"])) == "worker"


def test_the_role_may_be_in_another_claim_and_be_the_first_of_a_list() -> None:
    desk = Desk(role_claim="roles")
    assert desk.role(desk.token(roles="a")) == "a"
    assert desk.role(desk.token(roles=["b", "c"])) == "b"
    assert "names no role in its claim 'roles'" in refusal(desk, desk.token())


def test_a_key_of_another_issuer_does_not_count() -> None:
    desk = Desk()
    other = OpenidIssuer(ISSUER)
    now = desk.host.now_ms() // 1000
    assert "not signed by the key" in refusal(desk, other.token("root", iat=now, exp=now + 9))


def test_a_token_must_name_its_key() -> None:
    desk = Desk()
    now = desk.host.now_ms() // 1000
    claims = {"iss": ISSUER, "sub": "a", "aud": "magnetar", "exp": now + 9}
    text = jwt.encode(claims, desk.issuer.keys["one"], "RS256")
    assert "does not name its key" in refusal(desk, text)


def test_a_public_key_is_no_secret_of_ours() -> None:
    """The old trick: to sign with what everybody knows, and call it HS256."""
    desk = Desk()
    now = desk.host.now_ms() // 1000
    claims = {"iss": ISSUER, "sub": "root", "aud": "magnetar", "exp": now + 9}
    public = public_bytes(desk.issuer.keys["one"])
    head = {"alg": "HS256", "kid": "one", "typ": "JWT"}
    import hashlib
    import hmac

    def part(value: object) -> bytes:
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        return base64.urlsafe_b64encode(text).rstrip(b"=")

    signed = part(head) + b"." + part(claims)
    text = signed + b"." + part(hmac.new(public, signed, hashlib.sha256).digest())
    assert "its algorithm is none of RS256" in refusal(desk, text.decode())


def test_tokens_of_the_broker_s_own_key_count_beside_them() -> None:
    desk = Desk(key=secret_key("k", SECRET))
    assert desk.role(token("own")) == "own"
    assert desk.fetches == 0
    assert desk.role(desk.token("theirs")) == "theirs"


@pytest.mark.parametrize("text", ["", "a.b.c", "x" * 100_000, "e30.e30.e30"])
def test_what_is_no_token_is_refused_without_a_fetch(text: str) -> None:
    desk = Desk()
    told = desk.prove(text)
    assert isinstance(told[0], BrokerError)
    assert desk.host.reads == type(desk.host.reads)()


# ---- Keys that come and go --------------------------------------------------------------


def test_a_new_key_is_fetched_when_a_token_names_it() -> None:
    desk = Desk()
    desk.role(desk.token())
    desk.issuer.rotate("two", keep=True)
    desk.host.now += UNKNOWN_MS
    assert desk.role(desk.token()) == "worker"
    assert desk.role(desk.token(key_id="one")) == "worker"
    assert desk.fetches == 2


def test_unknown_keys_cause_one_fetch_in_a_while() -> None:
    desk = Desk()
    desk.role(desk.token())
    desk.issuer.rotate("two")
    for _ in range(100):
        assert "no key with its id" in refusal(desk, desk.token())
    assert desk.fetches == 1
    desk.host.now += UNKNOWN_MS
    assert desk.role(desk.token()) == "worker"


def test_a_key_that_is_taken_out_counts_until_keys_are_fetched_anew() -> None:
    desk = Desk()
    old = desk.token()
    desk.role(old)
    desk.issuer.rotate("two")
    desk.host.now += REFRESH_MS
    assert desk.role(old) == "worker"  # and keys are fetched beside it
    assert desk.fetches == 2
    assert "no key with its id" in refusal(desk, old)


def test_an_issuer_that_is_down_hurts_nobody_until_its_keys_expire() -> None:
    desk = Desk()
    text = desk.token()
    desk.role(text)
    desk.issuer.down = True
    desk.host.now += EXPIRE_MS - 1
    assert desk.role(text) == "worker"
    desk.host.now += RETRY_MS
    reason = refusal(desk, text)
    assert "try again" in reason
    assert any("connection refused" in warning for warning in desk.host.warnings)
    desk.issuer.down = False
    desk.host.now += RETRY_MS
    assert desk.role(text) == "worker"


def test_an_issuer_that_is_down_is_asked_once_in_a_while() -> None:
    desk = Desk()
    desk.issuer.down = True
    for _ in range(100):
        with pytest.raises(BrokerError) as caught:
            desk.role(desk.token())
        assert caught.value.code == ServerError.ServiceNotReady
    assert desk.fetches == 1
    assert len(desk.host.warnings) == 1


def test_one_fetch_is_for_all_who_wait() -> None:
    desk = Desk()
    told = [desk.prove(desk.token(f"role {i}")) for i in range(50)]
    assert len(desk.host.reads) == 1
    desk.settle()
    assert [found[0].role for found in told] == [f"role {i}" for i in range(50)]


def test_a_session_waits_for_its_issuer() -> None:
    desk = Desk()
    world = World(authentication=desk.door, super_user_roles=("worker",))
    desk.host = world.host
    client = world.connect(auth_method_name="token", auth_data=desk.token().encode())
    assert client.producer("t").name


# ---- What issuers publish -----------------------------------------------------------------


def test_the_discovery_document_is_where_openid_has_it() -> None:
    assert discovery_url("https://a/b/") == "https://a/b/.well-known/openid-configuration"


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b"\xff", "not a JSON object"),
        (b"{}", "is of 'None'"),
        (b'{"issuer": "https://else", "jwks_uri": "https://k"}', "is of 'https://else'"),
        (b'{"issuer": "https://issuer"}', "names no jwks_uri"),
        (b'{"issuer": "https://issuer", "jwks_uri": 7}', "names no jwks_uri"),
        (b'{"issuer": "https://issuer", "jwks_uri": "http://k"}', "begin with https://"),
        (b'{"issuer": "https://issuer", "jwks_uri": "file:///k"}', "begin with https://"),
    ],
)
def test_a_discovery_document_that_is_none(document: bytes, reason: str) -> None:
    with pytest.raises(BrokerError, match=reason):
        read_discovery(ISSUER, document, require_https=True)


def test_keys_of_no_use_are_passed_over() -> None:
    issuer = OpenidIssuer(ISSUER)
    good = issuer._public("one")
    curve = json.loads(
        jwt.algorithms.ECAlgorithm.to_jwk(ec_key().public_key())  # type: ignore[no-untyped-call, unused-ignore]
    )
    document = {
        "keys": [
            7,
            {},
            {"kty": "oct", "kid": "secret", "k": "c2VjcmV0"},
            {**good, "kid": "crypt", "use": "enc"},
            {**good, "kid": "odd", "alg": "HS256"},
            {**good, "kid": 7},
            {**good, "kid": "broken", "n": "!"},
            {**good, "kid": "weak", "n": "AQAB"},
            {**curve, "kid": "curve"},
            {key: good[key] for key in ("kty", "n", "e")} | {"kid": "bare"},
            good,
        ]
    }
    keys = read_keys(json.dumps(document).encode())
    assert {id: key.algorithms for id, key in keys.items()} == {
        "one": ("RS256",),
        "curve": ("ES256",),
        "bare": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    }


@pytest.mark.parametrize("document", [b"{}", b'{"keys": {}}', b'{"keys": []}', b'{"keys": [{}]}'])
def test_a_list_without_keys_is_an_error(document: bytes) -> None:
    with pytest.raises(BrokerError, match="its list"):
        read_keys(document)


# ---- By HTTP ----------------------------------------------------------------------------


@pytest.fixture
def issuer() -> Iterator[OpenidIssuer]:
    with issuing() as issuer:
        yield issuer


def http(issuer: OpenidIssuer, **settings: Any) -> Callable[[], dict[str, TokenKey]]:
    made = IssuerHttp(
        BrokerSettings(
            openid_issuers=(issuer.url,),
            openid_audiences=("magnetar",),
            openid_require_https=False,
            openid_timeout_ms=2000,
            **settings,
        )
    )
    return lambda: made.keys(issuer.url)


def test_keys_come_in_two_requests(issuer: OpenidIssuer) -> None:
    assert list(http(issuer)()) == ["one"]
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


def test_an_issuer_that_is_down_is_an_error_that_says_so(issuer: OpenidIssuer) -> None:
    issuer.down = True
    with pytest.raises(BrokerError, match=r"openid-configuration: .*503"):
        http(issuer)()


@pytest.mark.parametrize("part", ["a handshake", "a head", "a body"])
def test_an_issuer_that_answers_a_byte_in_a_while_is_given_up(part: str) -> None:
    with dripping(part) as url:
        made = IssuerHttp(
            BrokerSettings(
                openid_issuers=(url,),
                openid_audiences=("magnetar",),
                openid_require_https=False,
                openid_timeout_ms=500,
            )
        )
        with pytest.raises(BrokerError, match="did not answer in time"):
            made.keys(url)


def test_a_port_where_nobody_listens_is_an_error(issuer: OpenidIssuer) -> None:
    issuer.discovery = {"jwks_uri": "http://127.0.0.1:1/keys"}
    with pytest.raises(BrokerError, match="refused"):
        http(issuer)()


def test_certificates_that_cannot_be_read_are_told_at_the_start(issuer: OpenidIssuer) -> None:
    with pytest.raises(SettingsError, match="openid_trust_certs_file"):
        http(issuer, openid_trust_certs_file="/none")


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"openid_issuers": (ISSUER,)}, "openid_audiences"),
        ({"openid_issuers": ("http://i",), "openid_audiences": ("a",)}, "openid_issuers"),
        ({"openid_issuers": ("issuer",), "openid_audiences": ("a",)}, "openid_issuers"),
        (
            {
                "openid_issuers": ("ftp://i",),
                "openid_audiences": ("a",),
                "openid_require_https": False,
            },
            "openid_issuers",
        ),
    ],
)
def test_settings_that_would_let_others_in(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        BrokerSettings(authentication=True, **settings)
    assert caught.value.key == key


def test_a_promise_that_is_kept_gives_its_value() -> None:
    desk = Desk()
    text = desk.token()
    desk.role(text)
    proof = Proof("token", text.encode(), "", "127.0.0.1")
    assert promised(desk.door.by_command(proof, desk.host)).expires_ms > START_MS
