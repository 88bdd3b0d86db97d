"""Taking skipped messages back, at the broker's heart: who is asked, and what a skip waits for."""

import random
from typing import Any

import pytest
from support.wire_client import (
    Earliest,
    Exclusive,
    KeyShared,
    Shared,
    WireConsumer,
    refused,
)
from support.world import World

from magnetar.broker.promise import Promise
from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.dispatch.absent import AWAY_MS, Absent
from magnetar.broker.topic.dispatch.overtaken import AWAY_MAX, Overtaken
from magnetar.broker.topic.skip.recall import ENTRIES_MAX, Withdrawal
from magnetar.broker.topic.skip.skip import Skip
from magnetar.broker.topic.skip.skip_result import Takers
from magnetar.model.enums import ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import message_id_to_pb
from magnetar.protocol import pulsar_pb2 as pb

WAIT_MS = 5000
OURS = pb.FeatureFlags(supports_magnetar=True)


def consumer(world: World, *, ours: bool, type: int = Shared, **fields: Any) -> WireConsumer:
    world.advance(1)
    client = world.connect(feature_flags=OURS if ours else pb.FeatureFlags())
    return client.subscribe("t", "sub", type, initialPosition=Earliest, **fields)


def begin(world: World, *ids: MessageIdData) -> tuple[Skip, Promise[None]]:
    """A skip that is durable, and the promise that all of it is given back."""
    skip = Skip([world.topic("t")], "sub", list(ids), recall=True, details=True)
    while skip.plan_piece():
        pass
    done = skip.carry_out()
    world.settle()
    assert (done.done, done.error) == (True, None)
    promise = skip.recalled(WAIT_MS)
    world.settle()
    return skip, promise


def kept(promise: Promise[None]) -> bool:
    assert promise.error is None
    return promise.done


def takers(skip: Skip) -> list[dict[str, list[str]]]:
    assert skip.recall is not None
    found = Takers(skip.recall)
    return [found.of(result) for result in skip.results]


def asked(consumer: WireConsumer) -> pb.CommandWithdraw:
    return consumer.client.one(pb.CommandWithdraw)


def answer(consumer: WireConsumer, question: pb.CommandWithdraw, *given: MessageIdData) -> None:
    consumer.client.say(
        pb.CommandWithdrawn(
            consumer_id=question.consumer_id,
            request_id=question.request_id,
            given_back=[message_id_to_pb(id) for id in given if id.ack_set],
            entry_runs=[
                n for id in given if not id.ack_set for n in (id.ledger_id, id.entry_id, 1)
            ],
        )
    )


def test_a_skip_waits_until_our_client_has_answered(world: World) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=True, consumer_name="w")
    ids = [producer.send(f"{i}") for i in range(3)]
    holder.flow(10)
    skip, promise = begin(world, ids[1])
    assert not kept(promise)
    question = asked(holder)
    assert list(question.entry_runs) == [ids[1].ledger_id, ids[1].entry_id, 1]
    answer(holder, question, ids[1])
    assert kept(promise)
    assert takers(skip) == [{"taken_back_from": ["w"]}]
    assert not holder.closed_by_broker()
    assert world.subscription("t", "sub").taken_back == 1


def test_ids_in_any_order_are_asked_for_in_runs(world: World) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=True, consumer_name="w")
    count = ENTRIES_MAX + 500
    ids = [producer.send("m") for _ in range(count)]
    holder.flow(count)
    shuffled = random.Random(1).sample(ids, count)
    skip, promise = begin(world, *shuffled)
    questions = holder.client.take(pb.CommandWithdraw)
    ledger = ids[0].ledger_id
    assert [list(question.entry_runs) for question in questions] == [
        [ledger, 0, ENTRIES_MAX],
        [ledger, ENTRIES_MAX, 500],
    ]
    # All of the first, and of the second all but one.
    answer_runs(holder, questions[0], ledger, 0, ENTRIES_MAX)
    assert not kept(promise)
    answer_runs(holder, questions[1], ledger, ENTRIES_MAX, 499)
    assert kept(promise)
    assert world.subscription("t", "sub").taken_back == count - 1
    names = dict(zip([id.entry_id for id in shuffled], takers(skip), strict=True))
    assert names.pop(count - 1) == {"handed_out_to": ["w"]}
    assert all(found == {"taken_back_from": ["w"]} for found in names.values())


