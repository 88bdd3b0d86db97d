"""A consumer of one topic or partition: what it decides, without clock, socket or loop.

| state      | left by      | write | receive        | acknowledge | take                     |
|------------|--------------|-------|----------------|-------------|--------------------------|
| connecting | connected    | never | thrown away    | gathers     | see below                |
| ready      | disconnected | yes   | reads, queues  | sends       | the next message         |
| closed     |              | never | thrown away    | raises      | nothing                  |

`connected` begins anew: what is in the queue is dropped, for the broker delivers it again;
acks that were not sent are sent before the first permit, and hold back their duplicates.
Until then `take` has what came before if one consumer is active; where consumers share, that
may be with another by now, or skipped, and it has nothing.

The parts decide, and this tells each of them what happened: `Incoming` what an entry holds,
`ReceiveQueue` what is next, `Permits` how many the broker may send, `StartPosition` where it
begins, `Acknowledger` and `AckTracker` what is acked, `Outstanding` what the application has,
`Redelivery` what comes again, `ConsumerTransactions` what is acked in transactions.

A message in chunks takes one permit, when it is whole: those of its other chunks are given
back at once. To ack it or to have it redelivered concerns all its chunks, together.

The caller sees to it that calls do not overlap, and calls `tick` when `next_ms` says.
"""

from collections.abc import Callable, Sequence
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.deadlines import earlier
from magnetar.client.ack.entry_acks import Done
from magnetar.client.ack.retry import ack_retries
from magnetar.client.ack.settings import RECEIPT_TIMEOUT_MS, ack_settings
from magnetar.client.ack.tracker import AckTracker
from magnetar.client.consumer.acknowledger import AckFailure, Acknowledger, check_names_message
from magnetar.client.consumer.arrival.incoming import Arrival, Incoming
from magnetar.client.consumer.arrival.unread import Unread
from magnetar.client.consumer.chunk.assembler import ChunkAssembler
from magnetar.client.consumer.chunk.spans import ChunkSpans
from magnetar.client.consumer.counts import ConsumerCounts
from magnetar.client.consumer.dead_letter import DeadLetters
from magnetar.client.consumer.message import Decode, Message
from magnetar.client.consumer.origin import ANEW, MOVED, RESET, Origin, same_cursor
from magnetar.client.consumer.outstanding import Due, Outstanding
from magnetar.client.consumer.permits import Permits
from magnetar.client.consumer.receive_queue import ReceiveQueue
from magnetar.client.consumer.redelivery import Redelivery
from magnetar.client.consumer.start.start_position import StartPosition
from magnetar.client.consumer.withdrawal import Withdrawal
from magnetar.client.option.encryption import Opener
from magnetar.client.option.options import ConsumerOptions
from magnetar.client.transaction.consumer import ConsumerTransactions
from magnetar.errors import AlreadyClosed, Interrupted
from magnetar.model.message_id import ChunkMessageId, MessageId
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position_key import wide_key
from magnetar.model.subscription_type import type_of
from magnetar.protocol.ack import CommandAckResponse
from magnetar.protocol.command import Command
from magnetar.protocol.message import CommandMessage

__all__ = ["ConsumerCore"]

CONNECTING: Final = 0
READY: Final = 1
CLOSED: Final = 2


