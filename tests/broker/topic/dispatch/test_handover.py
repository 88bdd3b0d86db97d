"""What changes hands by the thousand does so in pieces (I10), and nothing is lost in between.

Pieces are of two entries, one consumer, one topic here. What is counted is how much changes in
one event; after each event the dispatcher checks itself.
"""

import itertools
from collections.abc import Callable, Iterator

import pytest
from support.wire_client import (
    EARLIEST_ID,
    Delivery,
    Failover,
    KeyShared,
    Shared,
    WireClient,
    WireConsumer,
)
from support.world import World

from magnetar.broker.session.session import QUEUED
from magnetar.broker.topic.dispatch.key_shared import KeySharedDispatcher
from magnetar.broker.topic.dispatch.selector import ConsistentHashSelector
from magnetar.broker.topic.dispatch.shared import SharedDispatcher
from magnetar.broker.turn.turns import COMMAND_COST_MAX, LOOK_COST, TURN_COST
from magnetar.errors import BrokerError
from magnetar.model import ConsumerType, TopicName
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAck, CommandFlow, encode, message_id_to_pb
from magnetar.protocol import pulsar_pb2 as pb

PIECE = 2
MANY = 12
KEYS = 3
TYPES = [Shared, KeyShared]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.broker.pieces.be_small()
    made.broker.pieces.topics = PIECE
    yield made
    made.close()


def dispatcher(world: World) -> SharedDispatcher:
    found = world.subscription("t", "s").dispatcher
    assert isinstance(found, SharedDispatcher)
    return found


def subscribe(world: World, type: ConsumerType, client: WireClient | None = None) -> WireConsumer:
    return (client or world.connect()).subscribe("t", "s", type, initialPosition=1)


def publish(world: World, first: int = 0, count: int = MANY) -> None:
    producer = world.connect().producer("t")
    for number in range(first, first + count):
        producer.send(f"{number:03}", partition_key=str(number % KEYS))


def holder(world: World, type: ConsumerType, *, permits: int = MANY) -> WireConsumer:
    """A consumer that has everything."""
    consumer = subscribe(world, type)
    publish(world)
    consumer.flow(permits)
    assert dispatcher(world).unacked_count() == MANY
    return consumer


def say(consumer: WireConsumer, command: object) -> None:
    """The session hears it, and nothing else is done yet."""
    consumer.client.session.receive(encode(command))  # type: ignore[arg-type]


def close(consumer: WireConsumer) -> None:
    say(consumer, pb.CommandCloseConsumer(consumer_id=consumer.id, request_id=99))


def redeliver(consumer: WireConsumer) -> None:
    say(consumer, pb.CommandRedeliverUnacknowledgedMessages(consumer_id=consumer.id))