def test_parts_of_many_batches_are_asked_for_with_whole_ones(world: World) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=True, consumer_name="w")
    count = ENTRIES_MAX + 500
    ids = [producer.send("a", "b") for _ in range(count)]
    holder.flow(2 * count)
    part, whole = ids[-1], ids[:-1]
    index = MessageIdData(part.ledger_id, part.entry_id, -1, 1)
    skip, promise = begin(world, index, *whole)
    first, second = holder.client.take(pb.CommandWithdraw)
    assert list(first.entry_runs) == [part.ledger_id, 0, ENTRIES_MAX]
    assert list(second.entry_runs) == [part.ledger_id, ENTRIES_MAX, 499]
    assert [list(id.ack_set) for id in second.message_ids] == [[0b01]]
    answer_runs(holder, first, part.ledger_id, 0, ENTRIES_MAX)
    # All that are whole, and nothing of the part.
    answer_runs(holder, second, part.ledger_id, ENTRIES_MAX, 499)
    assert kept(promise)
    assert takers(skip)[:2] == [{"handed_out_to": ["w"]}, {"taken_back_from": ["w"]}]
    assert world.subscription("t", "sub").taken_back == 2 * (count - 1)


def answer_runs(holder: WireConsumer, question: pb.CommandWithdraw, *runs: int) -> None:
    holder.client.say(
        pb.CommandWithdrawn(
            consumer_id=question.consumer_id, request_id=question.request_id, entry_runs=runs
        )
    )


def test_of_a_batch_only_the_skipped_indexes_are_asked_for(world: World) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=True, consumer_name="w")
    id = producer.send("a", "b", "c", "d")
    holder.flow(10)
    index = [MessageIdData(id.ledger_id, id.entry_id, -1, i) for i in range(4)]
    skip, promise = begin(world, index[1], index[3])
    question = asked(holder)
    assert list(question.message_ids[0].ack_set) == [0b0101]
    # Index 1 had been handed out, 3 was not.
    answer(holder, question, MessageIdData(id.ledger_id, id.entry_id, -1, -1, 0b0111))
    assert kept(promise)
    assert takers(skip) == [{"handed_out_to": ["w"]}, {"taken_back_from": ["w"]}]


def test_who_holds_nothing_of_it_is_left_alone(world: World) -> None:
    producer = world.connect().producer("t")
    holder, other = consumer(world, ours=True), consumer(world, ours=False)
    holder.flow(1)
    ids = [producer.send(f"{i}") for i in range(2)]
    other.flow(1)
    _, promise = begin(world, ids[0])
    answer(holder, asked(holder), ids[0])
    assert kept(promise)
    assert not other.closed_by_broker()
    assert other.client.take(pb.CommandWithdraw) == []


@pytest.mark.parametrize("type", [Shared, KeyShared])
def test_another_client_is_closed_and_what_else_it_holds_comes_again_in_order(
    world: World, type: int
) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=False, type=type, consumer_name="w")
    ids = [producer.send(f"{i}", partition_key="k") for i in range(5)]
    holder.flow(10)
    assert holder.payloads() == ["0", "1", "2", "3", "4"]
    skip, promise = begin(world, ids[2])
    assert holder.closed_by_broker()
    assert not kept(promise)
    back = holder.client.subscribe("t", "sub", type, consumer_id=holder.id, consumer_name="w")
    # The C++ client hands out its queue until it knows that it is subscribed.
    assert not kept(promise)
    back.flow(10)
    assert kept(promise)
    assert takers(skip) == [{"closed": ["w"]}]
    again = back.deliveries()
    assert [d.payloads[0] for d in again] == ["0", "1", "3", "4"]
    assert {d.redelivery_count for d in again} == {0}


def test_acks_of_a_consumer_that_is_being_closed_count(world: World) -> None:
    """Its client had not read the close yet, and asked for no answer."""
    producer = world.connect().producer("t")
    holder = consumer(world, ours=False)
    other = consumer(world, ours=True)
    ids = [producer.send(f"{i}") for i in range(4)]
    holder.flow(10)
    assert len(holder.deliveries()) == 4
    begin(world, ids[3])
    other.flow(10)
    # Nobody else is given what it may be acking.
    assert other.payloads() == []
    holder.ack(ids[0], ids[1])
    back = holder.client.subscribe("t", "sub", Shared, consumer_id=holder.id)
    back.flow(10)
    assert back.payloads() + other.payloads() == ["2"]


