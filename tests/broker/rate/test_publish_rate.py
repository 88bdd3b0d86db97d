"""Publish rates: whoever is over one is not read for a while, and nothing is refused or lost."""

import pytest
from support.wire_client import WireClient, WireProducer
from support.world import World

from magnetar.protocol import CommandSend, CommandSendReceipt, encode
from magnetar.protocol import pulsar_pb2 as pb

TOPIC_RATE = {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": -1}
DOMAINS = ("persistent://public/default/t", "non-persistent://public/default/t")


def receipts(client: WireClient) -> int:
    return len(client.take(CommandSendReceipt))


def is_read(client: WireClient) -> bool:
    return client.port.reading


def publish(producer: WireProducer, count: int) -> None:
    for number in range(count):
        producer.publish(f"{number}")


@pytest.mark.parametrize("topic", DOMAINS)
def test_receipts_come_at_the_rate_and_none_is_missing(world: World, topic: str) -> None:
    client = world.connect()
    producer = client.producer(topic)
    world.set_policy("publishRate", TOPIC_RATE, topic=topic)
    publish(producer, 60)
    assert receipts(client) == 10
    assert not is_read(client)
    for _ in range(5):
        world.advance(1000)
        assert receipts(client) == 10
    world.advance(1000)
    assert is_read(client)
    assert client.send_answers() == []
    assert world.topic(topic).rates.publishes_held == 51


def test_bytes_count_as_they_came(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    world.set_policy("publishRate", {"publishThrottlingRateInByte": 10_000}, topic="t")
    for _ in range(40):
        producer.publish("x" * 900)
    world.advance(3000)
    assert 40 <= receipts(client) + 10 <= 52
    world.advance(3000)
    assert is_read(client)


def test_a_batch_counts_for_as_many_as_are_in_it_and_is_let_through_whole(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    world.set_policy("publishRate", TOPIC_RATE, topic="t")
    producer.publish(*"abcdefghijklmnopqrstuvwxyz")
    producer.publish("next")
    assert receipts(client) == 1
    world.advance(1699)
    assert receipts(client) == 0
    world.advance(1)
    assert receipts(client) == 1


def test_what_was_read_already_waits_too(world: World) -> None:
    """A socket gives many commands at once: the rate holds for those behind the first too."""
    client = world.connect()
    producer = client.producer("t")
    world.set_policy("publishRate", TOPIC_RATE, topic="t")
    entry = producer.entry(b"x", 0)
    client.say_bytes(b"".join(encode(CommandSend(producer.id, n, entry, 1, 0)) for n in range(30)))
    assert receipts(client) == 10
    world.advance(1000)
    assert receipts(client) == 10


def test_another_connection_is_not_held_up(world: World) -> None:
    noisy, quiet = world.connect(), world.connect()
    loud, other = noisy.producer("t"), quiet.producer("other")
    world.set_policy("publishRate", TOPIC_RATE, topic="t")
    publish(loud, 100)
    assert not is_read(noisy)
    publish(other, 100)
    assert receipts(quiet) == 100


def test_other_topics_of_a_held_connection_wait_with_it(world: World) -> None:
    """As Apache Pulsar has it: there is one socket, and it is not read."""
    client = world.connect()
    loud, other = client.producer("t"), client.producer("other")
    world.set_policy("publishRate", TOPIC_RATE, topic="t")
    publish(loud, 11)
    receipts(client)
    publish(other, 1)
    assert receipts(client) == 0
    world.advance(200)
    assert receipts(client) == 2


def test_producers_of_a_topic_share_its_rate_and_each_gets_on(world: World) -> None:
    clients = [world.connect() for _ in range(4)]
    producers = [client.producer("t") for client in clients]
    world.set_policy("publishRate", TOPIC_RATE, topic="t")
    for producer in producers:
        publish(producer, 200)
    for client in clients:
        receipts(client)
    world.advance(20_000)
    counts = [receipts(client) for client in clients]
    assert 200 - 4 <= sum(counts) <= 200 + 4
    assert max(counts) - min(counts) <= 1


def test_a_namespace_sets_the_rate_of_each_of_its_topics(world: World) -> None:
    client, other = world.connect(), world.connect()
    producers = [client.producer("t"), other.producer("u")]
    world.set_policy("publishRate", TOPIC_RATE)
    for producer in producers:
        publish(producer, 20)
    assert [receipts(client), receipts(other)] == [10, 10]


def test_a_topic_may_be_freed_from_the_rate_of_its_namespace(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    world.set_policy("publishRate", TOPIC_RATE)
    world.set_policy("publishRate", {"publishThrottlingRateInMsg": -1}, topic="t")
    publish(producer, 100)
    assert receipts(client) == 100


def test_the_setting_of_the_broker_holds_for_all_topics_together() -> None:
    world = World(publish_rate_messages=10)
    clients = [world.connect() for _ in range(3)]
    producers = [client.producer(f"t{n}") for n, client in enumerate(clients)]
    for producer in producers:
        publish(producer, 100)
    assert sum(receipts(client) for client in clients) <= 12
    world.advance(10_000)
    counts = [receipts(client) for client in clients]
    assert 97 <= sum(counts) <= 103
    assert max(counts) - min(counts) <= 1
    world.close()


def test_the_setting_for_each_topic_holds_where_no_policy_does() -> None:
    world = World(publish_rate_per_topic_messages=10)
    client = world.connect()
    publish(client.producer("t"), 30)
    assert receipts(client) == 10
    world.close()


def test_a_rate_that_is_taken_back_lets_everybody_go_on_at_once(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    world.set_policy("publishRate", {"publishThrottlingRateInMsg": 1}, topic="t")
    publish(producer, 50)
    assert receipts(client) == 1
    world.set_policy("publishRate", {"publishThrottlingRateInMsg": -1}, topic="t")
    assert receipts(client) == 49


def test_a_rate_outlives_a_restart(world: World) -> None:
    world.connect().producer("t")
    world.set_policy("publishRate", TOPIC_RATE, topic="t")
    world.restart()
    client = world.connect()
    publish(client.producer("t"), 20)
    assert receipts(client) == 10


@pytest.mark.parametrize("how", ["unload", "delete"])
def test_a_topic_that_goes_holds_nobody_up(world: World, how: str) -> None:
    client = world.connect()
    producer = client.producer("t")
    world.set_policy("publishRate", {"publishThrottlingRateInMsg": 1}, topic="t")
    publish(producer, 5)
    world.delete("t", force=True) if how == "delete" else world.unload("t")
    assert is_read(client)
    assert client.closed_producers() == [producer.id]


def test_who_is_gone_is_not_waited_for(world: World) -> None:
    client = world.connect()
    world.set_policy("publishRate", {"publishThrottlingRateInMsg": 1}, topic="t")
    publish(client.producer("t"), 5)
    gate = world.topic("t").rates.publishing
    assert gate is not None
    assert gate.throttles[0].waiting == [client.session]
    client.drop()
    assert gate.throttles[0].waiting == []


def test_one_that_is_held_up_is_not_given_up_and_hears_of_the_broker(world: World) -> None:
    """Nobody reads its answers to PING; and it must not take the broker for dead meanwhile."""
    client = world.connect()
    client.answers_pings = False
    world.set_policy("publishRate", {"publishThrottlingRateInMsg": 1}, topic="t")
    producer = client.producer("t")
    producer.publish(*[f"{n}" for n in range(1000)])
    for _ in range(5):
        client.session.check_alive()
        world.settle()
    assert not client.hung_up
    assert len(client.take(pb.CommandPing)) == 5


def test_without_a_rate_there_is_no_gate(world: World) -> None:
    world.connect().producer("t")
    assert world.topic("t").rates.publishing is None
    world.set_policy("publishRate", TOPIC_RATE)
    assert world.topic("t").rates.publishing is not None
    world.set_policy("publishRate", None)
    assert world.topic("t").rates.publishing is None
