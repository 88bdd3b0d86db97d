"""What waits for room while a transaction acks it, and aborts or is refused by the disk (I3)."""

from collections.abc import Iterator

import pytest
from support.wire_client import KeyShared, Shared, WireClient, WireConsumer, but
from support.wire_transaction import WireTransaction
from support.world import FULL, World

from magnetar.model.message_id_data import MessageIdData

MANY = (Shared, KeyShared)


@pytest.fixture
def world() -> Iterator[World]:
    world = World(transactions=True)
    yield world
    world.close()


def check(world: World) -> None:
    dispatcher = world.subscription("t", "s").dispatcher
    assert dispatcher is not None
    dispatcher.check()  # type: ignore[attr-defined]


def waiting(
    world: World, type: int, *payloads: str
) -> tuple[WireClient, WireConsumer, MessageIdData, int]:
    """An entry that a consumer has no room for, since who had it lost its connection."""
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", type)
    consumer.flow(1)
    consumer.acked(producer.send("before", partition_key="k"))
    assert consumer.payloads() == ["before"]
    for number in range(30):
        gone = world.connect()
        other = gone.subscribe("t", "s", type)
        other.flow(100)
        id = producer.send(*payloads, partition_key=f"k{number}")
        if other.payloads() == list(payloads):
            gone.drop()
            world.settle()
            check(world)
            return client, consumer, id, len(payloads)
        consumer.flow(len(payloads))
        assert consumer.payloads() == list(payloads)
        consumer.acked(id)
        other.close()
    raise AssertionError("nobody else has a key")


@pytest.mark.parametrize("type", MANY)
def test_a_part_of_a_batch_that_waits_comes_with_the_rest_after_an_abort(
    world: World, type: int
) -> None:
    client, consumer, id, size = waiting(world, type, "a1", "a2", "a3")
    txn = WireTransaction(client)
    txn.acked(consumer, but(id, size, 0))
    check(world)
    txn.abort()
    check(world)
    consumer.flow(3)
    assert consumer.payloads() == ["a1", "a2", "a3"]
    check(world)


@pytest.mark.parametrize("type", MANY)
@pytest.mark.parametrize("payloads", [("a",), ("a1", "a2")])
def test_what_waits_and_whose_ack_the_disk_refuses_comes_all_the_same(
    world: World, type: int, payloads: tuple[str, ...]
) -> None:
    client, consumer, id, _ = waiting(world, type, *payloads)
    txn = WireTransaction(client)
    world.hold_disk()
    with txn.within(consumer):
        consumer.ask_ack(id)
    consumer.flow(100)
    assert consumer.payloads() == []
    world.fail_disk(FULL)
    world.fail_disk(None)
    assert consumer.payloads() == list(payloads)
    check(world)


@pytest.mark.parametrize("type", MANY)
def test_a_part_whose_ack_the_disk_refuses_comes_though_the_rest_is_at_work(
    world: World, type: int
) -> None:
    client, consumer, id, size = waiting(world, type, "a1", "a2", "a3")
    txn = WireTransaction(client)
    world.hold_disk()
    with txn.within(consumer):
        consumer.ask_ack(but(id, size, 0))
    consumer.flow(100)
    assert consumer.payloads() == ["a2", "a3"]
    world.fail_disk(FULL)
    world.fail_disk(None)
    assert "a1" in consumer.payloads()
    check(world)


@pytest.mark.parametrize("type", MANY)
def test_who_has_what_the_disk_refuses_to_ack_keeps_it(world: World, type: int) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "s", type)
    id = client.producer("t").send("a1", "a2", "a3", partition_key="k")
    consumer.flow(100)
    assert consumer.payloads() == ["a1", "a2", "a3"]
    txn = WireTransaction(client)
    world.hold_disk()
    with txn.within(consumer):
        consumer.ask_ack(but(id, 3, 0))
    world.fail_disk(FULL)
    world.fail_disk(None)
    assert consumer.payloads() == []
    check(world)
