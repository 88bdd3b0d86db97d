"""The consumer's core against a broker that is a few lists."""

from collections.abc import Callable
from random import Random

import pytest
from client.consumer_model import LEDGER, TOPIC, Rig, batch_entry, place, plain_entry
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from magnetar.client.ack_tracker import entry_key
from magnetar.client.message import Message
from magnetar.client.options import ConsumerDeadLetterPolicy
from magnetar.errors import (
    AlreadyClosed,
    BatchIndexError,
    ConnectError,
    CumulativeAcknowledgementNotAllowedError,
    Interrupted,
    InvalidMessageIdError,
)
from magnetar.model import ChunkMessageId, ConsumerType, MessageId
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    BatchWriter,
    CommandAck,
    CommandAckResponse,
    CommandFlow,
    CommandMessage,
    MessageMetadata,
    encode_entry,
)
from magnetar.protocol import pulsar_pb2 as pb

SINGLE = [ConsumerType.Exclusive, ConsumerType.Failover]
SHARED = [ConsumerType.Shared, ConsumerType.KeyShared]


def connected(
    *sizes: int, consumer_type: ConsumerType = ConsumerType.Shared, **options: object
) -> Rig:
    rig = Rig(consumer_type, **options)
    rig.broker.publish(*sizes)
    rig.connect()
    return rig


def flows(rig: Rig) -> list[int]:
    return [c.message_permits for c in rig.broker.log if isinstance(c, CommandFlow)]


def redeliveries(rig: Rig) -> list[pb.CommandRedeliverUnacknowledgedMessages]:
    kind = pb.CommandRedeliverUnacknowledgedMessages
    return [c for c in rig.broker.log if isinstance(c, kind)]


# ---- Receiving and permits -----------------------------------------------------


def test_messages_come_in_order_and_wake_the_caller() -> None:
    rig = connected(3, 0, 2)
    assert rig.places() == [(0, 0), (0, 1), (0, 2), (1, -1), (2, 0), (2, 1)]
    assert rig.wakes == 3
    assert rig.core.take() is None
    assert rig.core.stats.messages_taken == 6


def test_permits_go_back_half_a_queue_at_a_time() -> None:
    rig = connected(*[0] * 30, receiver_queue_size=10)
    rig.pump()
    assert rig.core.queue_length() == 10
    assert rig.core.available_permits == 0
    for _ in range(4):
        rig.core.take()
    rig.pump()
    assert flows(rig) == [10]
    rig.core.take()
    rig.pump()
    assert flows(rig) == [10, 5]


def test_permits_of_held_messages_go_back_when_they_are_done_with() -> None:
    rig = connected(*[0] * 30, receiver_queue_size=2)
    rig.pump()
    assert rig.core.take(held=True) is not None
    assert rig.core.take(held=True) is not None
    rig.pump()
    assert flows(rig) == [2]
    assert rig.core.unreturned_permits == 2
    rig.core.give_back()
    rig.pump()
    assert flows(rig) == [2, 1]
    # What was held when the connection ended has its permit from the next one.
    rig.reconnect()
    rig.core.give_back()
    rig.pump()
    assert flows(rig)[2:] == [2]
    assert rig.core.available_permits + rig.core.queue_length() == 2


def test_a_queue_of_one_gives_back_each_permit() -> None:
    rig = connected(*[0] * 4, receiver_queue_size=1)
    assert len(rig.places()) == 4
    assert flows(rig) == [1] * 5


def test_a_batch_larger_than_the_queue_leaves_the_broker_in_debt() -> None:
    rig = connected(100, 3, receiver_queue_size=10)
    rig.pump()
    assert rig.core.available_permits == -90
    assert len(rig.places()) == 103


def test_acked_indexes_cost_no_permit() -> None:
    rig = connected(100, receiver_queue_size=200)
    for message in rig.take_all()[:2]:
        rig.core.acknowledge_message(message)
    rig.core.flush()
    rig.pump()
    rig.reconnect()
    rig.pump()
    assert rig.core.queue_length() == 98
    assert rig.core.available_permits == 102


def test_without_a_queue_each_waiting_call_has_a_permit() -> None:
    rig = connected(0, 0, 0, receiver_queue_size=0)
    rig.pump()
    assert flows(rig) == []
    rig.core.request(1)
    rig.pump()
    assert rig.core.queue_length() == 1
    message = rig.core.take()
    assert message is not None
    assert place(message) == (0, -1)
    rig.pump()
    assert rig.core.queue_length() == 0
    assert rig.broker.permits == 0


def test_without_a_queue_a_batch_is_served_message_by_message() -> None:
    rig = connected(3, 0, receiver_queue_size=0)
    places = []
    for _ in range(4):
        if rig.core.queue_length() == 0:
            rig.core.request(1)
            rig.pump()
        message = rig.core.take()
        assert message is not None
        places.append(place(message))
    assert places == [(0, 0), (0, 1), (0, 2), (1, -1)]
    # The debt of the batch was made up for.
    assert flows(rig) == [1, 3]


