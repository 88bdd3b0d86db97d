"""Every ack that asks for an answer gets exactly one, and a good one only when it is durable.

`test_wire_ack.py` goes through SEMANTICS 3.1 case by case. Here are the ends that a topic or a
subscription may come to under its consumers, and a search over orders of everything: whatever
happens between an ack and its answer, a connection that lives hears of the ack once.
"""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.holder import again, start
from support.wire_client import (
    Exclusive,
    Failover,
    KeyShared,
    Refused,
    Shared,
    WireConsumer,
    refused,
)
from support.world import FULL, World

from magnetar.model import ServerError, TopicName
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAckResponse
from magnetar.protocol import pulsar_pb2 as pb

TYPES = (Exclusive, Shared, Failover, KeyShared)
SINGLE = (Exclusive, Failover)


# ---- Ends ------------------------------------------------------------------------


@pytest.mark.parametrize("type", TYPES)
def test_acks_on_a_topic_that_was_deleted_are_told_to_try_again(world: World, type: int) -> None:
    consumer, (message,) = start(world, "a", type=type)
    world.delete("t", force=True)
    with refused(ServerError.ServiceNotReady):
        consumer.acked(message)


def test_acks_on_a_subscription_that_was_removed_are_told_so(world: World) -> None:
    consumer, (message,) = start(world, "a")
    consumer.unsubscribe()
    with refused(ServerError.ConsumerNotFound):
        consumer.acked(message)


def test_acks_of_another_consumer_of_a_subscription_that_was_removed_are_answered(
    world: World,
) -> None:
    consumer, (message,) = start(world, "a")
    other = world.connect().subscribe("t", "sub", Shared)
    other.unsubscribe(force=True)
    with refused(ServerError.ServiceNotReady):
        consumer.acked(message)


@pytest.mark.parametrize("type", TYPES)
def test_an_ack_under_way_when_its_topic_is_unloaded_is_answered_truly(
    world: World, type: int
) -> None:
    consumer, (first, _) = start(world, "ab", "c", type=type)
    world.hold_disk()
    request_id = consumer.ask_ack(first.index(0))
    world.broker.unload(world.topic("t").name)
    world.release_disk()
    receipt = consumer.receipt(request_id)
    assert receipt is not None
    assert receipt.error is None, "it was durable before the topic was gone"
    assert again(world, type) == ["b", "c"]


@pytest.mark.parametrize("type", TYPES)
def test_an_ack_under_way_when_its_consumer_closes_is_answered(world: World, type: int) -> None:
    consumer, (message,) = start(world, "a", type=type)
    world.hold_disk()
    request_id = consumer.ask_ack(message)
    consumer.client.ask(close_command(consumer))
    world.release_disk()
    receipt = consumer.receipt(request_id)
    assert receipt is not None
    assert receipt.error is None
    assert again(world, type) == []


def close_command(consumer: WireConsumer) -> pb.CommandCloseConsumer:
    return pb.CommandCloseConsumer(consumer_id=consumer.id)


def test_acks_of_a_consumer_that_is_not_active_are_kept(world: World) -> None:
    first = world.connect().subscribe("t", "sub", Failover, consumer_name="a")
    second = world.connect().subscribe("t", "sub", Failover, consumer_name="b")
    id = world.connect().producer("t").send("x")
    for consumer in (first, second):
        consumer.acked(id)
        consumer.acked(id, cumulative=True)
    assert world.subscription("t", "sub").cursor.unacked_entries() == 0


def test_acks_where_nothing_is_stored_are_answered(world: World) -> None:
    topic = "non-persistent://public/default/t"
    consumer = world.connect().subscribe(topic, "sub", Shared)
    consumer.acked(MessageIdData(0, 0))
    consumer.acked(MessageIdData(0, 0), cumulative=True)


def test_acks_of_a_reader_are_answered_without_a_write(world: World) -> None:
    client = world.connect()
    id = client.producer("t").send("a")
    reader = client.subscribe("t", "reader", Exclusive, durable=False, start=MessageIdData(-1, -1))
    world.hold_disk()
    reader.acked(id, cumulative=True)


def test_acks_on_a_terminated_topic_are_kept(world: World) -> None:
    consumer, (message,) = start(world, "a")
    world.topic("t").terminate()
    world.settle()
    consumer.acked(message)
    assert world.subscription("t", "sub").cursor.unacked_entries() == 0


def test_one_command_of_very_many_ids_is_answered_once(world: World) -> None:
    consumer, messages = start(world, *["a"] * 500)
    request_id = consumer.ask_ack(*messages * 10)
    answers = consumer.client.take(CommandAckResponse)
    assert [(answer.request_id, answer.error) for answer in answers] == [(request_id, None)]


