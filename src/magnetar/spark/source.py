"""The data source: what Spark calls by `format("magnetar")`.

Spark makes objects of these classes in several processes and sends them between them, so
they hold options and a schema, and nothing that is open.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    InputPartition,
)
from pyspark.sql.types import (
    BinaryType,
    DataType,
    StringType,
    StructField,
    StructType,
)

from magnetar.arrow.batch import COLUMNS
from magnetar.arrow.plan.backlog import BacklogSplit, plan_backlog
from magnetar.arrow.plan.range_end import Range
from magnetar.arrow.plan.settings import SPARK
from magnetar.arrow.read import Picks, read_split
from magnetar.arrow.snapshot import backlog_of
from magnetar.arrow.values import value_type_of
from magnetar.errors import SettingsError, TopicNotFound
from magnetar.spark.connect import client_of
from magnetar.spark.driver import Driver
from magnetar.spark.frame import COLUMN_TYPES, arrow_schema, spark_type
from magnetar.spark.plan.options import ReadOptions, is_skip
from magnetar.spark.rest import Rest

__all__ = ["BatchReader", "MagnetarDataSource", "Split"]


class Split(InputPartition):
    """A range of a topic partition, for one task."""

    def __init__(self, split: Range) -> None:
        super().__init__(split)
        self.split = split


class BacklogInput(InputPartition):
    """Runs of entries that are not acknowledged, for one task."""

    def __init__(self, split: BacklogSplit) -> None:
        super().__init__(split)
        self.split = split


class MagnetarDataSource(DataSource):
    """Topics of a broker as a table, a stream and a sink."""

    @classmethod
    def name(cls) -> str:
        return "magnetar"

    def schema(self) -> StructType:
        # Streams and batches have the same columns, and the same options say so.
        options = ReadOptions(_shared(dict(self.options)), streaming=True)
        fields = [StructField("value", _value_type(options))]
        fields += [StructField(name, kind) for name, kind in COLUMN_TYPES.items()]
        if options.bad_records == "column":
            fields.append(StructField("bad_record", StringType()))
        return StructType(fields)

    def reader(self, schema: StructType) -> "BatchReader":
        check_schema(schema)
        return BatchReader(dict(self.options), schema)

    def streamReader(self, schema: StructType) -> Any:
        from magnetar.spark.stream import StreamReader

        check_schema(schema)
        return StreamReader(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from magnetar.spark.sink import BatchWriter
        from magnetar.spark.skip import SkipWriter

        if is_skip(dict(self.options)):
            return SkipWriter(dict(self.options), schema, overwrite)
        return BatchWriter(dict(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        from magnetar.spark.sink import StreamWriter
        from magnetar.spark.skip import SkipStreamWriter

        if is_skip(dict(self.options)):
            return SkipStreamWriter(dict(self.options), schema, overwrite)
        return StreamWriter(dict(self.options), schema, overwrite)


class BatchReader(DataSourceReader):
    """What is between two positions, at the moment that the plan is made."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._options = options
        self._schema = schema
        ReadOptions(options, streaming=False)

    def partitions(self) -> list[InputPartition]:
        options = ReadOptions(self._options, streaming=False)
        driver = Driver(options)
        if options.backlog:
            rest = Rest(options.connection)
            backlogs = {
                topic: backlog_of(rest, topic, options.subscription)
                for topic in driver.require_topics()
            }
            return [BacklogInput(one) for one in plan_backlog(backlogs, options.partitions_min)]
        ranges = driver.starts().ranges_to(driver.stops())
        return [Split(split) for split in driver.splits(ranges, ask_ledgers=True)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        options = ReadOptions(self._options, streaming=False)
        if isinstance(partition, BacklogInput):
            topic, start, end, runs, bits = partition.split
            picked = {(ledger, entry): int(text, 16) for ledger, entry, text in bits}
            return self._read(options, (topic, start, end), Picks(runs, picked))
        # Spark makes a partition without a split of a plan that has none.
        if not isinstance(partition, Split):
            return iter(())
        return self._read(options, partition.split, None)

    def _read(
        self, options: ReadOptions, split: Range, picks: Picks | None
    ) -> Iterator["pa.RecordBatch"]:
        client = client_of(options.connection)
        return read_split(client, options.settings(), split, arrow_schema(self._schema), picks)


def check_schema(schema: StructType) -> None:
    """Whether there are such columns. Raises SettingsError."""
    unknown = [name for name in schema.names if name not in COLUMNS]
    if unknown:
        raise SettingsError(
            "schema", f"no column {', '.join(unknown)}; there are {', '.join(COLUMNS)}"
        )
    for field in schema.fields:
        if field.name == "value":
            kind = field.dataType
            if not isinstance(kind, BinaryType | StringType | StructType):
                raise SettingsError("schema", f"value cannot be {kind.simpleString()}")
        elif field.name in COLUMN_TYPES and field.dataType != COLUMN_TYPES[field.name]:
            raise SettingsError(
                "schema",
                f"{field.name} is {COLUMN_TYPES[field.name].simpleString()}, "
                f"not {field.dataType.simpleString()}",
            )


def _shared(options: "dict[str, str]") -> dict[str, str]:
    """Returns the options that decide about columns, whether of a stream or not."""
    without = ("endingoffsets", "endingtimestamp", "mode")
    return {k: v for k, v in options.items() if k.lower() not in without}


def _value_type(options: ReadOptions) -> DataType:
    if options.value_schema == "bytes":
        return BinaryType()
    if options.value_schema == "string":
        return StringType()
    driver = Driver(options)
    for topic in options.topics or driver.topics():
        return spark_type(value_type_of(driver.client, topic, SPARK.values))
    raise TopicNotFound(f"no topic matches {options.topics_pattern!r}, so there is no schema")
