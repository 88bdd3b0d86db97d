"""Clients that confirm by PONG that their queue is empty, though they ask for no message (I5)."""

from functools import partial

import pytest
from support.wire_client import Earliest, Shared, WireConsumer
from support.world import World

from magnetar.broker.promise import Promise
from magnetar.broker.session.session import READERS_MAX
from magnetar.broker.topic.skip.skip import Skip
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import pulsar_pb2 as pb


def holder_of_one(world: World, version: str) -> tuple[WireConsumer, MessageIdData]:
    client = world.connect(client_version=version)
    consumer = client.subscribe("t", "sub", Shared, consumer_name="w", initialPosition=Earliest)
    id = world.connect().producer("t").send("m")
    consumer.flow(1)
    return consumer, id


def skip(world: World, id: MessageIdData) -> Promise[None]:
    """The promise that all of it is given back."""
    made = Skip([world.topic("t")], "sub", [id], recall=True)
    while made.plan_piece():
        pass
    made.carry_out()
    world.settle()
    promise = made.recalled(5000)
    world.settle()
    return promise


def subscribe_again(consumer: WireConsumer) -> None:
    consumer.client.subscribe("t", "sub", Shared, consumer_id=consumer.id, consumer_name="w")


@pytest.mark.parametrize(
    ("version", "is_enough"), [("Pulsar-CPP-v3.7.1", True), ("Pulsar Go 0.16", False)]
)
def test_its_pong_is_enough_of_a_client_that_reads_in_order(
    world: World, version: str, is_enough: bool
) -> None:
    consumer, id = holder_of_one(world, version)
    promise = skip(world, id)
    consumer.client.answers_pings = False
    subscribe_again(consumer)
    assert not promise.done
    consumer.client.say(pb.CommandPong())
    assert promise.done is is_enough


def test_a_pong_to_an_older_ping_says_nothing(world: World) -> None:
    consumer, id = holder_of_one(world, "Pulsar-CPP-v3.7.1")
    promise = skip(world, id)
    consumer.client.answers_pings = False
    consumer.client.session.probe()
    subscribe_again(consumer)
    consumer.client.say(pb.CommandPong())
    assert not promise.done
    consumer.client.say(pb.CommandPong())
    assert promise.done


def test_a_peer_that_answers_no_ping_is_waited_for_only_so_often(world: World) -> None:
    client = world.connect()
    client.answers_pings = False
    called: list[int] = []
    for number in range(READERS_MAX + 5):
        answer = client.session.has_read()
        answer.when_done(partial(lambda number, error: called.append(number), number))
    for _ in range(READERS_MAX + 10):
        client.say(pb.CommandPong())
    assert called == list(range(READERS_MAX))
