"""Columns as a reader of Arrow's layout sees them."""

from array import array

from magnetar.protocol.payload.columns import BinaryColumn, BitColumn, NumberColumn


def cells(column: BinaryColumn) -> list[bytes | None]:
    offsets = array("i", column.offsets)
    assert (len(offsets), offsets[0], offsets[-1]) == (len(column) + 1, 0, len(column.data))
    return [
        column.data[offsets[i] : offsets[i + 1]] if valid else None
        for i, valid in enumerate(bits(column.valid))
    ]


def bits(column: BitColumn) -> list[bool]:
    assert len(column.data) == (len(column) + 7) // 8
    return [bool(column.data[i // 8] >> i % 8 & 1) for i in range(len(column))]


def numbers(column: NumberColumn) -> list[int]:
    values = array("q", column.data)
    assert len(values) == len(column)
    return values.tolist()
