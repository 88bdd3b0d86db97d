"""A cursor over protobuf bytes that never reads past its end.

`Reader` serves the hand-written decoders of the hot messages. Each decoder is a loop:
take a tag, take the value that the tag announces, skip what is unknown. Tags are
compared whole (field number and wire type), so a known field with a foreign wire type
is skipped as unknown, which is what protobuf does.

Integers come out as signed 64-bit numbers: a uint64 of 2**64-1 reads as -1. Pulsar
means exactly that by it, and one fold at this edge keeps both builds equal, for mypyc's
`i64` cannot hold more.

Every complaint is a `RemoteProtocolError` that names the field and its offset.
"""

from typing import Final, NoReturn, final

from mypy_extensions import i64

from magnetar.errors import RemoteProtocolError
from magnetar.wire.integer import INT64_MIN

VARINT_BYTES_MAX: Final = 10
# As in protobuf: field numbers have 29 bits, so a tag fits in 32.
TAG_MAX: Final = 0xFFFFFFFF
TAG_BYTES_MAX: Final = 5
# Groups are long dead, but an unknown field may be one. protobuf stops at 100, messages
# around them included; nobody sends even one.
GROUP_NESTING_MAX: Final = 32
# Bounds the objects that one message can make us create, on all its levels together. A
# frame of 5 MiB has room for 2.6 million empty fields; the longest lists that peers
# really send (the topics of a namespace, the ids of an ACK) stay below a few ten thousand.
FIELDS_MAX: Final = 250_000

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
GROUP_START: Final = 3
GROUP_END: Final = 4
FIXED32: Final = 5


@final
class Shape:
    """A message's name and its fields' names, for errors that can be acted on."""

    def __init__(self, name: str, fields: dict[int, str]) -> None:
        self.name: Final = name
        self.fields: Final = fields

    def field(self, number: int) -> str:
        known = self.fields.get(number)
        return f"{self.name}.{known or number}" if number else self.name


@final
class Budget:
    """How many fields the message at hand may still have."""

    left: i64 = FIELDS_MAX