def by_key(deliveries: list[Delivery]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for delivery in deliveries:
        found.setdefault(delivery.key, []).append(delivery.payloads[0])
    return found


ALL_BY_KEY = {
    str(key): [f"{number:03}" for number in range(MANY) if number % KEYS == key]
    for key in range(KEYS)
}


def most_at_once(world: World, begin: Callable[[], object]) -> int:
    """How many entries change hands in one event, at most."""
    found = dispatcher(world)
    counts = [len(found.owners)]
    begin()
    counts.append(len(found.owners))
    while world._step():
        if not found._closed:
            found.check()
        counts.append(len(found.owners))
    return max(before - after for before, after in itertools.pairwise(counts))


# ---- Consumers that leave, or want everything again --------------------------


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("how", ["close", "drop", "redeliver", "nack", "clear"])
def test_what_a_consumer_holds_goes_a_piece_at_a_time(
    world: World, type: ConsumerType, how: str
) -> None:
    consumer = holder(world, type)
    subscribe(world, type)
    ids = [delivery.id for delivery in consumer.deliveries()]
    begin: dict[str, Callable[[], object]] = {
        "close": lambda: close(consumer),
        "drop": consumer.client.session.lost,
        "redeliver": lambda: redeliver(consumer),
        "nack": lambda: consumer.client.session.receive(encode(nack(consumer, ids))),
        "clear": lambda: world.subscription("t", "s").clear(),
    }
    assert most_at_once(world, begin[how]) == PIECE
    assert dispatcher(world).unacked_count() == 0
    assert len(dispatcher(world).owners) == 0


def nack(
    consumer: WireConsumer, ids: list[MessageIdData]
) -> pb.CommandRedeliverUnacknowledgedMessages:
    return pb.CommandRedeliverUnacknowledgedMessages(
        consumer_id=consumer.id,
        message_ids=[message_id_to_pb(id) for id in ids],
    )


@pytest.mark.parametrize("type", TYPES)
def test_who_leaves_is_answered_when_all_is_given_back(world: World, type: ConsumerType) -> None:
    consumer = holder(world, type)
    other = subscribe(world, type)
    close(consumer)
    assert len(world.subscription("t", "s").consumers) == 2
    assert not consumer.client.received or consumer.client.answer(99) is None
    world.settle()
    assert isinstance(consumer.client.answer(99), pb.CommandSuccess)
    assert len(world.subscription("t", "s").consumers) == 1
    other.flow(MANY)
    assert by_key(other.deliveries()) == ALL_BY_KEY


def test_a_key_keeps_its_order_while_its_holder_leaves(world: World) -> None:
    """Nobody else is sent entries of it before all are given back (I4)."""
    consumer = holder(world, KeyShared)
    other = subscribe(world, KeyShared)
    other.client.session.receive(encode(CommandFlow(other.id, 10 * MANY)))
    close(consumer)
    publish(world, MANY, KEYS)  # while that goes on, and after it
    got = by_key(other.deliveries())
    for key, payloads in ALL_BY_KEY.items():
        assert got[key] == [*payloads, f"{MANY + int(key):03}"]


@pytest.mark.parametrize("type", TYPES)
def test_who_wants_everything_again_gets_nothing_before_the_last_is_given_back(
    world: World, type: ConsumerType
) -> None:
    """What comes later would overtake what it is to get again (I4)."""
    consumer = holder(world, type, permits=10 * MANY)
    consumer.deliveries()
    producer = world.connect().producer("t")
    world.hold_disk()
    producer.publish("new", partition_key="2")
    redeliver(consumer)
    world._write()  # it is durable, and could be delivered
    assert not consumer.client.session.outbox
    world.release_disk()
    got = by_key(consumer.deliveries())
    assert got == ALL_BY_KEY | {"2": [*ALL_BY_KEY["2"], "new"]}


@pytest.mark.parametrize("type", TYPES)
def test_everything_that_is_wanted_again_counts_as_that_once(
    world: World, type: ConsumerType
) -> None:
    consumer = holder(world, type)
    consumer.deliveries()
    redeliver(consumer)
    redeliver(consumer)  # of which the first has not given all back
    consumer.flow(MANY)
    assert [d.redelivery_count for d in consumer.deliveries()] == [1] * MANY


@pytest.mark.parametrize("type", TYPES)
def test_acks_that_come_between_two_pieces_count(world: World, type: ConsumerType) -> None:
    consumer = holder(world, type)
    got = consumer.deliveries()
    redeliver(consumer)
    consumer.acked(*got[-3:])
    consumer.flow(MANY)
    assert sorted(consumer.payloads()) == [f"{number:03}" for number in range(MANY - 3)]
    dispatcher(world).check()


@pytest.mark.parametrize("type", TYPES)
def test_who_leaves_while_he_gives_back_leaves_once(world: World, type: ConsumerType) -> None:
    consumer = holder(world, type)
    redeliver(consumer)
    close(consumer)
    consumer.client.session.lost()
    world.settle()
    assert world.subscription("t", "s").consumers == []
    other = subscribe(world, type)
    other.flow(MANY)
    assert sorted(other.payloads()) == [f"{number:03}" for number in range(MANY)]
    sent, _ = world.topic("t").out_totals()
    assert sent == 2 * MANY


@pytest.mark.parametrize("type", TYPES)
def test_an_unload_between_two_pieces_loses_nothing(world: World, type: ConsumerType) -> None:
    consumer = holder(world, type)
    close(consumer)
    world.unload("t")
    assert isinstance(consumer.client.answer(99), pb.CommandSuccess)
    other = subscribe(world, type)
    other.flow(MANY)
    assert sorted(other.payloads()) == [f"{number:03}" for number in range(MANY)]


@pytest.mark.parametrize("type", TYPES)
def test_a_seek_between_two_pieces_loses_nothing(world: World, type: ConsumerType) -> None:
    consumer = holder(world, type)
    other = subscribe(world, type)
    close(consumer)
    other.seek(EARLIEST_ID)
    assert isinstance(consumer.client.answer(99), pb.CommandSuccess)
    again = subscribe(world, type)
    again.flow(MANY)
    assert sorted(again.payloads()) == [f"{number:03}" for number in range(MANY)]


@pytest.mark.parametrize("type", TYPES)
def test_what_is_cleared_between_two_pieces_is_not_given_back(
    world: World, type: ConsumerType
) -> None:
    consumer = holder(world, type)
    other = subscribe(world, type)
    other.flow(MANY)
    world.hold_disk()
    cleared = world.subscription("t", "s").clear()
    redeliver(consumer)
    close(consumer)
    world.release_disk()
    assert cleared.done
    assert most_at_once(world, lambda: None) == 0
    assert dispatcher(world).replay_count() == 0
    assert world.subscription("t", "s").cursor.unacked_entries() == 0


def test_the_last_of_all_leaves_and_everything_comes_from_the_beginning(world: World) -> None:
    consumer = holder(world, KeyShared)
    close(consumer)
    other = subscribe(world, KeyShared)  # before it is gone, or after
    other.flow(MANY)
    assert by_key(other.deliveries()) == ALL_BY_KEY


# ---- What is named, in any order ---------------------------------------------


@pytest.mark.parametrize("type", TYPES)
def test_what_is_named_in_any_order_comes_again_in_order(world: World, type: ConsumerType) -> None:
    consumer = holder(world, type, permits=3 * MANY)
    ids = [delivery.id for delivery in consumer.deliveries()]
    consumer.client.session.receive(encode(nack(consumer, [*ids[::-2], *ids[::2], ids[0]])))
    world.settle()
    got = consumer.deliveries()
    assert by_key(got) == ALL_BY_KEY
    assert [delivery.redelivery_count for delivery in got] == [1] * MANY


@pytest.mark.parametrize("type", TYPES)
def test_nothing_is_given_back_if_nothing_that_is_named_is_there(
    world: World, type: ConsumerType
) -> None:
    consumer = holder(world, type)
    command = nack(consumer, [MessageIdData(10**9, number) for number in range(MANY)])
    consumer.client.session.receive(encode(command))
    world.settle()
    assert dispatcher(world).unacked_count() == MANY


@pytest.mark.parametrize("type", TYPES)
def test_a_long_list_is_looked_through_in_turns_and_in_its_place(
    world: World, type: ConsumerType
) -> None:
    """An ack before it counts first, and one behind it comes when all is given back."""
    world.broker.pieces.entries = 100  # but the list is longer
    consumer = holder(world, type)
    ids = [delivery.id for delivery in consumer.deliveries()]
    first, last = ids[0], ids[-1]
    turns: list[int] = []
    world.broker.turns.watcher = lambda address, cost, waiting: turns.append(cost)
    say(consumer, CommandAck(consumer.id, 0, [first]))
    say(consumer, nack(consumer, ids * 200))
    say(consumer, CommandAck(consumer.id, 0, [last]))
    assert consumer.client.session._input == QUEUED
    world.settle()
    assert len(turns) > len(ids) * 200 // 3 // (TURN_COST + LOOK_COST)
    assert max(turns) < COMMAND_COST_MAX
    consumer.flow(MANY)
    assert sorted(consumer.payloads()) == [f"{number:03}" for number in range(1, MANY - 1)]


def test_who_goes_in_the_middle_of_a_long_list_gives_back_all(world: World) -> None:
    consumer = holder(world, Shared)
    ids = [delivery.id for delivery in consumer.deliveries()]
    say(consumer, nack(consumer, ids * 200))
    consumer.client.session.lost()
    world.settle()
    other = subscribe(world, Shared)
    other.flow(MANY)
    got = other.deliveries()
    assert len(got) == MANY
    assert {delivery.redelivery_count for delivery in got} == {0}


def test_chunks_are_named_by_their_last_one_a_piece_at_a_time(world: World) -> None:
    consumer = subscribe(world, Shared)
    other = subscribe(world, Shared)
    producer = world.connect().producer("t")
    chunks = 4
    ids = [producer.send_chunk(f"u{n // chunks}", n % chunks, chunks, "x") for n in range(MANY)]
    consumer.flow(MANY)
    consumer.deliveries()
    named = ids[chunks - 1 :: chunks]  # of the others nothing is said
    command = encode(nack(consumer, [*named[:-1], ids[-2]]))
    assert most_at_once(world, lambda: consumer.client.session.receive(command)) == PIECE
    other.flow(MANY)
    consumer.flow(MANY)
    again = [d.id.entry_id for d in [*other.deliveries(), *consumer.deliveries()]]
    # Who names one that is not the last wants that one.
    assert sorted(again) == [*[id.entry_id for id in ids[:-chunks]], ids[-2].entry_id]


# ---- What is cleared ---------------------------------------------------------


@pytest.mark.parametrize("type", TYPES)
def test_what_waits_is_cleared_a_piece_at_a_time(world: World, type: ConsumerType) -> None:
    consumer = holder(world, type)
    redeliver(consumer)
    world.settle()
    found = dispatcher(world)
    assert found.replay_count() == len(found.redeliveries) == MANY
    publish(world, MANY, 1)
    world.subscription("t", "s").skip(MANY)
    # Those that wait on Shared are one bitmap, and are let go of at once.
    counts = [found.replay_count() if type == KeyShared else len(found.redeliveries)]
    while world._step():
        found.check()
        counts.append(found.replay_count() if type == KeyShared else len(found.redeliveries))
    assert max(before - after for before, after in itertools.pairwise(counts)) <= PIECE
    assert found.replay_count() == len(found.redeliveries) == 0
    consumer.flow(MANY)
    assert consumer.payloads()[-1:] == [f"{MANY:03}"]


@pytest.mark.parametrize("type", TYPES)
def test_nothing_that_is_to_be_cleared_is_delivered(world: World, type: ConsumerType) -> None:
    consumer = holder(world, type)
    consumer.deliveries()
    redeliver(consumer)
    world.settle()
    world.hold_disk()
    cleared = world.subscription("t", "s").clear()
    world.release_disk()
    say(consumer, CommandFlow(consumer.id, MANY))
    world.settle()
    assert cleared.done
    assert consumer.deliveries() == []
    assert dispatcher(world).replay_count() == 0


@pytest.mark.parametrize("type", TYPES)
def test_a_clearance_does_what_the_one_before_did_not(world: World, type: ConsumerType) -> None:
    holder(world, type)
    found = dispatcher(world)
    subscription = world.subscription("t", "s")
    for number in (3, 2, MANY):
        subscription.skip(number)
        while subscription.cursor.unacked_entries() == MANY:
            world._step()
        assert len(found._handovers) <= 1
    world.settle()
    assert found.unacked_count() == len(found.owners) == 0


# ---- Slots of Key_Shared -----------------------------------------------------


def waiting_slots(world: World, count: int) -> WireConsumer:
    """As many keys wait as there are messages; a consumer without permits owns them."""
    consumer = subscribe(world, KeyShared)
    producer = world.connect().producer("t")
    for number in range(count):
        producer.send(f"{number:03}", partition_key=f"key {number}")
    consumer.flow(count)
    consumer.deliveries()
    redeliver(consumer)
    world.settle()
    assert dispatcher(world).replay_count() == count
    return consumer


def key_shared(world: World) -> KeySharedDispatcher:
    found = dispatcher(world)
    assert isinstance(found, KeySharedDispatcher)
    return found


def test_slots_are_looked_at_a_piece_at_a_time_when_consumers_come(world: World) -> None:
    first = waiting_slots(world, 40)
    found, looks = key_shared(world), world.broker.pieces.looks
    second = subscribe(world, KeyShared)
    for consumer in (first, second):
        say(consumer, CommandFlow(consumer.id, 100))
    places = [found._next]
    rounds = 0
    while world._step():
        found.check()
        places.append(found._next)
        rounds += found._next > 0
    moved = [after - before for before, after in itertools.pairwise(places)]
    assert 0 < max(moved) <= looks
    assert rounds >= 40 // looks - 1
    got = [*first.deliveries(), *second.deliveries()]
    assert sorted(delivery.payloads[0] for delivery in got) == [f"{n:03}" for n in range(40)]


def test_slots_are_served_while_consumers_come_and_come(world: World) -> None:
    """Each that comes makes all slots be looked at again: not always from the first one."""
    first = waiting_slots(world, 40)
    got: set[str] = set()
    for _ in range(60):
        subscribe(world, KeyShared)  # each has a part of the slots, and no permits
        say(first, CommandFlow(first.id, 1))
        world.settle()
        redeliver(first)
        got.update(first.payloads())
    assert len(got) > 3


def test_a_slot_keeps_its_order_while_a_round_is_open(world: World) -> None:
    first = holder(world, KeyShared)
    redeliver(first)
    world.settle()
    second = subscribe(world, KeyShared)
    for consumer in (first, second):
        say(consumer, CommandFlow(consumer.id, 10 * MANY))
    first.client.received.clear()
    publish(world, MANY, KEYS)
    for key, payloads in by_key([*first.deliveries(), *second.deliveries()]).items():
        assert payloads == [*ALL_BY_KEY[key], f"{MANY + int(key):03}"]


def test_a_ring_is_taken_apart_in_pieces(world: World) -> None:
    client = world.connect()
    for _ in range(3):
        subscribe(world, KeyShared, client)
    selector = key_shared(world).selector
    assert isinstance(selector, ConsistentHashSelector)
    points = len(selector._queues)
    world.broker.unload(TopicName.parse("t"))
    assert len(selector._queues) == points - world.broker.pieces.looks
    world.settle()
    assert not selector._queues


# ---- Consumers that the broker closes ----------------------------------------


def closes(client: WireClient) -> int:
    """How many consumers of a client were told so far, and not carried away."""
    return len(client.session.outbox)


@pytest.mark.parametrize("type", [Shared, KeyShared, Failover])
@pytest.mark.parametrize("how", ["seek", "unload"])
def test_consumers_that_are_closed_are_told_one_after_the_other(
    world: World, type: ConsumerType, how: str
) -> None:
    client, operator = world.connect(), world.connect()
    consumers = [subscribe(world, type, client) for _ in range(MANY)]
    publish(world, count=1)
    if type == Failover:
        world.advance(world.settings.failover_delay_ms + 1)
    client.received.clear()
    if how == "seek":
        promise = world.subscription("t", "s").reset(world.topic("t").storage.position_at(0))
    else:
        promise = world.broker.unload(TopicName.parse("t"))
    counts = [closes(client)]
    while not promise.done:
        if not world.host.soon:
            world._write()
        else:
            world.host.soon.popleft()()
        counts.append(closes(client))
    assert max(after - before for before, after in itertools.pairwise(counts)) == 1
    assert counts[-1] == MANY
    world.settle()
    assert all(consumer.closed_by_broker() for consumer in consumers)
    operator.subscribe("t", "s", type)
    assert len(world.subscription("t", "s").consumers) == 1


def test_all_are_closed_before_the_first_is_told(world: World) -> None:
    client = world.connect()
    consumers = [subscribe(world, Shared, client) for _ in range(3)]
    publish(world, count=3)
    for consumer in consumers:
        consumer.flow(1)
    last = consumers[2].deliveries()
    world.broker.unload(TopicName.parse("t"))
    request_id = client.next_request_id()
    say(consumers[2], consumers[2].ack_command(tuple(last), request_id=request_id))
    world.settle()
    answer = consumers[2].receipt(request_id)
    assert answer is not None
    assert answer.error is not None


def test_who_closes_meanwhile_is_not_closed_by_the_broker(world: World) -> None:
    """Or the consumer that has its number since would be."""
    client = world.connect()
    consumers = [subscribe(world, Shared, client) for _ in range(3)]
    publish(world, count=1)
    world.broker.unload(TopicName.parse("t"))
    say(consumers[2], pb.CommandCloseConsumer(consumer_id=consumers[2].id, request_id=99))
    world.settle()
    assert isinstance(client.answer(99), pb.CommandSuccess)
    assert [consumer.closed_by_broker() for consumer in consumers] == [True, True, False]


def test_a_skip_waits_for_those_that_are_not_told_yet(world: World) -> None:
    client = world.connect()
    for _ in range(3):
        subscribe(world, Shared, client)
    name = str(world.topic("t").name)
    world.broker.unload(TopicName.parse("t"))
    assert len(world.broker.strays.of(name, "s")) == 3


# ---- Many topics -------------------------------------------------------------


def test_topics_follow_a_policy_a_few_at_a_time(world: World) -> None:
    names = [f"t{number}" for number in range(MANY)]
    for name in names:
        world.connect().producer(name)
    directory = world.broker.directory
    policies = directory.namespaces["public/default"]
    policies.set_json("maxConsumersPerSubscription", 7)
    directory.put_namespace("public/default", policies)
    promise = world.broker.policies_changed("public/default")

    def followers() -> int:
        limits = [
            world.topic(name).policies.limits.max_consumers_per_subscription for name in names
        ]
        return limits.count(7)

    counts = [0, followers()]
    while not promise.done:
        world.host.soon.popleft()()
        counts.append(followers())
    assert max(after - before for before, after in itertools.pairwise(counts)) == PIECE
    assert counts[-1] == MANY


# ---- Partitions --------------------------------------------------------------


def test_partitions_are_made_a_few_at_a_time(world: World) -> None:
    name = TopicName.parse("p")
    made = world.broker.create_partitioned(name, MANY)
    counts = [0, world.broker.count_names("public/default")]
    while not made.done:
        world.host.soon.popleft()()
        counts.append(world.broker.count_names("public/default"))
    assert max(after - before for before, after in itertools.pairwise(counts)) == PIECE
    assert counts[-1] == MANY


def test_a_partition_that_is_asked_for_before_its_turn_is_there(world: World) -> None:
    world.broker.create_partitioned(TopicName.parse("p"), MANY)
    topic = world.broker.topic(TopicName.parse(f"p-partition-{MANY - 1}"), may_create=True)
    world.settle()
    assert world.topic(f"p-partition-{MANY - 1}") is topic
    assert world.broker.count_names("public/default") == MANY


def test_a_partition_that_cannot_be_made_is_told_of() -> None:
    world = World(max_topics_per_namespace=MANY)
    world.broker.pieces.topics = PIECE
    made = world.broker.create_partitioned(TopicName.parse("p"), MANY)
    world.broker.topic(TopicName.parse("another"), may_create=True)
    world.settle()
    assert isinstance(made.error, BrokerError)
    assert world.broker.count_names("public/default") == MANY
