"""Which schemas may follow which, what can read what, and what is no schema at all."""

import base64
import io
import json
from collections.abc import Callable
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.broker.schema.avro_resolution import read_problem
from magnetar.broker.schema.avro_type import DEPTH_MAX, parse_avro
from magnetar.broker.schema.schema_compatibility import (
    ALWAYS_COMPATIBLE,
    ALWAYS_INCOMPATIBLE,
    BACKWARD,
    BACKWARD_TRANSITIVE,
    DEFINITION_BYTES_MAX,
    FORWARD,
    FORWARD_TRANSITIVE,
    FULL,
    FULL_TRANSITIVE,
    SchemaInfo,
    compatibility_problem,
    key_value_parts,
    same_definition,
    validate,
)
from magnetar.errors import BrokerError
from magnetar.model import SchemaType, ServerError

Json = Any

PRIMITIVES = [
    SchemaType.String,
    SchemaType.Bool,
    SchemaType.Int8,
    SchemaType.Int64,
    SchemaType.Double,
    SchemaType.Timestamp,
    SchemaType.LocalDateTime,
]


def encoded(definition: Json) -> bytes:
    return json.dumps(definition).encode()


def record(*fields: Json, name: str = "User", **more: Json) -> Json:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, type: Json = "int", **more: Json) -> Json:
    return {"name": name, "type": type, **more}


def enum(*symbols: str, name: str = "Color", **more: Json) -> Json:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "Hash") -> Json:
    return {"type": "fixed", "name": name, "size": size}


def array(items: Json) -> Json:
    return {"type": "array", "items": items}


def mapping(values: Json) -> Json:
    return {"type": "map", "values": values}


def avro(definition: Json) -> SchemaInfo:
    return SchemaInfo(SchemaType.Avro, encoded(definition))


def reading(reader: Json, writer: Json) -> str | None:
    return read_problem(reader=parse_avro(reader), writer=parse_avro(writer))


def refusal_of(info: SchemaInfo) -> str:
    with pytest.raises(BrokerError) as caught:
        validate(info)
    assert caught.value.code == ServerError.IncompatibleSchema
    return caught.value.reason


# ---- Avro's resolution


@pytest.mark.parametrize(
    ("writer", "readers"),
    [
        ("null", {"null"}),
        ("boolean", {"boolean"}),
        ("int", {"int", "long", "float", "double"}),
        ("long", {"long", "float", "double"}),
        ("float", {"float", "double"}),
        ("double", {"double"}),
        ("string", {"string", "bytes"}),
        ("bytes", {"string", "bytes"}),
    ],
)
def test_primitives_are_read_as_themselves_or_promoted(writer: str, readers: set[str]) -> None:
    kinds = ["null", "boolean", "int", "long", "float", "double", "string", "bytes"]
    assert {kind for kind in kinds if reading(kind, writer) is None} == readers


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        # Fields: any order, extra ones skipped, missing ones from their defaults.
        (record(field("a"), field("b")), record(field("b"), field("a"))),
        (record(), record(field("a"))),
        (record(field("a", default=7)), record()),
        (record(field("a", ["null", "int"], default=None)), record()),
        (record(field("new", aliases=["old"])), record(field("old"))),
        # Records go by their fields, whatever their names; others by name without namespace.
        (record(field("a"), name="x.A"), record(field("a"), name="B")),
        (enum("RED", namespace="a"), enum("RED", namespace="b")),
        (enum("RED", aliases=["Colour"]), enum("RED", name="Colour")),
        (enum("RED", "BLUE"), enum("RED")),
        (enum("RED", default="RED"), enum("RED", "BLUE")),
        (fixed(4), fixed(4)),
        # Containers and unions.
        (array("long"), array("int")),
        (mapping("double"), mapping("float")),
        (["null", "int"], "int"),
        (["null", "long"], "int"),
        (["null", "int"], ["int", "null"]),
        (["string", "null", "int"], ["null", "int"]),
        ("int", ["int"]),
        (["null", record(field("a"), name="A")], record(field("a"), name="B")),
        ([enum("A", name="X"), enum("B", name="Y")], [enum("B", name="Y")]),
        # A logical type is what is beneath it.
        ({"type": "long", "logicalType": "timestamp-millis"}, "long"),
        ({"type": {"type": "string"}}, "string"),
        ({"type": "error", "name": "E", "fields": []}, record()),
    ],
)
def test_what_can_be_read(reader: Json, writer: Json) -> None:
    assert reading(reader, writer) is None