def test_without_a_queue_a_dropped_duplicate_is_asked_for_again() -> None:
    rig = connected(0, 0, receiver_queue_size=0, ack_receipt_enabled=True)
    rig.core.request(1)
    rig.pump()
    message = rig.core.take()
    assert message is not None
    rig.disconnect()
    rig.core.acknowledge_message(message)
    rig.core.request(1)
    rig.connect()
    # The broker has not seen the ack when it delivers.
    assert isinstance(rig.to_broker.popleft(), CommandAck)
    rig.pump()
    second = rig.core.take()
    assert second is not None
    assert place(second) == (1, -1)


def test_a_paused_consumer_asks_for_nothing() -> None:
    rig = connected(*[0] * 20, receiver_queue_size=4)
    rig.core.pause()
    assert len(rig.places()) == 4
    rig.reconnect()
    assert rig.places() == []
    rig.core.resume()
    assert len(rig.places()) == 20


def test_messages_without_a_connection_are_thrown_away() -> None:
    rig = Rig()
    rig.core.receive(CommandMessage(3, MessageIdData(LEDGER, 0), plain_entry(b"x")))
    assert rig.core.take() is None
    rig.connect()
    rig.core.close()
    rig.core.receive(CommandMessage(3, MessageIdData(LEDGER, 0), plain_entry(b"x")))
    assert rig.core.take() is None


def test_what_cannot_be_read_is_refused_and_its_permits_go_back() -> None:
    rig = connected(receiver_queue_size=4)
    rig.pump()
    damaged = bytearray(batch_entry([b"a", b"b", b"c"]))
    damaged[-1] ^= 1
    rig.core.receive(CommandMessage(3, MessageIdData(LEDGER, 5), bytes(damaged)))
    refusal, flow = rig.to_broker
    assert isinstance(refusal, CommandAck)
    assert refusal.validation_error == 2
    assert refusal.message_ids == [MessageIdData(LEDGER, 5)]
    assert isinstance(flow, CommandFlow)
    assert flow.message_permits == 3
    assert rig.core.take() is None
    assert rig.core.stats.entries_refused == 1


def test_a_batch_that_compaction_emptied_is_acked() -> None:
    writer = BatchWriter()
    writer.add(b"", 0, compacted_out=True)
    writer.add(b"", 1, compacted_out=True)
    metadata = MessageMetadata("maker", 0, 1)
    metadata.num_messages_in_batch = 2
    rig = connected(2, acknowledgement_group_time_ms=0)
    entry = encode_entry(metadata.encode(), writer.getvalue())
    rig.core.receive(CommandMessage(3, MessageIdData(LEDGER, 0), entry))
    acks = [c for c in rig.to_broker if isinstance(c, CommandAck)]
    assert acks[0].message_ids == [MessageIdData(LEDGER, 0)]


# ---- Acks ----------------------------------------------------------------------


def test_pip_391_case_1_ids_through_bytes_are_acked_one_by_one() -> None:
    rig = connected(3)
    stored = [message.message_id().serialize() for message in rig.take_all()]
    for data in stored[:2]:
        rig.core.acknowledge([MessageId.deserialize(data)])
        rig.core.flush()
    rig.pump()
    rig.reconnect()
    assert rig.places() == [(0, 2)]
    # From another place, where nothing is known of the batch.
    other = Rig()
    other.broker = rig.broker
    other.connect()
    other.core.acknowledge([MessageId.deserialize(stored[2])])
    other.core.flush()
    other.pump()
    assert rig.broker.left() == set()


def test_pip_391_case_2_ack_ack_nack_returns_exactly_the_nacked_one() -> None:
    rig = connected(3, negative_ack_redelivery_delay_ms=100)
    first, second, third = rig.take_all()
    rig.core.acknowledge_message(first)
    rig.core.acknowledge_message(second)
    rig.core.negative_acknowledge(third)
    rig.pass_time(200)
    assert rig.places() == [(0, 2)]


def test_restart_after_the_first_of_three_returns_the_other_two() -> None:
    rig = connected(3)
    rig.core.acknowledge_message(rig.take_all()[0])
    rig.pass_time(100)
    rig.reconnect()
    assert rig.places() == [(0, 1), (0, 2)]


def test_issue_23436_ack_0_and_2_nack_1_returns_exactly_1() -> None:
    rig = connected(3, negative_ack_redelivery_delay_ms=50)
    zero, one, two = rig.take_all()
    rig.core.acknowledge([zero.message_id(), two.message_id()])
    rig.core.negative_acknowledge(one.message_id())
    # The acks are not due yet when the redelivery is, and go first all the same.
    rig.pass_time(50)
    kinds = [type(command) for command in rig.broker.log]
    assert kinds.index(CommandAck) < kinds.index(pb.CommandRedeliverUnacknowledgedMessages)
    assert rig.places() == [(0, 1)]


