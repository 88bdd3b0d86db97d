"""What a read gives: columns, positions, splits, values, losses. In one process, without a JVM."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.broker_process import BrokerProcess
from support.interrupted import Interrupted
from support.tables import (
    SMALL_LEDGER,
    Tables,
    path_of,
    publish_raw,
    publish_unreadable,
    rows_of,
    texts,
    trim,
)

import magnetar
from magnetar.arrow import read
from magnetar.arrow.loss import DataLossError
from magnetar.errors import InvalidMessage, SettingsError
from magnetar.schema import AvroSchema, Integer, JsonSchema, Record, String
from magnetar.spark.connect import drop_clients

Publish = Callable[..., None]


# ---- Columns -----------------------------------------------------------------


def test_all_columns(client: magnetar.Client, topic: str, tables: Tables) -> None:
    ids: list[Any] = []
    for batching in (True, False):
        producer = client.create_producer(
            topic,
            producer_name=f"p-{batching}",
            batching_enabled=batching,
            batching_max_publish_delay_ms=60_000,
            initial_sequence_id=10,
        )
        for i in range(2):
            producer.send_async(
                b"v%d" % i,
                lambda result, id: ids.append(id),
                partition_key=f"k{i}",
                ordering_key=f"o{i}",
                properties={"n": str(i), "ö": "ü"},
                event_timestamp=1000 + i,
            )
        producer.send_async(b"", lambda result, id: ids.append(id))
        producer.flush()
        producer.close()
    before = time.time()
    rows = tables.read()
    assert [row["value"] for row in rows] == [b"v0", b"v1", b""] * 2
    assert [row["key"] for row in rows] == [b"k0", b"k1", None] * 2
    assert [row["ordering_key"] for row in rows] == [b"o0", b"o1", None] * 2
    assert [dict(row["properties"]) for row in rows[:3]] == [
        {"n": "0", "ö": "ü"},
        {"n": "1", "ö": "ü"},
        {},
    ]
    assert [row["event_time"] and row["event_time"].timestamp() for row in rows[:3]] == [
        1.0,
        1.001,
        None,
    ]
    assert [row["sequence_id"] for row in rows] == [11, 12, 13] * 2
    assert [row["producer"] for row in rows] == ["p-True"] * 3 + ["p-False"] * 3
    assert [row["batch_index"] for row in rows] == [0, 1, 2, -1, -1, -1]
    assert [row["message_id"] for row in rows] == [id.serialize() for id in ids]
    assert [(row["ledger_id"], row["entry_id"]) for row in rows] == [
        (id.ledger_id(), id.entry_id()) for id in ids
    ]
    assert {row["topic"] for row in rows} == {topic}
    assert {row["partition"] for row in rows} == {-1}
    assert {row["redelivery_count"] for row in rows} == {0}
    assert {row["schema_version"] for row in rows} == {None}
    assert all(abs(row["publish_time"].timestamp() - before) < 60 for row in rows)


def test_only_the_columns_that_are_asked_for(publish: Publish, topic: str, tables: Tables) -> None:
    publish(topic, texts(3), batch=2)
    rows = tables.read("entry_id long, value binary, batch_index int")
    assert rows == [
        {"entry_id": 0, "value": b"v0", "batch_index": 0},
        {"entry_id": 0, "value": b"v1", "batch_index": 1},
        {"entry_id": 1, "value": b"v2", "batch_index": 0},
    ]
    with pytest.raises(SettingsError, match="no column color; there are value, key"):
        tables.read("color string")
    with pytest.raises(SettingsError, match="entry_id is bigint, not string"):
        tables.read("entry_id string")


def test_keys_that_were_bytes_and_properties_that_come_twice(
    broker: BrokerProcess, topic: str, tables: Tables
) -> None:
    for key in ("//79", "not base64!"):
        raw = publish_raw(
            broker.url,
            topic,
            b"x",
            partition_key=key,
            partition_key_b64_encoded=True,
            properties=[("a", "1"), ("b", "2"), ("a", "3")],
        )
        asyncio.run(raw)
    rows = tables.read()
    assert [row["key"] for row in rows] == [b"\xff\xfe\xfd", b"not base64!"]
    assert [dict(row["properties"]) for row in rows] == [{"a": "3", "b": "2"}] * 2


@pytest.mark.parametrize("compression", ["LZ4", "ZLib", "ZSTD", "SNAPPY"])
def test_compressed_batches(
    client: magnetar.Client, topic: str, tables: Tables, compression: str
) -> None:
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        compression_type=magnetar.CompressionType[compression],
        batching_max_publish_delay_ms=60_000,
    )
    for text in texts(100):
        producer.send_async(text.encode(), None)
    producer.flush()
    assert tables.values() == texts(100)


def test_record_batches_are_bounded(publish: Publish, topic: str, tables: Tables) -> None:
    publish(topic, texts(100), batch=10)
    reader = tables._reader("value binary", {"rowsPerBatch": "25"})
    (split,) = reader.partitions()
    assert [batch.num_rows for batch in reader.read(split)] == [30, 30, 30, 10]


def test_record_batches_are_bounded_by_what_they_take_in_memory(
    client: magnetar.Client, topic: str, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compressed, a thousand times as much may come."""
    monkeypatch.setattr(read, "BATCH_BYTES", 1 << 20)
    producer = client.create_producer(topic, compression_type=magnetar.CompressionType.ZSTD)
    for _ in range(10):
        producer.send(bytes(400_000))
    reader = tables._reader("value binary", {})
    (split,) = reader.partitions()
    assert [batch.num_rows for batch in reader.read(split)] == [3, 3, 3, 1]


