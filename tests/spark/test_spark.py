"""The connector in a real Spark: found by name, read, streamed, acked, written.

What each part decides is tested without a JVM beside this; here is what only Spark shows.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from support.broker_process import BrokerProcess
from support.tables import Tables, backlog_of, path_of, texts
from support.tokens import token
from support.waiting import wait_until

import magnetar
from magnetar.spark import attach

Publish = Callable[..., None]


def values(frame: DataFrame) -> list[str]:
    return [row.value.decode() for row in frame.select("value").collect()]


@pytest.fixture
def table(spark: SparkSession, options: dict[str, str]) -> Callable[..., DataFrame]:
    def table(schema: str | None = None, **more: str) -> DataFrame:
        reader = spark.read.format("magnetar").options(**{**options, **more})
        return (reader.schema(schema) if schema else reader).load()

    return table


@pytest.fixture
def stream(spark: SparkSession, options: dict[str, str]) -> Callable[..., DataFrame]:
    def stream(**more: str) -> DataFrame:
        given = {"startingOffsets": "earliest", **options, **more}
        return spark.readStream.format("magnetar").options(**given).load()

    return stream


def drain(frame: DataFrame, path: Path, checkpoint: str) -> int:
    """Writes all that is there to Parquet; says in how many micro-batches."""
    query = (
        frame.select("value", "entry_id", "batch_index")
        .writeStream.format("parquet")
        .option("path", str(path))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return len([p for p in query.recentProgress if p.numInputRows])


def test_a_topic_is_a_table(
    spark: SparkSession, publish: Publish, topic: str, table: Callable[..., DataFrame]
) -> None:
    publish(topic, texts(100), batch=7, partition_key="k", properties={"a": "b"})
    frame = table(minPartitions="3")
    assert frame.rdd.getNumPartitions() == 3
    assert sorted(values(frame)) == sorted(texts(100))
    row = frame.where("value = cast('v8' as binary)").first()
    assert row is not None
    assert (row.key, row.batch_index, row.properties) == (b"k", 1, {"a": "b"})
    assert row.topic == topic
    # The same DataFrame again is the same snapshot; a new one has what came since.
    publish(topic, ["late"])
    assert frame.count() == 100
    assert table().count() == 101
    assert table("value binary").columns == ["value"]


def test_a_view_by_sql_has_its_options(
    spark: SparkSession, publish: Publish, topic: str, options: dict[str, str]
) -> None:
    publish(topic, texts(5))
    given = ", ".join(f"{name} '{value}'" for name, value in options.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW kept USING magnetar OPTIONS ({given})")
    assert spark.sql("SELECT count(*) FROM kept WHERE entry_id < 3").head() == (3,)
    # Of a table Spark hands them over by other names: an error here, and not another topic.
    with pytest.raises(PySparkException, match=r"option\.topic: no such option"):
        spark.sql(f"CREATE TABLE forgotten USING magnetar OPTIONS ({given})")
    spark.sql("DROP VIEW kept")


def test_filters_are_right_whether_spark_pushes_them_down_or_not(
    spark: SparkSession, publish: Publish, topic: str, table: Callable[..., DataFrame]
) -> None:
    publish(topic, texts(20))
    for pushed in ("true", "false"):
        spark.conf.set("spark.sql.python.filterPushdown.enabled", pushed)
        frame = table()
        assert frame.where("entry_id >= 15").count() == 5
        assert frame.count() == 20
        both = frame.where("entry_id < 2").union(frame.where("entry_id >= 18"))
        assert both.count() == 4


def test_what_is_wrong_is_said(
    spark: SparkSession, publish: Publish, topic: str, table: Callable[..., DataFrame]
) -> None:
    with pytest.raises(PySparkException, match="topik: no such option"):
        table(topik="x").count()
    with pytest.raises(PySparkException, match="not found"):
        table(topic=f"{topic}-missing").count()
    publish(topic, ["no json"])
    with pytest.raises(PySparkException, match="valueSchema"):
        table("value struct<x:int>").count()


def test_a_stream_goes_on_where_it_was(
    publish: Publish,
    topic: str,
    stream: Callable[..., DataFrame],
    spark: SparkSession,
    rest: httpx.Client,
    tmp_path: Path,
    checkpoint: str,
) -> None:
    options = {"subscription": "archive", "maxRowsPerTrigger": "30"}
    publish(topic, texts(100)[:70], batch=8)
    assert drain(stream(**options), tmp_path / "out", checkpoint) == 3
    # The last batch of the run is acked too, before the run ends.
    assert backlog_of(rest, topic, "archive") == 0
    publish(topic, texts(100)[70:], batch=8)
    assert drain(stream(**options), tmp_path / "out", checkpoint) == 1
    assert backlog_of(rest, topic, "archive") == 0
    assert drain(stream(**options), tmp_path / "out", checkpoint) == 0
    written = spark.read.parquet(str(tmp_path / "out"))
    ordered = written.orderBy("entry_id", "batch_index")
    assert values(ordered) == texts(100)


def test_a_batch_that_was_not_committed_is_run_again(
    publish: Publish,
    topic: str,
    stream: Callable[..., DataFrame],
    rest: httpx.Client,
    spark: SparkSession,
    tmp_path: Path,
    checkpoint: str,
) -> None:
    publish(topic, texts(10))
    failing = {"fail": True}

    def write(frame: DataFrame, batch_id: int) -> None:
        frame.select("value").write.mode("append").parquet(str(tmp_path / str(batch_id)))
        if failing["fail"]:
            raise RuntimeError("the driver died here")

    def run() -> None:
        query = (
            stream(subscription="again")
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)

    with pytest.raises(PySparkException):
        run()
    assert backlog_of(rest, topic, "again") == 10, "nothing is acked before it is committed"
    publish(topic, ["meanwhile"])
    failing["fail"] = False
    run()
    assert sorted(values(spark.read.parquet(str(tmp_path / "0")))) == sorted(texts(10) * 2)
    assert values(spark.read.parquet(str(tmp_path / "1"))) == ["meanwhile"]
    assert backlog_of(rest, topic, "again") == 0


def test_a_listener_acks_the_last_batch_of_a_query_that_is_stopped(
    publish: Publish,
    topic: str,
    stream: Callable[..., DataFrame],
    spark: SparkSession,
    rest: httpx.Client,
    checkpoint: str,
) -> None:
    publish(topic, texts(10))
    with attach(spark) as listener:
        query = (
            stream(subscription="live", maxRowsPerTrigger="4")
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="0 seconds")
            .start()
        )
        query.processAllAvailable()
        query.stop()
        wait_until(lambda: listener.wait() and backlog_of(rest, topic, "live") == 0)

    def those_left() -> dict[str, int]:
        stats = rest.get(f"{path_of(topic)}/stats").json()["subscriptions"]
        return {name: len(stats[name]["consumers"]) for name in stats}

    # SIGTERM ends the reader's process, which says goodbye: nobody is left on the topic.
    wait_until(lambda: those_left() == {"live": 0})


@pytest.mark.parametrize(
    ("trigger", "batches"),
    [
        # Once takes everything, whatever the limits say; and it is deprecated, and there.
        ({"once": True}, [(10, 10)]),
        ({"availableNow": True}, [(4, 10), (4, 6), (2, 2)]),
        ({"processingTime": "0 seconds"}, [(4, 10), (4, 6), (2, 2)]),
    ],
    ids=["once", "availableNow", "processingTime"],
)
def test_each_batch_is_acked_when_it_is_committed_and_not_before(
    publish: Publish,
    topic: str,
    stream: Callable[..., DataFrame],
    spark: SparkSession,
    rest: httpx.Client,
    checkpoint: str,
    trigger: dict[str, Any],
    batches: list[tuple[int, int]],
) -> None:
    publish(topic, texts(10))
    seen: list[tuple[int, int]] = []

    def write(frame: DataFrame, batch_id: int) -> None:
        seen.append((frame.count(), backlog_of(rest, topic, "s")))

    with attach(spark) as listener:
        query = (
            stream(subscription="s", maxRowsPerTrigger="4")
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", checkpoint)
            .trigger(**trigger)
            .start()
        )
        if "processingTime" in trigger:
            query.processAllAvailable()
            query.stop()
        else:
            assert query.awaitTermination(120)
        wait_until(lambda: listener.wait() and backlog_of(rest, topic, "s") == 0)
    assert seen == batches


def test_a_listener_connects_with_the_token_that_it_is_given(
    spark: SparkSession,
    guarded: BrokerProcess,
    topic: str,
    checkpoint: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of a query that is run once nobody but the listener acks the last batch."""
    headers = {"Authorization": f"Bearer {token('root')}"}
    root = magnetar.AuthenticationToken(token("root"))
    options = {"serviceUrl": guarded.url, "topic": topic, "authToken": token("reader")}
    source = spark.readStream.format("magnetar").options(**options, subscription="s")

    def run(**given: str) -> int:
        """The messages that are left."""
        with magnetar.Client(guarded.url, authentication=root) as client:
            client.create_producer(topic).send(b"v")
        with attach(spark, **given) as listener:
            query = (
                source.option("startingOffsets", "earliest")
                .load()
                .writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(once=True)
                .start()
            )
            assert query.awaitTermination(120)
            progress = query.lastProgress
            assert progress is not None
            assert progress.numInputRows == 1
            # Spark tells a listener in its own time.
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
            assert listener.wait()
        url = f"{guarded.http_url}/admin/v2{path_of(topic)}/stats"
        stats = httpx.get(url, headers=headers).raise_for_status().json()
        left: int = stats["subscriptions"]["s"]["msgBacklog"]
        return left

    assert run() == 1
    assert "acks of s are late" in caplog.text
    assert run(authToken=token("reader")) == 0


