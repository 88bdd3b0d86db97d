"""Acks: every one that asks for a receipt gets one, and only when it is true.

The tests of receipts follow SEMANTICS 3.1 case by case.
"""

import pytest
from support.holder import again, start
from support.wire_client import (
    Exclusive,
    Failover,
    KeyShared,
    Shared,
    WireConsumer,
    but,
    refused,
)
from support.world import ENDS, FULL, World

from magnetar.model import ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAckResponse
from magnetar.protocol import pulsar_pb2 as pb

TYPES = (Exclusive, Shared, Failover, KeyShared)
SINGLE = (Exclusive, Failover)
MANY = (Shared, KeyShared)


def ends(world: World, how: str, consumer: WireConsumer) -> None:
    """One of the ways in which a consumer or a broker ends."""
    if how == "close":
        consumer.close()
    elif how == "drop":
        consumer.client.drop()
    else:
        world.end(how)


WAYS = ("close", "drop", *ENDS)


# ---- Receipts, SEMANTICS 3.1 -----------------------------------------------------


def test_an_unknown_consumer_is_told_so(world: World) -> None:
    with refused(ServerError.ConsumerNotFound, "no consumer 9"):
        WireConsumer(world.connect(), 9, "t").acked(MessageIdData(1, 1))


def test_a_closed_consumer_is_told_so(world: World) -> None:
    consumer, (message,) = start(world, ("a",))
    consumer.close()
    with refused(ServerError.ConsumerNotFound):
        consumer.acked(message)


@pytest.mark.parametrize("type", TYPES)
def test_a_consumer_closed_by_unload_is_told_to_try_again(world: World, type: int) -> None:
    consumer, (message,) = start(world, ("a",), type=type)
    world.unload("t")
    with refused(ServerError.ServiceNotReady, "try again"):
        consumer.acked(message)
    assert again(world, type) == ["a"]


def test_a_consumer_closed_by_a_seek_is_told_to_try_again(world: World) -> None:
    consumer, (message,) = start(world, ("a",))
    consumer.seek(message.id)
    with refused(ServerError.ServiceNotReady):
        consumer.acked(message)


def test_a_consumer_closed_by_the_operator_is_told_to_try_again(world: World) -> None:
    consumer, (message,) = start(world, ("a",))
    world.done(world.topic("t").unsubscribe(world.subscription("t", "sub")))
    with refused(ServerError.ServiceNotReady):
        consumer.acked(message)


def test_a_consumer_that_is_still_subscribing_is_told_to_try_again(world: World) -> None:
    client = world.connect()
    id = client.producer("t").send("a")
    world.hold_disk()
    consumer = WireConsumer(client, 1, "t")
    client.ask(consumer.command("sub", Shared))
    with refused(ServerError.ServiceNotReady):
        consumer.acked(id)


def test_a_consumer_that_failed_to_subscribe_is_told_so(world: World) -> None:
    consumer, (message,) = start(world, ("a",), type=Exclusive)
    with refused(ServerError.ConsumerBusy):
        consumer.client.subscribe("t", "sub", Shared, consumer_id=7)
    with refused(ServerError.ConsumerNotFound):
        WireConsumer(consumer.client, 7, "t").acked(message)


@pytest.mark.parametrize("type", MANY)
def test_a_cumulative_ack_of_many_consumers_is_not_allowed(world: World, type: int) -> None:
    consumer, (message,) = start(world, ("a",), type=type)
    with refused(ServerError.NotAllowedError, "Exclusive and Failover"):
        consumer.acked(message, cumulative=True)
    consumer.redeliver()
    assert consumer.payloads() == ["a"]


@pytest.mark.parametrize("count", [0, 2])
def test_a_cumulative_ack_names_one_message(world: World, count: int) -> None:
    consumer, messages = start(world, ("a",), ("b",), type=Exclusive)
    with refused(ServerError.NotAllowedError, f"not {count}"):
        consumer.acked(*messages[:count], cumulative=True)


def test_an_index_where_indexes_are_off_is_not_allowed_and_never_widened() -> None:
    world = World(batch_index_ack=False)
    consumer, (batch,) = start(world, ("a", "b"))
    with refused(ServerError.NotAllowedError, "acknowledgmentAtBatchIndexLevelEnabled"):
        consumer.acked(batch.index(0))
    consumer.redeliver()
    assert consumer.payloads() == ["a", "b"]
    consumer.acked(batch)
    assert again(world) == []


