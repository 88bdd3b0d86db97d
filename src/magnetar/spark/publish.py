"""One task of a sink: rows to messages, in an executor.

| delivery    | order           | sequence ids             | a second run                      |
|-------------|-----------------|--------------------------|-----------------------------------|
| exactlyOnce | by content      | micro-batch and row      | sends what the broker lacks       |
| atLeastOnce | as rows come    | the producer's own       | sends everything again            |
| transaction | as rows come    | the producer's own       | is refused, if the first has sent |

Exactly once, a producer's name is the query's and the task's. Of a second run the broker says
which number it has of that name last; what is not above it is not sent again, and deduplication
refuses what the first run may still have on its way. That goes by the entry, so both runs must
make the same ones: a batch ends by its count and size alone, never because time is up. And it
holds only if the broker has all below its last number, so rows never overtake others: a broker
that does not answer ends the run, with all that is under way; and where policies of the topic may
refuse a row, no entry is sent before the one before it is stored. If a policy is made stricter
while rows are under way, what it refuses is written down before the task fails.

In a transaction all tasks of a micro-batch share one, which `transaction/batch.py` begins and
commits. What a task that failed has sent is part of it, so nobody may send it again there.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterator
from typing import Any

import pyarrow as pa

from magnetar.client.door.bulk import BulkClient, BulkProducer
from magnetar.client.engine.producer import partition_names
from magnetar.client.engine.transaction import EngineTransaction
from magnetar.client.option.options import ProducerOptions
from magnetar.client.schema.schema import BytesSchema
from magnetar.errors import MagnetarError, SettingsError, Timeout
from magnetar.model import CompressionType, MessageId, TopicName
from magnetar.spark.connect import client_of, open_when_free
from magnetar.spark.digests import Digests
from magnetar.spark.plan.options import WriteOptions
from magnetar.spark.plan.rows import (
    Row,
    content_key,
    digest_of,
    first_number,
)
from magnetar.spark.plan.sending import send_rows
from magnetar.spark.rest import Rest
from magnetar.spark.sink_rows import Values, by_target, is_large, rows_of, turns, values_of
from magnetar.spark.transaction.batch import BatchTransaction

__all__ = ["TaskId", "publish"]

# How many messages may be under way.
WINDOW = 50_000
# A batch that is not full waits until all is sent.
NEVER_MS = 24 * 3_600_000
# How often it is asked whether a topic deduplicates by now.
EFFECT_POLL_S = 0.1
# What a row takes of an entry beside its bytes, at most.
ROW_OVERHEAD = 64
# By how much clocks may differ.
SKEW_MS = 60_000

_KINDS = {kind.name.lower(): kind for kind in CompressionType}
# In this process: topics that are known to be there, and partitions that deduplicate.
_made: set[tuple[str, str]] = set()
_deduplicated: set[tuple[str, str]] = set()


class TaskId:
    """Which task this is: of a query or job, of a micro-batch, and which attempt."""

    def __init__(self, owner: str, batch_id: int, task: int, attempt: int) -> None:
        self.owner = owner
        self.batch_id = batch_id
        self.task = task
        self.attempt = attempt


def publish(
    options: WriteOptions,
    task: TaskId,
    batches: Iterator["pa.RecordBatch"],
    transaction: BatchTransaction | None = None,
) -> int:
    """Publishes all rows, and says how many there were."""
    client = client_of(options.connection)
    if transaction is not None:
        rows = [batch for batch in batches if batch.num_rows]
        if not rows:
            return 0
        transaction.claim(task.task, task.attempt)
        return client.call(_publish_in(client, options, transaction, rows))
    if not options.exactly_once:
        return client.call(_publish_as_they_come(client, options, batches, None))
    return client.call(_publish_once(client, options, task, list(batches)))


async def _publish_in(
    client: BulkClient,
    options: WriteOptions,
    transaction: BatchTransaction,
    batches: "list[pa.RecordBatch]",
) -> int:
    joined = await client.join_transaction(transaction.id, options.transaction_timeout_ms)
    count = await _publish_as_they_come(client, options, iter(batches), joined)
    await joined.quiet()
    return count


# ---- Producers ---------------------------------------------------------------


class _Sending:
    """A producer of one topic partition, and what became of what it sent."""

    def __init__(
        self, producer: BulkProducer, timeout_s: float, transaction: EngineTransaction | None
    ) -> None:
        self._producer = producer
        self._enlistment = None if transaction is None else producer.enlist(transaction)
        self._timeout_s = timeout_s
        self._sent = 0
        self._error: Exception | None = None
        # Whether the topic refused messages, and may have taken others behind them.
        self.refused = False
        self._room = asyncio.Event()
        producer.call_on_answers(self._on_room)

    @property
    def message_size_max(self) -> int:
        """What the broker takes, whatever the topic."""
        return self._producer.message_size_max

    def _on_room(self) -> None:
        """Called after each answer of the broker."""
        core = self._producer.core
        # One that is closed gives up messages too, but all of them.
        self.refused = self.refused or (core.messages_failed > 0 and core.state != "closed")
        self._room.set()

    def _told(self, error: Exception | None, id: MessageId | None) -> None:
        """Called for some messages: why they failed, if they did."""
        if self._error is None:
            self._error = error

    async def send(self, rows: "Values | list[Row]") -> None:
        """Sends some, and waits while too many are under way."""
        core = self._producer.core
        self._check()
        if isinstance(rows, Values):
            rows.send(core, self._told, self._enlistment)
        else:
            send_rows(core, rows, self._told, self._enlistment)
        self._sent += len(rows)
        self._producer.rearm()
        # What was written goes out, and receipts come in, while somebody waits.
        await asyncio.sleep(0)
        while core.pending_messages > WINDOW and not core.messages_failed:
            self._room.clear()
            await self._answered(self._room.wait())
        self._check()

    async def flush(self) -> None:
        """Returns when everything is kept by the broker; raises what went wrong."""
        await self._answered(self._producer.flush())
        self._check()

    def _check(self) -> None:
        """Raises what went wrong, if anything did."""
        core, failure = self._producer.core, self._producer.failure
        if failure is not None:
            raise failure
        if not core.messages_failed:
            return
        error = self._error or MagnetarError(
            f"{core.messages_failed} of {self._sent} messages to {self._producer.topic} failed"
        )
        core.close(error)
        raise error

    async def _answered(self, wait: Coroutine[Any, Any, object]) -> None:
        """Waits; gives up everything that is under way if the broker keeps nothing for long."""
        core = self._producer.core
        waiting = asyncio.ensure_future(wait)
        stored = -1
        while not waiting.done() and core.messages_stored > stored:
            stored = int(core.messages_stored)
            await asyncio.wait([waiting], timeout=self._timeout_s)
        if not waiting.done():
            self._error = self._error or Timeout(
                f"no receipt for messages to {self._producer.topic} within {self._timeout_s} s: "
                "they may be stored or not"
            )
            core.close(self._error)
            self._room.set()
        await waiting


async def _open(
    client: BulkClient,
    options: WriteOptions,
    topic: str,
    name: str | None = None,
    *,
    large: bool = False,
    last_number: int | None = None,
    transaction: EngineTransaction | None = None,
) -> tuple[_Sending, BulkProducer]:
    """Returns a producer; `last_number` is that of the row before its first."""
    given = ProducerOptions(
        producer_name=name,
        initial_sequence_id=last_number,
        batching_enabled=not large,
        batching_max_messages=options.batch_messages,
        batching_max_allowed_size_in_bytes=options.batch_bytes,
        batching_max_publish_delay_ms=NEVER_MS,
        chunking_enabled=large and options.chunking,
        compression_type=_KINDS[options.compression],
        max_pending_messages=WINDOW * 2,
        # Who gives up some messages lets others overtake them: `_Sending` gives up all.
        send_timeout_millis=0,
    )
    producer = await open_when_free(client, topic, given, BytesSchema())
    return _Sending(producer, options.connection.operation_timeout_s, transaction), producer


async def _counts(client: BulkClient, topics: list[str]) -> dict[str, int]:
    """Returns how many partitions each topic has, 0 for none; it is made if brokers make topics."""
    return {topic: await client.count_partitions(topic) for topic in topics}


def _names(topic: str, count: int) -> list[str]:
    """Returns the partitions of a topic, or itself."""
    return partition_names(str(TopicName.parse(topic)), count)


# ---- Once --------------------------------------------------------------------


async def _publish_once(
    client: BulkClient, options: WriteOptions, task: TaskId, batches: "list[pa.RecordBatch]"
) -> int:
    rows: Values | list[Row]
    values = values_of(batches, options.topic)
    if values is not None:
        counts = await _counts(client, [options.topic])
        rows = values.in_order()
        digest = rows.digest(list(counts))
    else:
        plain = [row for batch in batches for row in rows_of(batch, options.topic)]
        keys = list(map(content_key, plain))
        order = sorted(range(len(plain)), key=keys.__getitem__)
        rows = [plain[i] for i in order]
        counts = await _counts(client, sorted({row[0] for row in rows}))
        digest = digest_of([keys[i] for i in order], list(counts))
    if not len(rows):
        counts = {}
    # Before it is claimed: of what was claimed some may be sent.
    for topic, count in counts.items():
        one = _names(topic, count)[0]
        await _deduplicate(client, options, one, again=_is_again(options, task))
    before = _claim(options, task, digest, counts)
    again = before is not None
    targets = {topic: _names(topic, count) for topic, count in (before or counts).items()}
    limits = {str(TopicName.parse(topic)): _Limits(options, topic, rows) for topic in counts}
    for target, part in by_target(rows, targets).items():
        if len(part):
            limit = limits.get(target) or limits[str(TopicName.parse(target).partitioned)]
            await _send_once(client, options, task, target, part, limit, again=again)
    return len(rows)


def _is_again(options: WriteOptions, task: TaskId) -> bool:
    place = options.checkpoint
    return bool(place) and Digests(place, task.owner).has(task.batch_id, task.task)


def _claim(
    options: WriteOptions, task: TaskId, digest: str, counts: dict[str, int]
) -> dict[str, int] | None:
    """If the task may have sent something before, how many partitions topics had then."""
    if options.checkpoint:
        digests = Digests(options.checkpoint, task.owner)
        return digests.claim(task.batch_id, task.task, digest, counts)
    if task.attempt > 0:
        raise SettingsError(
            "checkpointLocation",
            "missing: this task is run again, and without a place for digests nobody can tell "
            "whether its rows are the same; give one, or use delivery=atLeastOnce",
        )
    return None


async def _send_once(
    client: BulkClient,
    options: WriteOptions,
    task: TaskId,
    target: str,
    rows: "Values | list[Row]",
    limits: "_Limits",
    *,
    again: bool,
) -> None:
    await _await_deduplication(options, target)
    name = f"{options.producer_name or 'spark'}-{task.owner}-{task.task}"
    first = first_number(task.batch_id)
    done = 0
    if again:
        _, asking = await _open(client, options, target, name)
        # What the broker has of it is not sent again.
        done = max(asking.last_sequence_id + 1 - first, 0)
        await asking.close()
    if done >= len(rows):
        return
    sending, producer = await _open(
        client, options, target, name, large=is_large(rows), last_number=first + done - 1
    )
    few = limits.entry_rows(options, rows, sending.message_size_max)
    try:
        for part in turns(rows, done, few):
            await sending.send(part)
            if few:
                await sending.flush()
        await sending.flush()
    except MagnetarError as error:
        if sending.refused and options.checkpoint and not few:
            Digests(options.checkpoint, task.owner).refuse(task.batch_id, task.task, str(error))
        raise
    finally:
        await producer.close()


class _Limits:
    """What policies of a topic may refuse."""

    def __init__(self, options: WriteOptions, topic: str, rows: "Values | list[Row]") -> None:
        rest = Rest(options.connection)
        name = str(TopicName.parse(topic).partitioned)
        self._size_max = rest.message_size_max(name)
        latest_ms = 0 if isinstance(rows, Values) else max(row[5] or 0 for row in rows)
        self._delayed = latest_ms > 0
        delay_max_ms = rest.delay_max_ms(name) if self._delayed else 0
        in_ms = latest_ms - time.time() * 1000
        self._too_late = 0 < delay_max_ms < in_ms + SKEW_MS

    def entry_rows(
        self, options: WriteOptions, rows: "Values | list[Row]", broker_size_max: int
    ) -> int:
        """If the topic may refuse rows, how many of them are one entry for certain; else 0."""
        if not self._too_late and not 0 < self._size_max < broker_size_max:
            return 0
        if self._delayed:
            return 1  # a delayed row is an entry of its own
        size = rows.size_max if isinstance(rows, Values) else max(map(len, map(content_key, rows)))
        room = min(options.batch_bytes, self._size_max) // (size + ROW_OVERHEAD)
        return max(1, min(options.batch_messages, room))


async def _deduplicate(
    client: BulkClient, options: WriteOptions, target: str, *, again: bool
) -> None:
    """Sees to it that the topic of a partition is to deduplicate, or refuses."""
    topic = str(TopicName.parse(target).partitioned)
    known = (options.connection.admin_url, target)
    if known not in _made:
        # A topic that is not there yet is made by a producer, if at all.
        _, first = await _open(client, options, target)
        await first.close()
        _made.add(known)
    rest = Rest(options.connection)
    if rest.deduplicates(topic):
        return
    _deduplicated.clear()
    if again:
        raise SettingsError(
            "delivery",
            f"deduplication on {topic} was switched off since this task was first run, so nobody "
            "can tell which of its rows are there: look, and write those that are not with "
            "delivery=atLeastOnce, or all with another checkpointLocation",
        )
    if options.deduplication == "set":
        rest.deduplicate(topic)
    if not rest.deduplicates(topic):
        raise SettingsError(
            "delivery",
            f"exactlyOnce needs deduplication on {topic}, and it is off: switch it on, "
            "give deduplication=set, or use delivery=atLeastOnce",
        )


async def _await_deduplication(options: WriteOptions, target: str) -> None:
    """Returns when the topic partition deduplicates, as it is to."""
    known = (options.connection.admin_url, target)
    if known in _deduplicated:
        return
    rest = Rest(options.connection)
    timeout_s = options.connection.operation_timeout_s
    give_up = asyncio.get_running_loop().time() + timeout_s
    # At Apache Pulsar a policy takes effect in its own time.
    while not rest.is_deduplicating(target):
        if asyncio.get_running_loop().time() > give_up:
            raise Timeout(f"{target} does not deduplicate after {timeout_s} s, as it should")
        await asyncio.sleep(EFFECT_POLL_S)
    _deduplicated.add(known)


# ---- At least once, and in a transaction ---------------------------------------


async def _publish_as_they_come(
    client: BulkClient,
    options: WriteOptions,
    batches: Iterator["pa.RecordBatch"],
    transaction: EngineTransaction | None,
) -> int:
    open_ones: dict[tuple[str, bool], tuple[_Sending, BulkProducer]] = {}
    targets: dict[str, list[str]] = {}
    count = 0
    try:
        for batch in batches:
            rows = values_of([batch], options.topic) or rows_of(batch, options.topic)
            topics = {options.topic} if isinstance(rows, Values) else {row[0] for row in rows}
            for topic, found in (await _counts(client, list(topics - set(targets)))).items():
                targets[topic] = _names(topic, found)
            here = {topic: targets[topic] for topic in topics}
            large = is_large(rows)
            for target, part in by_target(rows, here).items():
                if (target, large) not in open_ones:
                    open_ones[target, large] = await _open(
                        client, options, target, large=large, transaction=transaction
                    )
                for turn in turns(part):
                    await open_ones[target, large][0].send(turn)
            # Spark may take long to make the next rows, and nothing is heard meanwhile.
            for sending, _ in open_ones.values():
                await sending.flush()
            count += len(rows)
    finally:
        for _, producer in open_ones.values():
            await producer.close()
    return count