def test_a_batch_acked_in_full_is_acked_plainly() -> None:
    rig = connected(3)
    for message in rig.take_all():
        rig.core.acknowledge_message(message)
        rig.core.flush()
    rig.pump()
    sets = [ack.message_ids[0].ack_set for ack in rig.sent()]
    assert sets == [0b110, 0b100, None]


def test_a_list_is_one_request_and_all_or_nothing() -> None:
    rig = connected(2, 0, ack_receipt_enabled=True)
    messages = rig.take_all()
    bad = MessageId(ledger_id=LEDGER, entry_id=0, batch_index=2, batch_size=2)
    with pytest.raises(BatchIndexError, match="no index 2 in a batch of 2"):
        rig.core.acknowledge([messages[0], bad], rig.done)
    rig.core.acknowledge([*messages[:2], messages[2].message_id()], rig.done)
    rig.core.flush()
    rig.pump()
    assert rig.results == [None]
    assert len(rig.sent()) == 1
    assert rig.broker.left() == set()


def test_ids_that_name_no_message_here_are_refused() -> None:
    rig = connected(0)
    for id in (MessageId.earliest, MessageId.latest):
        with pytest.raises(InvalidMessageIdError, match="names a place"):
            rig.core.acknowledge([id])
        with pytest.raises(InvalidMessageIdError, match="names a place"):
            rig.core.negative_acknowledge(id)
    with pytest.raises(InvalidMessageIdError, match="of partition 4"):
        rig.core.acknowledge([MessageId(4, LEDGER, 0)])
    with pytest.raises(BatchIndexError, match="not the size of its batch"):
        rig.core.acknowledge([MessageId(-1, LEDGER, 0, 3)])


def test_a_shared_subscription_has_no_cumulative_acks() -> None:
    rig = connected(0)
    (message,) = rig.take_all()
    with pytest.raises(CumulativeAcknowledgementNotAllowedError):
        rig.core.acknowledge_cumulative(message)


def test_a_cumulative_ack_inside_a_batch_resumes_behind_it() -> None:
    rig = connected(0, 5, consumer_type=ConsumerType.Exclusive)
    messages = rig.take_all()
    rig.core.acknowledge_cumulative(messages[3], rig.done)
    rig.pass_time(100)
    assert rig.results == [None]
    assert rig.sent()[0].message_ids[0].ack_set == 0b11000
    rig.reconnect()
    assert rig.places() == [(1, 3), (1, 4)]


def test_chunk_ids_ack_and_redeliver_every_chunk() -> None:
    rig = connected(0, 0, 0, negative_ack_redelivery_delay_ms=0)
    messages = rig.take_all()
    last = messages[2].message_id()
    chunked = ChunkMessageId(messages[0].message_id(), last)
    keys = [message.delivery.key for message in messages]
    rig.core.acks.chunks[keys[2]] = keys
    rig.core.negative_acknowledge(chunked)
    rig.pass_time(0)
    assert [id.entryId for id in redeliveries(rig)[0].message_ids] == [0, 1, 2]
    assert len(rig.take_all()) == 3
    rig.core.acknowledge([chunked])
    rig.core.flush()
    rig.pump()
    assert rig.broker.left() == set()
    # Of an id from elsewhere the ends are known.
    rig.broker.publish(0, 0, 0)
    ends = rig.take_all()
    rig.core.acknowledge([ChunkMessageId(ends[0].message_id(), ends[2].message_id())])
    rig.core.flush()
    rig.pump()
    assert rig.broker.left() == {(4, -1)}
    rig.core.negative_acknowledge(ChunkMessageId(ends[1].message_id(), ends[1].message_id()))
    rig.pass_time(0)
    assert {id.entryId for id in redeliveries(rig)[1].message_ids} == {4}


# ---- Reconnecting --------------------------------------------------------------


def test_the_queue_is_dropped_with_its_connection_and_comes_again() -> None:
    rig = connected(3, 0)
    rig.pump()
    rig.core.take()
    rig.reconnect()
    assert rig.core.queue_length() == 0
    assert rig.places() == [(0, 0), (0, 1), (0, 2), (1, -1)]


def test_acks_made_without_a_connection_are_sent_before_the_first_permit() -> None:
    rig = connected(2, 0)
    messages = rig.take_all()
    rig.disconnect()
    for message in messages:
        rig.core.acknowledge_message(message, rig.done)
    assert rig.core.next_ms() is None
    rig.connect()
    kinds = [type(command) for command in rig.to_broker]
    assert kinds == [CommandAck, CommandFlow]
    assert rig.places() == []
    assert rig.results == [None] * 3