@pytest.mark.parametrize("type", SINGLE)
def test_a_cumulative_ack_inside_a_batch_where_indexes_are_off_acks_all_before_the_batch(
    type: int,
) -> None:
    world = World(batch_index_ack=False)
    consumer, batches = start(world, tuple("abcd"), tuple("efgh"), tuple("ijkl"), type=type)
    consumer.acked(batches[2].through(0), cumulative=True)
    assert world.subscription("t", "sub").cursor.unacked_entries() == 1
    consumer.acked(batches[0].through(2), cumulative=True)  # a stale one takes nothing back
    with refused(ServerError.NotAllowedError, "3 entries"):
        consumer.acked(but(MessageIdData(batches[0].id.ledger_id, 3), 4, 0), cumulative=True)
    world.crash()
    assert again(world, type) == ["i", "j", "k", "l"]


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("partial", [True, False])
def test_a_receipt_comes_when_the_ack_is_durable(world: World, type: int, partial: bool) -> None:
    consumer, (batch,) = start(world, ("a", "b"), type=type)
    world.hold_disk()
    request_id = consumer.ask_ack(batch.index(0) if partial else batch)
    assert consumer.receipt(request_id) is None
    world.release_disk()
    receipt = consumer.receipt(request_id)
    assert receipt is not None
    assert receipt.error is None
    assert receipt.consumer_id == consumer.id


def test_an_ack_that_was_not_durable_may_be_lost_and_one_that_was_not(world: World) -> None:
    consumer, (first, second) = start(world, ("a", "b"), ("c",))
    consumer.acked(first.index(1))
    world.hold_disk()
    consumer.ask_ack(second)
    world.crash()
    assert again(world) == ["a", "c"]


@pytest.mark.parametrize("cumulative", [False, True])
def test_a_failed_write_is_told_and_forgotten(world: World, cumulative: bool) -> None:
    consumer, (message,) = start(world, ("a",), type=Exclusive)
    world.fail_disk(FULL)
    with refused(ServerError.PersistenceError, "not written"):
        consumer.acked(message, cumulative=cumulative)
    assert world.subscription("t", "sub").cursor.unacked_entries() == 1
    world.fail_disk(None)
    consumer.acked(message, cumulative=cumulative)
    assert world.subscription("t", "sub").cursor.unacked_entries() == 0


def test_acks_during_a_reset_are_told_to_try_again(world: World) -> None:
    consumer, (first, second) = start(world, ("a",), ("b",))
    world.hold_disk()
    before = consumer.ask_ack(first)
    consumer.client.ask(consumer.seek_command(first.id))
    with refused(ServerError.ServiceNotReady, "being reset"):
        consumer.acked(second)
    world.release_disk()
    receipt = consumer.receipt(before)
    assert receipt is not None
    assert receipt.error is None
    assert again(world) == ["a", "b"]


def test_an_ack_planned_before_a_reset_and_written_after_it_is_told(world: World) -> None:
    consumer, (first, _) = start(world, ("a",), ("b",))
    subscription = world.subscription("t", "sub")
    world.hold_disk()
    request_id = consumer.ask_ack(first)
    # As when a reset overtook it on its way to the disk.
    subscription.cursor.apply(subscription.cursor.plan_reset(world.topic("t").ledgers.last()))
    world.release_disk()
    receipt = consumer.receipt(request_id)
    assert receipt is not None
    assert receipt.error == ServerError.ServiceNotReady


@pytest.mark.parametrize("type", TYPES)
def test_an_id_beyond_the_end_is_refused(world: World, type: int) -> None:
    consumer, (message,) = start(world, ("a",), type=type)
    beyond = MessageIdData(message.id.ledger_id, message.id.entry_id + 1)
    with refused(ServerError.NotAllowedError, "no entry"):
        consumer.acked(beyond)
    if type in SINGLE:
        with refused(ServerError.NotAllowedError, "no entry"):
            consumer.acked(beyond, cumulative=True)


def test_an_id_of_another_topic_is_refused(world: World) -> None:
    consumer, _ = start(world, ("a",))
    other = consumer.client.producer("other").send("x")
    with refused(ServerError.NotAllowedError):
        consumer.acked(other)


