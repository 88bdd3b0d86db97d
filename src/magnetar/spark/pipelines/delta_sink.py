"""A Delta table as a sink of streams, through delta-rs: each micro-batch exactly once.

Tasks write Parquet files below the table and tell the driver of them; nobody sees a file before
the driver adds all of a micro-batch to the table's log, in one commit that carries the id of
the query and the number of the batch. A batch that is run again finds its number there, or
one after it, and adds nothing. Files of tasks that failed stay unseen until a VACUUM.

The table is made before (`create_table`), so that a query which is wrong has changed nothing.
"""

import json
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as fs
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

__all__ = ["DeltaSink", "create_table"]

NAME = "magnetar_delta"


def create_table(path: str, schema: StructType, partition_by: Sequence[str]) -> DeltaTable:
    """Returns the table, which is made if it is not there."""
    return DeltaTable.create(
        path,
        _arrow_schema(schema),
        mode="ignore",
        partition_by=list(partition_by),
        name="archive",
    )


class DeltaSink(DataSource):
    """`format("magnetar_delta")` with `path` and `partitionBy`, columns with commas between."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def streamWriter(self, schema: StructType, overwrite: bool) -> "DeltaWriter":
        return DeltaWriter(
            self.options["path"], schema, self.options.get("partitionby", "").split(",")
        )


@dataclass
class Written(WriterCommitMessage):
    """The files of one task, and the query that it is of."""

    query_id: str
    files: list[dict[str, Any]] = field(default_factory=list)


class DeltaWriter(DataSourceStreamArrowWriter):
    """See the module."""

    def __init__(self, path: str, schema: StructType, partition_by: Sequence[str]) -> None:
        self._path = path
        self._schema = schema
        self._partition_by = [name for name in partition_by if name]

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Written:
        context = TaskContext.get()
        assert context is not None
        query_id = context.getLocalProperty("sql.streaming.queryId")
        assert query_id is not None
        files = _TaskFiles(self._path, self._partition_by)
        for batch in iterator:
            files.write(batch)
        return Written(query_id, files.close())

    # Spark gives a task's message or None, though it says that there are no Nones.
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = [one for one in messages if isinstance(one, Written)]
        if not written:
            return
        query_id = written[0].query_id
        table = DeltaTable(self._path)
        before = table.transaction_version(query_id)
        if before is not None and before >= batchId:
            return
        table.create_write_transaction(
            [AddAction(**one) for message in written for one in message.files],
            "append",
            _arrow_schema(self._schema),
            partition_by=self._partition_by,
            commit_properties=CommitProperties(app_transactions=[Transaction(query_id, batchId)]),
        )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: files that are not in the log are not in the table."""


class _TaskFiles:
    """The Parquet files of one task, one for each partition of the table."""

    def __init__(self, path: str, partition_by: list[str]) -> None:
        self._system, self._root = _file_system(path)
        self._partition_by = partition_by
        self._open: dict[tuple[Any, ...], tuple[str, Any]] = {}
        self._rows: dict[tuple[Any, ...], int] = {}

    def write(self, batch: "pa.RecordBatch") -> None:
        table = pa.Table.from_batches([batch])
        keys = table.select(self._partition_by).group_by(self._partition_by).aggregate([])
        for key in keys.to_pylist():
            mask = None
            for name in self._partition_by:
                same = pc.equal(table[name], pa.scalar(key[name], table[name].type))
                mask = same if mask is None else pc.and_(mask, same)
            rows = table if mask is None else table.filter(mask)
            self._add(tuple(key.items()), rows.drop_columns(self._partition_by))

    def _add(self, key: tuple[Any, ...], rows: "pa.Table") -> None:
        if key not in self._open:
            directory = "/".join(f"{name}={value}" for name, value in key)
            path = f"{directory}/part-{uuid.uuid4()}.parquet"
            self._system.create_dir(f"{self._root}/{directory}", recursive=True)
            writer = pq.ParquetWriter(
                f"{self._root}/{path}", rows.schema, filesystem=self._system, compression="zstd"
            )
            self._open[key] = (path, writer)
            self._rows[key] = 0
        self._open[key][1].write_table(rows)
        self._rows[key] += rows.num_rows

    def close(self) -> list[dict[str, Any]]:
        """Returns what the log is told of each file."""
        found: list[dict[str, Any]] = []
        for key, (path, writer) in self._open.items():
            writer.close()
            info = self._system.get_file_info(f"{self._root}/{path}")
            found.append(
                {
                    "path": path,
                    "size": info.size,
                    "partition_values": {name: str(value) for name, value in key},
                    "modification_time": int(info.mtime_ns // 1_000_000),
                    "data_change": True,
                    "stats": json.dumps({"numRecords": self._rows[key]}),
                }
            )
        return found


def _file_system(path: str) -> tuple[Any, str]:
    system, root = fs.FileSystem.from_uri(path if "://" in path else os.path.abspath(path))
    return system, root


def _arrow_schema(schema: StructType) -> "pa.Schema":
    return to_arrow_schema(schema, timezone="UTC")
