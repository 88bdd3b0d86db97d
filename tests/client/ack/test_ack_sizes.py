"""Acks of one entry by ids that tell different sizes of its batch, or none."""

import pytest
from client.ack_bench import Bench, RetryBench

from magnetar.errors import NotAllowedError
from magnetar.model import ServerError
from magnetar.model.position_key import wide_key
from magnetar.wire.ack_set import all_unacked

NOT_ALLOWED = int(ServerError.NotAllowedError)


def test_a_record_of_a_wrong_size_is_replaced_though_there_are_too_many() -> None:
    """It is idle, and was among those that are forgotten to make room."""
    bench = Bench(idle_max=1)
    bench.ack(0, 1, 4)
    bench.ack(1, 1, 4)
    bench.acks.flush()
    bench.ack(0, 2, 8)
    bench.sent()
    bench.acks.flush()
    assert bench.sent() == [(0, [(0, all_unacked(8) & ~0b100)])]


@pytest.mark.parametrize("how", ["refused", "refused with retries", "taken back"])
def test_after_an_ack_of_a_whole_batch_came_to_nothing_a_message_of_it_is_acked_alone(
    how: str,
) -> None:
    """The whole was named by an id without an index, which does not say how many there are."""
    bench = RetryBench() if "retries" in how else Bench(receipts=True)
    bench.ack(0)
    if how == "taken back":
        bench.acks.take_back(wide_key(7, 0), -1)
    else:
        bench.acks.flush()
        (request_id,) = bench.acks._outbox.flights._flights
        bench.answer(request_id, NOT_ALLOWED)
    bench.sent()
    bench.ack(0, 1, 4)
    bench.acks.flush()
    assert bench.sent() == [(0, [(0, 0b1101)])]


def test_an_ack_of_a_whole_batch_that_was_taken_back_on_its_way_hides_nothing() -> None:
    """What comes again is told by its indexes, which that ack did not know."""
    bench = RetryBench()
    bench.ack(0)
    bench.acks.flush()
    (first,) = bench.acks._outbox.flights._flights
    bench.acks.take_back(wide_key(7, 0), -1)
    assert bench.acks.unacked_of(7, 0, 4, 0b1110) == 0b1110
    bench.sent()
    bench.ack(0, 2, 4)
    bench.acks.flush()
    assert bench.sent() == [(0, [(0, 0b1011)])]
    bench.answer(first, NOT_ALLOWED)
    bench.answer_all()
    assert bench.at_rest()


# ---- Brokers that ack whole batches only -----------------------------------------------

WHOLE_ONLY = "acknowledgmentAtBatchIndexLevelEnabled is false here: acknowledge whole batches"


def refuses_indexes(bench: Bench) -> None:
    """The broker answers all that was sent, as one does that acks no single messages."""
    while bench.acks.in_flight:
        for request_id, flight in list(bench.acks._outbox.flights._flights.items()):
            if any(id.ack_set for id in flight.ids):
                bench.answer(request_id, NOT_ALLOWED, WHOLE_ONLY)
            else:
                bench.answer(request_id)


@pytest.fixture(params=[Bench, RetryBench], ids=["without retries", "with retries"])
def bench(request: pytest.FixtureRequest) -> Bench:
    made = request.param(receipts=True)
    assert isinstance(made, Bench)
    return made


def test_a_batch_that_is_acked_message_by_message_is_done_with_the_last(bench: Bench) -> None:
    for index in range(3):
        bench.ack(0, index, 3, waits=True)
        bench.acks.flush()
        refuses_indexes(bench)
        assert bench.results == [None] * (index + 1)
    assert bench.sent()[-1] == (0, [(0, None)])
    assert bench.acks.unconfirmed == 0
    assert bench.acks.take_given_up() == []


def test_whole_batches_beside_a_part_of_one_are_kept(bench: Bench) -> None:
    bench.ack(0, 1, 3, waits=True)
    bench.ack(1, waits=True)
    bench.ack(2, waits=True)
    bench.acks.flush()
    bench.sent()
    refuses_indexes(bench)
    assert bench.sent() == [(0, [(1, None), (2, None)])]
    assert bench.results == [None] * 3
    assert bench.acks.unconfirmed == 0


def test_what_was_left_out_of_a_batch_does_not_keep_the_rest_from_being_acked(
    bench: Bench,
) -> None:
    """The broker acked parts of batches once, and does so no more."""
    for index in (1, 2):
        record = bench.acks.records.find(7, 0, 3, 0b110, hidden=0b001)
        bench.acks.acknowledge(record, index)
    bench.acks.joined(bench.results.append)
    for _ in range(2):
        bench.acks.flush()
        refuses_indexes(bench)
    assert bench.sent() == [(0, [(0, 0b001)]), (0, [(0, None)])]
    assert bench.results == [None]
    assert bench.acks.unconfirmed == 0


def test_a_message_that_is_refused_is_not_acked_with_the_rest_of_its_batch(bench: Bench) -> None:
    for index in range(3):
        bench.ack(0, index, 3)
    bench.acks.take_back(wide_key(7, 0), 1)
    bench.acks.flush()
    refuses_indexes(bench)
    assert bench.sent() == [(0, [(0, 0b010)])]
    assert bench.acks.unacked_of(7, 0, 3, 0b111) == 0b111


def test_a_refusal_of_whole_batches_in_the_same_words_is_one(bench: Bench) -> None:
    bench.ack(1, waits=True)
    bench.acks.flush()
    (request_id,) = bench.acks._outbox.flights._flights
    bench.answer(request_id, NOT_ALLOWED, WHOLE_ONLY)
    assert bench.acks.in_flight == 0
    assert [type(result) for result in bench.results] == [NotAllowedError]
