"""Producers on the loop: one for each partition, and the one that chooses among them."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from magnetar.client.network.connection import ClientConnection
from magnetar.client.network.reconnect import Alarm, Reconnecting
from magnetar.client.option.encryption import Sealer
from magnetar.client.option.options import ProducerOptions
from magnetar.client.producer.chunks import Part
from magnetar.client.producer.core import ProducerCore
from magnetar.client.producer.outgoing import Outgoing, Tell
from magnetar.client.producer.router import Router, make_router
from magnetar.client.schema.schema import Schema
from magnetar.client.schema.schema_wire import schema_to_pb
from magnetar.client.telemetry.observer import Observer, Tracing
from magnetar.client.telemetry.stats import ProducerStats, producer_stats
from magnetar.client.telemetry.totals import Totals
from magnetar.client.transaction.core import TransactionCore
from magnetar.client.transaction.enlistment import Enlistment, Participant
from magnetar.errors import (
    AlreadyClosed,
    MagnetarError,
    OperationNotSupported,
    ProducerQueueIsFull,
    Timeout,
)
from magnetar.model import ProducerAccessMode, TopicName
from magnetar.protocol import CommandSendReceipt, signed
from magnetar.protocol import pulsar_pb2 as pb

if TYPE_CHECKING:
    from magnetar.client.engine.client import Engine

__all__ = ["EngineProducer", "PartitionProducer"]


class PartitionProducer(Reconnecting):
    """The producer of one topic that is not partitioned, or of one partition."""

    def __init__(
        self,
        engine: "Engine",
        topic: str,
        options: ProducerOptions,
        schema: pb.Schema | None,
        pending_max: int,
        tell: Tell | None,
    ) -> None:
        super().__init__(f"producer of {topic}", engine.backoff(), engine.timeout_s, engine.log)
        self._engine = engine
        self.topic = topic
        self._whole_topic = str(TopicName.parse(topic).partitioned)
        self._options = options
        self._schema = schema
        self._id = engine.next_producer_id()
        self._epoch = 0
        self._topic_epoch: int | None = None
        self.name: str = options.producer_name or ""
        self._generated = not self.name
        self._ready: asyncio.Future[pb.CommandProducerSuccess] | None = None
        self._ready_request = 0
        self.core: ProducerCore = ProducerCore(
            options,
            topic,
            self._id,
            now_ms=engine.now_ms,
            day_ms=engine.day_ms,
            write=self._write,
            max_pending_messages=pending_max,
            sealer=_sealer(options, engine.now_ms()),
        )
        self.core.tell = tell
        self.core.callback_failed = lambda error: engine.log_problem("a callback of send", error)
        self._alarm = Alarm(engine.now_ms, self._tick)
        self.on_room: Callable[[], None] = _nothing
        self._participant: Participant | None = None

    # ---- Connecting ----------------------------------------------------------

    async def attach(self) -> ClientConnection:
        connection = await self._engine.lookup.broker_of(self.topic)
        connection.add_producer(self._id, self)
        try:
            success = await self._announce(connection)
        except BaseException as error:
            connection.remove_producer(self._id)
            # The broker may make it nonetheless, and it must not stay there.
            if isinstance(error, asyncio.CancelledError):
                connection.abandon(self._ready_request, self._close_command())
            elif isinstance(error, Timeout):
                connection.send([self._close_command()])  # the next attempt has the same id
            raise
        if connection.closed or self.was_closed:
            raise self._engine.connection_lost(connection)
        self.name = success.producer_name
        if success.HasField("topic_epoch"):
            self._topic_epoch = success.topic_epoch
        self.connection = connection
        with self._engine.lock:
            self.core.connected(
                success.producer_name,
                success.last_sequence_id,
                success.schema_version,
                connection.max_message_size,
            )
        self.rearm()
        self.on_room()  # the broker may have had what waited for its receipt
        return connection

    async def _announce(self, connection: ClientConnection) -> pb.CommandProducerSuccess:
        request_id = self._engine.next_request_id()
        command = pb.CommandProducer(
            topic=self.topic,
            producer_id=self._id,
            request_id=request_id,
            epoch=self._epoch,
            user_provided_producer_name=not self._generated,
            producer_access_mode=int(self._options.access_mode),
            encrypted=bool(self._options.encryption_keys),
            txn_enabled=self._engine.transactional,
        )
        self._epoch += 1
        if self.name:
            command.producer_name = self.name
        if self._schema is not None:
            command.schema.CopyFrom(self._schema)
        if self._topic_epoch is not None:
            command.topic_epoch = self._topic_epoch
        if self._options.initial_subscription_name:
            command.initial_subscription_name = self._options.initial_subscription_name
        for key, value in self._options.properties.items():
            command.metadata.add(key=key, value=value)
        self._ready = asyncio.get_running_loop().create_future()
        self._ready_request = request_id
        success = await connection.request(command, pb.CommandProducerSuccess)
        if success.producer_ready:
            return success
        return await self._ready  # the topic is not ours yet: wait, as was asked for

    def on_ready(self, success: pb.CommandProducerSuccess) -> None:
        mine = success.request_id == self._ready_request
        if mine and self._ready is not None and not self._ready.done():
            self._ready.set_result(success)

    def on_closed(self, connection: ClientConnection) -> None:
        attached = connection is self.connection and not connection.closed
        if attached and connection.is_magnetar:
            # Our broker closes a producer after the receipts of all that it has stored of it.
            with self._engine.lock:
                self.core.disconnected(answered=True)
        super().on_closed(connection)

    def detached(self) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(self._engine.connection_lost(None))
            self._ready.exception()
        with self._engine.lock:
            self.core.disconnected()

    def gave_up(self, error: Exception) -> None:
        with self._engine.lock:
            self.core.close(error)
        self.on_room()

    # ---- Sending -------------------------------------------------------------

    def send(self, message: Outgoing, hurried: bool = False) -> None:
        """Raises what the core raises. Any thread, with the engine's lock."""
        if self.failure is not None:
            raise self.failure
        if self.core.send(message, hurried):
            self.rearm()

    def enlist(self, transaction: TransactionCore) -> Enlistment:
        """The place of this topic in a transaction. With the lock."""
        if not TopicName.parse(self.topic).persistent:
            raise OperationNotSupported(f"{self.topic} is not persistent: it has no transactions")
        if self._participant is None:
            self._participant = Participant(
                enlisted=self._enlisted, flush=self._enlisted, ended=_ended
            )
        return transaction.enlist(self.topic, "", self._participant)

    def _enlisted(self) -> None:
        """A transaction has this topic, or is about to end: sends what waits for that."""
        self.core.enlisted()
        self.rearm()

    def _write(self, frames: list[Part], hurried: bool) -> None:
        if self.connection is not None:
            self._engine.write(self.connection, frames, hurried=hurried)

    def rearm(self) -> None:
        at_ms = self.core.next_ms()
        if not self._alarm.rings_by(at_ms):
            self._engine.on_loop(self._alarm.set, at_ms)

    def _tick(self) -> None:
        with self._engine.lock:
            self.core.tick(self._engine.now_ms())
        self.rearm()
        self.on_room()

    def on_receipt(self, receipt: CommandSendReceipt) -> None:
        with self._engine.lock:
            if self._engine.observer is None:
                in_step = self.core.receipt(receipt)
            else:
                in_step = self._observed(receipt, self._engine.observer)
        if not in_step:
            self.reconnect()
            return
        self.on_room()

    def _observed(self, receipt: CommandSendReceipt, observer: Observer) -> bool:
        core = self.core
        taken_ms, stored = core.oldest_ms, core.messages_stored
        in_step = core.receipt(receipt)
        if core.messages_stored > stored:
            seconds = max(self._engine.now_ms() - taken_ms, 0) / 1000
            observer.stored(self._whole_topic, seconds)
        return in_step

    def on_send_error(self, error: pb.CommandSendError) -> None:
        with self._engine.lock:
            known = self.core.send_error(error.error, error.message, signed(error.sequence_id))
        if not known:
            self.reconnect()
        self.on_room()

    def on_writable(self) -> None:
        self.on_room()

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Sends what is open, and calls back when all of it is stored or has failed."""
        with self._engine.lock:
            self.core.when_idle(callback)
        self.rearm()

    async def close(self) -> None:
        """Flushes, tells the broker, and fails what is left."""
        try:
            await self._say_goodbye()
        finally:
            await self._end()

    async def _say_goodbye(self) -> None:
        connection = self.connection
        if connection is not None:
            try:
                async with asyncio.timeout(self._timeout_s):
                    await flush([self])
            except TimeoutError:
                pass  # what is left fails below, with its own error
            if not connection.closed:
                with suppress(MagnetarError):  # it is closed, one way or the other
                    await connection.request(self._close_command(), pb.CommandSuccess)

    def _close_command(self) -> pb.CommandCloseProducer:
        return pb.CommandCloseProducer(
            producer_id=self._id, request_id=self._engine.next_request_id()
        )

    async def _end(self) -> None:
        await self.stop()
        if self.connection is not None:
            self.connection.remove_producer(self._id)
            self.connection = None
        self._alarm.cancel()
        with self._engine.lock:
            self.core.close(AlreadyClosed(f"the {self.what} is closed"))
        self.on_room()


def _sealer(options: ProducerOptions, now_ms: int) -> Sealer | None:
    """Raises CryptoError."""
    reader = options.crypto_key_reader
    if reader is None:
        return None
    return Sealer(options.encryption_keys, reader.wrap, os.urandom, now_ms)


def _nothing() -> None:
    pass


class EngineProducer:
    """A producer of a topic, partitioned or not."""

    def __init__(
        self, engine: "Engine", topic: str, options: ProducerOptions, schema: Schema[Any]
    ) -> None:
        self.engine: Engine = engine
        self.topic: str = str(TopicName.parse(topic))
        self.options = options
        self._schema = schema_to_pb(schema)
        self._parts: list[PartitionProducer] = []
        self._router: Router | None = None
        self._growth: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._pending_max = options.max_pending_messages
        # Messages that wait for room, in order; and between them futures of those who wait until
        # all before them have had it.
        self._in_turn: deque[Outgoing | asyncio.Future[None]] = deque()
        # Whether `send` takes nothing: it is closed, or others wait for room.
        self._gated = False
        self.on_room: Callable[[], None] = self.let_waiters_on
        self.on_closed: Callable[[], None] = _nothing
        self.tracing: Tracing | None = engine.tracing
        # As in the other clients: with other access modes each partition must be ours at once.
        self._lazy = (
            options.lazy_start_partitioned_producers
            and options.access_mode == ProducerAccessMode.Shared
        )
        self._started: set[PartitionProducer] = set()
        self._late: set[asyncio.Task[None]] = set()
        # Set before the start: see `ProducerCore.tell`.
        self.tell: Tell | None = None
        self.closed: bool = False

    async def start(self) -> None:
        """Raises what the broker refuses with."""
        count = await self.engine.partitions(self.topic)
        names = partition_names(self.topic, count)
        self._pending_max = share(
            self.options.max_pending_messages,
            self.options.max_pending_messages_across_partitions,
            count,
        )
        self._parts = [self._make(name) for name in names]
        if count > 0:
            self._router = make_router(self.options, self.engine.random)
        await self._start_first(self._router)
        if count > 0:
            self._growth = asyncio.get_running_loop().create_task(self._grow())

    async def _start_first(self, router: Router | None) -> None:
        """Starts all, or one of them, so that what the broker refuses is heard now."""
        if router is None or not self._lazy:
            await start_all(self._parts)
            self._started = set(self._parts)
            return
        first = 0
        if self.options.message_router is None:
            # Where messages without a key go, if they all go to one.
            first = router.choose(Outgoing(b""), len(self._parts), self.engine.now_ms())
        await self._parts[first].start()
        self._started = {self._parts[first]}

    def _start_late(self, part: PartitionProducer) -> None:
        """The first message of a partition: it waits there for the connection."""
        self._started.add(part)
        self.engine.on_loop(self._begin_late, part)

    def _begin_late(self, part: PartitionProducer) -> None:
        task = asyncio.get_running_loop().create_task(self._start_part(part))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _start_part(self, part: PartitionProducer) -> None:
        if not part.stopped:
            try:
                await part.start()
            except MagnetarError as error:
                # Its messages have it too.
                self.engine.log_problem(f"the {part.what}", error)

    def _make(self, topic: str) -> PartitionProducer:
        part = PartitionProducer(
            self.engine, topic, self.options, self._schema, self._pending_max, self.tell
        )
        part.on_room = lambda: self.on_room()
        return part

    async def _grow(self) -> None:
        """Finds partitions that were added."""
        while True:
            await asyncio.sleep(self.options.auto_update_partitions_interval_seconds)
            try:
                count = await self.engine.lookup.partitions(self.topic)
                for name in partition_names(self.topic, count)[len(self._parts) :]:
                    part = self._make(name)
                    if not self._lazy:
                        await part.start()
                        self._started.add(part)
                    self._parts.append(part)
            except MagnetarError as error:
                self.engine.log_problem(f"looking for partitions of {self.topic}", error)

    # ---- Sending -------------------------------------------------------------

    def send(self, message: Outgoing, hurried: bool = False) -> None:
        """Queues a message. Raises ProducerQueueIsFull, MessageTooBig, AlreadyClosed."""
        if message.transaction is not None and message.enlistment is None:
            self._send_in(message.transaction, message, hurried)
            return
        if self._gated:
            self._check_open()
            raise ProducerQueueIsFull(f"messages of {self.topic} wait for room already")
        parts = self._parts
        if self._router is None:
            # As `PartitionProducer.send`, for what is done most.
            part = parts[0]
            if part.failure is not None:
                raise part.failure
            if part.core.send(message, hurried):
                part.rearm()
        else:
            part = parts[self._router.choose(message, len(parts), self.engine.now_ms())]
            part.send(message, hurried)
            if self._lazy and part not in self._started:
                self._start_late(part)

    def _send_in(self, transaction: TransactionCore, message: Outgoing, hurried: bool) -> None:
        """As `send`, in a transaction, which counts it from now on. Raises what that raises."""
        self._check_open()
        joins = not message.joined
        if joins:
            transaction.join()
            message.joined = True
        try:
            if self._gated:
                raise ProducerQueueIsFull(f"messages of {self.topic} wait for room already")
            part = self._parts[0]
            if self._router is not None:
                at = self._router.choose(message, len(self._parts), self.engine.now_ms())
                part = self._parts[at]
            message.enlistment = part.enlist(transaction)
            part.send(message, hurried)
        except BaseException:
            message.enlistment = None
            if joins:
                message.joined = False
                transaction.leave(1, None)
            raise
        if self._lazy and part not in self._started:
            self._start_late(part)

    def _check_open(self) -> None:
        if self.closed:
            raise self.engine.closed_error(f"the producer of {self.topic} is closed")

    def forked_off(self) -> None:
        """This is another process than the one that it works in."""
        self.closed = True
        self._gated = True

    def wait_in_turn(self, message: Outgoing) -> None:
        """A message without room waits for it, and all after it do too. Raises AlreadyClosed."""
        self._check_open()
        if message.transaction is not None:
            message.transaction.join()
            message.joined = True
        self._in_turn.append(message)
        self._gated = True

    async def send_when_room(self, message: Outgoing) -> None:
        """As `send`, but waits while the queue is full."""
        while True:
            try:
                self.send(message)
                return
            except ProducerQueueIsFull:
                await self._turn()

    async def _turn(self) -> None:
        """Returns when all that waits for room now has had it; there may be no more left."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._in_turn.append(turn)
        self._gated = True
        await turn

    def let_waiters_on(self) -> None:
        """Sends what waits for room, as far as there is some."""
        waiting = self._in_turn
        if not waiting:
            return
        self._gated = False
        while waiting:
            first = waiting[0]
            if isinstance(first, Outgoing):
                if _is_cancelled(first):
                    _leave(first, None)
                elif not self._sent_late(first):
                    break
            elif not first.done():
                first.set_result(None)
            waiting.popleft()
        self._gated = self.closed or len(waiting) > 0

    def _sent_late(self, message: Outgoing) -> bool:
        """Sends a message that waited; False if it has to go on waiting."""
        try:
            self.send(message)
        except ProducerQueueIsFull:
            return False
        except Exception as error:
            self._fail_late(message, error)
        return True

    def _fail_late(self, message: Outgoing, error: Exception) -> None:
        _leave(message, error)
        if self.tell is not None and message.sender is not None:
            self.tell([message.sender], error, [])

    def _fail_waiting(self) -> None:
        """Nothing will be sent any more."""
        waiting, self._in_turn = self._in_turn, deque()
        for one in waiting:
            if isinstance(one, Outgoing):
                error = AlreadyClosed(f"the producer of {self.topic} is closed")
                self._fail_late(one, error)
            elif not one.done():
                one.set_result(None)

    def send_now(self, message: Outgoing) -> None:
        """As `send`, for one who waits: written at once if it can be, in a batch that is closed."""
        self.send(message, hurried=True)
        for part in self._parts:
            part.core.flush(hurried=True)

    async def flush(self) -> None:
        """Returns when everything sent so far is stored, or has failed. Raises AlreadyClosed."""
        self._check_open()
        if self._in_turn:
            await self._turn()
        await flush(self._parts)

    async def close(self) -> None:
        """Closes it, once. Who stops waiting does not stop it."""
        if self.engine.forked:
            return
        self.closed = True
        self._gated = True
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._growth is not None:
            self._growth.cancel()
            await asyncio.gather(self._growth, return_exceptions=True)
        # Messages wait there, and are not to be lost because nobody waited for them.
        await asyncio.gather(*self._late, return_exceptions=True)
        if self._in_turn and self._started_are_connected and not self.engine.shut_down:
            with suppress(TimeoutError):  # what is left fails below, with its own error
                async with asyncio.timeout(self.engine.timeout_s):
                    await self._turn()
        self._fail_waiting()
        await asyncio.gather(*(part.close() for part in self._parts))
        self.on_room()
        self.on_closed()
        self.engine.forget(self)

    # ---- About it ------------------------------------------------------------

    @property
    def name(self) -> str:
        return next((part.name for part in self._parts if part.name), "")

    def day_ms(self) -> int:
        """The time of day, as the engine has it."""
        return self.engine.day_ms()

    def count_in(self, totals: Totals) -> None:
        totals.add_producer(self)

    def count_out(self, totals: Totals) -> None:
        totals.remove_producer(self)

    def stats(self) -> ProducerStats:
        with self.engine.lock:
            return producer_stats([part.core for part in self._parts])

    @property
    def last_sequence_id(self) -> int:
        return max(part.core.last_sequence_id for part in self._parts)

    @property
    def connected(self) -> bool:
        return not self.closed and self._started_are_connected

    @property
    def _started_are_connected(self) -> bool:
        return all(part.connection is not None for part in self._started)

    @property
    def state(self) -> str:
        """Where it stands, in a word for people."""
        if self.closed:
            return "closed"
        if any(part.failure is not None for part in self._parts):
            return "failed"
        return "connected" if self.connected else "reconnecting"


