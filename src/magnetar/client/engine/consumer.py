"""Consumers on the loop: all topics and partitions of one, found, joined and left."""

import asyncio
import re
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from magnetar.client.ack.entry_acks import Done, Waiter
from magnetar.client.consumer.acknowledger import AckFailure
from magnetar.client.consumer.batch_receive import BatchReceive
from magnetar.client.consumer.dead_letter import (
    dead_letter_topic,
    retry_letter_topic,
)
from magnetar.client.consumer.message import Message
from magnetar.client.consumer.withdrawal import Withdrawal
from magnetar.client.engine.letters import Letters
from magnetar.client.engine.partition_consumer import PartitionConsumer
from magnetar.client.engine.producer import partition_names, share, start_all
from magnetar.client.engine.retry_letters import RetryLetters
from magnetar.client.network.lookup import TopicList
from magnetar.client.network.patterns import matching, namespace_of, whole_pattern
from magnetar.client.option.options import ConsumerOptions
from magnetar.client.option.policy import ConsumerBatchReceivePolicy
from magnetar.client.schema.schema import Schema
from magnetar.client.schema.schema_info import SchemaInfo
from magnetar.client.telemetry.observer import Observer, Tracing
from magnetar.client.telemetry.stats import ConsumerStats, consumer_stats
from magnetar.client.telemetry.totals import Totals, part_key
from magnetar.client.transaction.core import TransactionCore
from magnetar.errors import (
    InvalidConfiguration,
    MagnetarError,
    OperationNotSupported,
    TopicNotFound,
    TopicTerminated,
    UsageError,
)
from magnetar.model import MessageId, TopicName

if TYPE_CHECKING:
    from magnetar.client.engine.client import Engine

__all__ = ["EngineConsumer"]


