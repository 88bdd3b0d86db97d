"""The coordinator: transactions open and end, all or nothing, and answers stay the same."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.wire_client import Earliest, Exclusive, Failover, Shared, WireClient, refused
from support.wire_transaction import ABORT, COMMIT, WireTransaction
from support.world import BROKEN, ENDS, FULL, World

from magnetar.broker.transaction.transactions import COORDINATOR_TOPIC
from magnetar.model import ServerError
from magnetar.protocol import pulsar_pb2 as pb


@pytest.fixture
def world() -> Iterator[World]:
    world = World(transactions=True)
    yield world
    world.close()


def visible(world: World, topic: str, name: str = "look") -> list[str]:
    """What somebody who reads a topic from its beginning is given now."""
    client = world.connect()
    reader = client.subscribe(topic, name, Exclusive, durable=False, initialPosition=Earliest)
    found = reader.receive()
    reader.close()
    return found


# ---- The coordinator as clients find it ------------------------------------------


@pytest.mark.parametrize("topic", [COORDINATOR_TOPIC, f"{COORDINATOR_TOPIC}-partition-0"])
def test_clients_find_the_coordinator(world: World, topic: str) -> None:
    client = world.connect()
    found = client.request(pb.CommandPartitionedTopicMetadata(topic=topic))
    assert (found.response, found.partitions) == (0, 1)
    looked = client.request(pb.CommandLookupTopic(topic=topic))
    assert looked.response == 1
    assert looked.brokerServiceUrl
    assert client.request(pb.CommandTcClientConnectRequest(tc_id=0))


def test_there_is_one_coordinator(world: World) -> None:
    client = world.connect()
    with refused(ServerError.TransactionCoordinatorNotFound, "no coordinator 3"):
        client.request(pb.CommandTcClientConnectRequest(tc_id=3))
    with refused(ServerError.TransactionCoordinatorNotFound):
        client.request(pb.CommandNewTxn(txn_ttl_millis=1000, tc_id=3))
    ended = WireTransaction(client)
    ended.commit()
    command = ended.end_command(COMMIT)
    command.txnid_most_bits = 3
    with refused(ServerError.TransactionCoordinatorNotFound):
        client.request(command)
    other = pb.CommandPartitionedTopicMetadata(topic=f"{COORDINATOR_TOPIC}-partition-1")
    with refused(ServerError.TopicNotFound, "'pulsar'"):
        client.request(other)


def test_transactions_are_switched_off_unless_somebody_switches_them_on() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    with refused(ServerError.NotAllowedError, "no transactions"):
        client.request(pb.CommandTcClientConnectRequest(tc_id=0))
    with refused(ServerError.NotAllowedError, "no transactions"):
        WireTransaction(client)
    producer.transaction = 7
    with refused(ServerError.NotAllowedError, "no transactions"):
        producer.send("a")
    with refused(ServerError.TopicNotFound, "'pulsar'"):
        client.request(pb.CommandPartitionedTopicMetadata(topic=COORDINATOR_TOPIC))
    world.close()


def test_what_brokers_say_to_each_other_is_refused(world: World) -> None:
    client = world.connect()
    with refused(ServerError.NotAllowedError, "END_TXN"):
        client.request(pb.CommandEndTxnOnPartition(topic="t"))
    with refused(ServerError.NotAllowedError, "END_TXN"):
        client.request(pb.CommandEndTxnOnSubscription())


# ---- Ends ------------------------------------------------------------------------


def test_a_commit_shows_what_was_sent_and_acks_what_was_acked_at_once(world: World) -> None:
    client = world.connect()
    source, one, two = (client.producer(topic) for topic in ("source", "one", "two"))
    consumer = client.subscribe("source", "sub", Shared)
    source.send("in")
    consumer.flow(10)
    message = consumer.one()
    txn = WireTransaction(client)
    txn.send(one, "out 1")
    txn.send(two, "out 2")
    txn.acked(consumer, message)
    assert visible(world, "one") == visible(world, "two") == []
    cursor = world.subscription("source", "sub").cursor
    assert cursor.unacked_entries() == 1
    txn.commit()
    assert visible(world, "one") == ["out 1"]
    assert visible(world, "two") == ["out 2"]
    assert cursor.unacked_entries() == 0


def test_an_abort_shows_nothing_and_gives_back_what_was_acked(world: World) -> None:
    client = world.connect()
    source, target = client.producer("source"), client.producer("target")
    consumer = client.subscribe("source", "sub", Shared)
    source.send("in")
    consumer.flow(10)
    txn = WireTransaction(client)
    txn.send(target, "out")
    txn.acked(consumer, consumer.one())
    txn.abort()
    assert visible(world, "target") == []
    assert consumer.payloads() == ["in"]
    assert world.subscription("source", "sub").cursor.unacked_entries() == 1


@pytest.mark.parametrize("end", ["restart", "crash"])
def test_a_commit_that_was_answered_holds_through_anything(world: World, end: str) -> None:
    client = world.connect()
    source, target = client.producer("source"), client.producer("target")
    consumer = client.subscribe("source", "sub", Shared)
    source.send("in")
    consumer.flow(10)
    txn = WireTransaction(client)
    txn.send(target, "out")
    txn.acked(consumer, consumer.one())
    txn.commit()
    world.end(end)
    assert visible(world, "target") == ["out"]
    consumer = world.connect().subscribe("source", "sub", Shared)
    assert consumer.receive() == []


@pytest.mark.parametrize("end", ["restart", "crash"])
@pytest.mark.parametrize("action", [COMMIT, ABORT])
def test_an_open_transaction_goes_on_after_a_restart(world: World, end: str, action: int) -> None:
    client = world.connect()
    source, target = client.producer("source"), client.producer("target")
    consumer = client.subscribe("source", "sub", Shared)
    source.send("in")
    source.send("more")
    consumer.flow(10)
    first, _ = consumer.deliveries()
    txn = WireTransaction(client)
    txn.send(target, "out 1")
    txn.acked(consumer, first)
    world.end(end)
    client = world.connect()
    target = client.producer("target")
    consumer = client.subscribe("source", "sub", Shared)
    assert consumer.receive() == ["more"]
    txn.send(target, "out 2")
    assert visible(world, "target") == []
    client.request(txn.end_command(action))
    assert visible(world, "target") == (["out 1", "out 2"] if action == COMMIT else [])
    assert consumer.payloads() == ([] if action == COMMIT else ["in"])
    world.end(end)
    assert visible(world, "target") == (["out 1", "out 2"] if action == COMMIT else [])
    consumer = world.connect().subscribe("source", "sub", Shared)
    assert sorted(consumer.receive()) == (["more"] if action == COMMIT else ["in", "more"])


@pytest.mark.parametrize("durable", [True, False])
def test_a_commit_that_nobody_heard_of_is_all_or_nothing(world: World, durable: bool) -> None:
    """And whoever asks again is told which."""
    client = world.connect()
    source = client.producer("source")
    targets = [client.producer(f"target {i}") for i in range(5)]
    consumer = client.subscribe("source", "sub", Shared)
    source.send("in")
    consumer.flow(10)
    txn = WireTransaction(client)
    for target in targets:
        txn.send(target, "out")
    txn.acked(consumer, consumer.one())
    world.hold_disk()
    client.ask(txn.end_command(COMMIT))
    world.settle()
    if durable:
        while (job := world.store.next_write()) is not None:
            job.run(world.disk)
            break  # it is on the disk, and nobody is told
    world.crash()
    client = world.connect()
    shown = [visible(world, f"target {i}") for i in range(5)]
    assert shown == ([["out"]] * 5 if durable else [[]] * 5)
    consumer = client.subscribe("source", "sub", Shared)
    assert consumer.receive() == []  # acked, or pending still
    txn.commit(client)
    assert [visible(world, f"target {i}") for i in range(5)] == [["out"]] * 5
    assert world.subscription("source", "sub").cursor.unacked_entries() == 0


def test_an_end_may_be_asked_for_again_and_never_for_the_other_one(world: World) -> None:
    client = world.connect()
    one, other = WireTransaction(client), WireTransaction(client)
    one.commit()
    other.abort()
    for _ in range(2):
        one.commit()
        other.abort()
        with refused(ServerError.InvalidTxnStatus, "was committed"):
            one.abort()
        with refused(ServerError.InvalidTxnStatus, "was aborted"):
            other.commit()
        world.crash()
        client = one.client = other.client = world.connect()


def test_while_an_end_is_on_its_way_the_same_may_be_asked_for_and_nothing_else(
    world: World,
) -> None:
    client = world.connect()
    producer = client.producer("t")
    txn = WireTransaction(client)
    txn.send(producer, "a")
    world.hold_disk()
    first = client.ask(txn.end_command(COMMIT))
    again = client.ask(txn.end_command(COMMIT))
    other = client.ask(txn.end_command(ABORT))
    with refused(ServerError.NotAllowedError, "COMMITTING"):
        txn.send(producer, "late")
    assert client.answer(other) is None
    world.release_disk()
    for request_id in (first, again):
        assert not client.answer(request_id).HasField("error")
    assert client.answer(other).error == ServerError.InvalidTxnStatus
    assert visible(world, "t") == ["a"]


@pytest.mark.parametrize("type", [Exclusive, Failover])
def test_who_hears_of_an_abort_gets_what_it_gives_back_in_order(world: World, type: int) -> None:
    """Seed 97000348:transactions. A commit came while the abort of one whose time was over was on
    its way; it was refused at once, and what was asked for then began behind the ack."""
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", type)
    for text in "abc":
        producer.send(text)
    consumer.flow(100)
    first, *_ = consumer.deliveries()
    txn = WireTransaction(client)
    txn.acked(consumer, first, cumulative=True)
    world.hold_disk()
    world.advance(60_001)
    commit = client.ask(txn.end_command(COMMIT))
    assert client.answer(commit) is None
    world.release_disk()
    assert client.answer(commit).error == ServerError.InvalidTxnStatus
    consumer.deliveries()
    consumer.redeliver()
    assert consumer.payloads() == ["a", "b", "c"]


def test_an_end_that_the_disk_refused_is_told_to_who_asked_for_the_other(world: World) -> None:
    client = world.connect()
    txn = WireTransaction(client)
    world.hold_disk()
    requests = [client.ask(txn.end_command(action)) for action in (COMMIT, ABORT)]
    world.fail_disk(FULL)
    world.fail_disk(None)
    for request_id in requests:
        assert client.answer(request_id).error == ServerError.PersistenceError
    txn.abort()


def test_an_end_waits_for_what_is_on_its_way(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    txn = WireTransaction(client)
    world.hold_disk()
    producer.transaction = txn.number
    producer.publish("a")
    producer.publish("b")
    ended = client.ask(txn.end_command(COMMIT))
    assert client.answer(ended) is None
    world.release_disk()
    assert not client.answer(ended).HasField("error")
    assert visible(world, "t") == ["a", "b"]


@pytest.mark.parametrize("error", [FULL, BROKEN])
def test_an_end_that_the_disk_refuses_leaves_the_transaction_open(
    world: World, error: object
) -> None:
    client = world.connect()
    source, target = client.producer("source"), client.producer("target")
    consumer = client.subscribe("source", "sub", Shared)
    source.send("in")
    consumer.flow(10)
    txn = WireTransaction(client)
    txn.send(target, "out")
    txn.acked(consumer, consumer.one())
    world.hold_disk()
    ended = client.ask(txn.end_command(COMMIT))
    world.fail_disk(error)  # type: ignore[arg-type]
    answer = client.answer(ended)
    assert answer.error == ServerError.PersistenceError
    assert "open as before" in answer.message
    assert visible(world, "target") == []
    world.fail_disk(None)
    if error is BROKEN:
        world.restart()
    txn.commit(world.connect())
    assert visible(world, "target") == ["out"]
    assert world.subscription("source", "sub").cursor.unacked_entries() == 0


def test_nobody_knows_a_transaction_that_never_was(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    txn = WireTransaction(client)
    txn.number += 1
    with refused(ServerError.TransactionNotFound):
        txn.commit()
    with refused(ServerError.NotAllowedError, "no transaction"):
        txn.send(producer, "a")
    with refused(ServerError.TransactionNotFound):
        client.request(pb.CommandAddPartitionToTxn(txnid_least_bits=txn.number, partitions=["t"]))
    with refused(ServerError.TransactionCoordinatorNotFound):
        client.request(pb.CommandEndTxn(txnid_least_bits=1, txnid_most_bits=9))
    client.request(pb.CommandAddPartitionToTxn(txnid_least_bits=txn.number - 1, partitions=["t"]))


def test_what_is_not_committed_in_time_is_aborted(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    txn = WireTransaction(client, timeout_ms=5000)
    txn.send(producer, "a")
    producer.send("behind")
    world.advance(4999)
    assert visible(world, "t") == []
    world.advance(1)
    assert visible(world, "t") == ["behind"]
    with refused(ServerError.InvalidTxnStatus, "was aborted"):
        txn.commit()
    with refused(ServerError.NotAllowedError, "was aborted"):
        txn.send(producer, "late")


def test_after_a_restart_a_transaction_has_its_whole_time_whatever_the_clock(world: World) -> None:
    txn = WireTransaction(world.connect(), timeout_ms=5000)
    world.advance(4000)
    world.crash()
    world.jump_clock(1_000_000_000)
    world.advance(4000)
    txn.send(world.connect().producer("t"), "a")
    world.advance(1000)
    with refused(ServerError.InvalidTxnStatus, "was aborted"):
        txn.commit(world.connect())


def test_what_is_open_when_transactions_are_switched_off_is_aborted(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    txn = WireTransaction(client)
    txn.send(producer, "a")
    producer.send("b")
    world.restart(transactions=False)
    assert visible(world, "t") == ["b"]


# ---- Limits ----------------------------------------------------------------------


def limited(**settings: Any) -> tuple[World, WireClient]:
    world = World(transactions=True, **settings)
    return world, world.connect()


def test_there_is_a_limit_on_open_transactions() -> None:
    world, client = limited(max_open_transactions=2)
    one, _ = WireTransaction(client), WireTransaction(client)
    with refused(ServerError.TooManyRequests, "2 transactions"):
        WireTransaction(client)
    one.commit()
    WireTransaction(client)
    world.close()


def test_there_is_a_limit_on_entries() -> None:
    world, client = limited(max_entries_per_transaction=2)
    producer = client.producer("t")
    txn = WireTransaction(client)
    txn.send(producer, "a")
    txn.send(producer, "b")
    with refused(ServerError.NotAllowedError, "2 entries"):
        txn.send(producer, "c")
    txn.commit()
    assert visible(world, "t") == ["a", "b"]
    world.close()


def test_there_is_a_limit_on_acks_that_a_restart_does_not_lift() -> None:
    world, client = limited(max_acks_per_transaction=2)
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    ids = [producer.send(text) for text in "abc"]
    consumer.receive()
    txn = WireTransaction(client)
    txn.acked(consumer, ids[0], ids[1])
    world.crash()
    consumer = world.connect().subscribe("t", "s", Shared)
    with refused(ServerError.NotAllowedError, "2 are allowed"):
        txn.acked(consumer, ids[2])
    world.close()


def test_there_is_a_limit_on_topics_and_on_time() -> None:
    world, client = limited(max_topics_per_transaction=2, transaction_timeout_max_ms=1000)
    for timeout_ms in (0, 1001):
        with refused(ServerError.NotAllowedError, "1 to 1000 ms"):
            WireTransaction(client, timeout_ms)
    txn = WireTransaction(client, 1000)
    with refused(ServerError.NotAllowedError, "2 are allowed"):
        client.request(
            pb.CommandAddPartitionToTxn(txnid_least_bits=txn.number, partitions=["a", "b", "c"])
        )
    txn.send(client.producer("a"), "1")
    txn.send(client.producer("b"), "1")
    with refused(ServerError.NotAllowedError, "2 are allowed"):
        txn.send(client.producer("c"), "1")
    world.close()


@pytest.mark.parametrize("how", ENDS)
def test_a_thousand_topics_end_as_one(how: str) -> None:
    world = World(transactions=True)
    client = world.connect()
    txn = WireTransaction(client)
    for i in range(1000):
        txn.send(client.producer(f"t{i}"), "out")
    groups = world.store.log.journal._sequence
    txn.commit()
    assert world.store.log.journal._sequence == groups + 1
    if how == "crash":
        world.crash()
    shown = {text for i in range(0, 1000, 100) for text in visible(world, f"t{i}")}
    assert shown == {"out"}
    assert all(len(visible(world, f"t{i}")) == 1 for i in range(0, 1000, 50))
    world.close()


# ---- Nobody is held up ------------------------------------------------------------


def test_more_names_than_there_may_be_are_not_read(world: World) -> None:
    """Not even looked at: none of these is a topic's name."""
    client = world.connect()
    transaction = WireTransaction(client)
    with refused(ServerError.NotAllowedError, "about 1001 topics and subscriptions, and 1000"):
        client.request(
            pb.CommandAddPartitionToTxn(
                txnid_least_bits=transaction.number, partitions=["://"] * 1001
            )
        )
    with refused(ServerError.NotAllowedError, "about 1001 topics and subscriptions, and 1000"):
        client.request(
            pb.CommandAddSubscriptionToTxn(
                txnid_least_bits=transaction.number,
                subscription=[pb.Subscription(topic="://", subscription="s")] * 1001,
            )
        )


def test_thousands_whose_time_is_over_at_once_end_over_many_events(world: World) -> None:
    client = world.connect()
    for _ in range(200):
        WireTransaction(client, timeout_ms=1000)
    world.host.now += 1000
    while (callback := world.host.due()) is not None:  # all of one round
        callback()
    transactions = world.broker.transactions
    assert 0 < transactions.timed_out < 50
    world.settle()
    assert transactions.timed_out == 200
    assert not transactions.open
