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
acks that were not sent are sent before the first permit, and hold back their duplicates.

Redelivery is by entry. Acks go out before the call for it, so the broker keeps back what
is acked, and what is in the queue of such an entry is dropped: it comes again too. Where
one consumer is active, a broker redelivers everything; the epoch then tells messages from
before that from those after it.

The caller sees to it that calls do not overlap, and calls `tick` when `next_ms` says.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack_tracker import (
    AckTracker,
    Cumulative,
    Done,
    entry_key,
    key_entry,
    key_ledger,
)
from magnetar.client.dead_letter import DeadLetters
from magnetar.client.incoming import Arrival, Incoming, Start
from magnetar.client.message import Decode, Message
from magnetar.client.negative_acks import NegativeAcks
from magnetar.client.options import ConsumerOptions
from magnetar.client.unacked import Unacked
from magnetar.errors import (
    AlreadyClosed,
    CumulativeAcknowledgementNotAllowedError,
    InvalidMessageIdError,
)
from magnetar.model.enums import AckType, ConsumerType
from magnetar.model.message_id import ChunkMessageId, MessageId
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.ack import CommandAck, CommandAckResponse
from magnetar.protocol.cold import message_id_to_pb
from magnetar.protocol.command import Command
from magnetar.protocol.message import CommandFlow, CommandMessage
from magnetar.wire.integer import INT64_MAX

__all__ = ["ConsumerCore", "ConsumerStats"]

CONNECTING: Final = 0
READY: Final = 1
CLOSED: Final = 2
# As Pulsar's clients do: how many ids one call for redelivery names.
REDELIVER_IDS_MAX: Final = 1000


