"""The hash by which client and broker tell whether a list of topics has changed."""

from magnetar.wire.checksum import crc32c


def topics_hash(topics: list[str]) -> str:
    """CRC32C of the sorted names joined by commas, as hex of its little-endian bytes."""
    checksum: int = crc32c(",".join(sorted(topics)).encode())
    return checksum.to_bytes(4, "little").hex()