@pytest.mark.parametrize("consumer_type", SINGLE)
def test_issue_13945_an_unflushed_cumulative_ack_loses_nothing(consumer_type: ConsumerType) -> None:
    rig = connected(*[0] * 20, consumer_type=consumer_type)
    rig.pump()
    tenth = [rig.core.take() for _ in range(10)][-1]
    assert tenth is not None
    rig.core.acknowledge_cumulative(tenth)
    rig.reconnect()
    assert rig.places() == [(entry_id, -1) for entry_id in range(10, 20)]


def test_issue_7683_a_cumulative_ack_lost_on_its_way_is_redelivered() -> None:
    rig = connected(*[0] * 12, consumer_type=ConsumerType.Exclusive)
    messages = rig.take_all()
    rig.core.acknowledge_cumulative(messages[9])
    rig.core.flush()
    rig.disconnect(arrives=0)
    rig.connect()
    # Nobody confirmed it, so what it acked comes again, and nothing is stuck.
    again = rig.take_all()
    assert len(again) == 12
    rig.core.acknowledge_cumulative(again[-1])
    rig.core.flush()
    rig.pump()
    assert rig.broker.left() == set()


def test_issue_7683_with_receipts_it_is_sent_again() -> None:
    rig = connected(*[0] * 12, consumer_type=ConsumerType.Exclusive, ack_receipt_enabled=True)
    rig.core.acknowledge_cumulative(rig.take_all()[9])
    rig.core.flush()
    rig.reconnect()
    assert rig.places() == [(10, -1), (11, -1)]
    assert rig.core.acks.in_flight == 0


@pytest.mark.parametrize("how", ["single", "list", "cumulative"])
def test_who_is_active_again_is_not_handed_what_it_acked(how: str) -> None:
    """On Failover everything comes again to who has some of it, on the same connection."""
    rig = connected(2, 0, 0, 0, consumer_type=ConsumerType.Failover)
    rig.pump()
    taken = [message for _ in range(4) if (message := rig.core.take()) is not None]
    rig.broker.rewind()  # it was another's turn, and is its own again
    rig.pump()
    assert rig.core.queue_length() == 5
    if how == "cumulative":
        rig.core.acknowledge_cumulative(taken[-1], rig.done)
    elif how == "list":
        rig.core.acknowledge([message.message_id() for message in taken], rig.done)
    else:
        for message in taken:
            rig.core.acknowledge_message(message, rig.done)
    rig.core.flush()
    assert rig.places() == [(3, -1)]
    assert rig.broker.left() == {(3, -1)}


@pytest.mark.parametrize("consumer_type", SINGLE)
def test_a_cumulative_ack_drops_what_it_covers_of_the_queue(consumer_type: ConsumerType) -> None:
    """Also what nobody was handed: it is acked."""
    rig = connected(2, 3, 0, consumer_type=consumer_type)
    rig.pump()
    assert rig.core.take() is not None
    rig.core.acknowledge_cumulative(MessageId(-1, LEDGER, 1, 1, batch_size=3))
    rig.core.flush()
    assert rig.places() == [(1, 2), (2, -1)]
    assert rig.broker.left() == {(1, 2), (2, -1)}


def test_issue_18454_a_redelivered_batch_against_an_unflushed_ack() -> None:
    rig = connected(4)
    messages = rig.take_all()
    rig.core.acknowledge_message(messages[1])
    rig.disconnect()
    rig.connect()
    flush = rig.to_broker.popleft()
    rig.to_broker.append(flush)
    # The broker delivers the batch in full before it sees the ack.
    assert rig.places() == [(0, 0), (0, 2), (0, 3)]
    assert rig.broker.left() == {(0, 0), (0, 2), (0, 3)}


def test_issue_23943_redelivering_one_message_leaves_its_neighbours_alone() -> None:
    rig = connected(0, 0, 0, 2, negative_ack_redelivery_delay_ms=0)
    rig.pump()
    first = rig.core.take()
    assert first is not None
    rig.core.negative_acknowledge(first)
    rig.core.tick(rig.now)
    assert rig.core.queue_length() == 4
    assert rig.places() == [(1, -1), (2, -1), (3, 0), (3, 1), (0, -1)]


def test_what_the_queue_has_of_a_redelivered_entry_comes_once() -> None:
    rig = connected(4, 2, negative_ack_redelivery_delay_ms=0, receiver_queue_size=10)
    rig.pump()
    first = rig.core.take()
    assert first is not None
    rig.core.negative_acknowledge(first)
    rig.core.tick(rig.now)
    assert rig.core.queue_length() == 2
    assert rig.places() == [(1, 0), (1, 1), (0, 0), (0, 1), (0, 2), (0, 3)]
    rig.broker.publish(2)
    rig.pump()
    rig.core.negative_acknowledge(MessageId(-1, LEDGER, 2, 0, batch_size=2))
    rig.core.tick(rig.now)
    assert rig.core.queue_length() == 0
    assert rig.places() == [(2, 0), (2, 1)]


