"""Purges by predicate: shown, then skipped, all of it and nothing else."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession
from support.tables import SMALL_LEDGER, Tables, path_of, trim
from typer.testing import CliRunner

import magnetar
from magnetar.cli.app import app
from magnetar.errors import NotAllowedError, SettingsError, SubscriptionNotFound, TopicNotFound
from magnetar.schema import Integer, JsonSchema, Record, String
from magnetar.spark.pipelines.backlog import read_backlog
from magnetar.spark.pipelines.letter.target import Target
from magnetar.spark.pipelines.purge import PurgeOptions, purge, purge_report

Publish = Callable[..., None]
EARLIEST = magnetar.InitialPosition.Earliest
SHARED = magnetar.ConsumerType.Shared
POISON = "get_json_object(value, '$.id') is null"


def subscribe(client: magnetar.Client, topic: str, kind: magnetar.ConsumerType = SHARED) -> None:
    client.subscribe(topic, "s", kind, initial_position=EARLIEST).close()


def orders(count: int) -> list[str]:
    """Every tenth is poison."""
    return [json.dumps({"id": i if i % 10 else None, "n": i}) for i in range(count)]


def left(tables: Tables) -> list[int]:
    values = tables.values(mode="backlog", subscription="s")
    return sorted(json.loads(value)["n"] for value in values)


def test_shown_first_then_skipped(
    spark: SparkSession,
    target: Target,
    publish: Publish,
    client: magnetar.Client,
    rest: httpx.Client,
    topic: str,
    tables: Tables,
    tmp_path: Path,
) -> None:
    rest.put(f"{path_of(topic)}/partitions", json=2).raise_for_status()
    subscribe(client, topic)
    publish(topic, orders(200), batch=7, partition_key="alice")
    publish(topic, orders(50), partition_key="bob")
    facts = purge(spark, PurgeOptions(target, topic, "s", POISON))
    assert (facts["applied"], facts["matched"], facts["skipped"]) == (False, 25, 0)
    assert (facts["backlog_before"], facts["backlog_after"]) == (250, 250)
    assert [(row["key"], row["messages"]) for row in facts["keys"]] == [("alice", 20), ("bob", 5)]
    assert len(facts["sample"]) == 20
    assert sum(bar["messages"] for bar in facts["published"]) == 25
    assert "A dry run" in purge_report(facts).to_html()
    assert len(left(tables)) == 250

    root = ["--url", target.service_url, "--admin-url", target.admin_url]
    dry = [*root, "pipeline", "purge", "-t", topic, "-s", "s", "--where", POISON]
    shown = CliRunner().invoke(app, dry).stdout
    # Ten are printed, and 25 are what there is, though 20 are kept for --json.
    assert "and 15 more: --json and --report have 20 of 25" in shown
    assert "matched         25\n" in shown

    page = tmp_path / "purge.html"
    where = f"{POISON} and key = 'alice'"
    command = [*root, "pipeline", "purge", "-t", topic, "-s", "s", "--where", where]
    done = CliRunner().invoke(app, [*command, "--apply", "--limit", "3", "--report", str(page)])
    assert done.exit_code == 0, done.output
    assert "matched         3\nskipped         3" in done.stdout
    assert "backlog after   247" in done.stdout
    assert "<svg" in page.read_text()
    # Of alice the oldest went.
    assert [left(tables).count(n) for n in (0, 10, 20, 30)] == [1, 1, 1, 2]

    facts = purge(spark, PurgeOptions(target, topic, "s", POISON, apply=True))
    assert (facts["skipped"], facts["backlog_after"]) == (22, 225)
    assert all(n % 10 for n in left(tables))
    again = purge(spark, PurgeOptions(target, topic, "s", POISON, apply=True))
    assert (again["matched"], again["skipped"], again["backlog_after"]) == (0, 0, 225)
    assert "none" not in purge_report(again).to_html()


class Order(Record):
    id = Integer()
    note = String()


def test_fields_of_the_schema_and_what_cannot_be_decoded(
    spark: SparkSession, target: Target, client: magnetar.Client, topic: str, tables: Tables
) -> None:
    subscribe(client, topic)
    producer = client.create_producer(topic, schema=JsonSchema(Order))
    for i in range(6):
        producer.send(Order(id=i, note="x" * i))
    raw = client.create_producer(topic, chunking_enabled=True, chunk_max_message_size=100)
    raw.send(b"no json " * 100)
    facts = purge(spark, PurgeOptions(target, topic, "s", "value.id in (1, 4)", apply=True))
    assert facts["skipped"] == 2
    assert '{"id":4,"note":"xxxx"}' in [row["value"] for row in facts["sample"]]
    bad = PurgeOptions(target, topic, "s", "bad_record is not null", apply=True)
    facts = purge(spark, bad)
    assert facts["skipped"] == 1
    assert "JSONDecodeError" in facts["sample"][0]["value"]
    # All chunks of it are gone, and not only the last.
    assert (facts["backlog_before"] - facts["backlog_after"], facts["backlog_after"]) == (8, 4)
    values = tables.values(mode="backlog", subscription="s")
    assert [json.loads(value)["id"] for value in values] == [0, 2, 3, 5]


def test_a_bad_predicate_is_one_sentence_and_changes_nothing(
    spark: SparkSession,
    target: Target,
    publish: Publish,
    client: magnetar.Client,
    topic: str,
    tables: Tables,
) -> None:
    subscribe(client, topic)
    publish(topic, ["one", "2"])
    for where, said in {
        "colour = 'red'": r"^where: A column.* `colour` cannot be resolved.*\(at character 0\)$",
        "value =": r"^where: Syntax error at or near end of input\. \(at character 7\)$",
        "key": "^where: .* is not a boolean",
        "value.id = 1": "^where: Can't extract a value",
        "cast(value as int) = 2": "^where: The value 'one' .* cannot be cast",
        "  ": "^where: missing: give a predicate",
    }.items():
        with pytest.raises(SettingsError, match=said) as raised:
            purge(spark, PurgeOptions(target, topic, "s", where, apply=True))
        assert "\n" not in str(raised.value)
    with pytest.raises(SettingsError, match="limit: -1"):
        PurgeOptions(target, topic, "s", "true", limit=-1)
    assert len(tables.values(mode="backlog", subscription="s")) == 2


def test_what_is_not_there_or_cannot_be_skipped(
    spark: SparkSession, target: Target, publish: Publish, client: magnetar.Client, topic: str
) -> None:
    publish(topic, ["x"])
    with pytest.raises(TopicNotFound, match=f"there is no topic {topic}-missing"):
        purge(spark, PurgeOptions(target, f"{topic}-missing", "s", "true"))
    with pytest.raises(SubscriptionNotFound, match="has no subscription s: there is none"):
        purge(spark, PurgeOptions(target, topic, "s", "true"))
    subscribe(client, topic, magnetar.ConsumerType.Failover)
    with pytest.raises(NotAllowedError, match="is Failover: single messages are skipped on"):
        purge(spark, PurgeOptions(target, topic, "s", "true"))
    with pytest.raises(SettingsError, match="is not persistent"):
        purge(spark, PurgeOptions(target, "non-persistent://public/default/t", "s", "true"))


def test_what_is_acked_and_trimmed_meanwhile_is_no_backlog_any_more(
    spark: SparkSession,
    target: Target,
    publish: Publish,
    client: magnetar.Client,
    rest: httpx.Client,
    topic: str,
) -> None:
    consumer = client.subscribe(topic, "s", SHARED, initial_position=EARLIEST)
    publish(topic, orders(SMALL_LEDGER + 1))
    frame = read_backlog(spark, target, topic, "s")
    assert frame.rdd.getNumPartitions() > 0
    for _ in range(SMALL_LEDGER):
        consumer.acknowledge(consumer.receive(30_000))
    consumer.close()
    trim(rest, topic)
    assert [json.loads(row.value)["n"] for row in frame.collect()] == [SMALL_LEDGER]
