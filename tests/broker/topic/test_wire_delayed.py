"""Delayed messages: never early, in order of their time, and counted exactly."""

import pytest
from support.wire_client import (
    Earliest,
    Exclusive,
    Failover,
    KeyShared,
    Shared,
    WireConsumer,
    WireProducer,
    refused,
)
from support.world import ENDS, World

from magnetar.broker.topic.dispatch.due import DUE_MAX
from magnetar.broker.topic.skip.skip import skip_messages
from magnetar.model import ServerError

MANY = (Shared, KeyShared)


def delayed(world: World) -> int:
    dispatcher = world.subscription("t", "sub").dispatcher
    assert dispatcher is not None
    return dispatcher.delayed_count()


def start(world: World, type: int) -> tuple[WireProducer, WireConsumer]:
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    consumer.flow(1000)
    return client.producer("t"), consumer


@pytest.mark.parametrize("type", MANY)
def test_never_early_and_not_late(world: World, type: int) -> None:
    producer, consumer = start(world, type)
    producer.send("a", deliver_at_time=world.host.now + 5000)
    assert delayed(world) == 1
    world.advance(4999)
    assert consumer.payloads() == []
    world.advance(1)
    assert consumer.payloads() == ["a"]
    assert delayed(world) == 0


@pytest.mark.parametrize("type", [Exclusive, Failover])
def test_one_active_consumer_gets_them_at_once(world: World, type: int) -> None:
    producer, consumer = start(world, type)
    producer.send("a", deliver_at_time=world.host.now + 5000)
    assert consumer.payloads() == ["a"]


@pytest.mark.parametrize("type", MANY)
def test_in_order_of_time_then_of_position(world: World, type: int) -> None:
    producer, consumer = start(world, type)
    now = world.host.now
    for text, delay in (("c", 300), ("a", 100), ("d", 300), ("b", 200)):
        producer.send(text, deliver_at_time=now + delay)
    producer.send("first")
    assert consumer.payloads() == ["first"]
    got: list[str] = []
    for _ in range(4):
        world.advance(100)
        got += consumer.payloads()
    assert got == ["a", "b", "c", "d"]


def test_a_time_in_the_past_is_now(world: World) -> None:
    producer, consumer = start(world, Shared)
    producer.send("a", deliver_at_time=world.host.now)
    producer.send("b", deliver_at_time=-5)
    assert consumer.payloads() == ["a", "b"]


@pytest.mark.parametrize("type", MANY)
@pytest.mark.parametrize("how", ENDS)
def test_they_wait_on_after(world: World, type: int, how: str) -> None:
    producer, consumer = start(world, type)
    due = world.host.now + 60_000
    producer.send("later", deliver_at_time=due)
    producer.send("now")
    assert consumer.payloads() == ["now"]
    world.end(how)
    consumer = world.connect().subscribe("t", "sub", type)
    consumer.flow(10)
    assert consumer.payloads() == ["now"]
    assert delayed(world) == 1
    world.advance(due - 1 - world.host.now)
    assert consumer.payloads() == []
    world.advance(1)
    assert consumer.payloads() == ["later"]


@pytest.mark.parametrize("type", MANY)
def test_they_wait_on_when_all_consumers_leave_and_come_once(world: World, type: int) -> None:
    producer, consumer = start(world, type)
    producer.send("later", deliver_at_time=world.host.now + 5000)
    consumer.client.drop()
    assert delayed(world) == 1
    again = world.connect().subscribe("t", "sub", type)
    again.flow(10)
    assert delayed(world) == 1
    world.advance(5000)
    assert again.payloads() == ["later"]
    assert delayed(world) == 0


def test_what_falls_due_while_nobody_is_there_waits_for_somebody(world: World) -> None:
    producer, consumer = start(world, Shared)
    producer.send("later", deliver_at_time=world.host.now + 5000)
    consumer.client.drop()
    world.advance(10_000)
    again = world.connect().subscribe("t", "sub", Shared)
    assert again.receive() == ["later"]
    again.redeliver()
    assert again.payloads() == ["later"]


