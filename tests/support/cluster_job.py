"""A job as users write and submit one: reads, streams with acks, sinks and skips.

Its argument is JSON: `serviceUrl`, `adminUrl`, `topic`, `sink` and `scratch`. It prints what
it found as JSON, in its last line. One executor is killed while the stream is read.
"""

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

from magnetar.spark import attach

IDS = "value binary, topic string, message_id binary"


def main() -> None:
    given = json.loads(sys.argv[1])
    spark = SparkSession.builder.appName("cluster-job").getOrCreate()
    connection = {name: given[name] for name in ("serviceUrl", "adminUrl")}
    found: dict[str, Any] = {}
    table = spark.read.format("magnetar").options(**connection, topic=given["topic"])
    frame = table.option("minPartitions", "4").schema("value binary").load()
    read = frame.rdd.mapPartitions(where_and_what).collect()
    found["executors"] = sorted({where for where, _ in read})
    found["read"] = sorted(value.decode() for _, value in read)
    with attach(spark):
        found["batches"] = stream(spark, connection, given)
    sink(spark, connection, given)
    backlog = table.options(mode="backlog", subscription="apps").schema(IDS).load()
    poison = backlog.where("value like 'v1%'").select("topic", "message_id")
    skip = poison.write.format("magnetar").options(**connection)
    skip.options(operation="skip", subscription="apps").mode("append").save()
    spark.stop()
    print(json.dumps(found))


def stream(spark: SparkSession, connection: dict[str, str], given: dict[str, str]) -> int:
    killed = Path(given["scratch"]) / "killed"

    def kill_once(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 0 and not killed.exists():
            killed.touch()
            os.kill(parent_of(os.getppid()), signal.SIGKILL)
        yield from batches

    source = spark.readStream.format("magnetar").options(**connection, topic=given["topic"])
    query = (
        source.options(startingOffsets="earliest", subscription="archive", minPartitions="2")
        .option("maxRowsPerTrigger", "250")
        .load()
        .select("value")
        .mapInArrow(kill_once, "value binary")
        .writeStream.format("parquet")
        .options(path=f"{given['scratch']}/out", checkpointLocation=f"{given['scratch']}/check")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return len([one for one in query.recentProgress if one.numInputRows])


def sink(spark: SparkSession, connection: dict[str, str], given: dict[str, str]) -> None:
    source = spark.readStream.format("magnetar").options(**connection, topic=given["topic"])
    query = (
        source.options(startingOffsets="earliest", minPartitions="2")
        .load()
        .select("value", "key")
        .writeStream.format("magnetar")
        .options(**connection, topic=given["sink"])
        .option("checkpointLocation", f"{given['scratch']}/sink")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def where_and_what(rows: Iterable[Any]) -> Iterator[tuple[str, bytes]]:
    """Values, each with the executor that read it, by the directory that it was given."""
    for row in rows:
        yield str(Path.cwd()), bytes(row.value)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    main()