@pytest.mark.parametrize(
    ("reader", "writer", "problem"),
    [
        (
            record(field("a")),
            record(),
            "field 'a' is missing in the data and has no default: give it one",
        ),
        (
            record(field("a")),
            record(field("a", "string")),
            "field 'a' is string in the data, and int cannot hold that",
        ),
        ("string", record(), "the whole is record User in the data, and string cannot hold that"),
        (
            record(field("a", record(field("b", array("int")), name="Inner"))),
            record(field("a", record(field("b", array("long")), name="Inner"))),
            "field 'a.b[]' is long in the data, and int cannot hold that",
        ),
        (
            enum("RED"),
            enum("RED", "BLUE", "MAUVE"),
            "the whole may be BLUE, MAUVE in the data, which enum Color does not know: "
            "give the enum a default",
        ),
        (
            enum("RED"),
            enum("RED", name="Colour"),
            "the whole is enum Colour in the data, which is not named Color",
        ),
        (fixed(4), fixed(5), "the whole has 5 bytes in the data, not 4"),
        (
            record(field("a", "int")),
            record(field("a", ["null", "int"])),
            "field 'a' is null in the data, and int cannot hold that",
        ),
        (
            record(field("a", ["null", "int"])),
            record(field("a", "string")),
            "field 'a' may be string in the data, which [null, int] does not have",
        ),
        (
            ["null", array("int")],
            array("string"),
            "field '[]' is string in the data, and int cannot hold that",
        ),
        ([], "int", "the whole may be int in the data, which [] does not have"),
    ],
)
def test_what_cannot_be_read_and_why(reader: Json, writer: Json, problem: str) -> None:
    assert reading(reader, writer) == problem


def linked(value: Json, name: str = "Node", **more: Json) -> Json:
    return record(field("value", value, **more), field("next", ["null", name]), name=name)


def test_records_may_contain_themselves() -> None:
    assert reading(linked("long"), linked("int")) is None
    assert reading(linked("int"), linked("long")) == (
        "field 'value' is long in the data, and int cannot hold that"
    )


def test_a_pair_that_fails_once_fails_again() -> None:
    """Two branches of the reader hold the same record, which the data does not fit."""
    reader = [
        record(field("a", record(field("b"), name="In")), name="First"),
        record(field("a", "In"), name="Second"),
    ]
    assert reading(reader, record(field("a", record(name="In")))) == (
        "field 'a.b' is missing in the data and has no default: give it one"
    )


def test_what_was_good_by_assumption_is_forgotten_with_it() -> None:
    """B passes within A because A is under way; A fails, so B on its own must fail too."""

    def definition(flag: str) -> Json:
        inner = record(field("up", "A"), name="B")
        return record(field("b", inner), field("flag", flag), name="A")

    reader = [definition("int"), record(field("b", "B"), name="C")]
    assert reading(reader, definition("string")) == (
        "field 'flag' is string in the data, and int cannot hold that"
    )


def test_comparing_ends_however_wide_the_schemas_are() -> None:
    wide = [record(field(f"f{n}"), name=f"R{n}") for n in range(400)]
    with pytest.raises(BrokerError, match="too large or too deep"):
        reading([*wide, record(name="Any")], [record(name=f"W{n}") for n in range(400)])


