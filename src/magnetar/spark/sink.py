"""The sink, batch and streaming: what Spark calls; tasks are in `publish`.

Spark makes a writer anew for every micro-batch, and another one to commit it: they hold
options, and what a commit must know travels in the messages. `abort` has nothing to undo but a
transaction that is open, for Spark may call it after a commit that failed: what is published stays,
and a second run sends what is missing.

A transaction begins when a writer is pickled, which is when it goes to its tasks: the writer that
Spark makes to commit does not go anywhere, and needs none.
"""

import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, MapType, StringType, StructType, TimestampType

from magnetar.errors import SettingsError
from magnetar.spark.digests import DigestMismatchError, Digests
from magnetar.spark.plan.options import WriteOptions
from magnetar.spark.publish import TaskId, publish
from magnetar.spark.sink_rows import COLUMNS
from magnetar.spark.transaction.batch import BatchTransaction

__all__ = ["BatchWriter", "StreamWriter", "Written"]

_TEXT = (BinaryType, StringType)
_TYPES = {
    "value": _TEXT,
    "key": _TEXT,
    "ordering_key": (BinaryType,),
    "topic": (StringType,),
    "event_time": (TimestampType,),
    "deliver_at": (TimestampType,),
    "properties": (MapType,),
}


class Written(WriterCommitMessage):
    """What a task has published."""

    def __init__(
        self, owner: str, task: int, rows: int, transaction: BatchTransaction | None = None
    ) -> None:
        self.owner = owner
        self.task = task
        self.rows = rows
        self.transaction = transaction


class _Transactional:
    """What both writers do about a transaction."""

    _write: WriteOptions
    _transaction: BatchTransaction | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self._write.transactional and self._transaction is None:
            self._transaction = BatchTransaction.begin(self._write)
        return dict(self.__dict__)


class BatchWriter(_Transactional, DataSourceArrowWriter):
    """A write of a DataFrame. Run again, it is a new one."""

    def __init__(self, options: dict[str, str], schema: StructType, overwrite: bool) -> None:
        self._job = uuid.uuid4().hex
        self._write = WriteOptions(options)
        check_sink(self._write, schema, overwrite)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        task = TaskId(self._job, 0, context.partitionId(), context.attemptNumber())
        rows = publish(self._write, task, iterator, self._transaction)
        return Written(self._job, task.task, rows, self._transaction)

    def commit(self, messages: "list[WriterCommitMessage | None]") -> None:
        if self._transaction is not None:
            self._transaction.commit_alone(self._write)

    def abort(self, messages: "list[WriterCommitMessage | None]") -> None:
        """Ends a transaction; without one there is nothing to do: see the module."""
        if self._transaction is not None:
            self._transaction.abort(self._write)


class StreamWriter(_Transactional, DataSourceStreamArrowWriter):
    """A micro-batch of a query."""

    def __init__(self, options: dict[str, str], schema: StructType, overwrite: bool) -> None:
        self._write = WriteOptions(options)
        check_sink(self._write, schema, overwrite)
        if self._write.delivery != "atLeastOnce" and not self._write.checkpoint:
            raise SettingsError("checkpointLocation", "missing: exactly once needs one")

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        assert query is not None
        assert batch_id is not None
        task = TaskId(query, int(batch_id), context.partitionId(), context.attemptNumber())
        rows = publish(self._write, task, iterator, self._transaction)
        return Written(query, task.task, rows, self._transaction)

    def commit(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:
        written = [one for one in messages if isinstance(one, Written)]
        if not written:
            return
        transaction = written[0].transaction
        if transaction is not None:
            transaction.commit(self._write, written[0].owner, batchId)
        if not self._write.exactly_once:
            return
        digests = Digests(self._write.checkpoint, written[0].owner)
        others = digests.tasks(batchId) - {one.task for one in written}
        if others:
            raise DigestMismatchError(
                f"micro-batch {batchId} was divided into other tasks than the first time "
                f"({sorted(others)[:10]} have sent rows too), so some rows are there twice: "
                "make the plan deterministic, or use delivery=atLeastOnce"
            )
        digests.forget_before(batchId)

    def abort(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:
        """Ends a transaction; without one there is nothing to do: see the module."""
        for one in messages:
            if isinstance(one, Written) and one.transaction is not None:
                one.transaction.abort(self._write)
                return


def check_sink(options: WriteOptions, schema: StructType, overwrite: bool) -> None:
    """Whether such rows can be sent. Raises SettingsError."""
    if overwrite:
        raise SettingsError("mode", "a topic cannot be overwritten: use append")
    unknown = [name for name in schema.names if name not in COLUMNS]
    if unknown:
        raise SettingsError(
            "schema", f"no column {', '.join(unknown)}; there are {', '.join(COLUMNS)}"
        )
    if "value" not in schema.names:
        raise SettingsError("schema", "there is no column `value`")
    for field in schema.fields:
        if not isinstance(field.dataType, _TYPES[field.name]):
            wanted = " or ".join(kind.typeName() for kind in _TYPES[field.name])
            raise SettingsError(
                "schema", f"{field.name} is {field.dataType.simpleString()}, not {wanted}"
            )
    if not options.topic and "topic" not in schema.names:
        raise SettingsError("topic", "missing: give the option or a column `topic`")
