"""The same jobs at Apache Pulsar: the same rows, acks that count, and clear words for the rest.

The same messages are published to both brokers, by the same client.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StringType, StructType
from support.broker_process import BrokerProcess
from support.tables import Tables, path_of, rows_of

import magnetar
from magnetar.errors import OperationNotSupported
from magnetar.schema import AvroSchema, Integer, JsonSchema, Record, String, StringSchema
from magnetar.spark.connect import drop_clients
from magnetar.spark.pipelines.archive import ArchiveOptions, archive
from magnetar.spark.pipelines.letter.target import Target
from magnetar.spark.plan.options import WriteOptions
from magnetar.spark.publish import TaskId, publish
from magnetar.spark.skip import SkipWriter

pytestmark = pytest.mark.apache

ALL = ReadAllAvailable()
SPACE = "persistent://public/default"
TOPICS = ("batches", "alone", "parts", "chunks", "json", "avro", "text")
# Where an entry lies, and when it came there, is each broker's own.
OWN = ("message_id", "ledger_id", "entry_id", "publish_time")


class PointV1(Record):
    _name = "Point"
    x = Integer()
    label = String()


class PointV2(Record):
    _name = "Point"
    x = Integer()
    label = String()
    y = Integer(default=0, required_default=True)


@pytest.fixture(scope="module")
def apache() -> Iterator[dict[str, str]]:
    """How to reach an Apache Pulsar that has the messages."""
    from apache.harness import ApachePulsar, require_artifacts

    require_artifacts()
    with ApachePulsar(fsync=False) as server:
        fill(server.url, server.http_url)
        yield {"serviceUrl": server.url, "adminUrl": server.http_url}
        drop_clients()


@pytest.fixture(scope="module")
def ours(broker: BrokerProcess) -> dict[str, str]:
    fill(broker.url, broker.http_url)
    return {"serviceUrl": broker.url, "adminUrl": broker.http_url}


def fill(url: str, http_url: str) -> None:
    partitions = f"{http_url}/admin/v2/persistent/public/default/same-parts/partitions"
    httpx.put(partitions, json=3, timeout=30).raise_for_status()
    with magnetar.Client(url, stats_interval_in_seconds=0) as client:
        # A topic without a subscription keeps nothing, and is deleted after a while.
        for topic in TOPICS:
            client.subscribe(f"{SPACE}/same-{topic}", "keep").close()
        for compression in ("NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"):
            kind = magnetar.CompressionType[compression]
            send(client, "same-batches", f"b-{compression}", batch=7, compression_type=kind)
            send(client, "same-alone", f"a-{compression}", compression_type=kind)
        send(client, "same-parts", "parts", batch=4)
        large = client.create_producer(
            f"{SPACE}/same-chunks", "c", chunking_enabled=True, chunk_max_message_size=300
        )
        for i in range(5):
            large.send(b"%d" % i * 1000, partition_key=f"k{i}", properties={"i": str(i)})
            large.send(b"small")
        for name, schema in (("same-json", JsonSchema), ("same-avro", AvroSchema)):
            for record in (PointV1, PointV2):
                producer = client.create_producer(
                    f"{SPACE}/{name}", record.__name__, schema=schema(record)
                )
                producer.send(record(x=1, label="ü"))
                producer.send(record(x=2))
        texts = client.create_producer(f"{SPACE}/same-text", "t", schema=StringSchema())
        texts.send("grün")


def send(client: magnetar.Client, topic: str, name: str, *, batch: int = 1, **options: Any) -> None:
    producer = client.create_producer(
        f"{SPACE}/{topic}",
        name,
        batching_enabled=batch > 1,
        batching_max_messages=max(batch, 2),
        batching_max_publish_delay_ms=60_000,
        **options,
    )
    for i in range(20):
        more: dict[str, Any] = {}
        # Where messages without a key go is chance.
        if i % 3 or topic == "same-parts":
            more = {"partition_key": f"k{i % 5}", "properties": {"i": str(i), "ö": "ü"}}
        if i % 4 == 1:
            more |= {"ordering_key": f"o{i}", "event_timestamp": 1_700_000_000_000 + i}
        producer.send_async(b"%s %d" % (name.encode(), i), None, **more)
    producer.flush()
    producer.close()


def without_own(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in row if name not in OWN} for row in rows]


@pytest.mark.parametrize("topic", TOPICS)
def test_both_brokers_give_the_same_rows(
    ours: dict[str, str], apache: dict[str, str], topic: str
) -> None:
    decoded = topic in ("json", "avro", "text")
    found = []
    for options in (ours, apache):
        tables = Tables({**options, "topic": f"{SPACE}/same-{topic}"})
        more = {"valueSchema": "topic"} if decoded else {}
        whole = without_own(tables.read(**more))
        assert without_own(tables.read(minPartitions="9", **more)) == whole
        found.append(whole)
    assert found[0]
    assert found[0] == found[1]


def test_one_spark_job_reads_both_alike(
    spark: SparkSession, ours: dict[str, str], apache: dict[str, str]
) -> None:
    frames = [
        spark.read.format("magnetar")
        .options(**options, topic=f"{SPACE}/same-batches", minPartitions="2")
        .load()
        .drop(*OWN)
        .withColumn("properties", F.to_json("properties"))
        for options in (ours, apache)
    ]
    assert frames[0].exceptAll(frames[1]).count() == 0
    assert frames[1].exceptAll(frames[0]).count() == 0
    assert frames[0].count() == 100


def test_archives_of_both_brokers_have_the_same_rows(
    spark: SparkSession, ours: dict[str, str], apache: dict[str, str], tmp_path: Path
) -> None:
    topics = tuple(f"{SPACE}/same-{name}" for name in ("batches", "alone", "parts", "chunks"))
    found = []
    for name, given in (("ours", ours), ("apache", apache)):
        target = Target(given["serviceUrl"], given["adminUrl"])
        options = ArchiveOptions(
            target=target,
            subscription="archive",
            to=str(tmp_path / name),
            topics=topics,
            rows_max=90,
        )
        facts = archive(spark, options)
        assert (facts["messages"], facts["topics"], facts["backlog left"]) == (230, 6, 0)
        assert archive(spark, options)["messages"] == 0, "it is acknowledged, and done"
        frame = spark.read.parquet(options.to).drop(*OWN, "day")
        found.append(sorted(str(row) for row in frame.collect()))
    assert len(found[0]) == 230
    assert found[0] == found[1]


def test_a_stream_is_acked_at_apache_pulsar(apache: dict[str, str]) -> None:
    topic = f"{SPACE}/acked"
    with magnetar.Client(apache["serviceUrl"], stats_interval_in_seconds=0) as client:
        send(client, "acked", "p", batch=7)
        expected = [f"p {i}" for i in range(20)]
        tables = Tables({**apache, "topic": topic})
        reader = tables.stream(startingOffsets="earliest", subscription="s", maxRowsPerTrigger="10")
        limit = reader.getDefaultReadLimit()
        start = reader.initialOffset()
        first = reader.latestOffset(start, limit)
        found = [rows_of(reader.read(split)) for split in reader.partitions(start, first)]
        assert [row["value"].decode() for rows in found for row in rows] == expected[:10]
        second = reader.latestOffset(first, limit)
        consumer = client.subscribe(topic, "s", magnetar.ConsumerType.Failover)
        left = [consumer.receive(20_000).data().decode() for _ in range(10)]
        assert left == expected[10:], "acked inside of a batch"
        consumer.close()
        assert reader.latestOffset(second, ALL) == second
        stats = httpx.get(f"{apache['adminUrl']}/admin/v2{path_of(topic)}/stats").json()
        assert stats["subscriptions"]["s"]["msgBacklog"] == 0


def test_a_sink_publishes_once_to_apache_pulsar(apache: dict[str, str], checkpoint: str) -> None:
    options = {**apache, "topic": f"{SPACE}/sunk"}
    sink = WriteOptions({**options, "checkpointLocation": checkpoint})
    values = [b"%03d" % i for i in range(500)]
    rows = [pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})]
    for attempt in range(2):
        publish(sink, TaskId("query", 0, 0, attempt), iter(rows))
    assert Tables(options).values() == [value.decode() for value in values]


def test_what_apache_pulsar_cannot_tell_is_said(apache: dict[str, str]) -> None:
    topic = f"{SPACE}/same-alone"
    with magnetar.Client(apache["serviceUrl"], stats_interval_in_seconds=0) as client:
        client.subscribe(topic, "b", magnetar.ConsumerType.Shared).close()
    tables = Tables({**apache, "topic": topic})
    with pytest.raises(OperationNotSupported, match="is the broker Magnetar"):
        tables.values(mode="backlog", subscription="b")
    ids = StructType().add("topic", StringType()).add("message_id", BinaryType())
    writer = SkipWriter({**apache, "operation": "skip", "subscription": "b"}, ids, False)
    row = {"topic": topic, "message_id": tables.read()[0]["message_id"]}
    gathered = writer.write(iter([pa.RecordBatch.from_pylist([row])]))
    with pytest.raises(OperationNotSupported, match="is the broker Magnetar"):
        writer.commit([gathered])