def test_comparing_ends_however_deep_the_schemas_are() -> None:
    """Flat to write, but a chain to follow: each record has a field of the one before."""

    def chain(prefix: str, length: int) -> Json:
        fields = [field(f"{prefix}0", record(name="R0"), default={})]
        for n in range(1, length):
            link = record(field("a", f"R{n - 1}"), name=f"R{n}")
            fields.append(field(f"{prefix}{n}", link, default={}))
        return record(*fields, field("top", f"R{length - 1}"))

    assert reading(chain("r", 150), chain("w", 150)) is None
    with pytest.raises(BrokerError, match="too large or too deep"):
        reading(chain("r", 300), chain("w", 300))


# ---- Definitions


def unrolled(depth: int) -> Json:
    out: Json = "int"
    for n in range(depth):
        out = record(field("a", out), name=f"N{n}")
    return out


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("strin", "not an Avro schema: unknown type 'strin'"),
        (7, "not an Avro schema: a type cannot be 7"),
        ({}, "not an Avro schema: the type is missing"),
        (record(field("a", {"items": "int"})), "not an Avro schema at field 'a': the type is"),
        (record({"name": "a"}), "not an Avro schema at field 'a': the type is missing"),
        (record({"type": "int"}), "not an Avro schema: the name is missing"),
        (record(field("a.b")), "not an Avro schema: 'a.b' cannot name a field"),
        (record(field("")), "not an Avro schema: '' cannot name a field"),
        (record(field("1")), "not an Avro schema: '1' cannot name a field"),
        (record(field("a"), field("a")), "not an Avro schema: record User has two fields 'a'"),
        (record(7), "not an Avro schema: a field of User cannot be 7"),
        ({"type": "record", "name": "A"}, "not an Avro schema: record A needs a list of fields"),
        ({"type": "record", "fields": []}, "not an Avro schema: the name is missing"),
        (record(name="int"), "not an Avro schema: 'int' cannot name a type"),
        (record(name="a-b"), "not an Avro schema: 'a-b' cannot name a type"),
        (record(field("a", record())), "not an Avro schema at field 'a': User is defined twice"),
        ({"type": "array"}, "not an Avro schema: array without items"),
        ({"type": "map"}, "not an Avro schema: map without values"),
        (["int", ["null"]], "not an Avro schema: a union directly within a union"),
        (["int", "int"], "not an Avro schema: a union with two of int"),
        (fixed(-1), "not an Avro schema: fixed Hash needs a size, in bytes"),
        (fixed(True), "not an Avro schema: fixed Hash needs a size, in bytes"),
        ({"type": "enum", "name": "E"}, "not an Avro schema: enum E needs a list of different"),
        (enum("A", "A"), "not an Avro schema: enum Color needs a list of different symbols"),
        (enum("A", default="B"), "not an Avro schema: the default of enum Color is not among"),
        (unrolled(DEPTH_MAX + 1), "nested more than 100 deep"),
    ],
)
def test_definitions_that_are_not_avro(definition: Json, reason: str) -> None:
    assert reason in refusal_of(avro(definition))


