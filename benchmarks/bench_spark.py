"""Topics as DataFrames against Spark's own ceiling, in one run, broker on the same cores.

    make bench                                          compiled
    .venv/bin/python benchmarks/bench_spark.py          interpreted
    ... bench_spark.py --messages 500000 --rounds 1     a short form

The whole takes two minutes compiled, on a machine that does nothing else, and 6 GB.

The ceiling is a Python data source that yields the same rows from memory, as Arrow record
batches of the same size: what Spark itself takes for them. Both are written to Spark's noop
sink, in turns; every figure is the median of its rounds, every ratio the median of ratios
within a round. The CPU time of splits is that of the JVM and its Python workers. The sink is
compared with our own producer, which takes turns with it.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from timing import print_table

import magnetar

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from support.broker_process import BrokerProcess  # noqa: E402
from support.java import find_java  # noqa: E402

VALUE: Final = "value binary"
NINE: Final = (
    "value binary, key binary, topic string, partition int, ledger_id bigint, "
    "entry_id bigint, batch_index int, publish_time timestamp, event_time timestamp"
)
ROWS_PER_BATCH: Final = 32_768
SIZE: Final = 100
TOPIC: Final = "persistent://public/default/bench"
PATH: Final = TOPIC.replace("://", "/")

VALUE_TARGET: Final = 0.20
NINE_TARGET: Final = 0.25
SPLITS_TARGET: Final = 1.15
SINK_TARGET: Final = 0.40


class MemorySource(DataSource):
    """The rows of the topic, from memory."""

    @classmethod
    def name(cls) -> str:
        return "bench_memory"

    def reader(self, schema: Any) -> DataSourceReader:
        return MemoryReader(dict(self.options), schema)


class MemoryReader(DataSourceReader):
    def __init__(self, options: dict[str, str], schema: Any) -> None:
        self._rows = int(options["rows"])
        self._splits = int(options["splits"])
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self._rows // self._splits) for _ in range(self._splits)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from pyspark.sql.pandas.types import to_arrow_schema

        left = partition.value
        whole = memory_batch(to_arrow_schema(self._schema, timezone="UTC"), ROWS_PER_BATCH)
        while left > 0:
            yield whole if left >= ROWS_PER_BATCH else whole.slice(0, left)
            left -= ROWS_PER_BATCH


def memory_batch(schema: "pa.Schema", rows: int) -> "pa.RecordBatch":
    texts = {"topic": TOPIC, "value": b"x" * SIZE, "key": None}
    arrays = []
    for field in schema:
        if field.name in texts:
            arrays.append(pa.array([texts[field.name]] * rows, field.type))
        elif field.name == "event_time":
            arrays.append(pa.nulls(rows, field.type))
        else:
            kind = pa.int32() if field.type == pa.int32() else pa.int64()
            arrays.append(pa.array(range(rows), kind).cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    home = find_java()
    if home is None:
        print("no Java: nothing of Spark is measured; see tools/find_java.py")
        return
    os.environ["JAVA_HOME"] = str(home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with tempfile.TemporaryDirectory() as data:
        # The ledger has room for all entries, so that it can be split in two.
        # One ledger, so that a topic is one split unless more are asked for.
        options = ["--memory", "--set", "ledger_entries_max=1000000"]
        options += ["--set", "ledger_bytes_max=4GiB"]
        # Nobody subscribes, and everything stays.
        for name in ("retention_minutes=-1", "retention_mb=-1", "delete_inactive_topics=false"):
            options += ["--set", name]
        with BrokerProcess(Path(data), options=options) as broker:
            spark = session()
            try:
                measure(spark, broker, arguments.messages, arguments.rounds)
            finally:
                spark.stop()


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("bench")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.log.level": "OFF",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(MemorySource)
    return spark


def measure(spark: SparkSession, broker: BrokerProcess, messages: int, rounds: int) -> None:
    publish(broker.url, TOPIC, messages)
    build = "compiled" if magnetar.COMPILED else "interpreted"
    heading = f"magnetar {build}, {messages:,} messages of {SIZE} B in batches of 1000, local[2]"

    def topic(schema: str, splits: int) -> DataFrame:
        reader = spark.read.format("magnetar").schema(schema)
        options = {"serviceUrl": broker.url, "topic": TOPIC, "minPartitions": str(splits)}
        return reader.options(**options, rowsPerBatch=str(ROWS_PER_BATCH)).load()

    def memory(schema: str, splits: int) -> DataFrame:
        reader = spark.read.format("bench_memory").schema(schema)
        return reader.options(rows=str(messages), splits=str(splits)).load()

    assert topic(VALUE, 2).count() == messages, "what is read is not what was published"
    assert [topic(VALUE, n).rdd.getNumPartitions() for n in (1, 2)] == [1, 2]
    table: list[tuple[str, ...]] = []
    for title, schema, target in (
        ("value only", VALUE, VALUE_TARGET),
        ("nine columns", NINE, NINE_TARGET),
    ):
        ours, ceiling, ratios = [], [], []
        take(topic(schema, 2))
        take(memory(schema, 2))
        for _ in range(rounds):
            ceiling.append(messages / take(memory(schema, 2))[0])
            ours.append(messages / take(topic(schema, 2))[0])
            ratios.append(ours[-1] / ceiling[-1])
        table.append((f"{title}, from memory", rate(ceiling), "", ""))
        table.append(
            (f"{title}, from the topic", rate(ours), f"{median(ratios):.2f}", f">= {target:.2f}")
        )
    one, two = [], []
    for _ in range(rounds):
        one.append(take(topic(VALUE, 1)))
        two.append(take(topic(VALUE, 2)))
    for title, took in (("one split", one), ("two splits", two)):
        cpu = median(cpu for _, cpu in took)
        ratio = median(b / a for (_, a), (_, b) in zip(one, took, strict=True))
        said = f"{median(wall for wall, _ in took):.1f} s, CPU {cpu:.1f} s"
        target_text = f"CPU <= {SPLITS_TARGET}" if took is two else ""
        table.append(
            (f"value only, {title}", said, f"{ratio:.2f}" if took is two else "", target_text)
        )
    assert topic(NINE, 2).count() == messages, "it changed while it was read"
    table += sink(spark, broker, min(messages, 2_000_000), rounds)
    print_table(heading, ("", "rows", "ratio", "target"), table)


def sink(
    spark: SparkSession, broker: BrokerProcess, messages: int, rounds: int
) -> list[tuple[str, ...]]:
    """Beside our own producer, in turns."""
    table: list[tuple[str, ...]] = []
    for delivery in ("atLeastOnce", "exactlyOnce"):
        # Once before it counts, as the reads: workers start, and topics are made.
        write(spark, broker, delivery, 1000)
        produced, rates, ratios = [], [], []
        for _ in range(rounds):
            produced.append(publish(broker.url, f"{TOPIC}-producer", messages))
            rates.append(write(spark, broker, delivery, messages))
            ratios.append(rates[-1] / produced[-1])
        stored = httpx.get(f"{broker.http_url}/admin/v2/{PATH}-{delivery}/stats").json()
        assert stored["msgInCounter"] == 1000 + rounds * messages, "the sink left some out"
        table.append(("our producer", rate(produced), "", ""))
        ratio = f"{median(ratios):.2f}"
        table.append((f"sink, {delivery}", rate(rates), ratio, f">= {SINK_TARGET:.2f}"))
    return table


def write(spark: SparkSession, broker: BrokerProcess, delivery: str, messages: int) -> float:
    """Rows a second that the sink publishes, from Spark's own numbers."""
    frame = spark.range(0, messages, 1, 2).selectExpr(
        f"cast(lpad(cast(id as string), {SIZE}, 'x') as binary) as value"
    )
    options = {"serviceUrl": broker.url, "adminUrl": broker.http_url, "delivery": delivery}
    writer = frame.write.format("magnetar").mode("append")
    begin = time.monotonic()
    writer.options(**options, topic=f"bench-{delivery}").save()
    return messages / (time.monotonic() - begin)


