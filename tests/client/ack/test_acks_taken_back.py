"""An ack that is not confirmed can be taken back: by its failure, and by a negative ack.

What is acked later of the same batch must not ack it with it. The broker is that of the retry
machine, which refuses acks as it is told.
"""

import pytest
from client.ack.test_ack_retry_machine import BUSY, FORBID, MUTE, LossyBroker
from client.ack_bench import Bench, RetryBench
from client.chunk_model import chunk_entries, publish
from client.consumer_model import Rig

from magnetar.errors import (
    BrokerPersistenceError,
    ConnectError,
    Interrupted,
    NotAllowedError,
    Timeout,
)
from magnetar.model import ConsumerType, ServerError
from magnetar.model.position_key import wide_key

NOT_WRITTEN = int(ServerError.PersistenceError)
NOT_ALLOWED = int(ServerError.NotAllowedError)

# Everything that an application may set, as far as it hears of failures.
WAYS: list[dict[str, object]] = [
    {"ack_receipt_enabled": True},
    {"ack_receipt_enabled": True, "auto_retry_acknowledgement": True},
    {"auto_retry_acknowledgement": True},
]


def rig_of(
    *sizes: int,
    options: dict[str, object],
    consumer_type: ConsumerType = ConsumerType.Shared,
) -> tuple[Rig, LossyBroker]:
    rig = Rig(
        consumer_type,
        acknowledgement_group_time_ms=0,
        negative_ack_redelivery_delay_ms=1000,
        **{"max_acknowledgement_retries": 0, **options},
    )
    broker = LossyBroker(consumer_type)
    rig.broker = broker
    broker.publish(*sizes)
    rig.connect()
    return rig, broker


def failed(rig: Rig) -> bool:
    """Whether the application heard that acks failed, one way or the other. Once."""
    results, rig.results = rig.results, []
    return bool(rig.core.take_failures()) or any(result is not None for result in results)


# ---- What a user sees --------------------------------------------------------


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize("verdict", [FORBID, BUSY])
@pytest.mark.parametrize("refuses", [True, False])
def test_a_message_whose_ack_failed_is_not_acked_by_its_sibling(
    options: dict[str, object], verdict: str, refuses: bool
) -> None:
    rig, broker = rig_of(3, options=options)
    messages = rig.take_all()
    broker.verdicts.append(verdict)
    rig.core.acknowledge([messages[0]], rig.done)
    rig.pump()
    assert failed(rig)
    if refuses:
        rig.core.negative_acknowledge(messages[0])
    rig.core.acknowledge([messages[1]], rig.done)
    rig.core.acknowledge([messages[2]], rig.done)
    rig.pump()
    rig.pass_time(0)
    assert broker.left() == {(0, 0)}
    rig.pass_time(1000)
    if not refuses:
        rig.reconnect()
    assert rig.places() == [(0, 0)]


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize("consumer_type", [ConsumerType.Exclusive, ConsumerType.Failover])
def test_what_a_failed_cumulative_ack_covered_is_not_acked_by_its_sibling(
    options: dict[str, object], consumer_type: ConsumerType
) -> None:
    rig, broker = rig_of(3, consumer_type=consumer_type, options=options)
    messages = rig.take_all()
    broker.verdicts.append(FORBID)
    rig.core.acknowledge_cumulative(messages[1], rig.done)
    rig.pump()
    assert failed(rig)
    rig.core.negative_acknowledge(messages[0])
    rig.core.acknowledge([messages[2]], rig.done)
    rig.pump()
    assert broker.left() == {(0, 0), (0, 1)}
    rig.pass_time(1000)
    assert rig.places() == [(0, 0), (0, 1)]


@pytest.mark.parametrize("options", WAYS)
def test_a_message_in_chunks_whose_ack_failed_comes_again_when_it_is_refused(
    options: dict[str, object],
) -> None:
    rig, broker = rig_of(options=options)
    publish(rig, *chunk_entries(b"one message, in parts", 8))
    (message,) = rig.take_all()
    # A list that is refused for good is tried in halves where acks are retried.
    broker.verdicts.extend([FORBID] * 5)
    rig.core.acknowledge([message], rig.done)
    rig.pump()
    broker.verdicts.clear()
    assert failed(rig)
    rig.core.negative_acknowledge(message)
    rig.pass_time(1000)
    assert [again.data() for again in rig.take_all()] == [message.data()]


