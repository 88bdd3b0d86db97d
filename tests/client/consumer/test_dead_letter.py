"""Dead letters and retry letters: names, properties, and who dies."""

import pytest
from client.consumer_model import TOPIC

from magnetar.client.consumer.dead_letter import (
    DeadLetters,
    dead_letter_properties,
    dead_letter_topic,
    origin_text,
    reconsume_times,
    retry_letter_properties,
    retry_letter_topic,
)
from magnetar.client.consumer.message import Delivery, Message
from magnetar.client.option.options import ConsumerDeadLetterPolicy
from magnetar.protocol import MessageMetadata, SingleMessage, encode_batch


def message_of(
    properties: dict[str, str] | None = None, index: int = -1, redelivery_count: int = 0
) -> Message:
    metadata = MessageMetadata("maker", 0, 0)
    pairs = list((properties or {}).items())
    metadata.properties = pairs
    single = SingleMessage(b"x")
    single.properties = pairs
    payload = b"x" if index < 0 else encode_batch([single])
    size = 0 if index < 0 else 4
    delivery = Delivery(TOPIC, -1, 7, 5, metadata, payload, size, 15, redelivery_count, None)
    return Message(delivery, index, 0, len(payload) - 1, len(payload))


def test_names_are_pulsar_s_unless_the_policy_has_others() -> None:
    policy = ConsumerDeadLetterPolicy(3, "dead", retry_letter_topic="again")
    assert dead_letter_topic(TOPIC, "billing") == f"{TOPIC}-billing-DLQ"
    assert retry_letter_topic(TOPIC, "billing") == f"{TOPIC}-billing-RETRY"
    assert dead_letter_topic(TOPIC, "billing", policy) == "dead"
    assert retry_letter_topic(TOPIC, "billing", policy) == "again"
    assert dead_letter_topic("t", "s", ConsumerDeadLetterPolicy(3)) == "t-s-DLQ"


def test_a_dead_letter_says_where_it_came_from() -> None:
    assert dead_letter_properties(message_of({"a": "1"}, 2), "billing") == {
        "a": "1",
        "REAL_TOPIC": TOPIC,
        "REAL_SUBSCRIPTION": "billing",
        "ORIGIN_MESSAGE_ID": "7:5:-1:2",
    }


def test_a_letter_that_travels_on_keeps_its_origin() -> None:
    first = retry_letter_properties(message_of(), "billing", 5000, {"note": "later"})
    assert first == {
        "note": "later",
        "REAL_TOPIC": TOPIC,
        "REAL_SUBSCRIPTION": "billing",
        "ORIGIN_MESSAGE_ID": "7:5:-1",
        "ORIGIN_MESSAGE_IDY_TIME": "7:5:-1",
        "RECONSUMETIMES": "1",
        "DELAY_TIME": "5000",
    }
    letter = message_of({**first, "REAL_TOPIC": "t", "ORIGIN_MESSAGE_ID": "1:2:3"})
    second = retry_letter_properties(letter, "billing", 0)
    assert second["REAL_TOPIC"] == "t"
    assert second["ORIGIN_MESSAGE_ID"] == second["ORIGIN_MESSAGE_IDY_TIME"] == "1:2:3"
    assert second["RECONSUMETIMES"] == "2"
    assert origin_text(letter) == "7:5:-1"


@pytest.mark.parametrize(
    ("text", "times"), [("0", 0), ("12", 12), ("", 0), ("-1", 0), ("x", 0), ("\u0663", 0)]
)
def test_rounds_are_counted_where_they_are_numbers(text: str, times: int) -> None:
    assert reconsume_times(message_of({"RECONSUMETIMES": text})) == times


def test_without_a_policy_nothing_dies() -> None:
    letters = DeadLetters(None)
    assert not letters.enabled
    assert not letters.died(1000)


def test_candidates_die_one_by_one() -> None:
    letters = DeadLetters(ConsumerDeadLetterPolicy(2))
    assert not letters.died(2)
    assert letters.died(3)
    early = message_of(index=0, redelivery_count=1)
    letters.taken(early)
    key = early._delivery.key
    letters.refused(key, 0)
    assert not letters.is_candidate(key)
    messages = [message_of(index=index, redelivery_count=2) for index in range(4)]
    for message in messages:
        letters.taken(message)
    letters.refused(key, 3)
    letters.refused(key, 1)
    letters.acked(key, 3, False)
    assert letters.take_refused(key) == [messages[1]]
    assert letters.is_candidate(key)
    letters.refused(key, -1)
    assert letters.take_refused(key) == [messages[0], messages[2]]
    assert not letters.is_candidate(key)
    assert letters.take_refused(key) == []
    assert letters.take_all(key) == []


def test_an_entry_acked_in_full_is_no_candidate() -> None:
    letters = DeadLetters(ConsumerDeadLetterPolicy(1))
    for complete, index in ((True, 0), (False, -1)):
        messages = [message_of(index=index, redelivery_count=1) for index in range(2)]
        for message in messages:
            letters.taken(message)
        key = messages[0]._delivery.key
        letters.acked(key, index, complete)
        assert not letters.is_candidate(key)
        letters.acked(key, index, complete)


def test_the_dying_are_kept_back_until_they_are_published() -> None:
    letters = DeadLetters(ConsumerDeadLetterPolicy(1))
    one, two = message_of(index=1), message_of(index=2)
    alone = message_of()
    key = one._delivery.key
    letters.publishing(one)
    letters.publishing(two)
    letters.clear()
    assert letters.without_dying(key, 0b1111) == 0b1001
    letters.published(one)
    assert letters.without_dying(key, 0b1111) == 0b1011
    letters.published(two)
    letters.published(two)
    assert letters.without_dying(key, 0b1111) == 0b1111
    letters.publishing(alone)
    assert letters.without_dying(key, 1) == 0
