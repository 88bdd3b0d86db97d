"""Our command line against Apache Pulsar itself, which lacks the request to skip by id."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from apache.harness import ApachePulsar, require_artifacts
from cli.broker_cli import BrokerCli

import magnetar
from magnetar.broker.setting.settings_load import COMMANDS
from magnetar.model import MessageId
from magnetar.rest.id_text import id_text, parse_base64

numbers = count()


@pytest.fixture(scope="module")
def cli() -> Iterator[BrokerCli]:
    require_artifacts()
    with ApachePulsar(fsync=False) as apache:
        yield BrokerCli(apache.url, apache.http_url)


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null/none")
    for name in COMMANDS:
        monkeypatch.delenv(f"MAGNETAR_{name.upper()}", raising=False)


def fill(cli: BrokerCli, *batches: list[str], partitions: int = 0) -> tuple[str, list[MessageId]]:
    """A topic with a subscription `sub`, and messages in batches; their ids."""
    topic = f"persistent://public/default/skip-{next(numbers)}"
    if partitions:
        cli.ok("topics", "create-partitioned-topic", topic, "-p", str(partitions))
    else:
        cli.ok("topics", "create", topic)
    cli.ok("topics", "create-subscription", topic, "-s", "sub")
    ids: list[MessageId] = []
    for batch in batches:
        options = ["-db"] if partitions or len(batch) == 1 else []
        messages = [part for text in batch for part in ("-m", text)]
        lines = cli.ok("produce", topic, *options, *messages, "--json").splitlines()
        ids += [parse_base64(json.loads(line)["messageId"]) for line in lines]
    return topic, ids


@contextmanager
def joined(cli: BrokerCli, topic: str, kind: str) -> Iterator[magnetar.Consumer]:
    with magnetar.Client(cli.url) as client:
        yield client.subscribe(topic, "sub", magnetar.ConsumerType[kind])


def left(cli: BrokerCli, topic: str) -> list[str]:
    """What still comes within a second, and is left unacked."""
    ran = cli.run(
        *("consume", topic, "-s", "sub", "-t", "Shared", "-n", "0"),
        *("--timeout", "1", "--no-ack", "--json"),
    )
    assert ran.code == 0, ran
    return sorted(json.loads(line)["data"] for line in ran.lines)


def test_messages_are_skipped_by_acks(cli: BrokerCli) -> None:
    topic, ids = fill(cli, ["a", "b", "c"], ["d"], ["e"], ["f", "g"])
    given = ["--messageId-triplet", id_text(ids[1]), "--messageId-base64", ids[3].to_base64()]
    whole = f"{ids[5].ledger_id()}:{ids[5].entry_id()}"
    skip = ["topics", "skip-messages", topic, "-s", "sub", *given, "--messageId-triplet", whole]
    shown = cli.ok(*skip, "--dry-run").splitlines()
    assert sorted(shown[1::2]) == ["b", "d", "f", "g"]
    ran = cli.run(*skip, "--json")
    assert json.loads(ran.out) == {"ids": 3, "byAcks": True}
    assert "cannot skip by message id" in ran.err
    assert left(cli, topic) == ["a", "c", "e"]


@pytest.mark.parametrize("bad", ["{0}:{1}:3", "{0}:999", "987654321:0", "{0}:x"])
def test_a_bad_id_is_said_and_nothing_is_skipped(cli: BrokerCli, bad: str) -> None:
    topic, ids = fill(cli, ["a", "b", "c"])
    wrong = bad.format(ids[0].ledger_id(), ids[0].entry_id())
    given = ["--messageId-triplet", id_text(ids[0]), "--messageId-triplet", wrong]
    ran = cli.run("topics", "skip-messages", topic, "-s", "sub", *given)
    assert (ran.code, ran.out) == (2, "")
    assert left(cli, topic) == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_exclusive_and_failover_are_refused(cli: BrokerCli, kind: str) -> None:
    topic, ids = fill(cli, ["a"])
    with joined(cli, topic, kind):
        given = ["--messageId-triplet", id_text(ids[0])]
        ran = cli.run("topics", "skip-messages", topic, "-s", "sub", *given)
    assert (ran.code, ran.out) == (6, "")
    assert kind in ran.err
    assert left(cli, topic) == ["a"]


def test_key_shared_is_joined_as_such(cli: BrokerCli) -> None:
    topic, ids = fill(cli, ["a"], ["b"])
    with joined(cli, topic, "KeyShared"):
        given = ["--messageId-triplet", id_text(ids[1])]
        ran = cli.run("topics", "skip-messages", topic, "-s", "sub", *given)
    assert ran.code == 0, ran
    assert "Key_Shared" in ran.err
    assert left(cli, topic) == ["a"]


def test_partitions(cli: BrokerCli) -> None:
    topic, ids = fill(cli, ["0", "1", "2", "3"], partitions=2)
    given = ["--messageId-triplet", id_text(ids[0]), "--messageId-base64", ids[1].to_base64()]
    assert cli.run("topics", "skip-messages", topic, "-s", "sub", *given).code == 0
    assert left(cli, topic) == ["2", "3"]


def test_all_chunks_go(cli: BrokerCli, tmp_path: Path) -> None:
    topic, _ = fill(cli, ["a"])
    (tmp_path / "large").write_bytes(bytes(11 << 20))
    line = cli.ok("produce", topic, "-f", str(tmp_path / "large"), "-db", "-c", "--json")
    given = ["--messageId-base64", json.loads(line)["messageId"]]
    ran = cli.run("topics", "skip-messages", topic, "-s", "sub", *given)
    assert ran.code == 0, ran
    assert left(cli, topic) == ["a"]
    stats = json.loads(cli.ok("topics", "stats", topic, "-gpb", "--json"))
    assert stats["subscriptions"]["sub"]["msgBacklog"] == 1


def test_what_is_not_there_is_missing(cli: BrokerCli) -> None:
    topic, _ = fill(cli, ["a"])
    for name, subscription in ((topic, "nobody"), ("nowhere", "sub")):
        given = [name, "-s", subscription, "--messageId-triplet", "1:1"]
        assert cli.run("topics", "skip-messages", *given).code == 5


def test_nouns_and_verbs(cli: BrokerCli) -> None:
    """What pulsar-admin does, told to Apache Pulsar by us."""
    cli.ok("tenants", "create", "shop")
    cli.ok("namespaces", "create", "shop/orders")
    assert cli.ok("namespaces", "list", "shop") == "shop/orders\n"
    topic = "persistent://shop/orders/t"
    cli.ok("topics", "create", topic)
    cli.ok("topics", "create-subscription", topic, "-s", "sub", "-m", "earliest")
    cli.ok("produce", topic, "-m", "a", "-m", "b", "-db")
    assert cli.ok("peek", topic, "-s", "sub", "-n", "9").splitlines()[1::2] == ["a", "b"]
    assert "sub" in cli.ok("topics", "stats", topic)
    cli.ok("topics", "skip", topic, "-s", "sub", "-n", "1")
    assert cli.ok("peek", topic, "-s", "sub", "-n", "9").splitlines()[1::2] == ["b"]
    cli.ok("topics", "reset-cursor", topic, "-s", "sub", "-m", "earliest")
    assert cli.ok("peek", topic, "-s", "sub", "-n", "9").splitlines()[1::2] == ["a", "b"]
    cli.ok("topics", "clear-backlog", topic, "-s", "sub")
    cli.ok("namespaces", "set-message-ttl", "shop/orders", "-ttl", "60")
    assert cli.ok("namespaces", "get-message-ttl", "shop/orders") == "60\n"
    cli.ok("topics", "set-deduplication", topic, "--enable")
    cli.ok("topics", "unload", topic)
    cli.ok("topics", "unsubscribe", topic, "-s", "sub")
    cli.ok("namespaces", "grant-permission", "shop/orders", "--role", "r", "--actions", "produce")
    assert "produce" in cli.ok("namespaces", "permissions", "shop/orders")
    cli.ok("topics", "delete", topic)
    # A broker that has not been told otherwise forbids it.
    ran = cli.run("namespaces", "delete", "shop/orders", "-f")
    assert (ran.code, "HTTP 405" in ran.err) == (6, True)
    assert cli.ok("brokers", "healthcheck") == "ok\n"


def test_status_and_topics_with_their_backlogs(cli: BrokerCli) -> None:
    topic, _ = fill(cli, ["a", "b", "c"], ["d"])
    name = topic.rpartition("/")[2]
    ran = cli.run("status", "--limit", "1000")
    assert ran.code == 0, ran
    assert "the backlog counts entries" in ran.out
    row = next(line.split() for line in ran.lines if line.startswith(f"{name} "))
    assert row[1:3] == ["sub", "2"]
    assert "?" not in row
    found = json.loads(cli.ok("status", "--json", "-n", "public/default"))
    (one,) = [found for found in found["topics"] if found["name"] == topic]
    assert one["oldestUnackedPublishTime"] > 0
    assert found["freeBytes"] is None
    listed = cli.ok("topics", "list", "--columns").splitlines()
    assert [line.split()[3] for line in listed if line.startswith(f"{name} ")] == ["2"]


def test_near_names_of_topics_and_subscriptions(cli: BrokerCli) -> None:
    cli.ok("topics", "create", "invoices")
    cli.ok("subscriptions", "create", "invoices", "-s", "billing")
    ran = cli.run("topics", "stats", "invioces")
    assert ran.code == 5
    assert ran.err.endswith("; did you mean invoices?\n")
    ran = cli.run("peek", "invoices", "-s", "biling")
    assert ran.err.endswith("; did you mean billing?\n")
