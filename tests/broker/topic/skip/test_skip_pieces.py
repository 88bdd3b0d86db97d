"""A long list of ids is planned in pieces, and whatever comes in between, it is one step."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.wire_client import Earliest, Exclusive, KeyShared, Shared
from support.world import World

from magnetar.broker.topic.skip.skip import PIECE_IDS, Skip, skip_messages
from magnetar.broker.topic.topic import Topic
from magnetar.errors import BrokerError, NoSuchEntryError
from magnetar.model import Position, ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import encode
from magnetar.protocol import pulsar_pb2 as pb

BATCH = 4
# Which batches and indexes are acked after a piece is planned, and what else happens then.
ACKS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, BATCH - 1)), max_size=3)
EVENTS = st.sampled_from(["nothing", "publish", "reset", "unload", "rejoin"])
PLACES = st.lists(st.tuples(st.integers(0, 3), st.integers(-1, BATCH - 1)), min_size=1, max_size=6)


def padded(*pieces: list[MessageIdData]) -> list[MessageIdData]:
    """A list of which each of these is in a piece of its own: naming ids again is fine."""
    named: list[MessageIdData] = []
    for piece in pieces:
        named += piece + [piece[-1]] * (PIECE_IDS - len(piece))
    return named


def at(id: MessageIdData, index: int = -1) -> MessageIdData:
    return MessageIdData(id.ledger_id, id.entry_id, -1, index)


def unacked(topic: Topic) -> set[tuple[int, int]]:
    """Entry and index of what the subscription has not acked."""
    found = set()
    for position, remaining in topic.subscriptions["sub"].cursor.unacked():
        size = topic.ledgers.sizes.batch_size(position.ledger_id, position.entry_id)
        for index in range(size):
            if remaining is None or remaining >> index & 1:
                found.add((int(position.entry_id), index))
    return found


def planned(skip: Skip, *between: Callable[[], object]) -> None:
    for event in between:
        assert skip.plan_piece()
        event()
    assert not skip.plan_piece()


def refusal(skip: Skip) -> int:
    with pytest.raises(BrokerError) as caught:
        skip.carry_out()
    return caught.value.code


@settings(max_examples=examples(150))
@given(st.lists(PLACES, min_size=2, max_size=4), st.lists(st.tuples(ACKS, EVENTS), max_size=3))
def test_what_comes_between_pieces_is_neither_lost_nor_undone(
    pieces: list[list[tuple[int, int]]], between: list[tuple[list[tuple[int, int]], str]]
) -> None:
    """Against a plain set: the skip takes all that it names out of it, or nothing."""
    world = World()
    producer = world.connect().producer("t")
    consumer = world.connect().subscribe("t", "sub", Shared, initialPosition=Earliest)
    ids = [producer.send(*["m"] * BATCH) for _ in range(4)]
    consumer.flow(100)
    deliveries = consumer.deliveries()
    everything = {(entry, index) for entry in range(4) for index in range(BATCH)}
    left = set(everything)
    refused = False
    listed = padded(*[[at(ids[entry], index) for entry, index in piece] for piece in pieces])
    skip = Skip([world.topic("t")], "sub", listed)
    while skip.plan_piece():
        acks, event = between.pop() if between else ([], "nothing")
        for entry, index in acks:
            if not consumer.closed_by_broker() and not refused:
                consumer.acked(deliveries[entry].index(index))
                left.discard((entry, index))
        if event == "publish":
            producer.send("later", "than", "that", "all")
            at_end = {(len(everything) // BATCH, index) for index in range(BATCH)}
            everything |= at_end
            left |= at_end
        elif event == "reset":
            world.done(world.subscription("t", "sub").reset(Position(ids[0].ledger_id, 0)))
            left = set(everything)
            refused = True
        elif event == "unload":
            world.unload("t")
            refused = True
            break
        elif event == "rejoin":
            world.connect().subscribe("t", "sub", Shared)
    else:
        if not refused:
            world.done(skip.carry_out())
            for piece in pieces:
                for entry, index in piece:
                    left -= {(entry, i) for i in (range(BATCH) if index == -1 else [index])}
    if refused:
        while skip.plan_piece():
            pass
        assert refusal(skip) == ServerError.ServiceNotReady
    assert unacked(world.topic("t")) == left
    world.topic("t").subscriptions["sub"].cursor.check()
    world.crash()
    assert unacked(world.topic("t")) == left
    world.close()


def start(world: World, count: int = 2) -> list[MessageIdData]:
    producer = world.connect().producer("t")
    world.connect().subscribe("t", "sub", Shared, initialPosition=Earliest).close()
    return [producer.send("m") for _ in range(count)]


def test_a_bad_id_in_the_last_piece_leaves_all_of_them(world: World) -> None:
    ids = start(world)
    bad = MessageIdData(ids[0].ledger_id, 99)
    skip = Skip([world.topic("t")], "sub", padded(ids, [bad]))
    assert skip.plan_piece()
    with pytest.raises(NoSuchEntryError, match="99"):
        skip.plan_piece()
    assert len(unacked(world.topic("t"))) == 2


@pytest.mark.parametrize("durable", [False, True])
def test_all_pieces_are_one_group_of_the_journal(world: World, durable: bool) -> None:
    ids = start(world, 5)
    world.hold_disk()
    promise = skip_messages([world.topic("t")], "sub", padded(*[[id] for id in ids]))
    assert (promise.done, len(unacked(world.topic("t")))) == (False, 5)
    if durable:
        world.write_once()
        world.settle()
        assert (promise.done, promise.error) == (True, None)
    world.crash()
    assert len(unacked(world.topic("t"))) == (0 if durable else 5)


def test_who_joins_alone_between_pieces_is_not_skipped_for(world: World) -> None:
    ids = start(world)
    skip = Skip([world.topic("t")], "sub", padded(ids[:1], ids[1:]))
    planned(skip, lambda: world.connect().subscribe("t", "sub", Exclusive))
    assert refusal(skip) == ServerError.NotAllowedError
    assert len(unacked(world.topic("t"))) == 2


def test_a_topic_that_begins_to_unload_between_pieces_says_so(world: World) -> None:
    """Though it still waits for what is on its way."""
    ids = start(world)
    topic = world.topic("t")
    skip = Skip([topic], "sub", padded(ids[:1], ids[1:]))

    def begin() -> None:
        world.hold_disk()
        world.connect().producer("t").publish("on its way")
        world.broker.unload(topic.name)

    planned(skip, begin)
    assert refusal(skip) == ServerError.ServiceNotReady
    world.release_disk()
    assert len(unacked(world.topic("t"))) == 3


def test_a_subscription_of_the_same_name_is_another_one(world: World) -> None:
    ids = start(world)
    topic = world.topic("t")

    def replace() -> None:
        world.done(topic.unsubscribe(topic.subscriptions["sub"]))
        topic.create_subscription("sub", Position(-1, -1), {})
        world.settle()

    skip = Skip([topic], "sub", padded(ids[:1], ids[1:]))
    planned(skip, replace)
    assert refusal(skip) == ServerError.ServiceNotReady
    assert len(unacked(topic)) == 2


def test_ledgers_that_are_trimmed_between_pieces_are_skipped() -> None:
    world = World(ledger_entries_max=1)
    ids = start(world, 4)
    topic = world.topic("t")

    def trim() -> None:
        world.done(topic.subscriptions["sub"].skip(2))
        topic.storage.trim()
        world.settle()
        assert topic.ledgers.entry_count(ids[0].ledger_id) == -1

    # The second piece names one again that is gone by then.
    skip = Skip([topic], "sub", padded(ids[:2], ids[:1] + ids[2:]))
    planned(skip, trim)
    world.done(skip.carry_out())
    assert unacked(topic) == set()
    world.crash()
    assert unacked(world.topic("t")) == set()
    world.close()


@pytest.mark.parametrize("type", [Shared, KeyShared])
@pytest.mark.parametrize("event", ["redeliver", "leave", "unload"])
def test_consumers_may_do_anything_while_they_let_go(world: World, type: int, event: str) -> None:
    """Letting go comes in pieces too; meanwhile what is skipped does not come back."""
    producer = world.connect().producer("t")
    consumer = world.connect().subscribe("t", "sub", type, initialPosition=Earliest)
    ids = [producer.send(f"{i}", partition_key=f"{i % 2}") for i in range(4)]
    consumer.flow(10)
    assert len(consumer.deliveries()) == 4
    topic = world.topic("t")
    subscription = topic.subscriptions["sub"]
    seen: list[tuple[bool, int, int]] = []

    def meanwhile(error: Exception | None) -> None:
        held = sum(len(one.pending) for one in subscription.consumers)
        seen.append((promise.done, subscription.cursor.unacked_entries(), held))
        if event == "redeliver":
            subscription.redeliver(subscription.consumers[0], None, None)
        elif event == "leave":
            subscription.leave(subscription.consumers[0])
        else:
            world.broker.unload(topic.name)

    world.hold_disk()
    promise = skip_messages([topic], "sub", padded(ids[:1], ids[1:2], ids[2:3]))
    world.broker.commits.wait_for(world.store.ticket_last).when_done(meanwhile)
    world.release_disk()
    assert seen == [(False, 1, 3)]  # all is acked, and one of three is let go of
    assert (promise.done, promise.error) == (True, None)
    if event == "redeliver":
        assert consumer.payloads() == ["3"]
        assert consumer.stats().unackedMessages == 1
    else:
        assert world.connect().subscribe("t", "sub", type).receive() == ["3"]


def test_what_a_reset_brings_back_while_they_let_go_is_not_taken_from_them(world: World) -> None:
    """It is unacked again: who was made to drop it would never get it, and nobody else would."""
    producer = world.connect().producer("t")
    client = world.connect(feature_flags=pb.FeatureFlags(supports_magnetar=True))
    consumer = client.subscribe("t", "sub", Shared, initialPosition=Earliest)
    ids = [producer.send(f"{i}") for i in range(3)]
    consumer.flow(10)
    assert len(consumer.deliveries()) == 3
    topic = world.topic("t")
    cursor = topic.subscriptions["sub"].cursor
    skip = Skip([topic], "sub", padded(ids[:1], ids[1:2], ids[2:]), recall=True)
    while skip.plan_piece():
        pass
    world.hold_disk()
    skip.carry_out()
    reset = cursor.plan_reset(Position(ids[0].ledger_id, 0))

    def meanwhile(error: Exception | None) -> None:
        cursor.apply(reset)

    world.broker.commits.wait_for(world.store.ticket_last).when_done(meanwhile)
    world.release_disk()
    (question,) = client.take(pb.CommandWithdraw)
    assert list(question.entry_runs) == [ids[0].ledger_id, ids[0].entry_id, 1]


@pytest.mark.parametrize("type", [Shared, KeyShared])
def test_a_batch_whose_messages_are_in_several_pieces_is_taken_back_whole(
    world: World, type: int
) -> None:
    """Seed 70000065: the second piece did not know any more who had the batch (I5)."""
    world.broker.pieces.be_small()
    producer = world.connect().producer("t")
    client = world.connect(feature_flags=pb.FeatureFlags(supports_magnetar=True))
    consumer = client.subscribe("t", "sub", type, initialPosition=Earliest)
    id = producer.send("0", "1", "2", "3")
    consumer.flow(10)
    consumer.deliveries()
    skip = Skip([world.topic("t")], "sub", [at(id, index) for index in range(BATCH)], recall=True)
    while skip.plan_piece():
        pass
    skip.carry_out()
    world.settle()
    asked = [kept_of(one) for one in client.take(pb.CommandWithdraw)]
    assert asked == [[0]]


def kept_of(question: pb.CommandWithdraw) -> list[int]:
    """Of each batch that is asked for in part, the bits that are not."""
    return [sum(id.ack_set) for id in question.message_ids]


def test_who_acks_a_part_while_a_skip_is_applied_is_asked_for_the_rest(world: World) -> None:
    """With that part all of the batch is acked; but the rest is still in its queue (I5)."""
    world.broker.pieces.be_small()
    producer = world.connect().producer("t")
    client = world.connect(feature_flags=pb.FeatureFlags(supports_magnetar=True))
    consumer = client.subscribe("t", "sub", Shared, initialPosition=Earliest)
    plain = [producer.send("a"), producer.send("b")]
    id = producer.send("0", "1", "2")
    consumer.flow(10)
    *_, batch = consumer.deliveries()
    ids = [*plain, at(id, 1), at(id, 2)]  # the batch is in the second piece
    skip = Skip([world.topic("t")], "sub", ids, recall=True)
    while skip.plan_piece():
        pass
    world.hold_disk()
    skip.carry_out()
    client.session.receive(encode(consumer.ack_command((batch.index(0),))))
    world.release_disk()
    asked = [kept_of(one) for one in client.take(pb.CommandWithdraw)]
    assert asked == [[0b001]]
