"""Avro's resolution: whether data of one schema can be read with another.

It follows Avro for Java, since that is what Pulsar's broker and most of its clients read
with: records are matched by their fields and not by their names. In one place it is stricter:
an enum that may meet a symbol it does not know is not compatible.

Schemas come from clients, so depth and work are bounded, and done in steps (`work.py`).
"""

from collections.abc import Generator
from typing import Final, final

from magnetar.broker.schema.avro_type import (
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
from magnetar.broker.schema.schema_json import refusal
from magnetar.broker.turn.work import finish
from magnetar.errors import BrokerError

__all__ = ["read_problem", "read_problem_steps"]

# A level of a definition is up to two of resolution: a union on either side.
RESOLVE_DEPTH_MAX: Final = 2 * DEPTH_MAX
# Comparisons of two types: wide unions of records take the product of their branches.
RESOLVE_STEPS_MAX: Final = 100_000
# After so many others may have their turn.
COMPARISONS_A_STEP: Final = 100
# So many symbols of enums are compared in the time of one comparison of types.
SYMBOLS_A_COMPARISON: Final = 10
# Symbols that are shown in messages.
SHOWN_SYMBOLS: Final = 8

# What a reader of the second kind makes of the first.
_PROMOTIONS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def read_problem(*, reader: AvroType, writer: AvroType) -> str | None:
    """Returns why data of `writer` cannot be read with `reader`; None if all of it can be.

    >>> from magnetar.broker.schema.avro_type import parse_avro
    >>> old = parse_avro({"type": "record", "name": "A", "fields": []})
    >>> new = parse_avro(
    ...     {"type": "record", "name": "A", "fields": [{"name": "b", "type": "int"}]}
    ... )
    >>> read_problem(reader=new, writer=old)
    "field 'b' is missing in the data and has no default: give it one"
    >>> read_problem(reader=old, writer=new)
    """
    return finish(read_problem_steps(reader=reader, writer=writer))


def read_problem_steps(*, reader: AvroType, writer: AvroType) -> Generator[None, None, str | None]:
    """Does what `read_problem` does, in steps."""
    return _Resolver().problem(reader, writer, 0)


@final
class _Resolver:
    """One comparison of two types.

    A pair of records under way counts as compatible, or a record within itself would never
    end. What was found good on that assumption is forgotten if the pair turns out bad.
    """

    def __init__(self) -> None:
        self._steps: int = 0
        # Leads to what is compared, for messages.
        self._path: Final[list[str]] = []
        self._good: Final[list[tuple[str, str]]] = []
        self._good_pairs: Final[set[tuple[str, str]]] = set()
        self._bad: Final[dict[tuple[str, str], str]] = {}

    def _count(self, steps: int) -> bool:
        """Counts what was done; returns whether others may have their turn. Raises BrokerError."""
        before = self._steps // COMPARISONS_A_STEP
        self._steps += steps
        if self._steps > RESOLVE_STEPS_MAX:
            raise _too_large()
        return self._steps // COMPARISONS_A_STEP > before

    def problem(
        self, reader: AvroType, writer: AvroType, depth: int
    ) -> Generator[None, None, str | None]:
        if self._count(1):
            yield
        if depth > RESOLVE_DEPTH_MAX:
            raise _too_large()
        if writer.kind == UNION:
            for part in writer.parts:
                found = yield from self.problem(reader, part, depth + 1)
                if found is not None:
                    return found
            return None
        if reader.kind == UNION:
            return (yield from self._branch(reader, writer, depth))
        if reader.kind != writer.kind:
            if reader.kind in _PROMOTIONS.get(writer.kind, ()):
                return None
            return f"{self._where()} is {writer} in the data, and {reader} cannot hold that"
        if reader.kind in (RECORD, ENUM, FIXED):
            return (yield from self._named(reader, writer, depth))
        if reader.kind in (ARRAY, MAP):
            self._path.append("[]")
            found = yield from self.problem(reader.parts[0], writer.parts[0], depth + 1)
            self._path.pop()
            return found
        return None

    def _branch(
        self, union: AvroType, writer: AvroType, depth: int
    ) -> Generator[None, None, str | None]:
        """Returns None if one branch can hold the data, else the most telling of their problems."""
        out = ""
        for part in union.parts:
            found = yield from self.problem(part, writer, depth + 1)
            if found is None:
                return None
            if part.kind == writer.kind:
                out = found
        return out or f"{self._where()} may be {writer} in the data, which {union} does not have"

    def _named(
        self, reader: AvroType, writer: AvroType, depth: int
    ) -> Generator[None, None, str | None]:
        pair = (reader.name, writer.name)
        if pair in self._good_pairs:
            return None
        if pair in self._bad:
            return self._bad[pair]
        start = len(self._good)
        self._good.append(pair)
        self._good_pairs.add(pair)
        if reader.kind == RECORD:
            found = yield from self._fields(reader, writer, depth)
        else:
            if self._count((len(writer.symbols) + len(reader.aliases)) // SYMBOLS_A_COMPARISON):
                yield
            found = self._enum_problem(reader, writer)
        if found is not None:
            for doubtful in self._good[start:]:
                self._good_pairs.discard(doubtful)
            del self._good[start:]
            self._bad[pair] = found
        return found

    def _fields(
        self, reader: AvroType, writer: AvroType, depth: int
    ) -> Generator[None, None, str | None]:
        written = writer.by_name()
        for field in reader.fields:
            if self._count(1 + len(field.aliases)):
                yield
            self._path.append(field.name)
            source = _source(field, written)
            found: str | None = None
            if source is not None:
                found = yield from self.problem(field.type, source.type, depth + 1)
            elif field.default is None:
                found = f"{self._where()} is missing in the data and has no default: give it one"
            self._path.pop()
            if found is not None:
                return found
        return None

    def _enum_problem(self, reader: AvroType, writer: AvroType) -> str | None:
        """For types that are matched by name: enum and fixed. The namespace does not count."""
        names = [name.rpartition(".")[2] for name in [reader.name, *reader.aliases]]
        if writer.name.rpartition(".")[2] not in names:
            return f"{self._where()} is {writer} in the data, which is not named {reader.name}"
        if reader.size != writer.size:
            return f"{self._where()} has {writer.size} bytes in the data, not {reader.size}"
        known = reader.symbol_set()
        unknown = [symbol for symbol in writer.symbols if symbol not in known]
        if unknown and reader.default is None:
            shown = unknown[:SHOWN_SYMBOLS]
            if len(unknown) > SHOWN_SYMBOLS:
                shown.append("...")
            return (
                f"{self._where()} may be {', '.join(shown)} in the data, which {reader} does not "
                "know: give the enum a default"
            )
        return None

    def _where(self) -> str:
        path = ".".join(self._path).replace(".[]", "[]")
        return f"field {path!r}" if path else "the whole"


def _too_large() -> BrokerError:
    return refusal("the schema is too large or too deep to be compared: simplify it")


def _source(field: AvroField, written: dict[str, AvroField]) -> AvroField | None:
    """Returns the field of the data that `field` is read from."""
    for name in [field.name, *field.aliases]:
        if name in written:
            return written[name]
    return None
