"""Cumulative acks around messages in chunks: what they cover, and what they spare."""

import pytest
from client.chunk_model import SINGLE, chunk_entries, datas, publish, rig_of, unacked
from client.consumer_model import plain_entry

from magnetar.client.consumer.chunk.spans import ENTRIES_MAX, MESSAGES_MAX, ChunkSpans
from magnetar.errors import ConnectError, Interrupted
from magnetar.model import ConsumerType, MessageId
from magnetar.protocol import CommandAck, CommandAckResponse


def test_a_cumulative_ack_covers_all_chunks() -> None:
    rig = rig_of(SINGLE)
    publish(rig, plain_entry(b"a"), *chunk_entries(b"abcdef", 2), plain_entry(b"b"))
    rig.core.acknowledge_cumulative(rig.take_all()[1])
    rig.pump()
    assert unacked(rig) == [4]
    assert len(rig.sent()) == 1
    assert rig.core.acks.records.chunks == {}


@pytest.mark.parametrize("receipts", [False, True])
def test_a_cumulative_ack_spares_a_message_that_is_not_whole(receipts: bool) -> None:
    """What was not delivered must not be acked, though its first chunks stand before."""
    rig = rig_of(SINGLE, ack_receipt_enabled=receipts)
    large = chunk_entries(b"abcdef", 2)
    publish(rig, plain_entry(b"0"), plain_entry(b"1"), large[0], plain_entry(b"3"), large[1])
    rig.broker.publish(3)  # a batch, entry 5
    publish(rig, plain_entry(b"6"))
    messages = rig.take_all()
    assert datas(messages) == [b"0", b"1", b"3", b"5:0", b"5:1", b"5:2", b"6"]
    rig.core.acknowledge_cumulative(messages[4], rig.done)
    rig.pump()
    assert rig.results == [None]
    assert rig.broker.left() == {(2, -1), (4, -1), (5, 2), (6, -1)}
    # Even if everything begins anew now, nothing is lost and nothing comes twice.
    rig.reconnect()
    publish(rig, large[2])
    assert datas(rig.take_all()) == [b"5:2", b"6", b"abcdef"]


def test_a_cumulative_ack_spares_a_message_that_ends_behind_it() -> None:
    rig = rig_of(SINGLE)
    large, small = chunk_entries(b"abcdef", 2), chunk_entries(b"1234", 2, name="other")
    publish(rig, large[0], small[0], plain_entry(b"2"), large[1], small[1], large[2])
    messages = rig.take_all()
    assert datas(messages) == [b"2", b"1234", b"abcdef"]
    rig.core.acknowledge_cumulative(messages[0])
    rig.pump()
    assert unacked(rig) == [0, 1, 3, 4, 5]
    rig.core.acknowledge_cumulative(messages[1])
    rig.pump()
    assert unacked(rig) == [0, 3, 5]
    rig.core.acknowledge_cumulative(messages[2])
    rig.pump()
    assert unacked(rig) == []
    publish(rig, plain_entry(b"6"))
    rig.core.acknowledge_cumulative(rig.take_all()[0])
    rig.pump()
    assert unacked(rig) == []


def test_a_cumulative_ack_given_again_reaches_what_was_taken_before_the_first() -> None:
    """Found by seed 25: the message in chunks was spared, for all had been forgotten of it."""
    rig = rig_of(SINGLE, ack_receipt_enabled=True)
    publish(rig, *chunk_entries(b"abcdef", 2), plain_entry(b"x"))
    last = rig.take_all()[1]
    rig.core.acknowledge_cumulative(last, rig.done)
    rig.reconnect()
    rig.pump()  # everything is in the queue again
    rig.core.acknowledge_cumulative(last, rig.done)
    assert rig.take_all() == []
    assert isinstance(rig.results[0], ConnectError)
    assert rig.results[1:] == [None]
    assert unacked(rig) == []


