"""What goes on beside open transactions: expiry, quotas, skips by id, unloads, limits, failures."""

from collections.abc import Iterator

import pytest
from support.wire_client import (
    Earliest,
    Exclusive,
    Failover,
    KeyShared,
    Shared,
    WireConsumer,
    refused,
)
from support.wire_transaction import WireTransaction
from support.world import ENDS, FULL, World

from magnetar.broker.topic.skip.skip import skip_messages
from magnetar.model import ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage import Retention

TYPES = (Exclusive, Shared, Failover, KeyShared)


@pytest.fixture
def world() -> Iterator[World]:
    world = World(transactions=True)
    yield world
    world.close()


def backlog(world: World, name: str = "s") -> int:
    cursor = world.subscription("t", name).cursor
    cursor.check()
    return cursor.unacked_messages()


# ---- Topics that store nothing ------------------------------------------------------


def test_what_is_not_persistent_is_in_no_transaction(world: World) -> None:
    """It would be handed out before the commit, and after an abort."""
    client = world.connect()
    topic = "non-persistent://public/default/t"
    producer = client.producer(topic)
    consumer = client.subscribe(topic, "s", Shared)
    consumer.flow(10)
    txn = WireTransaction(client)
    with refused(ServerError.NotAllowedError, "not persistent"):
        txn.send(producer, "a")
    assert consumer.payloads() == []
    producer.send("b")
    with refused(ServerError.NotAllowedError, "not persistent"):
        txn.acked(consumer, consumer.one())
    txn.commit()


# ---- Operators and policies ---------------------------------------------------------


