"""What comes again, and what dies instead: the consumer's core against a broker of lists."""

import pytest
from client.consumer_model import SHARED, SINGLE, Rig, connected, place

from magnetar.client.consumer.message import Message
from magnetar.client.option.options import ConsumerDeadLetterPolicy
from magnetar.model import ConsumerType

# ---- Redelivery ----------------------------------------------------------------


@pytest.mark.parametrize("consumer_type", SHARED)
def test_redeliver_all_has_everything_come_again(consumer_type: ConsumerType) -> None:
    rig = connected(3, 0, consumer_type=consumer_type)
    rig.core.acknowledge_message(rig.take_all()[1])
    rig.core.redeliver_all()
    assert rig.places() == [(0, 0), (0, 2), (1, -1)]
    assert rig.core.epoch == 0


@pytest.mark.parametrize("consumer_type", SINGLE)
def test_messages_of_an_older_epoch_are_dropped(consumer_type: ConsumerType) -> None:
    rig = connected(3, 0, 0, consumer_type=consumer_type, receiver_queue_size=6)
    rig.broker_handles()
    while rig.broker_delivers():
        pass
    rig.client_receives()
    rig.core.redeliver_all()
    assert rig.core.epoch == 1
    assert rig.places() == [(0, 0), (0, 1), (0, 2), (1, -1), (2, -1)]
    rig.disconnect()
    rig.core.redeliver_all()
    rig.connect()
    assert len(rig.places()) == 5


@pytest.mark.parametrize("consumer_type", SINGLE)
def test_everything_comes_to_who_asks_for_it_while_subscribing(
    consumer_type: ConsumerType,
) -> None:
    rig = connected(3, 0, consumer_type=consumer_type)
    rig.disconnect()
    rig.online = True
    rig.broker.connect(rig.core.epoch)
    rig.core.redeliver_all()  # SUBSCRIBE has told the broker the epoch already
    rig.core.connected()
    assert len(rig.places()) == 4


def test_refusing_one_of_an_exclusive_subscription_returns_all() -> None:
    rig = connected(2, 0, consumer_type=ConsumerType.Failover)
    messages = rig.take_all()
    rig.core.acknowledge_message(messages[0])
    rig.core.negative_acknowledge(messages[1])
    rig.pass_time(60_000)
    assert rig.places() == [(0, 1), (1, -1)]


def test_acking_what_was_refused_calls_the_redelivery_off() -> None:
    rig = connected(2)
    first, second = rig.take_all()
    rig.core.negative_acknowledge(first)
    rig.core.acknowledge([first, second])
    rig.pass_time(60_000)
    assert rig.redeliveries() == []
    rig = connected(0)
    (alone,) = rig.take_all()
    rig.core.negative_acknowledge(alone)
    rig.core.acknowledge([alone.message_id()])
    rig.pass_time(60_000)
    assert rig.redeliveries() == []
    rig = connected(2, consumer_type=ConsumerType.Exclusive, unacked_messages_timeout_ms=1000)
    first, second = rig.take_all()
    rig.core.negative_acknowledge(first)
    rig.core.acknowledge_cumulative(second)
    rig.pass_time(60_000)
    assert rig.redeliveries() == []


def test_many_redeliveries_are_several_commands() -> None:
    rig = connected(*[0] * 1001, negative_ack_redelivery_delay_ms=0, receiver_queue_size=10)
    for message in rig.take_all():
        rig.core.negative_acknowledge(message)
    rig.core.tick(rig.now)
    rig.pump()
    assert [len(command.message_ids) for command in rig.redeliveries()] == [1000, 1]
    assert len(rig.places()) == 1001


def test_what_is_not_acked_in_time_comes_again() -> None:
    rig = connected(2, 0, unacked_messages_timeout_ms=5000)
    messages = rig.take_all()
    rig.core.acknowledge_message(messages[0])
    rig.core.acknowledge_message(messages[2])
    rig.pass_time(7000)
    assert rig.places() == [(0, 1)]
    assert [m.entryId for c in rig.redeliveries() for m in c.message_ids] == [0]
    assert rig.core.stats.entries_late == 1
    assert rig.core.stats.messages_refused == 0


def test_what_is_refused_and_late_at_once_comes_once() -> None:
    rig = connected(0, unacked_messages_timeout_ms=1000, negative_ack_redelivery_delay_ms=1000)
    (message,) = rig.take_all()
    rig.core.negative_acknowledge(message)
    rig.now += 5000
    rig.core.tick(rig.now)
    assert rig.places() == [(0, -1)]
    assert len(rig.redeliveries()) == 1


