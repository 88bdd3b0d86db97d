"""I10: what all dispatchers do between two looks at sockets is bounded, however many there are."""

import pytest
from support.wire_client import Failover, KeyShared, Shared, WireConsumer
from support.world import World

from magnetar.broker.turn.rounds import ENTRY_BYTES, ROUND_BYTES_MAX
from magnetar.protocol import CommandFlow, encode

# What one round hands out, and as much again: the last one to begin in it ends what it read.
ROUND_MESSAGES = 2 * ROUND_BYTES_MAX // ENTRY_BYTES
SUBSCRIPTIONS = 30
MESSAGES = 200


def subscribe_all(world: World, type: int) -> list[WireConsumer]:
    """Each on a connection of its own, for what one takes at once is bounded by itself."""
    return [
        world.connect().subscribe("t", f"s{number}", type, initialPosition=1)
        for number in range(SUBSCRIPTIONS)
    ]


def sent(world: World) -> list[int]:
    """How many messages were handed out to the consumer of each subscription."""
    names = [f"s{number}" for number in range(SUBSCRIPTIONS)]
    return [int(world.subscription("t", name).consumers[0].out.messages) for name in names]


def count_in_rounds(world: World, before: int = 0) -> int:
    """Goes rounds until nothing is left to do; how many were sent then, and never many in one."""
    while True:
        now = sum(sent(world))
        assert now - before <= ROUND_MESSAGES
        before = now
        if not world.host.soon:
            return before
        go_round(world)


def go_round(world: World) -> None:
    """A round of the loop: all callbacks that are there, and none that come meanwhile."""
    for _ in range(len(world.host.soon)):
        world.host.soon.popleft()()


@pytest.mark.parametrize("type", [Shared, KeyShared, Failover])
def test_one_publish_for_many_subscriptions_goes_out_in_rounds(type: int) -> None:
    world = World()
    consumers = subscribe_all(world, type)
    producer = world.connect().producer("t")
    for consumer in consumers:
        consumer.client.say(CommandFlow(consumer.id, MESSAGES))
    world.hold_disk()
    for number in range(MESSAGES):
        producer.publish(f"{number}", partition_key=f"k{number}")
    world._write()
    assert sum(sent(world)) > 0, "nobody waits without need"
    assert count_in_rounds(world) == SUBSCRIPTIONS * MESSAGES
    world.release_disk()
    for consumer in consumers:
        assert len(consumer.payloads()) == MESSAGES


def test_acks_of_many_subscriptions_have_more_sent_in_rounds() -> None:
    """Each ack makes room for more: those of one group do so in one event."""
    world = World(max_unacked_per_consumer=MESSAGES)
    consumers = subscribe_all(world, Shared)
    producer = world.connect().producer("t")
    for number in range(2 * MESSAGES):
        producer.send(f"{number}")
    ids = []
    for consumer in consumers:
        consumer.client.say(CommandFlow(consumer.id, 2 * MESSAGES))
        ids.append(consumer.deliveries())
        assert len(ids[-1]) == MESSAGES
    world.hold_disk()
    for consumer, named in zip(consumers, ids, strict=True):
        consumer.ack(*named)
    before = sum(sent(world))
    world._write()
    assert count_in_rounds(world, before) == SUBSCRIPTIONS * 2 * MESSAGES


@pytest.mark.parametrize("type", [Shared, KeyShared])
def test_many_that_leave_at_once_give_back_in_rounds(type: int) -> None:
    world = World()
    client = world.connect()
    producer = world.connect().producer("t")
    for number in range(SUBSCRIPTIONS):
        consumer = client.subscribe("t", f"s{number}", type, initialPosition=1)
        for message in range(MESSAGES if number == 0 else 0):
            producer.send(f"{message}", partition_key=f"k{message}")
        client.say(CommandFlow(consumer.id, MESSAGES))
    subscriptions = [world.subscription("t", f"s{number}") for number in range(SUBSCRIPTIONS)]

    def unacked() -> int:
        counts = [s.dispatcher.unacked_count() for s in subscriptions if s.dispatcher is not None]
        return sum(counts)

    left = unacked()
    assert left == SUBSCRIPTIONS * MESSAGES
    client.session.lost()
    while True:
        now = unacked()
        assert left - now <= 2 * ROUND_MESSAGES
        left = now
        if not world.host.soon:
            break
        go_round(world)
    assert left == 0


def test_who_waits_is_asked_in_the_order_of_the_line() -> None:
    """Those with much to do come back at its end: nobody is passed over, but who came first."""
    world = World(dispatch_read_entries=1)
    consumers = subscribe_all(world, Shared)
    producer = world.connect().producer("t")
    for _ in range(3):
        producer.send("x" * ROUND_BYTES_MAX)
    world.hold_disk()
    for consumer in consumers:
        consumer.client.session.receive(encode(CommandFlow(consumer.id, 10)))
    counts = [sent(world)]
    while world.host.soon:
        go_round(world)
        counts.append(sent(world))
    assert all(max(count) - min(count) <= 2 for count in counts)
    assert counts[-1] == [3] * SUBSCRIPTIONS
