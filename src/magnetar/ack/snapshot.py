"""A cursor's whole state as bytes, written in slices that never take long.

A cursor may have a million holes, and while its state is written the broker must go on.
So a snapshot freezes the state, which copies nothing: it takes the list of ledgers and
leaves each to be copied by whoever changes it first (see `acks.py`). The slices then come
one by one, whenever there is time, and all speak of the same moment. The alternative,
slices of the living state with a version to tell when they no longer match, would have to
start over under load, just when a snapshot is wanted.

    0x21, epoch, the mark-delete position, number of ledgers, then for each in order:
        gap of the ledger id, number of acked messages,
        length and bytes of the bitmap of acked entries (Roaring's portable format),
        number of records, gap of the entry id and the record of each

A slice may end anywhere; joined, they are the snapshot.
"""

from collections.abc import Generator, Iterator
from typing import Final

from mypy_extensions import i64
from pyroaring import BitMap

from magnetar.ack.acks import Acks
from magnetar.ack.cursor import Cursor
from magnetar.ack.encoding.codec import (
    ENTRY_ID_MAX,
    LEDGER_ID_MAX,
    SNAPSHOT,
    AckDecoder,
    put_gap,
    put_position,
    put_record,
)
from magnetar.ack.encoding.delta_codec import EPOCH_MAX
from magnetar.ack.ledger_acks import LedgerAcks, Tally
from magnetar.ack.ledgers import Ledgers
from magnetar.model.position import Position
from magnetar.wire.integer import INT64_MAX
from magnetar.wire.writer import BytesWriter, put_bytes, put_varint

# About a millisecond of work for the records of small batches, compiled. A slice is
# larger only by the bitmap that completes it, which takes 8 KiB for 65,536 entries.
SLICE_BYTES: Final = 32 * 1024
# So many records are decoded in one step, and how many times 50 us that takes.
STEP_RECORDS: Final = 200
STEP_COST: Final = 4


def snapshot_slices(cursor: Cursor, slice_bytes: i64 = SLICE_BYTES) -> Iterator[bytes]:
    """The state at the time of this call, in slices of about `slice_bytes`."""
    return _slices(cursor.mark_delete, cursor.epoch, cursor.freeze(), slice_bytes)


def encode_snapshot(cursor: Cursor) -> bytes:
    """The state in one piece."""
    return b"".join(list(snapshot_slices(cursor)))


def decode_snapshot(data: bytes, ledgers: Ledgers) -> Cursor:
    """The cursor that a snapshot was taken of. Raises CorruptAckError.

    `ledgers` must know every entry that was there when the snapshot was taken, except
    what was trimmed since.
    """
    steps = decode_snapshot_steps(data, ledgers)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            cursor: Cursor = end.value
            return cursor


def decode_snapshot_steps(data: bytes, ledgers: Ledgers) -> Generator[int, None, Cursor]:
    """The same in steps, each of which yields about how many times 50 us it took."""
    decoder = AckDecoder(data)
    kind = decoder.kind()
    if kind != SNAPSHOT:
        decoder.fail(f"no snapshot is of kind {kind}")
    epoch = decoder.number(EPOCH_MAX)
    mark_delete = decoder.position()
    acks = Acks(ledgers.sizes)
    ledger_id: i64 = -1
    for _ in range(decoder.number(LEDGER_ID_MAX)):
        ledger_id = decoder.gap(ledger_id, LEDGER_ID_MAX)
        acks.put(ledger_id, (yield from _ledger(decoder, acks.tally)))
    decoder.finish()
    return Cursor(ledgers, mark_delete, epoch, acks)


def _slices(
    mark_delete: Position, epoch: int, frozen: list[tuple[int, LedgerAcks]], slice_bytes: i64
) -> Iterator[bytes]:
    out = BytesWriter()
    put_varint(out, SNAPSHOT)
    put_varint(out, epoch)
    put_position(out, mark_delete)
    put_varint(out, len(frozen))
    previous_ledger = -1
    for ledger_id, acks in frozen:
        put_gap(out, previous_ledger, ledger_id)
        previous_ledger = ledger_id
        put_varint(out, acks.messages)
        put_bytes(out, acks.entries.serialize())
        put_varint(out, len(acks.partial))
        previous_entry = -1
        for entry_id in acks.partial:
            put_gap(out, previous_entry, entry_id)
            put_record(out, acks.records[entry_id])
            previous_entry = entry_id
            if len(out) >= slice_bytes:
                yield out.getvalue()
                out = BytesWriter()
        if len(out) >= slice_bytes:
            yield out.getvalue()
            out = BytesWriter()
    yield out.getvalue()


def _ledger(decoder: AckDecoder, tally: Tally) -> Generator[int, None, LedgerAcks]:
    acks = LedgerAcks(0, tally)
    acks.messages = decoder.signed()
    acks.entries = _bitmap(decoder)
    entry_id: i64 = -1
    for number in range(decoder.number(ENTRY_ID_MAX)):
        if number % STEP_RECORDS == STEP_RECORDS - 1:
            yield STEP_COST
        entry_id = decoder.gap(entry_id, ENTRY_ID_MAX)
        acks.put_record(entry_id, decoder.record())
    yield 1
    if not acks.entries.isdisjoint(acks.partial):
        decoder.fail("an acked entry that is partly acked too")
    if acks.is_empty():
        decoder.fail("a ledger without acks")
    return acks


def _bitmap(decoder: AckDecoder) -> BitMap:
    data = decoder.raw(decoder.number(INT64_MAX))
    try:
        bitmap = BitMap.deserialize(data)
    except (ValueError, IndexError) as error:
        decoder.fail(f"no bitmap: {error}")
    if bitmap.serialize() != data:
        decoder.fail("a bitmap with more bytes than were written")
    if bitmap and bitmap.max() > ENTRY_ID_MAX:
        decoder.fail(f"entry {bitmap.max()}")
    return bitmap