@pytest.mark.parametrize(
    "definition",
    [
        "string",
        ["null", "string"],
        unrolled(DEPTH_MAX // 2),
        record(field("b", record(name="Inner")), field("a", "Inner"), name="x.Outer"),
        record(field("b", record(name="Inner", namespace="")), field("a", "Inner"), name="x.Outer"),
        record(field("b", record(name="Outer$Inner")), field("a", "y.Outer$Inner"), namespace="y"),
        record(field("a", {"type": "User"}), namespace=None),
        record(field("a", enum("A", default="A"), doc="why", order="ignore")),
    ],
)
def test_definitions_that_are_avro(definition: Json) -> None:
    validate(avro(definition))
    validate(SchemaInfo(SchemaType.Json, encoded(definition)))
    validate(SchemaInfo(SchemaType.Protobuf, encoded(definition)))


def test_definitions_that_are_not_even_json() -> None:
    assert "is not JSON" in refusal_of(SchemaInfo(SchemaType.Avro, b"{"))
    assert "is not JSON" in refusal_of(SchemaInfo(SchemaType.Json, b"\xff"))
    deep = b"[" * 100_000 + b"]" * 100_000
    assert "nested too deep" in refusal_of(SchemaInfo(SchemaType.Avro, deep))
    long = b" " * (DEFINITION_BYTES_MAX + 1)
    assert "exceeds the limit" in refusal_of(SchemaInfo(SchemaType.Avro, long))


def test_a_json_schema_is_taken_for_json_only() -> None:
    definition = encoded({"type": "object", "id": "urn:a", "properties": {}})
    validate(SchemaInfo(SchemaType.Json, definition))
    assert "unknown type 'object'" in refusal_of(SchemaInfo(SchemaType.Avro, definition))
    broken = SchemaInfo(SchemaType.Json, encoded({"type": "record", "name": "A"}))
    assert "record A needs a list of fields" in refusal_of(broken)
    assert "unknown type" in refusal_of(SchemaInfo(SchemaType.Json, b'"object"'))


@pytest.mark.parametrize("type", PRIMITIVES)
def test_primitive_types_define_nothing(type: SchemaType) -> None:
    validate(SchemaInfo(type, b""))
    assert "has no definition, but 1 bytes" in refusal_of(SchemaInfo(type, b"x"))


def test_what_clients_send_for_nothing() -> None:
    validate(SchemaInfo(SchemaType.String, b"null"))
    validate(SchemaInfo(SchemaType.NONE, b"null"))
    validate(SchemaInfo(SchemaType.External, b"anything"))


def test_types_that_no_topic_can_have() -> None:
    assert "for clients only" in refusal_of(SchemaInfo(SchemaType.AutoConsume, b""))
    assert "unknown schema type 99" in refusal_of(SchemaInfo(99, b""))
    assert "unknown schema type -4" in refusal_of(SchemaInfo(-4, b""))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"type":"array","items":"int"}', b'{ "items": {"type": "int"},\n"type": "array" }'),
        (encoded(record(field("a"))), encoded(record(field("a", doc="x"), doc="y"))),
        (encoded(record(name="x.A")), encoded(record(name="A", namespace="x", aliases=["B"]))),
        (encoded(linked("int")), json.dumps(linked("int"), indent=2).encode()),
    ],
)
def test_the_same_definition_in_other_words(one: bytes, other: bytes) -> None:
    for type in (SchemaType.Avro, SchemaType.Json, SchemaType.Protobuf):
        assert same_definition(SchemaInfo(type, one), SchemaInfo(type, other))
    assert not same_definition(SchemaInfo(SchemaType.Avro, one), SchemaInfo(SchemaType.Json, one))


@pytest.mark.parametrize(
    "other",
    [
        record(field("b")),
        record(field("a", "long")),
        record(field("a", default=1)),
        record(field("a", order="ignore")),
        record(field("a", {"type": "int", "logicalType": "date"})),
        record(field("a", unit="m")),
        record(field("a"), name="Other"),
        record(field("a"), kind="x"),
        record(field("a", ["int"])),
    ],
)
def test_other_definitions(other: Json) -> None:
    assert not same_definition(avro(record(field("a"))), avro(other))


def test_definitions_that_are_not_avro_are_compared_too() -> None:
    def json_schema(text: bytes) -> SchemaInfo:
        return SchemaInfo(SchemaType.Json, text)

    assert same_definition(json_schema(b'{"type":"object"}'), json_schema(b'{"type": "object"}'))
    assert not same_definition(json_schema(b'{"type":"object"}'), json_schema(b'{"type":"any"}'))
    assert same_definition(
        SchemaInfo(SchemaType.String, b""), SchemaInfo(SchemaType.String, b"null")
    )
    native, other = SchemaInfo(SchemaType.ProtobufNative, b"a"), SchemaInfo(20, b"b")
    assert not same_definition(native, other)
    assert repr(other) == "SchemaInfo(20, b'b', {})"


# ---- Strategies

OLD = record(field("a"))
OPTIONAL = record(field("a"), field("b", default=0))
REQUIRED = record(field("a"), field("b"))
WITHOUT = record()


