"""Apache Pulsar's Java client and our transactions: see java/Transactions.java for the checks."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache.harness import AGAINST_APACHE, ApachePulsar, Broker, java, perf, require_artifacts
from apache.test_java_client import outcomes
from support.broker_process import BrokerProcess

CHECKS = Path(__file__).parent / "java" / "Transactions.java"
NAMES: list[str] = re.findall(r'CHECKS\.put\("(\w+)"', CHECKS.read_text())


@pytest.fixture(scope="module")
def transactional(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    require_artifacts()
    if AGAINST_APACHE:
        with ApachePulsar(fsync=False, transactions=True) as apache:
            yield apache
        return
    options = ["--set", "transactions=true"]
    with BrokerProcess(tmp_path_factory.mktemp("data"), options=options) as broker:
        yield broker


@pytest.fixture(scope="module")
def checked(transactional: Broker) -> dict[str, str]:
    return outcomes(
        java(CHECKS, transactional.url, transactional.http_url, client="server", timeout=300)
    )


def test_there_is_something_to_check() -> None:
    assert len(NAMES) > 15


@pytest.mark.parametrize("name", NAMES)
def test_the_client_finds_transactions_as_they_should_be(
    checked: dict[str, str], name: str
) -> None:
    assert checked[name] == "ok"


def test_pulsar_perf_transacts_and_leaves_nothing_where_it_was_started(
    transactional: Broker,
) -> None:
    before = set(Path.cwd().iterdir())
    topics = ("--topics-p", "persistent://public/default/perf", "--topics-c", "perf-c")
    counts = ("-nmp", "2", "-nmc", "0", "-threads", "2", "-time", "3")
    run = perf(transactional, "transaction", *topics, *counts)
    executed = re.search(r"--- (\d+) transaction executed", run.output)
    assert executed, run.output
    assert int(executed[1]) > 0
    assert set(Path.cwd().iterdir()) == before
