"""A segment: one file of the log, a header and then groups of records.

Segment header, 64 bytes:

    0   8s   "MGNRSEG\\n"
    8   u32  crc32c of the other 60 bytes, begun from the store's salt
    12  u32  version of the data format
    16  u64  id of this segment
    24  u64  address where the log before this segment ends; 0 for the first
    32  u64  address up to which the log was durable when this was written
    40  u64  time of creation in ms
    48  u64  length of the file when it was made; 0 if an older version made it
    56       zero bytes

Group header, 40 bytes, then the group's records back to back:

    0   4s   "MGRP"
    4   u32  crc32c of the other 36 bytes, begun from the store's salt
    8   u32  length of the records in bytes
    12  u32  number of records
    16  u64  address of this header
    24  u64  address up to which the log was durable when this was written
    32  u64  sequence number of the group, for people

The header names its own address, so that a group can be told from a copy of one inside
a message; the salt differs from store to store for the same reason.
"""

import struct
from typing import Final, final

from mypy_extensions import i64

from magnetar.storage.log.record import crc_bytes
from magnetar.wire.checksum import crc32c

__all__ = [
    "FORMAT_VERSION",
    "GROUP_HEADER_BYTES",
    "GROUP_MAGIC",
    "SEGMENT_HEADER_BYTES",
    "GroupHeader",
    "SegmentHeader",
    "decode_group_header",
    "decode_segment_header",
    "heads_path",
    "segment_id_of",
    "segment_path",
]

FORMAT_VERSION: Final = 1

SEGMENT_MAGIC: Final = b"MGNRSEG\n"
SEGMENT_HEADER: Final = struct.Struct("<8sIIQQQQQ8x")
SEGMENT_HEADER_TAIL: Final = struct.Struct("<IQQQQQ8x")
SEGMENT_HEADER_BYTES: Final = 64

GROUP_MAGIC: Final = b"MGRP"
GROUP_HEADER: Final = struct.Struct("<4sIIIQQQ")
GROUP_HEADER_TAIL: Final = struct.Struct("<IIQQQ")
GROUP_HEADER_BYTES: Final = 40

FOLDER: Final = "journal"
SEGMENT_SUFFIX: Final = ".log"
HEADS_SUFFIX: Final = ".heads"


@final
class SegmentHeader:
    """What a segment says of itself and of the log before it."""

    __slots__ = ("created_ms", "id", "made_bytes", "previous_end", "synced", "version")

    def __init__(
        self,
        id: i64,
        previous_end: i64,
        synced: i64,
        created_ms: i64,
        version: i64,
        made_bytes: i64 = 0,
    ) -> None:
        self.id: Final[i64] = id
        self.previous_end: Final[i64] = previous_end
        self.synced: Final[i64] = synced
        self.created_ms: Final[i64] = created_ms
        self.version: Final[i64] = version
        self.made_bytes: Final[i64] = made_bytes

    def encode(self, salt: int) -> bytes:
        tail = SEGMENT_HEADER_TAIL.pack(
            self.version,
            self.id,
            self.previous_end,
            self.synced,
            self.created_ms,
            self.made_bytes,
        )
        return SEGMENT_MAGIC + crc_bytes(SEGMENT_MAGIC + tail, salt) + tail


def decode_segment_header(data: bytes, salt: int) -> SegmentHeader | None:
    """Returns the header, or None if these bytes are not a whole one."""
    if len(data) < SEGMENT_HEADER_BYTES or data[:8] != SEGMENT_MAGIC:
        return None
    crc, version, id, previous_end, synced, created_ms, made_bytes = SEGMENT_HEADER.unpack_from(
        data, 0
    )[1:]
    if crc != crc32c(SEGMENT_MAGIC + data[12:SEGMENT_HEADER_BYTES], salt):
        return None
    if max(id, previous_end, synced, created_ms, made_bytes) > 0x7FFFFFFFFFFFFFFF:
        return None
    return SegmentHeader(id, previous_end, synced, created_ms, version, made_bytes)


@final
class GroupHeader:
    """How many records follow, where this stands, and what was durable by then."""

    __slots__ = ("address", "count", "length", "sequence", "synced")

    def __init__(self, address: i64, length: i64, count: i64, synced: i64, sequence: i64) -> None:
        self.address: Final[i64] = address
        self.length: Final[i64] = length
        self.count: Final[i64] = count
        self.synced: Final[i64] = synced
        self.sequence: Final[i64] = sequence

    def encode(self, salt: int) -> bytes:
        tail = GROUP_HEADER_TAIL.pack(
            self.length, self.count, self.address, self.synced, self.sequence
        )
        return GROUP_MAGIC + crc_bytes(GROUP_MAGIC + tail, salt) + tail


def decode_group_header(data: bytes, pos: i64, salt: int) -> GroupHeader | None:
    """Returns the header at `pos`, or None if there is no whole one."""
    end = pos + GROUP_HEADER_BYTES
    if end > len(data) or data[pos : pos + 4] != GROUP_MAGIC:
        return None
    crc, length, count, address, synced, sequence = GROUP_HEADER.unpack_from(data, pos)[1:]
    if crc != crc32c(GROUP_MAGIC + data[pos + 8 : end], salt):
        return None
    # A checksum that fits by chance may announce numbers that i64 cannot hold.
    if max(address, synced, sequence) > 0x7FFFFFFFFFFFFFFF:
        return None
    return GroupHeader(address, length, count, synced, sequence)


def segment_path(segment_id: int) -> str:
    return f"{FOLDER}/{segment_id:08x}{SEGMENT_SUFFIX}"


def heads_path(segment_id: int) -> str:
    return f"{FOLDER}/{segment_id:08x}{HEADS_SUFFIX}"


def segment_id_of(name: str) -> int:
    """Returns the id in the name of a segment's file, or -1 if it is no such name."""
    stem, dot, suffix = name.partition(".")
    if dot + suffix != SEGMENT_SUFFIX or len(stem) != 8:
        return -1
    try:
        return int(stem, 16)
    except ValueError:
        return -1
