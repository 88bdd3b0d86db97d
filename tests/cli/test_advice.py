"""Errors in the words of the command line."""

from collections.abc import Iterator

import pytest
from cli.broker_cli import BrokerCli

import magnetar
from magnetar.testing.embedded import EmbeddedBroker


@pytest.fixture(scope="module")
def cli() -> Iterator[BrokerCli]:
    with EmbeddedBroker() as broker:
        found = BrokerCli(broker.url, broker.http_url)
        found.ok("topics", "create-partitioned-topic", "parts", "-p", "2")
        found.ok("topics", "create", "plain")
        found.ok("subscriptions", "create", "plain", "-s", "sub")
        yield found


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        (
            "topics delete parts",
            6,
            "parts is partitioned: magnetar topics delete-partitioned-topic parts",
        ),
        ("topics stats parts", 5, "parts is partitioned: magnetar topics partitioned-stats parts"),
        (
            "topics terminate parts",
            6,
            "parts is partitioned: magnetar topics partitioned-terminate parts",
        ),
        (
            "topics examine-messages parts",
            6,
            "parts is partitioned: name one of its 2 partitions, parts-partition-0",
        ),
        (
            "topics delete parts-partition-1",
            6,
            "parts-partition-1 is a partition: magnetar topics delete-partitioned-topic parts "
            "deletes all of them",
        ),
        (
            "topics delete-partitioned-topic plain",
            6,
            "plain is not partitioned: magnetar topics delete plain",
        ),
        (
            "topics update-partitioned-topic plain -p 3",
            6,
            "plain is not partitioned, and cannot be any more: make another one with magnetar "
            "topics create-partitioned-topic",
        ),
        (
            "topics partitioned-stats plain",
            5,
            "plain is not partitioned: magnetar topics stats plain",
        ),
    ],
)
def test_the_verb_that_was_meant(cli: BrokerCli, line: str, code: int, told: str) -> None:
    ran = cli.run(*line.split())
    assert (ran.code, ran.out, ran.err) == (code, "", f"magnetar: {told}\n")
    # And it is a verb: `magnetar topics partitioned-stats parts`.
    if ": magnetar " in told and "delete" not in told:
        cli.ok(*told.partition(": magnetar ")[2].split())
        cli.ok("topics", "unload", "parts")


def test_what_is_in_use_can_be_forced(cli: BrokerCli) -> None:
    with magnetar.Client(cli.url) as client:
        client.subscribe("plain", "sub")
        ran = cli.run("topics", "delete", "plain")
        assert ran.code == 6
        assert ran.err.endswith("; --force does it all the same\n")
        ran = cli.run("subscriptions", "delete", "plain", "-s", "sub")
        assert (ran.code, "--force does it all the same" in ran.err) == (6, True)
        cli.ok("subscriptions", "delete", "plain", "-s", "sub", "--force")
    assert "--force" in cli.run("namespaces", "delete", "public/default").err
    assert "--force" in cli.run("tenants", "delete", "public").err
    # Here it would not help.
    assert "--force" not in cli.run("topics", "create", "plain").err
