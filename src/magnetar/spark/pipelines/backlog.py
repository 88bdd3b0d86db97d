"""A backlog as people ask about it: the connector's columns, made easy to write predicates for.

| column       | is                                                                              |
|--------------|---------------------------------------------------------------------------------|
| `value`      | the fields of the topic's JSON or Avro schema (`value.id`); without one, text   |
| `key`        | text                                                                            |
| `bad_record` | why a value could not be decoded; null for good ones                            |
| `position`   | ledger:entry, and :index in batches                                             |
| the others   | as the connector has them                                                       |

One load is one snapshot, so everything that is derived from a frame sees the same messages.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from magnetar.errors import SettingsError, TopicNotFound
from magnetar.rest.path import schema_path
from magnetar.spark.pipelines.failure import PipelineError, failure_of
from magnetar.spark.pipelines.letter.target import Target

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "chosen",
    "has_fields",
    "predicate_errors",
    "preview",
    "read_backlog",
    "view",
]

PREVIEW_CHARS = 80
_CLASS = re.compile(r"^\[[A-Z0-9_.]+\] ")


def has_fields(target: Target, topic: str) -> bool:
    """Returns whether values have fields by a schema of the topic, JSON or Avro."""
    try:
        found = target.rest().get(schema_path(topic, "schema"))
    except TopicNotFound:
        return False
    return str(found.get("type", "")).upper() in ("JSON", "AVRO")


def read_backlog(
    spark: "SparkSession",
    target: Target,
    topic: str,
    subscription: str,
    *,
    values: str = "bytes",
    whole_topic: bool = False,
) -> "DataFrame":
    """Returns the backlog with the connector's columns, and `bad_record`.

    `whole_topic` is for a subscription that is not there yet: everything is its backlog.
    """
    options = target.options(
        topic=topic,
        valueSchema=values,
        badRecords="column",
        # What is gone when a task comes to it was acked or expired since the snapshot.
        onDataLoss="warn",
        minPartitions=_parallelism(spark),
        mode=None if whole_topic else "backlog",
        subscription=None if whole_topic else subscription,
    )
    return spark.read.format("magnetar").options(**options).load()


def _parallelism(spark: "SparkSession") -> int | None:
    """Returns how many tasks run at once; None if Spark is elsewhere and does not say (Connect)."""
    context = getattr(spark, "sparkContext", None)
    return None if context is None else int(context.defaultParallelism)


def view(frame: "DataFrame") -> "DataFrame":
    """Returns the frame with the columns of the module."""
    from pyspark.sql import functions as F

    index = F.when(F.col("batch_index") >= 0, F.col("batch_index"))
    parts = [F.col("ledger_id"), F.col("entry_id"), index]
    return frame.withColumns(
        {
            "key": F.make_valid_utf8(F.col("key").cast("string")),
            "position": F.concat_ws(":", *parts),
        }
    )


def preview(schema: "StructType") -> "Column":
    """Returns the beginning of a value, on one line."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StructType

    kind = schema["value"].dataType
    text = F.to_json("value") if isinstance(kind, StructType) else F.col("value").cast("string")
    if isinstance(kind, BinaryType):
        text = F.coalesce(F.try_validate_utf8(text), F.concat(F.lit("0x"), F.hex("value")))
    return F.substring(F.regexp_replace(text, r"\s+", " "), 1, PREVIEW_CHARS)


def chosen(frame: "DataFrame", where: str) -> "DataFrame":
    """Returns the rows that a predicate is true for. Raises SettingsError for one that is none."""
    if not where.strip():
        return frame
    with predicate_errors(where):
        return frame.where(where)


@contextlib.contextmanager
def predicate_errors(where: str) -> Iterator[None]:
    """What Spark says of a predicate, also while it is computed, becomes a SettingsError."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        failure = failure_of(error)
        if isinstance(failure, PipelineError) and where.strip() and error.getCondition():
            raise SettingsError("where", _trimmed(str(error))) from None
        raise failure from error


def _trimmed(text: str) -> str:
    """Returns the sentence, without the plan and what only Spark's developers look for."""
    first = _CLASS.sub("", text.strip()).split("\n")[0]
    said, _, rest = first.partition("SQLSTATE:")
    at = re.search(r"line 1,? pos (\d+)", rest)
    return said.split("==")[0].strip() + (f" (at character {at[1]})" if at else "")
