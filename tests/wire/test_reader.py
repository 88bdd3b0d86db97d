"""The cursor over protobuf bytes: its numbers, its ends, its complaints."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import varint

from magnetar.errors import RemoteProtocolError
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.wire.integer import signed
from magnetar.wire.reader import FIELDS_MAX, GROUP_NESTING_MAX, Reader, Shape

SHAPE = Shape("Thing", {1: "name", 2: "size"})


def reader(data: bytes) -> Reader:
    return Reader(data, 0, len(data), SHAPE)


@given(st.integers(0, 2**64 - 1))
def test_uint64_reads_as_the_signed_number_of_the_same_bits(value: int) -> None:
    expected = value - 2**64 if value >= 2**63 else value
    source = reader(varint(value))
    assert source.varint() == signed(value) == expected
    assert source.pos == source.end


@given(st.integers(-(2**31), 2**31 - 1))
def test_int32_reads_back_negative_numbers_too(value: int) -> None:
    assert reader(varint(value & 0xFFFFFFFFFFFFFFFF)).int32() == value


def test_int32_and_uint32_keep_the_low_bits_as_protobuf_does() -> None:
    assert reader(varint(2**40 + 7)).int32() == 7
    assert reader(varint(2**40 + 2**31)).int32() == -(2**31)
    assert reader(varint(2**40 + 2**31)).uint32() == 2**31


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9, b"\xff" * 10 + b"\x01"])
def test_varints_that_do_not_end_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="varint"):
        reader(data).varint()


def test_overlong_zeros_are_read_as_protobuf_reads_them() -> None:
    assert reader(b"\x80\x80\x00").varint() == 0
    # Bits beyond the 64th have no place and vanish.
    assert reader(b"\xff" * 9 + b"\x7f").varint() == -1


@pytest.mark.parametrize(
    ("data", "field", "offset"),
    [
        (b"\x0a\x05ab", "Thing.name", 1),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "Thing.name", 1),
        (b"\x0a\x02\xff\xfe", "Thing.name", 1),
    ],
)
def test_errors_name_the_field_and_where_it_stands(data: bytes, field: str, offset: int) -> None:
    source = reader(data)
    assert source.tag() == 0x0A
    with pytest.raises(RemoteProtocolError) as caught:
        source.text()
    assert (caught.value.field, caught.value.offset) == (field, offset)
    assert str(caught.value).startswith(f"{field} at byte {offset}: ")


def test_a_field_without_a_name_goes_by_its_number() -> None:
    source = reader(b"\x7a\x09")
    source.tag()
    with pytest.raises(RemoteProtocolError, match=r"^Thing\.15 at byte 1"):
        source.skip()


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",  # field 0
        b"\x07",  # field 0, wire type 7
        b"\xf8\xff\xff\xff\x1f\x00",  # field number of 30 bits
        b"\x88\x80\x80\x80\x80\x00\x00",  # six bytes for a small tag
    ],
)
def test_tags_that_no_field_can_have_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="tag"):
        reader(data).tag()
    with pytest.raises(DecodeError):
        pb.KeyValue.FromString(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x0c",  # an end without a group
        b"\x0b",  # a group without an end
        b"\x0b\x13\x0c\x14",  # groups that overlap
        b"\x0e",  # wire type 6
        b"\x0b\x0f",  # wire type 7 inside a group
        b"\x0d\x00\x00\x00",  # three bytes of a fixed32
        b"\x09" + bytes(7),  # seven bytes of a fixed64
    ],
)
def test_values_that_cannot_be_skipped_are_refused_as_protobuf_refuses_them(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        drain(reader(data))
    with pytest.raises(DecodeError):
        pb.KeyValue.FromString(data)


def test_groups_nest_as_deep_as_the_limit_says() -> None:
    data = b"\x1b" * GROUP_NESTING_MAX + b"\x1c" * GROUP_NESTING_MAX
    assert drain(reader(data)) == 1
    assert pb.KeyValue.FromString(data) is not None
    with pytest.raises(RemoteProtocolError, match="nested deeper"):
        drain(reader(b"\x1b" + data + b"\x1c"))


def drain(source: Reader) -> int:
    count = 0
    while source.tag():
        source.skip()
        count += 1
    return count


def test_a_message_has_a_bounded_number_of_fields() -> None:
    assert drain(reader(b"\x18\x00" * FIELDS_MAX)) == FIELDS_MAX
    with pytest.raises(RemoteProtocolError, match="fields"):
        drain(reader(b"\x18\x00" * (FIELDS_MAX + 1)))


def test_reads_only_its_part_of_the_data() -> None:
    data = b"\xff\x08\x05\xff"
    source = Reader(data, 1, 3, SHAPE)
    assert (source.tag(), source.varint(), source.tag()) == (0x08, 5, 0)
    source.rewind(1, 2)
    assert source.tag() == 0x08
    with pytest.raises(RemoteProtocolError, match="truncated"):
        source.varint()


def test_a_range_outside_the_data_is_our_mistake() -> None:
    with pytest.raises(AssertionError):
        Reader(b"abc", 0, 4, SHAPE)
    with pytest.raises(AssertionError):
        reader(b"abc").rewind(2, 1)


def count_packed(source: Reader) -> int:
    count = 0
    while source.more():
        source.varint()
        count += 1
    return count


def test_values_of_packed_lists_are_counted_too() -> None:
    def packed(values: int) -> Reader:
        source = reader(b"\x1a" + varint(values) + b"\x00" * values)
        assert source.tag() == 0x1A
        return source.packed()

    # The tag is a field itself.
    assert count_packed(packed(FIELDS_MAX - 1)) == FIELDS_MAX - 1
    with pytest.raises(RemoteProtocolError, match="more than"):
        count_packed(packed(FIELDS_MAX))


def test_missing_required_fields_are_named() -> None:
    with pytest.raises(RemoteProtocolError, match=r"Thing\.size at byte 0: required"):
        reader(b"").require(1 << 1, (1, 2))
