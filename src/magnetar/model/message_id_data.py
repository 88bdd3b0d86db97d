"""A message id as Pulsar writes it: the protobuf message MessageIdData and its codec.

It is what travels in commands, where it may also carry an `ack_set`, and what the bytes
of a stored `MessageId` are. Sizes and numbers are taken as the peer gives them; whether
they name a message is for the rooms above to decide.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.wire.ack_set import AckSetReader, put_ack_set_field
from magnetar.wire.reader import Reader, Shape
from magnetar.wire.writer import BytesWriter, put_bytes_field, put_int_field

SHAPE: Final = Shape(
    "MessageIdData",
    {
        1: "ledgerId",
        2: "entryId",
        3: "partition",
        4: "batch_index",
        5: "ack_set",
        6: "batch_size",
        7: "first_chunk_message_id",
    },
)

# The first chunk of a chunk message id is a plain id, so one level is all there is. A
# peer that nests deeper would have us recurse as deep as it likes.
CHUNK_NESTING_MAX: Final = 1


@final
class MessageIdData:
    """The fields of MessageIdData; `ack_set` is a bitset, None when absent.

    Batch size 0 means unknown. Bit i of `ack_set` is set while index i is unacked.
    """

    __slots__ = (
        "ack_set",
        "batch_index",
        "batch_size",
        "entry_id",
        "first_chunk",
        "ledger_id",
        "partition",
    )

    def __init__(
        self,
        ledger_id: i64,
        entry_id: i64,
        partition: i64 = -1,
        batch_index: i64 = -1,
        ack_set: int | None = None,
        batch_size: i64 = 0,
        first_chunk: "MessageIdData | None" = None,
    ) -> None:
        self.ledger_id: Final[i64] = ledger_id
        self.entry_id: Final[i64] = entry_id
        self.partition: Final[i64] = partition
        self.batch_index: Final[i64] = batch_index
        self.ack_set: Final = ack_set
        self.batch_size: Final[i64] = batch_size
        self.first_chunk: Final = first_chunk

    def _key(self) -> tuple[int, int, int, int, int | None, int, "MessageIdData | None"]:
        return (
            self.ledger_id,
            self.entry_id,
            self.partition,
            self.batch_index,
            self.ack_set,
            self.batch_size,
            self.first_chunk,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageIdData):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        # In hex: Python refuses to print long ints in decimal, and a peer chooses the length.
        ack_set = None if self.ack_set is None else hex(self.ack_set)
        return (
            f"MessageIdData({self.ledger_id}, {self.entry_id}, {self.partition}, "
            f"{self.batch_index}, {ack_set}, {self.batch_size}, {self.first_chunk!r})"
        )

    def __reduce__(self) -> tuple[type["MessageIdData"], tuple[object, ...]]:
        return (MessageIdData, self._key())


@final
class _LedgerField:
    """The field of a ledger's id, as it is written."""

    def __init__(self, ledger_id: i64) -> None:
        out = BytesWriter()
        put_int_field(out, 0x08, ledger_id)
        self.ledger_id: Final[i64] = ledger_id
        self.data: Final = out.getvalue()


@final
class _LastLedger:
    """The ledger of which an id was written last: most that follow are of the same, and its id
    is the longest of the fields."""

    def __init__(self) -> None:
        # One object, so that threads never see half of a change.
        self.field: _LedgerField = _LedgerField(0)


_LAST: Final = _LastLedger()


def encode_message_id_data(out: BytesWriter, value: MessageIdData) -> None:
    """Appends the fields that differ from their defaults."""
    field = _LAST.field
    if field.ledger_id != value.ledger_id:
        field = _LedgerField(value.ledger_id)
        _LAST.field = field
    out.write(field.data)
    put_int_field(out, 0x10, value.entry_id)
    if value.partition != -1:
        put_int_field(out, 0x18, value.partition)
    if value.batch_index != -1:
        put_int_field(out, 0x20, value.batch_index)
    if value.ack_set is not None:
        put_ack_set_field(out, 0x28, value.ack_set)
    if value.batch_size != 0:
        put_int_field(out, 0x30, value.batch_size)
    if value.first_chunk is not None:
        put_message_id_field(out, 0x3A, value.first_chunk)


def put_message_id_field(out: BytesWriter, tag: i64, value: MessageIdData) -> None:
    inner = BytesWriter()
    encode_message_id_data(inner, value)
    put_bytes_field(out, tag, inner.getvalue())


def decode_message_id_data(reader: Reader, nesting_max: i64 = CHUNK_NESTING_MAX) -> MessageIdData:
    """Reads to the reader's end. Raises RemoteProtocolError."""
    ledger_id: i64 = 0
    entry_id: i64 = 0
    partition: i64 = -1
    batch_index: i64 = -1
    ack_set: AckSetReader | None = None
    batch_size: i64 = 0
    first_chunk: MessageIdData | None = None
    present: i64 = 0
    while (tag := reader.tag()) != 0:
        if tag == 0x08:
            ledger_id = reader.varint()
            present |= 2
        elif tag == 0x10:
            entry_id = reader.varint()
            present |= 4
        elif tag == 0x18:
            partition = reader.int32()
        elif tag == 0x20:
            batch_index = reader.int32()
        elif tag == 0x28:
            ack_set = ack_set or AckSetReader()
            ack_set.take(reader)
        elif tag == 0x2A:
            ack_set = ack_set or AckSetReader()
            ack_set.take_packed(reader)
        elif tag == 0x30:
            batch_size = reader.int32()
        elif tag == 0x3A:
            if nesting_max == 0:
                reader.fail("a first chunk that has chunks itself")
            if first_chunk is not None:
                reader.fail("given twice")
            first_chunk = decode_message_id_data(reader.message(SHAPE), nesting_max - 1)
        else:
            reader.skip()
    if present != 6:
        reader.require(present, (1, 2))
    bits = None if ack_set is None else ack_set.bits()
    return MessageIdData(ledger_id, entry_id, partition, batch_index, bits, batch_size, first_chunk)
