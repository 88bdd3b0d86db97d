"""Other clients that lost their connection, and may still hand out what is skipped (I5)."""

from typing import Any

import pytest
from support.wire_client import (
    Earliest,
    Exclusive,
    Failover,
    KeyShared,
    Shared,
    WireConsumer,
)
from support.world import World

from magnetar.broker.topic.dispatch.overtaken import AWAY_MAX, LEFT_MAX
from magnetar.broker.topic.skip.skip import Skip
from magnetar.broker.topic.skip.skip_result import Takers
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import pulsar_pb2 as pb

HERE, THERE = "10.0.0.1", "10.0.0.2"


def subscribe(
    world: World, name: str, *, host: str = HERE, port: int = 1, type: int = Shared, **fields: Any
) -> WireConsumer:
    """A consumer of another client than ours, a moment after all that was before."""
    world.advance(1)
    client = world.connect(feature_flags=pb.FeatureFlags(), address=f"{host}:{port}")
    fields = {"initialPosition": Earliest} | fields
    return client.subscribe("t", "sub", type, consumer_name=name, **fields)


def again(consumer: WireConsumer, name: str, *, type: int = Shared) -> WireConsumer:
    """The same client subscribes anew, on the same connection."""
    return consumer.client.subscribe(
        "t", "sub", type, consumer_id=consumer.id, consumer_name=name, initialPosition=Earliest
    )


def named(world: World, id: MessageIdData) -> list[str]:
    """Who may still hand out a message after it was skipped."""
    skip = Skip([world.topic("t")], "sub", [id], recall=True, details=True)
    while skip.plan_piece():
        pass
    skip.carry_out()
    world.settle()
    skip.recalled(5000)
    world.settle()
    assert skip.recall is not None
    (result,) = skip.results
    return Takers(skip.recall).of(result).get("unconfirmed", [])


def send(world: World, count: int) -> list[MessageIdData]:
    producer = world.connect().producer("t")
    return [producer.send(f"{number}") for number in range(count)]


def test_a_consumer_of_the_same_name_elsewhere_clears_nobody(world: World) -> None:
    gone = subscribe(world, "w", host=HERE)
    (id,) = send(world, 1)
    gone.flow(10)
    gone.client.drop()
    subscribe(world, "w", host=THERE).flow(0)
    assert named(world, id) == ["w"]


def test_another_consumer_of_the_same_client_and_name_clears_nobody(world: World) -> None:
    gone = subscribe(world, "w")
    (id,) = send(world, 1)
    gone.flow(10)
    gone.client.drop()
    subscribe(world, "w", port=2, consumer_id=7).flow(0)
    assert named(world, id) == ["w"]


def test_who_subscribed_before_another_was_lost_is_not_that_one(world: World) -> None:
    """It asks for messages only now."""
    gone, there = subscribe(world, "w"), subscribe(world, "w", port=2)
    (id,) = send(world, 1)
    gone.flow(10)
    gone.client.drop()
    there.flow(0)
    assert named(world, id) == ["w"]


def test_who_was_connected_all_the_time_is_not_one_that_came_back(world: World) -> None:
    """It subscribes again since the broker had closed it."""
    gone, there = subscribe(world, "w"), subscribe(world, "w", port=2)
    (id,) = send(world, 1)
    gone.flow(10)
    there.flow(0)
    gone.client.drop()
    world.unload("t")
    again(there, "w").flow(0)
    assert named(world, id) == ["w"]


def test_of_two_alike_that_are_away_the_first_to_come_back_clears_neither(world: World) -> None:
    """Nobody can tell which of them it is."""
    first, second = subscribe(world, "w"), subscribe(world, "w", port=2)
    ids = send(world, 2)
    first.flow(1)
    second.flow(1)
    first.client.drop()
    second.client.drop()
    subscribe(world, "w", port=3).flow(0)
    assert named(world, ids[0]) == ["w"]
    subscribe(world, "w", port=4).flow(0)
    assert named(world, ids[1]) == []


def test_an_unload_forgets_nobody_who_is_away(world: World) -> None:
    gone = subscribe(world, "w")
    (id,) = send(world, 1)
    gone.flow(10)
    gone.client.drop()
    world.unload("t")
    assert named(world, id) == ["w"]


def test_a_seek_forgets_nobody_who_is_away(world: World) -> None:
    gone = subscribe(world, "w")
    (id,) = send(world, 1)
    gone.flow(10)
    gone.client.drop()
    other = subscribe(world, "other")
    other.seek(id)
    again(other, "other").flow(0)
    assert named(world, id) == ["w"]


def test_another_type_of_subscription_forgets_nobody_who_is_away(world: World) -> None:
    gone = subscribe(world, "w")
    (id,) = send(world, 1)
    gone.flow(10)
    gone.client.drop()
    subscribe(world, "other", type=KeyShared).flow(0)
    assert named(world, id) == ["w"]


@pytest.mark.parametrize("type", [Exclusive, Failover])
def test_who_had_the_subscription_for_itself_is_named_once_others_share_it(
    world: World, type: int
) -> None:
    gone = subscribe(world, "w", type=type)
    (id,) = send(world, 1)
    gone.flow(10)
    gone.client.drop()
    subscribe(world, "other").flow(0)
    assert named(world, id) == ["w"]


def test_what_a_client_kept_of_a_refused_batch_is_still_there_without_its_connection(
    world: World,
) -> None:
    first = subscribe(world, "first")
    id = world.connect().producer("t").send("a", "b")
    first.flow(2)
    second = subscribe(world, "second")
    second.flow(2)
    first.redeliver(id)
    assert second.payloads() == ["a", "b"]
    first.client.drop()
    assert sorted(named(world, id)) == ["first", "second"]


def test_of_very_many_that_are_away_the_first_is_named_too(world: World) -> None:
    count = AWAY_MAX + 5
    consumers = [subscribe(world, f"{number}") for number in range(count)]
    ids = send(world, count)
    for consumer in consumers:
        consumer.flow(1)
    for consumer in consumers:
        consumer.client.drop()
    assert "0" in named(world, ids[0])
    last = named(world, ids[-1])
    assert f"{count - 1}" in last
    assert f"{count - 2}" not in last


def test_who_had_very_much_is_named_for_all_of_it(world: World) -> None:
    gone = subscribe(world, "w")
    ids = send(world, LEFT_MAX + 2)
    gone.flow(LEFT_MAX + 2)
    gone.client.drop()
    assert named(world, ids[0]) == ["w"]
    assert named(world, ids[-1]) == ["w"]