def test_a_client_that_does_not_come_back_is_named_and_what_it_held_goes_to_others(
    world: World,
) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=False, consumer_name="w")
    other = consumer(world, ours=True)
    ids = [producer.send(f"{i}") for i in range(3)]
    holder.flow(10)
    skip, promise = begin(world, ids[1])
    other.flow(10)
    world.advance(WAIT_MS - 1)
    assert not kept(promise)
    world.advance(1)
    assert kept(promise)
    assert takers(skip) == [{"unconfirmed": ["w"]}]
    assert other.payloads() == ["0", "2"]


@pytest.mark.parametrize("ours", [True, False])
def test_a_connection_that_ends_leaves_it_open_what_was_handed_out(
    world: World, ours: bool
) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=ours, consumer_name="w")
    id = producer.send("m")
    holder.flow(10)
    skip, promise = begin(world, id)
    assert not kept(promise)
    holder.client.drop()
    assert kept(promise)
    assert takers(skip) == [{"unconfirmed": ["w"]}]


def test_two_who_skip_the_same_message_are_told_the_same(world: World) -> None:
    """The second finds it acked; but it is not given back before the first is told either."""
    producer = world.connect().producer("t")
    holder = consumer(world, ours=True, consumer_name="w")
    ids = [producer.send(f"{i}") for i in range(2)]
    holder.flow(10)
    assert holder.payloads() == ["0", "1"]
    _, first = begin(world, ids[0])
    skip, second = begin(world, ids[0])
    _, third = begin(world, ids[1])
    assert (kept(first), kept(second), kept(third)) == (False, False, False)
    question = holder.client.take(pb.CommandWithdraw)
    answer(holder, question[1], ids[1])
    assert (kept(first), kept(second), kept(third)) == (False, False, True)
    answer(holder, question[0], ids[0])
    assert (kept(first), kept(second)) == (True, True)
    assert skip.results[0].text == "already acked"
    assert takers(skip) == [{"taken_back_from": ["w"]}]


def test_an_answer_that_names_more_than_was_asked_for_ends_its_connection(world: World) -> None:
    """A frame has room for a hundred thousand ids, and nobody looks through them."""
    producer = world.connect().producer("t")
    holder = consumer(world, ours=True, consumer_name="w")
    id = producer.send("m")
    holder.flow(10)
    skip, promise = begin(world, id)
    (question,) = holder.client.take(pb.CommandWithdraw)
    answer(holder, question, id, id)
    assert holder.client.session.closed
    assert "more than it was asked for" in world.host.warnings[-1]
    world.settle()
    assert kept(promise)
    assert takers(skip) == [{"unconfirmed": ["w"]}]


def test_a_skip_after_an_unload_waits_for_those_who_have_not_come_back(world: World) -> None:
    """Nobody knows any more what they hold; as long as they are away they hand it out."""
    producer = world.connect().producer("t")
    holder = consumer(world, ours=False, consumer_name="w")
    id = producer.send("m")
    holder.flow(10)
    world.unload("t")
    assert holder.closed_by_broker()
    skip, promise = begin(world, id)
    assert not kept(promise)
    assert takers(skip) == [{"unconfirmed": ["w"]}]
    back = holder.client.subscribe("t", "sub", Shared, consumer_id=holder.id)
    assert not kept(promise)
    back.flow(10)
    assert kept(promise)
    assert takers(skip) == [{}]


def test_a_skip_between_subscribe_and_the_first_flow_waits_too(world: World) -> None:
    """Of another operator's message, that nobody holds any more as far as the broker knows."""
    producer = world.connect().producer("t")
    holder = consumer(world, ours=False, consumer_name="w")
    ids = [producer.send(f"{i}") for i in range(2)]
    holder.flow(10)
    assert holder.payloads() == ["0", "1"]
    _, first = begin(world, ids[0])
    back = holder.client.subscribe("t", "sub", Shared, consumer_id=holder.id, consumer_name="w")
    skip, second = begin(world, ids[1])
    assert not kept(first)
    assert not kept(second)
    back.flow(10)
    assert kept(first)
    assert kept(second)
    assert takers(skip) == [{}]
    assert back.payloads() == []


