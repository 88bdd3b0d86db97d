"""What a consumer gets again of what transactions have acked, and the broker then aborts.

`ModelBroker` hides what is acked in a transaction as what is acked; `give_back` is its abort.
"""

import pytest
from client.consumer_model import SHARED, SINGLE, Rig, connected
from client.transaction.transaction_model import Bench

from magnetar.client.consumer.message import Message
from magnetar.client.transaction.enlistment import ABORTED, ABORTING
from magnetar.client.transaction.transaction_state import COMMIT, LOST, QUIET
from magnetar.errors import InvalidTxnStatusError, TransactionTimeoutError
from magnetar.model import ConsumerType
from magnetar.wire.ack_set import all_unacked


def acked_in_transaction(rig: Rig, *messages: Message) -> Bench:
    """A transaction that has acked these, which the broker has recorded."""
    bench = Bench()
    enlistment = bench.enlist("t", "s")
    bench.answer()
    rig.core.transactions.acknowledge(enlistment, messages, None)
    rig.core.transactions.flush()
    rig.pump()
    return bench


def give_back(rig: Rig, entry_id: int) -> None:
    """The transaction aborts, and the broker brings all of an entry again."""
    broker = rig.broker
    broker.unacked[entry_id] = all_unacked(max(broker.sizes[entry_id], 1))
    broker.counts[entry_id] += 1
    broker.out.discard(entry_id)
    if broker.single:
        broker.read_next = entry_id
    else:
        broker.replay.add(entry_id)
    rig.pump()


def take(rig: Rig) -> Message:
    rig.pump()
    message = rig.core.take()
    assert message is not None
    return message


@pytest.mark.parametrize("consumer_type", SHARED)
def test_what_an_abort_gives_back_comes_though_the_rest_of_its_batch_waits_to_be_taken(
    consumer_type: ConsumerType,
) -> None:
    rig = connected(3, consumer_type=consumer_type)
    bench = acked_in_transaction(rig, take(rig))
    rig.reconnect()
    rig.pump()  # the rest of the batch comes
    rig.core.transactions.ended(bench.core, ABORTING, True)
    rig.pump()  # it was asked for once more, and that was done before the abort
    give_back(rig, 0)
    rig.core.transactions.ended(bench.core, ABORTED, True)
    assert rig.places() == [(0, 0), (0, 1), (0, 2)]
    rig.check_permits()


@pytest.mark.parametrize("consumer_type", SHARED)
def test_what_another_consumer_had_acked_comes_in_the_place_of_its_batch(
    consumer_type: ConsumerType,
) -> None:
    rig = connected(3, 0, consumer_type=consumer_type)
    rig.broker.unacked[0] = 0b110
    rig.pump()
    give_back(rig, 0)
    assert rig.places() == [(0, 0), (0, 1), (0, 2), (1, -1)]
    rig.check_permits()


def test_a_message_that_was_acked_does_not_come_though_an_abort_brought_a_copy_of_it() -> None:
    rig = connected(3, ack_receipt_enabled=True)
    rig.broker.unacked[0] = 0b110
    second = take(rig)
    give_back(rig, 0)
    rig.core.acknowledge_message(second, rig.done)
    rig.core.flush()
    rig.pump()
    assert rig.results == [None]
    assert rig.places() == [(0, 0), (0, 2)]
    rig.check_permits()


def test_an_ack_of_the_rest_of_a_batch_does_not_ack_what_the_broker_left_out() -> None:
    rig = connected(3)
    rig.broker.unacked[0] = 0b110
    second, third = rig.take_all()
    rig.broker.unacked[0] = 0b111  # the transaction that has the first of them is aborted
    rig.core.acknowledge_message(second)
    rig.core.acknowledge_message(third)
    rig.core.flush()
    rig.pump()
    assert rig.broker.left() == {(0, 0)}
    rig.reconnect()
    assert rig.places() == [(0, 0)]


