"""A consumer of one topic or partition: what it decides, without clock, socket or loop.

| state      | left by      | write | receive        | acknowledge | take                     |
|------------|--------------|-------|----------------|-------------|--------------------------|
| connecting | connected    | never | thrown away    | gathers     | what came before, if any |
| ready      | disconnected | yes   | reads, queues  | sends       | the next message         |
| closed     |              | never | thrown away    | raises      | nothing                  |

Permits are exact. On every connection the broker gets as many as the queue has places. A
message takes one of them with it: from the broker to the queue, and out of the queue or
past it to those that are given back, half a queue at a time. So at any moment

    permits at the broker + messages in the queue + permits not given back yet = queue size

With a queue of size 0 there is a permit at the broker for each call that waits, and no more.

`connected` begins anew: what is in the queue is dropped, for the broker delivers it again;
acks that were not sent are sent before the first permit, and hold back their duplicates. A
message that came again before it was acked, and lies in the queue when it is, is dropped from
there: nobody is given a message that he has acked.

While too many acks are unconfirmed, where acks are retried, no permit is given: the broker
keeps its messages until half of those acks have ended.

Redelivery is by entry. Acks go out before the call for it, so the broker keeps back what
is acked, and what is in the queue of such an entry is dropped: it comes again too. Where
one consumer is active, a broker redelivers everything; the epoch then tells messages from
before that from those after it.

A message in chunks takes one permit, when it is whole: those of its other chunks are given
back at once. To ack it or to have it redelivered concerns all its chunks, together.

The caller sees to it that calls do not overlap, and calls `tick` when `next_ms` says.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack_retry import AckRetries, RetryPolicy, default_backoff
from magnetar.client.ack_tracker import (
    AckTracker,
    Cumulative,
    Done,
    GivenUp,
    entry_key,
    key_entry,
    key_ledger,
)
from magnetar.client.chunk_assembler import ChunkAssembler
from magnetar.client.chunk_spans import ChunkSpans, Split
from magnetar.client.dead_letter import DeadLetters
from magnetar.client.incoming import Arrival, Incoming, Start
from magnetar.client.message import Decode, Message
from magnetar.client.negative_acks import NegativeAcks
from magnetar.client.options import ConsumerOptions
from magnetar.client.unacked import Unacked
from magnetar.errors import (
    AlreadyClosed,
    CumulativeAcknowledgementNotAllowedError,
    Interrupted,
    InvalidMessageIdError,
)
from magnetar.model.enums import AckType, ConsumerType
from magnetar.model.message_id import ChunkMessageId, MessageId, message_id_of
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.ack import CommandAck, CommandAckResponse
from magnetar.protocol.cold import message_id_to_pb
from magnetar.protocol.command import Command
from magnetar.protocol.message import CommandFlow, CommandMessage
from magnetar.wire.integer import INT64_MAX

__all__ = ["AckFailure", "ConsumerCore", "ConsumerStats"]

CONNECTING: Final = 0
READY: Final = 1
CLOSED: Final = 2
# As Pulsar's clients do: how many ids one call for redelivery names.
REDELIVER_IDS_MAX: Final = 1000


@final
class AckFailure:
    """Messages whose ack failed for good, or one of a cumulative ack, and why."""

    def __init__(self, message_ids: list[MessageId], error: Exception, cumulative: bool) -> None:
        self.message_ids: Final = message_ids
        self.error: Final = error
        self.cumulative: Final = cumulative


@final
class ConsumerStats:
    """What went through a consumer since it was made."""

    def __init__(self) -> None:
        self.messages_received: i64 = 0
        self.bytes_received: i64 = 0
        self.messages_dropped: i64 = 0
        self.chunks_received: i64 = 0
        self.chunks_given_up: i64 = 0
        self.entries_refused: i64 = 0
        self.messages_taken: i64 = 0
        self.messages_acked: i64 = 0
        # Refused by the application; and entries that it left unacked for too long.
        self.messages_refused: i64 = 0
        self.entries_late: i64 = 0
        self.entries_redelivered: i64 = 0
        self.messages_dead: i64 = 0


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
    ) -> None:
        self.topic: Final = topic
        self.partition: Final[i64] = partition
        self._consumer_id: Final[i64] = consumer_id
        # A partition of many may be given less than the options say.
        self._queue_size: Final[i64] = (
            options.receiver_queue_size if receiver_queue_size is None else receiver_queue_size
        )
        self._flow_min: Final[i64] = max(self._queue_size // 2, 1)
        self._durable: Final[bool] = options.durable
        kind = options.consumer_type
        # One consumer is active and gets everything: Exclusive and Failover.
        self._single: Final[bool] = kind in (ConsumerType.Exclusive, ConsumerType.Failover)
        self._now_ms: Final = now_ms
        self._write: Final = write
        self._wake: Final = wake
        self._retries: Final = _retries_of(options, random)
        self._acks: Final = AckTracker(
            consumer_id,
            group_time_ms=options.acknowledgement_group_time_ms,
            # A group that waits for its time must not be a crowd.
            group_size_max=min(
                options.max_acknowledgement_group_size, options.max_pending_acknowledgements
            ),
            receipts=options.ack_receipt_enabled,
            now_ms=now_ms,
            write=write,
            retries=self._retries,
            pending_max=options.max_pending_acknowledgements,
        )
        self._negative: Final = NegativeAcks(
            options.negative_ack_redelivery_delay_ms, options.negative_ack_redelivery_backoff
        )
        self._unacked: Final = Unacked(
            options.unacked_messages_timeout_ms, options.ack_timeout_redelivery_backoff
        )
        self._dead_letters: Final = DeadLetters(options.dead_letter_policy)
        # Whether a message that is taken, or acked, has more to be told about it.
        self._follows_taken: Final[bool] = self._unacked.enabled or self._dead_letters.enabled
        self._assembler: Final = ChunkAssembler(
            count_max=options.max_pending_chunked_message,
            size_max=options.max_message_size_total,
            expire_ms=options.expire_time_of_incomplete_chunked_message_ms,
            ack_oldest=options.auto_ack_oldest_chunked_message_on_queue_full,
            single=self._single,
        )
        self._spans: Final = ChunkSpans(self._assembler, self._acks.chunks)
        # Told of what was refused, and why.
        self.warn: Callable[[str], None] | None = None
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
        )
        # Where a subscription begins that does not exist yet.
        self._first_id: MessageId | None = options.start_message_id
        self._last_taken: Message | None = None
        # Where it began again, if that was before what was taken, which ends there.
        self._resume_key: int = -1
        self._resume_through: int = -1
        if not options.durable:
            self._begin_at(options.start_message_id, options.start_message_id_inclusive)
        self._state: i64 = CONNECTING
        self._paused: bool = False
        # Messages of one entry each, last first; `_current` is the entry being taken.
        self._queue: deque[list[Message]] = deque()
        self._current: list[Message] = []
        self._length: i64 = 0
        self._at_broker: i64 = 0
        self._unreturned: i64 = 0
        # Permits of messages that were taken to be given back later.
        self._held: i64 = 0
        # How many calls wait for a message, where there is no queue.
        self._waiting: i64 = 0
        self._dead: list[Message] = []
        # Permits are kept back, since too many acks are unconfirmed.
        self._crowded: bool = False
        # Whether the queue may hold messages that the application has already, and if so the
        # keys of all entries in it.
        self._copies: bool = False
        self._queued: set[int] = set()
        self.stats: Final = ConsumerStats()

    # ---- The connection ------------------------------------------------------

    def connected(self) -> None:
        """SUBSCRIBE succeeded on a new connection."""
        if self._state == CLOSED:
            return
        self._state = READY
        self._copies = self._copies or self.stats.messages_taken > 0
        self._clear_queue()
        self._assembler.expect_all()
        self._forget_taken()
        self._incoming.only_from_start = False
        if not self._durable and self._last_taken is not None:
            self._begin_at(self._last_taken.message_id(), False)
            self._incoming.only_from_start = self._resume_key >= 0
        self._incoming.reconnected()
        self._acks.connected()
        self._at_broker = 0
        self._unreturned = self._queue_size
        self._held = 0
        self._flow()

    def disconnected(self) -> None:
        """The connection is gone, or the broker closed the consumer."""
        if self._state == READY:
            self._state = CONNECTING
            self._acks.disconnected()

    def close(self, error: Exception | None = None) -> None:
        """Ends it: what is pending is sent if it can be, and who still waits is told."""
        if self._state == CLOSED:
            return
        self._acks.flush()
        self._state = CLOSED
        if error is None:
            error = AlreadyClosed("the consumer was closed before the ack was confirmed")
        self._acks.give_up_all(error)
        self._acks.disconnected()
        self._clear_queue()
        self._assembler.clear()
        self._spans.clear()
        self._forget_taken()
        self._dead = []

    @property
    def ready(self) -> bool:
        return self._state == READY

    @property
    def epoch(self) -> int:
        """What SUBSCRIBE tells, and counts calls for the redelivery of everything."""
        return self._incoming.epoch

    def start_message_id(self) -> MessageIdData | None:
        """Where SUBSCRIBE is to begin: behind what was taken, if no subscription knows it."""
        if self._last_taken is not None:
            return _id_data(self._last_taken.message_id())
        return None if self._first_id is None else _id_data(self._first_id)

    def subscribe_from(self) -> MessageIdData | None:
        """The same for SUBSCRIBE, which begins with the entry that it names.

        Messages that nobody took may have chunks in front of the last that was taken: then it
        begins with the first of those, and what was taken is dropped when it comes again.
        """
        start = self._incoming.start
        if self._last_taken is None:
            return self.start_message_id() if start is None else _id_data(start.id)
        key = self._last_taken.delivery.key
        first = self._spans.first_pending(key, self._queued_chunks())
        if self._resume_key >= 0 and self._incoming.last_key() <= self._resume_through:
            # It was interrupted before all of that had come.
            first = self._resume_key if first < 0 else min(first, self._resume_key)
        self._resume_key = first
        self._resume_through = key
        if first < 0:
            return self.start_message_id()
        return MessageIdData(key_ledger(first), key_entry(first), self.partition)

    def _queued_chunks(self) -> list[list[int]]:
        found: list[list[int]] = []
        for messages in [*self._queue, self._current]:
            if messages and messages[0].delivery.chunks is not None:
                found.append(messages[0].delivery.chunks)
        return found

    @property
    def has_taken(self) -> bool:
        """Whether, without a subscription that knows it, anything was taken since the start."""
        return self._last_taken is not None

    # ---- Messages in ---------------------------------------------------------

    def receive(self, command: CommandMessage) -> None:
        """Takes an entry from the broker."""
        if self._state != READY:
            return
        arrival = self._incoming.read(command, self._at_broker)
        self._at_broker -= arrival.charged
        messages = arrival.messages
        count: i64 = len(messages)
        self.stats.messages_received += count
        self.stats.bytes_received += len(command.entry)
        if not arrival.kept:
            self.stats.messages_dropped += arrival.charged - count
        if arrival.chunk or self._assembler.active:
            self._follow_chunks(arrival)
        if count > 0:
            if self._dead_letters.died(messages[0].delivery.redelivery_count):
                self._die(messages)
                self._give_back(count)
            elif self._copies and self._is_queued(messages[0].delivery.key):
                # It was on its way here already when it was asked for again.
                self.stats.messages_dropped += count
                self._give_back(count)
            else:
                messages.reverse()
                if self._copies:
                    self._queued.add(messages[0].delivery.key)
                self._queue.append(messages)
                self._length += count
                self._wake()
        if arrival.charged != count:
            self._settle(command, arrival)

    def _follow_chunks(self, arrival: Arrival) -> None:
        """Something came that is a chunk, or stands between those of a message."""
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
            self._spans.received([messages[0].delivery.key] if whole is None else whole.keys)
        if arrival.problem and self.warn is not None:
            self.warn(f"a message of {self.topic} is refused: {arrival.problem}")
        self._see_to_chunks()

    def _see_to_chunks(self) -> None:
        """Acks chunks that nothing can come of, and asks for those that are missed."""
        garbage = self._assembler.take_garbage()
        if garbage:
            self.stats.chunks_given_up += len(garbage)
            self._ack_chunks(garbage)
        again = self._assembler.take_again()
        if again and self._state == READY:
            if self._single:
                self.redeliver_all()
            else:
                self._redeliver(again)

    def _ack_chunks(self, keys: list[int]) -> None:
        for key in keys:
            self._acks.acknowledge(self._acks.find_id(key, -1, 0), -1)
        self._acks.joined(None)

    def _settle(self, command: CommandMessage, arrival: Arrival) -> None:
        """Sees to what the application does not get."""
        if arrival.refusal >= 0:
            self.stats.entries_refused += 1
            id = MessageIdData(command.message_id.ledger_id, command.message_id.entry_id)
            refusal = int(arrival.refusal)
            self._write(
                [CommandAck(self._consumer_id, AckType.Individual.value, [id], None, refusal)]
            )
        elif arrival.empty is not None:
            empty = arrival.empty
            acks = self._acks.find(empty.ledger_id, empty.entry_id, empty.batch_size, 0)
            self._acks.acknowledge(acks, -1)
            self._acks.joined(None)
        self._give_back(arrival.dropped)

    # ---- Messages out --------------------------------------------------------

    def take(self, held: bool = False) -> Message | None:
        """The next message for the application, or None.

        The permit of one that is held is returned by `give_back`, not yet here.
        """
        if not self._current:
            if not self._queue:
                return None
            self._current = self._queue.popleft()
            if self._copies:
                self._queued.discard(self._current[0].delivery.key)
        message = self._current.pop()
        self._length -= 1
        self.stats.messages_taken += 1
        if not self._durable:
            self._last_taken = message
        if self._acks.chunks and message.delivery.chunks is not None:
            self._spans.taken(message.delivery.key)
        if self._follows_taken:
            self._follow(message)
        if self._queue_size == 0:
            if self._waiting > 0:
                self._waiting -= 1
        elif held:
            self._held += 1
        else:
            self._unreturned += 1
            if self._unreturned >= self._flow_min:
                self._flow()
        return message

    def give_back(self) -> None:
        """A held message is done with. What was held on an older connection does not count."""
        if self._held > 0:
            self._held -= 1
            self._give_back(1)

    def _follow(self, message: Message) -> None:
        delivery = message.delivery
        if self._unacked.enabled:
            self._unacked.taken(delivery.key, delivery.redelivery_count, self._now_ms())
        if self._dead_letters.enabled:
            self._dead_letters.taken(message)

    def queue_length(self) -> int:
        """How many messages `take` has."""
        return self._length

    @property
    def available_permits(self) -> int:
        """How many messages the broker may still send; less than 0 after a large batch."""
        return self._at_broker

    @property
    def unreturned_permits(self) -> int:
        """How many permits were used and not given back yet."""
        return self._unreturned + self._held

    @property
    def has_queue(self) -> bool:
        """Whether messages are fetched before they are asked for."""
        return self._queue_size > 0

    def request(self, waiting: int) -> None:
        """Without a queue: so many calls wait for a message now."""
        self._waiting = waiting
        self._flow()

    def pause(self) -> None:
        """Asks for no more messages; what is under way still comes."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._flow()

    def _give_back(self, permits: i64) -> None:
        if self._queue_size == 0:
            self._flow()
            return
        self._unreturned += permits
        if self._unreturned >= self._flow_min:
            self._flow()

    def _flow(self) -> None:
        """Gives the broker all permits it may have."""
        if self._state != READY or self._paused:
            return
        if self._acks.crowded:
            self._crowded = True
            return
        if self._queue_size == 0:
            permits = self._waiting - self._length - self._at_broker
        else:
            permits = self._unreturned
            self._unreturned = 0
        if permits > 0:
            self._at_broker += permits
            self._write([CommandFlow(self._consumer_id, permits)])

    def _clear_queue(self) -> i64:
        count = self._length
        self._queue.clear()
        self._queued.clear()
        self._current = []
        self._length = 0
        return count

    # ---- Acks ----------------------------------------------------------------

    def acknowledge_message(self, message: Message, done: Done | None = None) -> bool:
        """Acks one message; the short way for what is done most. Raises AlreadyClosed.

        Says whether `next_ms` may be sooner now, which is for the first ack of a group.
        """
        if self._state == CLOSED:
            raise _closed()
        if message.delivery.topic != self.topic:
            # It came from another consumer, and may be of a partition that is not ours.
            self.acknowledge([message.message_id()], done)
            return True
        self._acks.check_room(1)
        self._acknowledge(message)
        return self._acks.joined(done)

    def acknowledge(self, ids: Sequence[Message | MessageId], done: Done | None = None) -> None:
        """Acks messages, all of them or, if one of them cannot be acked, none.

        `done` is called with None once the acks are kept (without receipts: are on their
        way), or with what went wrong. Raises AlreadyClosed, InvalidMessageIdError,
        BatchIndexError and, where acks are retried, MemoryBufferIsFull.
        """
        if self._state == CLOSED:
            raise _closed()
        self._acks.check_room(len(ids))
        for id in ids:
            if isinstance(id, MessageId):
                self._check(id)
        for id in ids:
            if isinstance(id, MessageId):
                self._acknowledge_id(id)
            else:
                self._acknowledge(id)
        self._acks.joined(done)

    def acknowledge_cumulative(
        self, message: Message | MessageId, done: Done | None = None
    ) -> None:
        """Acks everything through a message. Raises as `acknowledge` does, and
        CumulativeAcknowledgementNotAllowedError where consumers share a subscription."""
        if self._state == CLOSED:
            raise _closed()
        if not self._single:
            raise CumulativeAcknowledgementNotAllowedError(
                "consumers that share a subscription cannot ack cumulatively: acknowledge the "
                "messages one by one, or a list of them"
            )
        id = message.message_id() if isinstance(message, Message) else message
        self._check(id)
        cumulative = Cumulative(id.ledger_id(), id.entry_id(), id.batch_index(), id.batch_size())
        self.stats.messages_acked += 1
        if self._spans.active:
            split = self._spans.split(cumulative.key)
            self._spans.acked_through(cumulative.key)
            if split is not None:
                self._acknowledge_split(split, cumulative, done)
                return
        else:
            self._spans.rest()
        self._acks.acknowledge_cumulative(cumulative)
        if self._copies:
            self._drop_copies_through(cumulative)
        # Of the entry itself something may be left.
        through = cumulative.key if cumulative.index < 0 else cumulative.key - 1
        if len(self._negative.deadlines):
            self._negative.deadlines.remove_through(through)
        if self._unacked.enabled:
            self._unacked.deadlines.remove_through(through)
        self._acks.joined(done, cumulative=True)

    def _acknowledge_split(self, split: Split, cumulative: Cumulative, done: Done | None) -> None:
        """Acks everything through a message but the chunks of one that ends behind it."""
        whole = None if done is None else _Both(done)
        if split.before >= 0:
            first = Cumulative(key_ledger(split.before), key_entry(split.before), -1, 0)
            self._acks.acknowledge_cumulative(first)
            if self._copies:
                self._drop_copies_through(first)
            self._acks.joined(whole, cumulative=True)
        elif whole is not None:
            whole(None)
        for key in split.keys:
            if key != cumulative.key:
                self._acknowledge_index(key, -1, 0)
        if cumulative.index < 0:
            self._acknowledge_index(cumulative.key, -1, 0)
        for index in range(cumulative.index + 1):
            self._acknowledge_index(cumulative.key, index, cumulative.batch_size)
        self._acks.joined(whole)

    def _acknowledge_index(self, key: int, index: i64, batch_size: i64) -> None:
        complete = self._acks.acknowledge(self._acks.find_id(key, index, batch_size), index)
        self._acked(key, index, complete)
        if self._copies:
            self._drop_copies(key, index)

    def ack_response(self, response: CommandAckResponse) -> None:
        self._acks.answered(response)
        self._acks_ended()

    def flush(self) -> None:
        """Sends pending acks now."""
        self._acks.flush()

    def flush_all(self) -> None:
        """Sends every ack that is not confirmed: the consumer is about to be closed."""
        self._acks.flush_all()

    def take_failures(self) -> list[AckFailure]:
        """Acks that failed for good since the last call, where acks are retried."""
        return [self._failure(given_up) for given_up in self._acks.take_given_up()]

    def take_problem(self) -> Exception | None:
        """What was wrong with the backoff of the application's, if anything was."""
        return None if self._retries is None else self._retries.policy.take_problem()

    def _failure(self, given_up: GivenUp) -> AckFailure:
        ids: list[MessageId] = []
        for key, size, bits in given_up.entries:
            if size == 0:
                ids.append(self._id_at(key, -1, 0))
            for index in range(size):
                if bits >> index & 1:
                    ids.append(self._id_at(key, index, size))
        cumulative = given_up.cumulative
        if cumulative is not None:
            ids.append(self._id_at(cumulative.key, cumulative.index, cumulative.batch_size))
        return AckFailure(ids, given_up.error, cumulative is not None)

    def _id_at(self, key: int, index: i64, size: i64) -> MessageId:
        data = MessageIdData(key_ledger(key), key_entry(key), self.partition, index, None, size)
        return message_id_of(data, self.topic)

    def _acks_ended(self) -> None:
        """Some acks may have, well or not: others can go on."""
        self._redeliver_held_back()
        if self._crowded and self._acks.roomy:
            self._crowded = False
            self._flow()

    @property
    def acks(self) -> AckTracker:
        return self._acks

    def _acknowledge(self, message: Message) -> None:
        delivery = message.delivery
        if delivery.chunks is not None:
            self._acknowledge_chunks(delivery.chunks)
            return
        acks = delivery.acks
        if acks is None or not acks.live or acks.owner is not self._acks:
            acks = self._acks.find(
                delivery.ledger_id, delivery.entry_id, delivery.batch_size, delivery.unacked
            )
            delivery.acks = acks
        complete = self._acks.acknowledge(acks, message.index)
        self.stats.messages_acked += 1
        if self._copies:
            self._drop_copies(delivery.key, message.index)
        if self._follows_taken or len(self._negative.deadlines):
            self._acked(delivery.key, message.index, complete)

    def _acknowledge_id(self, id: MessageId) -> None:
        key = entry_key(id.ledger_id(), id.entry_id())
        index: i64 = id.batch_index()
        if isinstance(id, ChunkMessageId) or self._acks.chunks_of(key) is not None:
            self._acknowledge_chunks(self._chunks_of(id, key))
            return
        acks = self._acks.find_id(key, index, id.batch_size())
        complete = self._acks.acknowledge(acks, index)
        if self._follows_taken or len(self._negative.deadlines):
            self._acked(key, index, complete)
        if self._copies:
            self._drop_copies(key, index)
        self.stats.messages_acked += 1

    def _acknowledge_chunks(self, keys: list[int]) -> None:
        """Acks a message in chunks, all of them."""
        key = keys[-1]
        self._acks.ack_chunks(keys)
        self._acked(key, -1, True)
        if self._copies:
            # It may be on its way here once more.
            for chunk in self._assembler.forget_from(keys[0]):
                self._acks.hold_back(chunk)
            self._drop_copies(key, -1)
        self.stats.messages_acked += 1

    def _acked(self, key: int, index: i64, complete: bool) -> None:
        if complete:
            self._negative.deadlines.remove(key)
            self._unacked.deadlines.remove(key)
        self._dead_letters.acked(key, index, complete)

    def _check(self, id: MessageId) -> None:
        if id.ledger_id() < 0 or id.entry_id() < 0 or id.ledger_id() == INT64_MAX:
            raise InvalidMessageIdError(f"{id} names a place and no message: there is none to ack")
        if id.partition() >= 0 and id.partition() != self.partition:
            where = f"partition {self.partition}" if self.partition >= 0 else "no partition"
            raise InvalidMessageIdError(
                f"{id} is of partition {id.partition()}, and this consumer reads {where}"
            )
        if id.batch_index() >= 0:
            key = entry_key(id.ledger_id(), id.entry_id())
            self._acks.check_id(key, id.batch_index(), id.batch_size())

    def _chunks_of(self, id: MessageId, key: int) -> list[int]:
        """The keys of all chunks of a message that was split, as far as they are known."""
        known = self._acks.chunks_of(key)
        if known is not None:
            return known
        assert isinstance(id, ChunkMessageId)
        first = id.first_chunk_message_id()
        return [entry_key(first.ledger_id(), first.entry_id()), key]

    # ---- Redelivery ----------------------------------------------------------

    def negative_acknowledge(self, message: Message | MessageId) -> None:
        """The application could not handle a message: it is to come again, later."""
        if self._state == CLOSED:
            raise _closed()
        if isinstance(message, Message):
            key = message.delivery.key
            index: i64 = message.index
            count: i64 = message.delivery.redelivery_count
            if message.delivery.chunks is not None:
                self._acks.chunks[key] = message.delivery.chunks
        else:
            self._check_place(message)
            key = entry_key(message.ledger_id(), message.entry_id())
            index = message.batch_index()
            count = 0
            if isinstance(message, ChunkMessageId) and key not in self._acks.chunks:
                self._acks.chunks[key] = self._chunks_of(message, key)
        self._negative.add(key, count, self._now_ms())
        self.stats.messages_refused += 1
        if self._dead_letters.enabled:
            self._dead_letters.refused(key, index)

    def _check_place(self, id: MessageId) -> None:
        if id.ledger_id() < 0 or id.entry_id() < 0 or id.ledger_id() == INT64_MAX:
            raise InvalidMessageIdError(f"{id} names a place and no message to be redelivered")

    def redeliver_all(self) -> None:
        """Everything that is not acked is to come again, now."""
        if self._state == CLOSED:
            raise _closed()
        self._expect_copies()
        self._acks.flush()
        if self._single:
            self._incoming.epoch += 1
        count = self._clear_queue()
        self._assembler.expect_all()
        self._forget_taken()
        self._acks.forget_idle()
        self._last_taken = None
        if self._state == READY:
            command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=self._consumer_id)
            if self._single:
                command.consumer_epoch = self._incoming.epoch
            self._write([command])
            self._give_back(count)

    def _redeliver(self, keys: list[int]) -> None:
        """Has the broker deliver entries again, where consumers share."""
        self._expect_copies()
        self._acks.flush()
        dropped = self._drop_queued(set(keys))
        entries: list[int] = []
        for key in keys:
            self._acks.forget(key)
            self._dead_letters.forget(key)
            self._unacked.deadlines.remove(key)
            self._negative.deadlines.remove(key)
            chunks = self._acks.chunks.get(key)
            entries.extend([key] if chunks is None else chunks)
        self.stats.entries_redelivered += len(entries)
        commands: list[Command] = []
        for first in range(0, len(entries), REDELIVER_IDS_MAX):
            command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=self._consumer_id)
            for key in entries[first : first + REDELIVER_IDS_MAX]:
                id = MessageIdData(key_ledger(key), key_entry(key), self.partition)
                command.message_ids.append(message_id_to_pb(id))
            commands.append(command)
        self._write(commands)
        self._give_back(dropped)

    def _redeliver_held_back(self) -> None:
        """Messages came again and were dropped for an ack that has failed since."""
        keys = self._acks.take_held_back()
        if keys and self._state == READY:
            if self._single:
                self.redeliver_all()
            else:
                self._redeliver(keys)

    def _drop_queued(self, keys: set[int]) -> i64:
        """Drops what the queue has of these entries, and nothing of their neighbours."""
        before = self._length
        if self._current and self._current[0].delivery.key in keys:
            self._length -= len(self._current)
            self._current = []
        kept: deque[list[Message]] = deque()
        for messages in self._queue:
            if messages[0].delivery.key in keys:
                self._length -= len(messages)
                self._queued.discard(messages[0].delivery.key)
            else:
                kept.append(messages)
        self._queue = kept
        return before - self._length

    def _is_queued(self, key: int) -> bool:
        """Whether messages of the entry are still to be taken."""
        if self._current and self._current[-1].delivery.key == key:
            return True
        return key in self._queued

    def _drop_copies(self, key: int, index: i64) -> None:
        """Drops what the queue has of a message that was acked, for it was taken before."""
        current = self._current
        if current and current[-1].delivery.key == key:
            # What comes before the next message was taken from here.
            if index < 0 or index >= current[-1].index:
                self._current = self._without(current, index, key)
        elif key in self._queued:
            for at, messages in enumerate(self._queue):
                if messages[0].delivery.key == key:
                    left = self._without(messages, index, key)
                    if left:
                        self._queue[at] = left
                    else:
                        del self._queue[at]
                        self._queued.discard(key)
                    break

    def _drop_copies_through(self, cumulative: Cumulative) -> None:
        """As `_drop_copies`, of all messages up to one. Where one consumer is active they are
        in order."""
        current = self._current
        if current and current[0].delivery.key <= cumulative.key:
            self._current = self._beyond(current, cumulative)
        while self._queue and self._queue[0][0].delivery.key <= cumulative.key:
            messages = self._queue.popleft()
            left = self._beyond(messages, cumulative)
            if left:
                self._queue.appendleft(left)
                break
            self._queued.discard(messages[0].delivery.key)

    def _without(self, messages: list[Message], index: i64, key: int) -> list[Message]:
        left = [message for message in messages if index >= 0 and message.index != index]
        if len(left) != len(messages):
            self._acks.hold_back(key)
            self._have_dropped(len(messages) - len(left))
        return left

    def _beyond(self, messages: list[Message], cumulative: Cumulative) -> list[Message]:
        left = [
            message
            for message in messages
            if message.delivery.key == cumulative.key and 0 <= cumulative.index < message.index
        ]
        if len(left) != len(messages):
            cumulative.held_back = True
            self._have_dropped(len(messages) - len(left))
        return left

    def _have_dropped(self, count: i64) -> None:
        self._length -= count
        self.stats.messages_dropped += count
        self._give_back(count)

    def _expect_copies(self) -> None:
        """Messages that the application has may come again."""
        if not self._copies:
            self._copies = True
            for messages in self._queue:
                self._queued.add(messages[0].delivery.key)

    def _forget_taken(self) -> None:
        """Everything that the application has comes again anyway."""
        self._negative.deadlines.clear()
        self._unacked.deadlines.clear()
        self._dead_letters.clear()

    # ---- Time ----------------------------------------------------------------

    def next_ms(self) -> int | None:
        """When `tick` is to be called, if nothing else happens."""
        if self._state != READY:
            return None
        earliest = self._acks.next_ms()
        for other in (
            self._negative.deadlines.next_ms(),
            self._unacked.deadlines.next_ms(),
            self._assembler.next_ms(),
        ):
            if other is not None and (earliest is None or other < earliest):
                earliest = other
        return earliest

    def tick(self, now_ms: int) -> None:
        """Does what has fallen due."""
        if self._state != READY:
            return
        self._acks.tick(now_ms)
        self._acks_ended()
        if self._assembler.next_ms() is not None:
            self._assembler.tick(now_ms, self._at_broker > 0)
            self._see_to_chunks()
        refused = self._negative.deadlines.take_due(now_ms)
        late = self._unacked.deadlines.take_due(now_ms)
        self.stats.entries_late += len(late)
        if not refused and not late:
            return
        if self._single:
            self.redeliver_all()
            return
        keys: list[int] = []
        for key in refused:
            if self._dead_letters.is_candidate(key):
                # What was not refused stays with the application, for the last time.
                self._die(self._dead_letters.take_refused(key))
            else:
                keys.append(key)
        for key in late:
            if self._dead_letters.is_candidate(key):
                self._die(self._dead_letters.take_all(key))
            elif key not in keys:
                keys.append(key)
        if keys:
            self._redeliver(keys)

    # ---- Dead letters --------------------------------------------------------

    def take_dead(self) -> list[Message]:
        """Messages to publish to the dead letter topic; each ends with one of the next two."""
        dead = self._dead
        self._dead = []
        return dead

    def dead_published(self, message: Message) -> None:
        """It is in the dead letter topic, and therefore acked here."""
        self._dead_letters.published(message)
        if self._state != CLOSED:
            self.stats.messages_dead += 1
            self._acknowledge(message)
            self._acks.joined(None)

    def dead_failed(self, message: Message) -> None:
        """It could not be published: it is refused again, and tried again when that is due."""
        self._dead_letters.published(message)
        if self._state != CLOSED:
            self._dead_letters.taken(message)
            self.negative_acknowledge(message)
            self.stats.messages_refused -= 1  # not by the application

    def _die(self, messages: list[Message]) -> None:
        for message in messages:
            self._dead_letters.publishing(message)
        if messages:
            self._dead.extend(messages)
            self._wake()

    # ---- Seek ----------------------------------------------------------------

    def prepare_seek(self) -> None:
        """A seek is about to be sent: what was acked before it is sent before it."""
        self._acks.flush()

    def unsubscribed(self) -> None:
        """The subscription is gone, and what was acked on it matters no more."""
        self._acks.clear(Interrupted("the consumer unsubscribed before the ack was confirmed"))

    def sought(self, id: MessageId | None, inclusive: bool) -> None:
        """The broker moved the subscription, to an id or to a time."""
        self._acks.clear()
        count = self._clear_queue()
        self._assembler.clear()
        self._spans.clear()
        self._forget_taken()
        self._last_taken = None
        # A subscription that is gone with its consumer forgets a time; everything is enough.
        self._first_id = MessageId.earliest if id is None else id
        if self._durable:
            self._first_id = None
        self._begin_at(id, inclusive)
        self._incoming.only_from_start = self._state == READY
        if self._state == READY:
            self._give_back(count)

    def _begin_at(self, id: MessageId | None, inclusive: bool) -> None:
        if id is None or id.ledger_id() < 0 or id.ledger_id() == INT64_MAX:
            self._incoming.start = None
        else:
            self._incoming.start = Start(id, inclusive)


@final
class _Both:
    """Calls back when both parts of an ack are done, with the first error."""

    def __init__(self, done: Done) -> None:
        self._done: Final = done
        self._left: i64 = 2
        self._error: Exception | None = None

    def __call__(self, error: Exception | None) -> None:
        self._left -= 1
        if self._error is None:
            self._error = error
        if self._left == 0:
            self._done(self._error)


def _retries_of(options: ConsumerOptions, random: Callable[[], float] | None) -> AckRetries | None:
    if not options.auto_retry_acknowledgement:
        return None
    backoff = options.auto_retry_acknowledgement_backoff
    if backoff is None:
        backoff = default_backoff()
    return AckRetries(RetryPolicy(options.max_acknowledgement_retries, backoff, random))


def _id_data(id: MessageId) -> MessageIdData:
    return MessageIdData(
        id.ledger_id(),
        id.entry_id(),
        id.partition(),
        id.batch_index(),
        batch_size=id.batch_size(),
    )


def _closed() -> AlreadyClosed:
    return AlreadyClosed("the consumer is closed: subscribe again")
