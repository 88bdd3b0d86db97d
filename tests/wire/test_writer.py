"""The growing buffer, with librt and without it."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import INT64, TEXT

from magnetar.wire import bytes_writer
from magnetar.wire.reader import Reader, Shape
from magnetar.wire.writer import (
    BytesWriter,
    put_bool_field,
    put_bytes_field,
    put_i32_le,
    put_i64_le,
    put_int_field,
    put_text_field,
    put_u32,
    put_varint,
    set_u32,
    varint_size,
)

SHAPE = Shape("Thing", {})


@given(INT64)
def test_varints_read_back_and_have_the_size_foretold(value: int) -> None:
    out = BytesWriter()
    put_varint(out, value)
    data = out.getvalue()
    assert Reader(data, 0, len(data), SHAPE).varint() == value
    assert varint_size(value) == len(data)


@given(INT64, TEXT, st.binary(max_size=300), st.booleans())
def test_fields_read_back(number: int, text: str, raw: bytes, flag: bool) -> None:
    out = BytesWriter()
    put_int_field(out, 0x08, number)
    put_text_field(out, 0x112, text)
    put_bytes_field(out, 0x1A, raw)
    put_bool_field(out, 0x20, flag)
    data = out.getvalue()
    source = Reader(data, 0, len(data), SHAPE)
    assert (source.tag(), source.varint()) == (0x08, number)
    assert (source.tag(), source.text()) == (0x112, text)
    assert (source.tag(), source.raw()) == (0x1A, raw)
    assert (source.tag(), source.boolean()) == (0x20, flag)
    assert source.tag() == 0


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_u32_is_big_endian_and_can_be_filled_in_later(first: int, later: int) -> None:
    out = BytesWriter()
    put_u32(out, first)
    put_u32(out, 0)
    set_u32(out, 4, later)
    assert out.getvalue() == first.to_bytes(4, "big") + later.to_bytes(4, "big")


@given(INT64)
def test_numbers_of_columns_and_bitsets_are_little_endian_and_signed(word: int) -> None:
    out = BytesWriter()
    put_i64_le(out, word)
    put_i32_le(out, word >> 32)
    assert out.getvalue() == word.to_bytes(8, "little", signed=True) + (word >> 32).to_bytes(
        4, "little", signed=True
    )


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, -(2**63) - 1])
def test_numbers_beyond_64_bits_are_our_mistake_in_both_builds(value: int) -> None:
    with pytest.raises((AssertionError, TypeError)):
        put_varint(BytesWriter(), value)


def test_the_stand_in_writes_what_librt_writes() -> None:
    stand_in = bytes_writer.BytesWriter()
    stand_in.append(7)
    stand_in.write(b"abc")
    bytes_writer.write_i32_be(stand_in, -2)
    bytes_writer.write_i64_le(stand_in, -3)
    bytes_writer.write_i32_le(stand_in, -4)
    stand_in[0] = 9
    expected = b"\x09abc\xff\xff\xff\xfe\xfd" + b"\xff" * 7 + b"\xfc\xff\xff\xff"
    assert stand_in.getvalue() == expected


WITHOUT_LIBRT = """
import sys
sys.modules["librt"] = sys.modules["librt.strings"] = None
from magnetar.model import MessageId
from magnetar.wire.writer import BytesWriter
assert BytesWriter.__module__ == "magnetar.wire.bytes_writer", BytesWriter.__module__
print(MessageId(ledger_id=12345, entry_id=4).to_base64())
"""


def test_the_interpreted_build_does_without_librt() -> None:
    import magnetar

    if magnetar.COMPILED:
        pytest.skip("compiled code is built on librt")
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRT], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "CLlgEAQwAA=="