def test_what_an_abort_gives_back_comes_though_an_ack_of_the_rest_is_on_its_way() -> None:
    rig = connected(3, ack_receipt_enabled=True)
    rig.broker.unacked[0] = 0b110
    rig.core.acknowledge_message(take(rig), rig.done)
    give_back(rig, 0)
    assert rig.places() == [(0, 0), (0, 2)]
    rig.core.flush()
    rig.pump()
    assert rig.results == [None]
    assert rig.broker.left() == {(0, 0), (0, 2)}


def test_what_was_left_out_of_a_batch_can_be_acked_by_itself() -> None:
    rig = connected(3)
    first = take(rig)
    rig.broker.unacked[0] = 0b110
    rig.reconnect()
    second, third = rig.take_all()
    rig.broker.unacked[0] = 0b111
    for message in (second, first, third):
        rig.core.acknowledge_message(message)
    rig.core.flush()
    rig.pump()
    assert rig.broker.left() == set()


# ---- Nobody says how it ended ---------------------------------------------------


@pytest.mark.parametrize("consumer_type", SHARED + SINGLE)
def test_what_a_commit_of_unknown_outcome_had_acked_comes_if_it_was_aborted(
    consumer_type: ConsumerType,
) -> None:
    rig = connected(0, 3, consumer_type=consumer_type)
    bench = acked_in_transaction(rig, take(rig), take(rig))
    for event in (COMMIT, QUIET, LOST):
        bench.core.move(event)
    rig.disconnect()
    rig.broker.unacked[:] = [1, 0b111]
    rig.broker.replay.update([0, 1])
    rig.connect()
    assert rig.places() == [(0, -1), (1, 0), (1, 1), (1, 2)]
    assert not rig.core.acks.transactions.parts
    rig.check_permits()


@pytest.mark.parametrize("consumer_type", SHARED + SINGLE)
def test_what_a_commit_of_unknown_outcome_had_acked_stays_away_if_it_was_done(
    consumer_type: ConsumerType,
) -> None:
    rig = connected(0, 3, consumer_type=consumer_type)
    bench = acked_in_transaction(rig, take(rig), take(rig))
    for event in (COMMIT, QUIET, LOST):
        bench.core.move(event)
    rig.reconnect()
    assert rig.places() == [(1, 1), (1, 2)]


@pytest.mark.parametrize("consumer_type", SHARED + SINGLE)
def test_what_a_program_that_hangs_had_acked_comes_when_the_time_of_its_transaction_is_over(
    consumer_type: ConsumerType,
) -> None:
    rig = connected(0, 0, consumer_type=consumer_type)
    bench = acked_in_transaction(rig, take(rig))
    bench.now += 1000
    give_back(rig, 0)
    # Where consumers share, what waits is not asked for again.
    assert rig.places() == ([(0, -1), (1, -1)] if rig.broker.single else [(1, -1), (0, -1)])
    assert isinstance(bench.core.failure, TransactionTimeoutError)
    rig.check_permits()


def test_a_transaction_that_an_operator_aborted_says_so_when_its_messages_come_again() -> None:
    rig = connected(0)
    bench = acked_in_transaction(rig, take(rig))
    give_back(rig, 0)
    assert rig.places() == [(0, -1)]
    with pytest.raises(InvalidTxnStatusError, match="by somebody's order or for its time"):
        bench.core.join()


@pytest.mark.parametrize("consumer_type", SHARED + SINGLE)
def test_a_copy_that_comes_before_the_broker_has_recorded_the_ack_aborts_nothing(
    consumer_type: ConsumerType,
) -> None:
    rig = connected(0, consumer_type=consumer_type)
    bench = Bench()
    enlistment = bench.enlist("t", "s")
    bench.answer()
    rig.core.transactions.acknowledge(enlistment, [take(rig)], None)
    rig.core.transactions.flush()
    rig.reconnect()
    rig.to_broker.reverse()  # the ack is sent once more, and was not there when the copy left
    assert rig.broker_handles()
    assert rig.broker_delivers()
    assert rig.places() == []
    assert bench.core.failure is None
    assert rig.core.acks.transactions.parts
