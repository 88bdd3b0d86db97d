"""The producer of one topic or partition: from messages to entries, from receipts to ids.

| state      | send                     | becomes                                            |
|------------|--------------------------|----------------------------------------------------|
| connecting | queued                   | ready, when the broker has accepted the producer   |
| ready      | queued, and written      | connecting, when the connection is lost; closed    |
| closed     | refused                  |                                                    |

A message is open in the batcher, then under way in the send queue, then done. Messages sent
before the first connection wait as they came, since the producer's name and its last
sequence id are the broker's to say. On each later connection everything under way is written
again, in order and byte for byte, but for what the broker says it has.

Each message's sender is told exactly once, in the order in which messages are stored or
given up. It is told last, when everything here is in order, so it may send, flush or close.
What it raises goes to `callback_failed`, and without one to whoever called in here, once all
others have been called. With a `tell`, that is called instead, once for each entry.

`write` gets parts of frames, in order, and is called only while ready; it is told whether
whoever sends waits for them (`hurried`). With chunking, a
message that is too large for one entry goes out in several (`packer.py`, `chunks.py`). It is
one message still: one sequence id, one place among those that are pending, and one sender
for all of it, with a `ChunkMessageId`. If it is given up, what was stored of it stays without the
rest, and consumers pass it over.

A message of a transaction is held until the coordinator knows that this topic is part of it
(`enlisted`), and so is all that was sent behind it, so that the order stays. Its transaction
is told when it is done, before its sender is.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, cast, final

from mypy_extensions import i64

from magnetar.client.errors import error_of
from magnetar.client.option.encryption import Sealer
from magnetar.client.option.options import BatchingType, ProducerOptions
from magnetar.client.producer.batcher import (
    Batcher,
    DefaultBatch,
    KeyedBatches,
    SequenceIds,
    room_for,
)
from magnetar.client.producer.chunks import Chunks, Part
from magnetar.client.producer.outgoing import Done, Outgoing, Sender, Tell
from magnetar.client.producer.packer import Packer
from magnetar.client.producer.send_queue import IGNORED, STORED, Publish, SendQueue
from magnetar.client.transaction.core import TransactionCore
from magnetar.errors import (
    AlreadyClosed,
    ChecksumError,
    Interrupted,
    MessageTooLargeError,
    ProducerQueueIsFull,
    Timeout,
)
from magnetar.model.enums import ServerError
from magnetar.model.message_id import ChunkMessageId, MessageId
from magnetar.model.topic_name import TopicName
from magnetar.protocol.entry import split_entry
from magnetar.protocol.send import CommandSendReceipt

__all__ = ["ProducerCore"]

# Refusals of one message: it is given up, and the others go on.
_OF_MESSAGE: Final = (int(ServerError.NotAllowedError),)
# Refusals of the producer that no other try will change.
_OF_PRODUCER: Final = (int(ServerError.TopicTerminatedError), int(ServerError.ProducerFenced))
_DOUBTFUL: Final = (
    "the connection broke before a message of the transaction was confirmed: it may be stored, and "
    "sent again it would be there twice"
)


@final
class ProducerCore:
    """See the module. `pending_messages` and `pending_bytes` count what is not done."""

    def __init__(
        self,
        options: ProducerOptions,
        topic: str,
        producer_id: int,
        *,
        now_ms: Callable[[], int],
        write: Callable[[list[Part], bool], None],
        max_pending_messages: int | None = None,
        day_ms: Callable[[], int] | None = None,
        sealer: Sealer | None = None,
    ) -> None:
        self.topic: Final[str] = topic
        self.producer_id: Final[i64] = producer_id
        self._now_ms: Final[Callable[[], int]] = now_ms
        # When a message was published is told by the time of day, which may jump.
        self._day_ms: Final[Callable[[], int]] = day_ms or now_ms
        self._write: Final[Callable[[list[Part], bool], None]] = write
        self._sealer: Final[Sealer | None] = sealer
        self._partition: Final[int] = TopicName.parse(topic).partition
        self._timeout_ms: Final[i64] = options.send_timeout_millis
        self._delay_ms: Final[i64] = options.batching_max_publish_delay_ms
        # A partition of many may be given less than the options say.
        self._pending_max: Final[i64] = (
            options.max_pending_messages if max_pending_messages is None else max_pending_messages
        )
        # Told of all messages of an entry at once, instead of each sender.
        self.tell: Tell | None = None
        # Told what a sender raised.
        self.callback_failed: Callable[[Exception], None] | None = None

        self._ready: bool = False
        self._closed: bool = False
        self._closed_with: Exception | None = None
        self._numbered: Final[bool] = options.initial_sequence_id is not None
        initial: int = -1 if options.initial_sequence_id is None else options.initial_sequence_id
        # The highest sequence id that the broker is known to have stored.
        self.last_sequence_id: int = initial

        self._sequence_ids: Final[SequenceIds] = SequenceIds(initial)
        self._batcher: Final[Batcher | None] = _make_batcher(options, self._sequence_ids)
        self._packer: Final[Packer] = Packer(
            options, topic, producer_id, self._sequence_ids, sealer
        )
        # Messages from before the first connection; None ever after.
        self._waiting: list[Outgoing] | None = []
        # From the first on whose transaction does not have this topic yet.
        self._held: Final[deque[Outgoing]] = deque()
        self._queue: Final[SendQueue] = SendQueue()
        # Who waits for the entry of an ordinal and all before it, in order.
        self._idle: list[tuple[int, Callable[[], None]]] = []

        self.pending_messages: i64 = 0
        self.pending_bytes: i64 = 0
        # Since the beginning: taken, stored, given up; and SENDs written, again too.
        self.messages_sent: i64 = 0
        self.bytes_sent: i64 = 0
        self.messages_stored: i64 = 0
        self.messages_failed: i64 = 0
        self.entries_written: i64 = 0

    @property
    def state(self) -> str:
        if self._closed:
            return "closed"
        return "ready" if self._ready else "connecting"

    # ---- The connection ------------------------------------------------------

    def connected(
        self, name: str, last_sequence_id: int, schema_version: bytes, max_message_size: int
    ) -> None:
        """The broker has accepted the producer, under this name.

        `last_sequence_id` is what it has stored, -1 if it does not know.
        """
        if self._closed:
            return
        self._packer.connected(name, schema_version, max_message_size)
        if self._batcher is not None:
            self._batcher.payload_size_max = max_message_size
            if self._sealer is not None:
                self._batcher.payload_size_max -= self._sealer.key.overhead
        self._ready = True
        if self._waiting is None:
            self._send_again(last_sequence_id)
        else:
            self._begin(self._waiting, last_sequence_id)

    def _begin(self, waiting: list[Outgoing], last_sequence_id: int) -> None:
        """The first connection: what waited is sent now."""
        if not self._numbered:
            self._sequence_ids.last = last_sequence_id
            self.last_sequence_id = last_sequence_id
        self._waiting = None
        refused: list[tuple[Outgoing, Exception]] = []
        for message in waiting:
            try:
                self._accept(message, message.taken_ms)
            except MessageTooLargeError as error:
                refused.append((message, error))
        self._wait_for_all()
        problems: list[Exception] = []
        for message, reason in refused:
            self._give_up_messages([message], reason, problems)
        self._end_event(problems)

    def _wait_for_all(self) -> None:
        """Whoever waited already waits for all that waited too, and is under way now."""
        if self._idle:
            self.flush()
            last = self._queue.last_ordinal
            self._idle = [(last, callback) for _, callback in self._idle]

    def enlisted(self) -> None:
        """A transaction has this topic now, or will not have it: what was held for it goes on."""
        refused: list[tuple[Outgoing, Exception]] = []
        while self._held and not _must_wait(self._held[0]):
            message = self._held.popleft()
            try:
                self._release_held(message)
            except Exception as error:
                refused.append((message, error))
        # Whoever waits for what was held has waited already.
        self.flush()
        if not self._held:
            self._wait_for_all()
        problems: list[Exception] = []
        for message, reason in refused:
            self._give_up_messages([message], reason, problems)
        self._end_event(problems)

    def _release_held(self, message: Outgoing) -> None:
        """Raises why it cannot be sent."""
        enlistment = message.enlistment
        if enlistment is not None and not enlistment.ready:
            raise enlistment.reason()
        self._pass_on(message)

    def _send_again(self, last_sequence_id: int) -> None:
        stored = self._queue.take_stored(last_sequence_id)
        packer = self._packer
        large = self._queue.take_larger(packer.message_size_max, packer.total_size_max)
        doubtful = self._queue.take_doubtful() if last_sequence_id < 0 else []
        self._queue.rewind()
        self._write_on()
        problems: list[Exception] = []
        for publish in stored:
            self._have_stored(publish, -1, -1, problems)
        for publish in large:
            self._give_up(publish, packer.too_large(publish.payload_size), problems)
        for publish in doubtful:
            self._give_up(publish, Interrupted(_DOUBTFUL), problems)
        self._end_event(problems)

    def disconnected(self, *, answered: bool = False) -> None:
        """The connection is lost: what comes now is written on the next.

        `answered`: the broker told of all that it has stored before, and not of the rest.
        """
        self._ready = False
        if answered:
            self._queue.none_stored()

    # ---- Sending -------------------------------------------------------------

    def send(self, message: Outgoing, hurried: bool = False) -> bool:
        """Takes a message. If this raises, it was not taken, and nobody is told.

        Says whether `next_ms` may be sooner now, which is for few messages of a batch.
        Raises ProducerQueueIsFull, MessageTooLargeError, AlreadyClosed, CryptoError where a
        new data key cannot be made, and UsageError for fields that no entry can carry.
        """
        if self._closed:
            raise AlreadyClosed(f"the producer of {self.topic} is closed: {self._closed_with}")
        if self.pending_messages >= self._pending_max > 0:
            self._turn_away(hurried)
        if not message.plain:
            message.check()
        if self._sealer is not None:
            self._sealer.renew(self._now_ms())
        self._take(1, len(message.payload))
        batcher = self._batcher
        if self._waiting is not None:
            message.taken_ms = self._now_ms()
            self._waiting.append(message)
        elif batcher is not None and message.plain and batcher.count > 0 and batcher.fits(message):
            # The path of nearly all messages: no clock, nothing to decide.
            batcher.add(message)
            if not batcher.full:
                return False
            self.flush(hurried)
        else:
            try:
                self._accept(message, self._now_ms(), hurried)
            except Exception:
                self._take(-1, -len(message.payload))
                raise
        return True

    def _take(self, count: i64, size: i64) -> None:
        self.pending_messages += count
        self.pending_bytes += size
        self.messages_sent += count
        self.bytes_sent += size

    def _turn_away(self, hurried: bool) -> None:
        # Nothing can join what is open before something is done, so it need not wait.
        self.flush(hurried)
        raise ProducerQueueIsFull(
            f"{self.pending_messages} messages of {self.topic} wait for the broker: "
            "send more slowly, raise max_pending_messages, or set block_if_queue_full"
        )

    def _accept(self, message: Outgoing, taken_ms: i64, hurried: bool = False) -> None:
        """Raises MessageTooLargeError."""
        message.taken_ms = taken_ms
        if self._held or _must_wait(message):
            # Nothing is open while something is held, so that nothing overtakes it.
            self.flush(hurried)
            self._held.append(message)
        else:
            self._pass_on(message, hurried)

    def _pass_on(self, message: Outgoing, hurried: bool = False) -> None:
        """Raises MessageTooLargeError."""
        batcher = self._batcher
        if batcher is None:
            self._enqueue(self._packer.pack(message, self._day_ms()), hurried)
            return
        if not batcher.fits(message):
            self.flush(hurried)
        if (
            message.alone
            or self._goes_back(message)
            or room_for(message) > batcher.payload_size_max
        ):
            self.flush(hurried)
            self._enqueue(self._packer.pack(message, self._day_ms()), hurried)
            return
        if batcher.count == 0:
            batcher.opened_ms = message.taken_ms
        batcher.add(message)
        if batcher.full:
            self.flush(hurried)

    def _goes_back(self, message: Outgoing) -> bool:
        """Whether a broker that removes duplicates would drop it, and a batch with it."""
        return message.sequence_id is not None and message.sequence_id <= self._sequence_ids.last

    def flush(self, hurried: bool = False) -> None:
        """Closes what is open, and writes it if there is a connection."""
        batcher = self._batcher
        if batcher is not None and batcher.count > 0:
            publish_ms = self._day_ms()
            for batch in batcher.close():
                self._enqueue(self._packer.pack_batch(batch, publish_ms), hurried)

    def _enqueue(self, publish: Publish, hurried: bool) -> None:
        if not self._ready:
            self._queue.add(publish)
        elif self._queue.add_written(publish):
            self.entries_written += 1
            self._write(publish.frame, hurried)
        else:
            self._write_on(hurried)

    def _write_on(self, hurried: bool = False) -> None:
        """Writes what waits for that, as far as the window lets it."""
        if not self._ready:
            return
        frames = self._queue.write_on()
        self.entries_written += len(frames)
        parts: list[Part] = []
        for frame in frames:
            parts.extend(frame)
        if parts:
            self._write(parts, hurried)

    # ---- Answers -------------------------------------------------------------

    def receipt(self, receipt: CommandSendReceipt) -> bool:
        """An entry is stored. False: receipts are missing, the producer must connect again."""
        verdict = self._queue.judge(receipt.sequence_id)
        if verdict != STORED:
            return verdict == IGNORED
        ledger_id: i64 = -1
        entry_id: i64 = -1
        if receipt.message_id is not None:
            ledger_id = receipt.message_id.ledger_id
            entry_id = receipt.message_id.entry_id
            if ledger_id < -1 or entry_id < -1:
                return False
        oldest = self._queue.oldest
        if oldest is not None and oldest.chunks is not None:
            if oldest.chunks.confirmed == oldest.chunks.written:
                return False
            whole = self._queue.confirm(oldest.chunks, ledger_id, entry_id)
            self._write_on()
            if not whole:
                return True
        problems: list[Exception] = []
        self._have_stored(self._queue.pop(), ledger_id, entry_id, problems)
        self._end_event(problems)
        return True

    def send_error(self, code: int, reason: str, sequence_id: int | None = None) -> bool:
        """The broker refuses an entry, the oldest unless it says otherwise.

        False: the producer must connect again, and everything is sent again. A message that
        the broker will never take is given up; so is the producer, where all are.
        """
        if self._closed:
            return True
        if code in _OF_PRODUCER:
            self.close(error_of(code, reason))
            return True
        oldest = self._queue.oldest
        if code in _OF_MESSAGE and sequence_id is not None and self._has_left(sequence_id):
            return True  # another chunk of a message that was given up
        if oldest is None or (sequence_id is not None and sequence_id != oldest.sequence_id):
            return False
        if code in _OF_MESSAGE:
            self._refused(error_of(code, reason))
            return True
        entry = oldest.entry
        if (
            code == ServerError.ChecksumError
            and entry is not None
            and not split_entry(entry).intact()
        ):
            # Not damaged on the way but here: sent again it would be no better.
            self._refused(ChecksumError(f"the message was damaged in memory: {reason}"))
            return True
        return False

    def _has_left(self, sequence_id: i64) -> bool:
        """Whether the entry with this sequence id is not under way any more."""
        oldest = self._queue.oldest
        following: i64 = self._sequence_ids.last + 1 if oldest is None else oldest.sequence_id
        return sequence_id < following

    def _refused(self, error: Exception) -> None:
        problems: list[Exception] = []
        self._give_up(self._queue.pop(), error, problems)
        self._write_on()
        self._end_event(problems)

    def _have_stored(
        self, publish: Publish, ledger_id: i64, entry_id: i64, problems: list[Exception]
    ) -> None:
        self._release(publish.count, publish.size)
        if publish.transaction is not None:
            publish.transaction.leave(publish.count, None)
        self.messages_stored += publish.count
        self.last_sequence_id = max(self.last_sequence_id, publish.highest_sequence_id)
        if self.tell is not None:
            if _wanted(publish.senders):
                ids = self._ids_of(publish, ledger_id, entry_id)
                self._tell_at_once(self.tell, publish.senders, None, ids, problems)
            return
        partition = self._partition
        count = publish.count if publish.batched else 0
        index: i64 = 0 if publish.batched else -1
        for sender in publish.senders:
            if sender is not None:
                message_id = (
                    MessageId(partition, ledger_id, entry_id, index, batch_size=count)
                    if publish.chunks is None
                    else self._chunk_id(publish.chunks, ledger_id, entry_id)
                )
                try:
                    cast("Done", sender)(None, message_id)
                except Exception as problem:
                    problems.append(problem)
            index += 1

    def _ids_of(self, publish: Publish, ledger_id: i64, entry_id: i64) -> list[MessageId]:
        partition = self._partition
        if publish.chunks is not None:
            return [self._chunk_id(publish.chunks, ledger_id, entry_id)]
        if not publish.batched:
            return [MessageId(partition, ledger_id, entry_id)]
        ledger: int = ledger_id
        entry: int = entry_id
        count: int = publish.count
        return [
            MessageId(partition, ledger, entry, index, batch_size=count) for index in range(count)
        ]

    def _chunk_id(self, chunks: Chunks, ledger_id: i64, entry_id: i64) -> MessageId:
        if chunks.duplicate or ledger_id < 0:
            return MessageId(self._partition)  # the broker does not say where
        first = MessageId(self._partition, chunks.ledger_id, chunks.entry_id)
        return ChunkMessageId(first, MessageId(self._partition, ledger_id, entry_id))

    def _tell_at_once(
        self,
        tell: Tell,
        senders: list[Sender | None],
        error: Exception | None,
        ids: list[MessageId],
        problems: list[Exception],
    ) -> None:
        try:
            tell(senders, error, ids)
        except Exception as problem:
            problems.append(problem)

    def _tell_failed(
        self, senders: list[Sender | None], error: Exception, problems: list[Exception]
    ) -> None:
        if self.tell is None:
            for sender in senders:
                _call(sender, error, problems)
        elif _wanted(senders):
            self._tell_at_once(self.tell, senders, error, [], problems)

    def _give_up(self, publish: Publish, error: Exception, problems: list[Exception]) -> None:
        self._release(publish.count, publish.size)
        if publish.transaction is not None:
            publish.transaction.leave(publish.count, error)
        self.messages_failed += publish.count
        self._tell_failed(publish.senders, error, problems)

    def _release(self, count: i64, size: i64) -> None:
        self.pending_messages -= count
        self.pending_bytes -= size

    def _end_event(self, problems: list[Exception]) -> None:
        """After all senders were told: who waits for the end, and complaints."""
        while (
            self._idle
            and not self._waiting
            and not self._held
            and self._queue.have_left(self._idle[0][0])
        ):
            callback = self._idle.pop(0)[1]
            callback()
        if not problems:
            return
        if self.callback_failed is None:
            raise problems[0]
        for problem in problems:
            self.callback_failed(problem)

    # ---- Time ----------------------------------------------------------------

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Calls back once everything sent so far is stored or given up: now, or later.

        What is open is closed first.
        """
        self.flush()
        self._idle.append((self._queue.last_ordinal, callback))
        self._end_event([])

    def next_ms(self) -> int | None:
        """When `tick` has something to do, if nothing else happens before."""
        due: i64 = -1
        batcher = self._batcher
        if batcher is not None and batcher.count > 0:
            due = batcher.opened_ms + self._delay_ms
        if self._timeout_ms > 0:
            taken_ms = self._oldest_ms()
            if taken_ms >= 0 and (due < 0 or taken_ms + self._timeout_ms < due):
                due = taken_ms + self._timeout_ms
        return None if due < 0 else due

    @property
    def oldest_ms(self) -> int:
        """When the oldest message was taken that is not done; -1 if all are."""
        return self._oldest_ms()

    def _oldest_ms(self) -> i64:
        oldest = self._queue.oldest
        if oldest is not None:
            return oldest.taken_ms
        if self._waiting:
            return self._waiting[0].taken_ms
        if self._held:
            return self._held[0].taken_ms
        return -1

    def tick(self, now_ms: int) -> None:
        """Closes a batch that waited long enough, gives up what waited too long."""
        batcher = self._batcher
        if (
            batcher is not None
            and batcher.count > 0
            and now_ms - batcher.opened_ms >= self._delay_ms
        ):
            self.flush()
        oldest_ms = self._oldest_ms()
        if self._timeout_ms > 0 and 0 <= oldest_ms <= now_ms - self._timeout_ms:
            self._time_out()

    def _time_out(self) -> None:
        """Gives up what is younger too: once it is stored, what comes again before it is late."""
        waiting = self._waiting or []
        if self._waiting is not None:
            self._waiting = []
        error = Timeout(
            f"no receipt for a message to {self.topic} within {self._timeout_ms} ms: "
            "it, and what was sent behind it, may be stored or not"
        )
        self._give_up_all(waiting, error)

    def _give_up_all(self, waiting: list[Outgoing], error: Exception) -> None:
        publishes = self._queue.take_all()
        open_size: i64 = 0
        open_senders: list[Sender | None] = []
        transaction: TransactionCore | None = None
        if self._batcher is not None:
            open_size = self._batcher.size
            transaction = self._batcher.transaction
            open_senders = self._batcher.clear()
        waiting = waiting + list(self._held)
        self._held.clear()
        problems: list[Exception] = []
        for publish in publishes:
            self._give_up(publish, error, problems)
        self._release(len(open_senders), open_size)
        if transaction is not None:
            transaction.leave(len(open_senders), error)
        self.messages_failed += len(open_senders)
        self._tell_failed(open_senders, error, problems)
        self._give_up_messages(waiting, error, problems)
        self._end_event(problems)

    def _give_up_messages(
        self, messages: list[Outgoing], error: Exception, problems: list[Exception]
    ) -> None:
        for message in messages:
            self._release(1, len(message.payload))
            if message.transaction is not None:
                message.transaction.leave(1, error)
            self.messages_failed += 1
            self._tell_failed([message.sender], error, problems)

    def close(self, error: Exception) -> None:
        """Gives up everything that is left, with this error. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        self._closed_with = error
        self._ready = False
        waiting = self._waiting or []
        self._waiting = None
        self._give_up_all(waiting, error)


def _make_batcher(options: ProducerOptions, sequence_ids: SequenceIds) -> Batcher | None:
    if not options.batching_enabled:
        return None
    count_max = options.batching_max_messages
    size_max = options.batching_max_allowed_size_in_bytes
    if options.batching_type == BatchingType.KeyBased:
        return KeyedBatches(sequence_ids, count_max=count_max, size_max=size_max)
    return DefaultBatch(sequence_ids, count_max=count_max, size_max=size_max)


def _must_wait(message: Outgoing) -> bool:
    """Whether its transaction may not have this topic yet, but will."""
    enlistment = message.enlistment
    return enlistment is not None and enlistment.awaited


def _wanted(senders: list[Sender | None]) -> bool:
    """Whether anybody wants to know."""
    for sender in senders:
        if sender is not None:
            return True
    return False


def _call(sender: Sender | None, error: Exception, problems: list[Exception]) -> None:
    if sender is None:
        return
    try:
        cast("Done", sender)(error, None)
    except Exception as problem:
        problems.append(problem)