@pytest.mark.parametrize("options", [*WAYS, {}])
def test_a_negative_ack_takes_back_an_ack_that_was_not_sent_yet(
    options: dict[str, object],
) -> None:
    rig = Rig(
        ConsumerType.Shared,
        acknowledgement_group_time_ms=100,
        negative_ack_redelivery_delay_ms=1000,
        **options,
    )
    rig.broker.publish(3, 0)
    rig.connect()
    messages = rig.take_all()
    for message in messages:
        rig.core.acknowledge([message], rig.done)
    rig.core.negative_acknowledge(messages[0])
    rig.core.negative_acknowledge(messages[3].message_id())
    rig.pass_time(100)
    assert rig.broker.left() == {(0, 0), (1, -1)}
    rig.pass_time(1000)
    assert rig.places() == [(0, 0), (1, -1)]
    told = [type(result) for result in rig.results]
    if options.get("ack_receipt_enabled"):
        assert told == [Interrupted, Interrupted, type(None), type(None)]
    else:
        assert rig.results == [None] * 4


@pytest.mark.parametrize("options", WAYS)
def test_an_ack_that_is_under_way_wins_over_a_negative_one_if_the_broker_keeps_it(
    options: dict[str, object],
) -> None:
    rig, broker = rig_of(2, options=options)
    messages = rig.take_all()
    rig.core.acknowledge([messages[0]], rig.done)
    rig.core.negative_acknowledge(messages[0])
    rig.core.acknowledge([messages[1]], rig.done)
    rig.pump()
    rig.pass_time(0)
    assert broker.left() == set()
    assert rig.results == [None, None]
    rig.pass_time(1000)
    assert rig.places() == []


@pytest.mark.parametrize("options", WAYS)
def test_an_ack_that_is_under_way_is_not_sent_again_after_a_negative_one(
    options: dict[str, object],
) -> None:
    rig, broker = rig_of(2, options={**options, "max_acknowledgement_retries": 5})
    messages = rig.take_all()
    broker.verdicts.append(BUSY)
    rig.core.acknowledge([messages[0]], rig.done)
    rig.core.negative_acknowledge(messages[0])
    rig.core.acknowledge([messages[1]], rig.done)
    rig.pump()
    rig.pass_time(500)
    assert broker.left() == {(0, 0)}
    assert rig.core.acks.unconfirmed == 0
    assert not rig.core.take_failures(), "the application refused it, and need not be told"
    rig.pass_time(1000)
    assert rig.places() == [(0, 0)]


def test_a_negative_ack_ends_the_retry_of_its_ack() -> None:
    rig, broker = rig_of(0, 2, options={**WAYS[1], "max_acknowledgement_retries": 5})
    messages = rig.take_all()
    broker.verdicts.append(BUSY)
    rig.core.acknowledge(messages[:2], rig.done)
    rig.pump()
    assert rig.core.acks.waiting == 2
    rig.core.negative_acknowledge(messages[0])
    assert rig.core.acks.waiting == 1
    assert rig.results == []
    rig.core.negative_acknowledge(messages[1])
    assert (rig.core.acks.waiting, rig.core.acks.unconfirmed) == (0, 0)
    assert [type(result) for result in rig.results] == [Interrupted]
    rig.pass_time(10_000)
    assert broker.left() == broker.everything()
    assert rig.places() == [(0, -1), (1, 0), (1, 1)]


def test_an_ack_without_an_answer_is_taken_back_for_those_who_wait_only() -> None:
    rig, broker = rig_of(3, options=WAYS[0])
    messages = rig.take_all()
    rig.core.acknowledge([messages[0]], rig.done)
    rig.core.acknowledge([messages[1]])  # nobody waits for this one
    rig.disconnect()
    assert [type(result) for result in rig.results] == [ConnectError]
    rig.connect()
    rig.pump()
    assert broker.left() == {(0, 0), (0, 2)}


def test_an_ack_whose_answer_was_lost_is_known_when_the_message_does_not_come_again() -> None:
    rig, broker = rig_of(2, options=WAYS[0])
    messages = rig.take_all()
    broker.verdicts.append(MUTE)
    rig.core.acknowledge([messages[0]], rig.done)
    rig.pump()
    rig.pass_time(30_000)
    assert [type(result) for result in rig.results] == [Timeout]
    rig.core.negative_acknowledge(messages[0])
    rig.pass_time(1000)
    assert rig.places() == [(0, 1)], "the broker has the ack"
    rig.core.acknowledge([messages[1]], rig.done)
    rig.pump()
    assert broker.left() == set()


