"""Messages that wait to share an entry.

A batcher has nothing open, or has messages since `opened_ms`. It is full once it has the
messages or the bytes that it may have; the producer closes it then, or when its delay is
over, or when a message comes that does not fit.

| batcher      | closes into                                                              |
|--------------|--------------------------------------------------------------------------|
| DefaultBatch | one batch, of all messages as they came                                  |
| KeyedBatches | one batch for each key, in the order of their first messages             |

Sequence ids grow within a batch and from batch to batch, since a broker that removes
duplicates drops what does not. So `KeyedBatches`, which reorders, numbers its messages when
it closes. Pulsar's own clients number them as they come, and such a broker then drops
messages of theirs. A message whose own sequence id goes back does not belong in a batch.
All messages of an entry are of one transaction, or of none.
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.producer.outgoing import Outgoing, Sender
from magnetar.client.transaction.core import TransactionCore
from magnetar.protocol.payload.batch import BatchWriter
from magnetar.wire.ack_set import BATCH_SIZE_MAX

__all__ = ["Batch", "Batcher", "DefaultBatch", "KeyedBatches", "SequenceIds", "room_for"]

# The most that a message's frame and its numbers take in a batch: sizes, event time,
# sequence id, flags.
_NUMBERS_MAX: Final = 48
# The most that a property takes beside its texts.
_PROPERTY_MAX: Final = 16
# UTF-8 has at most so many bytes for a character.
_CHARACTER_MAX: Final = 4

# No message with a sequence id of the application's own stands last.
_NONE: Final = -1


@final
class SequenceIds:
    """The sequence ids of one producer; `last` is the highest that was used."""

    def __init__(self, last: i64) -> None:
        self.last: i64 = last

    def next_of(self, message: Outgoing) -> i64:
        """The message's own, or else the next."""
        if message.sequence_id is None:
            return self.last + 1
        return message.sequence_id

    def use(self, sequence_id: i64) -> None:
        self.last = max(self.last, sequence_id)


@final
class Batch:
    """A closed batch: what its entry is made of."""

    def __init__(
        self,
        payload: bytes,
        first: Outgoing,
        sequence_id: i64,
        highest_sequence_id: i64,
        senders: list[Sender | None],
        size: i64,
        taken_ms: i64,
    ) -> None:
        self.payload: Final[bytes] = payload
        self.first: Final[Outgoing] = first
        self.sequence_id: Final[i64] = sequence_id
        self.highest_sequence_id: Final[i64] = highest_sequence_id
        self.senders: Final[list[Sender | None]] = senders
        self.size: Final[i64] = size
        self.taken_ms: Final[i64] = taken_ms


class Batcher:
    """See the module. `count` and `size` are those of the messages that are open."""

    def __init__(self, sequence_ids: SequenceIds, *, count_max: i64, size_max: i64) -> None:
        self.sequence_ids: Final[SequenceIds] = sequence_ids
        self.count_max: Final[i64] = min(count_max, BATCH_SIZE_MAX)
        self.size_max: Final[i64] = size_max
        # What the payload of an entry may take, whatever the application allows.
        self.payload_size_max: i64 = 0
        self.count: i64 = 0
        self.size: i64 = 0
        self.opened_ms: i64 = 0
        # Of all messages that are open.
        self.transaction: TransactionCore | None = None

    @property
    def full(self) -> bool:
        return self.count >= self.count_max or self.size >= self.size_max

    @abstractmethod
    def fits(self, message: Outgoing) -> bool:
        """Whether the message can join what is open; with nothing open it always can."""

    @abstractmethod
    def add(self, message: Outgoing) -> None:
        """Adds a message that fits."""

    @abstractmethod
    def close(self) -> list[Batch]:
        """What was open, in the order in which it must be sent. Nothing is open now."""

    @abstractmethod
    def clear(self) -> list[Sender | None]:
        """Gives up what is open; who wanted to know of it."""


