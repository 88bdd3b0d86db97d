"""Seeking: where the cursor goes, who is closed, and what happens meanwhile."""

import pytest
from support.wire_client import (
    EARLIEST_ID,
    LATEST_ID,
    Exclusive,
    Failover,
    KeyShared,
    Shared,
    WireConsumer,
    but,
    refused,
    unless_refused,
)
from support.world import FULL, World

from magnetar.broker.topic.skip.skip import skip_messages
from magnetar.model import Position, ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandMessage
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage.ledger.retention import Retention

TYPES = (Exclusive, Shared, Failover, KeyShared)


def filled(world: World, type: int = Exclusive) -> tuple[WireConsumer, list[MessageIdData]]:
    """A consumer, and entries a, (b c d), e that are a second apart."""
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    producer = client.producer("t")
    ids = []
    for payloads in (("a",), ("b", "c", "d"), ("e",)):
        ids.append(producer.send(*payloads))
        world.advance(1000)
    return consumer, ids


def back(consumer: WireConsumer, type: int = Exclusive) -> list[str]:
    """What the consumer gets when it has come back, as its client would."""
    assert consumer.closed_by_broker()
    return consumer.client.subscribe("t", "sub", type, consumer_id=consumer.id).receive()


@pytest.mark.parametrize("type", TYPES)
def test_a_seek_goes_to_the_message_itself(world: World, type: int) -> None:
    consumer, ids = filled(world, type)
    assert len(consumer.receive()) == 5
    consumer.acked(*ids)
    consumer.seek(ids[1])
    assert back(consumer, type) == ["b", "c", "d", "e"]


@pytest.mark.parametrize("type", TYPES)
def test_a_seek_to_either_end(world: World, type: int) -> None:
    consumer, ids = filled(world, type)
    consumer.acked(ids[0])
    consumer.seek(EARLIEST_ID)
    assert back(consumer, type) == ["a", "b", "c", "d", "e"]
    consumer.seek(LATEST_ID)
    assert back(consumer, type) == []
    consumer.client.producer("t").send("f")
    assert consumer.payloads() == ["f"]


def test_a_seek_inside_a_batch(world: World) -> None:
    consumer, ids = filled(world)
    batch = ids[1]
    for index, expected in enumerate((["b", "c", "d", "e"], ["c", "d", "e"], ["d", "e"])):
        consumer.seek(MessageIdData(batch.ledger_id, batch.entry_id, -1, index, None, 3))
        assert back(consumer) == expected
        consumer.seek(but(batch, 3, *range(index)))
        assert back(consumer) == expected


def test_a_seek_beyond_the_last_index_goes_to_the_next_entry(world: World) -> None:
    consumer, ids = filled(world)
    batch = ids[1]
    consumer.seek(MessageIdData(batch.ledger_id, batch.entry_id, -1, 3, None, 3))
    assert back(consumer) == ["e"]


def test_a_batch_of_another_size_is_refused_and_nothing_moves(world: World) -> None:
    consumer, ids = filled(world)
    batch = ids[1]
    with refused(ServerError.NotAllowedError, "batch of 3"):
        consumer.seek(MessageIdData(batch.ledger_id, batch.entry_id, -1, 1, None, 5))
    assert not consumer.closed_by_broker()
    assert len(consumer.receive()) == 5


def test_a_seek_to_what_is_not_there_goes_to_the_next_that_is(world: World) -> None:
    consumer, ids = filled(world)
    consumer.seek(MessageIdData(ids[2].ledger_id, 1000))
    assert back(consumer) == []
    consumer.seek(MessageIdData(0, 0))
    assert back(consumer) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("type", TYPES)
def test_a_seek_by_time(world: World, type: int) -> None:
    start_ms = world.host.now
    consumer, _ = filled(world, type)
    everything = ["a", "b", "c", "d", "e"]
    for ms, expected in ((0, everything), (1, everything[1:]), (1000, everything[1:])):
        consumer.seek(start_ms + ms)
        assert back(consumer, type) == expected
    consumer.seek(start_ms + 1001)
    assert back(consumer, type) == ["e"]
    consumer.seek(start_ms + 10**9)
    assert back(consumer, type) == []
    consumer.seek(0)
    assert back(consumer, type) == everything


