"""The Spark job: the archive pipeline, from the topic to Parquet, acked as Spark commits it.

It runs until its standard input is closed; then it archives what is left, and lists what is in
the lake. A run that fails goes on from its checkpoint, as a scheduler would have it do. As a
program: `python -m examples.demo.lake JSON`; what it says are JSON objects, one a line.
"""

import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from magnetar.errors import MagnetarError
from magnetar.spark.pipelines.archive import ArchiveOptions, archive
from magnetar.spark.pipelines.letter.target import Target
from magnetar.spark.pipelines.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRIGGER = "2 seconds"
# A part of what there is, so that a kill finds Spark in the middle however late it began.
ROWS_MAX = 30_000
PAUSE_S = 0.5
# How often a run may fail before something else must be wrong.
FAILURES_MAX = 20
CONF = {
    # A JVM that lives for a minute has no time to optimize what it runs.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "50ms",
}


class Lake:
    """One archive, through however many runs of the pipeline it takes."""

    def __init__(self, spark: "SparkSession", plan: dict[str, str], target: Target) -> None:
        self._spark = spark
        self._plan = plan
        self._target = target
        self._failures = 0

    def archive(self, ending: threading.Event) -> None:
        """All that comes until `ending`, then all that is left."""
        while not ending.is_set():
            self._run(continuous=True, stop=ending)
        while not self._run(continuous=False, stop=None):
            pass

    def rows(self) -> "DataFrame":
        """What is in the lake."""
        return self._spark.read.parquet(self._plan["lake"]).selectExpr(
            "cast(key as string) as key",
            "get_json_object(cast(value as string), '$.number') as number",
            "lpad(lower(hex(crc32(value))), 8, '0') as crc",
        )

    def _run(self, *, continuous: bool, stop: threading.Event | None) -> bool:
        """Whether it came to its end."""
        from pyspark.errors import PySparkException

        options = ArchiveOptions(
            target=self._target,
            topics=(self._plan["topic"],),
            subscription=self._plan["subscription"],
            to=self._plan["lake"],
            columns=("key", "value", "message_id", "publish_time"),
            continuous=continuous,
            trigger=TRIGGER,
            rows_max=ROWS_MAX,
        )
        try:
            archive(self._spark, options, stop=stop)
        except (MagnetarError, PySparkException) as error:
            self._failures += 1
            if self._failures > FAILURES_MAX:
                raise
            print(error, file=sys.stderr)
            say(failed=str(error).partition("\n")[0])
            time.sleep(PAUSE_S)
            return False
        return True


def tell_of_batches(spark: "SparkSession") -> None:
    """Says how many rows each micro-batch had that Spark commits."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Batches(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            if event.progress.numInputRows:
                say(batch=event.progress.batchId, rows=event.progress.numInputRows)

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    spark.streams.addListener(Batches())


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    plan: dict[str, str] = json.loads(sys.argv[1])
    target = Target(plan["url"], plan["http_url"])
    conf = {
        **CONF,
        "spark.local.dir": plan["scratch"],
        "spark.sql.warehouse.dir": plan["scratch"],
    }
    ending = threading.Event()
    threading.Thread(target=_wait_for_end, args=(ending,), daemon=True).start()
    with session("demo", target, master="local[2,4]", conf=conf) as spark:
        tell_of_batches(spark)
        say(ready=spark.version)
        lake = Lake(spark, plan, target)
        lake.archive(ending)
        rows = [f"L {row.key} {row.number} {row.crc}\n" for row in lake.rows().toLocalIterator()]
        with open(plan["log"], "a") as log:
            log.writelines(rows)
        say(lake=len(rows))


def _wait_for_end(ending: threading.Event) -> None:
    sys.stdin.read()
    ending.set()


if __name__ == "__main__":
    main()
