"""The heads file of a closed segment: the log without the bodies of its records.

Recovery needs to know which entries a segment holds, not what they say. A closed segment
therefore gets a file beside it with its header, its group headers and its records' heads;
of 64 MiB of 1 KiB entries 2.6 MB remain. It is derived: without it, or if it is damaged,
the segment itself is scanned.

    0   8s   "MGNRHDS\\n"
    8   u32  crc32c of everything from byte 12, begun from the store's salt
    12  u32  version of the data format
    16  u64  length of the segment
    24       the bytes of the segment without the bodies
"""

import struct
from typing import Final

from magnetar.storage.log.record import crc_bytes
from magnetar.storage.log.scan import Scan
from magnetar.storage.log.segment import FORMAT_VERSION
from magnetar.wire.checksum import crc32c

__all__ = ["decode_heads", "encode_heads", "heads_length"]

MAGIC: Final = b"MGNRHDS\n"
HEADER: Final = struct.Struct("<8sIIQ")
HEADER_TAIL: Final = struct.Struct("<IQ")


def encode_heads(heads: bytes, segment_length: int, salt: int) -> bytes:
    rest = HEADER_TAIL.pack(FORMAT_VERSION, segment_length) + heads
    return MAGIC + crc_bytes(rest, salt) + rest


def heads_length(data: bytes, salt: int) -> int:
    """Returns the length of the segment that these heads are of, or -1 unless they are whole."""
    if len(data) < HEADER.size or data[:8] != MAGIC:
        return -1
    crc, version, length = HEADER.unpack_from(data, 0)[1:]
    if version != FORMAT_VERSION or crc != crc32c(data[12:], salt):
        return -1
    whole: int = length
    return whole


def decode_heads(data: bytes, segment_id: int, salt: int) -> Scan:
    """Returns a scan of heads that `heads_length` found whole."""
    return Scan(data[HEADER.size :], segment_id, salt, heads=True)
