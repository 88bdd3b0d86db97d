"""Parts of one batch, acked in transactions that abort: who has the rest keeps it (I4).

The broker delivers by entry. What one transaction gives back is offered again, but nothing of the
same batch that somebody else is at work on.
"""

from collections.abc import Iterator

import pytest
from support.wire_client import KeyShared, Shared, WireClient, WireConsumer
from support.wire_transaction import WireTransaction
from support.world import World

MANY = (Shared, KeyShared)


@pytest.fixture
def world() -> Iterator[World]:
    world = World(transactions=True)
    yield world
    world.close()


def check(world: World, *, unacked: int) -> None:
    """The dispatcher agrees with itself, and so many messages are with consumers."""
    dispatcher = world.subscription("t", "s").dispatcher
    assert dispatcher is not None
    dispatcher.check()  # type: ignore[attr-defined]
    assert dispatcher.unacked_count() == unacked


def two(world: World, type: int) -> tuple[WireClient, WireConsumer, WireConsumer, object]:
    """A batch that a consumer has, and another one who had it before its connection broke."""
    client, other_client = world.connect(), world.connect()
    producer = client.producer("t")
    before = other_client.subscribe("t", "s", type)
    producer.send("a1", "a2", "a3", partition_key="k")
    before.flow(100)
    batch = before.one()
    other_client.drop()
    world.settle()
    holder = client.subscribe("t", "s", type)
    holder.flow(100)
    assert holder.payloads() == ["a1", "a2", "a3"]
    other = world.connect().subscribe("t", "s", type)
    return client, holder, other, batch


@pytest.mark.parametrize("type", MANY)
def test_who_has_all_of_a_batch_keeps_it_when_anothers_transaction_aborts(
    world: World, type: int
) -> None:
    """Seed 95000040: the batch went to the other, whose key it was meanwhile."""
    client, holder, other, batch = two(world, type)
    txn = WireTransaction(client)
    txn.acked(other, batch.index(0))  # type: ignore[attr-defined]
    check(world, unacked=2)
    txn.abort()
    assert holder.payloads() == other.payloads() == []
    check(world, unacked=3)
    holder.close()
    other.flow(100)
    assert other.payloads() == ["a1", "a2", "a3"]
    check(world, unacked=3)


@pytest.mark.parametrize("type", MANY)
def test_who_was_sent_a_part_of_a_batch_gets_all_of_it_after_the_abort(
    world: World, type: int
) -> None:
    client, before, other, batch = two(world, type)
    txn = WireTransaction(client)
    txn.acked(other, batch.index(0))  # type: ignore[attr-defined]
    before.close()
    other.flow(100)
    assert other.payloads() == ["a2", "a3"]
    txn.abort()
    assert other.payloads() == ["a1", "a2", "a3"]
    check(world, unacked=3)


def has_a_part(world: World, type: int, *, permits: int) -> tuple[WireTransaction, WireConsumer]:
    """A consumer has two of three messages; the first was acked where the batch was before."""
    client, before, holder, batch = two(world, type)
    txn = WireTransaction(client)
    txn.acked(holder, batch.index(0))  # type: ignore[attr-defined]
    before.close()
    holder.flow(permits)
    return txn, holder


def moves(world: World) -> WireConsumer:
    """Others come, until the key that is held is the last one's."""
    for _ in range(30):
        other = world.connect().subscribe("t", "s", KeyShared)
        other.flow(100)
        if world.subscription("t", "s").dispatcher.draining():  # type: ignore[union-attr]
            return other
    raise AssertionError("the key moves to nobody")


def moved(world: World) -> tuple[WireTransaction, WireConsumer, WireConsumer]:
    """A consumer has two of three messages of a key that is another's by now."""
    txn, holder = has_a_part(world, KeyShared, permits=100)
    return txn, holder, moves(world)


