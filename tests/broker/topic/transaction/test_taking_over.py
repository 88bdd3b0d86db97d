"""Exclusive and Failover while another consumer's transaction has acked something.

Nobody knows yet who will have to do that. So the consumer that takes over waits in front of it, and
gets everything in order once the transaction has ended (I4, I11).
"""

from collections.abc import Iterator

import pytest
from support.wire_client import Exclusive, Failover, WireClient, WireConsumer, refused
from support.wire_transaction import WireTransaction
from support.world import FULL, World

from magnetar.model import Position, ServerError

SINGLE = (Exclusive, Failover)


@pytest.fixture
def world() -> Iterator[World]:
    world = World(transactions=True)
    yield world
    world.close()


def two_consumers(
    world: World, type: int, *, cumulative: bool, number: int = 1
) -> tuple[WireTransaction, WireClient, WireConsumer, object]:
    """One that acked the message of this number in a transaction and is gone, and the next one."""
    before, after = world.connect(), world.connect()
    producer = after.producer("t")
    consumer = before.subscribe("t", "s", type, consumer_name="before")
    for text in "abcd":
        producer.send(text)
    consumer.flow(100)
    acked = consumer.deliveries()[number]
    txn = WireTransaction(after)
    txn.acked(consumer, acked, cumulative=cumulative)
    before.drop()
    world.settle()
    taker = after.subscribe("t", "s", type, consumer_name="after")
    taker.flow(100)
    return txn, after, taker, acked


