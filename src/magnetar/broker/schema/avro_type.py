"""Avro schemas: a definition in JSON, read into a graph of types.

Definitions come from clients, so depth is bounded, and a long one is read in steps (`work.py`).
One that is not valid raises BrokerError with the field that is wrong.
"""

from collections.abc import Generator
from typing import Final, final

from magnetar.broker.schema.schema_json import dump_json, refusal
from magnetar.broker.turn.work import finish
from magnetar.errors import BrokerError

__all__ = [
    "ARRAY",
    "ENUM",
    "FIXED",
    "MAP",
    "RECORD",
    "UNION",
    "AvroField",
    "AvroType",
    "canonical_steps",
    "parse_avro",
    "parse_steps",
]

# Compiled code does not survive deep recursion. Types of people nest less than ten deep.
DEPTH_MAX: Final = 100
# After so many types others may have their turn: half a millisecond, not compiled.
TYPES_A_STEP: Final = 100
# A union is shown in messages up to here.
SHOWN_PARTS: Final = 8

_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
RECORD: Final = "record"
ENUM: Final = "enum"
FIXED: Final = "fixed"
ARRAY: Final = "array"
MAP: Final = "map"
UNION: Final = "union"
# What a definition says of a type itself; anything else is a property of it.
_TYPE_KEYS: Final = (
    "aliases",
    "default",
    "doc",
    "fields",
    "items",
    "name",
    "namespace",
    "size",
    "symbols",
    "type",
    "values",
)
_FIELD_KEYS: Final = ("aliases", "default", "doc", "name", "order", "type")


@final
class AvroField:
    """A field of a record. `default` is JSON text, None if the field has none."""

    def __init__(
        self,
        name: str,
        type: "AvroType",
        *,
        default: str | None,
        aliases: list[str],
        extra: str,
    ) -> None:
        self.name: Final = name
        self.type: Final = type
        self.default: Final = default
        self.aliases: Final = aliases
        self.extra: Final = extra


@final
class AvroType:
    """A type of an Avro schema. Records may contain themselves, so this is a graph."""

    def __init__(self, kind: str, *, name: str = "", extra: str = "") -> None:
        self.kind: Final = kind
        # With its namespace; only records, enums and fixed have one.
        self.name: Final = name
        self.extra: Final = extra
        self.aliases: list[str] = []
        self.fields: list[AvroField] = []
        # The branches of a union; the one type of an array's items or a map's values.
        self.parts: list[AvroType] = []
        self.symbols: list[str] = []
        self.default: str | None = None
        self.size: int = 0
        self._by_name: dict[str, AvroField] | None = None
        self._symbols: set[str] | None = None

    def by_name(self) -> dict[str, AvroField]:
        """Returns the fields of a record, by name. Not before all of them are there."""
        if self._by_name is None:
            self._by_name = {field.name: field for field in self.fields}
        return self._by_name

    def symbol_set(self) -> set[str]:
        """Returns the symbols of an enum."""
        if self._symbols is None:
            self._symbols = set(self.symbols)
        return self._symbols

    def __str__(self) -> str:
        if self.kind == UNION:
            shown = [str(part) for part in self.parts[:SHOWN_PARTS]]
            if len(self.parts) > SHOWN_PARTS:
                shown.append("...")
            return f"[{', '.join(shown)}]"
        return f"{self.kind} {self.name}" if self.name else self.kind


def parse_avro(value: object) -> AvroType:
    """Returns the Avro schema that a definition, as JSON is read, stands for. Raises BrokerError.

    >>> str(parse_avro(["null", {"type": "enum", "name": "Coin", "symbols": ["HEAD"]}]))
    '[null, enum Coin]'
    """
    return finish(parse_steps(value))


def parse_steps(value: object) -> Generator[None, None, AvroType]:
    """Does what `parse_avro` does, in steps."""
    return _AvroParser().parse(value, "", 0)


