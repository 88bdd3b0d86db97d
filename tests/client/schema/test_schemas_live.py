"""Schemas over a broker: values in, values out, and what does not fit."""

import asyncio
from typing import Any

import pytest
from client.conftest import WAIT_MS, Engine, receive, through_proxy, until

from magnetar import IncompatibleSchema, MessageId, SchemaDecodeError, SchemaTypeError
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.schema import (
    AvroSchema,
    BytesSchema,
    Integer,
    JsonSchema,
    Record,
    String,
    StringSchema,
)

pytestmark = pytest.mark.both_engines


class Point(Record):
    x = Integer()
    y = Integer(default=0)


class LongPoint(Record):
    x = Integer()
    y = Integer(default=0)
    z = Integer(default=7, required_default=True)


class Name(Record):
    text = String()


KINDS: list[tuple[Any, list[Any]]] = [
    (BytesSchema(), [b"", b"abc"]),
    (StringSchema(), ["", "grüße"]),
    (JsonSchema(Point), [Point(x=1, y=2), Point(x=-1)]),
    (AvroSchema(Point), [Point(x=1, y=2), Point(x=-1)]),
    (
        AvroSchema(
            None,
            {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]},
        ),
        [{"x": 1}, {"x": 5}],
    ),
]
NAMES = ["bytes", "string", "json", "avro", "avro-dict"]


@pytest.mark.parametrize(("schema", "values"), KINDS, ids=NAMES)
@pytest.mark.parametrize("batched", [True, False], ids=["batched", "single"])
async def test_values_come_out_as_they_went_in(
    engine: Engine, topic: str, schema: Any, values: list[Any], batched: bool
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s", schema=schema)
        producer = await client.create_producer(topic, schema=schema, batching_enabled=batched)
        for value in values:
            producer.send(value)
        await producer.send(None)
        got = await receive(consumer, len(values) + 1)
        assert [message.value() for message in got] == [*values, None]
        reader = await client.create_reader(topic, MessageId.earliest, schema=schema)
        assert (await reader.read_next(30_000)).value() == values[0]


@pytest.mark.parametrize(("schema", "values"), KINDS, ids=NAMES)
def test_values_through_the_blocking_door(
    client: Client, topic: str, schema: Any, values: list[Any]
) -> None:
    consumer = client.subscribe(topic, "s", schema=schema)
    producer = client.create_producer(topic, schema=schema)
    for value in values:
        producer.send(value)
    assert [consumer.receive(30_000).value() for _ in values] == values


async def test_a_schema_that_does_not_fit_is_refused(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        await client.create_producer(topic, schema=JsonSchema(Point))
        with pytest.raises(IncompatibleSchema):
            await client.create_producer(topic, schema=JsonSchema(Name))
        with pytest.raises(IncompatibleSchema):
            await client.subscribe(topic, "s", schema=StringSchema())


async def test_a_value_that_is_not_of_the_schema_is_refused(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic, schema=JsonSchema(Point))
        with pytest.raises(SchemaTypeError, match="expected: Point"):
            producer.send(Name(text="x"))  # type: ignore[arg-type]
        plain = await client.create_producer(topic + "-plain")
        with pytest.raises(SchemaTypeError, match="bytes"):
            plain.send("text")  # type: ignore[arg-type]
        assert producer.stats().messages_sent == 0


async def test_messages_of_an_older_schema_are_read_by_a_newer_one(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        old = await client.create_producer(topic, schema=AvroSchema(Point))
        await old.send(Point(x=1, y=2))
        new = await client.create_producer(topic, schema=AvroSchema(LongPoint))
        await new.send(LongPoint(x=3, y=4, z=5))
        reader = await client.create_reader(topic, MessageId.earliest, schema=AvroSchema(LongPoint))
        got = [(await reader.read_next(30_000)).value() for _ in range(2)]
        assert got == [LongPoint(x=1, y=2, z=7), LongPoint(x=3, y=4, z=5)]
        first = await client.get_schema_info(topic, 0)
        assert first.schema() == AvroSchema(Point).schema_info().schema()
        latest = await client.get_schema_info(topic)
        assert latest.schema() == AvroSchema(LongPoint).schema_info().schema()


def test_the_blocking_door_asks_for_older_schemas(client: Client, topic: str) -> None:
    client.create_producer(topic, schema=AvroSchema(Point)).send(Point(x=1, y=2))
    client.create_producer(topic, schema=AvroSchema(LongPoint)).send(LongPoint(x=3, y=4, z=5))
    reader = client.create_reader(topic, MessageId.earliest, schema=AvroSchema(LongPoint))
    assert reader.read_next(30_000).value() == LongPoint(x=1, y=2, z=7)
    assert reader.read_next(30_000).value() == LongPoint(x=3, y=4, z=5)


async def test_a_receive_that_is_stopped_while_it_asks_for_a_schema_loses_nothing(
    engine: Engine, topic: str
) -> None:
    async with through_proxy(engine) as (proxy, client):
        consumer = await client.subscribe(topic, "s", schema=AvroSchema(Point))
        producer = await client.create_producer(topic, schema=AvroSchema(Point))
        await producer.send(Point(x=1, y=2))
        answers: list[pb.BaseCommand] = []

        def passes(command: pb.BaseCommand) -> bool:
            if command.HasField("getSchemaResponse"):
                answers.append(command)
                return len(answers) > 1
            return True

        proxy.passes = passes
        call = asyncio.ensure_future(consumer.receive(WAIT_MS))
        await until(lambda: len(answers) > 0, lambda: "it did not ask")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        (message,) = await receive(consumer, 1)
        assert message.value() == Point(x=1, y=2)


async def test_a_message_whose_schema_cannot_be_had_is_received_all_the_same(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic, schema=JsonSchema(Point))
        await producer.send(Point(x=1, y=2))
        # As if somebody had deleted the schema that it was written with.
        consumer._avro = AvroSchema(Point)
        (message,) = await receive(consumer, 1)
        with pytest.raises(SchemaDecodeError, match="is Json, not Avro"):
            consumer._avro.decode_message(message)
        await consumer.acknowledge(message)
