"""Avro schemas: a definition in JSON, read into a graph of types.

Definitions come from clients, so depth is bounded. One that is not valid raises BrokerError
with the field that is wrong.
"""

from typing import Final, final

from magnetar.broker.schema_json import dump_json, refusal
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
    "canonical",
    "parse_avro",
]

# Compiled code does not survive deep recursion. Types of people nest less than ten deep.
DEPTH_MAX: Final = 100

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

    def __str__(self) -> str:
        if self.kind == UNION:
            return f"[{', '.join([str(part) for part in self.parts])}]"
        return f"{self.kind} {self.name}" if self.name else self.kind


def parse_avro(value: object) -> AvroType:
    """The Avro schema that a definition, as JSON is read, stands for. Raises BrokerError.

    >>> str(parse_avro(["null", {"type": "enum", "name": "Coin", "symbols": ["HEAD"]}]))
    '[null, enum Coin]'
    """
    return _AvroParser().parse(value, "", "", 0)


@final
class _AvroParser:
    """Reads one definition. `path` leads to the field being read, for messages."""

    def __init__(self) -> None:
        self._named: Final[dict[str, AvroType]] = {}

    def parse(self, value: object, namespace: str, path: str, depth: int) -> AvroType:
        if depth > DEPTH_MAX:
            raise self._invalid(path, f"nested more than {DEPTH_MAX} deep")
        if isinstance(value, str):
            return self._reference(value, namespace, path)
        if isinstance(value, list):
            return self._union(value, namespace, path, depth)
        if not isinstance(value, dict):
            raise self._invalid(path, f"a type cannot be {dump_json(value)}")
        kind = value.get("type")
        if not isinstance(kind, str):
            if kind is None:
                raise self._invalid(path, "the type is missing")
            return self.parse(kind, namespace, path, depth + 1)
        extra = _extra(value, _TYPE_KEYS)
        if kind in _PRIMITIVES:
            return AvroType(kind, extra=extra)
        if kind in (ARRAY, MAP):
            return self._container(value, kind, extra, namespace, path, depth)
        if kind in (RECORD, "error", ENUM, FIXED):
            return self._define(value, kind, extra, namespace, path, depth)
        return self._reference(kind, namespace, path)

    def _reference(self, name: str, namespace: str, path: str) -> AvroType:
        if name in _PRIMITIVES:
            return AvroType(name)
        found = self._named.get(_full_name(name, namespace)) or self._named.get(name)
        if found is None:
            raise self._invalid(path, f"unknown type {name!r}")
        return found

    def _union(self, value: list[object], namespace: str, path: str, depth: int) -> AvroType:
        union = AvroType(UNION)
        seen: set[str] = set()
        for item in value:
            part = self.parse(item, namespace, path, depth + 1)
            if part.kind == UNION:
                raise self._invalid(path, "a union directly within a union")
            key = part.name or part.kind
            if key in seen:
                raise self._invalid(path, f"a union with two of {key}")
            seen.add(key)
            union.parts.append(part)
        return union

    def _container(
        self, value: dict[str, object], kind: str, extra: str, namespace: str, path: str, depth: int
    ) -> AvroType:
        key = "items" if kind == ARRAY else "values"
        if key not in value:
            raise self._invalid(path, f"{kind} without {key}")
        container = AvroType(kind, extra=extra)
        container.parts.append(self.parse(value[key], namespace, path, depth + 1))
        return container

    def _define(
        self, value: dict[str, object], kind: str, extra: str, namespace: str, path: str, depth: int
    ) -> AvroType:
        space = value.get("namespace", namespace)
        name = _full_name(self._text(value, "name", path), space if isinstance(space, str) else "")
        if not _is_name(name) or name in _PRIMITIVES:
            raise self._invalid(path, f"{name!r} cannot name a type")
        if name in self._named:
            raise self._invalid(path, f"{name} is defined twice")
        type = AvroType(RECORD if kind == "error" else kind, name=name, extra=extra)
        inner = name.rpartition(".")[0]
        type.aliases = [_full_name(alias, inner) for alias in _texts(value, "aliases")]
        self._named[name] = type
        if type.kind == ENUM:
            self._define_enum(type, value, path)
        elif type.kind == FIXED:
            size = value.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise self._invalid(path, f"fixed {name} needs a size, in bytes")
            type.size = size
        else:
            self._define_record(type, value, inner, path, depth)
        return type

    def _define_enum(self, type: AvroType, value: dict[str, object], path: str) -> None:
        type.symbols = _texts(value, "symbols")
        if not isinstance(value.get("symbols"), list) or len(set(type.symbols)) < len(type.symbols):
            raise self._invalid(path, f"enum {type.name} needs a list of different symbols")
        default = value.get("default")
        if default is not None:
            if default not in type.symbols:
                raise self._invalid(path, f"the default of enum {type.name} is not among its own")
            type.default = str(default)

    def _define_record(
        self, type: AvroType, value: dict[str, object], namespace: str, path: str, depth: int
    ) -> None:
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise self._invalid(path, f"record {type.name} needs a list of fields")
        seen: set[str] = set()
        for item in fields:
            if not isinstance(item, dict):
                raise self._invalid(path, f"a field of {type.name} cannot be {dump_json(item)}")
            field = self._field(item, namespace, path, depth)
            if field.name in seen:
                raise self._invalid(path, f"record {type.name} has two fields {field.name!r}")
            seen.add(field.name)
            type.fields.append(field)

    def _field(self, value: dict[str, object], namespace: str, path: str, depth: int) -> AvroField:
        name = self._text(value, "name", path)
        if "." in name or not _is_name(name):
            raise self._invalid(path, f"{name!r} cannot name a field")
        inner = f"{path}.{name}" if path else name
        if "type" not in value:
            raise self._invalid(inner, "the type is missing")
        return AvroField(
            name,
            self.parse(value["type"], namespace, inner, depth + 1),
            default=dump_json(value["default"]) if "default" in value else None,
            aliases=_texts(value, "aliases"),
            extra=f"{value.get('order', '')}{_extra(value, _FIELD_KEYS)}",
        )

    def _text(self, value: dict[str, object], key: str, path: str) -> str:
        found = value.get(key)
        if not isinstance(found, str):
            raise self._invalid(path, f"the {key} is missing")
        return found

    def _invalid(self, path: str, why: str) -> BrokerError:
        where = f" at field {path!r}" if path else ""
        return refusal(f"not an Avro schema{where}: {why}")


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _is_name(name: str) -> bool:
    """As Avro for Java has it, with the dollar that Pulsar allows for classes in classes."""
    for part in name.split("."):
        letters = part.replace("_", "a").replace("$", "a")
        if not letters.isalnum() or not letters[0].isalpha():
            return False
    return True


def _texts(value: dict[str, object], key: str) -> list[str]:
    found = value.get(key)
    return [str(item) for item in found] if isinstance(found, list) else []


def _extra(value: dict[str, object], known: tuple[str, ...]) -> str:
    """The properties of a type or a field beyond what Avro knows, `logicalType` for one."""
    left = {key: item for key, item in value.items() if key not in known}
    return dump_json(left) if left else ""


def canonical(type: AvroType, seen: set[str]) -> str:
    """The type in one form; named ones in full the first time, then by name."""
    if type.name in seen:
        return type.name
    if type.name:
        seen.add(type.name)
    parts = [canonical(part, seen) for part in type.parts]
    for field in type.fields:
        inner = canonical(field.type, seen)
        parts.append(f"{field.name}:{inner}={field.default}{field.extra}")
    parts += type.symbols
    return f"{type}/{type.size}/{type.default}/{type.extra}({','.join(parts)})"