def test_an_answer_names_its_consumer_and_its_request(world: World) -> None:
    one, (message,) = start(world, "a")
    two = one.client.subscribe("t", "sub", Shared)
    ids = [one.ask_ack(message), two.ask_ack(message), one.ask_ack(MessageIdData(99, 9))]
    answers = one.client.take(CommandAckResponse)
    assert [(answer.consumer_id, answer.request_id) for answer in answers] == [
        (one.id, ids[0]),
        (two.id, ids[1]),
        (one.id, ids[2]),
    ]
    assert [answer.error for answer in answers] == [None, None, ServerError.NotAllowedError]


# ---- Everything in any order ---------------------------------------------------------


class Asking:
    """Consumers of one connection that ack, and what they were answered."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World()
        self.type = self.random.choice(TYPES)
        self.client = self.world.connect()
        self.producer = self.world.connect().producer("t")
        self.ids = [self.producer.send(*"abc") for _ in range(3)]
        self.ids += [self.producer.send("x") for _ in range(3)]
        self.consumer = self.client.subscribe("t", "sub", self.type, initialPosition=1)
        self.asked: dict[int, MessageIdData] = {}

    def step(self) -> None:
        act = self.random.choice(
            [self.ack] * 8
            + [self.hold, self.release, self.release, self.fail, self.mend]
            + [self.unload, self.seek, self.close, self.subscribe, self.flow]
        )
        act()
        self.collect()

    def ack(self) -> None:
        id = self.random.choice(self.ids)
        cumulative = self.random.random() < 0.3
        if self.random.random() < 0.1:
            id = MessageIdData(id.ledger_id, 1000)
        request_id = self.consumer.ask_ack(id, cumulative=cumulative)
        self.asked[request_id] = id

    def hold(self) -> None:
        self.world.hold_disk()

    def release(self) -> None:
        self.world.release_disk()

    def fail(self) -> None:
        self.world.fail_disk(FULL)

    def mend(self) -> None:
        self.world.fail_disk(None)

    def unload(self) -> None:
        self.world.broker.unload(TopicName.parse("t"))
        self.world.settle()

    def seek(self) -> None:
        self.client.ask(self.consumer.seek_command(self.random.choice(self.ids)))

    def close(self) -> None:
        self.client.ask(close_command(self.consumer))

    def subscribe(self) -> None:
        try:
            self.consumer = self.client.subscribe("t", "sub", self.type, initialPosition=1)
        except (Refused, AssertionError):
            self.world.release_disk()

    def flow(self) -> None:
        self.consumer.flow(3)

    def collect(self) -> None:
        for answer in self.client.take(CommandAckResponse):
            assert answer.request_id is not None
            del self.asked[answer.request_id]  # a second answer would find nothing
        self.client.received.clear()

    def end(self) -> None:
        self.world.fail_disk(None)
        self.world.release_disk()
        self.world.advance(1000)
        self.collect()
        assert not self.asked, f"never answered: {self.asked}"
        assert not self.client.hung_up


@given(st.integers(0, 10**9))
def test_whatever_happens_each_ack_is_answered_once(seed: int) -> None:
    asking = Asking(seed)
    for _ in range(30):
        asking.step()
    asking.end()
    asking.world.close()


@given(st.integers(0, 10**9), st.sampled_from(TYPES))
def test_what_was_answered_well_survives_a_crash_at_any_moment(seed: int, type: int) -> None:
    random = Random(seed)
    world = World()
    consumer, messages = start(world, *["abc"] * 5, *["x"] * 5, type=type)
    kept: set[tuple[int, int]] = set()
    asked: dict[int, set[tuple[int, int]]] = {}
    for _ in range(25):
        message = random.choice(messages)
        entry = message.id.entry_id
        size = len(message.payloads)
        index = random.randrange(size)
        if size > 1:
            asked[consumer.ask_ack(message.index(index))] = {(entry, index)}
        else:
            asked[consumer.ask_ack(message)] = {(entry, 0)}
        if random.random() < 0.3:
            world.hold_disk()
        elif random.random() < 0.3:
            world.release_disk()
        for answer in consumer.client.take(CommandAckResponse):
            assert answer.error is None
            assert answer.request_id is not None
            kept |= asked.pop(answer.request_id)
    world.crash()
    back = world.connect().subscribe("t", "sub", type)
    back.flow(1000)
    came = {
        (delivery.id.entry_id, index)
        for delivery in back.deliveries()
        for index in delivery.payloads
    }
    assert not came & kept
    world.close()


# ---- One group of the journal ----------------------------------------------------


def test_nothing_is_shown_that_the_same_group_of_acks_acks() -> None:
    """The first ack of a group makes room for an entry that the second one acks in part."""
    world = World(max_unacked_per_consumer=1)
    one, (held,) = start(world, "ab")
    two = world.connect().subscribe("t", "sub", Shared)
    two.flow(10)
    world.connect().producer("t").send("c")
    (other,) = two.deliveries()
    one.close()  # its entry waits until there is room
    assert two.deliveries() == []
    third = world.connect().subscribe("t", "sub", Shared)
    world.hold_disk()
    two.ask_ack(other)
    third.ask_ack(held.index(0))
    world.release_disk()
    assert two.receive() == ["b"]