def test_a_key_that_moved_waits_for_who_was_sent_a_part_of_a_batch(world: World) -> None:
    txn, holder, other = moved(world)
    rest = holder.one()
    assert list(rest.payloads.values()) == ["a2", "a3"]
    txn.abort()
    assert other.payloads() == holder.payloads() == []
    check(world, unacked=2)
    holder.acked(rest.index(1))
    assert other.payloads() == []
    check(world, unacked=1)
    holder.acked(rest.index(2))
    assert other.payloads() == ["a1"]
    check(world, unacked=1)


def test_who_has_a_part_of_a_batch_keeps_it_though_its_key_moves_before_it_has_room(
    world: World,
) -> None:
    """Seed 97001450: the abort took it, and it waited for room until another got all of it."""
    txn, holder = has_a_part(world, KeyShared, permits=2)
    rest = holder.one()
    txn.abort()
    check(world, unacked=2)
    other = moves(world)
    assert other.payloads() == holder.payloads() == []
    holder.flow(100)
    assert other.payloads() == holder.payloads() == []
    check(world, unacked=2)
    holder.acked(rest.index(1))
    holder.acked(rest.index(2))
    assert other.payloads() == ["a1"]
    check(world, unacked=1)


@pytest.mark.parametrize("type", MANY)
def test_who_lacks_a_part_of_a_batch_gets_it_once_it_has_room(world: World, type: int) -> None:
    txn, holder = has_a_part(world, type, permits=2)
    rest = holder.one()
    txn.abort()
    assert holder.payloads() == []
    holder.flow(100)
    assert holder.payloads() == ["a1", "a2", "a3"]
    check(world, unacked=3)
    for index in range(3):
        holder.acked(rest.index(index))
    check(world, unacked=0)


@pytest.mark.parametrize("gone", ["acked", "given back", "closed", "lost"])
def test_what_is_lacked_comes_to_the_next_when_its_holder_lets_go(world: World, gone: str) -> None:
    txn, holder = has_a_part(world, KeyShared, permits=2)
    rest = holder.one()
    txn.abort()
    other = world.connect().subscribe("t", "s", KeyShared)
    if gone == "acked":
        holder.acked(rest.index(1))
        holder.acked(rest.index(2))
        holder.close()
    elif gone == "given back":
        holder.redeliver(rest)
        check(world, unacked=0)
        holder.close()
    elif gone == "closed":
        holder.close()
    else:
        holder.client.drop()
        world.settle()
    check(world, unacked=0)
    other.flow(100)
    assert other.payloads() == (["a1"] if gone == "acked" else ["a1", "a2", "a3"])


def test_an_ack_in_another_transaction_of_what_is_lacked_leaves_the_rest_alone(
    world: World,
) -> None:
    txn, holder = has_a_part(world, KeyShared, permits=2)
    rest = holder.one()
    txn.abort()
    again = WireTransaction(world.connect())
    again.acked(holder, rest.index(0))
    holder.flow(100)
    assert holder.payloads() == []
    check(world, unacked=2)
    again.commit()
    holder.acked(rest.index(1))
    holder.acked(rest.index(2))
    check(world, unacked=0)


def test_who_has_a_part_of_a_batch_may_give_it_back_for_the_rest(world: World) -> None:
    txn, holder, other = moved(world)
    rest = holder.one()
    txn.abort()
    holder.redeliver(rest)
    assert other.payloads() == ["a1", "a2", "a3"]
    check(world, unacked=3)


@pytest.mark.parametrize("type", MANY)
def test_who_acked_a_part_itself_gets_the_batch_again(world: World, type: int) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "s", type)
    client.producer("t").send("a1", "a2", "a3", partition_key="k")
    consumer.flow(100)
    batch = consumer.one()
    one, two = WireTransaction(client), WireTransaction(client)
    one.acked(consumer, batch.index(0))
    two.acked(consumer, batch.index(1))
    one.abort()
    assert consumer.payloads() == ["a1", "a3"]
    check(world, unacked=2)
    two.commit()
    check(world, unacked=2)
