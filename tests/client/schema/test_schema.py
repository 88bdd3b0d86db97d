"""Schemas against those of the official client: what one writes, the other reads."""

import enum
import json
import subprocess
import sys
from types import ModuleType
from typing import Any

import _pulsar
import pulsar
import pulsar.schema
import pytest
from google.protobuf import api_pb2, type_pb2
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from support.wire_peer import WirePeer

import magnetar.schema
from magnetar.errors import SchemaDecodeError, SchemaTypeError, UsageError
from magnetar.model.enums import SchemaType
from magnetar.protocol import Command
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.schema import (
    Array,
    AvroSchema,
    Boolean,
    Bytes,
    BytesSchema,
    Double,
    Integer,
    JsonSchema,
    Long,
    Map,
    ProtobufNativeSchema,
    Record,
    Schema,
    SchemaInfo,
    String,
    StringSchema,
)

BOTH = [magnetar.schema, pulsar.schema]


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Size(enum.IntEnum):
    SMALL = 7
    LARGE = 8


def record(library: ModuleType, name: str, **fields: Any) -> Any:
    return type(library.Record)(name, (library.Record,), dict(fields))


def order(s: ModuleType) -> Any:
    inner = record(s, "Inner", a=s.Integer(), b=s.String(default="x", required_default=True))
    return record(
        s,
        "Order",
        flag=s.Boolean(),
        count=s.Integer(required=True),
        total=s.Long(),
        ratio=s.Double(),
        raw=s.Bytes(),
        text=s.String(),
        color=Color,
        size=s.CustomEnum(Size),
        names=s.Array(s.String()),
        numbers=s.Map(s.Long()),
        inner=inner(),
        inners=s.Array(inner()),
        named=s.Map(inner()),
    )


OURS, THEIRS = (order(library) for library in BOTH)
INNERS = st.fixed_dictionaries({"a": st.integers(-9, 9), "b": st.text(max_size=3)})
VALUES = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "count": st.integers(-(2**31), 2**31 - 1),
        "total": st.integers(-(2**63), 2**63 - 1) | st.none(),
        "ratio": st.floats(allow_nan=False) | st.none(),
        "raw": st.text().map(str.encode) | st.none(),
        "text": st.text() | st.none(),
        "color": st.sampled_from(Color) | st.none(),
        "size": st.sampled_from(Size) | st.none(),
        "names": st.lists(st.text(max_size=3), max_size=3) | st.none(),
        "numbers": st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=3) | st.none(),
        "inner": INNERS | st.none(),
        "inners": st.lists(INNERS, max_size=3) | st.none(),
        "named": st.dictionaries(st.text(max_size=3), INNERS, max_size=3) | st.none(),
    }
)


def info_of(info: Any) -> tuple[int, str, str]:
    """A schema's type as the wire numbers it, its name and its text, of either library."""
    return (max(0, int(info.schema_type())), info.name(), info.schema())


@pytest.mark.parametrize("name", ["BytesSchema", "StringSchema"])
def test_simple_schemas_register_and_print_what_the_official_ones_do(name: str) -> None:
    ours, theirs = (getattr(library, name)() for library in BOTH)
    assert info_of(ours.schema_info()) == info_of(theirs.schema_info())
    assert str(ours) == str(theirs) == name


@pytest.mark.parametrize("name", ["JsonSchema", "AvroSchema"])
def test_record_schemas_register_what_the_official_ones_do(name: str) -> None:
    ours, theirs = (getattr(library, name)(order(library)) for library in BOTH)
    assert info_of(ours.schema_info()) == info_of(theirs.schema_info())


def test_a_schema_definition_is_registered_as_it_is_given() -> None:
    definition = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}
    ours, theirs = (library.AvroSchema(None, dict(definition)) for library in BOTH)
    assert info_of(ours.schema_info()) == info_of(theirs.schema_info())
    assert ours.encode({"x": 5}) == theirs.encode({"x": 5})
    assert ours.decode(theirs.encode({"x": 5})) == {"x": 5} == theirs.decode(ours.encode({"x": 5}))