@pytest.mark.parametrize("delivery", ["exactlyOnce", "transaction"])
def test_a_stream_is_published_once(
    delivery: str,
    publish: Publish,
    topic: str,
    stream: Callable[..., DataFrame],
    options: dict[str, str],
    tables: Tables,
    spark: SparkSession,
    checkpoint: str,
) -> None:
    publish(topic, texts(50), batch=5)
    target = f"{topic}-out"

    def run() -> None:
        query = (
            stream(maxRowsPerTrigger="20", minPartitions="2")
            .selectExpr("value", "cast(value as string) as key", "properties", "event_time")
            .writeStream.format("magnetar")
            .options(**{**options, "topic": target}, delivery=delivery)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    run()
    assert sorted(tables.values(topic=target)) == sorted(texts(50))
    # As if the driver had died after the last batch was published and before it was committed.
    commits = Path(checkpoint) / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    assert last == 2
    for path in commits.glob(f"*{last}*"):
        path.unlink()
    run()
    assert sorted(tables.values(topic=target)) == sorted(texts(50))
    rows = tables.read("value binary, key binary", topic=target)
    assert all(row["key"] == row["value"] for row in rows)


def test_a_dataframe_is_published(
    spark: SparkSession, topic: str, options: dict[str, str], tables: Tables
) -> None:
    frame = spark.range(100).selectExpr("cast(id as string) as value", "cast(id as string) as key")
    writer = frame.repartition(2).write.format("magnetar").options(**options).mode("append")
    writer.save()
    expected = sorted(str(i) for i in range(100))
    assert sorted(tables.values()) == expected
    writer.save()
    assert len(tables.values()) == 200, "run again it is a new write"
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        frame.write.format("magnetar").options(**options).mode("overwrite").save()


def test_poison_is_skipped_by_query(
    publish: Publish,
    client: magnetar.Client,
    topic: str,
    table: Callable[..., DataFrame],
    options: dict[str, str],
) -> None:
    kind, first = magnetar.ConsumerType.Shared, magnetar.InitialPosition.Earliest
    client.subscribe(topic, "s", kind, initial_position=first).close()
    publish(topic, texts(20), batch=5)
    backlog = table(mode="backlog", subscription="s")
    poison = backlog.where("cast(value as string) like 'v1_'").select("topic", "message_id")
    assert poison.count() == 10
    skip = {"operation": "skip", "subscription": "s"}
    given = {k: v for k, v in options.items() if k != "topic"} | skip
    poison.write.format("magnetar").options(**given).mode("append").save()
    assert values(table(mode="backlog", subscription="s")) == texts(10)
