"""What users write, and a checker must take: the types are asserted. It is never run."""

import asyncio
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

import magnetar
from magnetar import (
    Client,
    Consumer,
    ConsumerType,
    Message,
    MessageId,
    Producer,
    Reader,
    TableView,
    Transaction,
    aio,
)
from magnetar.schema import (
    AvroSchema,
    BytesSchema,
    Integer,
    JsonSchema,
    Record,
    Schema,
    StringSchema,
)


@dataclass
class Order:
    number: int
    total: float


class Point(Record):
    x = Integer()


class Upper(Schema[str]):
    """A schema of the user's own."""

    def encode(self, obj: str) -> bytes:
        return obj.upper().encode()

    def decode(self, data: bytes) -> str:
        return data.decode()


# ---- Without a schema, values are bytes ------------------------------------------------


def plain(client: Client) -> None:
    consumer = client.subscribe("orders", "billing")
    assert_type(consumer, Consumer[bytes])
    message = consumer.receive(timeout_millis=1000)
    assert_type(message, Message[bytes])
    assert_type(message.value(), bytes)
    assert_type(message.data(), bytes)
    producer = client.create_producer("orders")
    assert_type(producer, Producer[bytes])
    assert_type(producer.send(b"1", partition_key="k", properties={"a": "b"}), MessageId)
    producer.send(None, partition_key="forget it")
    reader = client.create_reader("orders", MessageId.earliest)
    assert_type(reader.read_next().value(), bytes)
    view = client.create_table_view("orders")
    assert_type(view.get("k"), bytes | None)
    assert_type(client.subscribe("orders", "billing", schema=None), Consumer[bytes])


# ---- With one, they are its --------------------------------------------------------------


def typed(client: Client) -> None:
    consumer = client.subscribe("orders", "billing", schema=JsonSchema(Order))
    assert_type(consumer, Consumer[Order])
    for message in consumer:
        assert_type(message.value(), Order)
        with consumer.processing(message) as same:
            assert_type(same.value().number, int)
    assert_type([one.value() for one in consumer.batch_receive()], list[Order])
    producer = client.create_producer("orders", schema=JsonSchema(Order))
    assert_type(producer, Producer[Order])
    producer.send(Order(1, 2.0))
    producer.send_async(Order(1, 2.0), None)
    reader = client.create_reader("orders", MessageId.latest, AvroSchema(Order))
    assert_type(reader, Reader[Order])
    assert_type(next(iter(reader)).value(), Order)
    view = client.create_table_view("orders", schema=StringSchema())
    assert_type(view, TableView[str])
    assert_type(view.get("k"), str | None)
    view.for_each_and_listen(lambda key, value: print(key.upper(), value.upper()))
    own = client.subscribe("texts", "s", schema=Upper(str, 1, None, "STRING"))
    assert_type(own.receive().value(), str)
    points = client.subscribe("points", "s", schema=AvroSchema(Point))
    assert_type(points.receive().value(), Point)
    fields = client.subscribe("dicts", "s", schema=AvroSchema(None, {"type": "record"}))
    assert_type(fields.receive().value(), dict[str, Any])
    assert_type(BytesSchema().decode(b""), bytes)


def heard(consumer: Consumer[Order], message: Message[Order]) -> None:
    assert_type(message.value(), Order)
    consumer.acknowledge(message)


def listening(client: Client) -> None:
    consumer = client.subscribe(
        ["orders", "returns"], "billing", schema=JsonSchema(Order), message_listener=heard
    )
    consumer.pause_message_listener()


def in_a_transaction(client: Client, consumer: Consumer[Order], producer: Producer[Order]) -> None:
    with client.transaction(timeout=5) as txn:
        assert_type(txn, Transaction)
        producer.send(Order(1, 2.0), transaction=txn)
        producer.send_async(Order(1, 2.0), None, transaction=txn)
        consumer.acknowledge_cumulative(consumer.receive(), transaction=txn)
    assert_type(txn.id, str)


# ---- Functions for messages of all kinds -------------------------------------------------


def size_of(message: Message) -> int:
    return message.length()


def drained(consumer: Consumer) -> int:
    return sum(size_of(message) for message in consumer)


def gathered(consumer: Consumer[Order]) -> list[Message]:
    found: list[Message] = consumer.batch_receive()
    return found


def both(client: Client) -> int:
    orders = client.subscribe("orders", "billing", schema=JsonSchema(Order))
    return drained(orders) + drained(client.subscribe("texts", "s", schema=StringSchema()))


# ---- asyncio -----------------------------------------------------------------------------


async def asynchronous() -> None:
    async with aio.Client("pulsar://localhost:6650", operation_timeout_seconds=5) as client:
        producer = await client.create_producer("orders", schema=JsonSchema(Order))
        assert_type(producer, aio.Producer[Order])
        assert_type(await producer.send(Order(1, 2.0), deliver_after=timedelta(1)), MessageId)
        await asyncio.gather(*(producer.send(Order(n, 1.0)) for n in range(3)))
        consumer = await client.subscribe(
            re.compile("orders-.*"),
            "billing",
            schema=JsonSchema(Order),
            auto_retry_acknowledgement=True,
            auto_retry_acknowledgement_backoff=lambda failures: failures * 10,
            on_acknowledgement_failed=lambda ids, error: print(len(ids), error),
        )
        assert_type(consumer, aio.Consumer[Order])
        await client.subscribe("orders", "shipping", ConsumerType.Shared, JsonSchema(Order))
        async for message in consumer:
            assert_type(message.value(), Order)
            async with consumer.processing(message) as same:
                assert_type(same, Message[Order])
        bytes_of = await client.subscribe("orders", "plain")
        assert_type((await bytes_of.receive()).value(), bytes)
        reader = await client.create_reader("orders", MessageId.earliest, schema=StringSchema())
        assert_type((await reader.read_next()).value(), str)
        async with await client.create_table_view("orders", schema=StringSchema()) as view:
            assert_type(view.get("k"), str | None)
        async with client.transaction(timeout=timedelta(seconds=5)) as txn:
            assert_type(txn, aio.Transaction)
            producer.send(Order(1, 2.0), transaction=txn)
            await consumer.acknowledge([], transaction=txn)
        begun = await client.transaction()
        assert_type(begun, aio.Transaction)
        await begun.abort()
        await client.shutdown()


# ---- Workers -----------------------------------------------------------------------------


@magnetar.worker("orders", subscription="billing", concurrency=4, priority_level=1)
async def bill(order: Order) -> None: ...


@magnetar.worker("orders", subscription="audit", schema=JsonSchema(Order))
def audit(order: Order, message: Message[Order]) -> None: ...


def main() -> None:
    assert_type(bill, magnetar.AsyncWorker)
    assert_type(audit, magnetar.ThreadWorker)
    magnetar.run(bill, audit, url="pulsar://localhost:6650", operation_timeout_seconds=5)


def caught(consumer: Consumer[bytes]) -> None:
    try:
        consumer.receive(100)
    except TimeoutError as error:
        print(error)
