"""What a stream decides: offsets, limits, growth, acks. In one process, without a JVM.

A reader is asked as Spark asks it: initialOffset, latestOffset, partitions, and so on.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from support.broker_process import BrokerProcess
from support.tables import (
    SMALL_LEDGER,
    Tables,
    backlog_of,
    path_of,
    publish_unreadable,
    rows_of,
    texts,
)

import magnetar
from magnetar.arrow.loss import DataLossError
from magnetar.errors import SettingsError
from magnetar.spark import driver
from magnetar.spark.stream import StreamReader

Publish = Callable[..., None]
ALL = ReadAllAvailable()


def read(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    splits = reader.partitions(start, end)
    return [row["value"].decode() for split in splits for row in rows_of(reader.read(split))]


def unacked(client: magnetar.Client, topic: str, subscription: str) -> list[str]:
    """What the subscription would deliver, looked at and given back."""
    consumer = client.subscribe(topic, subscription, consumer_type=magnetar.ConsumerType.Failover)
    found: list[str] = []
    try:
        while True:
            found.append(consumer.receive(200).data().decode())
    except magnetar.Timeout:
        consumer.close()
    return found


@pytest.fixture(autouse=True)
def ends_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker said of the ends of topics serves for a moment; not here."""
    monkeypatch.setattr(driver, "ENDS_FRESH_S", -1.0)


# ---- Offsets -----------------------------------------------------------------


def test_a_stream_from_the_beginning(publish: Publish, topic: str, tables: Tables) -> None:
    publish(topic, texts(5), batch=2)
    reader = tables.stream(startingOffsets="earliest")
    start = reader.initialOffset()
    assert reader.initialOffset() == start
    end = reader.latestOffset(start, ALL)
    assert read(reader, start, end) == texts(5)
    assert reader.latestOffset(end, ALL) == end
    publish(topic, ["more"])
    further = reader.latestOffset(end, ALL)
    assert read(reader, end, further) == ["more"]
    # Spark compares offsets as text.
    for offset in (start, end, further):
        assert json.dumps(offset) == json.dumps(offset, sort_keys=True)
    reader.stop()
    reader.stop()