@pytest.mark.parametrize("type", [SchemaType.Avro, SchemaType.Json, SchemaType.Protobuf])
@pytest.mark.parametrize(
    ("new", "passes"),
    [
        (OLD, {"BACKWARD", "FORWARD", "FULL", "ALWAYS_INCOMPATIBLE"}),
        (OPTIONAL, {"BACKWARD", "FORWARD", "FULL"}),
        (REQUIRED, {"FORWARD"}),
        (WITHOUT, {"BACKWARD"}),
        (record(field("c")), set()),
    ],
)
def test_what_a_strategy_allows(type: SchemaType, new: Json, passes: set[str]) -> None:
    def allows(strategy: str) -> bool:
        old = SchemaInfo(type, encoded(OLD))
        return compatibility_problem(SchemaInfo(type, encoded(new)), old, strategy) is None

    assert allows(ALWAYS_COMPATIBLE)
    for strategy in (BACKWARD, FORWARD, FULL, ALWAYS_INCOMPATIBLE):
        assert allows(strategy) == (strategy in passes)
    pairs = [(BACKWARD, BACKWARD_TRANSITIVE), (FORWARD, FORWARD_TRANSITIVE)]
    for strategy, transitive in [*pairs, (FULL, FULL_TRANSITIVE)]:
        assert allows(strategy) == allows(transitive)


def test_a_problem_says_who_cannot_read_whom() -> None:
    missing = "field 'b' is missing in the data and has no default: give it one"
    assert compatibility_problem(avro(REQUIRED), avro(OLD), FULL) == (
        f"the new schema cannot read data of the old one: {missing}"
    )
    assert compatibility_problem(avro(OLD), avro(REQUIRED), FORWARD) == (
        f"the old schema cannot read data of the new one: {missing}"
    )
    assert compatibility_problem(avro(OPTIONAL), avro(OLD), ALWAYS_INCOMPATIBLE) == (
        "no change is allowed"
    )


def test_a_type_never_becomes_another() -> None:
    string, number = SchemaInfo(SchemaType.String, b""), SchemaInfo(SchemaType.Int32, b"")
    problem = "the type changes from String to Int32"
    assert compatibility_problem(number, string, FULL) == problem
    assert compatibility_problem(number, string, ALWAYS_COMPATIBLE) is None
    assert compatibility_problem(string, string, FULL) is None


def test_json_schemas_follow_avro_and_each_other_by_id() -> None:
    def json_schema(**more: Json) -> SchemaInfo:
        return SchemaInfo(SchemaType.Json, encoded({"type": "object", **more}))

    new = SchemaInfo(SchemaType.Json, encoded(OLD))
    assert compatibility_problem(new, json_schema(), FULL) is None
    assert compatibility_problem(json_schema(), new, FULL) is None
    assert compatibility_problem(json_schema(id="a", x=1), json_schema(id="a"), FULL) is None
    for key in ("id", "x"):
        one, other = json_schema(**{key: "a"}), json_schema(**{key: "b"})
        problem = compatibility_problem(one, other, FULL)
        assert problem is not None
        assert "both are JSON Schemas" in problem


def test_an_external_schema_is_checked_elsewhere() -> None:
    assert compatibility_problem(SchemaInfo(22, b"a"), SchemaInfo(22, b"b"), FULL) is None


# ---- Protobuf


def native(root: Json = "acme.Order", files: Json = "AAEC") -> SchemaInfo:
    definition = {
        "fileDescriptorSet": files,
        "rootMessageTypeName": root,
        "rootFileDescriptorName": "order.proto",
    }
    return SchemaInfo(SchemaType.ProtobufNative, encoded(definition))


def test_a_root_message_keeps_its_name() -> None:
    validate(native())
    assert compatibility_problem(native(files="AAED"), native(), FULL) is None
    assert compatibility_problem(native("acme.Item"), native(), FULL) == (
        "the root message changes from acme.Order to acme.Item"
    )


