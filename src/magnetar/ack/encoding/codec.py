"""Numbers, positions and records as the bytes of deltas and snapshots.

Varints as protobuf writes them. Numbers that ascend are written as gaps, each the
difference to the one before, less one: what is consecutive takes a byte each, and what
does not ascend cannot be written at all. The first byte of everything is its kind and
version, so a format can be replaced by another number.

Decoding creates nothing that is not there in bytes, and has one complaint:
`CorruptAckError`.
"""

from typing import Final, NoReturn, final

from mypy_extensions import i64

from magnetar.ack.ledgers import ENTRY_COUNT_MAX
from magnetar.ack.record import (
    is_complete,
    is_untouched,
    make_record,
    record_size,
    remaining_indexes,
)
from magnetar.errors import CorruptAckError, RemoteProtocolError
from magnetar.model.position import Position
from magnetar.wire.ack_set import BATCH_SIZE_MAX
from magnetar.wire.integer import INT64_MAX
from magnetar.wire.reader import Reader, Shape
from magnetar.wire.writer import BytesWriter, put_varint

ACK_DELTA: Final = 0x11
RESET_DELTA: Final = 0x12
SNAPSHOT: Final = 0x21

LEDGER_ID_MAX: Final = INT64_MAX
ENTRY_ID_MAX: Final = ENTRY_COUNT_MAX - 1

_SHAPE: Final = Shape("ack state", {})


def put_position(out: BytesWriter, position: Position) -> None:
    """A position; its entry may be -1, and so may its ledger while a topic has none."""
    put_varint(out, position.ledger_id)
    put_varint(out, position.entry_id + 1)


def put_gap(out: BytesWriter, previous: i64, value: i64) -> None:
    assert value > previous
    put_varint(out, value - previous - 1)


def put_record(out: BytesWriter, record: int) -> None:
    """Writes the batch size, then the remaining indexes in as many bytes as that takes."""
    size = record_size(record)
    put_varint(out, size)
    out.write(remaining_indexes(record).to_bytes((size + 7) // 8, "little"))


@final
class AckDecoder:
    """Reads what the functions above wrote."""

    def __init__(self, data: bytes) -> None:
        self._reader: Final = Reader(data, 0, len(data), _SHAPE)

    def kind(self) -> i64:
        return self.number(0xFF)

    def number(self, largest: i64) -> i64:
        """Returns a number from 0 to `largest`."""
        value = self._varint()
        if not 0 <= value <= largest:
            self.fail(f"{value} where at most {largest} can be")
        return value

    def signed(self) -> i64:
        return self._varint()

    def gap(self, previous: i64, largest: i64) -> i64:
        """Returns a number greater than `previous` and at most `largest`."""
        return previous + 1 + self.number(largest - (previous + 1))

    def position(self) -> Position:
        ledger_id = self.signed()
        if ledger_id < -1:
            self.fail(f"ledger {ledger_id}")
        return Position(ledger_id, self.number(ENTRY_COUNT_MAX) - 1)

    def record(self) -> int:
        """Returns a record that acks something, and not everything."""
        size: int = self.number(BATCH_SIZE_MAX)
        remaining = int.from_bytes(self.raw((size + 7) // 8), "little")
        record = make_record(size, remaining)
        if remaining >> size or is_complete(record) or is_untouched(record):
            self.fail(f"bits that do not fit a partly acked batch of {size}")
        return record

    def raw(self, size: i64) -> bytes:
        reader = self._reader
        first = reader.pos
        if size > reader.end - first:
            self.fail(f"{size} bytes wanted, {reader.end - first} left")
        reader.pos = first + size
        return reader.data[first : first + size]

    def finish(self) -> None:
        if self._reader.more():
            self.fail("more bytes than were written")

    def fail(self, reason: str) -> NoReturn:
        raise CorruptAckError(self._reader.pos, reason)

    def _varint(self) -> i64:
        try:
            return self._reader.varint()
        except RemoteProtocolError as error:
            raise CorruptAckError(error.offset, error.reason) from None
