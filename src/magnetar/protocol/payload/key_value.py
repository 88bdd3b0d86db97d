"""Pulsar's KeyValue: one property, as it appears in lists all over the protocol."""

from typing import Final

from mypy_extensions import i64

from magnetar.wire.reader import Reader, Shape
from magnetar.wire.writer import BytesWriter, put_bytes_field, put_text_field

SHAPE: Final = Shape("KeyValue", {1: "key", 2: "value"})


def decode_key_value(reader: Reader) -> tuple[str, str]:
    key = ""
    value = ""
    present: i64 = 0
    while (tag := reader.tag()) != 0:
        if tag == 0x0A:
            key = reader.text()
            present |= 2
        elif tag == 0x12:
            value = reader.text()
            present |= 4
        else:
            reader.skip()
    if present != 6:
        reader.require(present, (1, 2))
    return (key, value)


def put_key_values(out: BytesWriter, tag: i64, pairs: list[tuple[str, str]]) -> None:
    """A repeated field of KeyValue."""
    for key, value in pairs:
        inner = BytesWriter()
        put_text_field(inner, 0x0A, key)
        put_text_field(inner, 0x12, value)
        put_bytes_field(out, tag, inner.getvalue())