@pytest.mark.parametrize("type", TYPES)
def test_an_id_of_another_store_is_refused_and_acks_nothing(world: World, type: int) -> None:
    """A client that failed over still has acks for the broker that it left (I9)."""
    left = World()
    _, there = start(left, ("a",), ("b",), type=type)
    left.close()
    world.advance(1000)
    world.restart()
    consumer, _ = start(world, ("x",), ("y",), type=type)
    for message in there:
        with refused(ServerError.NotAllowedError, "never had this ledger"):
            consumer.acked(message)
        if type in SINGLE:
            with refused(ServerError.NotAllowedError, "never had this ledger"):
                consumer.acked(message, cumulative=True)
    consumer.close()
    assert again(world) == ["x", "y"]


def test_an_id_of_another_store_is_refused_where_all_was_trimmed_too(world: World) -> None:
    consumer, (message,) = start(world, ("a",))
    world.done(world.topic("t").subscriptions["sub"].clear())
    world.trim("t")
    world.advance(60_000)
    left = World(now_ms=world.host.now)
    there = left.connect().producer("t").send("b")
    left.close()
    world.advance(60_000)
    world.restart()
    consumer = world.connect().subscribe("t", "sub", Shared)
    consumer.acked(message)  # was its own once
    with refused(ServerError.NotAllowedError, "never had this ledger"):
        consumer.acked(there)


def test_one_bad_id_refuses_the_whole_list(world: World) -> None:
    consumer, (first, second) = start(world, ("a",), ("b",))
    with refused(ServerError.NotAllowedError):
        consumer.acked(first, MessageIdData(1 << 60, 0), second)
    consumer.close()
    assert again(world) == ["a", "b"]


def test_a_batch_of_another_size_is_refused(world: World) -> None:
    consumer, (batch,) = start(world, ("a", "b", "c"))
    with refused(ServerError.NotAllowedError, "batch of 3"):
        consumer.acked(but(batch.id, 4, 0))


@pytest.mark.parametrize("type", SINGLE)
def test_a_stale_cumulative_ack_succeeds(world: World, type: int) -> None:
    consumer, messages = start(world, ("a",), ("b", "c"), ("d",), type=type)
    consumer.acked(messages[2], cumulative=True)
    consumer.acked(messages[0], cumulative=True)
    consumer.acked(messages[1].through(0), cumulative=True)
    consumer.acked(messages[2], cumulative=True)
    assert world.subscription("t", "sub").cursor.partial_entries() == 0


def test_an_ack_of_what_is_acked_needs_no_disk(world: World) -> None:
    consumer, (message,) = start(world, ("a",))
    consumer.acked(message)
    world.hold_disk()
    consumer.acked(message)


def test_acks_are_answered_in_their_order(world: World) -> None:
    consumer, (first, second) = start(world, ("a",), ("b",))
    consumer.acked(first)
    world.hold_disk()
    ids = [consumer.ask_ack(second), consumer.ask_ack(first)]
    assert not consumer.client.take(CommandAckResponse)
    world.release_disk()
    assert [a.request_id for a in consumer.client.take(CommandAckResponse)] == ids


def test_a_transactional_ack_is_refused(world: World) -> None:
    consumer, (message,) = start(world, ("a",))
    command = consumer.ack_command((message,), request_id=5)
    command.txnid_most_bits = 1
    consumer.client.say(command)
    answer = consumer.client.one(CommandAckResponse)
    assert answer.error == ServerError.NotAllowedError
    assert "no transactions" in (answer.message or "")


def test_without_a_request_id_nothing_is_answered(world: World) -> None:
    consumer, (message,) = start(world, ("a",))
    consumer.ack(message)
    consumer.ack(message)
    consumer.ack(MessageIdData(99, 0))
    consumer.ack(message, cumulative=True)
    consumer.close()
    consumer.ack(message)
    assert not consumer.client.received
    assert again(world) == []


def test_an_empty_list_is_acked(world: World) -> None:
    consumer, _ = start(world, ("a",))
    consumer.acked()


# ---- What is acked stays acked ---------------------------------------------------


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("type", TYPES)
def test_indexes_that_are_acked_do_not_come_back_after(world: World, how: str, type: int) -> None:
    consumer, (first, second, _) = start(world, ("a", "b", "c", "d"), ("e",), ("f", "g"), type=type)
    consumer.acked(first.index(1, 3), second)
    ends(world, how, consumer)
    assert again(world, type) == ["a", "c", "f", "g"]


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("type", SINGLE)
def test_a_cumulative_ack_inside_a_batch_stays_after(world: World, how: str, type: int) -> None:
    consumer, (_, second) = start(world, ("a", "b"), ("c", "d", "e"), type=type)
    consumer.acked(second.through(1), cumulative=True)
    ends(world, how, consumer)
    assert again(world, type) == ["e"]