def test_a_client_that_is_refused_when_it_comes_back_still_has_its_queue(world: World) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=False, consumer_name="w")
    id = producer.send("m")
    holder.flow(10)
    consumer(world, ours=True)
    skip, promise = begin(world, id)
    with refused(ServerError.ConsumerBusy):
        holder.client.subscribe("t", "sub", Exclusive, consumer_id=holder.id)
    assert not kept(promise)
    holder.client.drop()
    assert kept(promise)
    assert takers(skip) == [{"unconfirmed": ["w"]}]


def test_unloads_of_a_client_that_asks_for_nothing_leave_nothing_behind(world: World) -> None:
    """It is subscribed anew each time, and never was sent a message."""
    holder = consumer(world, ours=False, consumer_name="w")
    for _ in range(3):
        world.unload("t")
        holder = holder.client.subscribe("t", "sub", Shared, consumer_id=holder.id)
    assert world.broker.strays.of(str(world.topic("t").name), "sub") == []


def test_who_is_refused_when_it_comes_back_has_its_queue_still(world: World) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=False, consumer_name="w")
    id = producer.send("m")
    holder.flow(10)
    world.unload("t")
    with refused(ServerError.NotAllowedError):
        holder.client.subscribe("t", "sub", 9, consumer_id=holder.id)
    skip, promise = begin(world, id)
    assert not kept(promise)
    holder.client.subscribe("t", "sub", Shared, consumer_id=holder.id).flow(10)
    assert kept(promise)
    assert takers(skip) == [{}]


def test_who_is_lost_again_before_it_is_back_is_named(world: World) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=False, consumer_name="w")
    id = producer.send("m")
    holder.flow(10)
    skip, promise = begin(world, id)
    holder.client.subscribe("t", "sub", Shared, consumer_id=holder.id, consumer_name="w")
    holder.client.drop()
    world.settle()
    assert kept(promise)
    assert takers(skip) == [{"unconfirmed": ["w"]}]


def lost_after_an_unload(world: World, *, ours: bool) -> list[MessageIdData]:
    """A client whose connection breaks before it is back; what it has in its queue."""
    producer = world.connect().producer("t")
    holder = consumer(world, ours=ours, consumer_name="w")
    ids = [producer.send("m") for _ in range(2)]
    holder.flow(10)
    world.unload("t")
    holder.client.drop()
    return ids


@pytest.mark.parametrize("ours", [False, True], ids=["another client", "ours"])
def test_who_was_closed_and_lost_its_connection_is_named(world: World, ours: bool) -> None:
    ids = lost_after_an_unload(world, ours=ours)
    skip, promise = begin(world, ids[0])
    assert kept(promise)
    assert takers(skip) == [{} if ours else {"unconfirmed": ["w"]}]


def test_who_was_lost_is_not_named_once_it_is_back(world: World) -> None:
    ids = lost_after_an_unload(world, ours=False)
    other = consumer(world, ours=False, consumer_name="another")
    other.flow(0)
    back = consumer(world, ours=False, consumer_name="w")
    skip, _ = begin(world, ids[0])
    assert takers(skip) == [{"unconfirmed": ["w"]}]
    back.flow(0)
    skip, promise = begin(world, ids[1])
    assert kept(promise)
    assert takers(skip) == [{}]


def test_who_was_lost_is_named_for_some_minutes(world: World) -> None:
    ids = lost_after_an_unload(world, ours=False)
    world.advance(AWAY_MS - 1)
    assert takers(begin(world, ids[0])[0]) == [{"unconfirmed": ["w"]}]
    world.advance(1)
    assert takers(begin(world, ids[1])[0]) == [{}]


def test_an_unload_while_a_skip_waits_ends_well(world: World) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=True, consumer_name="w")
    id = producer.send("m")
    holder.flow(10)
    skip, promise = begin(world, id)
    world.unload("t")
    assert not kept(promise)
    answer(holder, asked(holder), id)
    assert kept(promise)
    assert takers(skip) == [{"taken_back_from": ["w"]}]


