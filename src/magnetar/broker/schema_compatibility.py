"""When one schema may follow another: definitions, and what can read what.

A schema is a type, a definition in bytes and properties. Of what the types define:

- Avro, Json and Protobuf hold an Avro schema in JSON, and Avro's resolution decides: data of
  the writer's schema must be readable with the reader's. Json may hold a JSON Schema instead,
  as clients before Pulsar 2.1 wrote it; there is nothing to resolve then, see `_json_problem`.
- Primitive types define nothing: the same type is compatible, another is not.
- KeyValue holds two schemas, each of which follows its own rules.
- ProtobufNative holds file descriptors. Like Pulsar by default we ask only that the root
  message keeps its name: fields are the producer's own responsibility.
- External is for a registry elsewhere, which is the one to ask.

Resolution follows Avro for Java, since that is what Pulsar's broker and most of its clients
read with: records are matched by their fields and not by their names. In one place it is
stricter: an enum that may meet a symbol it does not know is not compatible.

Definitions come from clients, so depth and work are bounded. A `problem` is a sentence, or
None if there is none; a definition that is not valid raises BrokerError.
"""

import base64
import binascii
import json
from typing import Final, final

from magnetar.errors import BrokerError
from magnetar.model.enums import SchemaType, ServerError

__all__ = [
    "ALWAYS_COMPATIBLE",
    "ALWAYS_INCOMPATIBLE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
    "TRANSITIVE",
    "UNDEFINED",
    "AvroType",
    "SchemaInfo",
    "compatibility_problem",
    "key_value_parts",
    "parse_avro",
    "read_problem",
    "same_definition",
    "validate",
]

UNDEFINED: Final = "UNDEFINED"
ALWAYS_INCOMPATIBLE: Final = "ALWAYS_INCOMPATIBLE"
ALWAYS_COMPATIBLE: Final = "ALWAYS_COMPATIBLE"
BACKWARD: Final = "BACKWARD"
FORWARD: Final = "FORWARD"
FULL: Final = "FULL"
BACKWARD_TRANSITIVE: Final = "BACKWARD_TRANSITIVE"
FORWARD_TRANSITIVE: Final = "FORWARD_TRANSITIVE"
FULL_TRANSITIVE: Final = "FULL_TRANSITIVE"

# The new schema must read what the old one wrote; the old one must read what the new one writes.
_NEW_READS: Final = (BACKWARD, BACKWARD_TRANSITIVE, FULL, FULL_TRANSITIVE)
_OLD_READS: Final = (FORWARD, FORWARD_TRANSITIVE, FULL, FULL_TRANSITIVE)
TRANSITIVE: Final = (BACKWARD_TRANSITIVE, FORWARD_TRANSITIVE, FULL_TRANSITIVE)

# Parsing takes time by the byte. Pulsar has the limit of a frame, 5 MiB.
DEFINITION_BYTES_MAX: Final = 1 << 20
# Compiled code does not survive deep recursion. Types of people nest less than ten deep.
DEPTH_MAX: Final = 100
# A level of a definition is up to two of resolution: a union on either side.
RESOLVE_DEPTH_MAX: Final = 2 * DEPTH_MAX
# Comparisons of two types: wide unions of records take the product of their branches.
RESOLVE_STEPS_MAX: Final = 100_000

_AVRO_TYPES: Final = (int(SchemaType.Avro), int(SchemaType.Json), int(SchemaType.Protobuf))
_NOT_PRIMITIVE: Final = (
    *_AVRO_TYPES,
    int(SchemaType.KeyValue),
    int(SchemaType.ProtobufNative),
    int(SchemaType.AutoConsume),
    int(SchemaType.External),
)
# Java's client names the types of a key and a value in capitals.
_TYPE_NAMES: Final = {
    "NONE": int(SchemaType.NONE),
    "BYTES": int(SchemaType.NONE),
    "STRING": int(SchemaType.String),
    "JSON": int(SchemaType.Json),
    "PROTOBUF": int(SchemaType.Protobuf),
    "AVRO": int(SchemaType.Avro),
    "BOOLEAN": int(SchemaType.Bool),
    "INT8": int(SchemaType.Int8),
    "INT16": int(SchemaType.Int16),
    "INT32": int(SchemaType.Int32),
    "INT64": int(SchemaType.Int64),
    "FLOAT": int(SchemaType.Float),
    "DOUBLE": int(SchemaType.Double),
    "DATE": int(SchemaType.Date),
    "TIME": int(SchemaType.Time),
    "TIMESTAMP": int(SchemaType.Timestamp),
    "KEY_VALUE": int(SchemaType.KeyValue),
    "INSTANT": int(SchemaType.Instant),
    "LOCAL_DATE": int(SchemaType.LocalDate),
    "LOCAL_TIME": int(SchemaType.LocalTime),
    "LOCAL_DATE_TIME": int(SchemaType.LocalDateTime),
    "PROTOBUF_NATIVE": int(SchemaType.ProtobufNative),
}

