"""Dispatch rates: what is over one waits, comes in its time, and needs nobody to ask for it."""

import pytest
from support.wire_client import Exclusive, Failover, KeyShared, Shared, WireConsumer
from support.world import World

from magnetar.broker.topic.dispatch.shared import SharedDispatcher

TYPES = (Exclusive, Shared, Failover, KeyShared)
RATE = {"dispatchThrottlingRateInMsg": 10}


def fill(world: World, topic: str, count: int) -> None:
    producer = world.connect().producer(topic)
    for number in range(count):
        producer.send(f"{number}", partition_key=f"{number}")


def got(consumer: WireConsumer) -> int:
    return len(consumer.payloads())


def check(world: World, topic: str = "t") -> None:
    for subscription in world.topic(topic).subscriptions.values():
        if isinstance(subscription.dispatcher, SharedDispatcher):
            subscription.dispatcher.check()
        elif subscription.gate is not None:
            subscription.gate.check()


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("policy", ["dispatchRate", "subscriptionDispatchRate"])
def test_a_backlog_comes_at_the_rate_and_all_of_it_comes(
    world: World, type: int, policy: str
) -> None:
    """Nobody publishes, acks or asks for anything meanwhile (I3)."""
    consumer = world.connect().subscribe("t", "sub", type)
    fill(world, "t", 45)
    world.set_policy(policy, RATE, topic="t")
    consumer.flow(1000)
    counts = [got(consumer)]
    for _ in range(5):
        world.advance(1000)
        counts.append(got(consumer))
        check(world)
    assert counts == [10, 10, 10, 10, 5, 0]


def test_what_is_published_goes_out_at_once_as_long_as_it_is_within_the_rate(world: World) -> None:
    consumer = world.connect().subscribe("t")
    consumer.flow(1000)
    world.set_policy("dispatchRate", RATE, topic="t")
    producer = world.connect().producer("t")
    for number in range(30):
        producer.send(f"{number}")
        assert consumer.payloads() == [f"{number}"]
        world.advance(100)


def test_bytes_are_a_rate_of_their_own(world: World) -> None:
    consumer = world.connect().subscribe("t")
    producer = world.connect().producer("t")
    for _ in range(30):
        producer.send("x" * 1000)
    world.set_policy("dispatchRate", {"dispatchThrottlingRateInByte": 5000}, topic="t")
    consumer.flow(1000)
    assert got(consumer) == 5
    world.advance(3000)
    assert 13 <= got(consumer) <= 16
    held = world.subscription("t", "sub").held
    assert held.bytes["topic"] > 0
    assert held.messages["topic"] == 0


def test_a_period_of_many_seconds_saves_as_much(world: World) -> None:
    consumer = world.connect().subscribe("t")
    fill(world, "t", 50)
    rate = {"dispatchThrottlingRateInMsg": 20, "ratePeriodInSecond": 10}
    world.set_policy("dispatchRate", rate, topic="t")
    consumer.flow(1000)
    assert got(consumer) == 20
    world.advance(1000)
    assert got(consumer) == 2


def test_what_is_delivered_again_counts_like_what_is_new(world: World) -> None:
    consumer = world.connect().subscribe("t", "sub", Shared)
    fill(world, "t", 10)
    world.set_policy("dispatchRate", RATE, topic="t")
    consumer.flow(1000)
    assert got(consumer) == 10
    consumer.redeliver()
    assert got(consumer) == 0
    world.advance(500)
    assert got(consumer) == 5
    world.advance(500)
    assert got(consumer) == 5
    check(world)


def test_the_messages_of_a_batch_are_counted_unless_entries_shall_be(world: World) -> None:
    consumer = world.connect().subscribe("t")
    producer = world.connect().producer("t")
    for _ in range(4):
        producer.send(*"abcdefghij")
    world.set_policy("dispatchRate", RATE, topic="t")
    consumer.flow(1000)
    assert got(consumer) == 10
    world.restart(dispatch_rate_by_entry=True)
    consumer = world.connect().subscribe("t")
    consumer.flow(1000)
    assert got(consumer) == 40


def test_subscriptions_of_a_topic_share_its_rate_and_each_gets_on(world: World) -> None:
    consumers = [world.connect().subscribe("t", f"s{n}") for n in range(3)]
    fill(world, "t", 100)
    world.set_policy("dispatchRate", RATE, topic="t")
    for consumer in consumers:
        consumer.flow(1000)
    world.advance(9000)
    counts = [got(consumer) for consumer in consumers]
    assert sum(counts) == 100
    assert min(counts) > 15