# ---- Positions ---------------------------------------------------------------


def test_an_empty_topic(client: magnetar.Client, topic: str, tables: Tables) -> None:
    client.create_producer(topic).close()
    assert tables.splits() == []
    assert tables.read() == []


def test_positions_inside_of_batches(publish: Publish, topic: str, tables: Tables) -> None:
    publish(topic, texts(10), batch=5)
    ledger = tables.read("ledger_id long")[0]["ledger_id"]
    assert tables.values(startingOffsets=f"{ledger}:0:3") == texts(10)[3:]
    assert tables.values(endingOffsets=f"{ledger}:1:2") == texts(10)[:7]
    assert tables.values(startingOffsets=f"{ledger}:0:1", endingOffsets=f"{ledger}:0:4") == [
        "v1",
        "v2",
        "v3",
    ]
    assert tables.values(startingOffsets=f"{ledger}:1") == texts(10)[5:]
    assert tables.values(startingOffsets="latest") == []
    assert tables.values(startingOffsets=json.dumps({topic: f"{ledger}:0:9"})) == texts(10)[5:]


def test_positions_by_time(publish: Publish, topic: str, tables: Tables) -> None:
    publish(topic, texts(3))
    time.sleep(0.05)
    middle = time.time_ns() // 1_000_000
    publish(topic, ["late"])
    assert tables.values(startingTimestamp=str(middle)) == ["late"]
    assert tables.values(endingTimestamp=str(middle)) == texts(3)
    assert tables.values(startingTimestamp=str(middle + 3_600_000)) == []
    assert tables.values(startingTimestamp="0") == [*texts(3), "late"]


def test_several_topics_and_patterns(
    publish: Publish, topic: str, tables: Tables, rest: httpx.Client, options: dict[str, str]
) -> None:
    rest.put(f"{path_of(topic)}-a/partitions", json=2).raise_for_status()
    publish(f"{topic}-a", texts(6))
    publish(f"{topic}-b", ["b"])
    del options["topic"]
    both = Tables(options)
    for how in ({"topics": f"{topic}-a,{topic}-b"}, {"topicsPattern": f"{topic}-[ab]"}):
        rows = both.read("value binary, topic string, partition int", **how)
        assert sorted(row["value"] for row in rows) == sorted(
            [t.encode() for t in texts(6)] + [b"b"]
        )
        assert {(row["topic"], row["partition"]) for row in rows} == {
            (f"{topic}-a-partition-0", 0),
            (f"{topic}-a-partition-1", 1),
            (f"{topic}-b", -1),
        }
    with pytest.raises(SettingsError, match="one id for several topic partitions"):
        both.read(topics=f"{topic}-a", startingOffsets="1:1")


# ---- Splits ------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [1, 2, 3, 7, 50])
def test_splits_have_everything_once(
    publish: Publish, topic: str, tables: Tables, wanted: int
) -> None:
    publish(topic, texts(100), batch=3)
    splits = tables.splits(minPartitions=str(wanted))
    assert len(splits) == min(wanted, 34)
    assert tables.values(minPartitions=str(wanted)) == texts(100)


def test_splits_by_rows_and_bytes(publish: Publish, topic: str, tables: Tables) -> None:
    publish(topic, texts(100), batch=5)
    assert len(tables.splits(maxRowsPerPartition="10")) == 10
    assert len(tables.splits(maxBytesPerPartition="1")) == 20
    assert tables.values(maxRowsPerPartition="10") == texts(100)