def _ended(transaction: TransactionCore, end: int) -> None:
    """A producer has nothing to do at the end of a transaction."""


def _leave(message: Outgoing, error: Exception | None) -> None:
    """It was in a transaction that counted it, and is not sent."""
    if message.transaction is not None and message.joined:
        message.transaction.leave(1, error)


def _is_cancelled(message: Outgoing) -> bool:
    sender = message.sender
    return isinstance(sender, asyncio.Future) and sender.cancelled()


async def flush(parts: Sequence[PartitionProducer]) -> None:
    """Sends what is open of all before it waits for any."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    left = len(parts)

    def idle() -> None:
        nonlocal left
        left -= 1
        if left == 0 and not done.done():
            done.set_result(None)

    for part in parts:
        part.when_idle(idle)
    await done


def partition_names(topic: str, count: int) -> list[str]:
    """The topics that a producer or consumer of this one uses."""
    if count == 0:
        return [topic]
    name = TopicName.parse(topic)
    return [str(name.with_partition(number)) for number in range(count)]


def share(one_max: int, all_max: int, partitions: int) -> int:
    """What each of several partitions may have, when all of them have a limit; 0 is none."""
    if partitions == 0 or all_max == 0:
        return one_max
    return min(one_max or all_max, max(all_max // partitions, 1))


async def start_all(parts: "Sequence[Reconnecting]") -> None:
    """Starts them together; the first error, when all have known."""
    results = await asyncio.gather(*(part.start() for part in parts), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