def test_receipts_end_with_the_broker_s_word() -> None:
    rig = connected(0, 0, ack_receipt_enabled=True)
    first, second = rig.take_all()
    rig.core.acknowledge_message(first, rig.done)
    assert rig.results == []
    rig.pass_time(100)
    assert rig.results == [None]
    rig.core.acknowledge_message(second, rig.done)
    rig.core.flush()
    (ack,) = rig.to_broker
    assert isinstance(ack, CommandAck)
    rig.core.ack_response(CommandAckResponse(3, ack.request_id, 22, "no"))
    assert str(rig.results[1]) == "no"
    assert rig.core.acks.counts.failed == 1


def test_who_waits_is_told_of_a_lost_connection_and_others_are_sent_again() -> None:
    rig = connected(0, 0, ack_receipt_enabled=True)
    first, second = rig.take_all()
    rig.core.acknowledge_message(first, rig.done)
    rig.core.flush()
    rig.disconnect()
    assert isinstance(rig.results[0], ConnectError)
    rig.core.acknowledge_message(second)
    rig.connect()
    rig.core.flush()
    rig.disconnect()
    rig.connect()
    assert rig.places() == [(0, -1)]


def test_a_message_held_back_for_an_ack_that_failed_comes_once_more() -> None:
    for consumer_type in (ConsumerType.Shared, ConsumerType.Exclusive):
        rig = connected(2, consumer_type=consumer_type, ack_receipt_enabled=True)
        first, _ = rig.take_all()
        if consumer_type == ConsumerType.Shared:
            rig.core.acknowledge_message(first, rig.done)
        else:
            rig.core.acknowledge_cumulative(first, rig.done)
        rig.core.flush()
        ack = rig.to_broker.popleft()
        assert isinstance(ack, CommandAck)
        rig.core.redeliver_all()
        assert rig.places() == [(0, 1)]
        rig.core.ack_response(CommandAckResponse(3, ack.request_id, 2, "the disk is full"))
        assert rig.places() == [(0, 0), (0, 1)]


def test_an_answer_that_does_not_come_is_an_error() -> None:
    rig = connected(0, ack_receipt_enabled=True)
    (message,) = rig.take_all()
    rig.core.acknowledge_message(message, rig.done)
    rig.core.flush()
    rig.to_broker.clear()
    rig.pass_time(29_999)
    assert rig.results == []
    rig.pass_time(1)
    assert "did not confirm the ack within 30000 ms" in str(rig.results[0])


def test_closing_tells_whoever_waits() -> None:
    rig = connected(0, 0, ack_receipt_enabled=True)
    first, second = rig.take_all()
    rig.core.acknowledge_message(first, rig.done)
    rig.core.flush()
    rig.core.acknowledge_message(second, rig.done)
    rig.core.close()
    rig.core.close()
    assert [type(result) for result in rig.results] == [AlreadyClosed, AlreadyClosed]
    # They were sent all the same.
    assert len([c for c in rig.to_broker if isinstance(c, CommandAck)]) == 2


def test_closing_without_a_connection_tells_whoever_waits() -> None:
    rig = connected(0, ack_receipt_enabled=True)
    (message,) = rig.take_all()
    rig.disconnect()
    rig.core.acknowledge_message(message, rig.done)
    rig.core.close()
    assert [type(result) for result in rig.results] == [AlreadyClosed]


def test_a_closed_consumer_says_so() -> None:
    rig = connected(0)
    (message,) = rig.take_all()
    rig.core.close()
    rig.core.connected()
    rig.core.disconnected()
    assert not rig.core.ready
    calls: list[Callable[[], object]] = [
        lambda: rig.core.acknowledge_message(message),
        lambda: rig.core.acknowledge([message]),
        lambda: rig.core.acknowledge_cumulative(message),
        lambda: rig.core.negative_acknowledge(message),
        rig.core.redeliver_all,
    ]
    for call in calls:
        with pytest.raises(AlreadyClosed):
            call()
    rig.core.tick(rig.now)
    assert rig.core.next_ms() is None


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
    assert rig.core.epoch == 2
    rig.connect()
    assert len(rig.places()) == 5


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
    assert redeliveries(rig) == []
    rig = connected(0)
    (alone,) = rig.take_all()
    rig.core.negative_acknowledge(alone)
    rig.core.acknowledge([alone.message_id()])
    rig.pass_time(60_000)
    assert redeliveries(rig) == []
    rig = connected(2, consumer_type=ConsumerType.Exclusive, unacked_messages_timeout_ms=1000)
    first, second = rig.take_all()
    rig.core.negative_acknowledge(first)
    rig.core.acknowledge_cumulative(second)
    rig.pass_time(60_000)
    assert redeliveries(rig) == []


def test_many_redeliveries_are_several_commands() -> None:
    rig = connected(*[0] * 1001, negative_ack_redelivery_delay_ms=0, receiver_queue_size=2000)
    for message in rig.take_all():
        rig.core.negative_acknowledge(message)
    rig.core.tick(rig.now)
    rig.pump()
    assert [len(command.message_ids) for command in redeliveries(rig)] == [1000, 1]
    assert len(rig.places()) == 1001


