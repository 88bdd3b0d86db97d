"""Acks in transactions: they wait for the end, exclude each other, and are whole or nothing."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from support.wire_client import (
    Earliest,
    Exclusive,
    Failover,
    KeyShared,
    Shared,
    WireClient,
    WireConsumer,
    refused,
)
from support.wire_transaction import WireTransaction
from support.world import ENDS, FULL, World

from magnetar.model import ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAckResponse

MANY = (Shared, KeyShared)
SINGLE = (Exclusive, Failover)
TYPES = (*SINGLE, *MANY)


@pytest.fixture
def world() -> Iterator[World]:
    world = World(transactions=True)
    yield world
    world.close()


def begin(world: World, *texts: str, type: int = Shared) -> tuple[WireClient, WireConsumer]:
    """A consumer of a topic that has these messages."""
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", type)
    for text in texts:
        producer.send(text, partition_key=text)
    return client, consumer


def backlog(world: World) -> int:
    cursor = world.subscription("t", "s").cursor
    cursor.check()
    return cursor.unacked_messages()


def again(world: World, type: int = Shared) -> list[str]:
    """What is given to a consumer that comes when all others are gone."""
    for client in world.clients:
        client.drop()
    world.settle()
    return world.connect().subscribe("t", "s", type).receive()


@pytest.mark.parametrize("type", TYPES)
def test_what_is_pending_is_not_delivered_and_after_an_abort_it_is(world: World, type: int) -> None:
    client, consumer = begin(world, "a", "b", "c", type=type)
    consumer.flow(100)
    _, b, _ = consumer.deliveries()
    txn = WireTransaction(client)
    txn.acked(consumer, b)
    assert backlog(world) == 3
    client.drop()
    world.settle()
    client = world.connect()
    consumer = client.subscribe("t", "s", type)
    behind = [] if type in SINGLE else ["c"]  # test_taking_over.py says why
    assert consumer.receive() == ["a", *behind]
    txn.abort(client)
    assert consumer.payloads() == (["b", "c"] if type in SINGLE else ["b"])
    assert backlog(world) == 3


@pytest.mark.parametrize("type", TYPES)
def test_an_abort_gives_back_only_what_the_transaction_had_acked(world: World, type: int) -> None:
    client, consumer = begin(world, "a", "b", "c", type=type)
    consumer.flow(100)
    a, b, _ = consumer.deliveries()
    txn = WireTransaction(client)
    txn.acked(consumer, a, b)
    txn.abort()
    assert consumer.payloads() == ["a", "b"]
    txn = WireTransaction(client)
    txn.acked(consumer, a, b)
    txn.commit()
    assert consumer.payloads() == []
    assert backlog(world) == 1
    assert again(world, type) == ["c"]


def test_two_transactions_conflict_and_the_second_changes_nothing(world: World) -> None:
    client, consumer = begin(world, "a", "b")
    consumer.flow(100)
    a, b = consumer.deliveries()
    one, other = WireTransaction(client), WireTransaction(client)
    one.acked(consumer, a)
    with refused(ServerError.TransactionConflict, f"(0,{one.number})"):
        other.acked(consumer, b, a)
    one.abort()
    other.acked(consumer, a, b)
    other.commit()
    assert backlog(world) == 0


def test_the_same_transaction_may_say_it_again(world: World) -> None:
    client, consumer = begin(world, "a", "b")
    consumer.flow(100)
    a, b = consumer.deliveries()
    txn = WireTransaction(client)
    txn.acked(consumer, a)
    txn.acked(consumer, a)
    txn.acked(consumer, a, b)
    txn.commit()
    assert backlog(world) == 0


def test_a_transaction_and_a_plain_ack_conflict_whichever_comes_first(world: World) -> None:
    client, consumer = begin(world, "a", "b")
    consumer.flow(100)
    a, b = consumer.deliveries()
    txn = WireTransaction(client)
    consumer.acked(a)
    with refused(ServerError.TransactionConflict, "already"):
        txn.acked(consumer, a)
    txn.acked(consumer, b)
    with refused(ServerError.TransactionConflict, "wait for its end"):
        consumer.acked(b)
    txn.abort()
    assert backlog(world) == 1
    consumer.acked(b)
    assert backlog(world) == 0


def test_a_plain_ack_on_its_way_is_known_to_a_transaction(world: World) -> None:
    client, consumer = begin(world, "a")
    consumer.flow(100)
    message = consumer.one()
    txn = WireTransaction(client)
    world.hold_disk()
    plain = consumer.ask_ack(message)
    consumer.transaction = txn.number
    inside = consumer.ask_ack(message)
    world.release_disk()
    assert consumer.receipt(plain).error is None  # type: ignore[union-attr]
    answer = consumer.receipt(inside)
    assert answer is not None
    assert answer.error == ServerError.TransactionConflict
    assert answer.txnid_least_bits == txn.number


def test_issue_16032_indexes_of_one_batch_in_two_transactions(world: World) -> None:
    """Apache Pulsar forgets index 1 when transaction 1 commits and 2 aborts."""
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    producer.send("0", "1", "2")
    consumer.flow(100)
    batch = consumer.one()
    one, other = WireTransaction(client), WireTransaction(client)
    one.acked(consumer, batch.index(0))
    other.acked(consumer, batch.index(1))
    with refused(ServerError.TransactionConflict):
        other.acked(consumer, batch.index(0))
    with refused(ServerError.TransactionConflict):
        consumer.acked(batch.index(1))
    assert again(world) == ["2"]
    one.commit(world.connect())
    other.abort(world.clients[-1])
    assert backlog(world) == 2
    assert again(world) == ["1", "2"]
    client = world.connect()
    consumer = client.subscribe("t", "s", Shared)
    third = WireTransaction(client)
    third.acked(consumer, batch.index(1))
    third.commit()
    assert again(world) == ["2"]


@pytest.mark.parametrize("how", ENDS)
def test_a_batch_that_is_acked_index_by_index_is_acked_as_a_whole(world: World, how: str) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    producer.send("0", "1")
    producer.send("2", "3")
    consumer.flow(100)
    batch, other = consumer.deliveries()
    txn = WireTransaction(client)
    txn.acked(consumer, batch.index(0))
    txn.acked(consumer, other.index(0))
    txn.acked(consumer, batch.index(1))
    assert again(world) == ["3"]
    txn.commit(world.connect())
    assert backlog(world) == 1
    world.end(how)
    assert world.connect().subscribe("t", "s", Shared).receive() == ["3"]
    assert backlog(world) == 1


def test_a_whole_batch_conflicts_with_a_part_of_it(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    producer.send("0", "1")
    consumer.flow(100)
    batch = consumer.one()
    one, other = WireTransaction(client), WireTransaction(client)
    one.acked(consumer, batch.index(0))
    with refused(ServerError.TransactionConflict):
        other.acked(consumer, batch)
    with refused(ServerError.TransactionConflict):
        consumer.acked(batch)
    one.commit()
    other.acked(consumer, batch)
    other.commit()
    assert backlog(world) == 0


@pytest.mark.parametrize("type", SINGLE)
def test_a_cumulative_ack_in_a_transaction(world: World, type: int) -> None:
    client, consumer = begin(world, "a", "b", "c", "d", type=type)
    consumer.flow(100)
    a, b, c, d = consumer.deliveries()
    one, other = WireTransaction(client), WireTransaction(client)
    one.acked(consumer, b, cumulative=True)
    with refused(ServerError.TransactionConflict):
        other.acked(consumer, c, cumulative=True)
    with refused(ServerError.TransactionConflict):
        other.acked(consumer, a)
    with refused(ServerError.TransactionConflict):
        consumer.acked(d, cumulative=True)
    other.acked(consumer, d)
    one.acked(consumer, c, cumulative=True)
    assert backlog(world) == 4
    one.abort()
    assert consumer.payloads() == ["a", "b", "c"]
    third = WireTransaction(client)
    third.acked(consumer, c, cumulative=True)
    with refused(ServerError.TransactionConflict):
        third.acked(consumer, d, cumulative=True)
    third.commit()
    other.commit()
    assert backlog(world) == 0
    with refused(ServerError.TransactionConflict, "already"):
        WireTransaction(client).acked(consumer, b, cumulative=True)


def test_a_cumulative_ack_is_refused_where_consumers_share(world: World) -> None:
    client, consumer = begin(world, "a")
    consumer.flow(100)
    with refused(ServerError.NotAllowedError):
        WireTransaction(client).acked(consumer, consumer.one(), cumulative=True)


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("commit", [True, False])
def test_what_is_pending_is_pending_when_the_topic_is_loaded_anew(
    world: World, how: str, commit: bool
) -> None:
    client, consumer = begin(world, "a", "b")
    client.producer("t").send("0", "1")
    consumer.flow(100)
    a, _, batch = consumer.deliveries()
    txn = WireTransaction(client)
    txn.acked(consumer, a, batch.index(0))
    world.end(how)
    client = world.connect()
    consumer = client.subscribe("t", "s", Shared)
    assert consumer.receive() == ["b", "1"]
    with refused(ServerError.TransactionConflict):
        consumer.acked(a)
    if commit:
        txn.commit(client)
        assert consumer.payloads() == []
        assert backlog(world) == 2
    else:
        txn.abort(client)
        assert sorted(consumer.payloads()) == ["0", "1", "a"]
        assert backlog(world) == 4


@pytest.mark.parametrize("how", ENDS)
def test_a_transaction_ends_while_its_topic_is_not_loaded(world: World, how: str) -> None:
    client, consumer = begin(world, "a", "b")
    consumer.flow(100)
    a, b = consumer.deliveries()
    one, other = WireTransaction(client), WireTransaction(client)
    one.acked(consumer, a)
    other.acked(consumer, b)
    world.end(how)
    client = world.connect()
    assert not world.broker.topics
    one.commit(client)
    other.abort(client)
    assert client.subscribe("t", "s", Shared).receive() == ["b"]
    assert backlog(world) == 1


def test_a_reset_makes_pending_acks_void(world: World) -> None:
    """As it does with any ack from before it."""
    client, consumer = begin(world, "a", "b", type=Exclusive)
    consumer.flow(100)
    a, _ = consumer.deliveries()
    txn = WireTransaction(client)
    txn.acked(consumer, a)
    consumer.seek(0)
    consumer = client.subscribe("t", "s", Exclusive)
    assert consumer.receive() == ["a", "b"]
    other = WireTransaction(client)
    other.acked(consumer, a)
    txn.commit()
    assert backlog(world) == 2
    other.commit()
    assert backlog(world) == 1
    world.crash()
    assert world.connect().subscribe("t", "s", Exclusive).receive() == ["b"]


def test_what_is_skipped_beside_a_transaction_stays_acked(world: World) -> None:
    client, consumer = begin(world, "a", "b")
    consumer.flow(100)
    a, b = consumer.deliveries()
    one, other = WireTransaction(client), WireTransaction(client)
    one.acked(consumer, a)
    other.acked(consumer, b)
    world.done(world.subscription("t", "s").clear())
    one.commit()
    other.abort()
    assert backlog(world) == 0
    assert consumer.payloads() == []


def test_a_subscription_that_is_deleted_is_left_out_of_the_commit(world: World) -> None:
    client, consumer = begin(world, "a")
    other = client.subscribe("t", "other", Shared, initialPosition=Earliest)
    other.flow(10)
    consumer.flow(10)
    txn = WireTransaction(client)
    txn.acked(consumer, consumer.one())
    txn.acked(other, other.one())
    other.unsubscribe()
    txn.commit()
    assert backlog(world) == 0
    world.crash()
    assert world.connect().subscribe("t", "s", Shared).receive() == []


def test_an_ack_that_the_disk_refuses_is_not_pending(world: World) -> None:
    client, consumer = begin(world, "a")
    consumer.flow(10)
    message = consumer.one()
    txn = WireTransaction(client)
    world.hold_disk()
    consumer.transaction = txn.number
    request_id = consumer.ask_ack(message)
    world.fail_disk(FULL)
    world.fail_disk(None)
    answer = consumer.receipt(request_id)
    assert answer is not None
    assert answer.error == ServerError.PersistenceError
    consumer.transaction = 0
    consumer.acked(message)
    txn.commit()
    assert backlog(world) == 0


def test_a_reader_in_memory_acks_in_no_transaction(world: World) -> None:
    client, _ = begin(world, "a")
    reader = client.subscribe("t", "r", Exclusive, durable=False, initialPosition=Earliest)
    reader.flow(10)
    with refused(ServerError.NotAllowedError, "not durable"):
        WireTransaction(client).acked(reader, reader.one())


def test_an_ack_without_a_request_is_not_answered(world: World) -> None:
    client, consumer = begin(world, "a")
    consumer.flow(10)
    message = consumer.one()
    txn = WireTransaction(client)
    with txn.within(consumer):
        consumer.ack(message)
    assert not client.take(CommandAckResponse)
    txn.commit()
    assert backlog(world) == 0


def test_chunks_are_acked_together_in_a_transaction(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    ids = producer.send_chunks("m", "1", "2", "3")
    consumer.receive()
    end = ids[-1]
    last = MessageIdData(end.ledger_id, end.entry_id, end.partition, first_chunk=ids[0])
    txn = WireTransaction(client)
    txn.acked(consumer, last)
    assert backlog(world) == 3
    txn.commit()
    assert backlog(world) == 0


def test_the_dispatcher_agrees_with_itself_after_aborts(world: World) -> None:
    client, consumer = begin(world, *"abcdefgh")
    other = client.subscribe("t", "s", Shared)
    consumer.flow(4)
    other.flow(4)
    mine = consumer.deliveries()
    txn = WireTransaction(client)
    txn.acked(consumer, *mine)
    dispatcher = world.subscription("t", "s").dispatcher
    assert dispatcher is not None
    dispatcher.check()  # type: ignore[attr-defined]
    consumer.close()
    txn.abort()
    dispatcher.check()  # type: ignore[attr-defined]
    other.flow(100)
    dispatcher.check()  # type: ignore[attr-defined]
    assert len(other.payloads()) == 8


def test_what_waits_for_an_end_has_a_limit_of_memory() -> None:
    """Each ack of one more message of a batch has bits for all of it, until the end."""
    with closing(World(transactions=True, max_ack_state_bytes_per_subscription=100_000)) as world:
        client = world.connect()
        consumer = client.subscribe("t", "s", Shared)
        client.producer("t").send(*[str(number) for number in range(1000)])
        consumer.flow(1000)
        batch = consumer.one()
        consumer.acked(batch.index(0))
        transaction = WireTransaction(client)
        taken = 1
        with refused(ServerError.TooManyRequests, "take 100000 bytes, the most that they may"):
            for taken in range(1, 1000):
                transaction.acked(consumer, batch.index(taken))
        assert 50 < taken < 250
        transaction.commit()
        # Once it has ended there is room again, and nothing was lost of what was taken.
        other = WireTransaction(client)
        other.acked(consumer, batch.index(taken))
        other.commit()
        cursor = world.subscription("t", "s").cursor
        assert cursor.unacked_messages() == 1000 - taken - 1


def test_of_acks_of_one_batch_only_those_that_failed_are_taken_back(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "s", Shared)
    client.producer("t").send(*[str(number) for number in range(10)])
    consumer.flow(100)
    batch = consumer.one()
    transaction, other = WireTransaction(client), WireTransaction(client)
    transaction.acked(consumer, batch.index(0))
    transaction.acked(consumer, batch.index(1))
    world.hold_disk()
    with transaction.within(consumer):
        asked = [consumer.ask_ack(batch.index(index)) for index in range(2, 6)]
    with other.within(consumer):
        asked.append(consumer.ask_ack(batch.index(6)))
    world.fail_disk(FULL)
    failed = [consumer.receipt(request) for request in asked]
    assert {one.error for one in failed if one} == {ServerError.PersistenceError}
    world.fail_disk(None)
    for index in range(2):
        with refused(ServerError.TransactionConflict, "is acknowledged in transaction"):
            other.acked(consumer, batch.index(index))
    for index in range(2, 7):
        other.acked(consumer, batch.index(index))
    other.commit()
    transaction.commit()
    assert world.subscription("t", "s").cursor.unacked_messages() == 3


@pytest.mark.parametrize("type", MANY)
def test_what_an_abort_gives_back_while_a_later_one_is_read_comes_before_it(type: int) -> None:
    """Seeds 11403778 and 11403850: the last chunks of a message came before the others."""
    with closing(World(transactions=True, cache_bytes=0)) as world:
        client, other = world.connect(), world.connect()
        producer = client.producer("t")
        first = other.subscribe("t", "s", type)
        for text in "abc":
            producer.send(text, partition_key="k")
        first.flow(3)
        txn = WireTransaction(client)
        for delivery in first.deliveries():
            txn.acked(first, delivery)
        other.drop()
        world.settle()
        world.hold_reads()
        second = client.subscribe("t", "s", type)
        second.flow(1)
        world.read_once()  # the first, which is passed over; the second is being read
        txn.abort()
        second.flow(2)
        world.release_reads()
        assert second.payloads() == ["a", "b", "c"]