def publish(url: str, topic: str, messages: int) -> float:
    """Publishes to a topic, and says how many messages a second went."""
    client = magnetar.Client(url, stats_interval_in_seconds=0)
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=1000,
        batching_max_allowed_size_in_bytes=1 << 20,
        batching_max_publish_delay_ms=1000,
        max_pending_messages=50_000,
        block_if_queue_full=True,
    )
    body = b"x" * SIZE
    begin = time.monotonic()
    for _ in range(messages):
        producer.send_async(body, None)
    producer.flush()
    took = time.monotonic() - begin
    client.close()
    return messages / took


def take(frame: DataFrame) -> tuple[float, float]:
    """Seconds, and seconds of CPU, that all rows of a DataFrame take."""
    cpu = cpu_seconds()
    begin = time.monotonic()
    frame.write.format("noop").mode("overwrite").save()
    return time.monotonic() - begin, cpu_seconds() - cpu


def cpu_seconds() -> float:
    """What the JVM and the processes that it started have used, those that ended included."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    return tree_seconds(gateway.proc.pid)


def tree_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = " ".join(
            path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")
        ).split()
    except OSError:
        return 0.0
    own = sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return own + sum(tree_seconds(int(child)) for child in children)


def rate(rates: list[float]) -> str:
    return f"{median(rates) / 1e6:.2f} M/s"


if __name__ == "__main__":
    main()