def test_splits_over_several_ledgers(
    publish: Publish, client: magnetar.Client, topic: str, tables: Tables
) -> None:
    # A subscription keeps the ledgers.
    client.subscribe(topic, "keep", initial_position=magnetar.InitialPosition.Earliest).close()
    publish(topic, texts(SMALL_LEDGER * 3 - 20))
    ledgers = {row["ledger_id"] for row in tables.read("ledger_id long")}
    assert len(ledgers) == 3
    assert len(tables.splits(minPartitions="10")) >= 10
    assert tables.values(minPartitions="10") == texts(SMALL_LEDGER * 3 - 20)
    without = Tables({k: v for k, v in tables._options.items() if k != "adminUrl"})
    assert len(without.splits(minPartitions="1")) == 2
    assert without.values(minPartitions="10") == texts(SMALL_LEDGER * 3 - 20)


# ---- Losses ------------------------------------------------------------------


def test_a_position_that_was_trimmed_is_a_loss(
    publish: Publish, topic: str, tables: Tables, rest: httpx.Client
) -> None:
    publish(topic, texts(SMALL_LEDGER + 1))
    first = tables.read("ledger_id long")[0]["ledger_id"]
    trim(rest, topic)
    left = tables.read("ledger_id long, value binary")
    assert [row["value"].decode() for row in left] == texts(SMALL_LEDGER + 1)[-1:]
    last = left[0]["ledger_id"]
    with pytest.raises(DataLossError, match=f"from {first}:0 up to {last}:0.*onDataLoss to warn"):
        tables.values(startingOffsets=f"{first}:0")
    with pytest.raises(DataLossError, match=f"from {first}:5 up to {last}:0"):
        tables.values(startingOffsets=f"{first}:5")
    kept = tables.values(startingOffsets=f"{first}:5", onDataLoss="warn")
    assert kept == [left[0]["value"].decode()]


def test_the_end_of_a_ledger_is_no_loss(
    publish: Publish, client: magnetar.Client, topic: str, tables: Tables
) -> None:
    client.subscribe(topic, "keep", initial_position=magnetar.InitialPosition.Earliest).close()
    publish(topic, texts(SMALL_LEDGER + 1))
    ledger = tables.read("ledger_id long")[0]["ledger_id"]
    assert tables.values(startingOffsets=f"{ledger}:{SMALL_LEDGER}") == [f"v{SMALL_LEDGER}"]


def test_a_range_that_is_gone_with_its_topic(publish: Publish, topic: str, tables: Tables) -> None:
    publish(topic, texts(3))
    ledger = tables.read("ledger_id long")[0]["ledger_id"]
    with pytest.raises(DataLossError, match=f"from {ledger}:3 up to {ledger}:9"):
        tables.values(endingOffsets=f"{ledger}:9")


# ---- Values ------------------------------------------------------------------


class PointV1(Record):
    _name = "Point"
    x = Integer()
    label = String()


class PointV2(Record):
    _name = "Point"
    x = Integer()
    label = String()
    y = Integer(default=0, required_default=True)


@pytest.mark.parametrize("schema", [JsonSchema, AvroSchema])
def test_records_of_all_versions(
    client: magnetar.Client, topic: str, tables: Tables, schema: Any
) -> None:
    for record, fields in ((PointV1, {"x": 1, "label": "a"}), (PointV2, {"x": 2, "y": 3})):
        producer = client.create_producer(topic, schema=schema(record))
        producer.send(record(**fields))
        producer.close()
    rows = tables.read(valueSchema="topic")
    assert [row["value"] for row in rows] == [
        {"x": 1, "label": "a", "y": None},
        {"x": 2, "label": None, "y": 3},
    ]
    assert [row["schema_version"] for row in rows] == [0, 1]


def test_a_topic_that_was_made_anew_has_schemas_of_its_own(
    client: magnetar.Client, topic: str, tables: Tables, rest: httpx.Client
) -> None:
    """Versions begin anew too; workers outlive topics, and read from several brokers."""

    class Named(Record):
        name = String()

    producer = client.create_producer(topic, schema=AvroSchema(PointV1))
    producer.send(PointV1(x=1, label="a"))
    producer.close()
    assert [row["value"] for row in tables.read(valueSchema="topic")] == [{"x": 1, "label": "a"}]
    drop_clients()
    rest.delete(path_of(topic), params={"force": "true"}).raise_for_status()
    client.create_producer(topic, schema=AvroSchema(Named)).send(Named(name="anew"))
    (row,) = tables.read(valueSchema="topic")
    assert (row["value"], row["schema_version"]) == ({"name": "anew"}, 0)