def test_protobuf_schemas_register_and_encode_what_the_official_ones_do() -> None:
    for imports in (type_pb2.Type, api_pb2.Api):  # files that import others, some twice
        ours, theirs = (library.ProtobufNativeSchema(imports) for library in BOTH)
        assert info_of(ours.schema_info()) == info_of(theirs.schema_info())
    kind = pb.MessageMetadata
    ours, theirs = (library.ProtobufNativeSchema(kind) for library in BOTH)
    assert info_of(ours.schema_info()) == info_of(theirs.schema_info())
    assert str(ours) == str(theirs)
    value = kind(producer_name="p", sequence_id=1, publish_time=2)
    assert ours.encode(value) == theirs.encode(value)
    assert ours.decode(theirs.encode(value)) == value
    with pytest.raises(TypeError, match="is no class that protoc generated"):
        ProtobufNativeSchema(int)  # type: ignore[type-var]
    with pytest.raises(SchemaTypeError, match=r"ProtobufNativeSchema\(MessageMetadata\)"):
        ours.encode(pb.CommandPing())
    with pytest.raises(SchemaTypeError, match="cannot be encoded"):
        ours.encode(kind())
    with pytest.raises(SchemaDecodeError):
        ours.decode(b"\xff")


class ProducerCatcher(WirePeer):
    """Keeps the schemas that producers and consumers come with."""

    def __init__(self) -> None:
        super().__init__()
        self.schemas: list[pb.Schema | None] = []

    def _cold_answers(self, command: Message) -> list[Command]:
        if isinstance(command, pb.CommandProducer | pb.CommandSubscribe):
            has = command.HasField("schema")
            self.schemas.append(command.schema if has else None)
        return super()._cold_answers(command)


@pytest.mark.parametrize("name", ["Bytes", "String", "Json", "Avro", "ProtobufNative"])
def test_the_official_client_sends_what_our_schema_would_register(name: str) -> None:
    arguments = {"Json": [order], "Avro": [order], "ProtobufNative": [lambda s: pb.Schema]}
    ours, theirs = (
        getattr(library, f"{name}Schema")(*[a(library) for a in arguments.get(name, [])])
        for library in BOTH
    )
    peer = ProducerCatcher()
    with peer:
        client = pulsar.Client(peer.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        client.create_producer("t", schema=theirs)
        client.subscribe("t", "s", schema=theirs)
        client.shutdown()
    assert len(peer.schemas) == 2
    info = ours.schema_info()
    for sent in peer.schemas:
        assert (sent is not None) == info.is_registered()
        if sent is not None:
            assert sent.type == info.schema_type()
            assert (sent.name, sent.schema_data) == (info.name(), info.data())
            assert {p.key: p.value for p in sent.properties} == info.properties()


@given(VALUES)
def test_json_of_one_library_is_read_by_the_other(values: dict[str, Any]) -> None:
    ours, theirs = JsonSchema(OURS), pulsar.schema.JsonSchema(THEIRS)
    mine, other = OURS(**values), THEIRS(**values)
    assert json.loads(ours.encode(mine)) == json.loads(theirs.encode(other))
    assert ours.decode(theirs.encode(other)) == mine
    assert theirs.decode(ours.encode(mine)) == other


@given(VALUES)
def test_avro_of_one_library_is_read_by_the_other(values: dict[str, Any]) -> None:
    ours, theirs = AvroSchema(OURS), pulsar.schema.AvroSchema(THEIRS)
    mine, other = OURS(**values), THEIRS(**values)
    assert ours.encode(mine) == theirs.encode(other)
    assert ours.decode(theirs.encode(other)) == mine
    assert theirs.decode(ours.encode(mine)) == other


@given(st.text(), st.binary())
def test_text_and_bytes_are_the_same_in_both(text: str, data: bytes) -> None:
    ours, theirs = StringSchema(), pulsar.schema.StringSchema()
    assert ours.encode(text) == theirs.encode(text)
    assert ours.decode(theirs.encode(text)) == text
    assert BytesSchema().decode(BytesSchema().encode(data)) is data


@pytest.mark.parametrize("schema", [BytesSchema(), StringSchema(), JsonSchema(OURS)])
def test_a_value_of_another_type_is_a_type_error(schema: Schema) -> None:
    with pytest.raises(SchemaTypeError, match="cannot encode a int, expected"):
        schema.encode(5)
    with pytest.raises(TypeError):
        schema.encode(None)


def test_avro_takes_its_record_or_a_dict() -> None:
    with pytest.raises(SchemaTypeError, match=r"AvroSchema\(Order\): cannot encode a dict"):
        AvroSchema(OURS).encode({"count": 1})
    bare = AvroSchema(None, {"type": "record", "name": "R", "fields": []})
    with pytest.raises(ValueError, match=r"AvroSchema\(dict\): cannot encode a Order, only a dict"):
        bare.encode(OURS(count=1))


class Late(Record):
    count = Integer(required=True)
    data = Bytes()


@pytest.mark.parametrize("kind", [AvroSchema, JsonSchema])
def test_what_has_no_form_is_refused(kind: Any) -> None:
    class Odd(Integer):
        def validate_type(self, name: str, val: Any) -> Any:
            return val

    class R(Record):
        f = Odd(required=True)

    with pytest.raises(SchemaTypeError, match=r"Schema\(R\)"):
        kind(R).encode(R(f=object()))


def test_avro_refuses_a_required_field_that_was_never_set() -> None:
    with pytest.raises(SchemaTypeError, match=r"AvroSchema\(Late\): cannot be encoded"):
        AvroSchema(Late).encode(Late())


def test_json_refuses_bytes_that_are_no_text() -> None:
    assert JsonSchema(Late).encode(Late(count=1, data=b"ok")) == b'{"count":1,"data":"ok"}'
    with pytest.raises(SchemaTypeError, match=r"JsonSchema\(Late\): not JSON: 'utf-8'"):
        JsonSchema(Late).encode(Late(count=1, data=b"\xff"))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"5", b"null", b"\xff\xfe\xfa"])
