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

from magnetar.ack.delta import AckDelta, Delta, LedgerDelta, ResetDelta
from magnetar.ack.encoding.codec import (
    ACK_DELTA,
    ENTRY_ID_MAX,
    LEDGER_ID_MAX,
    RESET_DELTA,
    AckDecoder,
    put_gap,
    put_position,
    put_record,
)
from magnetar.model.position import Position
from magnetar.wire.writer import BytesWriter, put_varint

EPOCH_MAX: Final = 1 << 62


def encode_delta(delta: Delta) -> bytes:
    """Returns the bytes of a delta, for the journal."""
    out = BytesWriter()
    if isinstance(delta, ResetDelta):
        _put_reset(out, delta)
    else:
        _put_ack(out, delta)
    return out.getvalue()


def decode_delta(data: bytes) -> Delta:
    """Returns the delta that `encode_delta` wrote. Raises CorruptAckError."""
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
    put_varint(out, 0 if delta.entry is None else 1)
    if delta.entry is not None:
        put_position(out, delta.entry)
        put_record(out, delta.record)


def _reset_delta(decoder: AckDecoder) -> ResetDelta:
    epoch = decoder.number(EPOCH_MAX)
    mark_delete = decoder.position()
    if decoder.number(1) == 0:
        return ResetDelta(epoch, mark_delete)
    entry = decoder.position()
    if entry.ledger_id < 0 or entry.entry_id < 0:
        decoder.fail(f"a record for {entry}")
    return ResetDelta(epoch, mark_delete, entry, decoder.record())


def _put_ack(out: BytesWriter, delta: AckDelta) -> None:
    put_varint(out, ACK_DELTA)
    put_varint(out, delta.epoch)
    put_varint(out, 0 if delta.mark_delete is None else 1)
    if delta.mark_delete is not None:
        put_position(out, delta.mark_delete)
    put_varint(out, len(delta.ledgers))
    previous: i64 = -1
    for ledger_id, entries, records in delta.ledgers:
        put_gap(out, previous, ledger_id)
        previous = ledger_id
        _put_entries(out, entries)
        _put_records(out, records)


def _put_entries(out: BytesWriter, entries: tuple[int, ...]) -> None:
    put_varint(out, len(entries))
    previous: i64 = -1
    for entry_id in entries:
        put_gap(out, previous, entry_id)
        previous = entry_id


def _put_records(out: BytesWriter, records: tuple[tuple[int, int], ...]) -> None:
    put_varint(out, len(records))
    previous: i64 = -1
    for entry_id, record in records:
        put_gap(out, previous, entry_id)
        put_record(out, record)
        previous = entry_id


def _ack_delta(decoder: AckDecoder) -> AckDelta:
    epoch = decoder.number(EPOCH_MAX)
    mark_delete: Position | None = None
    if decoder.number(1) == 1:
        mark_delete = decoder.position()
    ledgers: list[LedgerDelta] = []
    ledger_id: i64 = -1
    for _ in range(decoder.number(LEDGER_ID_MAX)):
        ledger_id = decoder.gap(ledger_id, LEDGER_ID_MAX)
        ledgers.append((ledger_id, _entries(decoder), _records(decoder)))
    return AckDelta(epoch, mark_delete, tuple(ledgers))


def _entries(decoder: AckDecoder) -> tuple[int, ...]:
    entries: list[int] = []
    entry_id: i64 = -1
    for _ in range(decoder.number(ENTRY_ID_MAX)):
        entry_id = decoder.gap(entry_id, ENTRY_ID_MAX)
        entries.append(entry_id)
    return tuple(entries)


def _records(decoder: AckDecoder) -> tuple[tuple[int, int], ...]:
    records: list[tuple[int, int]] = []
    entry_id: i64 = -1
    for _ in range(decoder.number(ENTRY_ID_MAX)):
        entry_id = decoder.gap(entry_id, ENTRY_ID_MAX)
        records.append((entry_id, decoder.record()))
    return tuple(records)