@pytest.mark.parametrize("spanned", [False, True])
def test_a_cumulative_ack_reaches_what_was_taken_and_came_again_in_part(spanned: bool) -> None:
    """A chunk that is alone here is of a message that is acked, and waits for no others."""
    rig = rig_of(SINGLE, ack_receipt_enabled=True)
    if spanned:  # by a message that is not whole, and is spared
        publish(rig, chunk_entries(b"123456", 2, name="other")[0])
    publish(rig, *chunk_entries(b"abcdef", 2), plain_entry(b"x"))
    last = rig.take_all()[1]
    rig.core.acknowledge_cumulative(last, rig.done)
    rig.reconnect()
    while rig.broker_handles():
        pass
    for _ in range(2 + spanned):
        assert rig.broker_delivers()
        assert rig.client_receives()
    rig.core.acknowledge_cumulative(last, rig.done)
    assert rig.take_all() == []
    assert rig.results[1:] == [None]
    assert unacked(rig) == ([0] if spanned else [])


def test_what_came_again_in_part_comes_whole_if_the_cumulative_ack_is_refused() -> None:
    rig = rig_of(SINGLE, ack_receipt_enabled=True)
    publish(rig, *chunk_entries(b"abcdef", 2), plain_entry(b"x"))
    last = rig.take_all()[1]
    rig.reconnect()
    while rig.broker_handles():
        pass
    rig.broker_delivers()
    rig.client_receives()
    rig.core.acknowledge_cumulative(last, rig.done)
    command = rig.to_broker.popleft()
    assert isinstance(command, CommandAck)
    assert command.request_id is not None
    rig.to_client.append(CommandAckResponse(3, command.request_id, 22, "not now"))
    assert datas(rig.take_all()) == [b"abcdef", b"x"]
    assert rig.results[0] is not None


@pytest.mark.parametrize("parts", [2, 3])
def test_what_another_consumer_acked_is_spared_no_more(parts: int) -> None:
    """On Failover another one was active meanwhile, and acked a message that nobody took here."""
    rig = rig_of(ConsumerType.Failover)
    publish(rig, *chunk_entries(b"abcdef", 2)[:parts])
    rig.pump()
    rig.disconnect()
    publish(rig, plain_entry(b"x"), plain_entry(b"y"))
    rig.broker.unacked[:parts] = [0] * parts
    rig.connect()
    messages = rig.take_all()
    assert datas(messages) == [b"x", b"y"]
    rig.core.acknowledge_cumulative(messages[1])
    rig.pump()
    assert unacked(rig) == []
    assert not rig.core.acks.records.chunks


@pytest.mark.parametrize("receipts", [False, True])
def test_an_ack_through_what_did_not_come_since_a_seek_is_done_whole_or_not_at_all(
    receipts: bool,
) -> None:
    """A message in chunks is under way, and what stands behind its beginning is not known here."""
    rig = rig_of(SINGLE, ack_receipt_enabled=receipts)
    large = chunk_entries(b"abcdef", 2)
    publish(rig, plain_entry(b"0"), large[0], plain_entry(b"2"), plain_entry(b"3"), large[1])
    id = rig.take_all()[2].message_id()
    rig.core.sought(MessageId.earliest, True)
    rig.reconnect()
    while rig.broker_handles():
        pass
    for _ in range(2):
        assert rig.broker_delivers()
        assert rig.client_receives()
    rig.core.acknowledge_cumulative(id, rig.done)
    rig.core.flush()
    rig.pump()
    assert unacked(rig) == [0, 1, 2, 3, 4]
    (failure,) = rig.core.take_failures()
    assert failure.message_ids == [id]
    assert failure.cumulative
    assert "Nothing is acked" in str(failure.error)
    assert [type(result) for result in rig.results] == [Interrupted if receipts else type(None)]
    # It has come by now, and is acked with all before it but the message that is not whole.
    rig.core.acknowledge_cumulative(id, rig.done)
    rig.core.flush()
    rig.pump()
    assert unacked(rig) == [1, 4]