def test_protobuf_definitions_that_are_not_valid() -> None:
    assert "needs rootMessageTypeName" in refusal_of(native(root=7))
    assert "fileDescriptorSet is not base64" in refusal_of(native(files="?"))
    info = SchemaInfo(SchemaType.ProtobufNative, b"[]")
    assert "a ProtobufNative schema is not a JSON object" in refusal_of(info)


def test_base64_is_what_java_writes() -> None:
    validate(native(files=base64.b64encode(bytes(range(256))).decode()))


# ---- Keys and values


def key_value(
    key: SchemaInfo, value: SchemaInfo, types: tuple[str, str] = ("AVRO", "AVRO"), **more: str
) -> SchemaInfo:
    data = b"".join([len(part.data).to_bytes(4, "big") + part.data for part in (key, value)])
    properties = {"key.schema.type": types[0], "value.schema.type": types[1], **more}
    return SchemaInfo(SchemaType.KeyValue, data, properties)


def test_a_key_and_a_value_come_apart() -> None:
    more = {"key.schema.properties": '{"a": "b"}', "kv.encoding.type": "SEPARATED"}
    both = key_value(SchemaInfo(1, b""), avro(OLD), ("STRING", "AVRO"), **more)
    validate(both)
    key, value = key_value_parts(both)
    assert (key.type, key.data, key.properties) == (SchemaType.String, b"", {"a": "b"})
    assert (value.type, value.data, value.properties) == (SchemaType.Avro, encoded(OLD), {})


def test_parts_without_a_type_are_bytes_and_may_be_empty() -> None:
    from_cpp = SchemaInfo(SchemaType.KeyValue, b"\xff\xff\xff\xff" * 2)
    validate(from_cpp)
    assert [part.type for part in key_value_parts(from_cpp)] == [SchemaType.NONE] * 2


@pytest.mark.parametrize(
    ("data", "properties", "reason"),
    [
        (b"", {}, "ends within its key"),
        (b"\0\0\0\2a", {}, "ends within its key"),
        (b"\xff\xff\xff\xfe", {}, "ends within its key"),
        (b"\0\0\0\0\0\0\0", {}, "ends within its value"),
        (b"\0" * 9, {}, "has 1 bytes behind the value's"),
        (b"\0" * 8, {"key.schema.type": "ROW"}, "cannot have a key of type 'ROW'"),
        (b"\0" * 8, {"value.schema.type": "AVRO"}, "is not JSON"),
        (b"\0" * 8, {"key.schema.properties": "[]"}, "key.schema.properties is not a JSON object"),
        (b"\0" * 8, {"value.schema.properties": "{"}, "is not JSON"),
    ],
)
def test_keys_and_values_that_are_not_valid(
    data: bytes, properties: dict[str, str], reason: str
) -> None:
    assert reason in refusal_of(SchemaInfo(SchemaType.KeyValue, data, properties))


def test_keys_and_values_each_follow_their_rules() -> None:
    old = key_value(avro(OLD), avro(OLD))
    assert compatibility_problem(key_value(avro(OPTIONAL), avro(OPTIONAL)), old, FULL) is None
    for new, noun in [((REQUIRED, OLD), "key"), ((OLD, REQUIRED), "value")]:
        problem = compatibility_problem(key_value(avro(new[0]), avro(new[1])), old, BACKWARD)
        assert problem is not None
        assert problem.startswith(f"{noun}: the new schema cannot read")
    strings = key_value(SchemaInfo(1, b""), avro(OLD), ("STRING", "AVRO"))
    assert compatibility_problem(strings, old, FULL) == (
        "key: the type changes from Avro to String"
    )


# ---- Properties


