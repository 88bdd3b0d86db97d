"""A question before what cannot be taken back, on a terminal alone."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from cli.broker_cli import BrokerCli
from support.terminal import terminal

from magnetar.testing.embedded import EmbeddedBroker

numbers = count()


@pytest.fixture(scope="module")
def cli() -> Iterator[BrokerCli]:
    with EmbeddedBroker() as broker:
        yield BrokerCli(broker.url, broker.http_url)


@pytest.fixture
def topic(cli: BrokerCli) -> str:
    """A topic with three unacked messages of a subscription `sub`."""
    name = f"confirm-{next(numbers)}"
    cli.ok("topics", "create", name)
    cli.ok("subscriptions", "create", name, "-s", "sub")
    cli.ok("produce", name, "-m", "a", "-m", "b", "-m", "c")
    return name


def left(cli: BrokerCli, topic: str) -> int:
    return len(cli.ok("peek", topic, "-s", "sub", "-n", "9", "--json").splitlines())


def asked(cli: BrokerCli, tmp_path: Path, answer: str, *command: str) -> tuple[int, str]:
    at = ("--url", cli.url, "--admin-url", cli.admin_url)
    with terminal(*at, *command, cwd=tmp_path, columns=200) as shown:
        shown.wait_for("[y/N]")
        shown.press(answer)
        return shown.end()


QUESTIONS = [
    ("topics delete {} --force", " and 3 messages unacked on 1 subscription. Delete it?"),
    ("topics truncate {}", " and 3 messages unacked on 1 subscription. Delete all its messages?"),
    ("subscriptions delete {} -s sub", "sub of {} has 3 messages unacked. Delete it?"),
    ("topics unsubscribe {} -s sub", "sub of {} has 3 messages unacked. Delete it?"),
    ("subscriptions clear-backlog {} -s sub", "sub of {} has 3 messages unacked. Acknowledge all"),
    ("schemas delete {}", "Delete the schema of {}?"),
    ("namespaces unsubscribe public/default -s sub", "Delete sub from all topics of public/"),
    ("namespaces delete public/default --force", "Delete public/default with all its topics?"),
    ("tenants delete public --force", "Delete public with all its namespaces and topics?"),
]


@pytest.mark.parametrize(("line", "question"), QUESTIONS)
def test_no_leaves_all_as_it_is(
    cli: BrokerCli, topic: str, tmp_path: Path, line: str, question: str
) -> None:
    code, text = asked(cli, tmp_path, "n\n", *line.format(topic).split())
    assert code == 1
    assert question.format(topic) in text
    assert "Aborted" in text
    assert left(cli, topic) == 3


def test_yes_does_it(cli: BrokerCli, topic: str, tmp_path: Path) -> None:
    code, text = asked(cli, tmp_path, "y\n", "topics", "clear-backlog", topic, "-s", "sub")
    assert (code, "cleared the backlog" in text) == (0, True)
    assert left(cli, topic) == 0
    code, _ = asked(cli, tmp_path, "y\n", "topics", "delete", topic, "-f")
    assert code == 0
    assert cli.run("topics", "stats", topic).code == 5


def test_a_partitioned_topic_says_what_all_partitions_have(cli: BrokerCli, tmp_path: Path) -> None:
    cli.ok("topics", "create-partitioned-topic", "parts", "-p", "2")
    cli.ok("subscriptions", "create", "parts", "-s", "sub")
    cli.ok("produce", "parts", "-m", "a", "-m", "b", "-db")
    code, text = asked(cli, tmp_path, "y\n", "topics", "delete-partitioned-topic", "parts", "-f")
    assert code == 0, text
    assert "2 messages unacked on 1 subscription. Delete it with all partitions?" in text


def test_what_is_not_there_is_told_after_a_plain_question(cli: BrokerCli, tmp_path: Path) -> None:
    code, text = asked(cli, tmp_path, "y\n", "topics", "delete", "nothing")
    assert code == 5
    assert "Delete it? [y/N]" in text


@pytest.mark.parametrize("yes", ["-y", "--yes"])
def test_yes_beforehand_is_not_asked(cli: BrokerCli, topic: str, tmp_path: Path, yes: str) -> None:
    at = ("--admin-url", cli.admin_url)
    with terminal(*at, "topics", "truncate", topic, yes, cwd=tmp_path) as shown:
        code, text = shown.end()
    assert (code, text) == (0, f"truncated {topic}\n")
    with terminal(*at, "namespaces", "clear-backlog", "public/default", yes, cwd=tmp_path) as shown:
        assert shown.end()[0] == 0


def test_a_script_is_not_asked(cli: BrokerCli, topic: str) -> None:
    """As ever: nobody would read the question."""
    cli.ok("topics", "truncate", topic)
    cli.ok("subscriptions", "delete", topic, "-s", "sub")
    cli.ok("topics", "delete", topic)
