"""The Avro schema of a model, from the annotations of its fields.

| annotation                            | in Avro            | in JSON                         |
|---------------------------------------|--------------------|---------------------------------|
| bool, int, float, str                 | boolean, long, double, string | the same             |
| bytes                                 | bytes              | string                          |
| datetime, date, time                  | long, int and long with a logical type | string      |
| UUID                                  | string with a logical type | string                  |
| Decimal                               | string             | string                          |
| list, set, frozenset, tuple[T, ...]   | array              | array                           |
| dict[str, T]                          | map                | map                             |
| T or None, and other unions           | union              | union                           |
| an Enum                               | enum, if its values are names; else what they are      |
| Literal                               | what its values are | the same                       |
| another model                         | record             | record                          |

The two forms differ where the bytes of a message do: JSON has no time of its own. A field with a
default has it in the schema, which is what makes a field that is added compatible with
messages that lack it. Avro wants the default of a union to be of its first type, so that one
comes first. Defaults that are no plain values, and factories but those of empty containers,
are left out: a definition must be the same in every process.
"""

import collections.abc
import enum
import re
import types
import typing
from typing import Any

from magnetar.client.schema.model.field import NO_DEFAULT, fields_of, is_model
from magnetar.errors import UsageError

__all__ = ["AvroWriter"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_PLAIN: dict[Any, str] = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    None: "null",
    type(None): "null",
}
# By name: what decides imports neither clocks nor chance.
_NATIVE: dict[str, dict[str, str] | str] = {
    "builtins.bytes": "bytes",
    "datetime.datetime": {"type": "long", "logicalType": "timestamp-micros"},
    "datetime.date": {"type": "int", "logicalType": "date"},
    "datetime.time": {"type": "long", "logicalType": "time-micros"},
    "uuid.UUID": {"type": "string", "logicalType": "uuid"},
}
_TEXT = frozenset({"decimal.Decimal", *_NATIVE})
_LISTS = (list, set, frozenset, collections.abc.Sequence, collections.abc.Set)
_MAPS = (dict, collections.abc.Mapping)


class AvroWriter:
    """Writes the schema of one model; `json` says for which form of its messages."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._defined: dict[str, Any] = {}
        # Types that fastavro takes and gives as they are.
        self.natives: set[type] = set()

    def record(self, kind: Any) -> Any:
        """Returns the schema of a model, or its name if it is defined already."""
        name = re.sub(r"\W", "_", kind.__name__)
        if self._is_defined(name, kind):
            return name
        return {
            "type": "record",
            "name": name,
            "fields": [self._field(kind, *one) for one in fields_of(kind)],
        }

    def _is_defined(self, name: str, kind: Any) -> bool:
        """Says whether a name was given before; from now on it is. Raises UsageError."""
        if name not in self._defined:
            self._defined[name] = kind
            return False
        if self._defined[name] is not kind:
            raise UsageError(f"two classes are called {name}: Avro tells them by name only")
        return True

    def _field(self, kind: Any, name: str, annotation: Any, default: Any) -> dict[str, Any]:
        where = f"{kind.__name__}.{name}"
        if not _NAME.fullmatch(name):
            raise UsageError(f"{where}: Avro's names have letters, digits and _ only: rename it")
        field: dict[str, Any] = {"name": name, "type": self._type(where, annotation)}
        plain = default if default is NO_DEFAULT else _plain(default)
        if plain is not NO_DEFAULT:
            field["default"] = plain
            if isinstance(field["type"], list):
                field["type"] = _first_of_default(field["type"], plain)
        return field

    def _type(self, where: str, annotation: Any) -> Any:
        annotation = _bare(annotation)
        if isinstance(annotation, collections.abc.Hashable) and annotation in _PLAIN:
            return _PLAIN[annotation]
        origin = typing.get_origin(annotation)
        if origin is not None:
            return self._of_origin(where, annotation, origin)
        if is_model(annotation):
            return self.record(annotation)
        if isinstance(annotation, type):
            found = self._class(annotation)
            if found is not None:
                return found
        raise UsageError(
            f"{where}: {annotation!r} has no form in Avro: use a plain type, a container with the "
            "type of its items, an Enum, or another model"
        )

    def _of_origin(self, where: str, annotation: Any, origin: Any) -> Any:
        arguments = typing.get_args(annotation)
        if origin is typing.Literal:
            return _one(where, [self._type(where, type(value)) for value in arguments])
        if origin in (typing.Union, types.UnionType):
            return self._union(where, arguments)
        if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
            return {"type": "array", "items": self._type(where, arguments[0])}
        if origin in _LISTS:
            return {"type": "array", "items": self._type(where, arguments[0])}
        if origin in _MAPS and _bare(arguments[0]) is str:
            return {"type": "map", "values": self._type(where, arguments[1])}
        if is_model(origin):  # a generic one
            return self.record(origin)
        raise UsageError(f"{where}: {annotation!r} has no form in Avro")

    def _union(self, where: str, arguments: Any) -> Any:
        found: list[Any] = []
        for one in arguments:
            kind = self._type(where, one)
            for each in kind if isinstance(kind, list) else [kind]:
                if each not in found:
                    found.append(each)
        if "null" in found:  # first, as the official client has it
            found.remove("null")
            found.insert(0, "null")
        return found if len(found) > 1 else found[0]

    def _class(self, kind: type) -> Any:
        if issubclass(kind, enum.Enum):
            return self._enum(kind)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if self._json:
            return "string" if name in _TEXT else None
        if name in _NATIVE:
            self.natives.add(kind)
            return _NATIVE[name]
        return "string" if name in _TEXT else None

    def _enum(self, kind: type[enum.Enum]) -> Any:
        values = [member.value for member in kind]
        if values and all(isinstance(one, str) and _NAME.fullmatch(one) for one in values):
            if self._is_defined(kind.__name__, kind):
                return kind.__name__
            return {"type": "enum", "name": kind.__name__, "symbols": values}
        return _one(kind.__name__, [self._type(kind.__name__, type(one)) for one in values])


def _bare(annotation: Any) -> Any:
    """Returns an annotation without what Annotated, NewType and the like say besides."""
    while True:
        if typing.get_origin(annotation) is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        elif hasattr(annotation, "__value__"):
            annotation = annotation.__value__
        else:
            return annotation


def _one(where: str, found: list[Any]) -> Any:
    """Returns the one type that several values have. Raises UsageError."""
    kinds = [one for number, one in enumerate(found) if one not in found[:number]]
    if not kinds:
        raise UsageError(f"{where} has no values")
    return kinds[0] if len(kinds) == 1 else kinds


def _plain(default: Any) -> Any:
    """Returns a default as JSON has it, or NO_DEFAULT if it has no such form."""
    if isinstance(default, enum.Enum):
        default = default.value
    if default is None or isinstance(default, (bool, int, float, str)):
        return default
    if isinstance(default, (list, tuple, set, frozenset, dict)) and not default:
        return {} if isinstance(default, dict) else []
    return NO_DEFAULT


_OF_JSON: dict[type, tuple[str, ...]] = {
    bool: ("boolean",),
    int: ("long", "int", "double"),
    float: ("double",),
    str: ("string", "enum"),
    list: ("array",),
    dict: ("map",),
    type(None): ("null",),
}


def _first_of_default(union: list[Any], default: Any) -> list[Any]:
    """Returns a union with the type of the default first."""
    wanted = _OF_JSON[type(default)]
    matching = [one for one in union if _kind_of(one) in wanted]
    return matching + [one for one in union if one not in matching]


def _kind_of(avro: Any) -> Any:
    return avro["type"] if isinstance(avro, dict) else avro