def test_bad_records(publish: Publish, client: magnetar.Client, topic: str, tables: Tables) -> None:
    producer = client.create_producer(topic, schema=JsonSchema(PointV1))
    producer.send(PointV1(x=1, label="a"))
    producer.close()
    publish(topic, ["no json", '{"x": "text"}', '{"x": 5}'])
    with pytest.raises(InvalidMessage, match="set badRecords to null or column"):
        tables.read(valueSchema="topic")
    rows = tables.read(valueSchema="topic", badRecords="null")
    good = [{"x": 1, "label": "a"}, None, None, {"x": 5, "label": None}]
    assert [row["value"] for row in rows] == good
    assert "bad_record" not in rows[0]
    rows = tables.read(valueSchema="topic", badRecords="column")
    assert [row["value"] for row in rows] == good
    assert [row["bad_record"] is None for row in rows] == [True, False, False, True]
    assert "JSONDecodeError" in rows[1]["bad_record"]


def test_text(client: magnetar.Client, topic: str, tables: Tables) -> None:
    producer = client.create_producer(topic)
    producer.send("grün".encode())
    producer.send(b"\xff")
    with pytest.raises(InvalidMessage, match="badRecords"):
        tables.read("value string", valueSchema="string")
    rows = tables.read(valueSchema="string", badRecords="column")
    assert [row["value"] for row in rows] == ["grün", None]


def test_entries_that_cannot_be_read(
    publish: Publish, topic: str, tables: Tables, broker: BrokerProcess
) -> None:
    """A batch that is none: its producer says that there are more messages than there are."""
    publish(topic, ["before"])
    asyncio.run(publish_unreadable(broker.url, topic, count=3))
    publish(topic, ["after"])
    with pytest.raises(InvalidMessage, match=r"cannot be read.*badRecords"):
        tables.values()
    rows = tables.read(badRecords="column")
    assert [row["value"] for row in rows] == [b"before", None, b"after"]
    assert "cannot be read" in rows[1]["bad_record"]


def test_a_plan_is_read_twice_alike(publish: Publish, topic: str, tables: Tables) -> None:
    publish(topic, texts(10))
    reader = tables._reader("value binary", {})
    splits = reader.partitions()
    publish(topic, ["later"])
    first = [rows_of(reader.read(split)) for split in splits]
    assert first == [rows_of(reader.read(split)) for split in splits]
    assert sum(map(len, first)) == 10


@pytest.mark.parametrize("every", [1, 7, 20])
def test_connections_that_break_in_the_middle_of_a_split(
    publish: Publish,
    client: magnetar.Client,
    topic: str,
    broker: BrokerProcess,
    options: dict[str, str],
    every: int,
) -> None:
    """Each message once, however often the broker must be connected to again."""
    # A subscription keeps what is there while no reader is connected.
    client.subscribe(topic, "keep").close()
    publish(topic, texts(SMALL_LEDGER * 10), batch=5)
    cuts = 0
    with Interrupted(broker.url) as proxy:

        def cut() -> None:
            nonlocal cuts
            cuts += 1
            proxy.cut()
            if cuts < 4:
                proxy.after(every, cut)

        proxied = Tables({**options, "serviceUrl": proxy.url})
        reader = proxied._reader("value binary", {"rowsPerBatch": "10"})
        splits = reader.partitions()
        proxy.after(every, cut)
        found = [row for split in splits for row in rows_of(reader.read(split))]
        drop_clients()
    assert cuts == 4
    assert [row["value"].decode() for row in found] == texts(SMALL_LEDGER * 10)


def test_a_broker_that_is_killed_in_the_middle_of_a_split(tmp_path: Path) -> None:
    count = 3000
    with BrokerProcess(tmp_path / "data") as broker, Interrupted(broker.url) as proxy:
        with magnetar.Client(broker.url) as client:
            producer = client.create_producer(
                "killed", batching_enabled=True, batching_max_messages=20, block_if_queue_full=True
            )
            for i in range(count):
                producer.send_async(b"%06d" % i, None)
            producer.flush()
        reader = Tables({"serviceUrl": proxy.url, "topic": "killed"})._reader("value binary", {})
        splits = reader.partitions()

        def kill() -> None:
            broker.kill()
            broker.restart()

        proxy.after(50, kill)
        found = [row for split in splits for row in rows_of(reader.read(split))]
        drop_clients()
    assert [row["value"] for row in found] == [b"%06d" % i for i in range(count)]
