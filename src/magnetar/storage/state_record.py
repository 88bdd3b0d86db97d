"""Records of what there is, with their bodies: topics, ledgers, cursors, segments, the catalog.

Each function makes a record, or reads what one of its kind says; the fold is in `state.py`.
"""

import struct
from array import array
from typing import Final

from pyroaring import BitMap

from magnetar.storage.catalog.catalog_mark import CatalogMark
from magnetar.storage.log.record import Record
from magnetar.storage.log.record_kind import (
    ABORTED_ENTRIES,
    CATALOG,
    CURSOR,
    LEDGER,
    SEGMENTS,
    TOPIC,
    VIEW,
)
from magnetar.wire.runs import runs_of

__all__ = [
    "CATALOG_ID",
    "LEDGER_BODY",
    "aborted_record",
    "catalog_record",
    "cursor_record",
    "decode_aborted",
    "decode_cursor_body",
    "decode_segments",
    "ledger_record",
    "segments_record",
    "topic_record",
]

LEDGER_BODY: Final = struct.Struct("<Bqqq")
NAME_SIZE: Final = struct.Struct("<I")
# There is one catalog, and no object has this id.
CATALOG_ID: Final = 0


def topic_record(topic_id: int, name: str) -> Record:
    return Record(TOPIC, topic_id, body=name.encode())


def ledger_record(
    ledger_id: int,
    topic_id: int,
    created_ms: int,
    *,
    sealed: bool = False,
    entries: int = 0,
    size_bytes: int = 0,
    sealed_ms: int = 0,
    view: bytes | None = None,
) -> Record:
    """`view` is what compaction says of its ledger; None of those that are the topic's own."""
    body = LEDGER_BODY.pack(sealed, entries, size_bytes, sealed_ms)
    kind = LEDGER if view is None else VIEW
    return Record(kind, ledger_id, topic_id, time_ms=created_ms, body=body + (view or b""))


def cursor_record(cursor_id: int, topic_id: int, name: str, properties: bytes) -> Record:
    encoded = name.encode()
    body = NAME_SIZE.pack(len(encoded)) + encoded + properties
    return Record(CURSOR, cursor_id, topic_id, body=body)


def decode_cursor_body(body: bytes) -> tuple[str, bytes]:
    size: int = NAME_SIZE.unpack_from(body, 0)[0]
    return body[4 : 4 + size].decode(), body[4 + size :]


def catalog_record(mark: CatalogMark) -> Record:
    return Record(CATALOG, CATALOG_ID, mark.generation, body=mark.encode())


def aborted_record(ledger_id: int, entries: BitMap) -> Record:
    """The body is pairs of 64 bits: the first entry of each run, and how many there are."""
    flat: array[int] = array("q")
    for first, count in runs_of(list(entries)):
        flat.append(first)
        flat.append(count)
    return Record(ABORTED_ENTRIES, ledger_id, body=flat.tobytes())


def decode_aborted(body: bytes) -> BitMap:
    flat: array[int] = array("q")
    flat.frombytes(body)
    entries = BitMap()
    for i in range(0, len(flat), 2):
        entries.add_range(flat[i], flat[i] + flat[i + 1])
    return entries


def segments_record(segment_ids: list[int], over_before: int = 0) -> Record:
    """`over_before`: transactions with lower numbers have ended, wherever that was said."""
    return Record(SEGMENTS, 0, over_before, body=array("q", segment_ids).tobytes())


def decode_segments(body: bytes) -> list[int]:
    ids: array[int] = array("q")
    ids.frombytes(body)
    return ids.tolist()