_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_RECORD: Final = "record"
_ENUM: Final = "enum"
_FIXED: Final = "fixed"
_ARRAY: Final = "array"
_MAP: Final = "map"
_UNION: Final = "union"
# What a reader of the second kind makes of the first.
_PROMOTIONS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
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
_JSON_SCHEMA_TYPES: Final = (
    "any",
    "array",
    "boolean",
    "integer",
    "null",
    "number",
    "object",
    "string",
)


def _refusal(reason: str) -> BrokerError:
    """A definition that is not valid, or a change that is not: the wire has one code."""
    return BrokerError(ServerError.IncompatibleSchema, reason)


@final
class SchemaInfo:
    """A schema as a client sends it."""

    def __init__(self, type: int, data: bytes, properties: dict[str, str] | None = None) -> None:
        self.type: Final[int] = type
        self.data: Final[bytes] = data
        self.properties: Final[dict[str, str]] = {} if properties is None else properties
        self._fingerprint: str | None = None

    @property
    def type_name(self) -> str:
        return SchemaType(self.type).name

    def fingerprint(self) -> str:
        """A text that equal definitions share, however they are written."""
        if self._fingerprint is None:
            self._fingerprint = _fingerprint_of(self)
        return self._fingerprint

    def __repr__(self) -> str:
        return f"SchemaInfo({self.type}, {self.data!r}, {self.properties!r})"


def _is_primitive(type: int) -> bool:
    known = int(SchemaType.NONE) <= type <= int(SchemaType.External)
    return known and type not in _NOT_PRIMITIVE


def _fingerprint_of(info: SchemaInfo) -> str:
    if _is_primitive(info.type):
        return ""  # nothing is defined, whether a client says so with no bytes or with `null`
    if info.type not in _AVRO_TYPES:
        return info.data.hex()
    avro = _avro_or_none(info)
    if avro is not None:
        return _canonical(avro, set())
    return "JSON Schema " + _dump(_load_json(info.data))


def same_definition(one: SchemaInfo, other: SchemaInfo) -> bool:
    """Whether both define the same: white space, `doc` and `aliases` do not count.

    >>> spaced = SchemaInfo(SchemaType.Avro, b'{"type": "array", "items": "int"}')
    >>> same_definition(spaced, SchemaInfo(SchemaType.Avro, b'{"items":"int","type":"array"}'))
    True
    """
    if one.type != other.type:
        return False
    return one.data == other.data or one.fingerprint() == other.fingerprint()


def validate(info: SchemaInfo) -> None:
    """Raise BrokerError unless the definition is one that its type can have."""
    if len(info.data) > DEFINITION_BYTES_MAX:
        raise _refusal(
            f"a schema definition of {len(info.data)} bytes exceeds the limit of "
            f"{DEFINITION_BYTES_MAX}: make it smaller"
        )
    if info.type in _AVRO_TYPES:
        _avro_or_none(info)
    elif info.type == SchemaType.KeyValue:
        key, value = key_value_parts(info)
        validate(key)
        validate(value)
    elif info.type == SchemaType.ProtobufNative:
        _root_message(info)
    elif info.type == SchemaType.AutoConsume:
        raise _refusal("AutoConsume is for clients only: give the schema that is meant")
    elif _is_primitive(info.type):
        _validate_primitive(info)
    elif info.type != SchemaType.External:
        raise _refusal(f"unknown schema type {info.type}: use one of Pulsar's")


def _validate_primitive(info: SchemaInfo) -> None:
    if info.type == SchemaType.NONE or not info.data:
        return
    if info.type == SchemaType.String and info.data == b"null":
        return  # so says the Python client
    raise _refusal(
        f"a schema of type {info.type_name} has no definition, but {len(info.data)} bytes were "
        "given: leave them out"
    )


