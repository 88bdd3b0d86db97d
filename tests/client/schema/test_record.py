"""Records against those of the official client: same classes, same schemas, same checks."""

import copy
import json
import pickle
from enum import Enum, IntEnum
from types import ModuleType
from typing import Any

import pulsar.schema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import magnetar.schema
from magnetar.errors import SchemaTypeError, UnknownFieldError, UsageError
from magnetar.schema import (
    Array,
    Boolean,
    Bytes,
    CustomEnum,
    Double,
    Field,
    Float,
    Integer,
    Long,
    Map,
    Null,
    Record,
    String,
)

BOTH = [magnetar.schema, pulsar.schema]


class Color(Enum):
    RED = 1
    GREEN = 2


class Size(IntEnum):
    SMALL = 7
    LARGE = 8


class Unit(Enum):
    KILO = "kg"
    METRE = "m"


def record(library: ModuleType, name: str, **fields: Any) -> Any:
    """A record class of either library."""
    return type(library.Record)(name, (library.Record,), dict(fields))


def order(s: ModuleType) -> Any:
    """A class with one of everything."""
    inner = record(s, "Inner", a=s.Integer(), b=s.String(default="x", required_default=True))
    return record(
        s,
        "Order",
        _avro_namespace="shop.v1",
        nothing=s.Null(),
        flag=s.Boolean(),
        count=s.Integer(required=True),
        total=s.Long(default=5, required_default=True),
        ratio=s.Float(default=1.5, required_default=True, required=True),
        weight=s.Double(required_default=True),
        raw=s.Bytes(),
        text=s.String(default="hi"),
        color=Color,
        size=s.CustomEnum(Size, default=Size.LARGE, required_default=True),
        again=s.CustomEnum(Color, required=True),
        names=s.Array(s.String(), default=["a"], required_default=True),
        grid=s.Array(s.Array(s.Integer())),
        numbers=s.Map(s.Long()),
        deep=s.Map(s.Array(s.Map(s.Double()))),
        inner=inner(),
        second=inner(required=True),
        by_class=inner,
        inners=s.Array(inner()),
        named=s.Map(inner(), required=True),
        method=lambda self: 1,
        constant=5,
    )


def assert_same_schema(build: Any) -> None:
    ours, theirs = (build(library).schema() for library in BOTH)
    assert json.dumps(ours) == json.dumps(theirs)  # the order of keys counts too


def test_a_record_of_everything_has_the_official_schema() -> None:
    assert_same_schema(order)


def test_fields_can_be_sorted() -> None:
    assert_same_schema(
        lambda s: record(s, "R", _sorted_fields=True, b=s.Integer(), a=s.Integer(), c=s.String())
    )


def test_a_class_does_not_inherit_fields() -> None:
    def build(s: ModuleType) -> Any:
        base = record(s, "Base", a=s.Integer())
        return type(base)("Derived", (base,), {"b": s.String()})

    assert_same_schema(build)


def test_a_name_that_occurs_twice_is_defined_once() -> None:
    def build(s: ModuleType) -> Any:
        leaf = record(s, "Leaf", _avro_namespace="n.s", x=s.CustomEnum(Color), y=Color)
        branch = record(s, "Branch", left=leaf(), right=leaf())
        return record(s, "Tree", one=branch(), two=branch(), leaves=s.Array(leaf()))

    assert_same_schema(build)


PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "Boolean": st.booleans(),
    "Integer": st.integers(-(2**31), 2**31 - 1),
    "Long": st.integers(-(2**63), 2**63 - 1),
    "Float": st.floats(width=32, allow_nan=False),
    "Double": st.floats(allow_nan=False),
    "String": st.text(),
}
KINDS = st.recursive(
    st.sampled_from(sorted(PRIMITIVES)).map(lambda name: (name,)),
    lambda inner: st.one_of(
        st.tuples(st.just("Array"), inner),
        st.tuples(st.just("Map"), inner),
        st.tuples(st.just("record"), st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=6,
)


def make_field(s: ModuleType, kind: Any, path: str, **options: Any) -> Any:
    if kind[0] == "record":
        fields = {f"f{i}": make_field(s, k, f"{path}_{i}") for i, k in enumerate(kind[1])}
        return record(s, f"R{path}", **fields)(**options)
    if kind[0] in ("Array", "Map"):
        return getattr(s, kind[0])(make_field(s, kind[1], path), **options)
    return getattr(s, kind[0])(**options)


@given(st.lists(st.tuples(KINDS, st.booleans(), st.booleans()), max_size=4))
def test_any_record_has_the_official_schema(fields: list[tuple[Any, bool, bool]]) -> None:
    def build(s: ModuleType) -> Any:
        made = {
            f"g{i}": make_field(s, kind, f"_{i}", required=required, required_default=shown)
            for i, (kind, required, shown) in enumerate(fields)
        }
        return record(s, "Root", **made)

    assert_same_schema(build)


# Each is tried on both libraries: they take it and hold the same, or both refuse it.
ATTEMPTS: list[Any] = [None, True, 0, 7, 1.5, "RED", "text", b"bytes", [], ["a"], [1], [None], {}]
ATTEMPTS += [{"a": 1}, {"a": "b"}, {1: "b"}, Color.RED, Size.SMALL, object(), (1,), {"a": None}]
FIELDS: dict[str, Any] = {
    "Null": lambda s, **o: s.Null(**o),
    "Boolean": lambda s, **o: s.Boolean(**o),
    "Integer": lambda s, **o: s.Integer(**o),
    "Long": lambda s, **o: s.Long(**o),
    "Float": lambda s, **o: s.Float(**o),
    "Double": lambda s, **o: s.Double(**o),
    "String": lambda s, **o: s.String(**o),
    "CustomEnum": lambda s, **o: s.CustomEnum(Color, **o),
    "IntEnum": lambda s, **o: s.CustomEnum(Size, **o),
    "Array": lambda s, **o: s.Array(s.String(), **o),
    "ArrayOfInteger": lambda s, **o: s.Array(s.Integer(), **o),
    "Map": lambda s, **o: s.Map(s.String(), **o),
    "MapOfInteger": lambda s, **o: s.Map(s.Integer(), **o),
}


def attempt(s: ModuleType, field: Any, value: Any) -> Any:
    try:
        made = record(s, "R", f=field)(f=value)
    except TypeError:
        return TypeError
    except AttributeError:  # the official check of a map's keys trips over itself
        return TypeError
    return made.f


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("kind", FIELDS)
def test_fields_take_what_the_official_ones_take(kind: str, required: bool) -> None:
    for value in ATTEMPTS:
        ours, theirs = (attempt(s, FIELDS[kind](s, required=required), value) for s in BOTH)
        assert (ours, type(ours)) == (theirs, type(theirs)), value


def test_bytes_take_bytes_and_text_and_nothing_else() -> None:
    class R(Record):
        f = Bytes()

    assert R(f="ä").f == "ä".encode()
    assert R(f=bytearray(b"x")).f == b"x"
    assert R().f is None
    with pytest.raises(SchemaTypeError, match="f: 5 is a int, expected: bytes or str"):
        R(f=5)


@pytest.mark.parametrize("kind", FIELDS)
def test_defaults_are_the_official_ones(kind: str) -> None:
    for value in ATTEMPTS:
        found: list[Any] = []
        for s in BOTH:
            try:
                field = FIELDS[kind](s, default=value)
            except (TypeError, AttributeError):
                found.append(TypeError)
            else:
                found.append((field.default(), record(s, "R", f=field)().f))
        assert found[0] == found[1], value


@pytest.mark.parametrize("name", ["type", "python_type", "schema", "default", "required_default"])
def test_fields_tell_of_themselves_what_the_official_ones_do(name: str) -> None:
    for kind, make in {**FIELDS, "Bytes": lambda s: s.Bytes()}.items():
        ours, theirs = (getattr(make(s), name)() for s in BOTH)
        assert ours == theirs, kind


def test_dicts_become_records() -> None:
    for s in BOTH:
        inner = record(s, "Inner", a=s.Integer())
        outer = record(s, "Outer", one=inner(), many=s.Array(inner()), by_name=s.Map(inner()))
        made = outer(one={"a": 1}, many=[{"a": 2}, {"a": 3}], by_name={"k": {"a": 4}})
        assert isinstance(made.one, inner)
        assert [item.a for item in made.many] == [2, 3]
        assert made.by_name["k"] == inner(a=4)
        assert made == outer(
            one=inner(a=1), many=[inner(a=2), inner(a=3)], by_name={"k": inner(a=4)}
        )
        assert outer(one=None).one is None
        assert made != outer()


def test_arrays_and_maps_may_mix_records_and_dicts() -> None:
    class Inner(Record):
        a = Integer()

    class Outer(Record):
        many = Array(Inner())
        by_name = Map(Inner)  # the class will do

    made = Outer(many=[Inner(a=1), {"a": 2}], by_name={"x": Inner(a=3), "y": {"a": 4}})
    assert [item.a for item in made.many] == [1, 2]
    assert [item.a for item in made.by_name.values()] == [3, 4]


def test_enums_in_containers_are_defined_and_converted() -> None:
    """The official client writes a schema for these that no broker takes."""

    class R(Record):
        colors = Array(CustomEnum(Color))
        by_name = Map(CustomEnum(Color))

    schema = R.schema()
    assert isinstance(schema, dict)
    assert schema["fields"][0]["type"][1]["items"] == {
        "type": "enum",
        "name": "Color",
        "symbols": ["RED", "GREEN"],
    }
    assert schema["fields"][1]["type"][1]["values"] == "Color"
    made = R(colors=["RED", 2], by_name={"k": "GREEN"})
    assert made.colors == [Color.RED, Color.GREEN]
    assert made.by_name == {"k": Color.GREEN}
    with pytest.raises(TypeError, match="an item of colors: None is a NoneType"):
        R(colors=[None])


def test_an_enum_is_found_by_name_and_then_by_value() -> None:
    class R(Record):
        unit: Any = Unit

    assert R(unit="KILO").unit is Unit.KILO
    assert R(unit="m").unit is Unit.METRE
    with pytest.raises(TypeError, match="expected: Unit, one of KILO, METRE"):
        R(unit="s")


def test_an_undeclared_field_cannot_be_set() -> None:
    for s in BOTH:
        made = record(s, "R", a=s.Integer())()
        with pytest.raises(AttributeError):
            made.b = 1
        made._required = True  # what a record knows of itself as a field of another
        assert made._required

    class R(Record):
        a = Integer()

    with pytest.raises(UnknownFieldError, match="record R has no field b: declare it"):
        R().b = 1
    assert not hasattr(R(b=5), "b")  # as in the official client: newer writers may have more


def test_a_sub_record_must_be_of_its_class() -> None:
    for s in BOTH:
        inner = record(s, "Inner", a=s.Integer())
        outer = record(s, "Outer", inner=inner())
        with pytest.raises(TypeError):
            outer(inner=5)
        with pytest.raises(TypeError):
            outer().inner = record(s, "Inner", a=s.Integer())()


def test_a_required_sub_record_is_not_none() -> None:
    for s in BOTH:
        inner = record(s, "Inner", a=s.Integer())
        outer = record(s, "Outer", inner=inner(required=True))
        with pytest.raises(TypeError):
            outer(inner=None)


def test_the_default_of_a_sub_record_stands_for_none() -> None:
    for s in BOTH:
        inner = record(s, "Inner", a=s.Integer())
        outer = record(s, "Outer", inner=inner(default=inner(a=5)))
        assert outer(inner=None).inner.a == 5


def test_records_do_not_share_what_can_be_changed() -> None:
    class Inner(Record):
        a = Integer()

    class Outer(Record):
        inner = Inner()
        names = Array(String(), default=["x"])

    one, two = Outer(), Outer()
    one.inner.a = 5
    one.names.append("y")
    assert two.inner.a is None
    assert two.names == ["x"]


@pytest.mark.parametrize("wrong", [int, 5, String, "String", None, object()])
def test_containers_hold_fields_and_records_only(wrong: Any) -> None:
    with pytest.raises(UsageError, match="Array cannot hold"):
        Array(wrong)
    with pytest.raises(UsageError, match="Map cannot hold"):
        Map(wrong)


def test_a_custom_enum_wants_an_enum() -> None:
    with pytest.raises(UsageError, match="is no Enum"):
        CustomEnum(int)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is no Enum"):
        CustomEnum(5)  # type: ignore[arg-type]


def test_a_field_of_ones_own_must_say_its_types() -> None:
    with pytest.raises(NotImplementedError, match="Field must say its Avro type"):
        Field().type()
    with pytest.raises(NotImplementedError, match="Field must say its Python type"):
        Field().python_type()

    class Even(Integer):
        def validate_type(self, name: str, val: Any) -> Any:
            if val is not None and val % 2:
                raise TypeError(name)
            return super().validate_type(name, val)

    class R(Record):
        n = Even()

    assert R(n=4).n == 4
    with pytest.raises(TypeError, match="n"):
        R(n=3)


class Point(Record):
    x = Integer()
    y = Long(default=2)
    z = Array(Double())


def test_records_compare_print_copy_and_pickle_by_their_fields() -> None:
    point = Point(x=1, z=[0.5])
    assert str(point) == "{'x': 1, 'y': 2, 'z': [0.5]}"
    assert repr(point) == "Point(x=1, y=2, z=[0.5])"
    assert point == Point(x=1, y=2, z=[0.5]) != Point(x=1)
    assert point != 5
    assert copy.deepcopy(point) == point == pickle.loads(pickle.dumps(point))
    assert (point.type(), point.python_type()) == ("Point", Point)
    with pytest.raises(TypeError, match="unhashable"):
        hash(point)


def test_the_base_has_no_fields_itself() -> None:
    assert Record() == Record()
    assert Record.schema() == {"type": "record", "name": "Record", "fields": []}


def test_every_kind_of_field_is_there() -> None:
    kinds = {Null, Boolean, Integer, Long, Float, Double, Bytes, String, Array, Map, CustomEnum}
    assert {kind.__name__ for kind in kinds} == {
        name
        for name, value in vars(pulsar.schema).items()
        if isinstance(value, type) and issubclass(value, pulsar.schema.Field)
    } - {"Field"}