def test_what_is_not_acked_in_time_comes_again() -> None:
    rig = connected(2, 0, unacked_messages_timeout_ms=5000)
    messages = rig.take_all()
    rig.core.acknowledge_message(messages[0])
    rig.core.acknowledge_message(messages[2])
    rig.pass_time(7000)
    assert rig.places() == [(0, 1)]
    assert [m.entryId for c in redeliveries(rig) for m in c.message_ids] == [0]
    assert rig.core.stats.entries_late == 1
    assert rig.core.stats.messages_refused == 0


def test_what_is_refused_and_late_at_once_comes_once() -> None:
    rig = connected(0, unacked_messages_timeout_ms=1000, negative_ack_redelivery_delay_ms=1000)
    (message,) = rig.take_all()
    rig.core.negative_acknowledge(message)
    rig.now += 5000
    rig.core.tick(rig.now)
    assert rig.places() == [(0, -1)]
    assert len(redeliveries(rig)) == 1


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


# ---- Seek and start ids --------------------------------------------------------


@pytest.mark.parametrize("inclusive", [True, False])
def test_issue_11825_nothing_before_the_sought_index_comes(inclusive: bool) -> None:
    rig = connected(0, 4, 0)
    messages = rig.take_all()
    rig.core.acknowledge_message(messages[0])
    rig.core.prepare_seek()
    rig.disconnect(arrives=1)
    rig.core.sought(messages[2].message_id(), inclusive)
    rig.connect()
    expected = [(1, 1), (1, 2), (1, 3), (2, -1)]
    assert rig.places() == expected[0 if inclusive else 1 :]


def test_a_seek_forgets_acks_and_what_is_on_its_way() -> None:
    rig = connected(2, 0, 0, ack_receipt_enabled=True, receiver_queue_size=8)
    messages = rig.take_all()
    rig.core.acknowledge_message(messages[0], rig.done)
    rig.core.flush()
    rig.core.acknowledge_message(messages[1], rig.done)
    rig.core.sought(messages[2].message_id(), True)
    assert [type(result) for result in rig.results] == [Interrupted] * 2
    # The broker has not closed us yet, and sends what is older.
    rig.broker.rewind()
    assert rig.places() == [(1, -1), (2, -1)]
    rig.reconnect()
    # An ack of a message from before the seek is an ack like any other.
    rig.core.acknowledge([messages[1]])
    rig.core.flush()
    assert rig.places() == [(1, -1), (2, -1)]
    assert rig.broker.left() == {(1, -1), (2, -1)}


def test_seeks_to_an_end_or_a_time_drop_nothing() -> None:
    for target in (MessageId.earliest, MessageId.latest, None):
        rig = connected(2, 0)
        rig.take_all()
        rig.core.sought(target, False)
        rig.broker.rewind()
        assert len(rig.places()) == 3
        assert rig.core.start_message_id() is None


def test_an_exclusive_start_in_a_plain_entry_skips_it() -> None:
    rig = connected(0, 3, 0)
    rig.core.sought(MessageId(-1, LEDGER, 1), False)
    assert rig.places() == [(2, -1)]
    chunked = ChunkMessageId(MessageId(-1, LEDGER, 0), MessageId(-1, LEDGER, 2))
    rig.core.sought(chunked, True)
    rig.reconnect()
    assert len(rig.places()) == 5


def test_a_reader_resumes_behind_what_it_took() -> None:
    start = MessageId(-1, LEDGER, 0, 1, batch_size=3)
    rig = Rig(
        ConsumerType.Exclusive,
        durable=False,
        start_message_id=start,
        start_message_id_inclusive=True,
    )
    rig.broker.publish(3, 2)
    assert rig.core.start_message_id() == MessageIdData(LEDGER, 0, -1, 1, batch_size=3)
    rig.connect()
    rig.pump()
    taken = rig.core.take()
    assert taken is not None
    assert place(taken) == (0, 1)
    assert rig.core.start_message_id() == MessageIdData(LEDGER, 0, -1, 1, batch_size=3)
    rig.reconnect()
    assert rig.places() == [(0, 2), (1, 0), (1, 1)]
    taken_before = rig.core.has_taken
    rig.core.sought(None, False)
    assert (taken_before, rig.core.has_taken) == (True, False)
    assert rig.core.start_message_id() == MessageIdData(-1, -1)
    rig.core.redeliver_all()
    durable = Rig(start_message_id=start)
    assert durable.core.start_message_id() == MessageIdData(LEDGER, 0, -1, 1, batch_size=3)
    assert durable.core.topic == TOPIC


# ---- Whatever happens ----------------------------------------------------------


