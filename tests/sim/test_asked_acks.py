"""For how long an ack was tried, as the checkers of the simulation count it."""

from magnetar.testing.checker.asked_acks import AskedAcks
from magnetar.testing.checker.history import Place

ONE = Place(1, 0, 0)
TWO = Place(1, 0, 1)


def test_an_ack_was_tried_since_it_was_asked_for() -> None:
    asks = AskedAcks(receipts=True)
    asks.asked(0, [ONE], 10.0)
    asks.failed(0)
    assert asks.given_up([ONE], 10.5) == 0.5


def test_an_ack_asked_for_before_the_program_hears_that_the_last_was_given_up_keeps_its_time() -> (
    None
):
    asks = AskedAcks(receipts=True)
    asks.asked(0, [ONE, TWO], 10.0)
    asks.failed(0)
    asks.asked(1, [ONE, TWO], 20.0)  # the program tries again, and only then
    assert asks.given_up([ONE, TWO], 20.0) == 10.0  # hears of the first
    asks.failed(1)
    asks.asked(2, [TWO], 20.25)
    assert asks.given_up([ONE, TWO], 20.25) == 0.25


def test_what_was_kept_does_not_count_for_a_later_ack() -> None:
    asks = AskedAcks(receipts=True)
    asks.asked(0, [ONE], 10.0)
    asks.kept(0, [ONE])
    asks.asked(1, [ONE], 20.0)
    assert asks.given_up([ONE], 20.5) == 0.5


def test_without_receipts_what_is_given_up_ends_all_that_was_asked_for() -> None:
    asks = AskedAcks(receipts=False)
    asks.asked(0, [ONE], 10.0)
    asks.asked(1, [ONE], 11.0)
    assert asks.given_up([ONE], 12.0) == 2.0
    assert asks.given_up([ONE], 12.0) is None
