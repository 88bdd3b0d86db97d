"""Profiles, and what they and the options make of the target of a command."""

import json
from pathlib import Path

import pytest
from cli.broker_cli import Ran, run_command
from hypothesis import given
from hypothesis import strategies as st
from support.web import Asked, Said, answering

from magnetar.cli.target import (
    ADMIN_URL,
    FIELDS,
    URL,
    Choice,
    Configuration,
    Target,
    config_path,
    parse,
)
from magnetar.errors import SettingsError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def run(*arguments: str) -> Ran:
    return run_command(list(arguments))


def test_without_anything_it_is_this_machine() -> None:
    target = Choice(None, {}).target()
    assert (target.url, target.admin_url, target.token()) == (URL, ADMIN_URL, "")


def test_profiles_come_and_go(home: Path) -> None:
    assert "no profiles" in run("profiles", "list").out
    ran = run("profiles", "set", "prod", "--url", "pulsar://p:1", "--token", "secret")
    assert ran.code == 0
    assert config_path() == home / "config" / "magnetar" / "config.toml"
    assert config_path().stat().st_mode & 0o777 == 0o600
    run("profiles", "set", "test", "--admin-url", "http://t:2")
    run("profiles", "set", "prod", "--admin-url", "http://p:3")
    shown = run("profiles", "list").lines
    assert shown[2].split() == ["*", "prod", "pulsar://p:1", "http://p:3"]
    assert "secret" not in run("profiles", "show", "prod").out
    listed = run("profiles", "list", "--json").out
    assert "secret" not in listed
    assert json.loads(listed)["default"] == "prod"
    run("profiles", "use", "test")
    assert json.loads(run("profiles", "list", "--json").out)["default"] == "test"
    run("profiles", "set", "prod", "--token", "")
    assert json.loads(run("profiles", "show", "prod", "--json").out) == {
        "url": "pulsar://p:1",
        "admin_url": "http://p:3",
    }
    run("profiles", "remove", "test")
    found = json.loads(run("profiles", "list", "--json").out)
    assert (found["default"], list(found["profiles"])) == (None, ["prod"])
    for verb in ("use", "show", "remove"):
        ran = run("profiles", verb, "nobody")
        assert (ran.code, ran.out) == (2, "")
        assert "there are: prod" in ran.err


def test_what_is_given_weighs_more_than_a_profile() -> None:
    run("profiles", "set", "one", "--url", "pulsar://one:1", "--admin-url", "http://one:1")
    run("profiles", "set", "two", "--url", "pulsar://two:2")
    assert Choice(None, {}).target().url == "pulsar://one:1"
    target = Choice("two", {"token": "t"}).target()
    assert (target.url, target.admin_url, target.token()) == ("pulsar://two:2", ADMIN_URL, "t")
    assert Choice("two", {"url": "pulsar://x:3"}).target().url == "pulsar://x:3"
    with pytest.raises(SettingsError, match="no profile 'three'"):
        Choice("three", {}).target()


