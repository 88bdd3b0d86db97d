"""`magnetar serve`: beyond this machine only for those who are known, and not in the clear."""

import contextlib
import json
import re
import ssl
from pathlib import Path

import httpx
import pytest
from cli.conftest import Refused
from cli.serving import clean_environment, end, started
from support.tokens import SECRET, SECRET_SETTING, Issuer, token

import magnetar
from magnetar.cli import serve

AUTHENTICATED = ("--set", "authentication=true", "--set", f"token_secret_key={SECRET_SETTING}")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, ...]:
    path, key = Issuer(tmp_path).issue("broker")
    return "--set", f"tls_certificate_file={path}", "--set", f"tls_key_file={key}"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "broker.example", ""])
@pytest.mark.usefixtures("unserved")
def test_beyond_this_machine_authentication_is_demanded(refused: Refused, host: str) -> None:
    for more in ((), ("--insecure",), ("--memory",)):
        said = refused("--host", host, *more)
        assert "set authentication" in said
        assert "tokens init" in said


@pytest.mark.usefixtures("unserved")
def test_tokens_without_tls_need_an_explicit_word(
    refused: Refused, certificate: tuple[str, ...]
) -> None:
    said = refused("--host", "0.0.0.0", *AUTHENTICATED)
    assert "in the clear" in said
    assert "--insecure" in said
    for plain in (("--port", "0"), ("--http-port", "0")):
        assert "in the clear" in refused("--host", "0.0.0.0", *AUTHENTICATED, *certificate, *plain)


@pytest.mark.parametrize("options", [("--insecure",), ("certificate",)])
def test_with_that_it_goes_on(
    options: tuple[str, ...],
    certificate: tuple[str, ...],
    refused: Refused,
    unserved: None,
) -> None:
    chosen = certificate if options == ("certificate",) else options
    with pytest.raises(AssertionError, match="went on to serve"):
        refused("--host", "0.0.0.0", *AUTHENTICATED, *chosen)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_on_loopback_nothing_is_demanded(host: str, refused: Refused, unserved: None) -> None:
    with pytest.raises(AssertionError, match="went on to serve"):
        refused("--host", host)


@pytest.mark.usefixtures("unserved")
def test_ports_of_tls_need_a_certificate(refused: Refused) -> None:
    for option in ("--tls-port", "--https-port"):
        assert "tls_certificate_file" in refused(option, "0")
    assert "port: there is no port" in refused("--port", "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("token_secret_key", "data:;base64,c2VjcmV0LXZhbHVl"),
        ("token_secret_key", "data:,secret-value"),
        ("token_secret_key", "data:;base64,secret-value"),
        ("token_secret_key", "secret-value-instead-of-a-path"),
        ("token_public_key", "secret-value-instead-of-a-path"),
        ("token_secret_key", "secret\0value"),
    ],
)
def test_a_bad_key_is_refused_and_not_shown(name: str, value: str, refused: Refused) -> None:
    said = refused("--memory", "--set", "authentication=true", "--set", f"{name}={value}")
    assert name in said
    assert "secret-value" not in said
    assert "secret\0value" not in said
    assert "c2VjcmV0" not in said


def test_a_bad_certificate_is_refused_before_anything_is_touched(
    refused: Refused, tmp_path: Path
) -> None:
    certificate, key = Issuer(tmp_path).issue("broker")
    other, _ = Issuer(tmp_path, "other").issue("other")
    (tmp_path / "nonsense").write_text("nonsense")
    for path, key_path in (
        (str(tmp_path / "missing"), key),
        (certificate, str(tmp_path / "nonsense")),
        (other, key),
    ):
        said = refused("--set", f"tls_certificate_file={path}", "--set", f"tls_key_file={key_path}")
        assert said.startswith("magnetar: tls_certificate_file: cannot use")
    assert not (tmp_path / "magnetar-data").exists()


def test_with_a_certificate_only_tls_is_served(
    tmp_path: Path, certificate: tuple[str, ...]
) -> None:
    free = ("--tls-port", "0", "--https-port", "0")
    with started("--memory", *certificate, *AUTHENTICATED, *free, cwd=tmp_path) as (process, line):
        match = re.fullmatch(
            r"ready pulsar\+ssl://127\.0\.0\.1:\d+ (https://127\.0\.0\.1:\d+)\n", line
        )
        assert match is not None, line
        verify = ssl.create_default_context(cafile=str(tmp_path / "issuer.pem"))
        with httpx.Client(verify=verify, timeout=30) as client:
            assert client.get(f"{match[1]}/admin/v2/clusters").status_code == 401
            answer = client.get(
                f"{match[1]}/admin/v2/clusters",
                headers={"Authorization": f"Bearer {token('anybody')}"},
            )
            assert answer.json() == ["standalone"]
        code, err = end(process)
    assert code == 0
    assert "super_user_roles is empty" in err
    assert SECRET.hex() not in err
    assert SECRET_SETTING[-40:] not in err
    assert token("anybody") not in err


