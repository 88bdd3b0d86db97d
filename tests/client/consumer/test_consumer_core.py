"""The consumer's core against a broker that is a few lists."""

from collections.abc import Callable

import pytest
from client.consumer_model import (
    LEDGER,
    SINGLE,
    TOPIC,
    Rig,
    batch_entry,
    connected,
    place,
    plain_entry,
)

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
    assert rig.flows() == [10]
    rig.core.take()
    rig.pump()
    assert rig.flows() == [10, 5]


def test_permits_of_held_messages_go_back_when_they_are_done_with() -> None:
    rig = connected(*[0] * 30, receiver_queue_size=2)
    rig.pump()
    assert rig.core.take(held=True) is not None
    assert rig.core.take(held=True) is not None
    rig.pump()
    assert rig.flows() == [2]
    assert rig.core.unreturned_permits == 2
    rig.core.give_back()
    rig.pump()
    assert rig.flows() == [2, 1]
    # What was held when the connection ended has its permit from the next one.
    rig.reconnect()
    rig.core.give_back()
    rig.pump()
    assert rig.flows()[2:] == [2]
    assert rig.core.available_permits + rig.core.queue_length() == 2


def test_a_queue_of_one_gives_back_each_permit() -> None:
    rig = connected(*[0] * 4, receiver_queue_size=1)
    assert len(rig.places()) == 4
    assert rig.flows() == [1] * 5


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
    assert rig.flows() == []
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
    assert rig.flows() == [1, 3]


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
        with pytest.raises(InvalidMessageIdError, match="is a position between messages"):
            rig.core.acknowledge([id])
        with pytest.raises(InvalidMessageIdError, match="is a position between messages"):
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
    keys = [message._delivery.key for message in messages]
    rig.core.acks.records.chunks[keys[2]] = keys
    rig.core.negative_acknowledge(chunked)
    rig.pass_time(0)
    assert [id.entryId for id in rig.redeliveries()[0].message_ids] == [0, 1, 2]
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
    assert {id.entryId for id in rig.redeliveries()[1].message_ids} == {4}


def test_what_waits_in_the_queue_is_not_handed_out_once_its_id_was_acked() -> None:
    """The application has the id from elsewhere: another consumer had the message before."""
    rig = connected(3, 0, 2, receiver_queue_size=10)
    rig.pump()
    rig.core.acknowledge([MessageId(-1, LEDGER, 1), MessageId(-1, LEDGER, 2, 0, batch_size=2)])
    rig.core.acknowledge([MessageId(-1, LEDGER, 0, 1, batch_size=3)])
    assert rig.places() == [(0, 0), (0, 2), (2, 1)]
    assert rig.core.available_permits + rig.core.unreturned_permits == 10


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


@pytest.mark.parametrize("size", [0, 3])
def test_what_a_reader_takes_while_it_subscribes_does_not_come_again(size: int) -> None:
    rig = Rig(ConsumerType.Exclusive, durable=False, start_message_id=MessageId.earliest)
    rig.broker.publish(*[size] * 6)
    rig.connect()
    rig.pump()
    first = [rig.core.take() for _ in range(2)]
    rig.disconnect()
    begin = rig.core.subscribe_from()
    assert begin is not None
    late = [rig.core.take() for _ in range(5)]
    rig.connect()
    rig.broker.read_next = begin.entry_id
    got = [place(message) for message in [*first, *late, *rig.take_all()] if message]
    indexes = range(size) if size else [-1]
    assert got == [(entry_id, index) for entry_id in range(6) for index in indexes]
