"""The ack timeout."""

from magnetar.client.consumer.unacked import Unacked
from magnetar.client.option.backoff import MultiplierRedeliveryBackoff


def test_time_begins_with_the_first_message_of_an_entry() -> None:
    unacked = Unacked(5000)
    unacked.taken(1, 0, 10_000)
    unacked.taken(1, 0, 12_000)
    assert unacked.deadlines.next_ms() == 15_000
    assert unacked.deadlines.take_due(14_999) == []
    assert unacked.deadlines.take_due(15_000) == [1]
    unacked.taken(1, 1, 16_000)
    assert unacked.deadlines.next_ms() == 21_000


def test_times_are_rounded_up_to_the_tick() -> None:
    unacked = Unacked(5000, tick_ms=100)
    unacked.taken(1, 0, 1)
    unacked.taken(2, 0, 99)
    assert unacked.deadlines.take_due(5099) == []
    assert unacked.deadlines.take_due(5100) == [1, 2]


def test_a_backoff_comes_on_top() -> None:
    unacked = Unacked(1000, MultiplierRedeliveryBackoff(1000, 8000))
    unacked.taken(1, 0, 0)
    unacked.taken(2, 3, 0)
    assert unacked.deadlines.take_due(2000) == [1]
    assert unacked.deadlines.take_due(9000) == [2]


def test_no_timeout_is_none() -> None:
    assert not Unacked(0).enabled
    assert Unacked(1000).enabled
