"""A transaction that ends while one of its topics is being loaded, a piece in each event (I11)."""

from collections.abc import Iterator

import pytest
from support.wire_client import Earliest, Shared
from support.wire_transaction import WireTransaction
from support.world import World

from magnetar.broker.topic.persistent_topic import PersistentTopic
from magnetar.model import TopicName

NAME = TopicName.parse("t")
COUNT = 4


@pytest.fixture
def world() -> Iterator[World]:
    world = World(transactions=True)
    world.broker.pieces.be_small()
    yield world
    world.close()


@pytest.mark.parametrize("steps", range(COUNT + 1))
@pytest.mark.parametrize("commit", [True, False])
def test_a_topic_that_is_being_loaded_hears_of_the_end(
    world: World, steps: int, commit: bool
) -> None:
    client = world.connect()
    consumers = [client.subscribe("t", f"s{number}", Shared) for number in range(COUNT)]
    producer = client.producer("t")
    ids = [producer.send(text) for text in ("a", "b")]
    txn = WireTransaction(client)
    for consumer in consumers:
        txn.acked(consumer, ids[0])
    txn.send(producer, "c")
    producer.send("d")
    world.unload("t")
    world.settle()

    loading = world.broker.prepare(NAME)
    assert loading is not None
    for _ in range(steps):
        assert loading.step()
    txn.commit() if commit else txn.abort()
    assert world.broker.prepare(NAME) is loading
    loading.finish()

    topic = world.topic("t")
    assert isinstance(topic, PersistentTopic)
    assert topic.horizon.clear
    for subscription in topic.subscriptions.values():
        assert not subscription.pending.by_number
        subscription.cursor.check()
    readers = [world.connect().subscribe("t", f"s{n}", Shared) for n in range(COUNT)]
    expected = ["b", "c", "d"] if commit else ["a", "b", "d"]
    for reader in readers:
        assert reader.receive() == expected
    late = world.connect().subscribe("t", "late", Shared, initialPosition=Earliest)
    assert late.receive() == (["a", *expected] if commit else expected)