class World:
    """A consumer, its broker and an application that remembers what it acked.

    `acked` is what the application acked, less what was lost on the wire without a receipt.
    What was lost may yet be acked, with what the application acks next of the same batch.
    """

    def __init__(self, consumer_type: ConsumerType, sizes: list[int], **options: object) -> None:
        self.rig = Rig(consumer_type, negative_ack_redelivery_delay_ms=200, **options)
        self.receipts = bool(options.get("ack_receipt_enabled"))
        self.single = self.rig.broker.single
        self.held: list[Message] = []
        self.acked: set[tuple[int, int]] = set()
        self.ever_acked: set[tuple[int, int]] = set()
        self.rig.broker.publish(*sizes)
        self.rig.connect()
        self.arrive_all()

    def arrive_all(self) -> None:
        while self.rig.broker_handles() or self.rig.broker_delivers() or self.receive():
            self.rig.check_permits()

    def arrive(self, steps: list[str]) -> None:
        for step in steps:
            if step == "handle":
                self.rig.broker_handles()
            elif step == "deliver":
                self.rig.broker_delivers()
            else:
                self.receive()
            self.rig.check_permits()

    def receive(self) -> bool:
        before = self.queued()
        # Without a receipt an ack is forgotten when it is written, and may cross on the wire
        # with a message that it is too late for.
        acked = {p for p in self.acked if self.receipts or self.is_pending(p)}
        received = self.rig.client_receives()
        fresh = self.queued() - before
        assert not {key for key, _ in fresh} & acked, "acked, and yet it came again"
        return received

    def queued(self) -> set[tuple[tuple[int, int], int]]:
        queue = self.rig.core._queue
        lists = [queue._current, *queue._entries]
        return {(place(message), id(message)) for some in lists for message in some}

    def take(self, count: int) -> None:
        for _ in range(count):
            message = self.rig.core.take()
            if message is not None:
                self.held.append(message)

    def acknowledge(self, pick: int, kind: str) -> None:
        if not self.held:
            return
        message = self.held.pop(pick % len(self.held))
        if kind == "message":
            self.rig.core.acknowledge_message(message)
        elif kind == "id":
            self.rig.core.acknowledge([message.message_id()])
        else:
            self.rig.core.acknowledge([MessageId.deserialize(message.message_id().serialize())])
        self.acked.add(place(message))

    def acknowledge_cumulatively(self, pick: int) -> None:
        if not self.held or not self.single:
            return
        message = self.held[pick % len(self.held)]
        self.rig.core.acknowledge_cumulative(message)
        self.acked |= {p for p in self.everything() if p <= place(message)}
        self.held = [other for other in self.held if place(other) > place(message)]

    def everything(self) -> set[tuple[int, int]]:
        return {
            (entry_id, index if size else -1)
            for entry_id, size in enumerate(self.rig.broker.sizes)
            for index in range(max(size, 1))
        }

    def refuse(self, pick: int, by_id: bool) -> None:
        if self.held:
            message = self.held.pop(pick % len(self.held))
            self.rig.core.negative_acknowledge(message.message_id() if by_id else message)

    def pass_time(self, ms: int) -> None:
        self.rig.now += ms
        due = self.rig.core.next_ms()
        self.rig.core.tick(self.rig.now)
        if due is None or due > self.rig.now:
            assert self.rig.core.next_ms() == due

    def break_or_connect(self, arrives: int) -> None:
        if not self.rig.online:
            self.rig.connect()
            return
        self.rig.disconnect(arrives)
        if not self.receipts:
            # Acks that were written and did not arrive are lost, and nobody can know.
            left = self.rig.broker.left()
            self.ever_acked |= self.acked
            self.acked = {p for p in self.acked if p not in left or self.is_pending(p)}

    def is_pending(self, p: tuple[int, int]) -> bool:
        acks = self.rig.core.acks
        key = entry_key(LEDGER, p[0])
        record = acks._entries.get(key)
        if record is not None and record.pending and record.is_acked(p[1]):
            return True
        cumulative = acks._cumulative
        return cumulative is not None and not cumulative.unacked(key, 1 << max(p[1], 0))

    def end(self) -> None:
        """In the end everything that is not acked is handed out, and can be acked."""
        self.rig.core.resume()
        if self.rig.online:
            self.break_or_connect(99)
        self.rig.connect()
        self.ever_acked |= self.acked
        taken = self.rig.take_all()
        places = {place(message) for message in taken}
        assert not places & self.acked
        assert places | self.ever_acked == self.everything()
        for message in taken:
            self.rig.core.acknowledge_message(message)
        self.rig.core.flush()
        self.rig.pump()
        assert self.rig.broker.left() == set()
        assert self.rig.core.acks.in_flight == 0
        self.rig.check_permits()


ENTRY_SIZES = [0, 0, 1, 2, 3, 9]
SIZES = st.lists(st.sampled_from(ENTRY_SIZES), min_size=1, max_size=5)
STEPS = ["handle", "deliver", "receive"]
KINDS = ["message", "id", "bytes"]
PICK = st.integers(0, 30)
TIMES_MS = [1, 100, 250, 2000]


