"""One task of a sink: rows to messages, in an executor.

| delivery    | order           | sequence ids             | a second run                      |
|-------------|-----------------|--------------------------|-----------------------------------|
| exactlyOnce | by content      | micro-batch and row      | sends what the broker lacks       |
| atLeastOnce | as rows come    | the producer's own       | sends everything again            |

Exactly once, a producer's name is the query's and the task's. The broker says which number
it has of that name last; what is not above it is not sent again, and deduplication refuses
what an older run of the task may still have on its way.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from magnetar.client.bulk import BulkClient
from magnetar.client.engine.producer import EngineProducer, partition_names
from magnetar.client.options import ProducerOptions
from magnetar.client.outgoing import Outgoing
from magnetar.client.router import hash_of_key
from magnetar.client.schema import BytesSchema
from magnetar.errors import SettingsError, UsageError
from magnetar.model import CompressionType, MessageId, TopicName
from magnetar.protocol import MESSAGE_SIZE_MAX
from magnetar.spark.connect import client_of
from magnetar.spark.digests import Digests
from magnetar.spark.plan.options import WriteOptions
from magnetar.spark.plan.rows import Row, content_key, digest_of, first_number
from magnetar.spark.rest import Rest

__all__ = ["COLUMNS", "TaskId", "publish"]

COLUMNS = ("value", "key", "ordering_key", "topic", "event_time", "deliver_at", "properties")
# How many messages may be under way.
WINDOW = 50_000
# How many are handed to a producer at a time.
TURN = 2000

_PLAIN = (None, None, None, None, None)

_KINDS = {
    "none": CompressionType.NONE,
    "lz4": CompressionType.LZ4,
    "zlib": CompressionType.ZLib,
    "zstd": CompressionType.ZSTD,
    "snappy": CompressionType.SNAPPY,
}
# Topics that are known to deduplicate, in this process.
_deduplicated: set[tuple[str, str]] = set()


class TaskId:
    """Which task this is: of a query or job, of a micro-batch, and which attempt."""

    def __init__(self, owner: str, batch_id: int, task: int, attempt: int) -> None:
        self.owner = owner
        self.batch_id = batch_id
        self.task = task
        self.attempt = attempt


def publish(options: WriteOptions, task: TaskId, batches: Iterator["pa.RecordBatch"]) -> int:
    """Publishes all rows, and says how many there were."""
    client = client_of(options.connection)
    if not options.exactly_once:
        return client.call(_publish_as_they_come(client, options, batches))
    rows = [row for batch in batches for row in rows_of(batch, options.topic)]
    return client.call(_publish_once(client, options, task, rows))


# ---- Rows --------------------------------------------------------------------


def rows_of(batch: "pa.RecordBatch", topic: str) -> list[Row]:
    """The rows of a record batch. Raises UsageError for those that cannot be sent."""
    count = batch.num_rows
    columns: dict[str, list[Any]] = {name: [None] * count for name in COLUMNS}
    for name in batch.schema.names:
        column = batch.column(name)
        if name in ("event_time", "deliver_at"):
            column = column.cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
        elif name in ("value", "ordering_key"):
            column = column.cast(pa.binary())
        elif name in ("key", "topic"):
            column = _text(column, name)
        columns[name] = column.to_pylist()
    topics = [one or topic for one in columns["topic"]]
    if "" in topics:
        raise SettingsError("topic", "a row has none: give the option, or fill the column")
    properties = [
        None if one is None else tuple(sorted((k, v or "") for k, v in one))
        for one in columns["properties"]
    ]
    return list(
        zip(
            topics,
            columns["value"],
            columns["key"],
            columns["ordering_key"],
            columns["event_time"],
            columns["deliver_at"],
            properties,
            strict=True,
        )
    )


def _text(column: "pa.Array", name: str) -> "pa.Array":
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        raise UsageError(f"a {name} is not UTF-8, as messages have it") from None


def _outgoing(row: Row, number: int | None) -> Outgoing:
    _, value, key, ordering_key, event_time, deliver_at, properties = row
    if row[2:] == _PLAIN and value is not None:
        return Outgoing(value, _wants_to_know, sequence_id=number)
    return Outgoing(
        value or b"",
        _wants_to_know,
        properties=dict(properties) if properties else None,
        partition_key=key,
        ordering_key=ordering_key,
        event_timestamp=event_time or 0,
        deliver_at=deliver_at,
        sequence_id=number,
        null_value=value is None,
    )


def _wants_to_know(error: Exception | None, id: MessageId | None) -> None:
    """Marks a message as one whose fate is told; `_Sending` hears of it, and counts."""


# ---- Producers ---------------------------------------------------------------


class _Sending:
    """A producer of one topic partition, and what became of what it sent."""

    def __init__(self, producer: EngineProducer) -> None:
        self._producer = producer
        self._sent = 0
        self._kept = 0
        self._error: Exception | None = None
        self._room = asyncio.Event()
        producer.settle = self._settle

    def _settle(self, dones: Any, error: Exception | None, ids: Any) -> None:
        if error is None:
            self._kept += len(dones)
        elif self._error is None:
            self._error = error
        if self._sent - self._kept <= WINDOW // 2 or error is not None:
            self._room.set()

    async def send(self, messages: list[Outgoing]) -> None:
        """Sends some, and waits while too many are under way."""
        send = self._producer.send
        for message in messages:
            send(message)
        self._sent += len(messages)
        # What was written goes out, and receipts come in, while somebody waits.
        await asyncio.sleep(0)
        while self._sent - self._kept > WINDOW and self._error is None:
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """Returns when everything is kept by the broker; raises what went wrong."""
        await self._producer.flush()
        if self._error is not None:
            raise self._error
        assert self._kept == self._sent, f"{self._sent - self._kept} messages have no receipt"


async def _open(
    client: BulkClient, options: WriteOptions, topic: str, name: str | None, *, large: bool
) -> tuple[_Sending, EngineProducer]:
    engine = client.aio._engine
    producer = EngineProducer(
        engine,
        topic,
        ProducerOptions(
            producer_name=name,
            batching_enabled=not large,
            batching_max_messages=options.batch_messages,
            batching_max_allowed_size_in_bytes=options.batch_bytes,
            chunking_enabled=large and options.chunking,
            compression_type=_KINDS[options.compression],
            max_pending_messages=WINDOW * 2,
            send_timeout_millis=options.connection.operation_timeout_s * 1000,
        ),
        BytesSchema(),
    )
    sending = _Sending(producer)
    await engine.open(producer)
    return sending, producer


async def _targets(client: BulkClient, topic: str) -> list[str]:
    """The partitions of a topic, or itself; it is made if brokers make topics."""
    name = str(TopicName.parse(topic))
    return partition_names(name, await client.aio._engine.partitions(name))


def _target_of(row: Row, index: int, targets: list[str]) -> str:
    """Where a row goes: by its key, as clients do, or in turn."""
    if len(targets) == 1:
        return targets[0]
    key = row[2]
    if key is not None:
        index = hash_of_key(ProducerOptions().hashing_scheme.value, key)
    return targets[index % len(targets)]


def _by_target(rows: list[Row], targets: dict[str, list[str]]) -> dict[str, list[Row]]:
    """Rows by the topic partition that they go to, in their order."""
    if len(targets) == 1:
        (names,) = targets.values()
        if len(names) == 1:
            return {names[0]: rows}
    found: dict[str, list[Row]] = {}
    for index, row in enumerate(rows):
        found.setdefault(_target_of(row, index, targets[row[0]]), []).append(row)
    return found


def _is_large(rows: list[Row]) -> bool:
    """Whether any value may be too large for a message that is not chunked."""
    return any(row[1] is not None and len(row[1]) > MESSAGE_SIZE_MAX * 9 // 10 for row in rows)


# ---- Once --------------------------------------------------------------------


async def _publish_once(
    client: BulkClient, options: WriteOptions, task: TaskId, rows: list[Row]
) -> int:
    keyed = sorted(((content_key(row), row) for row in rows), key=lambda pair: pair[0])
    targets = {topic: await _targets(client, topic) for topic in sorted({row[0] for row in rows})}
    by_target = _by_target([row for _, row in keyed], targets)
    digest = digest_of(
        [key for key, _ in keyed], [name for names in targets.values() for name in names]
    )
    _claim(options, task, digest)
    name = f"{options.producer_name or 'spark'}-{task.owner}-{task.task}"
    for target, part in by_target.items():
        await _send_once(client, options, target, name, first_number(task.batch_id), part)
    return len(rows)


def _claim(options: WriteOptions, task: TaskId, digest: str) -> None:
    if options.checkpoint:
        Digests(options.checkpoint, task.owner).claim(task.batch_id, task.task, digest)
    elif task.attempt > 0:
        raise SettingsError(
            "checkpointLocation",
            "missing: this task is run again, and without a place for digests nobody can tell "
            "whether its rows are the same; give one, or use delivery=atLeastOnce",
        )


async def _send_once(
    client: BulkClient, options: WriteOptions, target: str, name: str, first: int, rows: list[Row]
) -> None:
    await _deduplicate(client, options, target)
    sending, producer = await _open(client, options, target, name, large=_is_large(rows))
    try:
        last = producer.last_sequence_id
        # What the broker has of it is not sent again.
        left = max(last + 1 - first, 0)
        for at in range(left, len(rows), TURN):
            part = rows[at : at + TURN]
            await sending.send([_outgoing(row, first + at + i) for i, row in enumerate(part)])
        await sending.flush()
    finally:
        await producer.close()


async def _deduplicate(client: BulkClient, options: WriteOptions, target: str) -> None:
    """Sees to it that the topic deduplicates, or refuses."""
    topic = str(TopicName.parse(target).partitioned)
    known = (options.connection.admin_url, topic)
    if known in _deduplicated:
        return
    # A topic that is not there yet is made by a producer, if at all.
    _, first = await _open(client, options, target, None, large=False)
    await first.close()
    rest = Rest(options.connection)
    if not rest.deduplicates(topic):
        if options.deduplication == "set":
            rest.deduplicate(topic)
        if not rest.deduplicates(topic):
            raise SettingsError(
                "delivery",
                f"exactlyOnce needs deduplication on {topic}, and it is off: switch it on, "
                "give deduplication=set, or use delivery=atLeastOnce",
            )
    _deduplicated.add(known)


# ---- At least once -----------------------------------------------------------


async def _publish_as_they_come(
    client: BulkClient, options: WriteOptions, batches: Iterator["pa.RecordBatch"]
) -> int:
    open_ones: dict[tuple[str, bool], tuple[_Sending, EngineProducer]] = {}
    targets: dict[str, list[str]] = {}
    count = 0
    try:
        for batch in batches:
            rows = rows_of(batch, options.topic)
            large = _is_large(rows)
            for topic in {row[0] for row in rows} - set(targets):
                targets[topic] = await _targets(client, topic)
            for target, part in _by_target(rows, targets).items():
                key = (target, large)
                if key not in open_ones:
                    open_ones[key] = await _open(client, options, target, None, large=large)
                for at in range(0, len(part), TURN):
                    messages = [_outgoing(row, None) for row in part[at : at + TURN]]
                    await open_ones[key][0].send(messages)
            count += len(rows)
        for sending, _ in open_ones.values():
            await sending.flush()
    finally:
        for _, producer in open_ones.values():
            await producer.close()
    return count
