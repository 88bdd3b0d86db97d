"""Skipping messages by query: `option("operation", "skip")` on a DataFrame of message ids.

Tasks gather ids and change nothing; the driver skips them when all tasks are done, with one
request for each topic (of more than 200,000 ids, for each 200,000), which is done as a whole or
not at all. A task that is run again gathers the same, and what is skipped already stays so; for
the same reason a stream of ids may skip those of a micro-batch twice.

Rows have `topic`, and `message_id` or `ledger_id`, `entry_id` and, for one message of a batch,
`batch_index`: as a read gives them.
"""

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from magnetar.errors import OperationNotSupported, SettingsError, TopicNotFound, UsageError
from magnetar.model import MessageId, TopicName
from magnetar.rest.path import subscription_path
from magnetar.spark.plan.options import SkipOptions
from magnetar.spark.rest import Rest

__all__ = ["SkipStreamWriter", "SkipWriter"]

log: logging.Logger = logging.getLogger("magnetar.spark")

# What fits into a request, and is skipped as a whole.
IDS_MAX = 200_000


class Gathered(WriterCommitMessage):
    """The ids that a task was given, by topic, as base64."""

    def __init__(self, ids: dict[str, list[str]]) -> None:
        self.ids = ids


class SkipWriter(DataSourceArrowWriter):
    """A write of a DataFrame. See the module."""

    def __init__(self, options: dict[str, str], schema: StructType, overwrite: bool) -> None:
        self._skip = _checked(options, schema, overwrite)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        return _gather(iterator)

    def commit(self, messages: "list[WriterCommitMessage | None]") -> None:
        _skip_all(self._skip, messages)

    def abort(self, messages: "list[WriterCommitMessage | None]") -> None:
        """Nothing was done."""


class SkipStreamWriter(DataSourceStreamArrowWriter):
    """A micro-batch of a query. See the module."""

    def __init__(self, options: dict[str, str], schema: StructType, overwrite: bool) -> None:
        self._skip = _checked(options, schema, overwrite)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        return _gather(iterator)

    def commit(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:
        _skip_all(self._skip, messages)

    def abort(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:
        """Nothing was done."""


def _checked(options: dict[str, str], schema: StructType, overwrite: bool) -> SkipOptions:
    found = SkipOptions(options)
    if overwrite:
        raise SettingsError("mode", "a skip is not overwritten: use append")
    names = set(schema.names)
    if "topic" not in names or not ("message_id" in names or {"ledger_id", "entry_id"} <= names):
        raise SettingsError(
            "schema", "a skip needs `topic`, and `message_id` or `ledger_id` and `entry_id`"
        )
    return found


def _gather(batches: Iterator["pa.RecordBatch"]) -> Gathered:
    found: dict[str, dict[str, None]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            topic, id = _id_of(row)
            found.setdefault(topic, {})[id] = None
    return Gathered({topic: list(ids) for topic, ids in found.items()})


def _skip_all(options: SkipOptions, messages: "list[WriterCommitMessage | None]") -> None:
    by_topic: dict[str, dict[str, None]] = {}
    for message in messages:
        if isinstance(message, Gathered):
            for topic, ids in message.ids.items():
                by_topic.setdefault(topic, {}).update(dict.fromkeys(ids))
    rest = Rest(options.connection)
    for topic in sorted(by_topic):
        ids = list(by_topic[topic])
        what = f"{len(ids)} messages of {topic} on {options.subscription}"
        if options.dry_run:
            log.warning("dry run: %s would be skipped", what)
            continue
        path = subscription_path(topic, options.subscription, "skipByMessageIds")
        for first in range(0, len(ids), IDS_MAX):
            part = ids[first : first + IDS_MAX]
            try:
                rest.post(path, {"type": "byteArray", "messageIds": part})
            except TopicNotFound as error:
                raise OperationNotSupported(
                    f"{what} cannot be skipped by id: is there such a subscription, and "
                    f"is the broker Magnetar? ({error})"
                ) from error
        log.info("skipped %s", what)


def _id_of(row: "dict[str, object]") -> tuple[str, str]:
    """Returns the topic, without its partition, and the id in base64."""
    topic, raw = row["topic"], row.get("message_id")
    if not isinstance(topic, str):
        raise UsageError("a row to skip has no topic")
    name = TopicName.parse(topic)
    if isinstance(raw, bytes):
        id = MessageId.deserialize(raw)
    else:
        ledger, entry, index = (row.get(n) for n in ("ledger_id", "entry_id", "batch_index"))
        if not isinstance(ledger, int) or not isinstance(entry, int):
            raise UsageError(f"a row of {topic} to skip has no message id")
        id = MessageId(name.partition, ledger, entry, index if isinstance(index, int) else -1)
    return str(name.partitioned), id.to_base64()
