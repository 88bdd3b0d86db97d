"""Records: Python classes whose fields are an Avro schema.

    class Order(Record):
        number = Integer(required=True)
        note = String(default="none")

A field of a record is an instance of `Field`, another record, or an Enum. `Order.schema()` is
the Avro schema as a dict, and an `Order` is one value of it; what is assigned to a field is
checked, and converted where a field takes more than one form. Names, arguments and the
schemas that come out, down to the order of their keys, are those of the official Python
client, so that both register the same bytes for the same class.

A field that is not `required` may also be null, and its default is what None turns into. The
default is part of the schema only with `required_default`. Fields are those of the class
itself: a class does not inherit the fields of a record that it is derived from.

These classes are made to be derived from, so this file is not compiled.
"""

import copy
import reprlib
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from magnetar.errors import SchemaTypeError, UnknownFieldError, UsageError

__all__ = [
    "Array",
    "Boolean",
    "Bytes",
    "CustomEnum",
    "Double",
    "Field",
    "Float",
    "Integer",
    "Long",
    "Map",
    "Null",
    "Record",
    "RecordMeta",
    "String",
    "plain_fields",
]

# A schema of Avro: a type's name, a definition, or a list of alternatives.
AvroType: TypeAlias = str | dict[str, Any] | list[Any]
PythonType: TypeAlias = type | tuple[type, ...]

# What a record knows of itself as a field of another one; never part of its value.
_RESERVED = frozenset({"_required_default", "_default", "_required"})


class RecordMeta(type):
    """Collects the fields of a record in the order in which its class declares them."""

    _fields: "dict[str, Field | Record]"

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> "RecordMeta":
        if bases:  # Record itself has no fields
            namespace["_fields"] = _declared(namespace)
            namespace["_required"] = False
        return super().__new__(cls, name, bases, namespace)


def _declared(namespace: dict[str, Any]) -> "dict[str, Field | Record]":
    fields: dict[str, Field | Record] = {}
    for name, value in namespace.items():
        if isinstance(value, type) and issubclass(value, Enum):
            fields[name] = CustomEnum(value)
        elif isinstance(value, RecordMeta):
            fields[name] = value()
        elif isinstance(value, (Field, Record)):
            fields[name] = value
    return fields


