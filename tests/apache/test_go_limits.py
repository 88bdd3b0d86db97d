"""Rates and limits, with Apache Pulsar's Go client: see go/limits.go."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache.go_client import COMPILE_S, fetch_module, require_go, run
from apache.limited import CHECKS, make_topics
from support.broker_process import BrokerProcess

LIMITS = Path(__file__).parent / "go" / "limits.go"
RUN_S = 150.0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_go()
    directory = tmp_path_factory.mktemp("go-limits")
    module = fetch_module(directory)
    (module / "limits").mkdir()
    shutil.copy(LIMITS, module / "limits" / "main.go")
    made = directory / "program"
    run(["go", "build", "-o", str(made), "./limits"], COMPILE_S, module)
    return made


@pytest.fixture(scope="module")
def limiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data")) as broker:
        yield broker


@pytest.mark.parametrize("check", CHECKS, ids=list(CHECKS.values()))
def test_the_go_client_meets_rates_and_limits(
    program: Path, limiting: BrokerProcess, check: str
) -> None:
    topic = make_topics(limiting, f"limits-{check}")
    said = run([str(program), check, limiting.url, limiting.http_url, topic], RUN_S)
    assert said.strip().splitlines()[-1] == "ok"