def compatibility_problem(new: SchemaInfo, old: SchemaInfo, strategy: str) -> str | None:
    """Why `strategy` does not let `new` follow `old`, both of them valid; None if it does."""
    if strategy == ALWAYS_COMPATIBLE:
        return None
    if new.type != old.type:
        return f"the type changes from {old.type_name} to {new.type_name}"
    if same_definition(new, old):
        return None
    if strategy == ALWAYS_INCOMPATIBLE:
        return "no change is allowed"
    if new.type == SchemaType.KeyValue:
        return _key_value_problem(new, old, strategy)
    if new.type == SchemaType.ProtobufNative:
        return _protobuf_native_problem(new, old)
    if new.type == SchemaType.External:
        return None
    new_avro = _avro_or_none(new)
    old_avro = _avro_or_none(old)
    if new_avro is None or old_avro is None:
        return _json_problem(new, old, one_is_avro=(new_avro is None) != (old_avro is None))
    return _avro_problem(new_avro, old_avro, strategy)


def _avro_problem(new: "AvroType", old: "AvroType", strategy: str) -> str | None:
    if strategy in _NEW_READS:
        found = read_problem(reader=new, writer=old)
        if found is not None:
            return f"the new schema cannot read data of the old one: {found}"
    if strategy in _OLD_READS:
        found = read_problem(reader=old, writer=new)
        if found is not None:
            return f"the old schema cannot read data of the new one: {found}"
    return None


def _json_problem(new: SchemaInfo, old: SchemaInfo, *, one_is_avro: bool) -> str | None:
    """As Pulsar: any step to or from the old form of a Json schema; within it, the same id."""
    if one_is_avro:
        return None
    new_id = _load_object(new.data, "a JSON Schema").get("id")
    if new_id is not None and new_id == _load_object(old.data, "a JSON Schema").get("id"):
        return None
    return "both are JSON Schemas, and they differ: define the type with an Avro schema"


# Types of more than one part.


def key_value_parts(info: SchemaInfo) -> tuple[SchemaInfo, SchemaInfo]:
    """The schemas of the key and of the value, each behind its length in four bytes."""
    key, rest = _split(info.data, "key")
    value, rest = _split(rest, "value")
    if rest:
        raise _refusal(f"a KeyValue schema has {len(rest)} bytes behind the value's: remove them")
    return (_part(info, "key", key), _part(info, "value", value))


def _split(data: bytes, noun: str) -> tuple[bytes, bytes]:
    length = int.from_bytes(data[:4], "big", signed=True)
    if length == -1:  # the C++ client writes an empty part so
        length = 0
    if len(data) < 4 or length < 0 or len(data) < 4 + length:
        raise _refusal(f"a KeyValue schema ends within its {noun}: send it whole")
    return (data[4 : 4 + length], data[4 + length :])


def _part(info: SchemaInfo, noun: str, data: bytes) -> SchemaInfo:
    name = info.properties.get(f"{noun}.schema.type", "BYTES")
    type = _TYPE_NAMES.get(name)
    if type is None:
        raise _refusal(f"a KeyValue schema cannot have a {noun} of type {name!r}")
    text = info.properties.get(f"{noun}.schema.properties", "")
    properties: dict[str, str] = {}
    if text:
        for key, value in _load_object(text.encode(), f"{noun}.schema.properties").items():
            properties[key] = str(value)
    return SchemaInfo(type, data, properties)


def _key_value_problem(new: SchemaInfo, old: SchemaInfo, strategy: str) -> str | None:
    new_key, new_value = key_value_parts(new)
    old_key, old_value = key_value_parts(old)
    found = compatibility_problem(new_key, old_key, strategy)
    if found is not None:
        return f"key: {found}"
    found = compatibility_problem(new_value, old_value, strategy)
    return None if found is None else f"value: {found}"


def _protobuf_native_problem(new: SchemaInfo, old: SchemaInfo) -> str | None:
    new_root, old_root = _root_message(new), _root_message(old)
    if new_root == old_root:
        return None
    return f"the root message changes from {old_root} to {new_root}"


def _root_message(info: SchemaInfo) -> str:
    """The name of the message that a ProtobufNative schema is about."""
    found = _load_object(info.data, "a ProtobufNative schema")
    for key in ("fileDescriptorSet", "rootMessageTypeName", "rootFileDescriptorName"):
        if not isinstance(found.get(key), str):
            raise _refusal(f"a ProtobufNative schema needs {key}, a text")
    try:
        base64.b64decode(str(found["fileDescriptorSet"]), validate=True)
    except binascii.Error as error:
        raise _refusal(f"fileDescriptorSet is not base64: {error}") from error
    return str(found["rootMessageTypeName"])


# JSON.


def _load_json(data: bytes) -> object:
    try:
        found: object = json.loads(data.decode())
    except ValueError as error:
        raise _refusal(f"the schema definition is not JSON: {error}") from error
    except RecursionError:
        raise _refusal("the schema definition is nested too deep: flatten it") from None
    return found