class Record(metaclass=RecordMeta):
    """The base of all records. `default`, `required` and `required_default` are for a record
    that is a field of another one; fields are given by name.

    >>> class Point(Record):
    ...     x = Integer()
    ...     y = Integer(default=2)
    >>> point = Point(x=1)
    >>> point.x, point.y
    (1, 2)
    >>> Point.schema()["fields"][0]
    {'name': 'x', 'type': ['null', 'int']}
    """

    _fields: ClassVar[dict[str, "Field | Record"]] = {}
    # The namespace of the schema's name, if it shall have one.
    _avro_namespace: ClassVar[str | None] = None
    # Whether the schema has its fields in the order of their names.
    _sorted_fields: ClassVar[bool] = False

    _default: Any
    _required: bool
    _required_default: bool

    def __init__(
        self,
        default: Any = None,
        required_default: bool = False,
        required: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        # Straight to where __setattr__ would put it: this is done for every message.
        state = self.__dict__
        state["_required_default"] = required_default
        state["_default"] = default
        state["_required"] = required
        for name, field in self._fields.items():
            if name in kwargs:
                value = kwargs[name]
                if isinstance(value, (dict, list)):
                    value = _built(field, value)
                state[name] = field.validate_type(name, value)
            elif isinstance(field, Record):
                state[name] = copy.deepcopy(field)
            else:
                # A default was checked as the field was declared, and may be None.
                state[name] = _fresh(field.default())

    @classmethod
    def schema(cls) -> AvroType:
        """Returns the record as an Avro schema."""
        return cls.schema_info(set())

    @classmethod
    def schema_info(cls, defined_names: set[str]) -> AvroType:
        """The same inside another schema; a record that is defined there is named only."""
        full_name = cls.__name__
        if cls._avro_namespace is not None:
            full_name = f"{cls._avro_namespace}.{cls.__name__}"
        if full_name in defined_names:
            return full_name
        defined_names.add(full_name)
        schema: dict[str, Any] = {"type": "record", "name": cls.__name__}
        if cls._avro_namespace is not None:
            schema["namespace"] = cls._avro_namespace
        names = sorted(cls._fields) if cls._sorted_fields else list(cls._fields)
        schema["fields"] = [_field_schema(name, cls._fields[name], defined_names) for name in names]
        return schema

    def __setattr__(self, key: str, value: Any) -> None:
        if key not in _RESERVED:
            field = self._fields.get(key)
            if field is None:
                raise UnknownFieldError(type(self).__name__, key)
            value = field.validate_type(key, value)
        super().__setattr__(key, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        missing = object()
        return all(getattr(self, f) == getattr(other, f, missing) for f in self._fields)

    def __str__(self) -> str:
        return str(plain_fields(self))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in plain_fields(self).items())
        return f"{type(self).__name__}({values})"

    def type(self) -> str:
        """Returns the name of the record."""
        return type(self).__name__

    def python_type(self) -> PythonType:
        """Returns the record's class."""
        return type(self)

    def validate_type(self, name: str, val: Any) -> Any:
        """Returns the value that a field of this record has when it is given `val`."""
        if val is None and not self._required:
            return _fresh(self.default())
        if not isinstance(val, type(self)):
            raise _wrong(name, val, type(self).__name__)
        return val

    def default(self) -> Any:
        """Returns what a field of this record holds if nothing is given."""
        return self._default

    def required_default(self) -> bool:
        """Returns whether the schema has the default even if the field is required."""
        return self._required_default


def plain_fields(record: Record) -> dict[str, Any]:
    """Returns the values of a record's fields, by name."""
    return {name: value for name, value in vars(record).items() if name not in _RESERVED}


def _field_schema(name: str, field: "Field | Record", defined_names: set[str]) -> dict[str, Any]:
    kind = field.schema_info(defined_names)
    if not field._required:
        kind = ["null", kind]
    if not field.required_default():
        return {"name": name, "type": kind}
    default = field.default()
    return {
        "name": name,
        "default": default.name if isinstance(default, Enum) else default,
        "type": kind,
    }


def _built(field: "Field | Record", value: Any) -> Any:
    """Returns a value as the field wants it, where dicts stand for records."""
    if isinstance(field, Record) and isinstance(value, dict):
        return type(field)(**value)
    if isinstance(field, Array) and isinstance(value, list):
        kind = field.array_type
        return [_built(kind, item) for item in value] if isinstance(kind, Record) else value
    if isinstance(field, Map) and isinstance(value, dict):
        kind = field.value_type
        if isinstance(kind, Record):
            return {key: _built(kind, item) for key, item in value.items()}
    return value


def _fresh(default: Any) -> Any:
    """Returns a default for one record alone: a copy, if it can be changed."""
    return copy.deepcopy(default) if isinstance(default, (list, dict, Record)) else default


def _wrong(name: str, val: Any, expected: str) -> SchemaTypeError:
    return SchemaTypeError(
        name, f"{reprlib.repr(val)} is a {type(val).__name__}, expected: {expected}"
    )


def _names(kind: PythonType) -> str:
    return " or ".join(k.__name__ for k in kind) if isinstance(kind, tuple) else kind.__name__


class Field:
    """The base of all fields: `type` is Avro's name of it, `python_type` what it holds."""

    def __init__(
        self, default: Any = None, required: bool = False, required_default: bool = False
    ) -> None:
        self._required = required
        self._required_default = required_default
        self._default: Any = None
        if default is not None:
            self._default = self.validate_type("default", default)

    if TYPE_CHECKING:
        # Of a record the values are read and set, not the fields: tell type checkers.
        def __get__(self, instance: object, owner: type) -> Any: ...
        def __set__(self, instance: object, value: Any) -> None: ...

    def type(self) -> str:
        """Returns Avro's name of the type."""
        raise NotImplementedError(f"{type(self).__name__} must say its Avro type")

    def python_type(self) -> PythonType:
        """Returns the type, or types, that the field may hold."""
        raise NotImplementedError(f"{type(self).__name__} must say its Python type")

    def validate_type(self, name: str, val: Any) -> Any:
        """Returns the value that the field has when it is given `val`; a TypeError if it cannot."""
        if val is None and not self._required:
            return self.default()
        if not isinstance(val, self.python_type()):
            raise _wrong(name, val, _names(self.python_type()))
        return val

    def schema(self) -> AvroType:
        """Returns the Avro schema of the field."""
        return self.schema_info(set())

    def schema_info(self, defined_names: set[str]) -> AvroType:
        """Returns the Avro schema of the field, which names records that were defined before."""
        return self.type()

    def default(self) -> Any:
        """Returns what the field holds if nothing is given."""
        return self._default

    def required_default(self) -> bool:
        """Returns whether the schema has the default even if the field is required."""
        return self._required_default


class Null(Field):
    """Only None."""

    def type(self) -> str:
        return "null"

    def python_type(self) -> PythonType:
        return type(None)

    def validate_type(self, name: str, val: Any) -> Any:
        if val is not None:
            raise _wrong(name, val, "None")
        return None


class Boolean(Field):
    """True or False, and False if nothing is said."""

    def type(self) -> str:
        return "boolean"

    def python_type(self) -> PythonType:
        return bool

    def default(self) -> Any:
        return False if self._default is None else self._default


class Integer(Field):
    """An int of 32 bits."""

    def type(self) -> str:
        return "int"

    def python_type(self) -> PythonType:
        return int


class Long(Field):
    """An int of 64 bits."""

    def type(self) -> str:
        return "long"

    def python_type(self) -> PythonType:
        return int


class Float(Field):
    """A float of 32 bits."""

    def type(self) -> str:
        return "float"

    def python_type(self) -> PythonType:
        return float, int


class Double(Field):
    """A float of 64 bits."""

    def type(self) -> str:
        return "double"

    def python_type(self) -> PythonType:
        return float, int


class Bytes(Field):
    """Bytes; a str becomes its UTF-8."""

    def type(self) -> str:
        return "bytes"

    def python_type(self) -> PythonType:
        return bytes, str

    def validate_type(self, name: str, val: Any) -> Any:
        if isinstance(val, str):
            return val.encode()
        if val is None or isinstance(val, (bytes, bytearray, memoryview)):
            return val
        raise _wrong(name, val, "bytes or str")


class String(Field):
    """Text; bytes are taken as UTF-8."""

    def type(self) -> str:
        return "string"

    def python_type(self) -> PythonType:
        return str, bytes

    def validate_type(self, name: str, val: Any) -> Any:
        val = super().validate_type(name, val)
        return val.decode() if isinstance(val, bytes) else val


class CustomEnum(Field):
    """One member of an Enum, which may also be given by its name or its value."""

    def __init__(
        self,
        enum_type: "type[Enum]",  # `type` is a method here
        default: Any = None,
        required: bool = False,
        required_default: bool = False,
    ) -> None:
        given: object = enum_type
        if not (isinstance(given, type) and issubclass(given, Enum)):
            raise UsageError(f"{enum_type!r} is no Enum: give CustomEnum the class of one")
        self.enum_type = enum_type
        self.values: dict[Any, Enum] = {
            member.value: member for member in enum_type.__members__.values()
        }
        super().__init__(default, required, required_default)

    def type(self) -> str:
        return "enum"

    def python_type(self) -> PythonType:
        return self.enum_type

    def validate_type(self, name: str, val: Any) -> Any:
        if val is None or isinstance(val, self.enum_type):
            return val
        kind = type(val)  # exactly: True is no 1 here, nor is another enum's member
        if kind is str and val in self.enum_type.__members__:
            return self.enum_type.__members__[val]
        if kind in (str, int) and val in self.values:
            return self.values[val]
        members = ", ".join(self.enum_type.__members__)
        raise _wrong(name, val, f"{self.enum_type.__name__}, one of {members}")

    def schema_info(self, defined_names: set[str]) -> AvroType:
        name = self.enum_type.__name__
        if name in defined_names:
            return name
        defined_names.add(name)
        symbols = [member.name for member in self.enum_type]
        return {"type": self.type(), "name": name, "symbols": symbols}


class Array(Field):
    """A list whose items are all of one kind."""

    def __init__(
        self,
        array_type: Any,
        default: Any = None,
        required: bool = False,
        required_default: bool = False,
    ) -> None:
        self.array_type: Field | Record = _element("Array", array_type)
        super().__init__(default, required, required_default)

    def type(self) -> str:
        return "array"

    def python_type(self) -> PythonType:
        return list

    def validate_type(self, name: str, val: Any) -> Any:
        if val is None:
            return None
        if not isinstance(val, list):
            raise _wrong(name, val, "list")
        if isinstance(self.array_type, CustomEnum):
            return [_member(self.array_type, name, item) for item in val]
        kind = self.array_type.python_type()
        for item in val:
            if not isinstance(item, kind):
                raise _wrong(f"an item of {name}", item, _names(kind))
        return val

    def schema_info(self, defined_names: set[str]) -> AvroType:
        return {"type": self.type(), "items": self.array_type.schema_info(defined_names)}


class Map(Field):
    """A dict from text to values of one kind."""

    def __init__(
        self,
        value_type: Any,
        default: Any = None,
        required: bool = False,
        required_default: bool = False,
    ) -> None:
        self.value_type: Field | Record = _element("Map", value_type)
        super().__init__(default, required, required_default)

    def type(self) -> str:
        return "map"

    def python_type(self) -> PythonType:
        return dict

    def validate_type(self, name: str, val: Any) -> Any:
        if val is None:
            return None
        if not isinstance(val, dict):
            raise _wrong(name, val, "dict")
        for key in val:
            if not isinstance(key, str):
                raise _wrong(f"a key of {name}", key, "str")
        if isinstance(self.value_type, CustomEnum):
            return {key: _member(self.value_type, name, item) for key, item in val.items()}
        kind = self.value_type.python_type()
        for item in val.values():
            if not isinstance(item, kind):
                raise _wrong(f"a value of {name}", item, _names(kind))
        return val

    def schema_info(self, defined_names: set[str]) -> AvroType:
        return {"type": self.type(), "values": self.value_type.schema_info(defined_names)}


def _element(owner: str, kind: Any) -> Field | Record:
    """Returns what a container holds; a record's class will do, as it does for a field."""
    if isinstance(kind, RecordMeta):
        kind = kind()
    if isinstance(kind, (Field, Record)):
        return kind
    raise UsageError(f"{owner} cannot hold {kind!r}: give it a field such as String(), or a Record")


def _member(kind: CustomEnum, name: str, item: Any) -> Any:
    """Returns an item as a member of an enum; unlike a field it is never null."""
    if item is None:
        raise _wrong(f"an item of {name}", item, kind.enum_type.__name__)
    return kind.validate_type(f"an item of {name}", item)
