"""Deltas as bytes.

ack delta    0x11, epoch, has mark-delete (0 or 1), the mark-delete position if so,
             number of ledgers, then for each ledger in order:
                 gap of the ledger id,
                 number of entries, gap of each entry id,
                 number of records, gap of the entry id and the record of each
reset delta  0x12, epoch, the mark-delete position,
             has record (0 or 1), the position and the record if so
"""

from typing import Final

from mypy_extensions import i64

from magnetar.ack.codec import (
    ACK_DELTA,
    ENTRY_ID_MAX,
    LEDGER_ID_MAX,
    RESET_DELTA,
    AckDecoder,
    put_gap,
    put_position,
    put_record,
)
from magnetar.ack.delta import (
    ENTRY_BITS,
    ENTRY_MASK,
    AckDelta,
    Delta,
    ResetDelta,
    key_position,
    position_key,
)
from magnetar.model.position import Position
from magnetar.wire.writer import BytesWriter, put_varint

EPOCH_MAX: Final = 1 << 62


def encode_delta(delta: Delta) -> bytes:
    """The bytes of a delta, for the journal."""
    out = BytesWriter()
    if isinstance(delta, ResetDelta):
        _put_reset(out, delta)
    else:
        _put_ack(out, delta)
    return out.getvalue()


def decode_delta(data: bytes) -> Delta:
    """The delta that `encode_delta` wrote. Raises CorruptAckError."""
    decoder = AckDecoder(data)
    kind = decoder.kind()
    delta: Delta
    if kind == ACK_DELTA:
        delta = _ack_delta(decoder)
    elif kind == RESET_DELTA:
        delta = _reset_delta(decoder)
    else:
        decoder.fail(f"no delta is of kind {kind}")
    decoder.finish()
    return delta


def _put_reset(out: BytesWriter, delta: ResetDelta) -> None:
    put_varint(out, RESET_DELTA)
    put_varint(out, delta.epoch)
    put_position(out, delta.mark_delete)
    put_varint(out, 1 if delta.record else 0)
    if delta.record:
        put_position(out, key_position(delta.entry))
        put_record(out, delta.record)


def _reset_delta(decoder: AckDecoder) -> ResetDelta:
    epoch = decoder.number(EPOCH_MAX)
    mark_delete = decoder.position()
    if decoder.number(1) == 0:
        return ResetDelta(epoch, mark_delete)
    entry = decoder.position()
    if entry.ledger_id < 0 or entry.entry_id < 0:
        decoder.fail(f"a record for {entry}")
    key = position_key(entry.ledger_id, entry.entry_id)
    return ResetDelta(epoch, mark_delete, key, decoder.record())


def _put_ack(out: BytesWriter, delta: AckDelta) -> None:
    put_varint(out, ACK_DELTA)
    put_varint(out, delta.epoch)
    put_varint(out, 0 if delta.mark_delete is None else 1)
    if delta.mark_delete is not None:
        put_position(out, delta.mark_delete)
    ledger_ids = _ledger_ids(delta)
    put_varint(out, len(ledger_ids))
    previous: i64 = -1
    entry = record = 0
    for ledger_id in ledger_ids:
        put_gap(out, previous, ledger_id)
        previous = ledger_id
        beyond = (ledger_id + 1) << ENTRY_BITS
        entry = _put_entries(out, delta.entries, entry, beyond)
        record = _put_records(out, delta.records, record, beyond)


def _ledger_ids(delta: AckDelta) -> list[int]:
    """The ledgers that a delta speaks of, in order."""
    found: list[int] = []
    last = -1
    for key in delta.entries:
        if key >> ENTRY_BITS != last:
            last = key >> ENTRY_BITS
            found.append(last)
    if not delta.records:
        return found
    return sorted({*found, *(key >> ENTRY_BITS for key, _ in delta.records)})


def _put_entries(out: BytesWriter, keys: tuple[int, ...], first: int, beyond: int) -> int:
    """Writes the entries from `first` on whose keys are below `beyond`; returns where they end."""
    end = first
    while end < len(keys) and keys[end] < beyond:
        end += 1
    put_varint(out, end - first)
    previous: i64 = -1
    for i in range(first, end):
        entry_id = keys[i] & ENTRY_MASK
        put_gap(out, previous, entry_id)
        previous = entry_id
    return end


def _put_records(
    out: BytesWriter, records: tuple[tuple[int, int], ...], first: int, beyond: int
) -> int:
    end = first
    while end < len(records) and records[end][0] < beyond:
        end += 1
    put_varint(out, end - first)
    previous: i64 = -1
    for i in range(first, end):
        key, record = records[i]
        put_gap(out, previous, key & ENTRY_MASK)
        put_record(out, record)
        previous = key & ENTRY_MASK
    return end


def _ack_delta(decoder: AckDecoder) -> AckDelta:
    epoch = decoder.number(EPOCH_MAX)
    mark_delete: Position | None = None
    if decoder.number(1) == 1:
        mark_delete = decoder.position()
    entries: list[int] = []
    records: list[tuple[int, int]] = []
    ledger_id: i64 = -1
    for _ in range(decoder.number(LEDGER_ID_MAX)):
        ledger_id = decoder.gap(ledger_id, LEDGER_ID_MAX)
        entry_id: i64 = -1
        for _ in range(decoder.number(ENTRY_ID_MAX)):
            entry_id = decoder.gap(entry_id, ENTRY_ID_MAX)
            entries.append(position_key(ledger_id, entry_id))
        entry_id = -1
        for _ in range(decoder.number(ENTRY_ID_MAX)):
            entry_id = decoder.gap(entry_id, ENTRY_ID_MAX)
            records.append((position_key(ledger_id, entry_id), decoder.record()))
    return AckDelta(epoch, mark_delete, tuple(entries), tuple(records))