@final
class ConsumerStats:
    """What went through a consumer since it was made."""

    def __init__(self) -> None:
        self.messages_received: i64 = 0
        self.bytes_received: i64 = 0
        self.messages_dropped: i64 = 0
        self.entries_refused: i64 = 0
        self.messages_taken: i64 = 0
        self.messages_acked: i64 = 0
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
        # Nothing is left to chance yet; retries of acks will be.
        self._random: Final = random
        self._acks: Final = AckTracker(
            consumer_id,
            group_time_ms=options.acknowledgement_group_time_ms,
            group_size_max=options.max_acknowledgement_group_size,
            receipts=options.ack_receipt_enabled,
            now_ms=now_ms,
            write=write,
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
        self._incoming: Final = Incoming(
            topic,
            partition,
            self._acks,
            self._dead_letters,
            options.crypto_failure_action,
            decode,
        )
        # Where a subscription begins that does not exist yet.
        self._first_id: MessageId | None = options.start_message_id
        self._last_taken: Message | None = None
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
        # How many calls wait for a message, where there is no queue.
        self._waiting: i64 = 0
        self._dead: list[Message] = []
        self.stats: Final = ConsumerStats()

    # ---- The connection ------------------------------------------------------

    def connected(self) -> None:
        """SUBSCRIBE succeeded on a new connection."""
        if self._state == CLOSED:
            return
        self._state = READY
        self._clear_queue()
        self._forget_taken()
        self._incoming.only_from_start = False
        if not self._durable and self._last_taken is not None:
            self._begin_at(self._last_taken.message_id(), False)
        self._acks.connected()
        self._at_broker = 0
        self._unreturned = self._queue_size
        self._flow()

    def disconnected(self) -> None:
        """The connection is gone, or the broker closed the consumer."""
        if self._state == READY:
            self._state = CONNECTING
            self._acks.disconnected()

    def close(self) -> None:
        """Ends it: what is pending is sent if it can be, and who still waits is told."""
        if self._state == CLOSED:
            return
        self._acks.flush()
        self._state = CLOSED
        self._acks.clear(AlreadyClosed("the consumer was closed before the ack was confirmed"))
        self._acks.disconnected()
        self._clear_queue()
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
        self.stats.messages_dropped += arrival.charged - count
        if count > 0:
            if self._dead_letters.died(command.redelivery_count):
                self._die(messages)
                self._give_back(count)
            else:
                messages.reverse()
                self._queue.append(messages)
                self._length += count
                self._wake()
        if arrival.charged != count:
            self._settle(command, arrival)

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

    def take(self) -> Message | None:
        """The next message for the application, or None."""
        if not self._current:
            if not self._queue:
                return None
            self._current = self._queue.popleft()
        message = self._current.pop()
        self._length -= 1
        self.stats.messages_taken += 1
        if not self._durable:
            self._last_taken = message
        if self._follows_taken:
            self._follow(message)
        if self._queue_size > 0:
            self._unreturned += 1
            if self._unreturned >= self._flow_min:
                self._flow()
        elif self._waiting > 0:
            self._waiting -= 1
        return message

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
        return self._unreturned

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
        self._acknowledge(message)
        return self._acks.joined(done)

    def acknowledge(self, ids: Sequence[Message | MessageId], done: Done | None = None) -> None:
        """Acks messages, all of them or, if one of them cannot be acked, none.

        `done` is called with None once the acks are kept (without receipts: are on their
        way), or with what went wrong. Raises AlreadyClosed, InvalidMessageIdError and
        BatchIndexError.
        """
        if self._state == CLOSED:
            raise _closed()
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
        self._acks.acknowledge_cumulative(cumulative)
        self.stats.messages_acked += 1
        # Of the entry itself something may be left.
        through = cumulative.key if cumulative.index < 0 else cumulative.key - 1
        if len(self._negative.deadlines):
            self._negative.deadlines.remove_through(through)
        if self._unacked.enabled:
            self._unacked.deadlines.remove_through(through)
        self._acks.joined(done, cumulative=True)

    def ack_response(self, response: CommandAckResponse) -> None:
        self._acks.answered(response)
        self._redeliver_held_back()

    def flush(self) -> None:
        """Sends pending acks now."""
        self._acks.flush()

    @property
    def acks(self) -> AckTracker:
        return self._acks

    def _acknowledge(self, message: Message) -> None:
        delivery = message.delivery
        acks = delivery.acks
        if acks is None or not acks.live or acks.owner is not self._acks:
            acks = self._acks.find(
                delivery.ledger_id, delivery.entry_id, delivery.batch_size, delivery.unacked
            )
            delivery.acks = acks
        complete = self._acks.acknowledge(acks, message.index)
        self.stats.messages_acked += 1
        if self._follows_taken or len(self._negative.deadlines):
            self._acked(delivery.key, message.index, complete)

    def _acknowledge_id(self, id: MessageId) -> None:
        key = entry_key(id.ledger_id(), id.entry_id())
        index: i64 = id.batch_index()
        if isinstance(id, ChunkMessageId) or key in self._acks.chunks:
            for chunk in self._chunks_of(id, key):
                self._acks.acknowledge(self._acks.find_id(chunk, -1, 0), -1)
                self._acked(chunk, -1, True)
            self._acks.chunks.pop(key, None)
        else:
            acks = self._acks.find_id(key, index, id.batch_size())
            complete = self._acks.acknowledge(acks, index)
            if self._follows_taken or len(self._negative.deadlines):
                self._acked(key, index, complete)
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
        known = self._acks.chunks.get(key)
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
        else:
            self._check_place(message)
            key = entry_key(message.ledger_id(), message.entry_id())
            index = message.batch_index()
            count = 0
            if isinstance(message, ChunkMessageId) and key not in self._acks.chunks:
                self._acks.chunks[key] = self._chunks_of(message, key)
        self._negative.add(key, count, self._now_ms())
        if self._dead_letters.enabled:
            self._dead_letters.refused(key, index)

    def _check_place(self, id: MessageId) -> None:
        if id.ledger_id() < 0 or id.entry_id() < 0 or id.ledger_id() == INT64_MAX:
            raise InvalidMessageIdError(f"{id} names a place and no message to be redelivered")

    def redeliver_all(self) -> None:
        """Everything that is not acked is to come again, now."""
        if self._state == CLOSED:
            raise _closed()
        self._acks.flush()
        if self._single:
            self._incoming.epoch += 1
        count = self._clear_queue()
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
            else:
                kept.append(messages)
        self._queue = kept
        return before - self._length

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
        for other in (self._negative.deadlines.next_ms(), self._unacked.deadlines.next_ms()):
            if other is not None and (earliest is None or other < earliest):
                earliest = other
        return earliest

    def tick(self, now_ms: int) -> None:
        """Does what has fallen due."""
        if self._state != READY:
            return
        self._acks.tick(now_ms)
        self._redeliver_held_back()
        refused = self._negative.deadlines.take_due(now_ms)
        late = self._unacked.deadlines.take_due(now_ms)
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

    def sought(self, id: MessageId | None, inclusive: bool) -> None:
        """The broker moved the subscription, to an id or to a time."""
        self._acks.clear()
        count = self._clear_queue()
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
