"""Ways in, and compacted topics, with Apache Pulsar's Go client: see go/ways.go."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache.go_client import COMPILE_S, fetch_module, require_go, run
from apache.guarded import guarded_broker
from support.broker_process import BrokerProcess
from support.openid import OpenidIssuer, issuing
from support.tokens import Issuer, token

WAYS = Path(__file__).parent / "go" / "ways.go"
TOPIC = "persistent://public/default/ways-go"
RUN_S = 150.0


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_go()
    return tmp_path_factory.mktemp("go-ways")


@pytest.fixture(scope="module")
def program(directory: Path) -> Path:
    module = fetch_module(directory)
    (module / "ways").mkdir()
    shutil.copy(WAYS, module / "ways" / "main.go")
    made = directory / "program"
    run(["go", "build", "-o", str(made), "./ways"], COMPILE_S, module)
    return made


@pytest.fixture(scope="module")
def issuer(directory: Path) -> Iterator[OpenidIssuer]:
    with issuing(Issuer(directory, "ca").issue("issuer")) as issuer:
        yield issuer


@pytest.fixture(scope="module")
def guarded(directory: Path, issuer: OpenidIssuer) -> Iterator[BrokerProcess]:
    with guarded_broker(directory, issuer) as broker:
        yield broker


def say(program: Path, *arguments: str, **environment: str) -> str:
    """What the program says in the end."""
    said = run([str(program), *arguments], RUN_S, environment=environment)
    return said.strip().splitlines()[-1]


def test_readers_consumers_and_table_views_of_a_compacted_topic(
    program: Path, tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        assert say(program, "compacted", broker.url, broker.http_url) == "ok"


@pytest.mark.parametrize("by_http", [False, True], ids=["binary", "http"])
def test_passwords_and_tokens_let_the_go_client_in(
    program: Path, guarded: BrokerProcess, by_http: bool
) -> None:
    url = guarded.http_url if by_http else guarded.url
    topic = f"{TOPIC}-{by_http}"
    assert say(program, "basic", url, "worker", "right", topic) == "ok"
    assert say(program, "token", url, token("worker"), topic) == "ok"
    assert say(program, "basic", url, "worker", "wrong", topic).startswith("refused ")
    assert say(program, "token", url, token("stranger"), topic).startswith("refused ")


def test_client_credentials_let_the_go_client_in(
    program: Path, guarded: BrokerProcess, issuer: OpenidIssuer, directory: Path
) -> None:
    file = directory / "credentials.json"
    known = {"type": "client_credentials", "client_id": "worker", "issuer_url": issuer.url}
    for secret, expected in (("s3cret", "ok"), ("guess", "refused ")):
        file.write_text(json.dumps({**known, "client_secret": secret}))
        words = ("oauth2", guarded.url, issuer.url, str(file), "urn:magnetar", f"{TOPIC}-oauth2")
        said = say(program, *words, SSL_CERT_FILE=str(directory / "ca.pem"))
        assert said.startswith(expected)
