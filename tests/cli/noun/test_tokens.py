"""`magnetar tokens`: keys and tokens, and what is said of them."""

import json
import stat
import tomllib
from pathlib import Path

import pytest
from cli.conftest import Run

from magnetar.broker.setting.settings_load import load_settings


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def claims_of(run: Run, token: str, *options: str | Path) -> dict[str, object]:
    code, out, _ = run("tokens", "validate", *options, token.strip())
    assert code == 0
    found: dict[str, object] = json.loads(out)
    return found


@pytest.mark.parametrize(
    ("options", "setting", "file"),
    [((), "token_secret_key", "k.key"), (("--key-pair",), "token_public_key", "k.pub")],
)
def test_init_makes_a_key_and_the_first_superuser(
    run: Run, tmp_path: Path, options: tuple[str, ...], setting: str, file: str
) -> None:
    code, token, err = run("tokens", "init", "--key", "k.key", *options)
    assert code == 0
    assert token.count("\n") == 1
    # What it says to put into magnetar.toml is what a broker takes.
    said = err.split("\n\n")[1]
    assert tomllib.loads(said)[setting] == str(tmp_path / file)
    settings = load_settings(said, {}, None, {}).settings
    assert settings.authentication
    assert settings.super_user_roles == ("admin",)
    assert stat.S_IMODE((tmp_path / "k.key").stat().st_mode) == 0o600
    claims = claims_of(run, token, "--key", file)
    assert (claims["sub"], sorted(claims)) == ("admin", ["iat", "jti", "sub"])
    assert claims_of(run, token, "--key", "k.key") == claims
    key = (tmp_path / "k.key").read_bytes()
    assert key.hex() not in err
    assert "PRIVATE" not in err


@pytest.mark.parametrize("options", [(), ("--key-pair",)])
def test_init_never_writes_over_a_file(run: Run, tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "k.key").write_text("precious")
    code, out, err = run("tokens", "init", "--key", "k.key", *options)
    assert (code, out) == (2, "")
    assert "already" in err
    assert (tmp_path / "k.key").read_text() == "precious"
    (tmp_path / "l.pub").write_text("precious")
    if options:
        assert run("tokens", "init", "--key", "l.key", *options)[0] == 2
        assert not (tmp_path / "l.key").exists()


def test_create_makes_tokens_for_roles(run: Run) -> None:
    run("tokens", "init")
    _, token, _ = run("tokens", "create", "worker", "--expires", "2h", "--audience", "here")
    claims = claims_of(run, token)
    assert claims["sub"] == "worker"
    assert claims["aud"] == "here"
    code, out, _ = run("tokens", "show", token.strip())
    assert code == 0
    assert json.loads(out) == {"header": {"alg": "HS256", "typ": "JWT"}, "claims": claims}
    _, strong, _ = run("tokens", "create", "worker", "--algorithm", "HS512")
    assert claims_of(run, strong)["jti"] != claims["jti"]
    assert json.loads(run("tokens", "show", strong.strip())[1])["header"]["alg"] == "HS512"


def test_expiry_is_a_time_from_now(run: Run) -> None:
    run("tokens", "init")

    def ends(text: str) -> int:
        claims = claims_of(run, run("tokens", "create", "me", "--expires", text)[1])
        assert isinstance(claims["exp"], int)
        return claims["exp"]

    first = ends("90min")
    assert ends("2h") - first >= 1800
    assert ends("1d") - first >= 86_400 - 5400
    assert ends("5400") - first < 60


@pytest.mark.parametrize("text", ["soon", "3x", "-1d", "0d", "1.5h", "d", "٣d"])
def test_a_bad_expiry_is_refused(run: Run, text: str) -> None:
    run("tokens", "init")
    code, out, err = run("tokens", "create", "me", f"--expires={text}")
    assert (code, out) == (2, "")
    assert "--expires" in err


def test_a_missing_or_bad_key_is_refused(run: Run, tmp_path: Path) -> None:
    for arguments in (("create", "me"), ("validate", "a.b.c")):
        code, _, err = run("tokens", *arguments)
        assert code == 2
        assert "cannot read" in err
    (tmp_path / "short.key").write_bytes(b"short")
    assert "5 bytes" in run("tokens", "create", "me", "--key", "short.key")[2]


def test_validate_says_what_is_wrong_and_not_what_was_given(run: Run) -> None:
    run("tokens", "init")
    run("tokens", "init", "--key", "other.key")
    _, token, _ = run("tokens", "create", "me", "--key", "other.key")
    code, out, err = run("tokens", "validate", token.strip())
    assert (code, out) == (1, "")
    assert "not signed by the key" in err
    assert token.strip() not in err
    code, _, err = run("tokens", "show", "secret-nonsense")
    assert code == 2
    assert "secret" not in err


def test_a_token_may_come_from_standard_input_or_a_variable(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("tokens", "init")
    _, token, _ = run("tokens", "create", "me")
    monkeypatch.setenv("MAGNETAR_TOKEN", f"token:{token.strip()}")
    code, out, _ = run("tokens", "validate")
    assert (code, json.loads(out)["sub"]) == (0, "me")
    monkeypatch.delenv("MAGNETAR_TOKEN")
    code, out, _ = run("tokens", "validate", "-", input=token)
    assert (code, json.loads(out)["sub"]) == (0, "me")