def test_variables_weigh_more_than_profiles_and_less_than_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each says where it is by the namespace that it lists."""
    asked: list[str] = []

    def answer(request: Asked) -> Said:
        asked.append(request.path)
        return Said(200, {"Content-Type": "application/json"}, b"[]")

    def listed(*options: str) -> str:
        assert run(*options, "topics", "list").code == 0
        return asked[-1].removeprefix("/admin/v2/persistent/")

    with answering(answer) as url:
        run("profiles", "set", "one", "--admin-url", url, "--namespace", "by/default-profile")
        run("profiles", "set", "two", "--admin-url", url, "--namespace", "by/profile")
        assert listed() == "by/default-profile"
        monkeypatch.setenv("MAGNETAR_PROFILE", "two")
        assert listed() == "by/profile"
        monkeypatch.setenv("MAGNETAR_NAMESPACE", "by/variable")
        assert listed() == "by/variable"
        assert listed("--namespace", "by/option") == "by/option"
        monkeypatch.setenv("MAGNETAR_ADMIN_URL", "http://127.0.0.1:1")
        assert listed("--admin-url", url) == "by/variable"
        assert run("topics", "list").code == 3
        # A profile that is named by hand is that broker, whatever the environment says.
        assert listed("--profile", "one") == "by/default-profile"
        # An empty variable says nothing.
        monkeypatch.setenv("MAGNETAR_ADMIN_URL", "")
        monkeypatch.setenv("MAGNETAR_NAMESPACE", "")
        assert listed() == "by/profile"


def test_a_short_name_is_one_of_the_namespace() -> None:
    asked: list[str] = []

    def answer(request: Asked) -> Said:
        asked.append(request.path.removeprefix("/admin/v2/"))
        return Said(204, {}, b"")

    with answering(answer) as url:
        at = ["--admin-url", url, "--namespace", "shop/eu"]
        run(*at, "topics", "create", "orders")
        run(*at, "topics", "create", "persistent://public/default/orders")
        run(*at, "topics", "set-retention", "orders", "-t", "1h", "-s", "1G")
        run(*at, "namespaces", "topics")
        run("--admin-url", url, "topics", "create", "orders")
    assert asked == [
        "persistent/shop/eu/orders",
        "persistent/public/default/orders",
        "persistent/shop/eu/orders/retention",
        "namespaces/shop/eu/topics?mode=PERSISTENT",
        "persistent/public/default/orders",
    ]


@pytest.mark.parametrize("command", [["topics", "list"], ["topics", "create", "orders"]])
def test_a_namespace_that_is_none_is_said(command: list[str]) -> None:
    ran = run("--namespace", "shop", *command)
    assert (ran.code, ran.out) == (2, "")
    assert "'shop' is not a namespace: write it as tenant/namespace" in ran.err
    assert run("profiles", "set", "x", "--namespace", "a/b/c").code == 2


def test_a_token_may_be_in_a_file(home: Path) -> None:
    (home / "token").write_text("abc\n")
    assert Target({"token_file": str(home / "token")}).token() == "abc"
    assert Target({"token": f"file://{home}/token"}).token() == "abc"
    assert Target({"token": f"file:{home}/token"}).token() == "abc"
    assert Target({"token": "token:abc"}).token() == "abc"
    with pytest.raises(SettingsError, match="cannot read"):
        Target({"token_file": str(home / "none")}).token()


def test_profiles_lead_to_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Asked] = []

    def answer(request: Asked) -> Said:
        asked.append(request)
        return Said(200, {"Content-Type": "application/json"}, b'["public"]')

    with answering(answer) as url:
        run("profiles", "set", "here", "--admin-url", url, "--token", "of-profile")
        assert run("tenants", "list").out == "public\n"
        assert run("--token", "by-hand", "tenants", "list").code == 0
        monkeypatch.setenv("MAGNETAR_TOKEN", "of-environment")
        assert run("--profile", "here", "tenants", "list").code == 0
    tokens = [request.headers["authorization"] for request in asked]
    assert tokens == ["Bearer of-profile", "Bearer by-hand", "Bearer of-environment"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("=", "is not TOML"),
        ("default = 5", "default is a name"),
        ("profiles = 5", "profiles is a table"),
        ("[profiles]\nx = 1", "profiles.x is not a table"),
        ("[profiles.x]\nurls = 'y'", "profiles.x.urls is not one of url,"),
        ("[profiles.x]\nurl = 5", "profiles.x.url is not one of"),
        ("default = 'x'", "there is no profile 'x'"),
    ],
)
def test_a_bad_configuration_is_said_where_it_is_used(text: str, why: str) -> None:
    config_path().parent.mkdir(parents=True)
    config_path().write_text(text)
    ran = run("tenants", "list")
    assert (ran.code, ran.out) == (2, "")
    assert why in ran.err
    assert run("--version").code == 0


def test_a_configuration_that_cannot_be_written(home: Path) -> None:
    (home / "config").write_text("a file, no directory")
    ran = run("profiles", "set", "x", "--url", "pulsar://x:1")
    assert (ran.code, ran.out) == (2, "")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(texts, st.dictionaries(texts, st.dictionaries(st.sampled_from(FIELDS), texts)))
def test_what_is_saved_is_read_back(default: str, profiles: dict[str, dict[str, str]]) -> None:
    found = parse(Configuration(default, profiles).to_toml(), Path("config.toml"))
    assert (found.default, found.profiles) == (default, profiles)
