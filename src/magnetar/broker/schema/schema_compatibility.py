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

A `problem` is a sentence, or None if there is none; a definition that is not valid raises
BrokerError. What takes time is there twice: in steps (`work.py`), and at once.
"""

import base64
import binascii
import hashlib
from collections.abc import Generator
from typing import Final, final

from magnetar.broker.schema.avro_resolution import read_problem_steps
from magnetar.broker.schema.avro_type import AvroType, canonical_steps, parse_steps
from magnetar.broker.schema.schema_json import dump_json, load_json, load_object, refusal
from magnetar.broker.turn.work import finish
from magnetar.errors import BrokerError
from magnetar.model.enums import SchemaType

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
    "TYPES",
    "TYPE_NAMES",
    "UNDEFINED",
    "SchemaInfo",
    "compatibility_problem",
    "compatibility_steps",
    "key_value_parts",
    "same_definition",
    "same_definition_steps",
    "split_pair",
    "validate",
    "validate_steps",
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

# Parsing takes time and memory by the byte; schemas of people have a few kilobytes. Pulsar has
# the limit of a frame, 5 MiB. The setting `schema_size_max` may say otherwise.
DEFINITION_BYTES_MAX: Final = 256 << 10

_AVRO_TYPES: Final = (int(SchemaType.Avro), int(SchemaType.Json), int(SchemaType.Protobuf))
_NOT_PRIMITIVE: Final = (
    *_AVRO_TYPES,
    int(SchemaType.KeyValue),
    int(SchemaType.ProtobufNative),
    int(SchemaType.AutoConsume),
    int(SchemaType.External),
)
_NOT_A_PART: Final = (int(SchemaType.AutoConsume), int(SchemaType.External))

_NAMES: Final[dict[SchemaType, str]] = {
    SchemaType.Bool: "BOOLEAN",
    SchemaType.KeyValue: "KEY_VALUE",
    SchemaType.LocalDate: "LOCAL_DATE",
    SchemaType.LocalTime: "LOCAL_TIME",
    SchemaType.LocalDateTime: "LOCAL_DATE_TIME",
    SchemaType.ProtobufNative: "PROTOBUF_NATIVE",
    SchemaType.AutoConsume: "AUTO_CONSUME",
}
# Types as Java's client names them; those that are not above differ in case only.
TYPE_NAMES: Final[dict[int, str]] = {
    int(type): _NAMES.get(type, type.name.upper()) for type in SchemaType
}
TYPES: Final[dict[str, int]] = {name: number for number, name in TYPE_NAMES.items()} | {
    "BYTES": int(SchemaType.NONE)
}

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


@final
class SchemaInfo:
    """A schema as a client sends it."""

    def __init__(self, type: int, data: bytes, properties: dict[str, str] | None = None) -> None:
        self.type: Final[int] = type
        self.data: Final[bytes] = data
        self.properties: Final[dict[str, str]] = {} if properties is None else properties
        self._fingerprint: str | None = None
        # What was parsed of it: it is much larger than the definition, and may be forgotten.
        self._avro: AvroType | None = None
        self._is_parsed: bool = False
        self._parts: tuple[SchemaInfo, SchemaInfo] | None = None

    @property
    def type_name(self) -> str:
        return SchemaType(self.type).name

    def fingerprint_steps(self) -> Generator[None, None, str]:
        """Returns a text that equal definitions share, however they are written."""
        if self._fingerprint is None:
            text = yield from _fingerprint_of(self)
            self._fingerprint = hashlib.sha256(text.encode()).hexdigest()
        return self._fingerprint

    def avro_steps(self) -> Generator[None, None, AvroType | None]:
        """Returns the Avro schema; None if a Json schema is a JSON Schema. Raises BrokerError."""
        if not self._is_parsed:
            self._avro = yield from _avro_or_none(self)
            self._is_parsed = True
        return self._avro

    def parts(self) -> "tuple[SchemaInfo, SchemaInfo]":
        """Returns the schemas of the key and of the value. Raises BrokerError."""
        if self._parts is None:
            self._parts = key_value_parts(self)
        return self._parts

    def forget_parsed(self) -> None:
        """Keeps the definition alone, which is parsed again when it is needed."""
        self._avro = None
        self._is_parsed = False
        self._parts = None

    def __repr__(self) -> str:
        return f"SchemaInfo({self.type}, {self.data!r}, {self.properties!r})"


def _is_primitive(type: int) -> bool:
    known = int(SchemaType.NONE) <= type <= int(SchemaType.External)
    return known and type not in _NOT_PRIMITIVE


def _fingerprint_of(info: SchemaInfo) -> Generator[None, None, str]:
    if _is_primitive(info.type):
        return ""  # nothing is defined, whether a client says so with no bytes or with `null`
    if info.type not in _AVRO_TYPES:
        return info.data.hex()
    avro = yield from info.avro_steps()
    if avro is not None:
        return (yield from canonical_steps(avro))
    return "JSON Schema " + dump_json(load_json(info.data))


def same_definition(one: SchemaInfo, other: SchemaInfo) -> bool:
    """Returns whether both define the same: white space, `doc` and `aliases` do not count.

    >>> spaced = SchemaInfo(SchemaType.Avro, b'{"type": "array", "items": "int"}')
    >>> same_definition(spaced, SchemaInfo(SchemaType.Avro, b'{"items":"int","type":"array"}'))
    True
    """
    return finish(same_definition_steps(one, other))


def same_definition_steps(one: SchemaInfo, other: SchemaInfo) -> Generator[None, None, bool]:
    """Does what `same_definition` does, in steps."""
    if one.type != other.type:
        return False
    if one.data == other.data:
        return True
    first = yield from one.fingerprint_steps()
    second = yield from other.fingerprint_steps()
    return first == second


def validate(info: SchemaInfo) -> None:
    """Raise BrokerError unless the definition is one that its type can have."""
    finish(validate_steps(info))


def validate_steps(
    info: SchemaInfo, size_max: int = DEFINITION_BYTES_MAX
) -> Generator[None, None, None]:
    """Does what `validate` does, in steps; the definition may have so many bytes."""
    if len(info.data) > size_max:
        raise refusal(
            f"a schema definition of {len(info.data)} bytes exceeds the limit of {size_max}: make "
            "it smaller, or raise schema_size_max"
        )
    if info.type in _AVRO_TYPES:
        yield from info.avro_steps()
    elif info.type == SchemaType.KeyValue:
        key, value = info.parts()
        yield from validate_steps(key, size_max)
        yield from validate_steps(value, size_max)
    elif info.type == SchemaType.ProtobufNative:
        _root_message(info)
    elif info.type == SchemaType.AutoConsume:
        raise refusal("AutoConsume is for clients only: give the schema that is meant")
    elif _is_primitive(info.type):
        _validate_primitive(info)
    elif info.type != SchemaType.External:
        raise refusal(f"unknown schema type {info.type}: use one of Pulsar's")


def _validate_primitive(info: SchemaInfo) -> None:
    if info.type == SchemaType.NONE or not info.data:
        return
    if info.type == SchemaType.String and info.data == b"null":
        return  # so says the Python client
    raise refusal(
        f"a schema of type {info.type_name} has no definition, but {len(info.data)} bytes were "
        "given: leave them out"
    )


def compatibility_problem(new: SchemaInfo, old: SchemaInfo, strategy: str) -> str | None:
    """Returns why `strategy` does not let `new` follow `old`, both of them valid; None if it
    does."""
    return finish(compatibility_steps(new, old, strategy))


def compatibility_steps(
    new: SchemaInfo, old: SchemaInfo, strategy: str
) -> Generator[None, None, str | None]:
    """Does what `compatibility_problem` does, in steps."""
    if strategy == ALWAYS_COMPATIBLE:
        return None
    if new.type != old.type:
        return f"the type changes from {old.type_name} to {new.type_name}"
    if (yield from same_definition_steps(new, old)):
        return None
    if strategy == ALWAYS_INCOMPATIBLE:
        return "no change is allowed"
    if new.type == SchemaType.KeyValue:
        return (yield from _key_value_problem(new, old, strategy))
    if new.type == SchemaType.ProtobufNative:
        return _protobuf_native_problem(new, old)
    if new.type == SchemaType.External:
        return None
    new_avro = yield from new.avro_steps()
    old_avro = yield from old.avro_steps()
    if new_avro is None or old_avro is None:
        return _json_problem(new, old, one_is_avro=(new_avro is None) != (old_avro is None))
    return (yield from _avro_problem(new_avro, old_avro, strategy))


def _avro_problem(new: AvroType, old: AvroType, strategy: str) -> Generator[None, None, str | None]:
    if strategy in _NEW_READS:
        found = yield from read_problem_steps(reader=new, writer=old)
        if found is not None:
            return f"the new schema cannot read data of the old one: {found}"
    if strategy in _OLD_READS:
        found = yield from read_problem_steps(reader=old, writer=new)
        if found is not None:
            return f"the old schema cannot read data of the new one: {found}"
    return None


def _json_problem(new: SchemaInfo, old: SchemaInfo, *, one_is_avro: bool) -> str | None:
    """Returns why a Json schema may not follow another, None if it may.

    As in Pulsar, any step to or from the old form of a Json schema is allowed, and two of that form
    must have the same id.
    """
    if one_is_avro:
        return None
    new_id = load_object(new.data, "a JSON Schema").get("id")
    if new_id is not None and new_id == load_object(old.data, "a JSON Schema").get("id"):
        return None
    return "both are JSON Schemas, and they differ: define the type with an Avro schema"


# Types of more than one part.


def key_value_parts(info: SchemaInfo) -> tuple[SchemaInfo, SchemaInfo]:
    """Returns the schemas of the key and of the value."""
    key, value = split_pair(info.data)
    return (_part(info, "key", key), _part(info, "value", value))


def split_pair(data: bytes) -> tuple[bytes, bytes]:
    """Returns the definitions of key and value, of which each stands behind its length in four
    bytes."""
    key, rest = _split(data, "key")
    value, rest = _split(rest, "value")
    if rest:
        raise refusal(f"a KeyValue schema has {len(rest)} bytes behind the value's: remove them")
    return (key, value)


def _split(data: bytes, noun: str) -> tuple[bytes, bytes]:
    length = int.from_bytes(data[:4], "big", signed=True)
    if length == -1:  # the C++ client writes an empty part so
        length = 0
    if len(data) < 4 or length < 0 or len(data) < 4 + length:
        raise refusal(f"a KeyValue schema ends within its {noun}: send it whole")
    return (data[4 : 4 + length], data[4 + length :])


def _part(info: SchemaInfo, noun: str, data: bytes) -> SchemaInfo:
    name = info.properties.get(f"{noun}.schema.type", "BYTES")
    type = TYPES.get(name)
    if type is None or type in _NOT_A_PART:
        raise refusal(f"a KeyValue schema cannot have a {noun} of type {name!r}")
    text = info.properties.get(f"{noun}.schema.properties", "")
    properties: dict[str, str] = {}
    if text:
        for key, value in load_object(text.encode(), f"{noun}.schema.properties").items():
            properties[key] = str(value)
    return SchemaInfo(type, data, properties)


def _key_value_problem(
    new: SchemaInfo, old: SchemaInfo, strategy: str
) -> Generator[None, None, str | None]:
    new_key, new_value = new.parts()
    old_key, old_value = old.parts()
    found = yield from compatibility_steps(new_key, old_key, strategy)
    if found is not None:
        return f"key: {found}"
    found = yield from compatibility_steps(new_value, old_value, strategy)
    return None if found is None else f"value: {found}"


def _protobuf_native_problem(new: SchemaInfo, old: SchemaInfo) -> str | None:
    new_root, old_root = _root_message(new), _root_message(old)
    if new_root == old_root:
        return None
    return f"the root message changes from {old_root} to {new_root}"


def _root_message(info: SchemaInfo) -> str:
    """Returns the name of the message that a ProtobufNative schema is about."""
    found = load_object(info.data, "a ProtobufNative schema")
    for key in ("fileDescriptorSet", "rootMessageTypeName", "rootFileDescriptorName"):
        if not isinstance(found.get(key), str):
            raise refusal(f"a ProtobufNative schema needs {key}, a text")
    try:
        base64.b64decode(str(found["fileDescriptorSet"]), validate=True)
    except binascii.Error as error:
        raise refusal(f"fileDescriptorSet is not base64: {error}") from error
    return str(found["rootMessageTypeName"])


def _avro_or_none(info: SchemaInfo) -> Generator[None, None, AvroType | None]:
    found = load_json(info.data)
    try:
        return (yield from parse_steps(found))
    except BrokerError:
        if info.type == SchemaType.Json and _is_json_schema(found):
            return None
        raise


def _is_json_schema(found: object) -> bool:
    return isinstance(found, dict) and found.get("type") in _JSON_SCHEMA_TYPES