@pytest.mark.parametrize("type", MANY)
def test_skipping_all_cancels_them(world: World, type: int) -> None:
    producer, consumer = start(world, type)
    for i in range(100):
        producer.send(f"{i}", deliver_at_time=world.host.now + 5000)
    assert delayed(world) == 100
    world.done(world.subscription("t", "sub").clear())
    assert delayed(world) == 0
    world.advance(10_000)
    assert consumer.payloads() == []


def test_skipping_some_cancels_those(world: World) -> None:
    producer, consumer = start(world, Shared)
    for i in range(5):
        producer.send(f"{i}", deliver_at_time=world.host.now + 5000)
    world.done(world.subscription("t", "sub").skip(2))
    assert delayed(world) == 3
    world.advance(5000)
    assert consumer.payloads() == ["2", "3", "4"]


def test_skipping_one_by_its_id_cancels_it(world: World) -> None:
    producer, consumer = start(world, Shared)
    ids = [producer.send(f"{i}", deliver_at_time=world.host.now + 5000) for i in range(3)]
    world.done(skip_messages([world.topic("t")], "sub", [ids[1]]))
    assert delayed(world) == 2
    world.advance(5000)
    assert consumer.payloads() == ["0", "2"]


@pytest.mark.parametrize("type", MANY)
def test_an_ack_cancels_one(world: World, type: int) -> None:
    producer, consumer = start(world, type)
    id = producer.send("a", deliver_at_time=world.host.now + 5000)
    producer.send("b", deliver_at_time=world.host.now + 5000)
    consumer.acked(id)
    assert delayed(world) == 1
    world.advance(5000)
    assert consumer.payloads() == ["b"]


def test_a_seek_begins_their_wait_anew(world: World) -> None:
    producer, consumer = start(world, Shared)
    id = producer.send("a", deliver_at_time=world.host.now + 5000)
    consumer.seek(id)
    again = consumer.client.subscribe("t", "sub", Shared)
    again.flow(10)
    assert delayed(world) == 1
    world.advance(5000)
    assert again.payloads() == ["a"]


def test_a_given_back_one_does_not_wait_again(world: World) -> None:
    producer, consumer = start(world, Shared)
    producer.send("a", deliver_at_time=world.host.now + 5000)
    world.advance(5000)
    consumer.redeliver(*consumer.deliveries())
    assert consumer.payloads() == ["a"]


def test_more_than_are_taken_at_once_all_arrive(world: World) -> None:
    producer, consumer = start(world, Shared)
    consumer.flow(10_000)
    due = world.host.now + 60_000
    texts = [f"{i}" for i in range(1500)]
    for text in texts:
        producer.send(text, deliver_at_time=due)
    world.advance(60_000 + 20)  # others have their turn in between
    assert sorted(consumer.payloads()) == sorted(texts)
    assert delayed(world) == 0


