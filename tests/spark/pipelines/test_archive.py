"""The archive: what is written and acknowledged, run after run, and what is refused."""

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from cli.broker_cli import run_command
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from support.broker_process import BrokerProcess
from support.tables import backlog_of, path_of, texts

import magnetar
from magnetar.errors import ConnectError, SettingsError, Timeout, TopicNotFound
from magnetar.spark.pipelines.archive import ArchiveOptions, archive
from magnetar.spark.pipelines.delta_sink import Written
from magnetar.spark.pipelines.failure import failure_of
from magnetar.spark.pipelines.letter.target import Target
from magnetar.spark.pipelines.report.report import Report

Publish = Callable[..., None]


@pytest.fixture
def options(target: Target, topic: str, tmp_path: Path) -> Callable[..., ArchiveOptions]:
    def options(**more: Any) -> ArchiveOptions:
        given: dict[str, Any] = {
            "target": target,
            "subscription": "archive",
            "to": str(tmp_path / "out"),
            "topics": (topic,),
        }
        return ArchiveOptions(**{**given, **more})

    return options


def parquet(spark: SparkSession, path: Path) -> list[str]:
    rows = spark.read.parquet(str(path)).select("value").collect()
    return sorted(row.value.decode() for row in rows)


def delta(path: Path) -> list[str]:
    return sorted(
        value.decode() for value in DeltaTable(path).to_pyarrow_table()["value"].to_pylist()
    )


