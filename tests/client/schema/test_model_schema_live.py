"""Models over a broker, which decides how they may change."""

from dataclasses import dataclass, make_dataclass
from typing import Any

import msgspec
import pydantic
import pytest
from client.conftest import WAIT_MS, Engine, receive

from magnetar import IncompatibleSchema, InitialPosition
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client
from magnetar.schema import AvroSchema, Integer, JsonSchema, Record, String

pytestmark = pytest.mark.both_engines


def as_dataclass(**fields: Any) -> Any:
    return make_dataclass(
        "Order",
        [
            (name, kind, default) if default is not ... else (name, kind)
            for name, (kind, default) in fields.items()
        ],
    )


def as_struct(**fields: Any) -> Any:
    return msgspec.defstruct(
        "Order",
        [
            (name, kind, default) if default is not ... else (name, kind)
            for name, (kind, default) in fields.items()
        ],
    )


def as_pydantic(**fields: Any) -> Any:
    return pydantic.create_model("Order", **fields)


kinds = pytest.mark.parametrize(
    "make", [as_dataclass, as_struct, as_pydantic], ids=["dataclass", "struct", "pydantic"]
)
forms = pytest.mark.parametrize("form", [JsonSchema, AvroSchema])


@kinds
@forms
async def test_an_order_of_an_older_version_is_read_with_the_defaults_of_the_newer(
    engine: Engine, topic: str, form: Any, make: Any
) -> None:
    old = make(number=(int, ...))
    new = make(number=(int, ...), note=(str | None, None), rush=(bool, False))
    async with aio.Client(engine.url) as client:
        await (await client.create_producer(topic, schema=form(old))).send(old(number=1))
        # Compatible, or these two would be refused.
        await (await client.create_producer(topic, schema=form(new))).send(
            new(number=2, note="soon", rush=True)
        )
        consumer = await client.subscribe(
            topic, "s", schema=form(new), initial_position=InitialPosition.Earliest
        )
        got = [message.value() for message in await receive(consumer, 2)]
    assert got == [new(number=1), new(number=2, note="soon", rush=True)]


@kinds
@forms
async def test_a_field_without_a_default_cannot_be_added(
    engine: Engine, topic: str, form: Any, make: Any
) -> None:
    async with aio.Client(engine.url) as client:
        await client.create_producer(topic, schema=form(make(number=(int, ...))))
        strict = make(number=(int, ...), customer=(str, ...))
        with pytest.raises(IncompatibleSchema):
            await client.create_producer(topic, schema=form(strict))


@kinds
@forms
async def test_a_field_cannot_change_its_type(
    engine: Engine, topic: str, form: Any, make: Any
) -> None:
    async with aio.Client(engine.url) as client:
        await client.create_producer(topic, schema=form(make(number=(int, ...))))
        with pytest.raises(IncompatibleSchema):
            await client.create_producer(topic, schema=form(make(number=(str, ...))))


@dataclass
class Note:
    x: int | None
    text: str | None


class NoteRecord(Record):
    x = Integer()
    text = String()


def test_a_dataclass_reads_what_a_record_of_the_same_fields_wrote(
    client: Client, topic: str
) -> None:
    NoteRecord.__name__ = "Note"
    producer = client.create_producer(topic, schema=AvroSchema(NoteRecord))
    consumer = client.subscribe(topic, "s", schema=AvroSchema(Note))
    producer.send(NoteRecord(x=5, text="hello"))
    assert consumer.receive(WAIT_MS).value() == Note(5, "hello")
