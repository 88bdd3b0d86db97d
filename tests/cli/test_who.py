"""Tokens and TLS on both ports, as options and profiles give them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.broker_cli import Ran, run_command
from cli.serving import end, started
from support.broker_process import BrokerProcess
from support.tokens import Issuer


class Guarded:
    """A broker that wants tokens."""

    def __init__(self, broker: BrokerProcess, key: Path, admin: str) -> None:
        self.broker = broker
        self.key = key
        self.admin = admin

    def run(self, token: str | None, *arguments: str) -> Ran:
        at = ["--url", self.broker.url, "--admin-url", self.broker.http_url]
        return run_command([*at, *(["--token", token] if token else []), *arguments])

    def token(self, role: str) -> str:
        return run_command(["tokens", "create", role, "--key", str(self.key)]).out.strip()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    key = directory / "token.key"
    made = run_command(["tokens", "init", "--key", str(key), "--role", "admin"])
    assert made.code == 0, made
    settings = ("authentication=true", f"token_secret_key={key}", "super_user_roles=admin")
    options = [part for setting in settings for part in ("--set", setting)]
    with BrokerProcess(directory / "data", options=options) as broker:
        yield Guarded(broker, key, made.out.strip())


def test_a_token_opens_both_ports(guarded: Guarded, tmp_path: Path) -> None:
    assert guarded.run(guarded.admin, "topics", "create", "t").code == 0
    ran = guarded.run(guarded.admin, "produce", "t", "-m", "a")
    assert (ran.code, ran.out) == (0, "sent 1 message to t\n")
    (tmp_path / "token").write_text(guarded.admin)
    ran = guarded.run(f"file://{tmp_path}/token", "consume", "t", "-s", "s", "-p", "Earliest")
    assert (ran.code, ran.lines[1:]) == (0, ["a"])


@pytest.mark.parametrize("token", [None, "nonsense", "a.b.c"])
def test_without_one_nothing_is_done(guarded: Guarded, token: str | None) -> None:
    for command in (["tenants", "list"], ["produce", "t2", "-m", "a"]):
        ran = guarded.run(token, *command)
        assert (ran.code, ran.out) == (4, ""), ran
        assert token is None or token not in ran.err


def test_a_role_may_do_what_it_was_granted(guarded: Guarded) -> None:
    assert guarded.run(guarded.admin, "topics", "create", "granted").code == 0
    clerk = guarded.token("clerk")
    assert guarded.run(clerk, "produce", "granted", "-m", "a").code == 4
    assert guarded.run(clerk, "topics", "delete", "granted").code == 4
    given = ["topics", "grant-permission", "granted", "--role", "clerk", "--actions", "produce"]
    assert guarded.run(guarded.admin, *given).code == 0
    assert guarded.run(clerk, "produce", "granted", "-m", "a").code == 0
    assert guarded.run(clerk, "consume", "granted", "-s", "s").code == 4
    skip = ["topics", "skip-messages", "granted", "-s", "s", "--messageId-triplet", "1:1"]
    assert guarded.run(clerk, *skip).code == 4


# ---- TLS ---------------------------------------------------------------------------


class Encrypted:
    """A broker that speaks TLS only, and believes certificates of its issuer."""

    def __init__(self, ready: str, directory: Path, issuer: Issuer) -> None:
        _, self.url, self.admin_url = ready.split()
        self.directory = directory
        self.issuer = issuer


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    directory = tmp_path_factory.mktemp("encrypted")
    issuer = Issuer(directory)
    certificate, key = issuer.issue("broker")
    settings = (
        f"tls_certificate_file={certificate}",
        f"tls_key_file={key}",
        f"tls_trust_certs_file={issuer.certificate}",
        "authentication=true",
        "super_user_roles=admin",
    )
    options = ["--memory", "--tls-port", "0", "--https-port", "0"]
    options += [part for setting in settings for part in ("--set", setting)]
    with started(*options, cwd=directory) as (process, line):
        yield Encrypted(line, directory, issuer)
        assert end(process)[0] == 0


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.mark.usefixtures("config")
def test_a_profile_has_certificates(encrypted: Encrypted) -> None:
    """Mutual TLS: who asks is whom the certificate names."""
    certificate, key = encrypted.issuer.issue("admin")
    for name, values in (
        ("admin", ["--tls-certificate", certificate, "--tls-key", key]),
        ("nobody", []),
    ):
        addresses = ["--url", encrypted.url, "--admin-url", encrypted.admin_url]
        trust = ["--tls-trust-certs", str(encrypted.issuer.certificate)]
        assert run_command(["profiles", "set", name, *addresses, *trust, *values]).code == 0
    assert run_command(["topics", "create", "t"]).out == "created t\n"
    assert run_command(["produce", "t", "-m", "a"]).code == 0
    shown = run_command(["consume", "t", "-s", "s", "-p", "Earliest"])
    assert shown.lines[1:] == ["a"], shown
    assert run_command(["--profile", "nobody", "topics", "list", "public/default"]).code == 4
    assert run_command(["--profile", "nobody", "produce", "t", "-m", "a"]).code == 4


@pytest.mark.usefixtures("config")
def test_a_server_that_nobody_vouches_for_is_not_believed(encrypted: Encrypted) -> None:
    other = Issuer(encrypted.directory, "other")
    at = ["--url", encrypted.url, "--admin-url", encrypted.admin_url]
    for trust in ([], ["--tls-trust-certs", str(other.certificate)]):
        ran = run_command([*at, *trust, "tenants", "list"])
        assert (ran.code, ran.out) == (3, "")
        assert "certificate verify failed" in ran.err.lower()