def test_answers_that_nobody_asked_for_are_passed_over(world: World) -> None:
    holder = consumer(world, ours=True)
    for consumer_id, request_id in ((holder.id, 7), (holder.id + 1, 1)):
        holder.client.say(
            pb.CommandWithdrawn(
                consumer_id=consumer_id,
                request_id=request_id,
                given_back=[message_id_to_pb(MessageIdData(1, 2))],
            )
        )
    assert not holder.client.hung_up


def test_entries_that_follow_each_other_are_asked_for_in_one_breath(world: World) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=True, consumer_name="w")
    ids = [producer.send(f"{i}") for i in range(6)]
    holder.flow(10)
    skip, promise = begin(world, ids[4], ids[1], ids[0], ids[2])
    question = asked(holder)
    ledger = ids[0].ledger_id
    assert list(question.entry_runs) == [ledger, 0, 3, ledger, 4, 1]
    assert not question.message_ids
    # It had handed out one of them, and tells the others in its own way.
    answer(holder, question, ids[2], ids[0], ids[4])
    assert kept(promise)
    back, out = {"taken_back_from": ["w"]}, {"handed_out_to": ["w"]}
    assert takers(skip) == [back, out, back, back]


@pytest.mark.parametrize("part_first", [False, True])
def test_of_a_batch_a_part_and_all_of_it_are_all_of_it(world: World, part_first: bool) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=True)
    producer.send(*"abcd")
    holder.flow(10)
    subscription = world.topic("t").subscriptions["sub"]
    withdrawal = Withdrawal(subscription, subscription.consumers[0], {})
    for part in (part_first, not part_first):
        withdrawal.ask(7, 0b0010 if part else 0b1111, part=part)
    assert withdrawal.asked == {7: 0b1111}
    assert withdrawal.parts == set()
    withdrawal.ask(8, 0b0010, part=True)
    withdrawal.ask(8, 0b1000, part=True)
    assert withdrawal.asked[8] == 0b1010
    assert withdrawal.parts == {8}


@pytest.mark.parametrize("runs", [[1], [5, 0, 2**64 - 1], [5, 2**63, 9], [2**64 - 1, 0, 2**62]])
def test_an_answer_that_tells_too_much_is_read_no_further(world: World, runs: list[int]) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=True, consumer_name="w")
    id = producer.send("m")
    holder.flow(10)
    skip, promise = begin(world, id)
    question = asked(holder)
    told = [id.ledger_id if number == 5 else number for number in runs]
    holder.client.say(
        pb.CommandWithdrawn(
            consumer_id=question.consumer_id, request_id=question.request_id, entry_runs=told
        )
    )
    assert kept(promise)
    assert len(takers(skip)) == 1
    assert not holder.client.hung_up


def test_who_closes_its_consumer_has_given_everything_back(world: World) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=True, consumer_name="w")
    id = producer.send("m")
    holder.flow(10)
    skip, promise = begin(world, id)
    holder.close()
    assert kept(promise)
    assert takers(skip) == [{"closed": ["w"]}]


# ---- What another consumer has acked -----------------------------------------


def overtaken(world: World, *, ours: bool) -> tuple[WireConsumer, WireConsumer, MessageIdData]:
    """A message that the first consumer has in its queue, and the second has acked."""
    producer = world.connect().producer("t")
    first = consumer(world, ours=ours, consumer_name="first")
    id = producer.send("m")
    second = consumer(world, ours=ours, consumer_name="second")
    first.flow(10)
    second.ack(id)
    return first, second, id


def test_what_another_consumer_acked_is_taken_back_from_who_has_it(world: World) -> None:
    holder, _, id = overtaken(world, ours=True)
    _, promise = begin(world, id)
    assert not kept(promise)
    question = asked(holder)
    answer(holder, question, id)
    assert kept(promise)


def test_an_ack_that_is_applied_before_a_skip_hides_nobody(world: World) -> None:
    """Seed 5001520: the ack of another consumer was on its way when the skip was planned."""
    producer = world.connect().producer("t")
    holder = consumer(world, ours=True)
    id = producer.send("m")
    other = consumer(world, ours=True)
    holder.flow(10)
    skip = Skip([world.topic("t")], "sub", [id], recall=True)
    while skip.plan_piece():
        pass
    other.ack(id)
    skip.carry_out()
    world.settle()
    promise = skip.recalled(WAIT_MS)
    world.settle()
    assert not kept(promise)
    answer(holder, asked(holder), id)
    assert kept(promise)


