"""The hash of a key, and the slot of a Key_Shared subscription that it falls into.

Brokers and clients of all languages must agree on it: Murmur3 in its 32-bit form, seed
0, with the sign bit cleared.
"""

from typing import Final

from mypy_extensions import i64

_MASK: Final = 0xFFFFFFFF
_C1: Final = 0xCC9E2D51
_C2: Final = 0x1B873593

# The range of slots of a Key_Shared subscription.
SLOTS: Final = 65536


def murmur3_32(key: bytes) -> i64:
    """MurmurHash3 (x86, 32 bits, seed 0), unsigned."""
    size: i64 = len(key)
    whole: i64 = size & ~3
    h: i64 = 0
    pos: i64 = 0
    while pos < whole:
        h ^= _mixed(_little_endian(key, pos, 4))
        h = (_rotated(h, 13) * 5 + 0xE6546B64) & _MASK
        pos += 4
    if whole < size:
        h ^= _mixed(_little_endian(key, whole, size - whole))
    h ^= size
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _MASK
    return h ^ (h >> 16)


def key_hash(key: bytes) -> i64:
    """Returns the hash that routing and slots are computed from: Murmur3 without its sign."""
    return murmur3_32(key) & 0x7FFFFFFF


def consistent_slot(key: bytes) -> i64:
    """Returns the slot under consistent hashing: 1 to 65535."""
    return key_hash(key) % (SLOTS - 1) + 1


def auto_split_slot(key: bytes) -> i64:
    """Returns the slot where ranges are split in halves: 1 to 65535, for 0 counts as 1."""
    return max(1, key_hash(key) % SLOTS)


def _mixed(k: i64) -> i64:
    return (_rotated((k * _C1) & _MASK, 15) * _C2) & _MASK


def _rotated(value: i64, by: i64) -> i64:
    return ((value << by) | (value >> (32 - by))) & _MASK


def _little_endian(data: bytes, first: i64, size: i64) -> i64:
    value: i64 = 0
    for i in range(size):
        byte: i64 = data[first + i]
        value |= byte << (8 * i)
    return value