def forget_last_commit(checkpoint: Path) -> None:
    """As if Spark had been killed after the sink had the batch, before it was done."""
    commits = [path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()]
    last = max(commits, key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()


def test_runs_write_each_message_once(
    spark: SparkSession,
    publish: Publish,
    topic: str,
    options: Callable[..., ArchiveOptions],
    rest: httpx.Client,
    tmp_path: Path,
) -> None:
    publish(topic, texts(70), batch=8, partition_key="k", properties={"a": "b"})
    facts = archive(spark, options(rows_max=30))
    assert (facts["messages"], facts["micro-batches"], facts["backlog left"]) == (70, 3, 0)
    assert backlog_of(rest, topic, "archive") == 0
    publish(topic, texts(30, 70), batch=8)
    assert archive(spark, options())["messages"] == 30
    assert archive(spark, options())["messages"] == 0
    assert parquet(spark, tmp_path / "out") == sorted(texts(100))

    # A batch that is in the archive, and not done for Spark, is not written again.
    forget_last_commit(tmp_path / "out" / "_checkpoint")
    report = Report("archive")
    left = tmp_path / "out" / "day=2026-01-31" / "part-left-by-a-killed-run.parquet"
    left.parent.mkdir()
    left.write_bytes(b"no parquet at all")
    facts = archive(spark, options(), report=report)
    assert parquet(spark, tmp_path / "out") == sorted(texts(100))
    assert backlog_of(rest, topic, "archive") == 0
    assert facts["messages in the archive"] == 100
    assert facts["files left by killed runs"] == 1
    assert "1 files, 17 bytes, were left by runs that were killed" in report.to_html()

    # Times are such as other readers know, and days are directories.
    (file,) = list((tmp_path / "out").glob("day=20*/part-00000-*.parquet"))[:1]
    assert str(pq.read_schema(file).field("publish_time").type).startswith("timestamp[us")
    assert "day" not in pq.read_schema(file).names


def test_a_delta_table_by_the_hour(
    spark: SparkSession,
    publish: Publish,
    topic: str,
    options: Callable[..., ArchiveOptions],
    rest: httpx.Client,
    tmp_path: Path,
) -> None:
    given = options(format="delta", partition_by="hour", columns=("value", "key"))
    publish(topic, texts(50), batch=5)
    assert archive(spark, given)["messages"] == 50
    publish(topic, texts(20, 50))
    report = Report("archive")
    facts = archive(spark, given, report=report)
    assert (facts["messages"], facts["messages in the archive"]) == (20, 70)
    assert facts["files left by killed runs"] == 0
    assert delta(tmp_path / "out") == sorted(texts(70))
    table = DeltaTable(tmp_path / "out")
    assert table.metadata().partition_columns == ["day", "hour"]
    assert [one.name for one in table.schema().fields] == ["value", "key", "day", "hour"]

    # The batch is in the table and not done for Spark: it adds files again, and not to the log.
    forget_last_commit(tmp_path / "out" / "_checkpoint")
    facts = archive(spark, given, report=report)
    assert DeltaTable(tmp_path / "out").version() == table.version()
    assert delta(tmp_path / "out") == sorted(texts(70))
    assert facts["files left by killed runs"] != 0
    assert backlog_of(rest, topic, "archive") == 0
    shutil.rmtree(tmp_path / "out" / "_checkpoint")
    with pytest.raises(SettingsError, match="not the checkpoint of this archive"):
        archive(spark, given)


def test_an_archive_runs_until_it_is_told_to_stop(
    spark: SparkSession,
    publish: Publish,
    topic: str,
    options: Callable[..., ArchiveOptions],
    rest: httpx.Client,
    tmp_path: Path,
) -> None:
    publish(topic, texts(10))
    stop, done = threading.Event(), threading.Event()

    def watch() -> None:
        while not (tmp_path / "out" / "_checkpoint" / "commits" / "0").exists():
            if done.wait(0.05):
                return
        publish(topic, texts(10, 10))
        while not (tmp_path / "out" / "_checkpoint" / "commits" / "1").exists():
            if done.wait(0.05):
                return
        stop.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        facts = archive(spark, options(continuous=True, trigger="0 seconds"), stop=stop)
    finally:
        done.set()
        watcher.join()
    # The last batch is acked too, though nobody asked the reader for another offset.
    assert (facts["messages"], facts["backlog left"]) == (20, 0)
    assert backlog_of(rest, topic, "archive") == 0
    assert parquet(spark, tmp_path / "out") == sorted(texts(20))


def test_a_broker_that_goes_away_ends_a_run_and_the_next_goes_on(
    spark: SparkSession, own_broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    target = Target(own_broker.url, own_broker.http_url)
    options = ArchiveOptions(
        target=target,
        subscription="archive",
        to=str(tmp_path / "out"),
        topics=(topic,),
        rows_max=20,
        read={"operationTimeoutSeconds": "2", "pollTimeoutMs": "2000"},
    )
    with magnetar.Client(own_broker.url, stats_interval_in_seconds=0) as client:
        client.subscribe(topic, "archive", magnetar.ConsumerType.Failover).close()
        producer = client.create_producer(topic)
        for text in texts(60):
            producer.send(text.encode())
    first = tmp_path / "out" / "_checkpoint" / "commits" / "0"
    done = threading.Event()

    def kill() -> None:
        while not first.exists() and not done.wait(0.01):
            pass
        own_broker.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with pytest.raises(PySparkException) as raised:
            archive(spark, options)
    finally:
        done.set()
        killer.join()
    assert isinstance(failure_of(raised.value), ConnectError | Timeout)
    own_broker.start()
    assert archive(spark, options)["backlog left"] == 0
    assert parquet(spark, tmp_path / "out") == sorted(texts(60))


def test_what_is_wrong_is_said_and_nothing_is_touched(
    spark: SparkSession,
    publish: Publish,
    topic: str,
    options: Callable[..., ArchiveOptions],
    target: Target,
    rest: httpx.Client,
    tmp_path: Path,
) -> None:
    publish(topic, texts(3))
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"columns": ("value", "colour")}, SettingsError, "no column colour"),
        ({"read": {"topik": "x"}}, SettingsError, "topik: no such option"),
        ({"topics": (f"{topic}-missing",)}, TopicNotFound, "not found"),
        ({"subscription": ""}, SettingsError, "whose backlog"),
        ({"rows_max": -1}, SettingsError, "--max-rows"),
        (
            {
                "target": Target("pulsar://127.0.0.1:1", target.admin_url),
                "read": {"operationTimeoutSeconds": "1"},
            },
            ConnectError,
            "cannot connect",
        ),
    ]
    for more, error, said in wrong:
        with pytest.raises(error, match=said):
            archive(spark, options(**more))
    assert not (tmp_path / "out").exists()
    stats = rest.get(f"{path_of(topic)}/stats").raise_for_status().json()
    assert stats["subscriptions"] == {}

    # An archive goes on as it was begun.
    archive(spark, options())
    for more in ({"partition_by": "hour"}, {"columns": ("value",)}, {"subscription": "other"}):
        with pytest.raises(SettingsError, match="the archive was begun with"):
            archive(spark, options(**more))
    with pytest.raises(SettingsError, match="of the other format"):
        archive(spark, options(format="delta", checkpoint=str(tmp_path / "other")))
    # Spark's sink would drop batches silently whose numbers it has had.
    shutil.rmtree(tmp_path / "out" / "_checkpoint")
    publish(topic, texts(3, 3))
    with pytest.raises(SettingsError, match="not the checkpoint of this archive"):
        archive(spark, options())
    assert backlog_of(rest, topic, "archive") == 3
    assert parquet(spark, tmp_path / "out") == texts(3)