# ---- Dead letters --------------------------------------------------------------


def dead_letter_rig(*sizes: int, **options: object) -> Rig:
    options["dead_letter_policy"] = ConsumerDeadLetterPolicy(1)
    options["negative_ack_redelivery_delay_ms"] = 0
    rig = Rig(ConsumerType.Shared, **options)
    rig.broker.publish(*sizes)
    rig.connect()
    return rig


def refuse(rig: Rig, messages: list[Message]) -> None:
    for message in messages:
        rig.core.negative_acknowledge(message)
    rig.core.tick(rig.now)


def test_a_message_refused_too_often_dies_and_is_acked_when_published() -> None:
    rig = dead_letter_rig(0)
    refuse(rig, rig.take_all())
    again = rig.take_all()
    assert [message.redelivery_count() for message in again] == [1]
    assert rig.core.take_dead() == []
    wakes = rig.wakes
    refuse(rig, again)
    assert rig.wakes == wakes + 1
    (dead,) = rig.core.take_dead()
    assert rig.places() == []
    rig.core.dead_published(dead)
    rig.core.flush()
    rig.pump()
    assert rig.broker.left() == set()
    assert rig.core.stats.messages_dead == 1


def test_a_dead_letter_that_cannot_be_published_is_tried_again() -> None:
    rig = dead_letter_rig(0)
    refuse(rig, rig.take_all())
    refuse(rig, rig.take_all())
    (dead,) = rig.core.take_dead()
    rig.core.dead_failed(dead)
    rig.core.tick(rig.now)
    assert rig.core.take_dead() == [dead]
    assert rig.core.stats.messages_refused == 2


def test_issue_26125_nothing_dies_that_was_acked_in_any_round() -> None:
    rig = dead_letter_rig(3)
    zero, one, two = rig.take_all()
    rig.core.acknowledge_message(zero)
    refuse(rig, [one, two])
    one, two = rig.take_all()
    assert place(one) == (0, 1)
    rig.core.negative_acknowledge(one)
    rig.core.acknowledge([one, two])
    rig.core.tick(rig.now)
    assert rig.core.take_dead() == []
    rig.core.flush()
    rig.pump()
    assert rig.broker.left() == set()


def test_of_a_batch_only_what_was_refused_dies() -> None:
    rig = dead_letter_rig(3)
    refuse(rig, rig.take_all())
    zero, one, two = rig.take_all()
    rig.core.acknowledge_message(zero)
    refuse(rig, [one])
    assert [place(message) for message in rig.core.take_dead()] == [(0, 1)]
    assert rig.places() == []
    # The same refusal taken back leaves the rest to the application.
    rig.core.negative_acknowledge(two)
    rig.core.acknowledge_message(two)
    rig.core.tick(rig.now)
    assert rig.core.take_dead() == []


def test_a_refusal_that_was_taken_back_kills_nobody() -> None:
    rig = dead_letter_rig(3)
    refuse(rig, rig.take_all())
    zero, *_ = rig.take_all()
    rig.core.negative_acknowledge(zero)
    rig.core.acknowledge_message(zero)
    rig.core.tick(rig.now)
    assert rig.core.take_dead() == []
    # The others are with the application still, and do not come with a higher count.
    assert rig.places() == []


def test_what_comes_too_often_dies_unseen_and_its_permits_go_back() -> None:
    rig = dead_letter_rig(2, 0, receiver_queue_size=4)
    rig.broker.counts[0] = 2
    assert rig.places() == [(1, -1)]
    dead = rig.core.take_dead()
    assert [place(message) for message in dead] == [(0, 0), (0, 1)]
    # While they are being published they do not come again.
    rig.reconnect()
    assert rig.places() == [(1, -1)]
    assert rig.core.take_dead() == []
    rig.core.dead_published(dead[0])
    rig.core.flush()
    rig.pump()
    rig.reconnect()
    rig.pump()
    assert rig.core.take_dead() == []
    assert rig.broker.left() == {(0, 1), (1, -1)}


def test_a_candidate_whose_time_is_up_dies() -> None:
    rig = dead_letter_rig(2, unacked_messages_timeout_ms=1000)
    refuse(rig, rig.take_all())
    zero, _ = rig.take_all()
    rig.core.acknowledge_message(zero)
    rig.pass_time(3000)
    assert [place(message) for message in rig.core.take_dead()] == [(0, 1)]
    assert rig.places() == []
    rig.core.close()
    rig.core.dead_failed(zero)
    rig.core.dead_published(zero)
