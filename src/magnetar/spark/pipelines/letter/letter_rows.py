"""Dead letters as rows: what people and predicates look at, and what goes back.

| column              | is                                                              |
|---------------------|-----------------------------------------------------------------|
| `value`, `key`      | text; a value that is none is null                              |
| `raw`, `raw_key`    | their bytes, which go back                                      |
| `real_topic`        | where a letter says that it comes from                          |
| `real_subscription` | whose it was                                                    |
| the others          | as a backlog has them                                           |
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from magnetar.client.consumer.dead_letter import REAL_SUBSCRIPTION, REAL_TOPIC
from magnetar.errors import InvalidTopicNameError
from magnetar.spark.pipelines.backlog import view
from magnetar.spark.pipelines.letter.letters import key_text, lane_of, origin_of, restored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ADDRESSED", "addressed", "letters_of", "sent_back"]


def letters_of(frame: "DataFrame") -> "DataFrame":
    """Returns rows of the connector, with bytes as values, as letters."""
    from pyspark.sql import functions as F

    rows = view(frame.withColumns({"raw": F.col("value"), "raw_key": F.col("key")}))
    return rows.withColumns(
        {
            "value": F.try_validate_utf8(F.col("value").cast("string")),
            "real_topic": F.col("properties")[REAL_TOPIC],
            "real_subscription": F.col("properties")[REAL_SUBSCRIPTION],
        }
    )


ADDRESSED = (
    "number long, lane int, topic string, message_id binary, value binary, key binary, "
    "ordering_key binary, event_ms long, schema_version long, properties string, target string, "
    "came_from int"
)


def addressed(batches: Iterator[Any], lanes: int, to: str) -> Iterator[Any]:
    """Letters with their lanes, the topics that they go to and the partitions that they had."""
    import pyarrow as pa

    for batch in batches:
        origins = [
            ("", -1) if real is None else origin_of(real)
            for real in batch.column("real_topic").to_pylist()
        ]
        keys = [key_text(key) for key in batch.column("key").to_pylist()]
        pairs = zip(batch.column("number").to_pylist(), keys, strict=True)
        found = {
            **{name: batch.column(name) for name in batch.schema.names if name != "real_topic"},
            "number": batch.column("number").cast(pa.int64()),
            "lane": pa.array([lane_of(number, key, lanes) for number, key in pairs], pa.int32()),
            "target": pa.array([to or topic for topic, _ in origins], pa.string()),
            "came_from": pa.array([partition for _, partition in origins], pa.int32()),
        }
        names = [field.split()[0] for field in ADDRESSED.split(", ")]
        yield pa.RecordBatch.from_arrays([found[name] for name in names], names=names)


def sent_back(letters: "DataFrame", to: str = "", rate: float = 0.0) -> "DataFrame":
    """Letters as the sink takes them, so many a second; those that lead nowhere are left out.

    With `to` all go there. It is for tables of a project: Spark knows which flow waits for which
    only through projections and filters.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import MapType, StringType, StructType

    text = StringType()
    address = StructType().add("topic", text).add("key", text)
    address = address.add("properties", MapType(text, text))

    def send(
        target: str | None, key: bytes | None, properties: dict[str, str]
    ) -> tuple[str, str | None, dict[str, str]] | None:
        if rate:
            time.sleep(1 / rate)
        return _address(target, key, properties)

    target = F.lit(to) if to else F.col("real_topic")
    # What waits is not computed twice, nor moved before the predicate.
    udf = F.udf(send, address, useArrow=False).asNondeterministic()
    sent = udf(target, "raw_key", "properties")
    return (
        letters.where("bad_record is null")
        # A pace is kept by one; and a step that is sent again is divided as before.
        .coalesce(1)
        .select("raw", "ordering_key", "event_time", sent.alias("sent"))
        .where("sent is not null")
        .select(
            "sent.topic",
            F.col("raw").alias("value"),
            "sent.key",
            "ordering_key",
            "event_time",
            "sent.properties",
        )
    )


def _address(
    target: str | None, raw_key: bytes | None, properties: dict[str, str]
) -> tuple[str, str | None, dict[str, str]] | None:
    """Returns where a letter goes, with which key and properties; None if that is no topic.

    With a key it takes any partition of the topic, else that which it was in.
    """
    if target is None:
        return None
    try:
        topic, _ = origin_of(target)
    except InvalidTopicNameError:
        return None
    key = key_text(raw_key)
    return target if key is None else topic, key, restored(properties)