def test_a_seek_by_time_over_many_ledgers() -> None:
    world = World(ledger_entries_max=2)
    client = world.connect()
    consumer = client.subscribe("t", "sub")
    producer = client.producer("t")
    for i in range(9):
        producer.send(f"{i}", publish_time=1000 * i)
    for i in range(9):
        consumer.seek(1000 * i)
        assert back(consumer) == [f"{j}" for j in range(i, 9)]


def test_a_seek_on_an_empty_topic(world: World) -> None:
    consumer = world.connect().subscribe("t", "sub")
    for to in (EARLIEST_ID, LATEST_ID, 12345):
        consumer.seek(to)
        assert back(consumer) == []
    consumer.client.producer("t").send("a")
    assert consumer.payloads() == ["a"]


def test_a_seek_without_a_target_is_refused(world: World) -> None:
    consumer, _ = filled(world)
    with refused(ServerError.MetadataError, "needs a message id"):
        consumer.client.request(pb.CommandSeek(consumer_id=consumer.id))


def test_a_seek_survives_a_crash(world: World) -> None:
    consumer, ids = filled(world)
    consumer.acked(*ids)
    batch = ids[1]
    consumer.seek(MessageIdData(batch.ledger_id, batch.entry_id, -1, 1, None, 3))
    world.crash()
    assert world.connect().subscribe("t", "sub").receive() == ["c", "d", "e"]


def test_a_seek_answers_when_it_is_durable(world: World) -> None:
    consumer, ids = filled(world)
    world.hold_disk()
    request_id = consumer.client.ask(consumer.seek_command(ids[1]))
    assert consumer.client.answer(request_id) is None
    assert not consumer.closed_by_broker()
    world.release_disk()
    assert isinstance(consumer.client.answer(request_id), pb.CommandSuccess)


def test_a_seek_that_is_not_stored_is_refused_and_nothing_moves(world: World) -> None:
    consumer, ids = filled(world)
    consumer.acked(ids[0])
    world.fail_disk(FULL)
    with refused(ServerError.PersistenceError):
        consumer.seek(EARLIEST_ID)
    world.fail_disk(None)
    assert not consumer.closed_by_broker()
    assert consumer.receive() == ["b", "c", "d", "e"]


def test_the_consumer_is_closed_before_success_and_gets_nothing_in_between(world: World) -> None:
    consumer, ids = filled(world, Shared)
    other = consumer.client.subscribe("t", "sub", Shared)
    consumer.flow(2)
    other.flow(100)
    consumer.client.received.clear()
    consumer.client.ask(consumer.seek_command(ids[0]))
    kinds = [type(command) for command in consumer.client.received]
    assert kinds == [pb.CommandCloseConsumer, pb.CommandCloseConsumer, pb.CommandSuccess]
    assert not consumer.client.take(CommandMessage)


@pytest.mark.parametrize("type", [Failover, Shared, KeyShared])
def test_a_seek_closes_all_consumers(world: World, type: int) -> None:
    consumer, ids = filled(world, type)
    other = world.connect().subscribe("t", "sub", type)
    consumer.seek(ids[0])
    assert consumer.closed_by_broker()
    assert other.closed_by_broker()


@pytest.mark.parametrize("type", [Exclusive, Failover, Shared, KeyShared])
@pytest.mark.parametrize("by_operator", [False, True])
def test_no_ack_of_a_consumer_that_joined_before_a_reset_is_applied_after_it(
    world: World, type: int, by_operator: bool
) -> None:
    consumer, ids = filled(world, type)
    others = [] if type == Exclusive else [world.connect().subscribe("t", "sub", type)]
    if by_operator:
        world.subscription("t", "sub").reset(Position(ids[0].ledger_id, ids[0].entry_id))
        world.settle()
    else:
        consumer.seek(ids[0])
    for one in [consumer, *others]:
        with refused(ServerError.ServiceNotReady):
            one.acked(ids[0])
    assert world.subscription("t", "sub").cursor.unacked_entries() == len(ids)


