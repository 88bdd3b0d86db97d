"""The name of one message.

A plain id names an entry, an id with a batch index one message inside an entry, and a
chunk id a message that was split over several entries. Programs keep ids as bytes; those
are Pulsar's own (MessageIdData), written as the Java client writes them, so ids travel
between the clients of all languages. PIP-107 put the first chunk in field 7, which older
decoders skip.
"""

import binascii
from typing import ClassVar, Final

from magnetar.errors import InvalidMessageIdError, RemoteProtocolError
from magnetar.model.message_id_data import SHAPE, MessageIdData, decode_message_id_data
from magnetar.wire.integer import INT32_MAX, INT64_MAX
from magnetar.wire.reader import Reader
from magnetar.wire.writer import BytesWriter, put_bytes_field, put_int_field


class MessageId:
    """A message's place in its topic; immutable, ordered, usable as a key.

    Order is by ledger, entry, partition, batch index, as in Pulsar's Java client.

    >>> id = MessageId(ledger_id=12345, entry_id=4, batch_index=2, batch_size=10)
    >>> str(id), id.to_base64()
    ('(12345,4,-1,2)', 'CLlgEAQgAjAK')
    >>> MessageId.deserialize(id.serialize()) == id
    True
    """

    __slots__ = ("_batch_index", "_batch_size", "_entry_id", "_ledger_id", "_partition", "_topic")

    earliest: ClassVar["MessageId"]
    latest: ClassVar["MessageId"]

    def __init__(
        self,
        partition: int = -1,
        ledger_id: int = -1,
        entry_id: int = -1,
        batch_index: int = -1,
        *,
        batch_size: int = 0,
        topic: str | None = None,
    ) -> None:
        self._ledger_id: Final = _checked("ledger id", ledger_id, -1, INT64_MAX)
        self._entry_id: Final = _checked("entry id", entry_id, -1, INT64_MAX)
        self._partition: Final = _checked("partition", partition, -1, INT32_MAX)
        self._batch_index: Final = _checked("batch index", batch_index, -1, INT32_MAX)
        self._batch_size: Final = _checked("batch size", batch_size, 0, INT32_MAX)
        self._topic: Final = topic

    def ledger_id(self) -> int:
        """Returns the number of the ledger."""
        return self._ledger_id

    def entry_id(self) -> int:
        """Returns the number of the entry in its ledger."""
        return self._entry_id

    def partition(self) -> int:
        """Returns the partition, or -1 where the topic has none."""
        return self._partition

    def batch_index(self) -> int:
        """Returns the place in the batch, or -1 if the entry is one message."""
        return self._batch_index

    def batch_size(self) -> int:
        """Returns how many messages the batch has, or 0 if that is not known."""
        return self._batch_size

    def topic_name(self) -> str | None:
        """Returns the topic, if the id was told: an id's bytes do not name it."""
        return self._topic

    def serialize(self) -> bytes:
        """Returns the id as bytes that every Pulsar client reads."""
        out = BytesWriter()
        self._encode(out)
        return out.getvalue()

    def to_base64(self) -> str:
        """Returns the bytes of `serialize` in base64, as tools and REST take them."""
        return binascii.b2a_base64(self.serialize(), newline=False).decode()

    @staticmethod
    def deserialize(message_id_bytes: bytes, topic: str | None = None) -> "MessageId":
        """Returns the id that some client serialized. Raises InvalidMessageIdError.

        A consumer of several topics needs `topic` to tell whose message is meant.
        """
        try:
            data = decode_message_id_data(Reader(message_id_bytes, 0, len(message_id_bytes), SHAPE))
        except RemoteProtocolError as error:
            raise InvalidMessageIdError(str(error)) from None
        return message_id_of(data, topic)

    @staticmethod
    def from_base64(text: str, topic: str | None = None) -> "MessageId":
        """Returns the id that `to_base64` wrote. Raises InvalidMessageIdError."""
        try:
            raw = binascii.a2b_base64(text, strict_mode=True)
        except ValueError as error:
            raise InvalidMessageIdError(f"{text!r} is not base64 ({error})") from None
        return MessageId.deserialize(raw, topic)

    def _encode(self, out: BytesWriter) -> None:
        # Java writes the batch size of a plain id too, as 0.
        put_int_field(out, 0x08, self._ledger_id)
        put_int_field(out, 0x10, self._entry_id)
        if self._partition != -1:
            put_int_field(out, 0x18, self._partition)
        if self._batch_index != -1:
            put_int_field(out, 0x20, self._batch_index)
        put_int_field(out, 0x30, self._batch_size)

    def _key(self) -> tuple[int, int, int, int]:
        return (self._ledger_id, self._entry_id, self._partition, self._batch_index)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return self._key() < other._key()

    def __le__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return self._key() <= other._key()

    def __gt__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return self._key() > other._key()

    def __ge__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return self._key() >= other._key()

    def __str__(self) -> str:
        return f"({self._ledger_id},{self._entry_id},{self._partition},{self._batch_index})"

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuilt, (*self._key(), self._batch_size, self._topic))


class ChunkMessageId(MessageId):
    """The name of a message that was split: its first chunk and its last.

    It counts as the id of its last chunk: equal to it, ordered and hashed like it.
    """

    __slots__ = ("_first",)

    def __init__(self, first: MessageId, last: MessageId) -> None:
        if isinstance(first, ChunkMessageId) or isinstance(last, ChunkMessageId):
            raise InvalidMessageIdError("a chunk that has chunks itself")
        super().__init__(
            last.partition(),
            last.ledger_id(),
            last.entry_id(),
            last.batch_index(),
            batch_size=last.batch_size(),
            topic=last.topic_name(),
        )
        self._first: Final = first

    def first_chunk_message_id(self) -> MessageId:
        """Returns the id of the first chunk."""
        return self._first

    def last_chunk_message_id(self) -> MessageId:
        """Returns the id of the last chunk."""
        return _rebuilt(*self._key(), self._batch_size, self._topic)

    def _encode(self, out: BytesWriter) -> None:
        super()._encode(out)
        put_bytes_field(out, 0x3A, self._first.serialize())

    def __str__(self) -> str:
        return f"{self._first};{super().__str__()}"

    def __reduce__(self) -> tuple[object, ...]:
        return (ChunkMessageId, (self._first, self.last_chunk_message_id()))


def message_id_of(data: MessageIdData, topic: str | None = None) -> MessageId:
    """Returns the id that MessageIdData names.

    Raises InvalidMessageIdError, also for numbers that a peer sent: who calls this with
    bytes from the wire maps it to what the wire's errors are.
    """
    last = MessageId(
        data.partition,
        data.ledger_id,
        data.entry_id,
        data.batch_index,
        batch_size=data.batch_size,
        topic=topic,
    )
    if data.first_chunk is None:
        return last
    return ChunkMessageId(message_id_of(data.first_chunk, topic), last)


def _rebuilt(
    ledger_id: int,
    entry_id: int,
    partition: int,
    batch_index: int,
    batch_size: int,
    topic: str | None,
) -> MessageId:
    return MessageId(
        partition, ledger_id, entry_id, batch_index, batch_size=batch_size, topic=topic
    )


def _checked(name: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise InvalidMessageIdError(f"{name} {value} is not between {least} and {most}")
    return value


MessageId.earliest = MessageId(ledger_id=-1, entry_id=-1)
MessageId.latest = MessageId(ledger_id=INT64_MAX, entry_id=INT64_MAX)