def test_an_answer_is_waited_for_as_long_as_the_client_was_told_to() -> None:
    rig, broker = rig_of(0, options={**WAYS[0], "receipt_timeout_ms": 7000})
    (message,) = rig.take_all()
    broker.verdicts.append(MUTE)
    rig.core.acknowledge([message], rig.done)
    rig.pump()
    rig.pass_time(6999)
    assert rig.results == []
    rig.pass_time(1)
    (error,) = rig.results
    assert isinstance(error, Timeout)
    assert "7000 ms" in str(error)


def test_an_ack_with_a_receipt_waits_for_a_connection_as_long_as_the_client_was_told_to() -> None:
    """And is none then: it is not sent when there is one, nor acked by its sibling."""
    rig, broker = rig_of(3, 0, options={**WAYS[0], "receipt_timeout_ms": 7000})
    messages = rig.take_all()
    rig.disconnect()
    rig.core.acknowledge([messages[0]], rig.done)
    rig.pass_time(4000)
    rig.core.acknowledge([messages[1]], rig.done)
    rig.pass_time(2999)
    assert rig.results == []
    rig.pass_time(1)
    (error,) = rig.results
    assert isinstance(error, Timeout)
    assert "7000 ms" in str(error)
    rig.connect()
    rig.pump()
    assert rig.results == [error, None]
    assert broker.left() == {(0, 0), (0, 2), (1, -1)}
    assert rig.places() == [(0, 0), (0, 2), (1, -1)]


def test_a_cumulative_ack_waits_for_a_connection_for_as_long() -> None:
    rig, broker = rig_of(
        0, 3, options={**WAYS[0], "receipt_timeout_ms": 7000}, consumer_type=ConsumerType.Exclusive
    )
    messages = rig.take_all()
    rig.disconnect()
    rig.core.acknowledge_cumulative(messages[0], rig.done)
    rig.pass_time(6000)
    rig.core.acknowledge_cumulative(messages[1], rig.done)
    rig.pass_time(1000)
    # The second covers the first, and is still meant.
    assert [type(result) for result in rig.results] == [Timeout]
    rig.pass_time(6000)
    assert [type(result) for result in rig.results] == [Timeout, Timeout]
    rig.core.acknowledge([messages[2]], rig.done)
    rig.connect()
    rig.pump()
    assert broker.left() == {(0, -1), (1, 0), (1, 2)}


@pytest.mark.parametrize("options", WAYS[1:])
def test_an_ack_that_is_tried_again_waits_for_a_connection_for_ever(
    options: dict[str, object],
) -> None:
    rig, broker = rig_of(0, options={**options, "receipt_timeout_ms": 7000})
    (message,) = rig.take_all()
    rig.disconnect()
    rig.core.acknowledge([message], rig.done)
    rig.pass_time(100_000)
    rig.connect()
    rig.pump()
    assert rig.results == [None]
    assert broker.left() == set()


# ---- The tracker -------------------------------------------------------------


def test_two_acks_of_a_batch_are_not_on_their_way_at_once() -> None:
    """Else the refusal of the first would leave open whether its message is acked."""
    bench = Bench(receipts=True, group_time_ms=0)
    bench.ack(1, 0, 3, waits=True)
    bench.ack(1, 1, 3, waits=True)
    assert bench.sent() == [(0, [(1, 0b110)])]
    bench.answer(1, NOT_ALLOWED)
    assert [type(result) for result in bench.results] == [NotAllowedError]
    bench.acks.tick(bench.now)
    assert bench.sent() == [(0, [(1, 0b101)])]
    bench.answer(2)
    assert bench.results[1:] == [None]


def test_what_was_acked_of_a_batch_on_its_way_is_sent_before_the_consumer_is_closed() -> None:
    for bench in (Bench(receipts=True), RetryBench()):
        bench.ack(1, 0, 3)
        bench.acks.flush()
        bench.ack(1, 1, 3)
        bench.acks.flush_all()
        assert bench.sent() == [(0, [(1, 0b110)]), (0, [(1, 0b100)])]


def test_who_waits_is_told_of_his_own_index() -> None:
    bench = RetryBench(max_retries=1)
    for index in range(3):
        bench.ack(1, index, 4, waits=True)
    bench.acks.flush()
    bench.answer_all(NOT_WRITTEN)
    bench.acks.take_back(wide_key(7, 1), 1)
    assert [type(result) for result in bench.results] == [Interrupted]
    bench.pass_time(100)
    assert bench.sent()[-1] == (0, [(1, 0b1010)])
    bench.answer_all()
    assert bench.results[1:] == [None, None]
    assert bench.at_rest()