@final
class ConsumerCore:
    """See the module. `write` takes commands in order, `wake` says that `take` has something."""

    def __init__(
        self,
        options: ConsumerOptions,
        topic: str,
        partition: i64,
        consumer_id: i64,
        *,
        now_ms: Callable[[], int],
        write: Callable[[list[Command]], None],
        wake: Callable[[], None],
        random: Callable[[], float] | None = None,
        decode: Decode | None = None,
        receiver_queue_size: int | None = None,
        receipt_timeout_ms: i64 = RECEIPT_TIMEOUT_MS,
    ) -> None:
        self.topic: Final = topic
        self.partition: Final[i64] = partition
        self._consumer_id: Final[i64] = consumer_id
        self._durable: Final[bool] = options.durable
        # One consumer is active and gets everything.
        self._single: Final[bool] = type_of(options.consumer_type).has_active
        self._now_ms: Final = now_ms
        self._write: Final = write
        self._wake: Final = wake
        self._state: i64 = CONNECTING
        # Which life of the subscription was joined last, if the broker tells.
        self._life: str = ""
        self.stats: Final = ConsumerCounts()
        self._retries: Final = ack_retries(options, random)
        self._acks: Final = AckTracker(
            consumer_id,
            ack_settings(options, receipt_timeout_ms),
            now_ms=now_ms,
            write=write,
            retries=self._retries,
        )
        self._assembler: Final = _assembler_of(options, self._single)
        self._spans: Final = ChunkSpans(self._assembler, self._acks.records.chunks)
        self._dead_letters: Final = DeadLetters(options.dead_letter_policy)
        self._outstanding: Final = Outstanding(
            options, self._dead_letters, self.stats, now_ms=now_ms, wake=wake
        )
        self._incoming: Final = Incoming(
            topic,
            partition,
            self._acks,
            self._dead_letters,
            options.crypto_failure_action,
            decode,
            self._assembler,
            now_ms,
            options.max_message_size_total,
            _opener_of(options),
        )
        self._queue: Final = ReceiveQueue()
        # A partition of many may be given less than the options say.
        queue_size: i64 = (
            options.receiver_queue_size if receiver_queue_size is None else receiver_queue_size
        )
        self._permits: Final = Permits(consumer_id, queue_size, self._queue, self._acks, write)
        self.unread: Final = Unread(
            topic,
            consumer_id,
            acks=self._acks,
            outstanding=self._outstanding,
            permits=self._permits,
            counts=self.stats,
            write=write,
        )
        self._start: Final = StartPosition(
            options, partition, self._incoming, self._spans, self._queue
        )
        self._acknowledger: Final = Acknowledger(
            topic,
            partition,
            acks=self._acks,
            assembler=self._assembler,
            spans=self._spans,
            outstanding=self._outstanding,
            queue=self._queue,
            permits=self._permits,
            counts=self.stats,
            incoming=self._incoming,
        )
        self._redelivery: Final = Redelivery(
            consumer_id,
            partition,
            self._single,
            acks=self._acks,
            assembler=self._assembler,
            incoming=self._incoming,
            outstanding=self._outstanding,
            queue=self._queue,
            permits=self._permits,
            start=self._start,
            counts=self.stats,
            now_ms=now_ms,
            write=write,
        )
        # What is acked in transactions; `check_open` is the caller's.
        self.transactions: Final = ConsumerTransactions(
            self._single,
            acks=self._acks,
            acknowledger=self._acknowledger,
            spans=self._spans,
            outstanding=self._outstanding,
            queue=self._queue,
            permits=self._permits,
            redelivery=self._redelivery,
            counts=self.stats,
        )

    # ---- The connection ------------------------------------------------------

    def connected(self, life: str = "") -> None:
        """SUBSCRIBE succeeded on a new connection, and joined this life of the subscription."""
        if self._state == CLOSED:
            return
        self._join(life)
        self._state = READY
        if self.stats.messages_taken > 0:
            self._queue.expect_copies()
        self._queue.clear()
        self._assembler.connected(self._now_ms())
        self._spans.reconnected()
        self._outstanding.clear()
        self._start.connected()
        self._acks.connected()
        self._permits.connected()

    def _join(self, life: str) -> None:
        """Gives up what is unconfirmed if it was for another life."""
        if not life:
            return
        before = self._life
        self._life = life
        if not before or life == before:
            return
        if same_cursor(life, before):
            self._spans.sought(-1)
            self._begin_anew(RESET)
            self._outstanding.clear()
            self._start.reset()
            self._incoming.reset()
        else:
            self._leave_origin(ANEW)

    def _begin_anew(self, reason: str) -> None:
        self._acks.give_up_all(Interrupted(reason))
        self._queue.clear()
        self._assembler.clear()

    def _leave_origin(self, reason: str) -> None:
        """Positions mean something else now: everything that knows one forgets it."""
        self._spans.clear()
        self._begin_anew(reason)
        self._outstanding.moved()
        self._start.moved()
        self._incoming.moved()

    def moved(self) -> None:
        """The client goes over to another cluster; the next connection is there."""
        if self._state != CLOSED:
            self._leave_origin(MOVED)
            self._life = ""
            self.disconnected()

    @property
    def origin(self) -> Origin:
        """Of what comes now."""
        return self._incoming.origin

    def disconnected(self) -> None:
        """The connection is gone, or the broker closed the consumer."""
        if self._state == READY:
            self._state = CONNECTING
            self._permits.disconnected()
            self._acks.disconnected()
            self._assembler.disconnected(self._now_ms())
            if not self._single:
                self._queue.clear()

    def close(self, error: Exception | None = None) -> None:
        """Ends it: what is pending is sent if it can be, and who still waits is told."""
        if self._state == CLOSED:
            return
        self._acks.flush()
        self._state = CLOSED
        self._permits.disconnected()
        if error is None:
            error = AlreadyClosed("the consumer was closed before the ack was confirmed")
        self._acks.transactions.close(error)
        self._acks.give_up_all(error)
        self._acks.disconnected()
        self._queue.clear()
        self._assembler.clear()
        self._spans.clear()
        self._outstanding.clear()
        self._outstanding.take_dead()

    def became_inactive(self) -> None:
        """On Failover another consumer is active now.

        It gets everything that is not acked, so what is here of messages in chunks is no longer
        waited for, and must not be given up: their other chunks come there.
        """
        self._assembler.went_elsewhere(self._now_ms())

    @property
    def ready(self) -> bool:
        return self._state == READY

    @property
    def epoch(self) -> int:
        """What SUBSCRIBE tells, and counts calls for the redelivery of everything."""
        return self._incoming.epoch

    def start_message_id(self) -> MessageIdData | None:
        """Where SUBSCRIBE is to begin: behind what was taken, if no subscription knows it."""
        return self._start.start_message_id()

    def subscribe_from(self) -> MessageIdData | None:
        """The same for SUBSCRIBE, which begins with the entry that it names."""
        return self._start.subscribe_from()

    def has_received(self, id: MessageId) -> bool:
        """Whether the entry of a message came, and all before it: what is not here of them is
        not for the application."""
        return self._incoming.last_key() >= wide_key(id.ledger_id(), id.entry_id())

    @property
    def has_taken(self) -> bool:
        """Whether, without a subscription that knows it, anything was taken since the start."""
        return self._start.last_taken is not None

    # ---- Messages in ---------------------------------------------------------

    def receive(self, command: CommandMessage) -> bool:
        """Takes an entry from the broker.

        Says whether `next_ms` may be sooner now, which is for what is not simply queued.
        """
        if self._state != READY:
            return False
        sooner = len(self._acks.transactions.parts) > 0
        if sooner and not self._incoming.is_outdated(command):
            key = wide_key(command.message_id.ledger_id, command.message_id.entry_id)
            self.transactions.came(key, -1 if command.ack_set is None else command.ack_set)
        arrival = self._incoming.read(command, self._permits.at_broker)
        self._permits.at_broker -= arrival.charged
        messages = arrival.messages
        count: i64 = len(messages)
        self.stats.messages_received += count
        self.stats.bytes_received += len(command.entry)
        if not arrival.kept:
            self.stats.messages_dropped += arrival.charged - count
        if arrival.chunk or self._spans.active:
            self._follow_chunks(arrival)
            sooner = True
        if arrival.problem:
            self.unread.tell(arrival)
        if self._single:
            if self._incoming.went_back:
                # On Failover it is active once more, and gets again what it has.
                self._queue.expect_copies()
            if self._spans.awaits and self._incoming.in_turn(command):
                self._spans.passed(self._incoming.last_key())
        elif command.redelivery_count > 0:
            # It may be here: an abort of a part, another consumer's too, brings all of a batch.
            self._queue.expect_copies()
        if count > 0:
            if self._dead_letters.died(messages[0]._delivery.redelivery_count):
                self._outstanding.die(messages)
                self._permits.give_back(count)
                sooner = True
            elif self._queue.copies and self._queue.has_copy(messages[0]._delivery.key):
                # It was asked for again, or an abort gave more of it back.
                older = self._queue.replace(messages)
                self.stats.messages_dropped += older
                self._permits.give_back(older)
                self._wake()
                sooner = True
            else:
                self._queue.add(messages)
                self._wake()
        if arrival.charged != count:
            self.unread.answer(command, arrival)
            sooner = True
        return sooner

    def withdraw(self, withdrawal: Withdrawal) -> None:
        """The broker takes messages back: the application gets none of them any more."""
        count = self._queue.withdraw(withdrawal)
        self._assembler.withdraw(withdrawal)
        self._outstanding.withdrawn(withdrawal)
        self.stats.messages_dropped += count
        if count > 0:
            self._permits.give_back(count)

    def _follow_chunks(self, arrival: Arrival) -> None:
        """Something came that is a chunk, or stands behind one of a message that is not acked."""
        messages = arrival.messages
        whole = arrival.whole
        if arrival.chunk:
            self.stats.chunks_received += 1
        if whole is not None:
            if messages:
                self._spans.whole(whole.keys, whole.before)
            else:
                # It cannot be decompressed; the last chunk is refused like any other entry.
                self._ack_chunks(whole.keys[:-1])
        if self._single and self._durable and messages:
            self._spans.received([messages[0]._delivery.key] if whole is None else whole.keys)
        self._see_to_chunks()

    def _see_to_chunks(self) -> None:
        """Acks chunks that nothing can come of, and asks for those that are missed."""
        garbage = self._assembler.take_garbage()
        if garbage:
            self.stats.chunks_given_up += len(garbage)
            self._ack_chunks(garbage)
        again = self._assembler.take_again()
        if again and self._state == READY:
            self._redelivery.entries(again)

    def _ack_chunks(self, keys: list[int]) -> None:
        for key in keys:
            self._acks.acknowledge(self._acks.records.find_id(key, -1, 0), -1)
        self._acks.joined(None)

    # ---- Messages out --------------------------------------------------------

    def take(self, held: bool = False) -> Message | None:
        """The next message for the application, or None.

        The permit of one that is held is returned by `give_back`, not yet here.
        """
        message = self._queue.take()
        if message is None:
            return None
        self.stats.messages_taken += 1
        if not self._durable:
            self._start.last_taken = message
        if self._acks.records.chunks and message._delivery.chunks is not None:
            self._spans.taken(message._delivery.key)
        if self._outstanding.follows:
            self._outstanding.taken(message)
        self._permits.taken(held)
        return message

    def give_back(self) -> None:
        """A held message is done with. What was held on an older connection does not count."""
        self._permits.release()

    def queue_length(self) -> int:
        """How many messages `take` has."""
        return self._queue.length

    @property
    def available_permits(self) -> int:
        """How many messages the broker may still send; less than 0 after a large batch."""
        return self._permits.at_broker

    @property
    def unreturned_permits(self) -> int:
        """How many permits were used and not given back yet."""
        return self._permits.unreturned

    @property
    def has_queue(self) -> bool:
        """Whether messages are fetched before they are asked for."""
        return self._permits.queue_size > 0

    def request(self, waiting: int) -> None:
        """Without a queue: so many calls wait for a message now."""
        self._permits.request(waiting)

    def pause(self) -> None:
        """Asks for no more messages; what is under way still comes."""
        self._permits.pause()

    def resume(self) -> None:
        self._permits.resume()

    # ---- Acks ----------------------------------------------------------------

    def acknowledge_message(self, message: Message, done: Done | None = None) -> bool:
        """Acks one message; the short way for what is done most. Raises AlreadyClosed.

        Says whether `next_ms` may be sooner now, which is for the first ack of a group.
        """
        if self._state == CLOSED:
            self.check_open()
        if self._acks.transactions.parts:
            self.transactions.check([message], None)
        return self._acknowledger.acknowledge_message(message, done)

    def acknowledge(self, ids: Sequence[Message | MessageId], done: Done | None = None) -> None:
        """Acks messages, all of them or, if one of them cannot be acked, none.

        `done` is called with None once the acks are kept (without receipts: are on their
        way), or with what went wrong. Raises AlreadyClosed, InvalidMessageIdError,
        BatchIndexError and, where acks are retried, MemoryBufferIsFull.
        """
        self.check_open()
        self.transactions.check(ids, None)
        self._acknowledger.acknowledge(ids, done)

    def check_acks(self, ids: Sequence[Message | MessageId]) -> None:
        """Raises what `acknowledge` would, and changes nothing."""
        self.check_open()
        self.transactions.check(ids, None)
        self._acknowledger.check(ids)

    def acknowledge_cumulative(
        self, message: Message | MessageId, done: Done | None = None
    ) -> bool:
        """Acks everything through a message. Raises as `acknowledge` does, and
        CumulativeAcknowledgementNotAllowedError where consumers share a subscription.

        Says whether `next_ms` may be sooner now.
        """
        self.check_open()
        self.transactions.check_cumulative()
        return self._acknowledger.acknowledge_cumulative(message, done)

    def check_open(self) -> None:
        """Raises AlreadyClosed."""
        if self._state == CLOSED:
            raise AlreadyClosed("the consumer is closed: subscribe again")

    def ack_response(self, response: CommandAckResponse) -> None:
        self._acks.answered(response)
        self._acks_ended()

    def flush(self) -> None:
        """Sends pending acks now."""
        self._acks.flush()

    def flush_all(self) -> None:
        """Sends every ack that is not confirmed: the consumer is about to be closed."""
        self._acks.flush_all()

    @property
    def has_failures(self) -> bool:
        """Whether acks failed at once, retried or not: what they were of is gone."""
        return len(self._acknowledger.failed) > 0

    def take_failures(self) -> list[AckFailure]:
        """Acks that failed for good since the last call, where acks are retried."""
        return self._acknowledger.take_failures()

    def take_problem(self) -> Exception | None:
        """What was wrong with the backoff of the application's, if anything was."""
        return None if self._retries is None else self._retries.policy.take_problem()

    def _acks_ended(self) -> None:
        """Some acks may have, well or not: others can go on."""
        self._redelivery.held_back(self._state == READY)
        self._permits.acks_ended()

    @property
    def acks(self) -> AckTracker:
        return self._acks

    # ---- Redelivery ----------------------------------------------------------

    def negative_acknowledge(self, message: Message | MessageId) -> None:
        """The application could not handle a message: it is to come again, later."""
        self.check_open()
        self._refuse(message)
        self.stats.messages_refused += 1

    def _refuse(self, message: Message | MessageId) -> None:
        if isinstance(message, Message):
            if message._delivery.gone:
                return  # it cannot come again here
            key = message._delivery.key
            index: i64 = message._index
            count: i64 = message._delivery.redelivery_count
            if message._delivery.chunks is not None:
                self._acks.records.chunks[key] = message._delivery.chunks
        else:
            check_names_message(message, "redeliver")
            key = wide_key(message.ledger_id(), message.entry_id())
            index = message.batch_index()
            count = 0
            if isinstance(message, ChunkMessageId) and key not in self._acks.records.chunks:
                self._acks.records.chunks[key] = self._acknowledger.chunks_of(message, key)
        self._acknowledger.take_back(key, index)
        if self._acks.transactions.parts:
            self.transactions.take_back(key, index)
        self._outstanding.refused(key, index, count)

    def when_again(
        self, again: Callable[[list[int] | None], None], due: Callable[[Due], None]
    ) -> None:
        """Tells which entries are asked for again, or None: all; and which of them were due."""
        self._redelivery.on_again = again
        self._redelivery.on_due = due

    def redeliver_all(self) -> None:
        """Everything that is not acked is to come again, now."""
        self.check_open()
        self._redelivery.everything(self._state == READY)

    # ---- Time ----------------------------------------------------------------

    def next_ms(self) -> int | None:
        """When `tick` is to be called, if nothing else happens."""
        if self._state == CLOSED:
            return None
        if self._state == CONNECTING:
            return self._acks.next_ms()
        if self._acknowledger.failed:
            return self._now_ms()
        due_ms = earlier(self._acks.next_ms(), self._outstanding.next_ms())
        return earlier(due_ms, self._assembler.next_ms())

    def tick(self, now_ms: int) -> None:
        """Does what has fallen due."""
        if self._state == CLOSED:
            return
        self._acks.tick(now_ms)
        if self._state == CONNECTING:
            return
        self._acks_ended()
        if self._assembler.next_ms() is not None:
            self._assembler.tick(now_ms, self._permits.at_broker > 0)
            self._see_to_chunks()
        self._redelivery.tick(now_ms)

    # ---- Dead letters --------------------------------------------------------

    def take_dead(self) -> list[Message]:
        """Messages to publish to the dead letter topic; each ends with one of the next two."""
        return self._outstanding.take_dead()

    def dead_published(self, message: Message) -> bool:
        """It is in the dead letter topic, and therefore acked here; returns whether it was."""
        if not self._outstanding.dead_ended(message) or self._state == CLOSED:
            return False
        self.stats.messages_dead += 1
        self._acknowledger.ack(message)
        self._acks.joined(None)
        return True

    def dead_failed(self, message: Message) -> None:
        """It could not be published: it is refused again, and tried again when that is due."""
        if self._outstanding.dead_ended(message) and self._state != CLOSED:
            self._dead_letters.taken(message)
            self._refuse(message)

    # ---- Seek ----------------------------------------------------------------

    def prepare_seek(self) -> None:
        """A seek is about to be sent: what was acked before it is sent before it."""
        self._acks.flush()

    def unsubscribed(self) -> None:
        """The subscription is gone, and what was acked on it matters no more."""
        self._acks.clear(Interrupted("the consumer unsubscribed before the ack was confirmed"))

    def sought(
        self, id: MessageId | None, inclusive: bool, life: str = "", *, exact: bool = False
    ) -> None:
        """The broker moved the subscription, to an id or to a time; its life is this one now.

        `exact` says that it brings nothing from before it.
        """
        self._life = life
        self._spans.sought(_start_key(id))
        self._acks.clear()
        count = self._queue.clear()
        self._assembler.clear()
        self._outstanding.clear()
        self._incoming.sought()
        self._start.sought(id, inclusive, self._state == READY, exact=exact)
        if self._state == READY:
            self._permits.give_back(count)


def _start_key(id: MessageId | None) -> int:
    """The first entry that may come after a seek, -1 if that is not known: it was to a time."""
    if id is None or id.entry_id() < 0:
        return -1
    first = id.first_chunk_message_id() if isinstance(id, ChunkMessageId) else id
    return wide_key(first.ledger_id(), first.entry_id())


def _assembler_of(options: ConsumerOptions, single: bool) -> ChunkAssembler:
    return ChunkAssembler(
        count_max=options.max_pending_chunked_message,
        size_max=options.max_message_size_total,
        expire_ms=options.expire_time_of_incomplete_chunked_message_ms,
        ack_oldest=options.auto_ack_oldest_chunked_message_on_queue_full,
        single=single,
    )


def _opener_of(options: ConsumerOptions) -> Opener | None:
    reader = options.crypto_key_reader
    return None if reader is None else Opener(reader.unwrap)