def test_what_is_hidden_does_not_expire_and_what_is_pending_does(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    producer.send("pending")
    consumer.flow(10)
    txn, abandoned = WireTransaction(client, 3_000_000), WireTransaction(client, 3_000_000)
    txn.acked(consumer, consumer.one())
    abandoned.send(producer, "hidden")
    producer.send("behind")
    world.set_policy("messageTTL", 60)
    world.advance(600_000)
    assert backlog(world) == 0  # the pending one expired
    assert world.subscription("t", "s").expired.messages == 1
    abandoned.commit()
    txn.abort()
    assert sorted(consumer.payloads()) == ["behind", "hidden"]  # they can be read only now
    world.advance(600_000)
    assert backlog(world) == 0


@pytest.mark.parametrize("commit", [True, False])
def test_a_skip_by_id_is_stronger_than_a_pending_ack(world: World, commit: bool) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    id = producer.send("a1", "a2", "a3")
    consumer.flow(10)
    batch = consumer.one()
    txn = WireTransaction(client)
    txn.acked(consumer, batch.index(1))
    named = [MessageIdData(id.ledger_id, id.entry_id, -1, index) for index in (1, 2)]
    world.done(skip_messages([world.topic("t")], "s", named))
    assert backlog(world) == 1
    txn.commit() if commit else txn.abort()
    assert backlog(world) == 1
    world.crash()
    assert world.connect().subscribe("t", "s", Shared).receive() == ["a1"]


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("commit", [True, False])
def test_consume_transform_produce_over_any_end(
    world: World, type: int, how: str, commit: bool
) -> None:
    """The loop that transactions are for, on every type, with the topic gone in the middle."""
    client = world.connect()
    source, target = client.producer("source"), client.producer("t")
    consumer = client.subscribe("source", "sub", type)
    for i in range(6):
        source.send(f"in {i}", partition_key=str(i % 3))
    consumer.flow(2)
    first = consumer.deliveries()
    txn = WireTransaction(client)
    for delivery in first:
        (text,) = delivery.payloads.values()
        txn.send(target, text.replace("in", "out"))
        txn.acked(consumer, delivery)
    for topic in ("source", "t"):
        if how == "unload":
            world.unload(topic)
    if how != "unload":
        world.end(how)
    client = world.connect()
    consumer = client.subscribe("source", "sub", type)
    # Where one is active it waits for the end of what its connection before had acked.
    behind = [] if type in (Exclusive, Failover) else [f"in {i}" for i in range(2, 6)]
    assert consumer.receive() == behind
    reader = client.subscribe("t", "s", Shared, initialPosition=Earliest)
    assert reader.receive() == []
    txn.client = client
    txn.commit() if commit else txn.abort()
    assert reader.payloads() == (["out 0", "out 1"] if commit else [])
    assert world.subscription("source", "sub").cursor.unacked_entries() == (4 if commit else 6)
    got = consumer.payloads()
    if type in (Exclusive, Failover):
        assert got == [f"in {i}" for i in range(2 if commit else 0, 6)]
    else:
        assert set(got) == (set() if commit else {"in 0", "in 1"})


def test_a_trim_beside_an_open_transaction_takes_nothing_that_it_has(world: World) -> None:
    small = World(transactions=True, ledger_entries_max=3)
    client = small.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    txn = WireTransaction(client)
    for i in range(4):
        producer.send(f"plain {i}")
        txn.send(producer, f"txn {i}")
    consumer.flow(100)
    for delivery in consumer.deliveries():
        consumer.acked(delivery)
    topic = small.topic("t")
    topic.storage.trim(Retention(time_ms=0, size_bytes=0))
    small.settle()
    txn.commit()
    wanted = ["txn 0", "plain 1", "txn 1", "plain 2", "txn 2", "plain 3", "txn 3"]
    assert consumer.payloads() == wanted
    small.crash()
    assert small.connect().subscribe("t", "s", Shared).receive() == wanted
    small.close()


# ---- Limits -------------------------------------------------------------------------


def test_there_is_a_limit_on_the_acks_of_all_open_transactions_together() -> None:
    world = World(transactions=True, max_acks_of_transactions=3)
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    ids = [producer.send(text) for text in "abcd"]
    consumer.receive()
    one, other = WireTransaction(client), WireTransaction(client)
    one.acked(consumer, ids[0], ids[1])
    other.acked(consumer, ids[2])
    with refused(ServerError.TooManyRequests, "3 are allowed"):
        other.acked(consumer, ids[3])
    world.crash()
    client = world.connect()
    consumer = client.subscribe("t", "s", Shared)
    with refused(ServerError.TooManyRequests, "3 are allowed"):
        other.acked(consumer, ids[3])
    one.abort(client)
    other.acked(consumer, ids[3], ids[0])
    other.commit(client)
    assert backlog(world) == 1
    world.close()


def test_an_ack_that_failed_does_not_count_towards_the_limit() -> None:
    world = World(transactions=True, max_acks_of_transactions=1)
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    id = producer.send("a")
    consumer.receive()
    txn = WireTransaction(client)
    failed_ack(world, consumer, txn, id)
    txn.acked(consumer, id)
    txn.commit()
    assert backlog(world) == 0
    world.close()


def test_there_is_a_limit_on_the_names_of_all_open_transactions_together() -> None:
    world = World(transactions=True, max_topics_of_transactions=3)
    client = world.connect()
    one, other = WireTransaction(client), WireTransaction(client)

    def register(txn: WireTransaction, *topics: str) -> None:
        command = pb.CommandAddPartitionToTxn(txnid_least_bits=txn.number, partitions=topics)
        client.request(command)

    register(one, "a", "b")
    register(other, "a")
    register(one, "a", "b")
    with refused(ServerError.TooManyRequests, "3 are allowed"):
        register(other, "b")
    with refused(ServerError.NotAllowedError, "3 are allowed"):
        other.send(client.producer("b"), "x")
    one.commit()
    register(other, "b")
    world.close()


# ---- What the disk refuses ----------------------------------------------------------


def failed_ack(world: World, consumer: WireConsumer, txn: WireTransaction, *ids: object) -> None:
    world.hold_disk()
    with txn.within(consumer):
        requests = [consumer.ask_ack(id) for id in ids]  # type: ignore[arg-type]
    world.fail_disk(FULL)
    world.fail_disk(None)
    for request_id in requests:
        answer = consumer.receipt(request_id)
        assert answer is not None
        assert answer.error == ServerError.PersistenceError


def test_of_many_acks_those_that_the_disk_refused_are_not_pending(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    ids = [producer.send(str(i)) for i in range(40)]
    consumer.receive()
    txn, other = WireTransaction(client), WireTransaction(client)
    txn.acked(consumer, *ids[:10])
    failed_ack(world, consumer, txn, *ids[10:30])
    with refused(ServerError.TransactionConflict):
        other.acked(consumer, ids[9])
    other.acked(consumer, *ids[10:30])
    txn.commit()
    assert backlog(world) == 30
    other.commit()
    assert backlog(world) == 10
    world.crash()
    got = world.connect().subscribe("t", "s", Shared).receive()
    assert sorted(got, key=int) == [str(i) for i in range(30, 40)]


def test_an_ack_that_is_said_twice_and_refused_by_the_disk_is_refused_twice(world: World) -> None:
    """Whoever is told that it is part of the transaction commits it, and relies on that."""
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    id = producer.send("a")
    consumer.receive()
    txn = WireTransaction(client)
    failed_ack(world, consumer, txn, id, id)
    txn.commit()
    assert backlog(world) == 1


# ---- Cumulative acks -----------------------------------------------------------------


@pytest.mark.parametrize("inside", [True, False])
def test_a_cumulative_ack_conflicts_with_what_is_pending_before_its_end_alone(
    world: World, inside: bool
) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Exclusive)
    ids = [producer.send(str(i)) for i in range(6)]
    consumer.receive()
    one, other, third = (WireTransaction(client) for _ in range(3))
    one.acked(consumer, ids[5])
    one.acked(consumer, ids[3])
    other.acked(consumer, ids[4])

    def through(id: object) -> None:
        with third.within(*((consumer,) if inside else ())):
            consumer.acked(id, cumulative=True)  # type: ignore[arg-type]

    for id in ids[3:]:
        with refused(ServerError.TransactionConflict):
            through(id)
    through(ids[2])
    other.commit()
    with refused(ServerError.TransactionConflict):
        through(ids[4])
    one.abort()
    through(ids[4])
    if inside:
        assert backlog(world) == 5
        third.commit()
    assert backlog(world) == 1