def test_a_client_that_cannot_give_back_is_closed_for_what_another_acked(world: World) -> None:
    holder, _, id = overtaken(world, ours=False)
    _, promise = begin(world, id)
    assert not kept(promise)
    assert holder.closed_by_broker()


def test_who_acked_it_too_was_handed_it_and_is_left_alone(world: World) -> None:
    holder, _, id = overtaken(world, ours=False)
    holder.ack(id)
    _, promise = begin(world, id)
    assert kept(promise)
    assert not holder.closed_by_broker()


def test_who_left_is_not_asked_for_what_another_acked(world: World) -> None:
    holder, _, id = overtaken(world, ours=True)
    holder.client.drop()
    world.settle()
    _, promise = begin(world, id)
    assert kept(promise)


def test_a_message_of_a_batch_that_another_acked_is_taken_back_alone(world: World) -> None:
    producer = world.connect().producer("t")
    holder = consumer(world, ours=True)
    batch = producer.send("a", "b")
    ledger_id, entry_id = batch.ledger_id, batch.entry_id
    other = consumer(world, ours=True)
    holder.flow(10)
    other.ack(MessageIdData(ledger_id, entry_id, ack_set=0b10, batch_size=2))
    _, promise = begin(world, MessageIdData(ledger_id, entry_id, batch_index=0))
    question = asked(holder)
    (id,) = question.message_ids
    assert (id.ledgerId, id.entryId, list(id.ack_set)) == (ledger_id, entry_id, [0b10])
    answer(holder, question)
    assert kept(promise)


def test_two_messages_of_a_batch_that_another_acked_are_both_taken_back(world: World) -> None:
    """Seed 11503537: the second skip found nobody, for the first had asked already."""
    producer = world.connect().producer("t")
    holder = consumer(world, ours=True, consumer_name="first")
    id = producer.send("a", "b")
    second = consumer(world, ours=True, consumer_name="second")
    holder.flow(10)
    second.ack(id)
    parts = [MessageIdData(id.ledger_id, id.entry_id, -1, index) for index in (1, 0)]
    promises = [begin(world, part)[1] for part in parts]
    assert [kept(promise) for promise in promises] == [False, False]
    assert len(holder.client.take(pb.CommandWithdraw)) == 2


def test_few_are_remembered_of_those_that_never_ack(world: World) -> None:
    consumer(world, ours=True)
    (holder,) = world.subscription("t", "sub").consumers
    found = Overtaken(lambda absent: None, count_max=2)
    for key in range(3):
        found.add(key, holder)
    assert [found.get(key) for key in range(3)] == [[], [holder], [holder]]


# ---- What is left behind in the queues of other clients ------------------------


def left_behind(world: World, *, ours: bool, size: int) -> tuple[WireConsumer, MessageIdData]:
    """A consumer, and an entry that it has in its queue when nobody else is there."""
    first = consumer(world, ours=ours, consumer_name="first")
    id = world.connect().producer("t").send(*[f"{number}" for number in range(size)])
    first.flow(size)
    return first, id


@pytest.mark.parametrize("type", [Shared, KeyShared])
def test_the_rest_of_a_batch_that_was_refused_is_taken_back_from_where_it_is(
    world: World, type: int
) -> None:
    """The official client keeps it, though the broker gives the batch to another consumer."""
    producer = world.connect().producer("t")
    first = consumer(world, ours=False, type=type, consumer_name="first")
    batch, single = producer.send("a", "b", partition_key="k"), producer.send("c")
    first.flow(3)
    first.redeliver(batch, single)
    skip, promise = begin(world, batch)
    assert not kept(promise)
    assert first.closed_by_broker()
    first.client.subscribe("t", "sub", type, consumer_id=first.id).flow(3)
    assert kept(promise)
    assert takers(skip) == [{"closed": ["first"]}]


def test_what_was_refused_alone_is_nowhere_any_more(world: World) -> None:
    first, id = left_behind(world, ours=False, size=1)
    first.redeliver(id)
    skip, promise = begin(world, id)
    assert kept(promise)
    assert takers(skip) == [{}]
    assert not first.closed_by_broker()