def test_a_seek_tells_the_life_that_it_begins(world: World) -> None:
    client = world.connect(feature_flags=pb.FeatureFlags(supports_magnetar=True))
    consumer = client.subscribe("t", "sub", Shared)
    id = client.producer("t").send("a")
    life = world.subscription("t", "sub").life
    answer = client.request(consumer.seek_command(id))
    assert answer.subscription_life == world.subscription("t", "sub").life
    assert answer.subscription_life not in ("", life)


def test_two_seeks_at_once_are_one_too_many(world: World) -> None:
    consumer, ids = filled(world)
    world.hold_disk()
    first = consumer.client.ask(consumer.seek_command(ids[1]))
    with refused(ServerError.ServiceNotReady, "being reset"):
        consumer.seek(ids[2])
    world.release_disk()
    unless_refused(consumer.client.answer(first))
    assert back(consumer) == ["b", "c", "d", "e"]


def test_who_subscribes_during_a_reset_waits_for_its_end(world: World) -> None:
    consumer, ids = filled(world, Shared)
    world.hold_disk()
    consumer.client.ask(consumer.seek_command(ids[2]))
    client = world.connect()
    late = WireConsumer(client, 1, "t")
    request_id = client.ask(late.command("sub", Shared))
    assert client.answer(request_id) is None
    late.flow(10)
    world.release_disk()
    assert isinstance(client.answer(request_id), pb.CommandSuccess)
    assert late.receive() == ["e"]


def test_who_waits_for_the_end_of_a_reset_is_told_when_the_topic_goes(world: World) -> None:
    consumer, ids = filled(world, Shared)
    world.hold_disk()
    consumer.client.ask(consumer.seek_command(ids[2]))
    client = world.connect()
    request_id = client.ask(WireConsumer(client, 1, "t").command("sub", Shared))
    world.broker.unload(world.topic("t").name)
    world.release_disk()
    with refused(ServerError.ServiceNotReady):
        unless_refused(client.answer(request_id))


def test_nothing_is_delivered_during_a_reset() -> None:
    world = World(cache_bytes=0)
    consumer, ids = filled(world)
    world.hold_reads()
    consumer.flow(10)
    world.hold_disk()
    consumer.client.ask(consumer.seek_command(ids[2]))
    world.release_reads()
    assert consumer.payloads() == []
    world.release_disk()
    assert back(consumer) == ["e"]


def test_skip_and_clear_during_a_reset_are_refused(world: World) -> None:
    consumer, ids = filled(world)
    world.hold_disk()
    consumer.client.ask(consumer.seek_command(ids[2]))
    subscription = world.subscription("t", "sub")
    for promise in (subscription.skip(1), subscription.clear()):
        assert promise.error is not None


def test_redelivery_counts_are_void_after_a_seek(world: World) -> None:
    consumer, ids = filled(world, Shared)
    consumer.flow(10)
    consumer.redeliver(*consumer.deliveries())
    consumer.seek(ids[0])
    again = consumer.client.subscribe("t", "sub", Shared)
    again.flow(10)
    assert {message.redelivery_count for message in again.deliveries()} == {0}


def test_a_reader_may_seek(world: World) -> None:
    client = world.connect()
    reader = client.subscribe("t", "reader", durable=False)
    producer = client.producer("t")
    id = producer.send("a")
    producer.send("b")
    assert reader.receive() == ["a", "b"]
    reader.seek(id)
    assert reader.closed_by_broker()
    again = client.subscribe("t", "reader", durable=False, start=id)
    assert again.receive() == ["a", "b"]


# ---- Skip, clear, expire ---------------------------------------------------------


def backlog(world: World) -> int:
    return world.subscription("t", "sub").cursor.unacked_entries()


