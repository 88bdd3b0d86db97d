"""What users mistype: each line that ends with `# wrong` must be refused, and no other one is.

A call stands on one line, so that both checkers report the same one. It is never run.
"""

# ruff: noqa: B018
# fmt: off

from dataclasses import dataclass

import magnetar
from magnetar import Client, Consumer, ConsumerType, Message, MessageId, Producer, aio
from magnetar.schema import AvroSchema, JsonSchema, ProtobufNativeSchema, StringSchema


@dataclass
class Order:
    number: int


def options(client: Client) -> None:
    Client("pulsar://localhost:6650", operation_timeout_secs=5)  # wrong
    Client("pulsar://localhost:6650", operation_timeout_seconds="5")  # wrong
    Client("pulsar://localhost:6650", authentication="token")  # wrong
    Client("pulsar://localhost:6650", keep_alive_interval=5)  # wrong
    client.subscribe("orders", "billing", auto_retry_acknowledgment=True)  # wrong
    client.subscribe("orders", "billing", auto_retry_acknowledgement="yes")  # wrong
    client.subscribe("orders", "billing", consumer_type="Shared")  # wrong
    client.subscribe("orders", "billing", initial_position=ConsumerType.Shared)  # wrong
    client.subscribe("orders", "billing", on_acknowledgement_failed=5)  # wrong
    client.create_producer("orders", batching_enable=True)  # wrong
    client.create_producer("orders", chunk_max_message_size=None)  # wrong
    client.create_producer("orders", schema=Order)  # wrong
    client.create_reader("orders", 0)  # wrong
    client.create_reader("orders", MessageId.earliest, durable=True)  # wrong
    client.create_table_view("orders", schema="text")  # wrong
    client.create_producer("orders").send(b"x", partition_ke="k")  # wrong
    client.create_producer("orders").send(b"x", deliver_after=5)  # wrong
    client.create_producer("orders").send(b"x", properties={"a": 1})  # wrong
    client.create_producer("orders").send(b"x", transaction="(0,5)")  # wrong
    client.transaction(timeout="5 s")  # wrong


async def asynchronous(client: aio.Client) -> None:
    aio.Client("pulsar://localhost:6650", tls_trust_certs="ca.pem")  # wrong
    await client.subscribe("orders", "billing", auto_retry_acknowledgment=True)  # wrong
    await client.subscribe("orders", "billing", max_acknowledgement_retries="3")  # wrong
    await client.create_producer("orders", block_if_full=True)  # wrong
    await client.create_reader("orders", MessageId.earliest, priority_level=1)  # wrong
    producer = await client.create_producer("orders", schema=JsonSchema(Order))
    await producer.send(b"bytes")  # wrong
    await producer.send(Order(1), key="k")  # wrong
    consumer = await client.subscribe("orders", "billing", schema=JsonSchema(Order))
    (await consumer.receive()).value().numbers  # wrong
    (await consumer.receive()).delivery  # wrong
    for message in consumer:  # wrong
        print(message)


def values(client: Client) -> None:
    client.create_producer("orders").send("text")  # wrong
    client.create_producer("orders", schema=JsonSchema(Order)).send({"number": 1})  # wrong
    client.create_producer("orders", schema=StringSchema()).send(b"x")  # wrong
    message = client.subscribe("orders", "billing", schema=JsonSchema(Order)).receive()
    text: str = message.value()  # wrong
    total = message.value().total  # wrong
    orders: Consumer[Order] = client.subscribe("orders", "billing", schema=StringSchema())  # wrong
    texts: Producer[str] = client.create_producer("orders", schema=JsonSchema(Order))  # wrong
    print(text, total, orders, texts)
    message.data_first  # wrong
    orders.take_held()  # wrong
    orders.give_back(message)  # wrong
    AvroSchema(None)  # wrong
    ProtobufNativeSchema(Order)  # wrong


def heard(consumer: Consumer[str], message: Message[str]) -> None: ...


def listening(client: Client) -> None:
    client.subscribe("orders", "billing", schema=JsonSchema(Order), message_listener=heard)  # wrong


magnetar.worker("orders", subscription="billing", concurency=4)  # wrong
magnetar.worker("orders", subscription="billing", auto_retry_acknowledgment=True)  # wrong
magnetar.worker("orders")  # wrong
magnetar.run(url="pulsar://localhost:6650", operation_timeout=5)  # wrong