class EngineConsumer:
    """A consumer of one topic or many, partitioned or not, named or by a pattern."""

    def __init__(
        self,
        engine: "Engine",
        topics: list[str],
        pattern: "re.Pattern[str] | None",
        options: ConsumerOptions,
        schema: Schema[Any],
    ) -> None:
        self.engine: Engine = engine
        self.topics: list[str] = [str(TopicName.parse(topic)) for topic in topics]
        # With retries there is one of each for all topics.
        self._retries: RetryLetters | None = None
        self._pattern = pattern
        self.options = options
        # Whether the time of a message begins when it is taken.
        self._ack_timeout = options.unacked_messages_timeout_ms > 0
        # A name that stays, or a consumer that comes back would be another one.
        self.name: str = options.consumer_name or f"{int(engine.random() * (1 << 40)):010x}"
        self.schema = schema
        self._letters = Letters(engine, schema, options.crypto_key_reader)
        self.observer: Observer | None = engine.observer
        self.tracing: Tracing | None = engine.tracing
        if options.retry_enabled:
            self._enable_retries()
        self.parts: dict[str, PartitionConsumer] = {}
        self._order: list[PartitionConsumer] = []
        self._turn = 0
        # Taken by calls that were stopped before they could return them.
        self._returned: deque[Message] = deque()
        # Calls that gather messages, which the application does not have before they return.
        self._gathering: list[BatchReceive] = []
        self._waiters: list[asyncio.Future[None]] = []
        # How many calls wait for a message.
        self._waiting = 0
        self._discovery: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._hash = ""
        self.on_wake: Callable[[], None] = _nothing
        self.on_closed: Callable[[], None] = _nothing
        # Where `on_acknowledgement_failed` is called: here, unless a door has a thread for it.
        self.call_back: Callable[[Callable[[], object]], None] = _call
        # Called there with what was refused, and what is late, as brokers are asked for it.
        self.on_due: Callable[[set[MessageId], set[MessageId]], object] | None = None
        # Called there with what was published elsewhere, and what became of its ack.
        self.on_letter_acknowledged: Callable[[MessageId, Exception | None], object] | None = None
        self.closed: bool = False

    def _enable_retries(self) -> None:
        """Retry letters are received too; one topic of them does for all topics."""
        if self._pattern is not None:
            raise OperationNotSupported("retry_enabled needs topics by name, not by a pattern")
        first = str(TopicName.parse(self.topics[0]).partitioned)
        subscription, policy = self.options.subscription_name, self.options.dead_letter_policy
        retry_topic = retry_letter_topic(first, subscription, policy)
        dead_topic = dead_letter_topic(first, subscription, policy)
        self._retries = RetryLetters(
            self.engine, self._letters, self.options, retry_topic, dead_topic
        )
        self.topics.append(str(TopicName.parse(retry_topic)))

    async def start(self) -> None:
        """Raises what a broker refuses with."""
        try:
            await self._find()
        finally:
            if self.closed:
                # Before it had any of them: with the client.
                await asyncio.gather(*(part.close() for part in self._order))
        many = self._pattern is not None or any(
            TopicName.parse(name).partition >= 0 for name in self.parts
        )
        if many and not self.closed:
            self._discovery = asyncio.get_running_loop().create_task(self._discover())

    async def _find(self) -> None:
        """Subscribes to every topic there is that is not subscribed to yet."""
        if self._pattern is None:
            await self._subscribe_to(self.topics)
            return
        listed = await self._list(self._pattern)
        if listed.changed:
            await self._subscribe_to(matching(self._pattern, listed.names))
            # Not before: what failed is looked for again.
            self._hash = listed.hash

    async def _list(self, pattern: "re.Pattern[str]") -> TopicList:
        whole = whole_pattern(pattern.pattern)
        mode = int(self.options.regex_subscription_mode)
        # A topic that was deleted may be there again, and the list is as it was.
        known = "" if any(_gone(part) for part in self.parts.values()) else self._hash
        return await self.engine.retrying(
            lambda: self.engine.lookup.topics(namespace_of(whole), mode, whole, known)
        )

    async def _subscribe_to(self, topics: list[str]) -> None:
        """These are all: the others, if there were any, are left."""
        counts = await asyncio.gather(*(self.engine.partitions(topic) for topic in topics))
        wanted: dict[str, int] = {}
        for topic, count in zip(topics, counts, strict=True):
            wanted.update(dict.fromkeys(partition_names(topic, count), count))
        await self._leave(
            [part for part in self.parts.values() if part.topic not in wanted or _gone(part)]
        )
        parts = [
            self._make(name, count) for name, count in wanted.items() if name not in self.parts
        ]
        try:
            await start_all(parts)
        except BaseException:
            # Those that did start are kept, to be closed with the rest or to go on: those that
            # a broker knows of, and those that lost their connection meanwhile and come back.
            self._join([part for part in parts if part.connection is not None or part.running])
            raise
        self._join(parts)

    def _make(self, topic: str, partitions: int) -> PartitionConsumer:
        options = self.options
        queue_size = options.receiver_queue_size
        if queue_size > 0:
            total = options.max_total_receiver_queue_size_across_partitions
            queue_size = share(queue_size, total, partitions)
        # A topic of a pattern that is deleted does not come back because we look for it.
        may_create = self._pattern is None
        if self._retries is not None:
            dead_topic = self._retries.dead_topic
        else:
            policy = options.dead_letter_policy
            dead_topic = dead_letter_topic(topic, options.subscription_name, policy)
        part = PartitionConsumer(
            self.engine,
            topic,
            options,
            self.schema,
            self._awake,
            self.name,
            self._letters,
            dead_topic,
            queue_size,
            may_create,
            self._ack_failed,
            self._withdraw,
        )
        part.on_due = self._fell_due
        part.on_buried = lambda message: self._letter_acknowledged(message, None)
        observer = self.observer
        if observer is not None:
            key = part_key(part)
            part.core.acks.counts.watcher = lambda ms: observer.confirmed(*key, ms / 1000)
        return part

    def _join(self, parts: list[PartitionConsumer]) -> None:
        with self.engine.lock:
            for part in parts:
                self.parts[part.topic] = part
            self._order = list(self.parts.values())
            self._ask()
        if parts:
            self._awake()

    async def _leave(self, parts: list[PartitionConsumer]) -> None:
        with self.engine.lock:
            self._order = [part for part in self._order if part not in parts]
        try:
            await asyncio.gather(*(part.close() for part in parts))
        finally:
            with self.engine.lock:
                for part in parts:
                    del self.parts[part.topic]
                    self.engine.totals.remove_part(part)

    async def _discover(self) -> None:
        """Finds topics and partitions that came later."""
        interval = (
            self.options.pattern_auto_discovery_period
            if self._pattern is not None
            else self.options.auto_update_partitions_interval_seconds
        )
        while True:
            await asyncio.sleep(interval)
            try:
                await self._find()
            except MagnetarError as error:
                self.engine.log_problem("looking for topics", error)

    # ---- Messages ------------------------------------------------------------

    def take(self, held: bool = False) -> Message[Any] | None:
        """The next message, of each topic in turn; None if there is none now.

        The permit of one that is held stays with it until it is given back.
        """
        if self._returned:
            return self._returned.popleft()
        order = self._order
        if len(order) == 1:
            message = order[0].core.take(held)
            if self._ack_timeout:
                order[0].rearm()
            return message
        for _ in range(len(order)):
            self._turn += 1
            if self._turn >= len(order):
                self._turn = 0
            part = order[self._turn]
            message = part.core.take(held)
            if message is not None:
                if self._ack_timeout:
                    part.rearm()
                return message
        return None

    def put_back(self, messages: list[Message]) -> None:
        """Nobody got these after they were taken: they are the next. With the lock."""
        if messages and not self.closed:
            self._returned.extendleft(reversed(messages))
            self._awake()

    @property
    def has_returned(self) -> bool:
        """Whether there is a message that was put back."""
        return len(self._returned) > 0

    def _drop_returned(self, parts: list[PartitionConsumer]) -> None:
        """What these have delivered comes again, or is not wanted any more."""
        topics = {part.topic for part in parts}
        kept = [one for one in self._returned if one.topic_name() not in topics]
        self._returned = deque(kept)

    def gather(
        self, policy: ConsumerBatchReceivePolicy | None, now_s: Callable[[], float]
    ) -> BatchReceive:
        """A call that takes several messages begins; `handed` ends it. With the lock."""
        batch = BatchReceive(policy or self.options.batch_receive_policy, now_s)
        self._gathering.append(batch)
        return batch

    def handed(self, batch: BatchReceive) -> None:
        """What was gathered is the application's, or was put back. With the lock."""
        self._gathering.remove(batch)

    def _withdraw(self, topic: str, withdrawal: Withdrawal | None) -> None:
        """Drops messages of a topic that nobody was handed yet, or all of it. With the lock."""
        for batch in self._gathering:
            batch.withdraw(topic, withdrawal)
        if self._returned:
            kept = [
                one
                for one in self._returned
                if one.topic_name() != topic
                or (withdrawal is not None and not withdrawal.takes(one))
            ]
            self._returned = deque(kept)

    def give_back(self, message: Message) -> None:
        """A message that was held is done with. With the lock."""
        part = self.parts.get(message.topic_name())
        if part is not None:
            part.core.give_back()

    async def receive(self) -> Message[Any]:
        """The next message, when there is one."""
        waiting = False
        try:
            while True:
                with self.engine.lock:
                    self.check()
                    message = self.take()
                    if message is not None:
                        return message
                    if not waiting:
                        waiting = True
                        self.wait(1)
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiters.append(waiter)
                try:
                    await waiter
                except asyncio.CancelledError:
                    if waiter in self._waiters:
                        self._waiters.remove(waiter)
                    raise
        finally:
            if waiting:
                with self.engine.lock:
                    self.wait(-1)

    def wait(self, more: int) -> None:
        """So many calls more, or less, wait for a message. With the lock."""
        self._waiting += more
        self._ask()

    def _ask(self) -> None:
        """Where messages are not fetched ahead there is one for each who waits."""
        if self.options.receiver_queue_size == 0:
            for part in self._order:
                part.core.request(self._waiting)

    def check_open(self) -> None:
        if self.closed:
            raise self.engine.closed_error("the consumer is closed")

    def forked_off(self) -> None:
        """This is another process than the one that it works in: it has no messages here."""
        self.closed = True
        self._returned.clear()
        self._order = []

    def check(self) -> None:
        """Raises if one of the topics, or all together, will have no message any more."""
        failures = self._failures()
        if failures:
            raise failures[0]
        self._check_end()

    def check_all(self) -> None:
        """Raises if none of the topics will have a message any more."""
        failures = self._failures()
        if failures and len(failures) == len(self._order):
            raise failures[0]
        self._check_end()

    def _failures(self) -> list[Exception]:
        """Why topics will have no message. Raises AlreadyClosed."""
        self.check_open()
        return [
            part.failure
            for part in self._order
            if part.failure is not None and not (self._pattern is not None and _gone(part))
        ]

    def _check_end(self) -> None:
        # Of a pattern there may be another topic any time.
        if (
            self._pattern is None
            and self._order
            and all(part.ended and part.core.queue_length() == 0 for part in self._order)
        ):
            raise TopicTerminated("the topic is terminated, and everything in it was received")

    def _awake(self) -> None:
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        self.on_wake()

    # ---- Acks ----------------------------------------------------------------

    def part_of(self, message: Message | MessageId) -> PartitionConsumer:
        """The consumer that a message came from. Raises InvalidConfiguration."""
        if len(self._order) == 1:
            return self._order[0]
        part = self.parts.get(message.topic_name() or "")
        if part is not None:
            return part
        id = message.message_id() if isinstance(message, Message) else message
        for part in self._order:
            if len(self.topics) == 1 and part.core.partition == id.partition():
                return part
        raise InvalidConfiguration(
            f"{id} does not say which of {len(self._order)} topics it is from: acknowledge the "
            "message, or an id that came from one"
        )

    def acknowledge_message(self, message: Message) -> None:
        """Acks one message, and waits for nothing: what is done most."""
        if self.closed:
            self.check_open()
        part = self.part_of(message)
        if part.core.acknowledge_message(message):
            part.rearm()

    def acknowledge(self, ids: "list[Message | MessageId]", done: Done | None) -> None:
        """Acks messages; `done` is called when the ack is kept, or failed."""
        self.check_open()
        if not ids:
            if done is not None:
                done(None)
            return
        if len(self._order) == 1:
            self._order[0].core.acknowledge(ids, done)
            self._order[0].rearm()
            return
        by_part: dict[PartitionConsumer, list[Message | MessageId]] = {}
        for id in ids:
            by_part.setdefault(self.part_of(id), []).append(id)
        # All of them or none: one that cannot be acked is found before any is.
        for part, some in by_part.items():
            part.core.check_acks(some)
        whole = None if done is None else Waiter(done, len(by_part)).count_down
        for part, some in by_part.items():
            part.core.acknowledge(some, whole)
            part.rearm()

    def acknowledge_in(
        self, transaction: TransactionCore, ids: "list[Message | MessageId]", done: Done | None
    ) -> None:
        """Acks messages in a transaction; `done` is called when that is recorded, or failed."""
        self.check_open()
        by_part: dict[PartitionConsumer, list[Message | MessageId]] = {}
        for id in ids:
            by_part.setdefault(self.part_of(id), []).append(id)
        # All of them or none: one that cannot be acked is found before any is.
        for part, some in by_part.items():
            part.core.check_open()
            part.core.transactions.check(some, transaction)
        whole = None if done is None else Waiter(done, max(len(by_part), 1)).count_down
        for part, some in by_part.items():
            part.core.transactions.acknowledge(part.enlist(transaction), some, whole)
            part.rearm()
        if whole is not None and not by_part:
            whole(None)

    def acknowledge_cumulative_in(
        self, transaction: TransactionCore, message: Message | MessageId, done: Done | None
    ) -> None:
        self.check_open()
        part = self.part_of(message)
        part.core.check_open()
        part.core.transactions.acknowledge_cumulative(part.enlist(transaction), message, done)
        part.rearm()

    def acknowledge_cumulative(self, message: Message | MessageId, done: Done | None) -> None:
        self.check_open()
        part = self.part_of(message)
        if part.core.acknowledge_cumulative(message, done):
            part.rearm()

    def _ack_failed(self, failure: AckFailure) -> None:
        tell = self.options.on_acknowledgement_failed
        if tell is not None:
            self.call_back(lambda: tell(failure.message_ids, failure.error))

    def _fell_due(self, refused: set[MessageId], late: set[MessageId]) -> None:
        tell = self.on_due
        if tell is not None:
            self.call_back(lambda: tell(refused, late))

    def negative_acknowledge(self, message: Message | MessageId) -> None:
        part = self.part_of(message)
        part.core.negative_acknowledge(message)
        part.rearm()

    async def reconsume_later(
        self,
        message: Message,
        delay_ms: int,
        properties: dict[str, str] | None,
        done: Done | None,
        transaction: TransactionCore | None = None,
    ) -> None:
        """Publishes a message to be received again later, or as a dead letter; then acks it."""
        self.check_open()
        if self._retries is None:
            raise InvalidConfiguration(
                "this consumer receives no retry letters: subscribe with retry_enabled=True"
            )
        await self._retries.publish(message, delay_ms, properties, transaction)
        with self.engine.lock:
            self._acknowledge_letter(message, done, transaction)

    def _acknowledge_letter(
        self, message: Message, done: Done | None, transaction: TransactionCore | None
    ) -> None:
        told = None if done is None else partial(self._have_answer, message, done)
        try:
            if transaction is None:
                self.acknowledge([message], told)
            else:
                self.acknowledge_in(transaction, [message], told)
        except MagnetarError as error:
            self._letter_acknowledged(message, error)
            raise
        if told is None:
            self._letter_acknowledged(message, None)

    def _have_answer(self, message: Message, done: Done, error: Exception | None) -> None:
        self._letter_acknowledged(message, error)
        done(error)

    def _letter_acknowledged(self, message: Message, error: Exception | None) -> None:
        tell = self.on_letter_acknowledged
        if tell is not None:
            id = message.message_id()
            self.call_back(lambda: tell(id, error))

    def redeliver(self) -> None:
        self._returned.clear()
        for part in self._order:
            part.core.redeliver_all()

    def moved(self) -> None:
        """The client goes over to another cluster, where positions mean something else."""
        parts = list(self.parts.values())
        with self.engine.lock:
            self._drop_returned(parts)
        for part in parts:
            part.moved()

    # ---- Requests ------------------------------------------------------------

    async def schema_info(self, topic: str, version: int) -> SchemaInfo:
        return await self.engine.schema_info(topic, version.to_bytes(8, "big"))

    async def seek(self, id: MessageId | None, time_ms: int | None) -> None:
        self.check_open()
        if id is None and (not isinstance(time_ms, int) or time_ms < 0):
            raise UsageError(f"seek to {time_ms!r:.40}: give a message id, or a time in ms")
        parts = self._order
        if id is not None and id.entry_id() >= 0 and id != MessageId.latest:
            parts = [self.part_of(id)]
            await parts[0].seek(id, None)
        else:
            await asyncio.gather(*(part.seek(id, time_ms) for part in parts))
        with self.engine.lock:
            self._drop_returned(parts)

    async def last_message_ids(self) -> list[tuple[MessageId, MessageId | None]]:
        self.check_open()
        return await asyncio.gather(*(part.last_message_id() for part in self._order))

    async def unsubscribe(self) -> None:
        self.check_open()
        await asyncio.gather(*(part.unsubscribe() for part in self._order))
        await self.close()

    async def close(self, timeout_s: float | None = None) -> None:
        """Closes it, once. Who stops waiting does not stop it.

        Acks that are not confirmed yet are waited for so long: without a time, as long as an
        operation may take if acks are retried, else not at all. Those that are left fail.
        """
        if self.engine.forked:
            return
        self.closed = True
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(timeout_s))
        await asyncio.shield(self._closing)

    async def _close(self, timeout_s: float | None) -> None:
        self._returned.clear()
        self._awake()
        if self._discovery is not None:
            self._discovery.cancel()
            await asyncio.gather(self._discovery, return_exceptions=True)
        in_transactions = any(part.core.acks.transactions.unanswered for part in self._order)
        if timeout_s is None and (self.options.auto_retry_acknowledgement or in_transactions):
            timeout_s = self.engine.timeout_s
        if timeout_s is not None and timeout_s > 0 and not self.engine.shut_down:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await asyncio.gather(*(part.acks_kept() for part in self._order))
        await asyncio.gather(*(part.close() for part in self._order))
        await self._letters.close()
        self.engine.forget(self)
        self.on_closed()

    @property
    def topic(self) -> str:
        """The topics, or the pattern."""
        return ",".join(self.topics) if self._pattern is None else self._pattern.pattern

    @property
    def title(self) -> str:
        """The topic; of several the first, or the pattern."""
        return self.topics[0] if self._pattern is None else self._pattern.pattern

    def count_in(self, totals: Totals) -> None:
        totals.add_consumer(self)

    def count_out(self, totals: Totals) -> None:
        totals.remove_consumer(self)

    def stats(self) -> ConsumerStats:
        with self.engine.lock:
            return consumer_stats([part.core for part in self._order])

    @property
    def connected(self) -> bool:
        return not self.closed and all(part.connection is not None for part in self._order)

    @property
    def state(self) -> str:
        """Where it stands, in a word for people."""
        if self.closed:
            return "closed"
        if any(part.failure is not None for part in self._order):
            return "failed"
        return "connected" if self.connected else "reconnecting"

    @property
    def description(self) -> str:
        """The topic, the subscription and the state, for people."""
        return f"{self.topic}, subscription {self.options.subscription_name}: {self.state}"


def _gone(part: PartitionConsumer) -> bool:
    """Whether its topic was deleted."""
    return isinstance(part.failure, TopicNotFound)


def _nothing() -> None:
    pass


def _call(function: Callable[[], object]) -> None:
    """Calls a function of the application's on the loop, which complains if it raises."""
    asyncio.get_running_loop().call_soon(function)
