"""Dataclasses, msgspec structs and Pydantic models as schemas: definitions, values, mistakes."""

import enum
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType
from uuid import UUID, uuid4

import msgspec
import pydantic
import pytest

from magnetar.errors import SchemaDecodeError, SchemaTypeError, UsageError
from magnetar.schema import AvroSchema, JsonSchema


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    A = "not a name"
    B = "b"


CustomerId = NewType("CustomerId", int)


@dataclass
class Line:
    item: str
    count: int = 1


@dataclass
class Order:
    number: int
    customer: CustomerId
    lines: list[Line]
    first: Line
    price: float
    paid: bool
    raw: bytes
    at: datetime
    day: date
    hour: time
    id: UUID
    amount: Decimal
    color: Color
    other_color: Color
    level: Level
    odd: Odd
    tags: frozenset[str]
    counts: Mapping[str, int]
    pair: tuple[int, ...]
    names: Sequence[str]
    kind: Literal["a", "b"]
    checked: Annotated[int, "more than 0"]
    note: str | None = None
    size: int | None = 3
    extra: list[str] = field(default_factory=list)
    made: UUID = field(default_factory=uuid4)


class StructLine(msgspec.Struct):
    item: str
    count: int = 1


class StructOrder(msgspec.Struct, rename="camel"):
    order_number: int
    lines: list[StructLine]
    at: datetime
    color: Color
    note: str | None = None
    extra: dict[str, int] = {}


class PydanticLine(pydantic.BaseModel):
    item: str
    count: int = 1


class PydanticOrder(pydantic.BaseModel):
    order_number: int = pydantic.Field(alias="orderNumber")
    lines: list[PydanticLine]
    at: datetime
    color: Color
    tags: set[str]
    amount: Decimal
    id: UUID
    note: str | None = None
    extra: dict[str, int] = pydantic.Field(default_factory=dict)
    made: UUID = pydantic.Field(default_factory=uuid4)


AT = datetime(2026, 11, 18, 12, 30, 15, 123456, tzinfo=UTC)

ORDER = Order(
    number=7,
    customer=CustomerId(5),
    lines=[Line("nail", 100), Line("hammer")],
    first=Line("nail"),
    price=2.5,
    paid=True,
    raw=b"\x00\xff",
    at=AT,
    day=date(2026, 11, 18),
    hour=time(12, 30, 15),
    id=UUID(int=5),
    amount=Decimal("1.10"),
    color=Color.BLUE,
    other_color=Color.RED,
    level=Level.HIGH,
    odd=Odd.A,
    tags=frozenset({"x"}),
    counts={"a": 1},
    pair=(1, 2),
    names=["alice"],
    kind="b",
    checked=1,
)
STRUCT = StructOrder(7, [StructLine("nail")], AT, Color.RED, extra={"a": 1})
MODEL = PydanticOrder(
    orderNumber=7,
    lines=[PydanticLine(item="nail")],
    at=AT,
    color=Color.RED,
    tags={"x"},
    amount=Decimal("1.10"),
    id=UUID(int=5),
    note="soon",
)
VALUES = [ORDER, STRUCT, MODEL]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("form", [JsonSchema, AvroSchema])
def test_a_value_comes_out_as_it_went_in(form: Any, value: Any) -> None:
    schema = form(type(value))
    assert schema.decode(schema.encode(value)) == value


def fields(schema: Any) -> dict[str, Any]:
    return {one["name"]: one for one in json.loads(schema.schema_info().data())["fields"]}


def test_a_definition_has_the_fields_in_order_with_their_types_and_defaults() -> None:
    assert json.loads(JsonSchema(Line).schema_info().data()) == {
        "type": "record",
        "name": "Line",
        "fields": [
            {"name": "item", "type": "string"},
            {"name": "count", "type": "long", "default": 1},
        ],
    }


def test_avro_has_types_of_its_own_where_json_has_text() -> None:
    avro, text = fields(AvroSchema(Order)), fields(JsonSchema(Order))
    for name in ("raw", "at", "day", "hour", "id"):
        assert text[name]["type"] == "string"
        assert avro[name]["type"] != "string"
    assert avro["at"]["type"] == {"type": "long", "logicalType": "timestamp-micros"}
    assert avro["color"]["type"] == {"type": "enum", "name": "Color", "symbols": ["red", "blue"]}
    # What is defined once is named from then on.
    assert (avro["first"]["type"], avro["other_color"]["type"]) == ("Line", "Color")
    assert (avro["level"]["type"], avro["odd"]["type"]) == ("long", "string")
    assert (avro["kind"]["type"], avro["amount"]["type"]) == ("string", "string")
    assert avro["counts"]["type"] == {"type": "map", "values": "long"}


def test_the_type_of_a_default_is_the_first_of_its_union() -> None:
    found = fields(AvroSchema(Order))
    assert found["note"] == {"name": "note", "type": ["null", "string"], "default": None}
    assert found["size"] == {"name": "size", "type": ["long", "null"], "default": 3}


def test_a_default_that_differs_in_each_process_is_not_part_of_the_definition() -> None:
    for kind in (Order, PydanticOrder):
        found = fields(JsonSchema(kind))
        assert found["extra"]["default"] in ([], {})
        assert "default" not in found["made"]


def test_fields_have_the_names_that_they_have_in_messages() -> None:
    assert next(iter(fields(JsonSchema(StructOrder)))) == "orderNumber"
    assert next(iter(fields(JsonSchema(PydanticOrder)))) == "orderNumber"
    assert b'"orderNumber":7' in JsonSchema(PydanticOrder).encode(MODEL)


