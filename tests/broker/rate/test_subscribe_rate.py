"""Subscribe rates: who subscribes all the time is refused, and nobody else is."""

import pytest
from support.wire_client import Shared, WireClient, refused
from support.world import World

from magnetar.broker.rate.rate import Rate
from magnetar.broker.rate.subscribe_limit import CONSUMERS_MAX, SubscribeLimit
from magnetar.model import ServerError

RATE = {"subscribeThrottlingRatePerConsumer": 3, "ratePeriodInSecond": 30}


def subscribe(client: WireClient, name: str = "c") -> None:
    client.subscribe("t", "sub", Shared, consumer_name=name, consumer_id=1).close()


@pytest.mark.parametrize("level", ["", "t"])
def test_a_consumer_may_subscribe_so_often_in_a_period(world: World, level: str) -> None:
    client = world.connect()
    client.producer("t")
    world.set_policy("subscribeRate", RATE, topic=level)
    for _ in range(3):
        subscribe(client)
    with refused(ServerError.NotAllowedError, "3 times in 30 s"):
        subscribe(client)
    world.advance(10_000)
    subscribe(client)


def test_others_may_subscribe_meanwhile(world: World) -> None:
    client = world.connect(address="10.0.0.1:4000")
    client.producer("t")
    world.set_policy("subscribeRate", RATE, topic="t")
    for _ in range(3):
        subscribe(client)
    subscribe(client, "another")
    subscribe(world.connect(address="10.0.0.2:4000"))


def test_a_new_connection_is_no_new_consumer(world: World) -> None:
    world.connect().producer("t")
    world.set_policy("subscribeRate", RATE, topic="t")
    for port in range(3):
        subscribe(world.connect(address=f"10.0.0.1:{port}"))
    with refused(ServerError.NotAllowedError, "subscribe rate limit"):
        subscribe(world.connect(address="10.0.0.1:9"))


def test_the_setting_holds_where_no_policy_does() -> None:
    world = World(subscribe_rate_per_consumer=1, subscribe_rate_period_seconds=5)
    client = world.connect()
    client.producer("t")
    subscribe(client)
    with refused(ServerError.NotAllowedError, "1 times in 5 s"):
        subscribe(client)
    world.set_policy("subscribeRate", {"subscribeThrottlingRatePerConsumer": -1})
    subscribe(client)
    world.close()


def test_another_policy_does_not_begin_the_period_anew(world: World) -> None:
    client = world.connect()
    client.producer("t")
    world.set_policy("subscribeRate", RATE, topic="t")
    for _ in range(3):
        subscribe(client)
    world.set_policy("maxConsumers", 100, topic="t")
    with refused(ServerError.NotAllowedError):
        subscribe(client)


def test_very_many_consumers_are_not_all_remembered() -> None:
    limit = SubscribeLimit(Rate(1, period_seconds=30))
    for number in range(CONSUMERS_MAX + 1):
        assert limit.allows("10.0.0.1:1", f"{number}", 0, 0)
    assert not limit.allows("10.0.0.1:1", f"{CONSUMERS_MAX}", 0, 0)
    assert limit.allows("10.0.0.1:1", "0", 0, 0)