def test_an_ack_that_was_not_sent_before_it_was_taken_back_is_not_told_as_kept() -> None:
    for bench in (Bench(receipts=True), RetryBench()):
        bench.ack(1, 0, 3, waits=True)
        bench.acks.flush()
        bench.ack(1, 1, 3, waits=True)
        bench.acks.take_back(wide_key(7, 1), 1)
        bench.answer(1)
        assert [type(result) for result in bench.results] == [type(None), Interrupted]
        assert bench.acks.unconfirmed == 0


def test_what_was_taken_back_is_not_reported_as_given_up() -> None:
    bench = RetryBench(max_retries=0, receipts=False)
    bench.ack(1, 0, 3)
    bench.ack(1, 1, 3)
    bench.ack(2)
    bench.acks.flush()
    bench.acks.take_back(wide_key(7, 1), 0)
    bench.acks.take_back(wide_key(7, 2), -1)
    bench.answer_all(NOT_WRITTEN)
    (given_up,) = bench.given_up()
    assert given_up.entries == [(wide_key(7, 1), 3, 0b010)]
    assert bench.at_rest()


def test_a_negative_ack_of_an_entry_takes_back_all_of_it() -> None:
    bench = RetryBench()
    bench.ack(1, 0, 3, waits=True)
    bench.acks.flush()
    bench.answer_all()
    bench.ack(1, 1, 3, waits=True)
    bench.ack(1, 2, 3, waits=True)
    bench.acks.take_back(wide_key(7, 1), -1)
    assert [type(result) for result in bench.results] == [type(None), Interrupted, Interrupted]
    assert bench.at_rest()
    bench.sent()
    bench.ack(1, 2, 3)
    bench.acks.flush()
    assert bench.sent() == [(0, [(1, 0b010)])], "the first is confirmed, and stays acked"


def test_a_confirmed_ack_is_not_taken_back() -> None:
    for bench in (Bench(receipts=True), Bench(), RetryBench()):
        bench.ack(1, 0, 2)
        bench.acks.flush()
        bench.answer(1)
        bench.acks.take_back(wide_key(7, 1), 0)
        bench.sent()
        bench.ack(1, 1, 2)
        bench.acks.flush()
        assert bench.sent() == [(0, [(1, None)])]


def test_a_cumulative_ack_is_not_taken_back_by_a_negative_one() -> None:
    bench = RetryBench()
    bench.ack_through(1, 1, 3, waits=True)
    bench.acks.take_back(wide_key(7, 1), 0)
    bench.acks.flush()
    assert bench.sent() == [(1, [(1, 0b100)])]
    bench.answer_all()
    assert bench.results == [None]


def test_an_ack_and_a_cumulative_one_of_the_same_batch_end_plainly_together() -> None:
    """Brokers without batch index acks know an entry by its plain ack alone."""
    for cumulative_first in (True, False):
        bench = RetryBench()
        bench.ack_through(1, 1, 3, waits=True)
        bench.acks.flush()
        bench.ack(1, 2, 3, waits=True)
        bench.acks.flush()
        assert bench.sent() == [(1, [(1, 0b100)]), (0, [(1, 0b011)])]
        for request_id in (1, 2) if cumulative_first else (2, 1):
            bench.answer(request_id)
        assert bench.results == [None, None]
        bench.pass_time(100)
        assert bench.sent() == [(0, [(1, None)])]
        bench.answer_all()
        assert bench.at_rest()


def test_an_ack_that_a_cumulative_one_names_too_fails_with_the_last_of_them() -> None:
    bench = Bench(receipts=True)
    bench.ack(1, 2, 4, waits=True)
    bench.acks.flush()
    bench.ack_through(1, 0, 4, waits=True)
    bench.acks.flush()
    assert bench.sent() == [(0, [(1, 0b1011)]), (1, [(1, 0b1010)])]
    bench.answer(1, NOT_ALLOWED)
    assert bench.results == [], "the cumulative ack may still ack it"
    bench.answer(2)
    bench.acks.flush()
    bench.answer(3, NOT_ALLOWED)
    assert bench.results == [None, None]


def test_the_error_of_the_last_try_is_told() -> None:
    bench = RetryBench(max_retries=1)
    bench.ack(1, 0, 2, waits=True)
    bench.acks.flush()
    bench.answer_all(NOT_WRITTEN)
    bench.pass_time(100)
    bench.ack(1, 1, 2, waits=True)
    bench.answer_all(NOT_WRITTEN)
    assert [type(result) for result in bench.results] == [BrokerPersistenceError]
    bench.pass_time(100)
    assert bench.sent()[-1] == (0, [(1, 0b01)]), "the newer one has tries of its own"
