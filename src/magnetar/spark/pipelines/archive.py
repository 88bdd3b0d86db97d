"""The archive pipeline: topics to Parquet or Delta, each message once, acked behind it.

    topics -- micro-batch --> files -- commit --> acks

A micro-batch is in the archive when Spark's log of it is (`_spark_metadata`), or Delta's; only
then are its messages acknowledged. Killed at any moment, the next run goes on where the checkpoint
is: a micro-batch that was begun is written again as it was, and one that is in the archive is not.

| `to`                        | is                                                           |
|-----------------------------|--------------------------------------------------------------|
| day=2026-01-31/[hour=5/]    | Parquet files, by the time of publish in UTC                 |
| _spark_metadata, _delta_log | which files are of the archive                               |
| _checkpoint                 | how far it is, unless the checkpoint is elsewhere            |

Files that a killed run left are not of the archive. Spark and readers of Delta do not see them;
other readers of Parquet do, so the report counts them.
"""

import json
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magnetar.errors import SettingsError, TopicNotFound
from magnetar.rest.path import topic_path
from magnetar.spark.acks import ack_offsets
from magnetar.spark.connect import client_of, drop_clients
from magnetar.spark.driver import Driver
from magnetar.spark.pipelines.checkpoint import Checkpoint, batch_last
from magnetar.spark.pipelines.files import Files
from magnetar.spark.pipelines.letter.target import Target
from magnetar.spark.pipelines.progress import Followed, Progress
from magnetar.spark.pipelines.report.report import Report
from magnetar.spark.plan.options import ReadOptions
from magnetar.spark.rest import Rest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TIME_COLUMNS", "ArchiveOptions", "archive"]

# What a micro-batch has at most: so much is done again after a kill.
ROWS_MAX = 1_000_000
_SETTINGS = "archive.json"
# Not by functions of the calendar, which go by the time zone of the session.
TIME_COLUMNS = {
    "day": "date_from_unix_date(cast(unix_millis(publish_time) div 86400000 as int)) as day",
    "hour": "cast(unix_millis(publish_time) div 3600000 % 24 as int) as hour",
}


@dataclass(frozen=True, kw_only=True)
class ArchiveOptions:
    """What an archive is told."""

    target: Target
    subscription: str
    to: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    format: str = "parquet"
    checkpoint: str = ""
    partition_by: str = "day"
    columns: tuple[str, ...] = ()
    continuous: bool = False
    trigger: str = "10 seconds"
    rows_max: int = ROWS_MAX
    # Further options of the connector, such as valueSchema.
    read: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.subscription:
            raise SettingsError("--subscription", "missing: whose backlog goes to the archive?")
        if bool(self.topics) == bool(self.pattern):
            raise SettingsError("--topic", "give --topic or --pattern")
        if self.rows_max < 0:
            raise SettingsError("--max-rows", "is a number of rows, or 0 for no limit")
        for name, value, choices in (
            ("--format", self.format, ("parquet", "delta")),
            ("--partition-by", self.partition_by, ("day", "hour")),
        ):
            if value not in choices:
                raise SettingsError(name, f"{value!r} is not one of {', '.join(choices)}")

    @property
    def checkpoint_path(self) -> str:
        return self.checkpoint or f"{self.to.rstrip('/')}/_checkpoint"

    @property
    def partition_columns(self) -> list[str]:
        return ["day", "hour"] if self.partition_by == "hour" else ["day"]

    def read_options(self, parallelism: int) -> dict[str, str]:
        return {
            **self.target.options(
                topics=",".join(self.topics) or None,
                topicsPattern=self.pattern or None,
                subscription=self.subscription,
                startingOffsets=None if "startingTimestamp" in self.read else "earliest",
                minPartitions=parallelism,
                maxRowsPerTrigger=self.rows_max or None,
            ),
            **self.read,
        }


def archive(
    spark: "SparkSession",
    options: ArchiveOptions,
    *,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    report: Report | None = None,
) -> dict[str, object]:
    """Archives what there is, or until `stop` is set. Returns the facts of the run."""
    if progress is None:
        with Progress("archive") as own:
            return archive(spark, options, progress=own, stop=stop, report=report)
    run = _Archive(spark, options)
    begin = time.monotonic()
    followed = run.follow(progress, stop)
    facts = run.facts(followed, time.monotonic() - begin)
    if report is not None:
        run.describe(report, followed, facts)
    return facts


