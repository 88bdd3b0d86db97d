"""Bitsets of batch indexes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import RemoteProtocolError
from magnetar.wire.ack_set import (
    WORDS_MAX,
    AckSetReader,
    all_unacked,
    bits_to_words,
    put_ack_set_field,
    words_to_bits,
)
from magnetar.wire.reader import Reader, Shape
from magnetar.wire.writer import BytesWriter

BITS = st.integers(0, 2**200)


@given(BITS)
def test_words_read_back(bits: int) -> None:
    assert words_to_bits(bits_to_words(bits)) == bits


@given(BITS)
def test_words_are_signed_and_have_no_zeros_at_the_end(bits: int) -> None:
    words = bits_to_words(bits)
    assert all(-(2**63) <= word < 2**63 for word in words)
    assert not words or words[-1] != 0


@given(st.sets(st.integers(0, 300)))
def test_word_k_holds_bits_64k_to_64k_plus_63(indexes: set[int]) -> None:
    words = bits_to_words(sum(1 << i for i in indexes))
    assert {64 * k + b for k, w in enumerate(words) for b in range(64) if w >> b & 1} == indexes


@pytest.mark.parametrize(
    ("bits", "encoded"),
    [
        (0, b""),  # never zero words: an empty set is written as nothing
        (6, b"\x28\x06"),
        (1 << 64, b"\x28\x00\x28\x01"),
        ((1 << 64) - 1, b"\x28" + b"\xff" * 9 + b"\x01"),
    ],
)
def test_fields_are_unpacked(bits: int, encoded: bytes) -> None:
    out = BytesWriter()
    put_ack_set_field(out, 0x28, bits)
    assert out.getvalue() == encoded


def test_a_set_is_no_longer_than_the_largest_batch() -> None:
    words = AckSetReader()
    data = b"\x01" * (WORDS_MAX + 1)
    reader = Reader(data, 0, len(data), Shape("Thing", {}))
    for _ in range(WORDS_MAX):
        words.take(reader)
    with pytest.raises(RemoteProtocolError, match="more than 16384 words"):
        words.take(reader)
    bits = words.bits()
    assert bits is not None
    assert bits.bit_count() == WORDS_MAX


def test_a_fresh_batch_has_a_bit_for_each_message() -> None:
    assert all_unacked(0) == 0
    assert all_unacked(70) == 2**70 - 1