def test_the_ack_set_of_a_message_says_what_is_left(world: World) -> None:
    consumer, (batch,) = start(world, tuple("abcdefgh"))
    assert batch.ack_set is None
    consumer.acked(batch.index(0, 2, 5))
    consumer.redeliver()
    assert consumer.one().ack_set == 0b11011010


def test_indexes_add_up_to_the_entry(world: World) -> None:
    consumer, (batch,) = start(world, ("a", "b", "c"))
    cursor = world.subscription("t", "sub").cursor
    for index in range(3):
        assert cursor.unacked_entries() == 1
        consumer.acked(batch.index(index))
    assert cursor.unacked_entries() == 0
    assert cursor.partial_entries() == 0
    consumer.redeliver()
    assert consumer.payloads() == []


def test_one_ack_may_mix_entries_and_indexes(world: World) -> None:
    consumer, (first, second, third) = start(world, ("a",), ("b", "c"), ("d", "e"))
    consumer.acked(first, second.index(0), third, second.index(1))
    assert consumer.stats().unackedMessages == 0
    assert consumer.stats().msgBacklog == 0


def test_acks_of_another_consumer_count_for_the_one_that_holds_the_message(world: World) -> None:
    consumer, (batch,) = start(world, ("a", "b", "c"))
    other = consumer.client.subscribe("t", "sub", Shared)
    other.acked(batch.index(0))
    assert consumer.stats().unackedMessages == 2
    other.acked(batch)
    assert (consumer.stats().unackedMessages, other.stats().unackedMessages) == (0, 0)


def test_acks_under_way_are_settled_before_a_consumer_s_messages_move_on(world: World) -> None:
    consumer, (first, _) = start(world, ("a",), ("b",))
    other = world.connect().subscribe("t", "sub", Shared)
    other.flow(10)
    world.hold_disk()
    consumer.ask_ack(first)
    consumer.client.drop()
    assert other.payloads() == []
    world.release_disk()
    assert other.payloads() == ["b"]


def test_acks_under_way_are_settled_before_a_redelivery(world: World) -> None:
    consumer, (first, _) = start(world, ("a",), ("b",))
    world.hold_disk()
    consumer.ask_ack(first)
    consumer.redeliver()
    assert consumer.payloads() == []
    world.release_disk()
    assert consumer.payloads() == ["b"]


def test_acks_under_way_are_settled_before_somebody_joins(world: World) -> None:
    consumer, (first, _) = start(world, ("a",), ("b",), type=Exclusive)
    world.hold_disk()
    consumer.ask_ack(first)
    consumer.client.drop()
    client = world.connect()
    late = WireConsumer(client, 1, "t")
    request_id = client.ask(late.command("sub", Exclusive))
    assert client.answer(request_id) is None
    world.release_disk()
    assert isinstance(client.answer(request_id), pb.CommandSuccess)
    assert late.receive() == ["b"]


