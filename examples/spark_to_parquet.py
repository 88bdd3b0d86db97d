"""A topic as a Spark stream, to Parquet, each message once.

    pip install '.[spark]'      # in a clone; and install Java 17 or newer
    magnetar serve
    python examples/spark_to_parquet.py pulsar://127.0.0.1:6650 /tmp/readings

Run it again, and it goes on where it was: messages are acked once Spark has committed them.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import magnetar
from magnetar import InitialPosition
from magnetar.spark import attach

URL = sys.argv[1] if sys.argv[1:] else "pulsar://127.0.0.1:6650"
LAKE = Path(sys.argv[2] if sys.argv[2:] else "readings")
TOPIC = "readings"


def publish() -> None:
    """Something to archive: 1000 readings of ten sensors."""
    with magnetar.Client(URL) as client:
        # What nobody has subscribed to is not kept.
        client.subscribe(TOPIC, "lake", initial_position=InitialPosition.Earliest).close()
        producer = client.create_producer(TOPIC, batching_enabled=True, block_if_queue_full=True)
        for n in range(1000):
            reading = json.dumps({"sensor": f"s{n % 10}", "celsius": 20 + n % 7})
            producer.send_async(reading.encode(), None, partition_key=f"s{n % 10}")
        producer.flush()


def archive(spark: SparkSession) -> None:
    """All that is there and not archived yet."""
    readings = (
        spark.readStream.format("magnetar")
        .options(serviceUrl=URL, topic=TOPIC, subscription="lake", startingOffsets="earliest")
        .load()
        .selectExpr(
            "get_json_object(cast(value as string), '$.sensor') as sensor",
            "cast(get_json_object(cast(value as string), '$.celsius') as double) as celsius",
            "publish_time",
        )
    )
    query = (
        readings.writeStream.format("parquet")
        .option("path", str(LAKE / "data"))
        .option("checkpointLocation", str(LAKE / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    publish()
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    with attach(spark):
        archive(spark)
    lake = spark.read.parquet(str(LAKE / "data"))
    print(f"rows: {lake.count()}, sensors: {lake.select('sensor').distinct().count()}")
    spark.stop()


if __name__ == "__main__":
    main()