@final
class _AvroParser:
    """Reads one definition."""

    def __init__(self) -> None:
        self._named: Final[dict[str, AvroType]] = {}
        # Leads to the field being read, for messages.
        self._path: Final[list[str]] = []
        self._types: int = 0

    def parse(self, value: object, namespace: str, depth: int) -> Generator[None, None, AvroType]:
        self._types += 1
        if self._types % TYPES_A_STEP == 0:
            yield
        if depth > DEPTH_MAX:
            raise self._invalid(f"nested more than {DEPTH_MAX} deep")
        if isinstance(value, str):
            return self._reference(value, namespace)
        if isinstance(value, list):
            return (yield from self._union(value, namespace, depth))
        if not isinstance(value, dict):
            raise self._invalid(f"a type cannot be {dump_json(value)}")
        kind = value.get("type")
        if not isinstance(kind, str):
            if kind is None:
                raise self._invalid("the type is missing")
            return (yield from self.parse(kind, namespace, depth + 1))
        extra = _extra(value, _TYPE_KEYS)
        if kind in _PRIMITIVES:
            return AvroType(kind, extra=extra)
        if kind in (ARRAY, MAP):
            return (yield from self._container(value, kind, extra, namespace, depth))
        if kind in (RECORD, "error", ENUM, FIXED):
            return (yield from self._define(value, kind, extra, namespace, depth))
        return self._reference(kind, namespace)

    def _reference(self, name: str, namespace: str) -> AvroType:
        if name in _PRIMITIVES:
            return AvroType(name)
        found = self._named.get(_full_name(name, namespace)) or self._named.get(name)
        if found is None:
            raise self._invalid(f"unknown type {name!r}")
        return found

    def _union(
        self, value: list[object], namespace: str, depth: int
    ) -> Generator[None, None, AvroType]:
        union = AvroType(UNION)
        seen: set[str] = set()
        for item in value:
            part = yield from self.parse(item, namespace, depth + 1)
            if part.kind == UNION:
                raise self._invalid("a union directly within a union")
            key = part.name or part.kind
            if key in seen:
                raise self._invalid(f"a union with two of {key}")
            seen.add(key)
            union.parts.append(part)
        return union

    def _container(
        self, value: dict[str, object], kind: str, extra: str, namespace: str, depth: int
    ) -> Generator[None, None, AvroType]:
        key = "items" if kind == ARRAY else "values"
        if key not in value:
            raise self._invalid(f"{kind} without {key}")
        container = AvroType(kind, extra=extra)
        inner = yield from self.parse(value[key], namespace, depth + 1)
        container.parts.append(inner)
        return container

    def _define(
        self, value: dict[str, object], kind: str, extra: str, namespace: str, depth: int
    ) -> Generator[None, None, AvroType]:
        space = value.get("namespace", namespace)
        name = _full_name(self._text(value, "name"), space if isinstance(space, str) else "")
        if not _is_name(name) or name in _PRIMITIVES:
            raise self._invalid(f"{name!r} cannot name a type")
        if name in self._named:
            raise self._invalid(f"{name} is defined twice")
        type = AvroType(RECORD if kind == "error" else kind, name=name, extra=extra)
        inner = name.rpartition(".")[0]
        type.aliases = [_full_name(alias, inner) for alias in _texts(value, "aliases")]
        self._named[name] = type
        if type.kind == ENUM:
            self._define_enum(type, value)
        elif type.kind == FIXED:
            size = value.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise self._invalid(f"fixed {name} needs a size, in bytes")
            type.size = size
        else:
            yield from self._define_record(type, value, inner, depth)
        return type

    def _define_enum(self, type: AvroType, value: dict[str, object]) -> None:
        type.symbols = _texts(value, "symbols")
        if not isinstance(value.get("symbols"), list) or len(set(type.symbols)) < len(type.symbols):
            raise self._invalid(f"enum {type.name} needs a list of different symbols")
        default = value.get("default")
        if default is not None:
            if default not in type.symbols:
                raise self._invalid(f"the default of enum {type.name} is not among its own")
            type.default = str(default)

    def _define_record(
        self, type: AvroType, value: dict[str, object], namespace: str, depth: int
    ) -> Generator[None, None, None]:
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise self._invalid(f"record {type.name} needs a list of fields")
        seen: set[str] = set()
        for item in fields:
            if not isinstance(item, dict):
                raise self._invalid(f"a field of {type.name} cannot be {dump_json(item)}")
            name = self._text(item, "name")
            if "." in name or not _is_name(name):
                raise self._invalid(f"{name!r} cannot name a field")
            if name in seen:
                raise self._invalid(f"record {type.name} has two fields {name!r}")
            seen.add(name)
            self._path.append(name)
            if "type" not in item:
                raise self._invalid("the type is missing")
            inner = yield from self.parse(item["type"], namespace, depth + 1)
            self._path.pop()
            type.fields.append(_field(name, inner, item))

    def _text(self, value: dict[str, object], key: str) -> str:
        found = value.get(key)
        if not isinstance(found, str):
            raise self._invalid(f"the {key} is missing")
        return found

    def _invalid(self, why: str) -> BrokerError:
        where = f" at field {'.'.join(self._path)!r}" if self._path else ""
        return refusal(f"not an Avro schema{where}: {why}")


def _field(name: str, type: AvroType, value: dict[str, object]) -> AvroField:
    return AvroField(
        name,
        type,
        default=dump_json(value["default"]) if "default" in value else None,
        aliases=_texts(value, "aliases"),
        extra=f"{value.get('order', '')}{_extra(value, _FIELD_KEYS)}",
    )


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _is_name(name: str) -> bool:
    """Returns whether Avro for Java takes a name, or Pulsar, which allows a dollar for inner
    classes."""
    for part in name.split("."):
        letters = part.replace("_", "a").replace("$", "a")
        if not letters.isalnum() or not letters[0].isalpha():
            return False
    return True


def _texts(value: dict[str, object], key: str) -> list[str]:
    found = value.get(key)
    return [str(item) for item in found] if isinstance(found, list) else []


def _extra(value: dict[str, object], known: tuple[str, ...]) -> str:
    """Returns the properties of a type or a field beyond what Avro knows, `logicalType` for one."""
    left = {key: item for key, item in value.items() if key not in known}
    return dump_json(left) if left else ""


def canonical_steps(type: AvroType) -> Generator[None, None, str]:
    """Returns the type in one form; named ones in full the first time, then by name."""
    canonical = _Canonical()
    yield from canonical.write(type)
    return "".join(canonical.pieces)


@final
class _Canonical:
    def __init__(self) -> None:
        self.pieces: Final[list[str]] = []
        self._seen: Final[set[str]] = set()
        self._types: int = 0

    def write(self, type: AvroType) -> Generator[None, None, None]:
        self._types += 1
        if self._types % TYPES_A_STEP == 0:
            yield
        if type.name in self._seen:
            self.pieces.append(type.name)
            return
        if type.name:
            self._seen.add(type.name)
        self.pieces.append(f"{type.kind} {type.name}/{type.size}/{type.default}/{type.extra}(")
        for part in type.parts:
            yield from self.write(part)
            self.pieces.append(",")
        for field in type.fields:
            self.pieces.append(f"{field.name}:")
            yield from self.write(field.type)
            self.pieces.append(f"={field.default}{field.extra},")
        self.pieces.append(f"{','.join(type.symbols)})")