def test_an_idle_stream_does_not_ask_at_every_poll(
    publish: Publish, topic: str, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark polls as fast as it can."""
    publish(topic, texts(1))
    reader = tables.stream(startingOffsets="earliest")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    with monkeypatch.context() as patch:
        patch.setattr(driver, "ENDS_FRESH_S", 3600.0)
        publish(topic, ["more"])
        for _ in range(3):
            assert reader.latestOffset(end, ALL) == end
            reader.reportLatestOffset()
    assert read(reader, end, reader.latestOffset(end, ALL)) == ["more"]


def test_a_stream_from_the_end(publish: Publish, topic: str, tables: Tables) -> None:
    publish(topic, texts(3))
    reader = tables.stream()
    start = reader.initialOffset()
    publish(topic, ["new"])
    assert reader.initialOffset() == start, "asked twice, it is the same"
    assert read(reader, start, reader.latestOffset(start, ALL)) == ["new"]


def test_a_stream_of_an_empty_topic_misses_nothing(
    publish: Publish, client: magnetar.Client, topic: str, tables: Tables
) -> None:
    client.create_producer(topic).close()
    reader = tables.stream()
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == start
    publish(topic, texts(2))
    assert read(reader, start, reader.latestOffset(start, ALL)) == texts(2)


def test_an_uncommitted_batch_is_planned_alike_by_another_process(
    publish: Publish, topic: str, tables: Tables
) -> None:
    publish(topic, texts(SMALL_LEDGER * 2), batch=1)
    options = {"startingOffsets": "earliest", "minPartitions": "7", "maxRowsPerPartition": "50"}
    reader = tables.stream(**options)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    plan = [split.value for split in reader.partitions(start, end)]
    # What Spark has of a batch that was not committed is the text of its offsets.
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    publish(topic, ["later"])
    other = tables.stream(**options)
    assert [split.value for split in other.partitions(start, end)] == plan
    assert read(other, start, end) == texts(SMALL_LEDGER * 2)


def test_partitions_that_are_added_are_read(
    publish: Publish, topic: str, tables: Tables, rest: httpx.Client
) -> None:
    rest.put(f"{path_of(topic)}/partitions", json=1).raise_for_status()
    publish(topic, texts(3))
    reader = tables.stream(
        startingOffsets="earliest", subscription="grown", discoveryIntervalMs="0"
    )
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert read(reader, start, end) == texts(3)
    rest.post(f"{path_of(topic)}/partitions", json=2).raise_for_status()
    publish(f"{topic}-partition-1", ["added"])
    further = reader.latestOffset(end, ALL)
    assert set(further["topics"]) == {f"{topic}-partition-{i}" for i in range(2)}
    assert read(reader, end, further) == ["added"]
    assert backlog_of(rest, f"{topic}-partition-1", "grown") == 1


def test_a_topic_that_is_deleted_is_a_loss(
    publish: Publish, topic: str, tables: Tables, rest: httpx.Client, options: dict[str, str]
) -> None:
    publish(f"{topic}-a", texts(1))
    publish(f"{topic}-b", texts(1))
    del options["topic"]
    both = Tables({**options, "topicsPattern": f"{topic}-.*", "discoveryIntervalMs": "0"})
    fails, warns = (
        both.stream(startingOffsets="earliest", onDataLoss=what) for what in ("fail", "warn")
    )
    start = fails.initialOffset()
    rest.delete(f"{path_of(topic)}-a", params={"force": "true"}).raise_for_status()
    with pytest.raises(DataLossError, match=r"-a lost everything \(the topic is gone\)"):
        fails.latestOffset(start, ALL)
    assert warns.latestOffset(start, ALL)["topics"][f"{topic}-a"] == start["topics"][f"{topic}-a"]


# ---- Limits ------------------------------------------------------------------


@pytest.mark.parametrize("rows_max", [1, 3, 7])
def test_rows_per_trigger_are_exact_inside_of_batches(
    publish: Publish, topic: str, tables: Tables, rows_max: int
) -> None:
    publish(topic, texts(20), batch=5)
    reader = tables.stream(startingOffsets="earliest", maxRowsPerTrigger=str(rows_max))
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    at = reader.initialOffset()
    found: list[list[str]] = []
    while (end := reader.latestOffset(at, limit)) != at:
        found.append(read(reader, at, end))
        at = end
    assert [text for part in found for text in part] == texts(20)
    assert {len(part) for part in found[:-1]} == {rows_max}


def test_a_batch_that_cannot_be_read_is_one_row_however_it_is_divided(
    publish: Publish, topic: str, tables: Tables, broker: BrokerProcess
) -> None:
    publish(topic, ["before"])
    asyncio.run(publish_unreadable(broker.url, topic, count=5))
    publish(topic, ["after"])
    reader = tables.stream(
        "value binary, bad_record string",
        startingOffsets="earliest",
        maxRowsPerTrigger="2",
        badRecords="column",
    )
    limit = reader.getDefaultReadLimit()
    at = reader.initialOffset()
    rows: list[dict[str, Any]] = []
    while (end := reader.latestOffset(at, limit)) != at:
        for split in reader.partitions(at, end):
            rows += rows_of(reader.read(split))
        at = end
    assert [row["value"] for row in rows] == [b"before", None, b"after"]
    assert [row["bad_record"] is None for row in rows] == [True, False, True]


def test_entries_and_bytes_per_trigger(publish: Publish, topic: str, tables: Tables) -> None:
    publish(topic, texts(20), batch=5)
    for option in ({"maxEntriesPerTrigger": "1"}, {"maxBytesPerTrigger": "1"}):
        reader = tables.stream(startingOffsets="earliest", **option)
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        assert read(reader, start, end) == texts(5)
        # Trigger.Once wants everything, whatever the options say.
        assert read(reader, start, reader.latestOffset(start, ALL)) == texts(20)


def test_too_few_rows_wait(publish: Publish, topic: str, tables: Tables) -> None:
    publish(topic, texts(3))
    reader = tables.stream(startingOffsets="earliest", minRowsPerTrigger="4")
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    assert reader.latestOffset(start, limit) == start
    publish(topic, ["enough"])
    end = reader.latestOffset(start, limit)
    assert read(reader, start, end) == [*texts(3), "enough"]
    late = tables.stream(startingOffsets="earliest", minRowsPerTrigger="50", maxTriggerDelay="0ms")
    start = late.initialOffset()
    assert late.latestOffset(start, limit) != start


def test_available_now_ends_where_it_began(publish: Publish, topic: str, tables: Tables) -> None:
    publish(topic, texts(10), batch=5)
    reader = tables.stream(startingOffsets="earliest", maxRowsPerTrigger="4")
    reader.prepareForTriggerAvailableNow()
    limit = reader.getDefaultReadLimit()
    at = reader.initialOffset()
    publish(topic, ["too late"])
    found: list[str] = []
    while (end := reader.latestOffset(at, limit)) != at:
        found += read(reader, at, end)
        at = end
    assert found == texts(10)


# ---- Acks --------------------------------------------------------------------


def test_acks_follow_what_spark_has_committed(
    publish: Publish, client: magnetar.Client, topic: str, tables: Tables, rest: httpx.Client
) -> None:
    publish(topic, texts(10), batch=5)
    reader = tables.stream(startingOffsets="earliest", subscription="spark", maxRowsPerTrigger="3")
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    assert unacked(client, topic, "spark") == texts(10)
    first = reader.latestOffset(start, limit)
    read(reader, start, first)
    assert unacked(client, topic, "spark") == texts(10), "the first batch is not committed yet"
    second = reader.latestOffset(first, limit)
    assert unacked(client, topic, "spark") == texts(10)[3:], "inside of a batch"
    reader.commit(first)
    assert unacked(client, topic, "spark") == texts(10)[3:]
    reader.commit(second)
    assert unacked(client, topic, "spark") == texts(10)[6:]
    # Another process that goes on from the checkpoint acks what that has.
    other = tables.stream(subscription="spark", startingOffsets="earliest")
    end = other.latestOffset(second, ALL)
    assert read(other, second, end) == texts(10)[6:]
    other.latestOffset(end, ALL)
    assert backlog_of(rest, topic, "spark") == 0


def test_a_start_is_pinned_by_the_subscription(
    publish: Publish, topic: str, tables: Tables, rest: httpx.Client
) -> None:
    publish(topic, texts(3))
    start = tables.stream(subscription="pinned").initialOffset()
    publish(topic, ["between"])
    # The driver died before its first batch was committed: a new one begins where it did.
    again = tables.stream(subscription="pinned")
    assert again.initialOffset() == start
    assert read(again, start, again.latestOffset(start, ALL)) == ["between"]


def test_a_subscription_may_begin_at_an_id_or_a_time(
    publish: Publish, topic: str, tables: Tables, rest: httpx.Client
) -> None:
    publish(topic, texts(5))
    ledger = tables.read("ledger_id long")[0]["ledger_id"]
    by_id = tables.stream(subscription="id", startingOffsets=f"{ledger}:2")
    start = by_id.initialOffset()
    assert read(by_id, start, by_id.latestOffset(start, ALL)) == texts(5)[2:]
    assert backlog_of(rest, topic, "id") == 3
    by_time = tables.stream(subscription="time", startingTimestamp="1")
    start = by_time.initialOffset()
    assert read(by_time, start, by_time.latestOffset(start, ALL)) == texts(5)


def test_what_is_reported_tells_a_listener_what_to_ack(
    publish: Publish, topic: str, tables: Tables, options: dict[str, str]
) -> None:
    publish(topic, texts(2))
    report = tables.stream(subscription="told").reportLatestOffset()
    assert report is not None
    assert report["subscription"] == "told"
    assert report["serviceUrl"] == options["serviceUrl"]
    assert list(report["topics"]) == [topic]
    assert "subscription" not in (tables.stream().reportLatestOffset() or {})


def test_bad_options_are_refused_at_once(tables: Tables) -> None:
    with pytest.raises(SettingsError, match="a stream has no end"):
        tables.stream(endingOffsets="latest")
