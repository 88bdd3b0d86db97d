"""Audits: what they say of a subscription whose state is known, and that they disturb nothing."""

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession
from support.tables import path_of
from typer.testing import CliRunner

import magnetar
from magnetar.cli import pipeline_audit
from magnetar.cli.app import app
from magnetar.errors import SettingsError, SubscriptionNotFound
from magnetar.schema import Integer, JsonSchema, Record
from magnetar.spark.pipelines.audit import AuditOptions, audit
from magnetar.spark.pipelines.audit_report import audit_report
from magnetar.spark.pipelines.figures import age_text, step_s, timeline
from magnetar.spark.pipelines.target import Target

EARLIEST = magnetar.InitialPosition.Earliest


class Order(Record):
    id = Integer()


def test_the_state_of_a_subscription(
    spark: SparkSession,
    target: Target,
    client: magnetar.Client,
    rest: httpx.Client,
    topic: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rest.put(path_of(topic)).raise_for_status()
    consumer = client.subscribe(
        topic,
        "s",
        magnetar.ConsumerType.Shared,
        initial_position=EARLIEST,
        ack_receipt_enabled=True,
        negative_ack_redelivery_delay_ms=1,
        consumer_name="worker",
    )
    producer = client.create_producer(
        topic,
        producer_name="shop",
        schema=JsonSchema(Order),
        batching_enabled=True,
        batching_max_messages=5,
        batching_max_publish_delay_ms=60_000,
    )
    for i in range(70):
        producer.send_async(Order(id=i), None, partition_key=f"k{i % 7}")
    producer.flush()
    legacy = client.create_producer(topic, producer_name="legacy", batching_enabled=False)
    for _ in range(3):
        legacy.send(b"{no json", partition_key="odd")
    now_ms = int(time.time() * 1000)
    for hours in (1, 2, 30):
        legacy.send(b'{"id":1}', deliver_at=now_ms + hours * 3_600_000)
    received = [consumer.receive(10_000) for _ in range(73)]
    # Of the first fifty all but those of k3 are acked; one of these is given back, twice.
    consumer.acknowledge([m for m in received[:50] if m.partition_key() != "k3"])
    for _ in range(2):
        consumer.negative_acknowledge(received[3])
        again = consumer.receive(10_000)
        while again.partition_key() != "k3":
            again = consumer.receive(10_000)
        received[3] = again
    stats = rest.get(f"{path_of(topic)}/stats").json()["subscriptions"]["s"]

    facts = audit(spark, AuditOptions(target, topic, "s"))
    held = [m for m in range(50) if m % 7 == 3]
    assert (facts["messages"], facts["overtaken"]) == (len(held) + 20 + 6, len(held))
    assert (facts["undecodable"], facts["delayed"], facts["redelivered"]) == (3, 3, 1)
    assert (facts["type"], facts["decoded"], facts["key_count"]) == ("Shared", True, 8)
    producers = {row["producer"]: row["messages"] for row in facts["producers"]}
    assert producers == {"shop": len(held) + 20, "legacy": 6}
    assert [(row["stuck"], row["messages"]) for row in facts["stuck_keys"]] == [("k3", len(held))]
    keys = {row["key"]: row["messages"] for row in facts["keys"]}
    assert (keys["k3"], keys["odd"], keys[None]) == (len(held) + 3, 3, 3)
    assert sum(row["messages"] for row in facts["ages"]) == facts["messages"]
    assert sum(row["messages"] for row in facts["published"]) == facts["messages"]
    assert sum(row["messages"] for row in facts["due"]) == 3
    (partition,) = facts["partitions"]
    assert (partition["messages"], partition["partly_acked"]) == (facts["messages"], len(held))
    assert facts["hole_count"] == partition["holes"] > 1
    assert facts["batches"][0]["size"] == 5
    assert facts["batches"][0]["remaining"] == 1
    suspects = facts["suspects"]
    assert [row["value"] for row in suspects["overtaken"]] == [f'{{"id":{n}}}' for n in held]
    (given_back,) = suspects["redelivered"]
    assert (given_back["redeliveries"], given_back["value"]) == (2, '{"id":3}')
    assert len(suspects["undecodable"]) == 3
    assert "JSONDecodeError" in suspects["undecodable"][0]["problem"]
    assert [row["messages"] for row in facts["problems"]] == [3]
    assert [row["due"] for row in suspects["delayed"]] == sorted(
        row["due"] for row in suspects["delayed"]
    )
    assert [row["consumer"] for row in facts["consumers"]] == ["worker"]
    assert any("k3" in finding for finding in facts["findings"])
    page = audit_report(facts).to_html()
    assert page.count("<svg") == 4
    assert "{no json" not in page
    # Nothing was disturbed.
    after = rest.get(f"{path_of(topic)}/stats").json()["subscriptions"]["s"]
    for name in ("msgBacklogMessages", "unackedMessages", "partiallyAckedBatches", "msgOutCounter"):
        assert after[name] == stats[name], name
    consumer.close()

    pipeline_audit._print(facts)
    said = capsys.readouterr().out
    assert "! 1 key stuck, the longest is k3." in said
    assert "legacy" in said


def test_an_empty_backlog_and_what_is_not_there(
    spark: SparkSession,
    target: Target,
    client: magnetar.Client,
    rest: httpx.Client,
    topic: str,
    tmp_path: Path,
) -> None:
    rest.put(path_of(topic)).raise_for_status()
    with pytest.raises(SubscriptionNotFound, match="there is none"):
        audit(spark, AuditOptions(target, topic, "s"))
    with pytest.raises(SettingsError, match="it has no name"):
        audit(spark, AuditOptions(target, topic, ""))
    client.subscribe(topic, "a/b", magnetar.ConsumerType.Shared).close()
    root = ["--url", target.service_url, "--admin-url", target.admin_url]
    report = tmp_path / "audit.html"
    command = [*root, "pipeline", "audit", "-t", topic, "-s", "a/b", "--json"]
    done = CliRunner().invoke(app, [*command, "--report", str(report)])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["messages"], facts["findings"], facts["holes"]) == (0, [], [])
    assert "Audit of a/b" in report.read_text()


def test_times_are_put_into_bars() -> None:
    rows: list[dict[str, Any]] = [
        {"bar": 3, "messages": 5},
        {"bar": 1, "messages": 2},
        {"bar": None, "messages": 9},
    ]
    assert timeline(rows, "bar", 60) == [
        {"from": "1970-01-01T00:01:00Z", "messages": 2},
        {"from": "1970-01-01T00:02:00Z", "messages": 0},
        {"from": "1970-01-01T00:03:00Z", "messages": 5},
    ]
    far = [{"bar": 0, "messages": 1}, {"bar": 10**6, "messages": 1}]
    assert len(timeline(far, "bar", 60)) == 2
    assert timeline([], "bar", 1) == []
    spans = [step_s(span) for span in (0, 59, 61, 86_400, 10**9)]
    assert spans == sorted(spans)
    assert age_text(86_400 * 2) == "2d"