@pytest.mark.parametrize("receipts", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("who", ["we", "another"])
def test_an_ack_through_an_id_from_before_a_seek_takes_no_part_of_a_message_in_chunks(
    who: str, whole: bool, receipts: bool
) -> None:
    """Nothing has come since, so nothing is known but what came before."""
    rig = rig_of(SINGLE, ack_receipt_enabled=receipts)
    large = chunk_entries(b"abcdef", 2)
    publish(rig, large[0], plain_entry(b"1"), large[1], *(large[2:] if whole else ()))
    id = rig.take_all()[0].message_id()
    everything = unacked(rig)
    if who == "we":
        rig.core.sought(MessageId.earliest, True)
    else:
        rig.core._spans.sought(-1)
        rig.core._begin_anew("another one reset it")
        rig.core._incoming.reset()
    rig.reconnect()
    while rig.broker_handles():
        pass
    rig.core.acknowledge_cumulative(id, rig.done)
    rig.core.flush()
    while rig.broker_handles():
        pass
    assert unacked(rig) == everything
    (failure,) = rig.core.take_failures()
    assert failure.message_ids == [id]
    rig.pump()  # it has come by now
    rig.core.acknowledge_cumulative(id)
    rig.core.flush()
    rig.pump()
    assert unacked(rig) == [entry for entry in everything if entry != 1]


def test_an_ack_through_an_id_from_before_a_seek_acks_all_but_what_nobody_took_again() -> None:
    """What stands behind a message in chunks that is whole, and waits in the queue, is acked."""
    rig = rig_of(SINGLE)
    publish(rig, *chunk_entries(b"abcdef", 2), plain_entry(b"3"), plain_entry(b"4"))
    last = rig.take_all()[-1].message_id()
    rig.core.sought(MessageId.earliest, True)
    rig.reconnect()
    rig.pump()  # all of it is in the queue again
    rig.core.acknowledge_cumulative(last)
    rig.core.flush()
    rig.pump()
    assert unacked(rig) == [0, 1, 2]
    assert datas(rig.take_all()) == [b"abcdef"]


def test_an_ack_through_what_a_seek_passed_over_is_none_of_its_business() -> None:
    rig = rig_of(SINGLE)
    large = chunk_entries(b"abcdef", 2)
    publish(rig, large[0], plain_entry(b"1"), *large[1:], plain_entry(b"4"))
    first, *_, last = rig.take_all()
    rig.core.sought(last.message_id(), True)
    rig.core.acknowledge_cumulative(first.message_id())
    assert rig.core.take_failures() == []


def test_an_ack_through_what_did_not_come_is_one_ack_if_nothing_is_spared() -> None:
    rig = rig_of(SINGLE)
    publish(rig, *(plain_entry(b"%d" % number) for number in range(4)))
    id = rig.take_all()[2].message_id()
    rig.core.sought(MessageId.earliest, True)
    rig.reconnect()
    rig.core.acknowledge_cumulative(id)
    rig.pump()
    assert unacked(rig) == [3]


def test_without_chunks_a_cumulative_ack_is_one_ack() -> None:
    rig = rig_of(SINGLE)
    publish(rig, *chunk_entries(b"abcd", 2), plain_entry(b"2"), plain_entry(b"3"))
    messages = rig.take_all()
    for message in messages:
        rig.core.acknowledge_cumulative(message)
        rig.pump()
    assert [len(ack.message_ids) for ack in rig.sent()] == [1, 1, 1]
    assert {ack.ack_type for ack in rig.sent()} == {1}


def test_spans_remember_no_more_than_they_may() -> None:
    rig = rig_of(SINGLE)
    spans = ChunkSpans(rig.core._assembler, rig.core.acks.records.chunks)
    for number in range(2 * MESSAGES_MAX + 5):
        spans.whole([3 * number, 3 * number + 1], 3 * number - 1)
        rig.core.acks.records.chunks.pop(3 * number - 2, None)
    assert len(rig.core.acks.records.chunks) <= MESSAGES_MAX
    for number in range(MESSAGES_MAX + 5):
        spans.whole([3 * number, 3 * number + 1], 3 * number - 1)
    assert len(rig.core.acks.records.chunks) == MESSAGES_MAX
    assert len(spans._before) <= 2 * MESSAGES_MAX
    spans.taken(10**9)
    assert 10**9 not in spans._taken
    spans.received(list(range(ENTRIES_MAX)))
    spans.received([ENTRIES_MAX])
    assert len(spans._received) == ENTRIES_MAX
    spans.clear()
    assert not spans.active
