"""Avro's resolution: whether data of one schema can be read with another.

It follows Avro for Java, since that is what Pulsar's broker and most of its clients read
with: records are matched by their fields and not by their names. In one place it is stricter:
an enum that may meet a symbol it does not know is not compatible.

Schemas come from clients, so depth and work are bounded.
"""

from typing import Final, final

from magnetar.broker.avro_type import (
    ARRAY,
    DEPTH_MAX,
    ENUM,
    FIXED,
    MAP,
    RECORD,
    UNION,
    AvroField,
    AvroType,
)
from magnetar.broker.schema_json import refusal

__all__ = ["read_problem"]

# A level of a definition is up to two of resolution: a union on either side.
RESOLVE_DEPTH_MAX: Final = 2 * DEPTH_MAX
# Comparisons of two types: wide unions of records take the product of their branches.
RESOLVE_STEPS_MAX: Final = 100_000

# What a reader of the second kind makes of the first.
_PROMOTIONS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def read_problem(*, reader: AvroType, writer: AvroType) -> str | None:
    """Why data of `writer` cannot be read with `reader`; None if all of it can be.

    >>> from magnetar.broker.avro_type import parse_avro
    >>> old = parse_avro({"type": "record", "name": "A", "fields": []})
    >>> new = parse_avro(
    ...     {"type": "record", "name": "A", "fields": [{"name": "b", "type": "int"}]}
    ... )
    >>> read_problem(reader=new, writer=old)
    "field 'b' is missing in the data and has no default: give it one"
    >>> read_problem(reader=old, writer=new)
    """
    return _Resolver().problem(reader, writer, "", 0)


@final
class _Resolver:
    """One comparison of two types.

    A pair of records under way counts as compatible, or a record within itself would never
    end. What was found good on that assumption is forgotten if the pair turns out bad.
    """

    def __init__(self) -> None:
        self._steps: int = 0
        self._good: Final[list[tuple[str, str]]] = []
        self._good_pairs: Final[set[tuple[str, str]]] = set()
        self._bad: Final[dict[tuple[str, str], str]] = {}

    def problem(self, reader: AvroType, writer: AvroType, path: str, depth: int) -> str | None:
        self._steps += 1
        if self._steps > RESOLVE_STEPS_MAX or depth > RESOLVE_DEPTH_MAX:
            raise refusal("the schema is too large or too deep to be compared: simplify it")
        if writer.kind == UNION:
            for part in writer.parts:
                found = self.problem(reader, part, path, depth + 1)
                if found is not None:
                    return found
            return None
        if reader.kind == UNION:
            return self._branch(reader, writer, path, depth)
        if reader.kind != writer.kind:
            if reader.kind in _PROMOTIONS.get(writer.kind, ()):
                return None
            return f"{_where(path)} is {writer} in the data, and {reader} cannot hold that"
        if reader.kind == RECORD:
            return self._record(reader, writer, path, depth)
        if reader.kind in (ENUM, FIXED):
            return _enum_problem(reader, writer, path)
        if reader.kind in (ARRAY, MAP):
            return self.problem(reader.parts[0], writer.parts[0], f"{path}[]", depth + 1)
        return None

    def _branch(self, union: AvroType, writer: AvroType, path: str, depth: int) -> str | None:
        """A branch that holds the data is enough; else the most telling of their problems."""
        out = f"{_where(path)} may be {writer} in the data, which {union} does not have"
        for part in union.parts:
            found = self.problem(part, writer, path, depth + 1)
            if found is None:
                return None
            if part.kind == writer.kind:
                out = found
        return out

    def _record(self, reader: AvroType, writer: AvroType, path: str, depth: int) -> str | None:
        pair = (reader.name, writer.name)
        if pair in self._good_pairs:
            return None
        if pair in self._bad:
            return self._bad[pair]
        start = len(self._good)
        self._good.append(pair)
        self._good_pairs.add(pair)
        found = self._fields(reader, writer, path, depth)
        if found is not None:
            for doubtful in self._good[start:]:
                self._good_pairs.discard(doubtful)
            del self._good[start:]
            self._bad[pair] = found
        return found

    def _fields(self, reader: AvroType, writer: AvroType, path: str, depth: int) -> str | None:
        written = {field.name: field for field in writer.fields}
        for field in reader.fields:
            inner = f"{path}.{field.name}" if path else field.name
            source = _source(field, written)
            if source is None:
                if field.default is None:
                    return f"{_where(inner)} is missing in the data and has no default: give it one"
                continue
            found = self.problem(field.type, source.type, inner, depth + 1)
            if found is not None:
                return found
        return None


def _source(field: AvroField, written: dict[str, AvroField]) -> AvroField | None:
    """The field of the data that `field` is read from."""
    for name in [field.name, *field.aliases]:
        if name in written:
            return written[name]
    return None


def _enum_problem(reader: AvroType, writer: AvroType, path: str) -> str | None:
    """For types that are matched by name: enum and fixed. The namespace does not count."""
    names = [name.rpartition(".")[2] for name in [reader.name, *reader.aliases]]
    if writer.name.rpartition(".")[2] not in names:
        return f"{_where(path)} is {writer} in the data, which is not named {reader.name}"
    if reader.size != writer.size:
        return f"{_where(path)} has {writer.size} bytes in the data, not {reader.size}"
    unknown = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
    if unknown and reader.default is None:
        return (
            f"{_where(path)} may be {', '.join(unknown)} in the data, which {reader} does not "
            "know: give the enum a default"
        )
    return None


def _where(path: str) -> str:
    return f"field {path!r}" if path else "the whole"