def shapes() -> st.SearchStrategy[Json]:
    """Types over few names, so that two of them often have to do with each other."""
    simple = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "string"])
    enums = st.sets(st.sampled_from("ABC"), min_size=1).map(lambda s: ("enum", sorted(s)))

    def extend(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
        fields = st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
        return st.one_of(
            st.tuples(st.just("array"), inner),
            st.tuples(st.just("map"), inner),
            st.tuples(st.just("nullable"), inner),
            st.tuples(st.just("record"), fields),
        )

    return st.recursive(st.one_of(simple, enums), extend, max_leaves=6)


def built(shape: Json, counter: list[int]) -> Json:
    """The definition of a shape; every named type in a namespace of its own."""
    if isinstance(shape, str):
        return shape
    kind, inner = shape
    if kind == "enum":
        counter[0] += 1
        return enum(*inner, name="E", namespace=f"n{counter[0]}")
    if kind == "array":
        return array(built(inner, counter))
    if kind == "map":
        return mapping(built(inner, counter))
    if kind == "nullable":
        value = built(inner, counter)
        return value if value == "null" or isinstance(value, list) else ["null", value]
    counter[0] += 1
    name = f"n{counter[0]}.R"
    return record(*[field(key, built(value, counter)) for key, value in inner.items()], name=name)


SHAPES = shapes()


@given(SHAPES)
def test_every_type_reads_itself_however_it_is_written(shape: Json) -> None:
    definition = built(shape, [0])
    assert reading(definition, definition) is None
    spaced = SchemaInfo(SchemaType.Avro, json.dumps(definition, indent=3).encode())
    assert same_definition(avro(definition), spaced)


def evolved(shape: Json, draw: Callable[[int], int]) -> Json:
    """A shape that has become another in a few places; `draw` gives a number below another."""
    if isinstance(shape, str):
        return [shape, shape, "long", "double", "string", ("nullable", shape)][draw(6)]
    kind, inner = shape
    if kind == "enum":
        return (kind, [inner, ["A", "B", "C"]][draw(2)])
    if kind == "record":
        return (kind, {key: evolved(value, draw) for key, value in inner.items() if draw(5)})
    return evolved(inner, draw) if draw(8) == 0 else (kind, evolved(inner, draw))


def samples(definition: Json) -> list[Json]:
    """Values of the type: every branch of its unions and symbol of its enums in one of them."""
    if isinstance(definition, list):
        return [value for branch in definition for value in samples(branch)]
    if isinstance(definition, str):
        values = {"null": None, "boolean": True, "int": 7, "long": 1 << 40, "string": "text"}
        return [values.get(definition, 0.5)]
    if definition["type"] == "enum":
        return list(definition["symbols"])
    if definition["type"] == "array":
        return [[value] for value in samples(definition["items"])]
    if definition["type"] == "map":
        return [{"key": value} for value in samples(definition["values"])]
    out = [{f["name"]: samples(f["type"])[0] for f in definition["fields"]}]
    for f in definition["fields"]:
        out += [{**out[0], f["name"]: value} for value in samples(f["type"])[1:]]
    return out


def reads(reader: Json, writer: Json, value: Json) -> bool:
    """Whether fastavro, which nobody here wrote, reads what it has written."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(writer), value)
    stream.seek(0)
    try:
        fastavro.schemaless_reader(stream, writer, reader)
    except fastavro.read.SchemaResolutionError:
        return False
    return True


@given(SHAPES, SHAPES, st.data())
def test_another_library_reads_what_we_say_can_be_read(
    shape: Json, other: Json, data: st.DataObject
) -> None:
    """And it fails with some of the data where we say that it cannot be."""

    def draw(count: int) -> int:
        return data.draw(st.integers(0, count - 1))

    writer = built(shape, [0])
    reader = built(evolved(shape, draw) if draw(4) else other, [0])
    readable = all(reads(reader, writer, value) for value in samples(writer))
    assert (reading(reader, writer) is None) == readable


@given(st.binary(max_size=60), st.sampled_from(list(SchemaType)))
def test_garbage_is_refused_and_nothing_worse(data: bytes, type: SchemaType) -> None:
    try:
        validate(SchemaInfo(type, data, {"key.schema.type": "AVRO"}))
    except BrokerError as error:
        assert error.code == ServerError.IncompatibleSchema