@dataclass
class Tree:
    value: int
    children: "list[Tree]"


def test_a_model_may_hold_itself() -> None:
    tree = Tree(1, [Tree(2, [])])
    schema = AvroSchema(Tree)
    assert schema.decode(schema.encode(tree)) == tree


def test_every_kind_of_model_has_the_same_definition_for_the_same_fields() -> None:
    @dataclass
    class Point:
        x: int
        y: int = 0

    plain = JsonSchema(Point).schema_info()
    struct = msgspec.defstruct("Point", [("x", int), ("y", int, 0)])
    model = pydantic.create_model("Point", x=(int, ...), y=(int, 0))
    assert JsonSchema(struct).schema_info() == plain
    assert JsonSchema(model).schema_info() == plain


# ---- Mistakes ----------------------------------------------------------------


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_bytes_that_are_not_of_the_model_are_refused(value: Any) -> None:
    for data in (b"{broken", b"[]", b"{}"):
        with pytest.raises(SchemaDecodeError):
            JsonSchema(type(value)).decode(data)
    with pytest.raises(SchemaDecodeError):
        AvroSchema(type(value)).decode(b"\x01")


def test_a_value_of_another_class_is_refused() -> None:
    for schema in (JsonSchema(Line), AvroSchema(Line)):
        with pytest.raises(SchemaTypeError, match="cannot encode a StructLine"):
            schema.encode(StructLine("nail"))  # type: ignore[arg-type]


def test_a_value_that_breaks_its_own_annotations_is_refused() -> None:
    with pytest.raises(SchemaTypeError):
        JsonSchema(Line).encode(Line(object()))  # type: ignore[arg-type]
    with pytest.raises(SchemaTypeError):
        AvroSchema(Line).encode(Line(5))  # type: ignore[arg-type]


def test_a_value_that_a_model_does_not_take_is_refused_as_it_comes() -> None:
    class Checked(pydantic.BaseModel):
        count: Annotated[int, pydantic.Field(gt=0)]

    plain = AvroSchema(
        None,
        {"type": "record", "name": "Checked", "fields": [{"name": "count", "type": "long"}]},
    )
    with pytest.raises(SchemaDecodeError, match="greater than 0"):
        AvroSchema(Checked).decode(plain.encode({"count": -1}))


def one_field(annotation: Any) -> type:
    return msgspec.defstruct("One", [("field", annotation)])


@pytest.mark.parametrize(
    "annotation", [Any, object, complex, dict[int, str], list, tuple[int, str]], ids=str
)
def test_a_field_that_avro_has_no_type_for_is_named(annotation: Any) -> None:
    with pytest.raises(UsageError, match=r"One\.field"):
        AvroSchema(one_field(annotation))


class Empty(enum.Enum):
    pass


def test_an_enum_without_members_is_refused() -> None:
    with pytest.raises(UsageError, match="Empty"):
        AvroSchema(one_field(Empty))


def test_a_union_that_cannot_be_told_apart_is_refused() -> None:
    with pytest.raises(UsageError, match="One cannot be decoded"):
        JsonSchema(one_field(Line | StructLine))


def test_names_that_avro_does_not_take_are_refused() -> None:
    renamed = msgspec.defstruct("One", [("field", int)], rename={"field": "a-b"})
    with pytest.raises(UsageError, match="a-b"):
        JsonSchema(renamed)


def test_a_pydantic_field_that_is_written_by_one_name_and_read_by_another_is_refused() -> None:
    class Crossed(pydantic.BaseModel):
        number: int = pydantic.Field(serialization_alias="no")

    class ByName(pydantic.BaseModel, populate_by_name=True):
        number: int = pydantic.Field(validation_alias="no")

    with pytest.raises(UsageError, match=r"Crossed\.number .* 'no' .* 'number'"):
        JsonSchema(Crossed)
    schema = JsonSchema(ByName)
    assert schema.decode(schema.encode(ByName(number=7))).number == 7


def test_two_classes_of_one_name_are_refused() -> None:
    other = msgspec.defstruct("Line", [("x", int)])
    both = msgspec.defstruct("Both", [("one", Line), ("two", other)])
    with pytest.raises(UsageError, match="two classes are called Line"):
        JsonSchema(both)


@pytest.mark.parametrize("options", [{"array_like": True}, {"tag": "t"}])
def test_structs_that_are_more_or_less_than_their_fields_are_refused(options: Any) -> None:
    with pytest.raises(UsageError, match="array_like and tag"):
        JsonSchema(msgspec.defstruct("One", [("x", int)], **options))


@dataclass
class Incomplete:
    other: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


def test_a_model_whose_classes_cannot_be_found_is_refused() -> None:
    with pytest.raises(UsageError, match="Nowhere"):
        JsonSchema(Incomplete)


def test_what_is_no_model_is_refused_with_what_would_do() -> None:
    with pytest.raises(UsageError, match="Pydantic model"):
        JsonSchema(int)
    with pytest.raises(UsageError, match="a dataclass"):
        JsonSchema(Line("nail"))  # type: ignore[arg-type]


def test_a_schema_of_a_dataclass_does_not_load_pydantic() -> None:
    program = (
        "import sys, dataclasses, magnetar.schema\n"
        "@dataclasses.dataclass\nclass P:\n    x: int\n"
        "magnetar.schema.JsonSchema(P).encode(P(1))\n"
        "print('pydantic' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "False"