def test_a_rate_of_one_subscription_holds_for_no_other(world: World) -> None:
    slow, quick = (world.connect().subscribe("t", name) for name in ("slow", "quick"))
    fill(world, "t", 50)
    policies = world.broker.directory.topic_policies(world.topic("t").name)
    policies.set_subscription_rate("slow", RATE)
    world.broker.directory.put_topic_policies(world.topic("t").name, policies)
    world.broker.policies_changed("public/default")
    world.settle()
    for consumer in (slow, quick):
        consumer.flow(1000)
    assert (got(slow), got(quick)) == (10, 50)
    assert world.subscription("t", "slow").held.messages["subscription"] == 1
    world.restart()
    slow = world.connect().subscribe("t", "slow")
    slow.flow(1000)
    assert got(slow) == 10


def test_the_setting_of_the_broker_holds_for_all_topics_together() -> None:
    world = World(dispatch_rate_messages=10)
    consumers = [world.connect().subscribe(f"t{n}") for n in range(3)]
    for number in range(3):
        fill(world, f"t{number}", 50)
    for consumer in consumers:
        consumer.flow(1000)
    world.advance(9000)
    counts = [got(consumer) for consumer in consumers]
    assert sum(counts) == 100
    assert min(counts) > 15
    world.close()


def test_a_relative_rate_is_added_to_what_is_published(world: World) -> None:
    consumer = world.connect().subscribe("t")
    rate = {"dispatchThrottlingRateInMsg": 10, "relativeToPublishRate": True}
    world.set_policy("dispatchRate", rate, topic="t")
    producer = world.connect().producer("t")
    for number in range(400):
        producer.send(f"{number}")
    world.advance(10_000)  # 40 in a second
    consumer.flow(1000)
    got(consumer)
    world.advance(1000)
    assert got(consumer) == 50


def test_who_has_no_backlog_may_be_spared() -> None:
    world = World(dispatch_rate_without_backlog=False)
    consumer = world.connect().subscribe("t")
    world.set_policy("dispatchRate", RATE, topic="t")
    fill(world, "t", 200)
    consumer.flow(10_000)
    assert got(consumer) == 200
    behind = world.connect().subscribe("t", "behind", initialPosition=1)
    fill(world, "t", 1000)
    assert got(consumer) == 1000
    behind.flow(10_000)
    assert got(behind) < 250
    world.advance(60_000)
    # Up to where there are no more than a thousand entries left, at the rate.
    assert got(behind) > 900
    world.close()


@pytest.mark.parametrize("type", TYPES)
def test_a_rate_that_is_taken_back_lets_all_go_at_once(world: World, type: int) -> None:
    consumer = world.connect().subscribe("t", "sub", type)
    fill(world, "t", 100)
    world.set_policy("dispatchRate", {"dispatchThrottlingRateInMsg": 1}, topic="t")
    consumer.flow(1000)
    assert got(consumer) == 1
    world.set_policy("dispatchRate", None, topic="t")
    assert got(consumer) == 99
    assert world.subscription("t", "sub").gate is None


@pytest.mark.parametrize("type", TYPES)
def test_entries_that_come_from_the_disk_are_held_to_the_rate_too(type: int) -> None:
    world = World(cache_bytes=0)
    consumer = world.connect().subscribe("t", "sub", type)
    fill(world, "t", 45)
    world.set_policy("dispatchRate", RATE, topic="t")
    consumer.flow(1000)
    counts = [got(consumer)]
    for _ in range(4):
        world.advance(1000)
        counts.append(got(consumer))
    assert counts == [10, 10, 10, 10, 5]
    world.close()


def test_who_has_nothing_to_get_is_not_told_to_have_been_held_up(world: World) -> None:
    busy, idle = (world.connect().subscribe("t", name) for name in ("busy", "idle"))
    fill(world, "t", 40)
    world.topic("t").subscriptions["idle"].clear()
    world.set_policy("dispatchRate", RATE, topic="t")
    busy.flow(1000)
    idle.flow(1000)
    assert world.subscription("t", "busy").held.messages["topic"] == 1
    assert world.subscription("t", "idle").held.messages["topic"] == 0


def test_a_subscription_that_goes_while_it_waits_is_forgotten(world: World) -> None:
    consumer = world.connect().subscribe("t")
    fill(world, "t", 40)
    world.set_policy("dispatchRate", RATE, topic="t")
    consumer.flow(1000)
    gate = world.subscription("t", "sub").gate
    assert gate is not None
    assert gate.waiting
    consumer.unsubscribe()
    assert not gate.waiting


def test_a_consumer_that_comes_while_the_subscription_waits_is_served(world: World) -> None:
    first = world.connect().subscribe("t", "sub", Shared)
    fill(world, "t", 30)
    world.set_policy("dispatchRate", RATE, topic="t")
    first.flow(1000)
    assert got(first) == 10
    first.client.drop()
    second = world.connect().subscribe("t", "sub", Shared)
    second.flow(1000)
    world.advance(5000)
    assert got(second) == 30
    check(world)
