"""The bulk door: topics by the entry, for programs that read tables and not messages.

    client = BulkClient("pulsar://localhost:6650")
    with client.entries("orders", start=(4, 0), end=(4, 100)) as entries:
        while chunk := entries.next():
            ...

There is no thread: the loop runs while a call waits, in the thread that calls. So one thread
at a time uses a client, and between calls nothing is read and no PING is answered; a broker
that closes the connection for it is connected to again.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, Unpack

from magnetar.client.consumer.start.entry_range import At, Gap, RawEntry
from magnetar.client.door import aio
from magnetar.client.door.threads.loop_thread import new_event_loop
from magnetar.client.engine.entries import EngineEntries
from magnetar.client.engine.producer import EngineProducer, PartitionProducer, partition_names
from magnetar.client.engine.transaction import EngineTransaction
from magnetar.client.network.patterns import matching, namespace_of, whole_pattern
from magnetar.client.option.keywords import ClientKeywords
from magnetar.client.option.options import ProducerOptions
from magnetar.client.producer.core import ProducerCore
from magnetar.client.producer.outgoing import Outgoing
from magnetar.client.schema.schema import Schema
from magnetar.client.schema.schema_info import SchemaInfo
from magnetar.client.transaction.enlistment import Enlistment
from magnetar.errors import AlreadyClosed, TopicNotFound
from magnetar.model import MessageId, TopicName
from magnetar.model.txn_id import TxnId
from magnetar.protocol import MESSAGE_SIZE_MAX

__all__ = ["BulkClient", "BulkProducer", "Entries", "mark_delete"]

T = TypeVar("T")

CHUNK_BYTES = 1 << 20


class Entries:
    """A range of a topic's entries, chunk by chunk."""

    def __init__(self, client: "BulkClient", entries: EngineEntries, timeout_s: float) -> None:
        self._client = client
        self._entries = entries
        self._timeout_s = timeout_s

    def next(self, size_min: int = CHUNK_BYTES) -> list[RawEntry]:
        """Returns the next entries, of about so many bytes; none at the end of the range."""
        return self._client.call(self._entries.next_entries(size_min, self._timeout_s))

    def take_gaps(self) -> list[Gap]:
        """Returns the ranges that the broker passed over since the last call."""
        return self._entries.take_gaps()

    def close(self) -> None:
        self._client.call(self._entries.close())

    def __enter__(self) -> "Entries":
        return self

    def __exit__(self, *why: object) -> None:
        self.close()


class BulkProducer:
    """A producer whose program fills the core itself, many messages at a time.

    What goes by the core is for a topic that is not partitioned, or for one partition.
    """

    def __init__(self, producer: EngineProducer) -> None:
        self._producer = producer

    @property
    def _part(self) -> PartitionProducer:
        (part,) = self._producer._parts
        return part

    @property
    def topic(self) -> str:
        return self._producer.topic

    @property
    def last_sequence_id(self) -> int:
        """The sequence id of the last message that the broker has of this producer's name."""
        return self._producer.last_sequence_id

    @property
    def core(self) -> ProducerCore:
        """What decides; call `rearm` when something was put into it."""
        return self._part.core

    @property
    def failure(self) -> Exception | None:
        """Why the producer is of no use any more; None if it is."""
        return self._part.failure

    @property
    def message_size_max(self) -> int:
        """What the broker takes, whatever the topic."""
        connection = self._part.connection
        return MESSAGE_SIZE_MAX if connection is None else int(connection.max_message_size)

    def enlist(self, transaction: EngineTransaction) -> Enlistment:
        """Returns the place of this topic in a transaction, which its messages need."""
        return self._part.enlist(transaction.core)

    def call_on_answers(self, on_room: Callable[[], None]) -> None:
        """Has this called after each answer of the broker."""
        self._producer.on_room = on_room

    def rearm(self) -> None:
        """Sets the timers by what the core wants next."""
        self._part.rearm()

    def send(self, message: Outgoing) -> None:
        """Queues a message. Raises ProducerQueueIsFull, MessageTooBig, AlreadyClosed."""
        self._producer.send(message)

    async def flush(self) -> None:
        """Returns when everything sent so far is stored, or has failed. Raises AlreadyClosed."""
        await self._producer.flush()

    async def close(self) -> None:
        await self._producer.close()


async def mark_delete(consumer: aio.Consumer) -> MessageId | None:
    """Returns the position up to which the subscription of a topic that is not partitioned is
    acked.

    Returns None from a broker that does not tell.
    """
    ((_, position),) = await consumer._consumer.last_message_ids()
    return position