def test_even_acked_and_odd_nacked_and_permits_admit_as_many_new(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    texts = [f"{i}" for i in range(100)]
    producer.send(*texts)
    consumer.flow(100)
    batch = consumer.one()
    consumer.acked(batch.index(*range(0, 100, 2)))
    consumer.flow(100)  # what its application took
    consumer.redeliver(batch)
    assert consumer.payloads() == texts[1::2]
    for i in range(60):
        producer.send(f"new {i}")
    assert len(consumer.payloads()) == 50
    consumer.acked(batch)
    assert world.subscription("t", "sub").cursor.mark_delete.entry_id == batch.id.entry_id


def test_a_thousand_holes_are_kept(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    ids = [producer.send(f"{i}") for i in range(2000)]
    consumer.acked(*ids[1::2])
    world.crash()
    assert again(world) == [f"{i}" for i in range(0, 2000, 2)]


# ---- Redelivery ------------------------------------------------------------------


@pytest.mark.parametrize("type", MANY)
def test_a_redelivery_names_entries_and_brings_what_is_left_of_them(
    world: World, type: int
) -> None:
    consumer, (first, second, third) = start(world, ("a", "b"), ("c",), ("d", "e"), type=type)
    consumer.acked(first.index(0))
    consumer.redeliver(first, third)
    assert consumer.payloads() == ["b", "d", "e"]
    consumer.redeliver(second)
    assert consumer.payloads() == ["c"]


@pytest.mark.parametrize("type", MANY)
def test_counts_of_redelivery_go_up_with_each(world: World, type: int) -> None:
    consumer, (message, _) = start(world, ("a",), ("b",), type=type)
    for count in (1, 2, 3):
        consumer.redeliver(message)
        assert consumer.one().redelivery_count == count
    consumer.redeliver()
    assert [m.redelivery_count for m in consumer.deliveries()] == [4, 1]


@pytest.mark.parametrize("type", SINGLE)
def test_one_active_consumer_gets_all_again_whatever_it_names(world: World, type: int) -> None:
    consumer, (first, second, third) = start(world, ("a",), ("b",), ("c",), type=type)
    consumer.acked(second)
    consumer.redeliver(third, epoch=7)
    messages = consumer.deliveries()
    assert [m.payloads[0] for m in messages] == ["a", "c"]
    assert [m.command.consumer_epoch for m in messages] == [7, 7]
    assert [m.redelivery_count for m in messages] == [0, 0]
    assert first.command.consumer_epoch is None


def test_an_epoch_given_at_subscribe_is_echoed(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", consumer_epoch=3)
    client.producer("t").send("a")
    consumer.flow(1)
    assert consumer.one().command.consumer_epoch == 3


def test_an_epoch_of_a_consumer_that_waits_counts_when_its_turn_comes(world: World) -> None:
    """It drops what is of an older one, so it would get nothing for ever."""
    client = world.connect()
    active = client.subscribe("t", "sub", Failover, priority_level=0, consumer_epoch=0)
    waiting = client.subscribe("t", "sub", Failover, priority_level=1, consumer_epoch=0)
    waiting.flow(10)
    waiting.redeliver(epoch=1)
    client.producer("t").send("a")
    active.close()
    assert waiting.one().command.consumer_epoch == 1


def test_an_epoch_counts_where_nothing_is_stored(world: World) -> None:
    client = world.connect()
    topic = "non-persistent://public/default/t"
    consumer = client.subscribe(topic, "sub", consumer_epoch=0)
    consumer.flow(10)
    consumer.redeliver(epoch=1)
    client.producer(topic).send("a")
    assert consumer.one().command.consumer_epoch == 1


def test_entries_of_another_consumer_are_not_given_back(world: World) -> None:
    consumer, (message,) = start(world, ("a",))
    other = consumer.client.subscribe("t", "sub", Shared)
    other.flow(10)
    other.redeliver(message)
    assert other.payloads() == []
    assert consumer.payloads() == []
    assert consumer.stats().unackedMessages == 1


def test_a_consumer_that_leaves_does_not_raise_the_count(world: World) -> None:
    consumer, (message,) = start(world, ("a",))
    other = world.connect().subscribe("t", "sub", Shared)
    other.flow(10)
    consumer.redeliver(message)
    assert consumer.one().redelivery_count == 1
    consumer.client.drop()
    assert other.one().redelivery_count == 1


def test_the_count_survives_when_all_consumers_leave(world: World) -> None:
    consumer, (message,) = start(world, ("a",))
    consumer.redeliver(message)
    consumer.close()
    other = world.connect().subscribe("t", "sub", Shared)
    other.flow(10)
    assert other.one().redelivery_count == 1


def test_a_redelivery_during_a_reset_is_void(world: World) -> None:
    consumer, (_, second) = start(world, ("a",), ("b",))
    world.hold_disk()
    consumer.client.ask(consumer.seek_command(second.id))
    consumer.redeliver()
    world.release_disk()
    assert consumer.payloads() == []
    assert again(world) == ["b"]


@pytest.mark.parametrize("type", TYPES)
def test_a_redelivery_during_a_reset_that_fails_is_done_after_it(world: World, type: int) -> None:
    """Simulation seed 102: the consumer gave it back, and nobody had it."""
    consumer, (_, second) = start(world, ("a",), ("b",), type=type)
    world.hold_disk()
    consumer.ask_ack(second)
    consumer.redeliver()
    request = consumer.client.ask(consumer.seek_command(second.id))
    world.fail_disk(FULL)
    world.release_disk()
    assert consumer.client.answer(request).error == ServerError.PersistenceError
    world.fail_disk(None)
    world.settle()
    assert consumer.payloads() == ["a", "b"]
