"""A record: the unit of the log, 40 bytes of head and a body.

Every record has the same head, whatever it says, so that a scan needs one decoder and
the heads alone (see heads.py) tell all that recovery must know about an entry:

    0   u32  crc32c of bytes 8 to the end of the body, begun from the store's salt plus
             the length of the body
    4   u32  length of the body
    8   u32  kind
    12  u32  batch size, or the number of the slice
    16  i64  id: the ledger, topic or cursor that the record is about
    24  i64  sub-id: the entry id, the cursor's epoch, or the topic that owns the object
    32  i64  time in ms: publish time, or time of creation

All numbers are little-endian. An *address* is a place in the log as one number: the
segment's id times 2**32 plus the offset in the segment.
"""

import struct
from typing import Final, final

from mypy_extensions import i64

from magnetar.storage.log.record_kind import LOST_ENTRY, kind_name
from magnetar.wire.checksum import crc32c
from magnetar.wire.writer import BytesWriter, put_i64_le

__all__ = [
    "HEAD_BYTES",
    "Record",
    "address_of",
    "crc_bytes",
    "is_lost",
    "offset_of",
    "segment_of",
]

HEAD: Final = struct.Struct("<IIIIqqq")
HEAD_FRONT: Final = struct.Struct("<II")
CRC: Final = struct.Struct("<I")
KIND: Final = struct.Struct("<I")
HEAD_BYTES: Final = 40
HEAD_FRONT_BYTES: Final = 8
CRC_MASK: Final = 0xFFFFFFFF

SEGMENT_SHIFT: Final = 32
OFFSET_MASK: Final = 0xFFFFFFFF


@final
class Record:
    """One record, with its body where that is at hand, and its address once it has one."""

    __slots__ = ("address", "batch_size", "body", "id", "kind", "length", "sub_id", "time_ms")

    def __init__(
        self,
        kind: i64,
        id: i64,
        sub_id: i64 = 0,
        *,
        time_ms: i64 = 0,
        batch_size: i64 = 0,
        body: bytes = b"",
    ) -> None:
        self.kind: i64 = kind
        self.id: i64 = id
        self.sub_id: i64 = sub_id
        self.time_ms: i64 = time_ms
        self.batch_size: i64 = batch_size
        self.body: bytes = body
        self.length: i64 = len(body)
        self.address: i64 = -1

    def size(self) -> i64:
        return HEAD_BYTES + self.length

    def head(self, salt: int) -> bytes:
        # Words, not struct: this is done for every entry, and 130 ns cheaper when compiled.
        rest = BytesWriter()
        put_i64_le(rest, self.kind | (self.batch_size << 32))
        put_i64_le(rest, self.id)
        put_i64_le(rest, self.sub_id)
        put_i64_le(rest, self.time_ms)
        checked = rest.getvalue()
        crc = crc32c(self.body, crc32c(checked, (salt + self.length) & CRC_MASK))
        out = BytesWriter()
        put_i64_le(out, crc | (self.length << 32))
        out.write(checked)
        return out.getvalue()

    def __repr__(self) -> str:
        return f"<{kind_name(self.kind)} {self.id}:{self.sub_id} of {self.length} bytes>"


def decode_head(data: bytes, pos: i64) -> Record:
    """Returns the record whose head stands at `pos`, without its body and unchecked."""
    _, length, kind, batch_size, id, sub_id, time_ms = HEAD.unpack_from(data, pos)
    record = Record(kind, id, sub_id, time_ms=time_ms, batch_size=batch_size)
    record.length = length
    return record


def is_lost(data: bytes) -> bool:
    """Returns whether `data`, the whole of one record, says that its entry is lost."""
    kind: int = KIND.unpack_from(data, HEAD_FRONT_BYTES)[0]
    return kind == LOST_ENTRY


def record_intact(data: bytes, salt: int) -> bool:
    """Returns whether `data`, the whole of one record, has the checksum that it claims."""
    crc, length = HEAD_FRONT.unpack_from(data, 0)
    intact: bool = crc == crc32c(data[HEAD_FRONT_BYTES:], (salt + length) & CRC_MASK)
    return intact


def record_crc(checked: bytes, salt: int) -> i64:
    """Returns the checksum that belongs in front of `checked`, a record from its kind to its
    end."""
    length = len(checked) - HEAD_BYTES + HEAD_FRONT_BYTES
    return crc32c(checked, (salt + length) & CRC_MASK)


def crc_bytes(data: bytes, salt: int) -> bytes:
    """Returns the checksum of `data` as it is written to files."""
    return CRC.pack(crc32c(data, salt))


def address_of(segment_id: i64, offset: i64) -> i64:
    return (segment_id << SEGMENT_SHIFT) | offset


def segment_of(address: i64) -> i64:
    return address >> SEGMENT_SHIFT


def offset_of(address: i64) -> i64:
    return address & OFFSET_MASK