def test_bytes_that_are_no_json_object_are_a_decode_error(data: bytes) -> None:
    with pytest.raises(SchemaDecodeError, match=r"JsonSchema\(Late\) describes"):
        JsonSchema(Late).decode(data)


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x02\x02\x08a", b"\x02\x08"])
def test_bytes_that_are_no_avro_of_the_record_are_a_decode_error(data: bytes) -> None:
    with pytest.raises(SchemaDecodeError, match=r"AvroSchema\(Late\) describes"):
        AvroSchema(Late).decode(data)


def test_bytes_that_are_no_text_are_a_decode_error() -> None:
    with pytest.raises(SchemaDecodeError, match="data\\(\\) as it is"):
        StringSchema().decode(b"\xff")


def test_json_of_the_wrong_types_is_a_type_error_that_names_the_field() -> None:
    with pytest.raises(SchemaTypeError, match="count: 'x' is a str, expected: int"):
        JsonSchema(Late).decode(b'{"count": "x"}')


def test_json_may_have_fields_that_the_reader_does_not_know() -> None:
    assert JsonSchema(Late).decode(b'{"count": 1, "more": [2]}') == Late(count=1)


class Written:
    """A message, as far as a schema sees one."""

    def __init__(self, data: bytes, version: int) -> None:
        self._data = data
        self._version = version

    def data(self) -> bytes:
        return self._data

    def topic_name(self) -> str:
        return "persistent://public/default/t"

    def int_schema_version(self) -> int:
        return self._version


class Registry:
    """A client, as far as a schema sees one."""

    def __init__(self, versions: list[SchemaInfo]) -> None:
        self.versions = versions
        self.asked: list[tuple[str, int]] = []

    def get_schema_info(self, topic: str, version: int) -> SchemaInfo:
        self.asked.append((topic, version))
        return self.versions[version]


class OldOrder(Record):
    _avro_namespace = "old"
    gone = String()
    count = Integer()


class NewOrder(Record):
    count = Integer()
    note = String(default="none", required_default=True)


def test_a_message_is_read_with_the_schema_of_its_writer() -> None:
    old, new = AvroSchema(OldOrder), AvroSchema(NewOrder)
    registry = Registry([old.schema_info(), new.schema_info()])
    written = Written(old.encode(OldOrder(gone="x", count=7)), 0)
    new.attach_client(registry)
    for _ in range(3):
        assert new.decode_message(written) == NewOrder(count=7)
    assert registry.asked == [(written.topic_name(), 0)]  # once
    latest = Written(new.encode(NewOrder(count=1, note="n")), 1)
    assert new.decode_message(latest) == NewOrder(count=1, note="n")
    assert new.knows(latest.topic_name(), 1)
    assert not new.knows(latest.topic_name(), 2)


def test_a_schema_can_be_told_of_writers_beforehand() -> None:
    old, new = AvroSchema(OldOrder), AvroSchema(NewOrder)
    written = Written(old.encode(OldOrder(gone="x", count=7)), 0)
    assert not new.knows(written.topic_name(), 0)
    new.add_writer_schema(written.topic_name(), 0, old.schema_info())
    assert new.decode_message(written) == NewOrder(count=7)


