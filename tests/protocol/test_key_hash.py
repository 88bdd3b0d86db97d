"""The hash of keys, on which brokers and clients of all languages must agree."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.protocol import auto_split_slot, consistent_slot, key_hash
from magnetar.protocol.key_hash import SLOTS, murmur3_32


def reference(key: bytes) -> int:
    """MurmurHash3 from its published description, block by block over big integers."""
    mask, h = 0xFFFFFFFF, 0
    for i in range(0, len(key), 4):
        k = int.from_bytes(key[i : i + 4], "little") * 0xCC9E2D51 & mask
        k = (k << 15 | k >> 17) * 0x1B873593 & mask
        h ^= k
        if len(key) - i >= 4:
            h = ((h << 13 | h >> 19) & mask) * 5 + 0xE6546B64 & mask
    h ^= len(key)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * factor & mask
    return h ^ h >> 16


@given(st.binary(max_size=40))
def test_murmur3_is_murmur3(key: bytes) -> None:
    assert murmur3_32(key) == reference(key)


def test_known_values() -> None:
    assert murmur3_32(b"") == 0
    assert murmur3_32(b"\xff\xff\xff\xff") == 0x76293B50


@given(st.binary(max_size=40))
def test_slots_stay_in_their_range(key: bytes) -> None:
    assert 0 <= key_hash(key) < 2**31
    assert 1 <= consistent_slot(key) < SLOTS
    assert 1 <= auto_split_slot(key) < SLOTS


def test_slot_zero_counts_as_one() -> None:
    zero = next(k for k in (b"%d" % i for i in range(1_000_000)) if key_hash(k) % SLOTS == 0)
    assert auto_split_slot(zero) == 1
