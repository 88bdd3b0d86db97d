"""Audits: what they say of a subscription whose state is known, and that they disturb nothing."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession
from support.tables import path_of
from typer.testing import CliRunner

import magnetar
from magnetar.cli.app import app
from magnetar.cli.pipeline import audit as pipeline_audit
from magnetar.errors import SettingsError, SubscriptionNotFound
from magnetar.schema import Integer, JsonSchema, Record
from magnetar.spark.pipelines.audit import AuditOptions, audit
from magnetar.spark.pipelines.letter.target import Target
from magnetar.spark.pipelines.report.audit_report import audit_report
from magnetar.spark.pipelines.report.message_counts import age_text, step_s, timeline

EARLIEST = magnetar.InitialPosition.Earliest


class Order(Record):
    id = Integer()


def worker_without_k3(client: magnetar.Client, topic: str) -> magnetar.Consumer:
    """Who has the 73 messages that are not delayed, and acked of the first fifty all but k3's.

    One of k3's was given back, twice. Three messages are no orders.
    """
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
    received = [consumer.receive(30_000) for _ in range(73)]
    consumer.acknowledge([m for m in received[:50] if m.partition_key() != "k3"])
    for _ in range(2):
        consumer.negative_acknowledge(received[3])
        again = consumer.receive(30_000)
        while again.partition_key() != "k3":
            again = consumer.receive(30_000)
        received[3] = again
    return consumer


def test_the_state_of_a_subscription(
    spark: SparkSession,
    target: Target,
    client: magnetar.Client,
    rest: httpx.Client,
    topic: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rest.put(path_of(topic)).raise_for_status()
    consumer = worker_without_k3(client, topic)
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


def test_keys_that_a_consumer_holds_on_key_shared(
    spark: SparkSession,
    target: Target,
    client: magnetar.Client,
    publish: Callable[..., None],
    topic: str,
) -> None:
    """One of two consumers acks nothing: its keys are stuck, and with them what comes later."""
    works, holds = (
        client.subscribe(
            topic,
            "s",
            magnetar.ConsumerType.KeyShared,
            initial_position=EARLIEST,
            consumer_name=name,
            ack_receipt_enabled=True,
        )
        for name in ("works", "holds")
    )
    keys = [f"k{i}" for i in range(12)]
    for _ in range(3):
        for key in keys:
            publish(topic, [key], partition_key=key)
    held = received(holds)
    works.acknowledge(received(works))
    stuck = sorted({message.partition_key() for message in held})
    assert 0 < len(stuck) < len(keys)
    # Whoever comes later may be given their keys, but nothing of them before all is acked.
    late = client.subscribe(
        topic,
        "s",
        magnetar.ConsumerType.KeyShared,
        consumer_name="late",
        ack_receipt_enabled=True,
    )
    producer = client.create_producer(topic, batching_enabled=False)
    due = int(time.time() * 1000) + 3_600_000
    for key in keys:
        producer.send(b"more", partition_key=key)
        producer.send(b"later", partition_key=key, deliver_at=due)
    for consumer in (works, late):
        messages = received(consumer)
        assert not {message.partition_key() for message in messages} & set(stuck)
        consumer.acknowledge(messages)
    held += received(holds)

    facts = audit(spark, AuditOptions(target, topic, "s"))
    free = max(i for i, key in enumerate(keys) if key not in stuck)
    overtaken = 3 * len(stuck) + sum(1 for key in keys[:free] if key in stuck)
    assert (facts["type"], facts["overtaken"]) == ("Key_Shared", overtaken)
    assert sorted(row["stuck"] for row in facts["stuck_keys"]) == stuck
    assert facts["stuck_key_count"] == len(stuck)
    assert sum(row["messages"] for row in facts["stuck_keys"]) == overtaken
    assert [(row["consumer"], row["unacked"]) for row in facts["consumers"]] == [
        ("holds", len(held)),
        ("late", 0),
        ("works", 0),
    ]
    # What is to come later is neither overtaken nor stuck.
    assert (facts["delayed"], sum(row["messages"] for row in facts["due"])) == (12, 12)
    assert {row["key"] for row in facts["suspects"]["delayed"]} == set(keys)
    for consumer in (works, holds, late):
        consumer.close()


def test_nothing_is_delayed_where_messages_come_in_order(
    spark: SparkSession, target: Target, client: magnetar.Client, topic: str
) -> None:
    """Failover consumers get delayed messages at once, and may ack them one by one."""
    consumer = client.subscribe(
        topic,
        "s",
        magnetar.ConsumerType.Failover,
        initial_position=EARLIEST,
        ack_receipt_enabled=True,
    )
    producer = client.create_producer(topic, batching_enabled=False)
    due = int(time.time() * 1000) + 3_600_000
    for i in range(10):
        producer.send(b"v%d" % i, partition_key=f"k{i % 2}", deliver_at=due if i == 4 else None)
    messages = [consumer.receive(30_000) for _ in range(10)]
    consumer.acknowledge([m for m in messages[:8] if m.partition_key() == "k1"])
    facts = audit(spark, AuditOptions(target, topic, "s"))
    consumer.close()
    assert (facts["type"], facts["messages"]) == ("Failover", 6)
    assert (facts["delayed"], facts["due"], facts["overtaken"]) == (0, [], 4)
    assert [(row["stuck"], row["messages"]) for row in facts["stuck_keys"]] == [("k0", 4)]


def received(consumer: magnetar.Consumer, wait_ms: int = 500) -> list[magnetar.Message]:
    """What comes until nothing comes for a while."""
    found = []
    while True:
        try:
            found.append(consumer.receive(wait_ms))
        except magnetar.Timeout:
            return found


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
