"""Topics that are long to load: others have their turn in between, and nothing is missing after.

The pieces here are the smallest that there are, so a topic of a few subscriptions is long to load.
"""

from collections.abc import Callable

import pytest
from support.wire_client import Shared, WireClient, WireConsumer
from support.world import World

from magnetar.errors import BrokerError
from magnetar.model import SchemaType, ServerError, TopicName
from magnetar.protocol import encode
from magnetar.protocol import pulsar_pb2 as pb

NAME = TopicName.parse("t")
COUNT = 8


@pytest.fixture
def stored(world: World) -> World:
    """A topic that is not loaded: the subscription s3 has acked 3 of ten messages, and so on."""
    world.broker.pieces.be_small()
    client = world.connect()
    consumers = [client.subscribe("t", f"s{number}", Shared) for number in range(COUNT)]
    producer = client.producer("t")
    ids = [producer.send(f"{number}") for number in range(10)]
    for number, consumer in enumerate(consumers):
        for id in ids[:number]:
            consumer.acked(id)
    world.unload("t")
    client.drop()
    world.settle()
    return world


def backlogs(world: World) -> dict[str, int]:
    subscriptions = world.topic("t").subscriptions
    return {name: one.cursor.unacked_entries() for name, one in subscriptions.items()}


EXPECTED = {f"s{number}": 10 - number for number in range(COUNT)}


def subscribe(client: WireClient) -> int:
    consumer = WireConsumer(client, 1, "t")
    return client.ask(consumer.command("s3", Shared))


def produce(client: WireClient) -> int:
    return client.ask(pb.CommandProducer(topic="t", producer_id=1))


def add_schema(client: WireClient) -> int:
    schema = pb.Schema(name="s", type=SchemaType.String, schema_data=b"")
    return client.ask(pb.CommandGetOrCreateSchema(topic="t", schema=schema))


COMMANDS = pytest.mark.parametrize("say", [subscribe, produce, add_schema])


def test_others_have_their_turn_while_a_topic_is_loaded(stored: World) -> None:
    client = stored.connect()
    client.session.receive(encode(pb.CommandProducer(topic="t", producer_id=1, request_id=1)))
    events = 0
    while str(NAME) not in stored.broker.topics:
        stored.host.soon.popleft()()
        events += 1
    assert events >= COUNT // 3  # a turn has three pieces
    stored.settle()
    assert backlogs(stored) == EXPECTED


@COMMANDS
def test_whoever_asked_is_answered_when_it_is_loaded(
    stored: World, say: Callable[[WireClient], int]
) -> None:
    client = stored.connect()
    answer = client.answer(say(client))
    assert not getattr(answer, "error_message", "")
    assert stored.broker.loadings == {}
    assert backlogs(stored) == EXPECTED


def test_two_who_wait_share_the_work(stored: World) -> None:
    one, two = stored.connect(), stored.connect()
    commands = [pb.CommandProducer(topic="t", producer_id=1, request_id=9)]
    for client in (one, two):
        client.session.receive(b"".join(map(encode, commands)))
    stored.settle()
    assert len(one.take(pb.CommandProducerSuccess)) == 1
    assert len(two.take(pb.CommandProducerSuccess)) == 1
    assert backlogs(stored) == EXPECTED


def test_whoever_cannot_wait_has_the_rest_at_once(stored: World) -> None:
    loading = stored.broker.prepare(NAME)
    assert loading is not None
    assert loading.step()
    assert stored.broker.prepare(NAME) is loading
    assert backlogs(stored) == EXPECTED
    assert loading.promise.done
    assert not loading.step()
    assert stored.broker.prepare(NAME) is None


def test_a_connection_that_ends_leaves_the_rest_to_the_next_one(stored: World) -> None:
    client = stored.connect()
    client.session.receive(encode(pb.CommandProducer(topic="t", producer_id=1, request_id=1)))
    client.drop()
    stored.settle()
    assert backlogs(stored) == EXPECTED


def test_policies_that_change_meanwhile_are_followed(stored: World) -> None:
    loading = stored.broker.prepare(NAME)
    assert loading is not None
    loading.step()
    stored.set_policy("messageTTL", 77)
    assert stored.topic("t").policies.limits.ttl_ms == 77_000


def test_a_policy_finds_a_topic_that_is_long_to_load(stored: World) -> None:
    stored.set_policy("messageTTL", 1)
    stored.advance(stored.settings.ttl_check_ms + 2000)
    assert str(NAME) in stored.broker.topics
    assert set(backlogs(stored).values()) == {0}


def damage(world: World) -> None:
    """Flips a bit in the snapshot of the last cursor, on the disk."""
    state = world.store.log.state
    cursor = state.cursors[max(state.cursors)]
    address = cursor.slices.addresses[0]
    world.disk.files[f"journal/{address >> 32:08x}.log"][(address & 0xFFFFFFFF) + 30] ^= 1


@COMMANDS
def test_one_that_cannot_be_loaded_is_refused_and_tried_again(
    stored: World, say: Callable[[WireClient], int]
) -> None:
    damage(stored)
    client = stored.connect()
    for _ in range(2):
        answer = client.answer(say(client))
        error = answer.error if isinstance(answer, pb.CommandError) else answer.error_code
        assert error == ServerError.PersistenceError
    assert stored.broker.loadings == {}
    damage(stored)
    client.answer(say(client))
    assert backlogs(stored) == EXPECTED


def test_all_who_wait_hear_that_it_cannot_be_loaded(stored: World) -> None:
    damage(stored)
    loading = stored.broker.prepare(NAME)
    assert loading is not None
    with refused_load():
        loading.finish()
    with refused_load():
        loading.step()
    stored.set_policy("messageTTL", 1)
    stored.advance(stored.settings.ttl_check_ms + 2000)
    assert any("persistent://public/default/t: " in text for text in stored.host.warnings)


def refused_load() -> "pytest.RaisesExc[BrokerError]":
    return pytest.raises(BrokerError, match="persistent://public/default/t: ")


# ---- The end -----------------------------------------------------------------------


def test_acks_that_come_while_a_topic_is_closed_bit_by_bit_are_kept(stored: World) -> None:
    """I2, and the unload waits for them."""
    client = stored.connect()
    consumers = [client.subscribe("t", f"s{number}", Shared) for number in range(COUNT)]
    consumer = consumers[-1]
    consumer.flow(10)
    delivered = consumer.deliveries()
    assert len(delivered) == 3
    promise = stored.broker.unload(NAME)
    subscriptions = stored.broker.topics[str(NAME)].subscriptions
    assert [one.closed for one in subscriptions.values()] == [True] + [False] * (COUNT - 1)
    request = client.next_request_id()
    command = consumer.ack_command(tuple(one.id for one in delivered), request_id=request)
    client.session.receive(encode(command))
    stored.done(promise)
    receipt = consumer.receipt(request)
    assert receipt is not None
    assert not receipt.error
    assert str(NAME) not in stored.broker.topics
    assert backlogs(stored)[f"s{COUNT - 1}"] == 0


def test_a_broker_that_stops_closes_all_at_once(stored: World) -> None:
    client = stored.connect()
    for number in range(COUNT):
        client.subscribe("t", f"s{number}", Shared)
    topic = stored.topic("t")
    stored.broker.stop()
    assert all(one.closed for one in topic.subscriptions.values())
