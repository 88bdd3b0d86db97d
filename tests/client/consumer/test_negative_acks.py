"""What refusing a message makes of its due time."""

from magnetar.client.consumer.negative_acks import NegativeAcks
from magnetar.client.option.backoff import MultiplierRedeliveryBackoff


# SEMANTICS 3.3, the ninth found by reading.
def test_an_earlier_due_time_never_waits_for_a_later_one() -> None:
    negative = NegativeAcks(0, MultiplierRedeliveryBackoff(100, 10_000))
    negative.add(1, 5, now_ms=0)
    negative.add(2, 0, now_ms=0)
    assert negative.deadlines.next_ms() == 100
    assert negative.deadlines.take_due(100) == [2]
    assert negative.deadlines.next_ms() == 3200


def test_refusing_once_more_keeps_the_first_due_time_or_moves_it_forward() -> None:
    negative = NegativeAcks(60_000)
    negative.add(1, 0, now_ms=0)
    negative.add(1, 0, now_ms=500)
    assert negative.deadlines.next_ms() == 60_000
    negative.deadlines.add(1, 10)
    assert negative.deadlines.next_ms() == 10
