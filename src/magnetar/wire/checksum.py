"""CRC32C, which guards entries on the wire and records on the disk."""

import google_crc32c
from mypy_extensions import i64


def crc32c(data: bytes, start: i64 = 0) -> i64:
    """The checksum of `data`, continued from that of what came before it.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    value: int = google_crc32c.extend(start, data)
    return value