class _Archive:
    """One run; what is wrong is said before anything is touched."""

    def __init__(self, spark: "SparkSession", options: ArchiveOptions) -> None:
        self._spark = spark
        self._options = options
        self._given = options.read_options(spark.sparkContext.defaultParallelism)
        self._read = ReadOptions(self._given, streaming=True)
        self._files = Files(spark, options.to)
        self._checkpoint = Checkpoint(spark, options.checkpoint_path)
        self._rest = Rest(self._read.connection)
        # A topic that is missing is told of here, and not from the depths of Spark.
        self._topics = sorted(Driver(self._read).ends())
        drop_clients()
        self._check_archive()
        self._frame = self._make_frame()

    # ---- Before --------------------------------------------------------------

    def _check_archive(self) -> None:
        """Whether the checkpoint is that of the archive. Raises SettingsError.

        Spark's file sink passes over a batch whose number it has had: with the checkpoint lost,
        the numbers begin anew, and messages would be acknowledged and not written. To Delta the
        last batch would be written twice, if it was not acknowledged.
        """
        at = self._files.uri
        other = "_spark_metadata" if self._options.format == "delta" else "_delta_log"
        if self._files.exists(other):
            raise SettingsError("--format", f"{at} is an archive of the other format: {other}")
        written = batch_last(self._files, "_spark_metadata")
        if self._checkpoint.began() < 0:
            # The first version is the empty table.
            written = max(written, batch_last(self._files, "_delta_log") - 1)
        if written > self._checkpoint.began():
            raise SettingsError(
                "--checkpoint",
                f"{at} has batches up to {written}, and {self._checkpoint.files.uri} only up to "
                f"{self._checkpoint.began()}: it is not the checkpoint of this archive. Give the "
                "right one, or a new directory",
            )
        if not self._checkpoint.files.exists(_SETTINGS):
            return
        before = json.loads(self._checkpoint.files.read(_SETTINGS))
        settings = self._settings()
        changed = sorted(name for name in settings if before.get(name) != settings[name])
        if changed:
            raise SettingsError(
                ", ".join(changed),
                f"the archive was begun with {', '.join(f'{n}={before.get(n)}' for n in changed)}: "
                "go on with that, or give a new directory",
            )

    def _settings(self) -> dict[str, object]:
        """Returns what must not change from one run to the next."""
        return {
            "format": self._options.format,
            "partitionBy": self._options.partition_by,
            "columns": list(self._options.columns),
            "subscription": self._options.subscription,
        }

    def _make_frame(self) -> "DataFrame":
        from pyspark.sql.types import StructType

        reader = self._spark.readStream.format("magnetar").options(**self._given)
        full = reader.load().schema
        columns = list(self._options.columns) or full.names
        unknown = [name for name in columns if name not in full.names]
        if unknown:
            raise SettingsError(
                "--columns", f"no column {', '.join(unknown)}; there are {', '.join(full.names)}"
            )
        wanted = columns if "publish_time" in columns else [*columns, "publish_time"]
        frame = reader.schema(StructType([full[name] for name in wanted])).load()
        chosen = [TIME_COLUMNS[name] for name in self._options.partition_columns]
        return frame.selectExpr(*[f"`{name}`" for name in columns], *chosen)

    # ---- The run -------------------------------------------------------------

    def follow(self, progress: Progress, stop: threading.Event | None) -> Followed:
        query = self._start()
        try:
            followed = progress.follow(query, backlog=self.backlog, stop=stop)
        finally:
            query.stop()
        self._ack_committed()
        return followed

    def _start(self) -> Any:
        options = self._options
        if not self._checkpoint.files.exists(_SETTINGS):
            self._checkpoint.files.write(_SETTINGS, json.dumps(self._settings()))
        writer = self._frame.writeStream.option("checkpointLocation", options.checkpoint_path)
        if options.continuous:
            writer = writer.trigger(processingTime=options.trigger)
        else:
            writer = writer.trigger(availableNow=True)
        columns = options.partition_columns
        if options.format == "parquet":
            writer = writer.format("parquet").partitionBy(*columns)
            return _start_parquet(self._spark, writer.option("path", options.to))
        from magnetar.spark.pipelines.delta_sink import NAME, DeltaSink, create_table

        create_table(options.to, self._frame.schema, columns)
        self._spark.dataSource.register(DeltaSink)
        writer = writer.format(NAME).option("partitionBy", ",".join(columns))
        return writer.option("path", options.to).start()

    def _ack_committed(self) -> None:
        """Acks all that is committed: of a query that was stopped the last batch may not be."""
        offsets = self._checkpoint.offsets()
        if offsets.places:
            client = client_of(self._read.connection)
            client.call(ack_offsets(client.aio, self._options.subscription, offsets))
            drop_clients()
            self._topics = sorted(offsets.places)

    def backlog(self) -> int | None:
        """Returns the messages that are not acknowledged yet; None if the broker does not say."""
        total = 0
        for topic in self._topics:
            try:
                stats = self._rest.get(topic_path(topic, "stats"))
            except TopicNotFound:
                continue
            found = stats["subscriptions"].get(self._options.subscription)
            if found is None:
                return None
            # Apache's broker counts entries.
            total += int(found.get("msgBacklogMessages", found["msgBacklog"]))
        return total

    # ---- What came of it -----------------------------------------------------

    def facts(self, followed: Followed, seconds: float) -> dict[str, object]:
        return {
            "archive": self._files.uri,
            "topics": len(self._topics),
            "subscription": self._options.subscription,
            "messages": followed.rows,
            "micro-batches": followed.count,
            "seconds": round(seconds, 1),
            "messages a second": round(followed.rows / seconds) if seconds > 0 else 0,
            "backlog left": self.backlog(),
        }

    def describe(self, report: Report, followed: Followed, facts: dict[str, object]) -> None:
        """Writes the facts of the run and of the archive into a report."""
        files, known = self._data_files()
        orphans = {uri: size for uri, size in files.items() if uri not in known}
        rows = self._rows()
        total = sum(int(row[-1]) for row in rows)
        facts["messages in the archive"] = total
        facts["files"] = len(known)
        facts["bytes"] = sum(size for uri, size in files.items() if uri in known)
        facts["files left by killed runs"] = len(orphans)
        report.facts(facts)
        if orphans:
            report.note(
                f"{len(orphans):,} files, {sum(orphans.values()):,} bytes, were left by runs that "
                "were killed and are not of the archive. Spark and readers of Delta do not see "
                "them; a reader that takes all Parquet files of the directory reads their "
                "messages twice."
            )
        columns = self._options.partition_columns
        names = [" ".join(str(part) for part in row[:-1]) for row in rows]
        report.plot(
            f"Messages in the archive by {self._options.partition_by}",
            kind="bar",
            x=names,
            y=[int(row[-1]) for row in rows],
            labels=("published (UTC)", "messages"),
        )
        batches = list(followed.batches)
        report.plot(
            "Messages of each micro-batch of this run",
            kind="bar",
            x=[batch.id for batch in batches],
            y=[batch.rows for batch in batches],
            labels=("micro-batch", "messages"),
        )
        report.plot(
            "Time of each micro-batch",
            kind="line",
            x=[batch.id for batch in batches],
            y=[batch.duration_ms / 1000 for batch in batches],
            labels=("micro-batch", "seconds"),
        )
        report.table(
            "Partitions", [*columns, "messages"], [[*map(str, row[:-1]), row[-1]] for row in rows]
        )

    def _data_files(self) -> tuple[dict[str, int], set[str]]:
        """Returns all data files with their sizes, and those that are of the archive."""
        files = self._files.data(".parquet")
        if self._options.format == "delta":
            from deltalake import DeltaTable

            # Paths in the log are below the table.
            paths = DeltaTable(self._options.to).get_add_actions()["path"].to_pylist()
            return files, {f"{self._files.uri}/{path}" for path in paths}
        if not self._files.exists("_spark_metadata"):
            return files, set()
        known = self._archived().inputFiles()
        return files, {uri.replace("file:///", "file:/") for uri in known}

    def _rows(self) -> list[list[Any]]:
        """Returns messages by partition, as the archive itself has them."""
        columns = self._options.partition_columns
        if self._options.format == "delta":
            return _delta_rows(self._options.to, columns)
        if not self._files.exists("_spark_metadata"):
            return []
        counted = self._archived().groupBy(*columns).count().orderBy(*columns)
        return [list(row) for row in counted.collect()]

    def _archived(self) -> "DataFrame":
        return self._spark.read.schema(self._frame.schema).parquet(self._options.to)


def _start_parquet(spark: "SparkSession", writer: Any) -> Any:
    """Starts a query that writes times as all readers know them; Spark's own are INT96."""
    name = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(name) or ""
    spark.conf.set(name, "TIMESTAMP_MICROS")
    try:
        return writer.start()
    finally:
        spark.conf.set(name, before)


def _delta_rows(path: str, columns: list[str]) -> list[list[Any]]:
    from deltalake import DeltaTable

    counts: dict[tuple[str, ...], int] = {}
    actions = DeltaTable(path).get_add_actions(flatten=True)
    names = [f"partition.{name}" for name in columns]
    for row in zip(
        actions["num_records"].to_pylist(),
        *(actions[name].to_pylist() for name in names),
        strict=True,
    ):
        key = tuple(str(part) for part in row[1:])
        counts[key] = counts.get(key, 0) + row[0]
    return [[*key, count] for key, count in sorted(counts.items())]


if __name__ == "__main__":
    from magnetar.spark.pipelines.submit import submitted

    submitted("archive")
