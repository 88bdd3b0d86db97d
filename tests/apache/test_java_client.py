"""Apache Pulsar's Java client against a real broker: see java/Checks.java for the checks."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache.harness import AGAINST_APACHE, LONG, Broker, java, require_artifacts
from support.broker_process import BrokerProcess

CHECKS = Path(__file__).parent / "java" / "Checks.java"
NAMES: list[str] = re.findall(r'CHECKS\.put\("(\w+)"', CHECKS.read_text())
HALVES = [name for name in NAMES if re.search(r"_[12]$", name)]
# The profiles of pom.xml with the present client, and with that of the long-term line, whose
# defaults are others.
NEWER = "server"
OLDER = "tools"
# What Apache Pulsar 4.2.4 gets wrong, by the upstream number.
APACHE_FAULTS = {"batch_index_acks_across_unload": "#26475"}


def outcomes(printed: str) -> dict[str, str]:
    """What the program said of each check: "ok", or why not."""
    said = re.findall(r"^(ok|FAILED) (\w+) ?(.*)$", printed, re.MULTILINE)
    return {name: "ok" if word == "ok" else reason for word, name, reason in said}


@pytest.fixture(scope="module")
def checked(broker: Broker) -> dict[str, str]:
    return outcomes(java(CHECKS, broker.url, broker.http_url, client=NEWER))


@pytest.fixture(scope="module")
def checked_by_older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    if not LONG:
        pytest.skip("the older client's turn is in the long form")
    require_artifacts()
    with BrokerProcess(tmp_path_factory.mktemp("data")) as broker:
        yield outcomes(java(CHECKS, broker.url, broker.http_url, client=OLDER))


def test_there_is_something_to_check() -> None:
    assert len(NAMES) > 25
    assert len(HALVES) == 2


@pytest.mark.parametrize("name", [name for name in NAMES if name not in HALVES])
def test_the_client_finds_what_it_expects(checked: dict[str, str], name: str) -> None:
    if AGAINST_APACHE and name in APACHE_FAULTS:
        assert checked[name] != "ok", f"{APACHE_FAULTS[name]} is mended: take it off the list"
        return
    assert checked[name] == "ok"


@pytest.mark.parametrize("name", [name for name in NAMES if name not in HALVES])
def test_an_older_client_finds_what_it_expects(checked_by_older: dict[str, str], name: str) -> None:
    assert checked_by_older[name] == "ok"


def test_acks_with_a_receipt_survive_kill_9(tmp_path: Path) -> None:
    if AGAINST_APACHE:
        pytest.skip("it would lose them (#26498)")
    require_artifacts()
    with BrokerProcess(tmp_path) as broker:
        before, after = HALVES
        first = outcomes(java(CHECKS, broker.url, broker.http_url, before, client=NEWER))
        assert first == {before: "ok"}
        broker.kill()
        broker.restart()
        second = outcomes(java(CHECKS, broker.url, broker.http_url, after, client=NEWER))
        assert second == {after: "ok"}