class BulkClient:
    """See the module."""

    def __init__(self, service_url: str, **options: Unpack[ClientKeywords]) -> None:
        """Options are those of `magnetar.Client`."""
        # The asyncio door, for what is not by the entry.
        self.aio: aio.Client = aio.Client(service_url, **options)
        self._engine = self.aio._engine
        self._loop = new_event_loop()
        self._watches: dict[str, EngineEntries] = {}
        self._closed = False

    def call(self, work: "Coroutine[Any, Any, T]") -> T:
        """Runs a coroutine to its end."""
        if self._closed:
            work.close()
            raise AlreadyClosed("the client is closed: make another")
        return self._loop.run_until_complete(work)

    # ---- Topics --------------------------------------------------------------

    def partitions(self, topic: str) -> list[str]:
        """Returns the names of a topic's partitions, or its own. Raises TopicNotFound."""
        return self.call(self._partitions(topic))

    async def _partitions(self, topic: str) -> list[str]:
        name = str(TopicName.parse(topic))
        count = await self._engine.retrying(
            lambda: self._engine.lookup.partitions(name, may_create=False)
        )
        return partition_names(name, count)

    def topics(self, pattern: str) -> list[str]:
        """Returns the names of all topics that match, partitioned ones once."""
        return self.call(self._topics(pattern))

    async def _topics(self, pattern: str) -> list[str]:
        whole = whole_pattern(pattern)
        # Not filtered by the broker, which would compare the names of partitions.
        found = await self._engine.retrying(
            lambda: self._engine.lookup.topics(namespace_of(whole), 0, "", "")
        )
        return matching(re.compile(pattern), found.names)

    def schema_info(self, topic: str, version: bytes) -> SchemaInfo:
        """Returns a topic's schema of a version, or its latest."""
        return self.call(self.find_schema_info(topic, version))

    async def find_schema_info(self, topic: str, version: bytes) -> SchemaInfo:
        """Returns a topic's schema of a version, or its latest, to who is in a coroutine
        already."""
        return await self._engine.schema_info(topic, version)

    async def count_partitions(self, topic: str) -> int:
        """Returns how many partitions a topic has, 0 for none; it is made if the broker makes
        topics."""
        return await self._engine.partitions(str(TopicName.parse(topic)))

    # ---- Producers -----------------------------------------------------------

    async def open_producer(
        self, topic: str, options: ProducerOptions, schema: Schema
    ) -> BulkProducer:
        """Returns a producer that is ready. Raises what the broker refuses it with."""
        producer = EngineProducer(self._engine, topic, options, schema)
        await self._engine.open(producer)
        return BulkProducer(producer)

    # ---- Transactions --------------------------------------------------------

    async def begin_transaction(self, timeout_ms: int) -> EngineTransaction:
        """Begins one. Raises TransactionsDisabledError."""
        return await self._engine.begin_transaction(timeout_ms)

    async def join_transaction(self, id: TxnId, timeout_ms: int) -> EngineTransaction:
        """Takes part in one that another client began, perhaps in another process."""
        return await self._engine.join_transaction(id, timeout_ms)

    # ---- Entries -------------------------------------------------------------

    def entries(self, topic: str, start: At, end: At | None, *, timeout_s: float = 60.0) -> Entries:
        """Returns the entries from `start` on, up to `end`, which is not included."""
        return Entries(self, self.call(self._open(topic, start, end)), timeout_s)

    async def _open(self, topic: str, start: At, end: At | None) -> EngineEntries:
        self._engine.bind()
        entries = EngineEntries(self._engine, topic, start, end)
        await entries.start()
        return entries

    def scan(
        self,
        ranges: "list[tuple[str, At, At]]",
        see: Callable[[str, RawEntry], None],
        *,
        timeout_s: float = 60.0,
    ) -> None:
        """Shows the entries of several topics, side by side; of each in their order."""
        self.call(self._scan(ranges, see, timeout_s))

    async def _scan(
        self,
        ranges: "list[tuple[str, At, At]]",
        see: Callable[[str, RawEntry], None],
        timeout_s: float,
    ) -> None:
        await asyncio.gather(*(self._scan_one(*one, see, timeout_s) for one in ranges))

    async def _scan_one(
        self,
        topic: str,
        start: At,
        end: At,
        see: Callable[[str, RawEntry], None],
        timeout_s: float,
    ) -> None:
        entries = await self._open(topic, start, end)
        try:
            while chunk := await entries.next_entries(CHUNK_BYTES, timeout_s):
                for raw in chunk:
                    see(topic, raw)
        finally:
            await entries.close()

    def last_ids(self, topics: list[str]) -> dict[str, "tuple[int, int, int, int] | None"]:
        """Returns ledger, entry, batch index and batch size of the last message of each topic.

        None is for a topic that does not exist any more.
        """
        return self.call(self._last_ids(topics))

    async def _last_ids(self, topics: list[str]) -> dict[str, "tuple[int, int, int, int] | None"]:
        self._engine.bind()
        found = await asyncio.gather(*(self._last_id(topic) for topic in topics))
        return dict(zip(topics, found, strict=True))

    async def _last_id(self, topic: str) -> "tuple[int, int, int, int] | None":
        watch = self._watches.get(topic)
        try:
            if watch is None or watch.failure is not None:
                watch = EngineEntries(
                    self._engine, topic, (-1, -1), None, reads=False, name="watch"
                )
                await watch.start()
                self._watches[topic] = watch
            return await watch.last_id()
        except TopicNotFound:
            self._watches.pop(topic, None)
            return None

    def close(self) -> None:
        if not self._closed:
            self.call(self._close())
            self._closed = True
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    async def _close(self) -> None:
        await asyncio.gather(*(watch.close() for watch in self._watches.values()))
        await self._engine.close()