def test_ports_for_tls_may_come_from_a_broker_conf(tmp_path: Path, refused: Refused) -> None:
    """Its plain ports, which every such file has, are not opened beside those for TLS."""
    path, key = Issuer(tmp_path).issue("broker")
    conf = tmp_path / "broker.conf"
    ports = "brokerServicePort=1\nwebServicePort=1\n"
    tls = f"tlsCertificateFilePath={path}\ntlsKeyFilePath={key}\n"
    conf.write_text(ports + tls + "brokerServicePortTls=0\nwebServicePortTls=0\n")
    with started("--memory", "--broker-conf", conf, cwd=tmp_path) as (process, line):
        assert re.fullmatch(r"ready pulsar\+ssl://127.0.0.1:\d+ https://127.0.0.1:\d+\n", line)
        assert not re.search(r":(6651|8443)\b", line)
        code, err = end(process)
    assert code == 0
    assert err.count("brokerServicePort, webServicePort") == 1
    conf.write_text("brokerServicePortTls=0\n")
    assert "tls_certificate_file" in refused("--memory", "--broker-conf", conf)


def test_plain_ports_may_come_from_a_broker_conf(settled: Path) -> None:
    """And what is said on the command line wins."""
    (settled / "broker.conf").write_text("brokerServicePort=7\nwebServicePort=8\n")
    plan = serve.plan_of(["--broker-conf", "broker.conf", "--http-port", "9"])
    assert (plan.port, plan.http_port) == (7, 9)


def test_client_certificates_and_the_name_that_clients_are_told(tmp_path: Path) -> None:
    """As it is served, on uvloop where there is one: the role is the certificate's name."""
    issuer = Issuer(tmp_path)
    certificate, key = issuer.issue("broker")
    settings = (
        "authentication=true",
        "super_user_roles=root",
        f"tls_certificate_file={certificate}",
        f"tls_key_file={key}",
        f"tls_trust_certs_file={issuer.certificate}",
        "tls_require_client_certificate=true",
    )
    options = [word for setting in settings for word in ("--set", setting)]
    options += ["--tls-port", "0", "--https-port", "0", "--advertised-host", "localhost"]
    with started("--memory", *options, cwd=tmp_path) as (process, line):
        ready, url, http_url = line.split()
        assert ready == "ready"
        assert re.fullmatch(r"pulsar\+ssl://localhost:\d+", url)
        for role, status in (("root", 200), ("stranger", 403)):
            context = ssl.create_default_context(cafile=str(issuer.certificate))
            context.load_cert_chain(*issuer.issue(role))
            with httpx.Client(verify=context, timeout=30) as client:
                assert client.get(f"{http_url}/admin/v2/tenants").status_code == status
                looked_up = client.get(f"{http_url}/lookup/v2/topic/persistent/public/default/t")
                if status == 200:
                    assert looked_up.json()["brokerUrlTls"] == url
                    assert looked_up.json()["httpUrlTls"] == http_url
        with contextlib.closing(
            magnetar.Client(
                url.replace("localhost", "127.0.0.1"),
                authentication=magnetar.AuthenticationTLS(*issuer.issue("root")),
                tls_trust_certs_file_path=str(issuer.certificate),
                tls_validate_hostname=True,
            )
        ) as client:
            client.create_producer("t").send(b"hello")
        assert end(process)[0] == 0


def test_a_key_from_the_environment_is_not_shown(tmp_path: Path) -> None:
    environment = clean_environment(
        MAGNETAR_AUTHENTICATION="true",
        MAGNETAR_TOKEN_SECRET_KEY=SECRET_SETTING,
        MAGNETAR_SUPER_USER_ROLES="root,other",
    )
    options = ("--memory", "--port", "0", "--http-port", "0")
    with started(*options, cwd=tmp_path, environment=environment) as (process, line):
        url = f"{line.split()[2]}/admin/v2/brokers/configuration/runtime"
        headers = {"Authorization": f"Bearer {token('root')}"}
        found = json.loads(httpx.get(url, headers=headers, timeout=30).text)
        assert found["superUserRoles"] == "root,other"
        assert found["tokenSecretKey"] == "*****"
        assert end(process)[0] == 0
