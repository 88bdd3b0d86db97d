"""CRC32C, which guards entries on the wire and records on the disk."""

from typing import Final

import google_crc32c
from mypy_extensions import i64

# A part of something large is looked at in pieces, for slices are copies, and these stay in
# the processor's cache.
_PIECE: Final = 1 << 17


def crc32c(data: bytes, start: i64 = 0) -> i64:
    """Returns the checksum of `data`, continued from that of what came before it.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    value: int = google_crc32c.extend(start, data)
    return value


def crc32c_part(data: bytes, first: i64, end: i64, start: i64 = 0) -> i64:
    """Returns what `crc32c` does, of `data[first:end]`, without another copy of it.

    >>> hex(crc32c_part(b"..123456789", 2, 11))
    '0xe3069283'
    """
    if end - first <= _PIECE:
        return crc32c(data[first:end], start)
    value = start
    while first < end:
        piece_end: i64 = min(first + _PIECE, end)
        value = crc32c(data[first:piece_end], value)
        first = piece_end
    return value