def test_the_command(
    spark: SparkSession, publish: Publish, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    publish(topic, texts(5))
    name = topic.rpartition("/")[2]
    at = ["--url", broker.url, "--admin-url", broker.http_url, "pipeline", "archive"]
    to = ["--subscription", "archive", "--to", str(tmp_path / "out")]
    page = tmp_path / "report.html"
    pattern = ["--pattern", f"public/default/{name}"]
    ran = run_command([*at, *to, *pattern, "--columns", "value,key", "--report", str(page)])
    assert ran.code == 0, ran
    assert "messages                   5\n" in ran.out
    assert "archive: 5 rows" in ran.err
    assert f"Archive of public/default/{name}" in page.read_text()
    assert spark.read.parquet(str(tmp_path / "out")).columns == ["value", "key", "day"]
    for wrong, code, said in (
        (["--topic", "nope"], 5, "nope not found"),
        (["--topic", name, "--format", "csv"], 2, "'csv' is not one of parquet, delta"),
        ([], 2, "give --topic or --pattern"),
    ):
        ran = run_command([*at, "--subscription", "s", "--to", str(tmp_path / "new"), *wrong])
        assert (ran.code, said in ran.err) == (code, True), ran


def test_two_archives_of_one_batch_are_one(tmp_path: Path) -> None:
    """A run that was believed dead may come back; Delta's log takes a batch from one of them."""
    from deltalake import CommitProperties, Transaction
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import AddAction
    from pyspark.sql.types import DateType, LongType, StructType

    from magnetar.spark.pipelines.delta_sink import DeltaWriter, create_table

    schema = StructType().add("a", LongType()).add("day", DateType())
    create_table(str(tmp_path), schema, ["day"])

    def file(name: str) -> dict[str, Any]:
        return {
            "path": f"day=2026-01-31/{name}.parquet",
            "size": 1,
            "partition_values": {"day": "2026-01-31"},
            "modification_time": 0,
            "data_change": True,
            "stats": json.dumps({"numRecords": 1}),
        }

    late = DeltaTable(tmp_path)
    writer = DeltaWriter(str(tmp_path), schema, ["day"])
    for batch in (0, 1, 1, 0):
        writer.commit([Written("q", [file(f"of-{batch}")]), None], batch)
    with pytest.raises(CommitFailedError):
        late.create_write_transaction(
            [AddAction(**file("late"))],
            "append",
            DeltaTable(tmp_path).schema(),
            partition_by=["day"],
            commit_properties=CommitProperties(app_transactions=[Transaction("q", 1)]),
        )
    paths = DeltaTable(tmp_path).get_add_actions()["path"].to_pylist()
    assert sorted(paths) == ["day=2026-01-31/of-0.parquet", "day=2026-01-31/of-1.parquet"]
