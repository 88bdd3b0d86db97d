"""A consumer on the loop, of one topic that is not partitioned, or of one partition."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message as Pb

from magnetar.client.consumer.acknowledger import AckFailure
from magnetar.client.consumer.core import ConsumerCore
from magnetar.client.consumer.message import Message
from magnetar.client.consumer.origin import Origin
from magnetar.client.consumer.outstanding import Due
from magnetar.client.consumer.start.seek_target import seek_target
from magnetar.client.consumer.withdrawal import Withdrawal, whole_entries
from magnetar.client.engine.burials import Burials
from magnetar.client.engine.letters import Letters
from magnetar.client.network.connection import ClientConnection
from magnetar.client.network.reconnect import Alarm, Reconnecting
from magnetar.client.option.options import ConsumerOptions
from magnetar.client.schema.schema import BytesSchema, Schema
from magnetar.client.schema.schema_wire import schema_to_pb
from magnetar.client.transaction.core import TransactionCore
from magnetar.client.transaction.enlistment import Enlistment, Participant
from magnetar.errors import AlreadyClosed, Interrupted, MagnetarError, Timeout
from magnetar.model import ConsumerType, MessageId, TopicName
from magnetar.model.message_id import message_id_of
from magnetar.model.position_key import wide_key, wide_key_entry, wide_key_ledger
from magnetar.protocol import (
    Command,
    CommandAckResponse,
    CommandMessage,
    message_id_from_pb,
    message_id_to_pb,
    signed,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.wire.ack_set import bits_to_words, words_to_bits
from magnetar.wire.runs import runs_of

if TYPE_CHECKING:
    from magnetar.client.engine.client import Engine
from magnetar.model.subscription_type import type_of

__all__ = ["PartitionConsumer"]

T = TypeVar("T", bound=Pb)

# Apache's broker closes a consumer that seeks, and may be reading for it still: who comes back
# before that read has ended is given everything twice, or nothing. Its own clients wait as long.
AFTER_SEEK_SECONDS = 0.1
# A broker asks for fewer entries at once.
WITHDRAWN_MAX = 1_000_000


class PartitionConsumer(Reconnecting):
    """The consumer of one topic that is not partitioned, or of one partition."""

    def __init__(
        self,
        engine: "Engine",
        topic: str,
        options: ConsumerOptions,
        schema: Schema,
        wake: Callable[[], None],
        name: str,
        letters: Letters,
        dead_topic: str,
        queue_size: int,
        may_create: bool,
        ack_failed: Callable[[AckFailure], None],
        withdrawn: Callable[[str, Withdrawal | None], None],
    ) -> None:
        super().__init__(f"consumer of {topic}", engine.backoff(), engine.timeout_s, engine.log)
        self._engine = engine
        self.topic = topic
        self.options = options
        self._schema_pb = schema_to_pb(schema)
        self._may_create = may_create
        self._name = name
        self._id = engine.next_consumer_id()
        self.core: ConsumerCore = ConsumerCore(
            options,
            topic,
            TopicName.parse(topic).partition,
            self._id,
            now_ms=engine.now_ms,
            write=self._write,
            wake=wake,
            random=engine.random,
            decode=None if type(schema) is BytesSchema else schema.decode_message,
            receiver_queue_size=queue_size,
            receipt_timeout_ms=int(engine.timeout_s * 1000),
        )
        self.core.unread.warn = engine.warn
        self.core.when_again(self._asked_again, self._fell_due)
        # Told of what was refused, and what is late, as the broker is asked for it.
        self.on_due: Callable[[set[MessageId], set[MessageId]], None] | None = None
        # Told of each dead letter that is where it belongs, and acked here.
        self.on_buried: Callable[[Message], None] | None = None
        self._burials = Burials(
            engine, options, self.core, letters, dead_topic, self.rearm, self._buried
        )
        self._wake = wake
        self._ack_failed = ack_failed
        # Told what the broker takes back or is to bring again, or None: everything.
        self._withdrawn = withdrawn
        # Set when no ack is unconfirmed; there is one while somebody waits for that.
        self._acks_kept: asyncio.Event | None = None
        self._alarm = Alarm(engine.now_ms, self._tick)
        self._seeking: asyncio.Future[None] | None = None
        # Whether a seek was sent and not answered yet.
        self._sought: asyncio.Event = asyncio.Event()
        self._sought.set()
        self._one_seek = asyncio.Lock()
        self.sought_by_time: bool = False
        # Set when something came, or the connection changed; there is one while somebody waits.
        self._news: asyncio.Event | None = None
        self.active: bool = True
        self.ended: bool = False
        self._participant: Participant | None = None

    # ---- Connecting ----------------------------------------------------------

    async def attach(self) -> ClientConnection:
        connection = await self._engine.lookup.broker_of(self.topic)
        # What comes back before the broker has answered a seek may be from before it.
        await self._sought.wait()
        if self.expects_close and not connection.is_magnetar:
            await asyncio.sleep(AFTER_SEEK_SECONDS)
        life = await connection.subscribe(self._subscribe(), self, self._close_command)
        if connection.closed or self.was_closed:
            raise self._engine.connection_lost(connection)
        self.connection = connection
        with self._engine.lock:
            self.core.connected(life)
            if self.options.durable:
                # Without a subscription that knows it, what was taken does not come again.
                self._withdrawn(self.topic, None)
        self._report_acks()
        if self._seeking is not None and not self._seeking.done():
            self._seeking.set_result(None)
        self._rearm()
        return connection

    def _subscribe(self) -> pb.CommandSubscribe:
        options = self.options
        command = pb.CommandSubscribe(
            topic=self.topic,
            subscription=options.subscription_name,
            subType=int(options.consumer_type),
            consumer_id=self._id,
            request_id=self._engine.next_request_id(),
            priority_level=options.priority_level,
            durable=options.durable,
            read_compacted=options.is_read_compacted,
            initialPosition=int(options.initial_position),
            replicate_subscription_state=options.replicate_subscription_state_enabled,
            consumer_name=self._name,
            consumer_epoch=self.core.epoch,
            force_topic_creation=self._may_create,
        )
        with self._engine.lock:
            start = self.core.subscribe_from()
        if start is not None:
            command.start_message_id.CopyFrom(message_id_to_pb(start))
        if self._schema_pb is not None:
            command.schema.CopyFrom(self._schema_pb)
        for key, value in options.properties.items():
            command.metadata.add(key=key, value=value)
        for key, value in options.subscription_properties.items():
            command.subscription_properties.add(key=key, value=value)
        policy = options.key_shared_policy
        if options.consumer_type == ConsumerType.KeyShared and policy is not None:
            command.keySharedMeta.keySharedMode = int(policy.key_shared_mode)
            command.keySharedMeta.allowOutOfOrderDelivery = policy.allow_out_of_order_delivery
            for first, last in policy.sticky_ranges or []:
                command.keySharedMeta.hashRanges.add(start=first, end=last)
        return command

    def detached(self) -> None:
        self.ended = False  # the broker says so again, unless the subscription was moved
        with self._engine.lock:
            self.core.disconnected()
            if not type_of(self.options.consumer_type).has_active:
                self._withdrawn(self.topic, None)

    def moved(self) -> None:
        """The client goes over to another cluster."""
        with self._engine.lock:
            self.core.moved()
        self._report_acks()

    def gave_up(self, error: Exception) -> None:
        with self._engine.lock:
            self.core.close(error)
        self._report_acks()
        if self._news is not None:
            self._news.set()
        if self._seeking is not None and not self._seeking.done():
            self._seeking.set_exception(error)
        self._wake()

    # ---- Messages ------------------------------------------------------------

    def _write(self, commands: list[Command]) -> None:
        if self.connection is not None:
            self._engine.on_loop(self.connection.send, commands)

    def on_message(self, command: CommandMessage) -> None:
        with self._engine.lock:
            sooner = self.core.receive(command)
        if sooner:
            self._rearm()
        if self._news is not None:
            self._news.set()
        if self.options.dead_letter_policy is not None:
            self._burials.bury()

    def on_ack_response(self, response: CommandAckResponse) -> None:
        with self._engine.lock:
            self.core.ack_response(response)
        self._report_acks()
        self._rearm()

    def on_active_change(self, active: bool) -> None:
        self.active = active
        if not active:
            with self._engine.lock:
                self.core.became_inactive()

    def on_end_of_topic(self) -> None:
        self.ended = True
        self._wake()

    def on_withdraw(self, command: pb.CommandWithdraw) -> None:
        withdrawal = Withdrawal(_withdrawn_entries(command))
        with self._engine.lock:
            self.core.withdraw(withdrawal)
            self._withdrawn(self.topic, withdrawal)
            answer = pb.CommandWithdrawn(
                consumer_id=command.consumer_id, request_id=command.request_id
            )
            if withdrawal.all_given_back and sum(command.entry_runs[2::3]) == len(withdrawal.kept):
                answer.entry_runs.extend(command.entry_runs)
            else:
                _put_given_back(answer, withdrawal.given_back())
            self._write([answer])
        self._rearm()

    def _asked_again(self, keys: list[int] | None) -> None:
        """Of what comes again nobody keeps what was taken before."""
        again = None if keys is None else Withdrawal(dict.fromkeys(keys, 0))
        self._withdrawn(self.topic, again)

    def rearm(self) -> None:
        """Something was asked of the core: its next moment may be sooner."""
        with self._engine.lock:
            at_ms = self.core.next_ms()
        if not self._alarm.rings_by(at_ms):
            self._engine.on_loop(self._alarm.set, at_ms)

    _rearm = rearm

    def _tick(self) -> None:
        with self._engine.lock:
            self.core.tick(self._engine.now_ms())
        self._report_acks()
        self._burials.bury()
        self._rearm()

    # ---- Acks ----------------------------------------------------------------

    def _fell_due(self, due: Due) -> None:
        if self.on_due is not None:
            self.on_due(self._ids(due.refused), self._ids(due.late))

    def _ids(self, keys: list[int]) -> set[MessageId]:
        """Those of whole entries."""
        return {
            MessageId(
                self.core.partition, wide_key_ledger(key), wide_key_entry(key), topic=self.topic
            )
            for key in keys
        }

    def _buried(self, message: Message) -> None:
        if self.on_buried is not None:
            self.on_buried(message)

    def enlist(self, transaction: TransactionCore) -> Enlistment:
        """The place of this subscription in a transaction. With the lock."""
        if self._participant is None:
            self._participant = Participant(
                enlisted=self._flush_transactions,
                flush=self._flush_transactions,
                ended=self._transaction_ended,
            )
        return transaction.enlist(self.topic, self.options.subscription_name, self._participant)

    def _flush_transactions(self) -> None:
        self.core.transactions.flush()
        self._rearm()

    def _transaction_ended(self, transaction: TransactionCore, end: int) -> None:
        self.core.transactions.ended(transaction, end, self.core.ready)
        self._rearm()

    def _report_acks(self) -> None:
        """Tells of acks that failed for good, and who waits that all have ended."""
        nothing_to_tell = not (self.options.auto_retry_acknowledgement or self.core.has_failures)
        if nothing_to_tell and self._acks_kept is None:
            return
        with self._engine.lock:
            failures = self.core.take_failures()
            problem = self.core.take_problem()
            unconfirmed = self.core.acks.unconfirmed + self.core.acks.transactions.unanswered
        if problem is not None:
            self._engine.log_problem("auto_retry_acknowledgement_backoff", problem)
        for failure in failures:
            count = len(failure.message_ids)
            what = "everything through a message" if failure.cumulative else f"{count} messages"
            self._engine.log_problem(f"{self.what}: acks of {what} failed", failure.error)
            self._ack_failed(failure)
        if unconfirmed == 0 and self._acks_kept is not None:
            self._acks_kept.set()

    async def acks_kept(self) -> None:
        """Returns when every ack is confirmed or given up, or there is no consumer any more."""
        with self._engine.lock:
            self.core.pause()
            self.core.flush()
        self._rearm()
        self._acks_kept = asyncio.Event()
        try:
            self._report_acks()
            await self._acks_kept.wait()
        finally:
            self._acks_kept = None

    # ---- Requests ------------------------------------------------------------

    async def seek(self, id: MessageId | None, time_ms: int | None) -> None:
        """Moves the subscription; returns when the consumer is back.

        One after the other: a broker that still works on one refuses the next for a while.
        """
        async with self._one_seek:
            origin = self.core.origin
            await self._engine.retrying(lambda: self._seek(id, time_ms, origin))

    async def _seek(self, id: MessageId | None, time_ms: int | None, origin: Origin) -> None:
        connection = await self.when_connected()
        if origin.gone and id is not None and id.entry_id() >= 0 and id != MessageId.latest:
            raise Interrupted(
                f"{id} is from before the subscription was made anew, here or on another cluster: "
                "seek to a time"
            )
        command = pb.CommandSeek(consumer_id=self._id, request_id=self._engine.next_request_id())
        if id is not None:
            target = seek_target(
                id, self.options.start_message_id_inclusive, exact=connection.is_magnetar
            )
            command.message_id.CopyFrom(message_id_to_pb(target))
        else:
            assert time_ms is not None
            command.message_publish_time = time_ms
        self._seeking = asyncio.get_running_loop().create_future()
        with self._engine.lock:
            self.core.prepare_seek()
        self._sought.clear()
        self.expects_close: bool = True
        try:
            answer = await self._request(connection, command, pb.CommandSuccess)
            life = answer.subscription_life
            with self._engine.lock:
                inclusive = self.options.start_message_id_inclusive
                self.core.sought(id, inclusive, life, exact=connection.is_magnetar)
            self.sought_by_time = id is None
            self.ended = False
            self._sought.set()
            if self.connection is connection and not connection.closed:
                # A broker that resets without closing us: nothing to wait for.
                return
            async with asyncio.timeout(self._timeout_s):
                await self._seeking
        except Timeout:
            raise  # the broker did not answer the seek itself
        except TimeoutError:
            raise Timeout(f"the {self.what} did not come back after its seek") from None
        finally:
            self._sought.set()
            self.expects_close = False
            self._seeking = None

    async def last_message_id(self) -> tuple[MessageId, MessageId | None]:
        """The last message of the topic, and how far the subscription is."""
        return await self._engine.retrying(self._last_message_id)

    async def _last_message_id(self) -> tuple[MessageId, MessageId | None]:
        command = pb.CommandGetLastMessageId(
            consumer_id=self._id, request_id=self._engine.next_request_id()
        )
        connection = await self.when_connected()
        found = await self._request(connection, command, pb.CommandGetLastMessageIdResponse)
        last = message_id_of(message_id_from_pb(found.last_message_id), self.topic)
        if not found.HasField("consumer_mark_delete_position"):
            return last, None
        mark = message_id_from_pb(found.consumer_mark_delete_position)
        return last, message_id_of(mark, self.topic)

    async def arrives(self, last: MessageId) -> bool:
        """Whether a message comes of those up to the last of the topic, none of which was read.

        There may be none: they can be chunks of a message whose beginning was not asked for, or
        whose end was never sent. So it waits until one is here, or all of them came to nothing.
        Without a queue nothing comes before it is asked for, and the broker's word has to do.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                while self.core.has_queue and self.core.queue_length() == 0:
                    if self.core.has_received(last) or self.was_closed:
                        return False
                    self._news = self._news or asyncio.Event()
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass
        return True

    async def _request(self, connection: ClientConnection, command: Pb, answer: type[T]) -> T:
        """Asks something about this consumer, which the broker may just be closing."""
        try:
            return await connection.request(command, answer)
        except MagnetarError as error:
            if self.connection is not connection:
                raise self._engine.connection_lost(connection) from error
            raise

    async def unsubscribe(self) -> None:
        command = pb.CommandUnsubscribe(
            consumer_id=self._id, request_id=self._engine.next_request_id()
        )
        connection = await self.when_connected()
        await connection.request(command, pb.CommandSuccess)
        with self._engine.lock:
            self.core.unsubscribed()

    async def close(self) -> None:
        """Sends the acks that are left, and tells the broker."""
        try:
            await self._burials.stop()
            await self._say_goodbye()
        finally:
            await self._end()

    async def _say_goodbye(self) -> None:
        connection = self.connection
        if connection is not None and not connection.closed:
            with self._engine.lock:
                self.core.flush_all()
            with suppress(MagnetarError):  # it is closed, one way or the other
                await connection.request(self._close_command(), pb.CommandSuccess)

    def _close_command(self) -> pb.CommandCloseConsumer:
        return pb.CommandCloseConsumer(
            consumer_id=self._id, request_id=self._engine.next_request_id()
        )

    async def _end(self) -> None:
        await self.stop()
        if self.connection is not None:
            self.connection.remove_consumer(self._id)
        self._alarm.cancel()
        with self._engine.lock:
            self.core.close()
        self._report_acks()
        if self._news is not None:
            self._news.set()
        self.connection = None
        if self._seeking is not None and not self._seeking.done():
            self._seeking.set_exception(AlreadyClosed(f"the {self.what} is closed"))


def _withdrawn_entries(command: pb.CommandWithdraw) -> dict[int, int]:
    """Returns, by key, what is not taken back of an entry."""
    kept = whole_entries(list(command.entry_runs), WITHDRAWN_MAX)
    for id in command.message_ids:
        key = wide_key(signed(id.ledgerId), signed(id.entryId))
        kept[key] = words_to_bits(list(id.ack_set))
    return kept


def _put_given_back(answer: pb.CommandWithdrawn, given_back: dict[int, int]) -> None:
    """By key: what of an entry was not given back."""
    for first, count in runs_of(sorted([key for key, left in given_back.items() if not left])):
        answer.entry_runs.extend((wide_key_ledger(first), wide_key_entry(first), count))
    for key, left in given_back.items():
        if left:
            id = answer.given_back.add(ledgerId=wide_key_ledger(key), entryId=wide_key_entry(key))
            id.ack_set.extend(bits_to_words(left))