@final
class Reader:
    """Reads one protobuf message from `data[pos:end]`, front to back.

    A reader of a sub-message has the budget of the one that it came from.
    """

    def __init__(
        self, data: bytes, pos: i64, end: i64, shape: Shape, budget: Budget | None = None
    ) -> None:
        assert 0 <= pos <= end <= len(data)
        self.data: Final = data
        self.pos: i64 = pos
        self.end: i64 = end
        self.shape: Final = shape
        self._tag: i64 = 0
        self._budget: Final[Budget] = Budget() if budget is None else budget

    def rewind(self, pos: i64, end: i64) -> None:
        """Begins anew with another message of the same data and shape."""
        assert 0 <= pos <= end <= len(self.data)
        self.pos = pos
        self.end = end
        self._tag = 0
        self._budget.left = FIELDS_MAX

    def tag(self) -> i64:
        """Returns the next field's tag, or 0 at the end of the message."""
        start = self.pos
        if start >= self.end:
            return 0
        budget = self._budget
        budget.left -= 1
        if budget.left < 0:
            raise self._too_many()
        tag: i64 = self.data[start]
        if tag < 0x80:
            self.pos = start + 1
        else:
            self._tag = 0
            tag = self._long_varint()
        if tag < 8 or tag > TAG_MAX or self.pos - start > TAG_BYTES_MAX:
            self._tag = 0
            raise self.error("no field has this tag", start)
        self._tag = tag
        return tag

    def varint(self) -> i64:
        """Returns a varint, folded to a signed 64-bit number."""
        pos = self.pos
        if pos < self.end:
            byte: i64 = self.data[pos]
            if byte < 0x80:
                self.pos = pos + 1
                return byte
        return self._long_varint()

    def _long_varint(self) -> i64:
        data = self.data
        pos = self.pos
        end = self.end
        value: i64 = 0
        shift: i64 = 0
        # Nine bytes have 63 bits.
        while pos < end and shift < 63:
            byte: i64 = data[pos]
            pos += 1
            if byte < 0x80:
                self.pos = pos
                return value | byte << shift
            value |= (byte & 0x7F) << shift
            shift += 7
        return self._tenth_byte(value, pos)

    def _tenth_byte(self, value: i64, pos: i64) -> i64:
        """Ends a varint: only the lowest bit of its last byte has a place left, the sign."""
        if pos >= self.end:
            raise self.error("truncated varint", self.pos)
        byte: i64 = self.data[pos]
        if byte >= 0x80:
            raise self.error(f"varint of more than {VARINT_BYTES_MAX} bytes", self.pos)
        self.pos = pos + 1
        return value + INT64_MIN if byte & 1 else value

    def int32(self) -> i64:
        """Returns an int32: the low 32 bits of a varint, signed."""
        value = self.varint() & 0xFFFFFFFF
        return value - 0x100000000 if value > 0x7FFFFFFF else value

    def uint32(self) -> i64:
        return self.varint() & 0xFFFFFFFF

    def boolean(self) -> bool:
        return self.varint() != 0

    def length(self) -> i64:
        """Returns the length of what follows, which is known to be there."""
        start = self.pos
        size = self.varint()
        if size < 0 or size > self.end - self.pos:
            raise self.error(f"length {size} where {self.end - self.pos} bytes are left", start)
        return size

    def raw(self) -> bytes:
        size = self.length()
        first = self.pos
        self.pos = first + size
        return self.data[first : self.pos]

    def text(self) -> str:
        start = self.pos
        raw = self.raw()
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.error("text that is not UTF-8", start) from None

    def message(self, shape: Shape) -> "Reader":
        """Returns a reader of the sub-message here; this one moves on behind it."""
        size = self.length()
        first = self.pos
        self.pos = first + size
        return Reader(self.data, first, self.pos, shape, self._budget)

    def packed(self) -> "Reader":
        """Returns a reader of the varints of a packed list; this one moves on behind it."""
        inner = self.message(self.shape)
        inner._tag = self._tag
        return inner

    def more(self) -> bool:
        """Returns whether a packed list goes on; each of its values counts as a field."""
        if self.pos >= self.end:
            return False
        budget = self._budget
        budget.left -= 1
        if budget.left < 0:
            raise self._too_many()
        return True

    def _too_many(self) -> RemoteProtocolError:
        return self.error(f"more than {FIELDS_MAX} fields", self.pos)

    def skip(self) -> None:
        """Passes over the value of the tag last read, whatever it is."""
        start = self.pos
        if self._skip_value(self._tag & 7):
            return
        if self._tag & 7 != GROUP_START:
            raise self.error(f"wire type {self._tag & 7}", start)
        self._skip_group(start)

    def _skip_value(self, wire_type: i64) -> bool:
        if wire_type == VARINT:
            self.varint()
        elif wire_type == LENGTH:
            size = self.length()
            self.pos += size
        elif wire_type == FIXED64:
            self._advance(8)
        elif wire_type == FIXED32:
            self._advance(4)
        else:
            return False
        return True

    def _advance(self, size: i64) -> None:
        if size > self.end - self.pos:
            raise self.error(f"{size} bytes wanted, {self.end - self.pos} left", self.pos)
        self.pos += size

    def _skip_group(self, start: i64) -> None:
        opened = [self._tag >> 3]
        while opened:
            tag = self.tag()
            if tag == 0:
                raise self.error("group without an end", start)
            if self._skip_value(tag & 7):
                continue
            if tag & 7 == GROUP_START:
                opened.append(tag >> 3)
                if len(opened) > GROUP_NESTING_MAX:
                    raise self.error(f"groups nested deeper than {GROUP_NESTING_MAX}", start)
            elif tag & 7 != GROUP_END or opened.pop() != tag >> 3:
                raise self.error(f"wire type {tag & 7} inside a group", start)

    def require(self, present: i64, numbers: tuple[int, ...]) -> None:
        """Raises unless `present` has the bit (1 << number) of each field named."""
        for number in numbers:
            if not present & (1 << number):
                raise RemoteProtocolError(
                    self.shape.field(number), self.end, "required field is missing"
                )

    def error(self, reason: str, offset: int) -> RemoteProtocolError:
        return RemoteProtocolError(self.shape.field(self._tag >> 3), offset, reason)

    def fail(self, reason: str) -> NoReturn:
        """Refuses the value just read."""
        raise self.error(reason, self.pos)