@pytest.mark.parametrize("ours", [False, True], ids=["another client", "ours"])
def test_a_copy_that_was_on_its_way_when_its_message_was_acked_is_taken_back(
    world: World, ours: bool
) -> None:
    """Seed 11401956: a message of its batch was refused, and it was acked while the batch came."""
    first, id = left_behind(world, ours=ours, size=2)
    first.redeliver(id)
    first.flow(2)
    first.ack(id)
    _, promise = begin(world, id)
    assert not kept(promise)
    if ours:
        answer(first, asked(first), id)
    else:
        assert first.closed_by_broker()
        first.client.subscribe("t", "sub", Shared, consumer_id=first.id).flow(2)
    assert kept(promise)


@pytest.mark.parametrize("ours", [False, True], ids=["another client", "ours"])
def test_who_wants_everything_again_may_have_it_in_its_queue(world: World, ours: bool) -> None:
    first, id = left_behind(world, ours=ours, size=1)
    first.redeliver()
    second = consumer(world, ours=True, consumer_name="second")
    second.flow(10)
    skip, promise = begin(world, id)
    answer(second, asked(second), id)
    assert first.closed_by_broker() is not ours
    assert kept(promise) is ours
    first.client.drop()
    world.settle()
    expected = {"taken_back_from": ["second"]} | ({} if ours else {"unconfirmed": ["first"]})
    assert takers(skip) == [expected]


def test_who_gets_it_again_is_asked_once(world: World) -> None:
    first, id = left_behind(world, ours=False, size=2)
    first.redeliver(id)
    first.flow(2)
    skip, promise = begin(world, id)
    first.client.subscribe("t", "sub", Shared, consumer_id=first.id).flow(2)
    assert kept(promise)
    assert takers(skip) == [{"closed": ["first"]}]
    assert world.subscription("t", "sub").taken_back == 2


@pytest.mark.parametrize("ours", [False, True], ids=["another client", "ours"])
def test_who_lost_its_connection_before_a_skip_is_named(world: World, ours: bool) -> None:
    """Another client hands out what it has until it is back; ours empties its queue."""
    first, id = left_behind(world, ours=ours, size=1)
    first.client.drop()
    skip, promise = begin(world, id)
    assert kept(promise)
    assert takers(skip) == [{} if ours else {"unconfirmed": ["first"]}]
    assert skip.recall is not None
    assert Takers(skip.recall).unconfirmed() == (0 if ours else 1)


def test_who_is_back_has_nothing_from_before(world: World) -> None:
    first, id = left_behind(world, ours=False, size=1)
    first.client.drop()
    back = consumer(world, ours=False, consumer_name="first")
    skip, promise = begin(world, id)
    assert kept(promise)
    assert takers(skip) == [{"unconfirmed": ["first"]}]
    back.flow(1)
    skip, promise = begin(world, id)
    assert takers(skip) == [{}]


def test_who_is_away_for_long_is_not_named_any_more(world: World) -> None:
    first, id = left_behind(world, ours=False, size=1)
    first.client.drop()
    world.advance(AWAY_MS)
    skip, promise = begin(world, id)
    assert kept(promise)
    assert takers(skip) == [{}]


def test_who_closed_its_consumer_is_not_named(world: World) -> None:
    first, id = left_behind(world, ours=False, size=1)
    first.close()
    skip, promise = begin(world, id)
    assert kept(promise)
    assert takers(skip) == [{}]


def test_of_those_that_lost_their_connection_the_last_are_remembered(world: World) -> None:
    """The first are strays: nobody knows any more what they have."""
    consumer(world, ours=False)
    (holder,) = world.subscription("t", "sub").consumers
    strays: list[Absent] = []
    found = Overtaken(strays.append)
    for number in range(AWAY_MAX + 2):
        found.went_away(another(holder, number), [number], 0)
    taken = [found.take(number, 1) for number in range(AWAY_MAX + 2)]
    assert [one is None for one in taken] == [True] * 2 + [False] * AWAY_MAX
    assert found.take(AWAY_MAX, 1) is None
    assert [absent.ghost.name for absent in strays] == ["0", "1"]


def another(consumer: Consumer, key: int) -> Consumer:
    return Consumer(consumer.peer, key, int(consumer.id), f"{key}")
