"""A subscription's backlog as a table, and messages skipped by query; without a JVM."""

from collections.abc import Callable
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructType
from support.tables import SMALL_LEDGER, Tables, path_of, texts

import magnetar
from magnetar.arrow import snapshot
from magnetar.errors import ConnectError, OperationNotSupported, SettingsError
from magnetar.spark.skip import SkipWriter

Publish = Callable[..., None]
EARLIEST = magnetar.InitialPosition.Earliest
IDS = "topic string, message_id binary, value binary"
SCHEMA = StructType().add("topic", StringType()).add("message_id", BinaryType())


def ack(client: magnetar.Client, topic: str, wanted: Callable[[int], bool], count: int) -> None:
    """Acks those of the first `count` messages whose number is wanted, on subscription `s`."""
    consumer = client.subscribe(
        topic,
        "s",
        magnetar.ConsumerType.Shared,
        initial_position=EARLIEST,
        ack_receipt_enabled=True,
    )
    received = [consumer.receive(30_000) for _ in range(count)]
    consumer.acknowledge([message for i, message in enumerate(received) if wanted(i)])
    consumer.close()


def backlog(tables: Tables, **more: str) -> list[str]:
    return tables.values(mode="backlog", subscription="s", **more)


@pytest.mark.parametrize("batch", [1, 4])
def test_exactly_what_is_not_acked(
    publish: Publish, client: magnetar.Client, topic: str, tables: Tables, batch: int
) -> None:
    count = SMALL_LEDGER * 2 * batch
    client.subscribe(topic, "s", magnetar.ConsumerType.Shared, initial_position=EARLIEST).close()
    publish(topic, texts(count), batch=batch)
    assert backlog(tables) == texts(count)
    ack(client, topic, lambda i: i % 7 < 3, count - 30)
    left = [text for i, text in enumerate(texts(count)) if i >= count - 30 or i % 7 >= 3]
    assert backlog(tables) == left
    assert backlog(tables, minPartitions="9") == left
    # To read it has disturbed nothing.
    assert backlog(tables) == left


def test_a_state_of_many_pages(
    publish: Publish,
    client: magnetar.Client,
    topic: str,
    tables: Tables,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot, "PAGE", 3)
    client.subscribe(topic, "s", magnetar.ConsumerType.Shared, initial_position=EARLIEST).close()
    publish(topic, texts(50), batch=5)
    ack(client, topic, lambda i: i % 2 == 0, 50)
    assert backlog(tables) == texts(50)[1::2]


def test_a_backlog_that_is_empty_or_missing(
    publish: Publish, client: magnetar.Client, topic: str, tables: Tables
) -> None:
    publish(topic, texts(5))
    with pytest.raises(OperationNotSupported, match="is there such a subscription"):
        backlog(tables)
    client.subscribe(topic, "s", initial_position=EARLIEST).close()
    ack(client, topic, lambda i: True, 0)
    assert backlog(tables) == texts(5)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "backlog"}, "subscription: missing"),
        ({"mode": "backlog", "subscription": "s", "adminUrl": ""}, "adminUrl: missing"),
        ({"mode": "backlog", "subscription": "s", "startingOffsets": "1:1"}, "its own positions"),
        ({"mode": "log"}, "not one of topic, backlog"),
    ],
)
def test_what_is_wrong_is_said(tables: Tables, given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        tables.splits(**given)
    if said == "its own positions":
        with pytest.raises(SettingsError, match="read as a batch"):
            tables.stream(**{**given, "startingOffsets": "earliest"})


# ---- Skip --------------------------------------------------------------------


def rows_of_values(rows: list[dict[str, Any]], values: list[str]) -> "pa.RecordBatch":
    picked = [row for row in rows if row["value"].decode() in values]
    return pa.RecordBatch.from_pylist(
        [{"topic": row["topic"], "message_id": row["message_id"]} for row in picked]
    )


def test_messages_are_skipped_by_id(
    publish: Publish,
    client: magnetar.Client,
    topic: str,
    tables: Tables,
    options: dict[str, str],
    rest: httpx.Client,
) -> None:
    rest.put(f"{path_of(topic)}/partitions", json=2).raise_for_status()
    client.subscribe(topic, "s", magnetar.ConsumerType.Shared, initial_position=EARLIEST).close()
    publish(topic, texts(40), batch=4)
    rows = tables.read(IDS, mode="backlog", subscription="s")
    assert sorted(row["value"].decode() for row in rows) == sorted(texts(40))
    given = {k: v for k, v in options.items() if k != "topic"}
    given |= {"operation": "skip", "subscription": "s"}
    poison = ["v3", "v7", "v20", "v39"]
    batches = [rows_of_values(rows, poison[:2]), rows_of_values(rows, poison[1:])]

    dry = SkipWriter({**given, "dryRun": "true"}, SCHEMA, False)
    dry.commit([dry.write(iter(batches)), None])
    assert len(backlog(tables)) == 40

    writer = SkipWriter(given, SCHEMA, False)
    for _ in range(2):  # a task that is run again, and a commit too
        writer.commit([writer.write(iter(batches[:1])), writer.write(iter(batches))])
        assert sorted(backlog(tables)) == sorted(set(texts(40)) - set(poison))
    writer.abort([])


def test_a_skip_is_all_or_nothing(
    publish: Publish, client: magnetar.Client, topic: str, tables: Tables, options: dict[str, str]
) -> None:
    client.subscribe(topic, "s", magnetar.ConsumerType.Shared, initial_position=EARLIEST).close()
    publish(topic, texts(3))
    ledger = tables.read("ledger_id long")[0]["ledger_id"]
    schema = StructType().add("topic", StringType())
    schema = schema.add("ledger_id", LongType()).add("entry_id", LongType())
    given = {k: v for k, v in options.items() if k != "topic"} | {"subscription": "s"}
    writer = SkipWriter({**given, "operation": "skip"}, schema, False)
    rows = [{"topic": topic, "ledger_id": ledger, "entry_id": entry} for entry in (1, 99)]
    with pytest.raises(ConnectError, match="HTTP 4"):
        writer.commit([writer.write(iter([pa.RecordBatch.from_pylist(rows)]))])
    assert backlog(tables) == texts(3)
    writer.commit([writer.write(iter([pa.RecordBatch.from_pylist(rows[:1])]))])
    assert backlog(tables) == ["v0", "v2"]


def test_skips_that_cannot_be(options: dict[str, str]) -> None:
    given = {k: v for k, v in options.items() if k != "topic"} | {"operation": "skip"}
    with pytest.raises(SettingsError, match="subscription: missing"):
        SkipWriter(given, SCHEMA, False)
    given["subscription"] = "s"
    with pytest.raises(SettingsError, match="use append"):
        SkipWriter(given, SCHEMA, True)
    with pytest.raises(SettingsError, match="a skip needs `topic`"):
        SkipWriter(given, StructType().add("topic", StringType()), False)
    with pytest.raises(SettingsError, match="delivery: no such option"):
        SkipWriter({**given, "delivery": "exactlyOnce"}, SCHEMA, False)
    del given["adminUrl"]
    with pytest.raises(SettingsError, match="adminUrl: missing"):
        SkipWriter(given, SCHEMA, False)