@pytest.mark.parametrize("type", SINGLE)
@pytest.mark.parametrize("cumulative", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_who_takes_over_gets_all_in_order_once_the_transaction_has_ended(
    world: World, type: int, cumulative: bool, commit: bool
) -> None:
    txn, client, taker, _ = two_consumers(world, type, cumulative=cumulative)
    assert taker.payloads() == ([] if cumulative else ["a"])
    txn.commit(client) if commit else txn.abort(client)
    texts = "cd" if commit else "bcd"
    if cumulative and not commit:
        texts = "abcd"
    assert taker.payloads() == list(texts)


@pytest.mark.parametrize("cumulative", [False, True])
def test_a_cumulative_ack_takes_nothing_along_that_its_consumer_was_not_handed(
    world: World, cumulative: bool
) -> None:
    """Seed 95000110:transactions. The message was acked and had been handed to nobody else."""
    txn, client, taker, _ = two_consumers(world, Failover, cumulative=cumulative)
    taker.payloads()
    txn.abort(client)
    handed = taker.deliveries()
    taker.acked(handed[-1], cumulative=True)
    assert [text for one in handed for text in one.payloads.values()][-3:] == ["b", "c", "d"]
    assert world.subscription("t", "s").cursor.unacked_messages() == 0


@pytest.mark.parametrize("type", SINGLE)
def test_who_acked_in_a_transaction_himself_goes_on(world: World, type: int) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", type)
    consumer.flow(100)
    producer.send("a")
    txn = WireTransaction(client)
    txn.acked(consumer, consumer.one())
    producer.send("b")
    assert consumer.payloads() == ["b"]
    consumer.redeliver()
    assert consumer.payloads() == ["b"]
    txn.commit(client)
    assert consumer.payloads() == []


@pytest.mark.parametrize("type", SINGLE)
def test_who_says_the_ack_again_on_a_new_connection_goes_on(world: World, type: int) -> None:
    """Only whoever has the transaction can."""
    txn, client, taker, acked = two_consumers(world, type, cumulative=False, number=0)
    assert taker.payloads() == []
    txn.acked(taker, acked)
    assert taker.payloads() == ["b", "c", "d"]
    txn.commit(client)
    assert taker.payloads() == []


@pytest.mark.parametrize("type", SINGLE)
def test_what_an_operator_expires_stops_nobody(world: World, type: int) -> None:
    _, _, taker, acked = two_consumers(world, type, cumulative=False, number=0)
    assert taker.payloads() == []
    place = Position(acked.id.ledger_id, acked.id.entry_id)  # type: ignore[attr-defined]
    world.done(world.subscription("t", "s").expire(place))
    assert taker.payloads() == ["b", "c", "d"]


def test_an_ack_that_the_disk_refuses_stops_nobody(world: World) -> None:
    before, after = world.connect(), world.connect()
    consumer = before.subscribe("t", "s", Failover)
    taker = after.subscribe("t", "s", Failover, priority_level=1)
    producer = after.producer("t")
    for text in "ab":
        producer.send(text)
    consumer.flow(100)
    taker.flow(100)
    first, _ = consumer.deliveries()
    txn = WireTransaction(after)
    world.hold_disk()
    with txn.within(consumer):
        consumer.ask_ack(first)
    before.drop()
    assert taker.payloads() == []
    world.fail_disk(FULL)
    world.fail_disk(None)
    assert taker.payloads() == ["a", "b"]


@pytest.mark.parametrize("type", SINGLE)
def test_a_transaction_whose_time_is_over_stops_nobody(world: World, type: int) -> None:
    _, _, taker, _ = two_consumers(world, type, cumulative=True, number=3)
    assert taker.payloads() == []
    world.advance(60_001)
    assert taker.payloads() == ["a", "b", "c", "d"]


def check_backlog(world: World, count: int) -> None:
    assert world.subscription("t", "s").cursor.unacked_entries() == count


def test_who_was_replaced_does_not_do_what_the_next_is_at_work_on(world: World) -> None:
    """Seed 98100234: the one before committed, and a cumulative ack took its message along."""
    client = world.connect()
    before = client.subscribe("t", "s", Failover, priority_level=1)
    producer = client.producer("t")
    for text in "abc":
        producer.send(text)
    before.flow(100)
    first, second, _ = before.deliveries()
    taker = world.connect().subscribe("t", "s", Failover)
    finished = WireTransaction(client)
    finished.acked(before, first, cumulative=True)
    finished.commit()
    world.advance(10_000)
    taker.flow(1)
    assert taker.payloads() == ["b"]
    late, txn = WireTransaction(client), WireTransaction(client)
    for cumulative in (True, False):
        with refused(ServerError.TransactionConflict, "another consumer is active"):
            late.acked(before, second, cumulative=cumulative)
    txn.acked(taker, second, cumulative=True)
    txn.commit()
    taker.flow(1)
    assert taker.payloads() == ["c"]


def test_who_was_replaced_may_say_again_what_it_acked_before(world: World) -> None:
    client = world.connect()
    before = client.subscribe("t", "s", Failover, priority_level=1)
    producer = client.producer("t")
    for text in "ab":
        producer.send(text)
    before.flow(100)
    first, second = before.deliveries()
    txn = WireTransaction(client)
    txn.acked(before, second)
    taker = world.connect().subscribe("t", "s", Failover)
    taker.flow(100)
    world.advance(10_000)
    assert taker.payloads() == ["a"]
    txn.acked(before, second)
    txn.commit()
    taker.acked(first)
    check_backlog(world, 0)


def test_who_comes_back_does_not_do_what_the_other_is_at_work_on(world: World) -> None:
    """Seed 11324399: it was to be active, had been handed nothing since, and acked all the same."""
    lost, client = world.connect(), world.connect()
    producer = client.producer("t")
    first_turn = lost.subscribe("t", "s", Failover, consumer_name="a")
    taker = client.subscribe("t", "s", Failover, consumer_name="b", priority_level=1)
    for text in "ab":
        producer.send(text)
    first_turn.flow(100)
    taker.flow(100)
    first, _ = first_turn.deliveries()
    lost.drop()
    world.settle()
    _, second = taker.deliveries()
    back = world.connect().subscribe("t", "s", Failover, consumer_name="a")
    late, txn = WireTransaction(client), WireTransaction(client)
    with refused(ServerError.TransactionConflict, "was handed what this one has"):
        late.acked(back, first, cumulative=True)
    txn.acked(taker, second, cumulative=True)
    txn.commit()
    check_backlog(world, 0)


@pytest.mark.parametrize("type", SINGLE)
def test_who_comes_back_alone_acks_in_its_transaction_what_it_has(world: World, type: int) -> None:
    lost, client = world.connect(), world.connect()
    producer = client.producer("t")
    consumer = lost.subscribe("t", "s", type, consumer_name="a")
    for text in "ab":
        producer.send(text)
    consumer.flow(100)
    first, second = consumer.deliveries()
    lost.drop()
    world.settle()
    back = client.subscribe("t", "s", type, consumer_name="a")
    txn = WireTransaction(client)
    txn.acked(back, first)
    txn.acked(back, second)
    txn.commit()
    check_backlog(world, 0)


def test_after_an_unload_one_of_two_acks_in_transactions_what_both_had(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    first_turn = client.subscribe("t", "s", Failover, consumer_name="a")
    for text in "ab":
        producer.send(text)
    first_turn.flow(100)
    first, second = first_turn.deliveries()
    world.unload("t")
    active = client.subscribe("t", "s", Failover, consumer_name="a", consumer_id=11)
    other = client.subscribe(
        "t", "s", Failover, consumer_name="b", consumer_id=12, priority_level=1
    )
    late, txn = WireTransaction(client), WireTransaction(client)
    with refused(ServerError.TransactionConflict, "another consumer is active"):
        late.acked(other, second, cumulative=True)
    txn.acked(active, first, cumulative=True)
    active.close()
    with refused(ServerError.TransactionConflict, "acknowledged"):
        late.acked(other, second, cumulative=True)
    txn.commit()
    check_backlog(world, 1)


@pytest.mark.parametrize("type", SINGLE)
def test_what_an_abort_gives_back_while_a_later_one_is_read_comes_before_it(type: int) -> None:
    """Seed 11325636: the last chunk of a message came before the others."""
    world = World(transactions=True, cache_bytes=0)
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", type)
    for text in "abc":
        producer.send(text)
    consumer.flow(3)
    txn = WireTransaction(client)
    for delivery in consumer.deliveries():
        txn.acked(consumer, delivery)
    world.hold_reads()
    consumer.flow(1)
    consumer.redeliver()
    world.read_once()  # the first, which is passed over; the second is being read
    txn.abort()
    consumer.flow(2)
    world.release_reads()
    assert consumer.payloads() == ["a", "b", "c"]
    world.close()