def _load_object(data: bytes, noun: str) -> dict[str, object]:
    found = _load_json(data)
    if not isinstance(found, dict):
        raise _refusal(f"{noun} is not a JSON object: write it in braces")
    return found


def _dump(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _avro_or_none(info: SchemaInfo) -> "AvroType | None":
    """The Avro schema; None if a Json schema is a JSON Schema."""
    found = _load_json(info.data)
    try:
        return _AvroParser().parse(found, "", "", 0)
    except BrokerError:
        if info.type == SchemaType.Json and _is_json_schema(found):
            return None
        raise


def _is_json_schema(found: object) -> bool:
    return isinstance(found, dict) and found.get("type") in _JSON_SCHEMA_TYPES


# Avro.


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
        if self.kind == _UNION:
            return f"[{', '.join([str(part) for part in self.parts])}]"
        return f"{self.kind} {self.name}" if self.name else self.kind


def parse_avro(data: bytes) -> AvroType:
    """The Avro schema that the JSON text defines. Raises BrokerError.

    >>> str(parse_avro(b'["null", {"type": "enum", "name": "Coin", "symbols": ["HEAD"]}]'))
    '[null, enum Coin]'
    """
    return _AvroParser().parse(_load_json(data), "", "", 0)


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
            raise self._invalid(path, f"a type cannot be {_dump(value)}")
        kind = value.get("type")
        if not isinstance(kind, str):
            if kind is None:
                raise self._invalid(path, "the type is missing")
            return self.parse(kind, namespace, path, depth + 1)
        extra = _extra(value, _TYPE_KEYS)
        if kind in _PRIMITIVES:
            return AvroType(kind, extra=extra)
        if kind in (_ARRAY, _MAP):
            return self._container(value, kind, extra, namespace, path, depth)
        if kind in (_RECORD, "error", _ENUM, _FIXED):
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
        union = AvroType(_UNION)
        seen: set[str] = set()
        for item in value:
            part = self.parse(item, namespace, path, depth + 1)
            if part.kind == _UNION:
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
        key = "items" if kind == _ARRAY else "values"
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
        type = AvroType(_RECORD if kind == "error" else kind, name=name, extra=extra)
        inner = name.rpartition(".")[0]
        type.aliases = [_full_name(alias, inner) for alias in _texts(value, "aliases")]
        self._named[name] = type
        if type.kind == _ENUM:
            self._define_enum(type, value, path)
        elif type.kind == _FIXED:
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
                raise self._invalid(path, f"a field of {type.name} cannot be {_dump(item)}")
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
            default=_dump(value["default"]) if "default" in value else None,
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
        return _refusal(f"not an Avro schema{where}: {why}")


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
    return _dump(left) if left else ""


def _canonical(type: AvroType, seen: set[str]) -> str:
    """The type in one form; named ones in full the first time, then by name."""
    if type.name in seen:
        return type.name
    if type.name:
        seen.add(type.name)
    parts = [_canonical(part, seen) for part in type.parts]
    for field in type.fields:
        inner = _canonical(field.type, seen)
        parts.append(f"{field.name}:{inner}={field.default}{field.extra}")
    parts += type.symbols
    return f"{type}/{type.size}/{type.default}/{type.extra}({','.join(parts)})"


# Resolution.


def read_problem(*, reader: AvroType, writer: AvroType) -> str | None:
    """Why data of `writer` cannot be read with `reader`; None if all of it can be.

    >>> old = parse_avro(b'{"type": "record", "name": "A", "fields": []}')
    >>> new = parse_avro(
    ...     b'{"type": "record", "name": "A", "fields": [{"name": "b", "type": "int"}]}'
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
            raise _refusal("the schema is too large or too deep to be compared: simplify it")
        if writer.kind == _UNION:
            for part in writer.parts:
                found = self.problem(reader, part, path, depth + 1)
                if found is not None:
                    return found
            return None
        if reader.kind == _UNION:
            return self._branch(reader, writer, path, depth)
        if reader.kind != writer.kind:
            if reader.kind in _PROMOTIONS.get(writer.kind, ()):
                return None
            return f"{_where(path)} is {writer} in the data, and {reader} cannot hold that"
        if reader.kind == _RECORD:
            return self._record(reader, writer, path, depth)
        if reader.kind in (_ENUM, _FIXED):
            return _enum_problem(reader, writer, path)
        if reader.kind in (_ARRAY, _MAP):
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