def test_without_a_version_or_a_client_a_message_is_read_as_ones_own() -> None:
    schema = AvroSchema(NewOrder)
    data = schema.encode(NewOrder(count=3))
    assert schema.decode_message(Written(data, 5)) == NewOrder(count=3)
    schema.attach_client(Registry([]))
    assert schema.decode_message(Written(data, -1)) == NewOrder(count=3)


def test_a_writer_that_had_no_avro_is_an_error() -> None:
    schema = AvroSchema(NewOrder)
    with pytest.raises(SchemaDecodeError, match="version 3 of t is String, not Avro"):
        schema.add_writer_schema("t", 3, StringSchema().schema_info())


def test_a_writer_of_plain_text_cannot_be_read_as_a_record() -> None:
    schema = AvroSchema(NewOrder)
    written = Written(b"\x02a", 0)
    schema.add_writer_schema(
        written.topic_name(), 0, SchemaInfo(SchemaType.Avro, "AVRO", b'"string"')
    )
    with pytest.raises(SchemaDecodeError, match="SchemaResolutionError"):
        schema.decode_message(written)


def test_other_schemas_read_a_message_by_its_data() -> None:
    assert StringSchema().decode_message(Written(b"text", 9)) == "text"


def test_schemas_of_what_is_none_are_refused() -> None:
    with pytest.raises(UsageError, match="<class 'int'> is no record"):
        JsonSchema(int)
    with pytest.raises(UsageError, match="is no record"):
        AvroSchema(5)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="a record class, or None and a schema definition"):
        AvroSchema(None)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="no Avro schema"):
        AvroSchema(None, {"type": "no such thing"})


def test_a_default_that_json_cannot_hold_is_refused_with_a_reason() -> None:
    class R(Record):
        f = Bytes(default=b"x", required_default=True)

    with pytest.raises(UsageError, match="leave required_default off"):
        JsonSchema(R)
    with pytest.raises(TypeError):
        pulsar.schema.JsonSchema(record(pulsar.schema, "R", **official_bytes_default()))


def official_bytes_default() -> dict[str, Any]:
    return {"f": pulsar.schema.Bytes(default=b"x", required_default=True)}


def test_a_schema_of_ones_own_may_have_the_official_numbers() -> None:
    class Upper(Schema):
        def __init__(self, number: int) -> None:
            super().__init__(str, number, None, "UPPER")

        def encode(self, obj: Any) -> bytes:
            self._validate_object_type(obj)
            return str(obj).upper().encode()

        def decode(self, data: bytes) -> str:
            return data.decode()

    upper = Upper(_pulsar.SchemaType.BYTES)
    assert upper.schema_info() == SchemaInfo(SchemaType.NONE, "UPPER", b"null")
    assert upper.decode(upper.encode("text")) == "TEXT"
    for official in _pulsar.SchemaType.__members__.values():
        assert Upper(official).schema_info().schema_type() >= 0
    with pytest.raises(UsageError, match="99 is no schema type"):
        Upper(99)
    with pytest.raises(UsageError, match="-2 is no schema type"):
        Upper(-2)


def test_the_base_says_what_a_schema_must_define() -> None:
    bare = Schema(bytes, SchemaType.NONE, None, "BYTES")
    with pytest.raises(NotImplementedError, match="must say how it encodes"):
        bare.encode(b"")
    with pytest.raises(NotImplementedError, match="must say how it decodes"):
        bare.decode(b"")


def test_schema_infos_are_values() -> None:
    one, two = AvroSchema(NewOrder).schema_info(), AvroSchema(NewOrder).schema_info()
    assert one == two != JsonSchema(NewOrder).schema_info()
    assert one != 5
    assert len({one, two}) == 1
    assert repr(StringSchema().schema_info()) == "SchemaInfo(String, 'STRING', 'null')"


def test_importing_schemas_does_not_import_avro() -> None:
    program = "import sys, magnetar.schema; print('fastavro' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "False"


def test_fields_of_records_read_as_values() -> None:
    """For type checkers too: a field of a record is whatever was put in."""

    class R(Record):
        flag = Boolean()
        count = Long()
        ratio = Double()
        names = Array(String())
        sizes = Map(Integer())

    made = R(count=1, names=["a"])
    made.ratio = made.count + 0.5
    assert (made.flag, made.ratio, made.names[0]) == (False, 1.5, "a")