class ConsumerMachine(RuleBasedStateMachine):
    @initialize(
        consumer_type=st.sampled_from(list(ConsumerType)),
        sizes=SIZES,
        queue_size=st.sampled_from([1, 2, 5, 20]),
        group_time_ms=st.sampled_from([0, 100]),
        group_size=st.sampled_from([2, 1000]),
        receipts=st.booleans(),
        timeout_ms=st.sampled_from([0, 1000]),
    )
    def begin(
        self,
        consumer_type: ConsumerType,
        sizes: list[int],
        queue_size: int,
        group_time_ms: int,
        group_size: int,
        receipts: bool,
        timeout_ms: int,
    ) -> None:
        self.world = World(
            consumer_type,
            sizes,
            receiver_queue_size=queue_size,
            acknowledgement_group_time_ms=group_time_ms,
            max_acknowledgement_group_size=group_size,
            ack_receipt_enabled=receipts,
            unacked_messages_timeout_ms=timeout_ms,
        )

    @rule(sizes=SIZES)
    def publish(self, sizes: list[int]) -> None:
        self.world.rig.broker.publish(*sizes)

    @rule()
    def everything_arrives(self) -> None:
        self.world.arrive_all()

    @rule(steps=st.lists(st.sampled_from(STEPS), max_size=12))
    def something_arrives(self, steps: list[str]) -> None:
        self.world.arrive(steps)

    @rule(count=st.integers(1, 25))
    def take(self, count: int) -> None:
        self.world.take(count)

    @rule(picks=st.lists(st.tuples(PICK, st.sampled_from(KINDS)), min_size=1, max_size=4))
    def acknowledge(self, picks: list[tuple[int, str]]) -> None:
        for pick, kind in picks:
            self.world.acknowledge(pick, kind)

    @precondition(lambda self: self.world.single)
    @rule(pick=PICK)
    def acknowledge_cumulatively(self, pick: int) -> None:
        self.world.acknowledge_cumulatively(pick)

    @rule(pick=PICK, by_id=st.booleans())
    def refuse(self, pick: int, by_id: bool) -> None:
        self.world.refuse(pick, by_id)

    @rule(ms=st.sampled_from(TIMES_MS))
    def time_passes(self, ms: int) -> None:
        self.world.pass_time(ms)

    @rule()
    def redeliver_all(self) -> None:
        self.world.rig.core.redeliver_all()

    @rule(paused=st.booleans())
    def pause_or_resume(self, paused: bool) -> None:
        if paused:
            self.world.rig.core.pause()
        else:
            self.world.rig.core.resume()

    @rule(arrives=st.integers(0, 5))
    def the_connection_breaks_or_comes_back(self, arrives: int) -> None:
        self.world.break_or_connect(arrives)

    @invariant()
    def permits_are_exact(self) -> None:
        self.world.rig.check_permits()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.end()


TestConsumerMachine = ConsumerMachine.TestCase
TestConsumerMachine.settings = settings(
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def live(seed: int, steps: int) -> None:
    """A long life, with more of what consumers mostly do than chance would give it."""
    random = Random(seed)
    world = World(
        random.choice(list(ConsumerType)),
        random.choices(ENTRY_SIZES, k=5),
        receiver_queue_size=random.choice([1, 2, 5, 20]),
        acknowledgement_group_time_ms=random.choice([0, 100, 100]),
        max_acknowledgement_group_size=random.choice([2, 1000]),
        ack_receipt_enabled=random.random() < 0.5,
        unacked_messages_timeout_ms=random.choice([0, 1000]),
    )
    verbs = random.choices(
        ["take", "ack", "through", "refuse", "some", "all", "time", "publish", "all again", "cut"],
        [10, 10, 3, 5, 12, 4, 6, 3, 1, 3],
        k=steps,
    )
    for verb in verbs:
        pick = random.randrange(30)
        if verb == "take":
            world.take(random.choice([1, 3, 12]))
        elif verb == "ack":
            world.acknowledge(pick, random.choice(KINDS))
        elif verb == "through":
            world.acknowledge_cumulatively(pick)
        elif verb == "refuse":
            world.refuse(pick, random.random() < 0.5)
        elif verb == "some":
            world.arrive(random.choices(STEPS, k=6))
        elif verb == "all":
            world.arrive_all()
        elif verb == "time":
            world.pass_time(random.choice(TIMES_MS))
        elif verb == "publish":
            world.rig.broker.publish(*random.choices(ENTRY_SIZES, k=2))
        elif verb == "all again":
            world.rig.core.redeliver_all()
        else:
            world.break_or_connect(random.randrange(6))
        world.rig.check_permits()
    world.end()


@pytest.mark.parametrize("seed", range(60))
def test_a_long_life_loses_nothing_and_repeats_nothing_acked(seed: int) -> None:
    live(seed, 150)