@final
class DefaultBatch(Batcher):
    """One batch of all messages."""

    def __init__(self, sequence_ids: SequenceIds, *, count_max: i64, size_max: i64) -> None:
        super().__init__(sequence_ids, count_max=count_max, size_max=size_max)
        self._writer: BatchWriter = BatchWriter()
        self._senders: list[Sender | None] = []
        self._first: Outgoing | None = None
        self._sequence_id: i64 = 0
        self._highest: i64 = 0

    def fits(self, message: Outgoing) -> bool:
        if self.count == 0:
            return True
        size: i64 = len(message.payload)
        if self.size + size > self.size_max or message.transaction is not self.transaction:
            return False
        size = size + _NUMBERS_MAX if message.plain else room_for(message)
        return self._writer.size + size <= self.payload_size_max

    def add(self, message: Outgoing) -> None:
        payload = message.payload
        if message.plain:
            sequence_id = self.sequence_ids.last + 1
            self.sequence_ids.last = sequence_id
            self._writer.add(payload, sequence_id)
        else:
            sequence_id = self.sequence_ids.next_of(message)
            self.sequence_ids.use(sequence_id)
            _write(self._writer, message, sequence_id)
        if self.count == 0:
            self._first = message
            self._sequence_id = sequence_id
            self.transaction = message.transaction
        self._highest = sequence_id
        self._senders.append(message.sender)
        self.count += 1
        self.size += len(payload)

    def close(self) -> list[Batch]:
        first = self._first
        if first is None:
            return []
        batch = Batch(
            self._writer.getvalue(),
            first,
            self._sequence_id,
            self._highest,
            self._senders,
            self.size,
            self.opened_ms,
        )
        self.clear()
        return [batch]

    def clear(self) -> list[Sender | None]:
        senders = self._senders
        self._writer = BatchWriter()
        self._senders = []
        self._first = None
        self.transaction = None
        self.count = 0
        self.size = 0
        return senders


@final
class KeyedBatches(Batcher):
    """One batch for each key; they fill, and are closed, together."""

    def __init__(self, sequence_ids: SequenceIds, *, count_max: i64, size_max: i64) -> None:
        super().__init__(sequence_ids, count_max=count_max, size_max=size_max)
        self._open: dict[bytes, list[Outgoing]] = {}
        self._room: i64 = 0
        # The last one's sequence id, as long as all that are open are of one key and have
        # sequence ids of the application's own: only then may another such message join.
        self._given: i64 = _NONE

    def fits(self, message: Outgoing) -> bool:
        if self.count == 0:
            return True
        size: i64 = len(message.payload)
        if self.size + size > self.size_max or message.transaction is not self.transaction:
            return False
        if message.sequence_id is not None and not self._follows(message, message.sequence_id):
            return False
        # Of one batch, but all of them are meant to be small.
        return self._room + room_for(message) <= self.payload_size_max

    def _follows(self, message: Outgoing, sequence_id: i64) -> bool:
        return self._given != _NONE and sequence_id > self._given and _key(message) in self._open

    def add(self, message: Outgoing) -> None:
        key = _key(message)
        if self.count == 0:
            self.transaction = message.transaction
        self._given = _NONE if message.sequence_id is None else message.sequence_id
        found = self._open.get(key)
        if found is None:
            self._open[key] = [message]
        else:
            found.append(message)
        self.count += 1
        self.size += len(message.payload)
        self._room += room_for(message)

    def close(self) -> list[Batch]:
        batches = [self._batch(messages) for messages in self._open.values()]
        self._forget()
        return batches

    def _batch(self, messages: list[Outgoing]) -> Batch:
        writer = BatchWriter()
        lowest: i64 = -1
        highest: i64 = -1
        size: i64 = 0
        senders: list[Sender | None] = []
        for message in messages:
            highest = self.sequence_ids.next_of(message)
            self.sequence_ids.use(highest)
            if lowest < 0:
                lowest = highest
            _write(writer, message, highest)
            size += len(message.payload)
            senders.append(message.sender)
        first = messages[0]
        return Batch(writer.getvalue(), first, lowest, highest, senders, size, self.opened_ms)

    def clear(self) -> list[Sender | None]:
        senders = [message.sender for messages in self._open.values() for message in messages]
        self._forget()
        return senders

    def _forget(self) -> None:
        self._open = {}
        self.transaction = None
        self.count = 0
        self.size = 0
        self._room = 0
        self._given = _NONE


def room_for(message: Outgoing) -> i64:
    """Returns at least what the message takes in a batch; its keys count twice, for the entry's."""
    room: i64 = len(message.payload) + _NUMBERS_MAX
    if message.plain:
        return room
    if message.properties is not None:
        for key, value in message.properties.items():
            room += _PROPERTY_MAX + _CHARACTER_MAX * (len(key) + len(value))
    if message.partition_key is not None:
        room += 2 * (_PROPERTY_MAX + _CHARACTER_MAX * len(message.partition_key))
    if message.ordering_key is not None:
        room += 2 * (_PROPERTY_MAX + len(message.ordering_key))
    return room


def _key(message: Outgoing) -> bytes:
    """What messages of one batch have in common, and what a subscription would sort by."""
    if message.ordering_key is not None:
        return b"o" + message.ordering_key
    if message.partition_key is not None:
        return b"k" + message.partition_key.encode()
    return b""


def _write(writer: BatchWriter, message: Outgoing, sequence_id: i64) -> None:
    writer.add(
        message.payload,
        sequence_id,
        message.property_list(),
        message.partition_key,
        message.event_timestamp,
        message.ordering_key,
        null_value=message.null_value,
    )