def test_skip_passes_over_what_is_acked(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    ids = [producer.send(f"{i}") for i in range(100)]
    consumer.acked(*ids[1::2])
    world.done(world.subscription("t", "sub").skip(20))
    assert backlog(world) == 30
    assert consumer.receive()[0] == "40"


def test_skip_beyond_the_end_clears(world: World) -> None:
    filled(world)
    world.done(world.subscription("t", "sub").skip(99))
    assert backlog(world) == 0
    world.done(world.subscription("t", "sub").skip(99))
    world.crash()
    assert world.connect().subscribe("t", "sub").receive() == []


def test_clear_works_without_consumers(world: World) -> None:
    consumer, _ = filled(world)
    consumer.close()
    world.done(world.subscription("t", "sub").clear())
    assert backlog(world) == 0


def test_skip_answers_when_it_is_durable(world: World) -> None:
    filled(world)
    world.hold_disk()
    promise = world.subscription("t", "sub").skip(1)
    assert not promise.done
    world.release_disk()
    assert promise.done


def test_a_skip_that_is_not_stored_fails_and_nothing_moves(world: World) -> None:
    filled(world)
    world.fail_disk(FULL)
    promise = world.subscription("t", "sub").skip(1)
    world.settle()
    assert promise.error is not None
    assert backlog(world) == 3


def test_a_skip_overtaken_by_a_reset_fails(world: World) -> None:
    filled(world)
    subscription = world.subscription("t", "sub")
    world.hold_disk()
    promise = subscription.skip(1)
    subscription.cursor.apply(subscription.cursor.plan_reset(world.topic("t").ledgers.last()))
    world.release_disk()
    assert promise.error is not None


def test_single_messages_are_skipped_by_their_ids(world: World) -> None:
    consumer, ids = filled(world, Shared)
    consumer.flow(100)
    held = consumer.deliveries()
    batch = ids[1]
    subscription = world.subscription("t", "sub")
    inside = MessageIdData(batch.ledger_id, batch.entry_id, -1, 1)
    world.done(skip_messages([subscription.topic], "sub", [inside, ids[2]]))
    assert consumer.stats().unackedMessages == 3
    consumer.redeliver(*held)
    assert consumer.payloads() == ["a", "b", "d"]
    bad = MessageIdData(batch.ledger_id, batch.entry_id, -1, 9)
    assert skip_messages([subscription.topic], "sub", [ids[0], bad]).error is not None
    assert backlog(world) == 2


def test_a_seek_into_what_is_trimmed_meanwhile_goes_on_with_what_comes(world: World) -> None:
    """Nothing that the seek names is there when it is done."""
    client, other = world.connect(), world.connect()
    consumers = [
        client.subscribe("t", "sub", Failover, consumer_name="a"),
        other.subscribe("t", "sub", Failover, consumer_name="b"),
    ]
    producer = client.producer("t")
    for consumer in consumers:
        consumer.flow(100)
    world.advance(5000)
    id = producer.send("a")
    (active,) = [consumer for consumer in consumers if consumer.deliveries()]
    active.acked(id)
    topic = world.topic("t")
    world.store.seal_topic(topic.id)
    world.host.kick()
    world.settle()
    world.hold_disk()
    topic.storage.trim(Retention())
    request = active.client.ask(active.seek_command(id))
    world.release_disk()
    assert isinstance(active.client.answer(request), pb.CommandSuccess)
    producer.send("b")
    assert [text for consumer in consumers for text in back(consumer, Failover)] == ["b"]


@pytest.mark.parametrize("type", TYPES)
def test_what_a_seek_brings_back_is_not_trimmed_while_it_is_under_way(type: int) -> None:
    """I1: it was acked by everybody as the trimming began, and is not when the seek is done."""
    world = World(ledger_entries_max=1)
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    producer = client.producer("t")
    ids = [producer.send(f"{i}") for i in range(4)]
    consumer.acked(*ids)
    world.hold_disk()
    request = client.ask(consumer.seek_command(EARLIEST_ID))
    world.topic("t").storage.trim()
    world.release_disk()
    assert isinstance(client.answer(request), pb.CommandSuccess)
    world.advance(5000)
    again = client.subscribe("t", "sub", type, consumer_id=consumer.id)
    assert again.receive() == ["0", "1", "2", "3"]
    again.acked(*ids)
    assert again.stats().unackedMessages == 0
    world.advance(5000)
    assert len(world.topic("t").storage.ledger_ids()) == 1