def test_due_messages_wait_for_permits(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    consumer.flow(1)
    producer = client.producer("t")
    for i in range(3):
        producer.send(f"{i}", deliver_at_time=world.host.now + 1000)
    consumer.flow(2)
    producer.send("x")
    assert consumer.payloads() == ["x"]
    world.advance(1000)
    assert consumer.payloads() == ["0", "1"]
    assert consumer.receive(5) == ["2"]


def test_key_shared_messages_are_late_only_for_their_own_key(world: World) -> None:
    client = world.connect()
    consumers = [client.subscribe("t", "sub", KeyShared) for _ in range(2)]
    producer = client.producer("t")
    for consumer in consumers:
        consumer.flow(100)
    for i in range(20):
        producer.send(f"{i}", partition_key=f"{i}", deliver_at_time=world.host.now + 1000)
    world.advance(1000)
    assert sum(len(consumer.payloads()) for consumer in consumers) == 20


def test_due_messages_of_a_full_owner_wait_for_it(world: World) -> None:
    client = world.connect()
    full, free = (client.subscribe("t", "sub", KeyShared) for _ in range(2))
    free.flow(100)
    full.flow(1)
    producer = client.producer("t")
    for i in range(20):
        producer.send(f"{i}", partition_key=f"{i}", deliver_at_time=world.host.now + 1000)
    world.advance(1000)
    got = len(free.payloads()) + len(full.payloads())
    assert got < 20
    assert len(full.receive(100)) == 20 - got


def test_where_delays_are_off_messages_come_at_once() -> None:
    world = World(delayed_delivery=False)
    producer, consumer = start(world, Shared)
    producer.send("a", deliver_at_time=world.host.now + 5000)
    assert consumer.payloads() == ["a"]


def test_the_policy_of_a_topic_goes_before_the_broker_s(world: World) -> None:
    producer, consumer = start(world, Shared)
    world.set_policy("delayedDelivery", {"active": False, "tickTime": 1000}, topic="t")
    producer.send("a", deliver_at_time=world.host.now + 5000)
    assert consumer.payloads() == ["a"]
    body = {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": 3000}
    world.set_policy("delayedDelivery", body, topic="t")
    with refused(ServerError.NotAllowedError, "3000 milliseconds"):
        producer.send("b", deliver_at_time=world.host.now + 5000)
    producer.publish("b", sequence_id=1, deliver_at_time=world.host.now + 2000)
    assert consumer.payloads() == []


def test_unsubscribing_forgets_them(world: World) -> None:
    producer, consumer = start(world, Shared)
    producer.send("a", deliver_at_time=world.host.now + 5000)
    consumer.unsubscribe()
    world.advance(10_000)
    assert not consumer.client.received


def test_an_entry_that_is_nacked_while_others_are_read_is_delivered_once_and_others_too() -> None:
    """I3: what was delayed is due, and stands among what is read again."""
    world = World(cache_bytes=0)
    client = world.connect()
    first = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    for text in "abc":
        producer.send(text)
    producer.send("late", deliver_at_time=world.host.now + 5000)
    producer.send("z")
    assert first.receive() == ["a", "b", "c", "z"]
    first.close()  # everything is to be read again
    second = client.subscribe("t", "sub", Shared)
    world.advance(6000)
    world.hold_reads()
    second.flow(1)
    world.release_reads()
    (a,) = second.deliveries()
    assert a.payloads == {0: "a"}  # what is due has no precedence over what is read before it
    world.hold_reads()
    second.flow(10)  # reads b, c, late and z
    second.redeliver(a)
    world.release_reads()
    assert sorted(second.payloads()) == ["a", "b", "c", "late", "z"]
    producer.send("more")
    assert second.payloads() == ["more"]
    assert second.stats().unackedMessages == 6


@pytest.mark.parametrize("type", MANY)
@pytest.mark.parametrize("count", [3, 2 * DUE_MAX])
def test_chunks_that_are_due_stay_in_order_when_all_consumers_leave(
    world: World, type: int, count: int
) -> None:
    """A consumer that gets chunk 1 before chunk 0 can only give it back (seed 19718703)."""
    producer, consumer = start(world, type)
    due_ms = world.host.now + 5000
    chunks = [f"{i}" for i in range(count)]
    producer.send_chunks("u", *chunks, deliver_at_time=due_ms)
    consumer.client.drop()
    second = world.connect().subscribe("t", "sub", type)
    second.flow(1)
    world.advance(5000)
    assert second.payloads() == ["0"]
    second.client.drop()
    third = world.connect().subscribe("t", "sub", type)
    third.flow(count)
    world.advance(20)
    assert third.payloads() == chunks
    assert delayed(world) == 0


@pytest.mark.parametrize("type", MANY)
def test_a_chunk_that_is_read_when_its_time_comes_does_not_overtake_the_one_before(
    type: int,
) -> None:
    """Chunk 0 was put off a moment ago, and its alarm has not rung (seed 51006504)."""
    world = World(cache_bytes=0)
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "sub", type, initialPosition=Earliest)
    producer.send_chunks("u", "0", "1", deliver_at_time=world.host.now + 1000)
    world.hold_reads()
    consumer.flow(1)
    world.read_once()  # there is room for one: chunk 0 is put off, and chunk 1 is being read
    world.advance(1000)
    consumer.flow(10)
    world.release_reads()
    world.advance(10)
    assert consumer.payloads() == ["0", "1"]
