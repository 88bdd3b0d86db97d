"""Acks belong to the life of the subscription that they were given for, and to its cluster.

What is unconfirmed when others reset the cursor, when the store was made anew, or when the
client goes over to another cluster, is given up and never sent. What else knows positions
forgets them.
"""

from collections.abc import Callable

import pytest
from client.ack.test_ack_retry_machine import BUSY, LossyBroker
from client.chunk_model import chunk_entries, publish
from client.consumer_model import Rig, connected, place

from magnetar.client.option.policy import ConsumerDeadLetterPolicy
from magnetar.errors import BrokerPersistenceError, ConnectError, Interrupted
from magnetar.model import ConsumerType, MessageId
from magnetar.wire.ack_set import all_unacked

SINGLE = ConsumerType.Exclusive
SHARED = ConsumerType.Shared
JOINED, RESET, ANEW = "7.0", "7.1", "8.0"

# With answers, with retries, with both, with neither.
WAYS: list[dict[str, object]] = [
    {"ack_receipt_enabled": True},
    {"auto_retry_acknowledgement": True},
    {"ack_receipt_enabled": True, "auto_retry_acknowledgement": True},
    {},
]
ways = pytest.mark.parametrize("options", WAYS, ids=["receipts", "retries", "both", "neither"])


def reset(rig: Rig) -> None:
    """Others put the cursor at the beginning."""
    rig.disconnect()
    rig.life = RESET
    _show_all(rig)
    rig.connect()


def made_anew(rig: Rig) -> None:
    """The broker comes back with an empty store, into which as much is published."""
    rig.disconnect()
    rig.life = ANEW
    _show_all(rig)
    rig.connect()


def elsewhere(rig: Rig) -> None:
    """The client goes over to another cluster, of Apache's, with as much in it."""
    rig.online = False
    rig.to_broker.clear()
    rig.to_client.clear()
    rig.core.moved()
    rig.life = ""
    _show_all(rig)
    rig.connect()


def _show_all(rig: Rig) -> None:
    broker = rig.broker
    broker.unacked = [all_unacked(max(size, 1)) for size in broker.sizes]
    broker.rewind()
    broker.log.clear()


Change = Callable[[Rig], None]
changes = pytest.mark.parametrize("change", [reset, made_anew, elsewhere])
departures = pytest.mark.parametrize("change", [made_anew, elsewhere])


def rig_of(
    *sizes: int, options: dict[str, object], consumer_type: ConsumerType = SHARED
) -> tuple[Rig, LossyBroker]:
    rig = Rig(consumer_type, **options)
    rig.life = JOINED
    broker = LossyBroker(consumer_type)
    rig.broker = broker
    broker.publish(*sizes)
    rig.connect()
    return rig, broker


def told(rig: Rig) -> list[type[object]]:
    return [type(result) for result in rig.results]


# ---- What is unconfirmed -----------------------------------------------------


def _error(change: Change, state: str, retries: bool) -> type[Exception]:
    """Without retries the end of the connection, or a refusal, is told before."""
    if not retries and state == "waiting":
        return BrokerPersistenceError
    if not retries and state == "in flight" and change is not elsewhere:
        return ConnectError
    return Interrupted


@ways
@changes
@pytest.mark.parametrize("state", ["pending", "in flight", "waiting"])
def test_acks_that_were_not_confirmed_are_not_sent_into_another_life(
    options: dict[str, object], change: Change, state: str
) -> None:
    rig, broker = rig_of(3, 0, 0, options=options)
    messages = rig.take_all()
    if state == "waiting" and options:  # else nothing is refused
        broker.verdicts.append(BUSY)
    rig.core.acknowledge([messages[0], messages[3]], rig.done)
    if state != "pending":
        rig.core.flush()
    if state == "waiting":
        rig.pump()
    broker.verdicts.clear()
    change(rig)
    rig.pass_time(60_000)
    assert rig.sent() == []
    assert rig.places() == [(0, 0), (0, 1), (0, 2), (1, -1), (2, -1)]
    retries = bool(options.get("auto_retry_acknowledgement"))
    if options.get("ack_receipt_enabled"):
        assert told(rig) == [_error(change, state, retries)]
    failures = rig.core.take_failures()
    if retries:
        (failure,) = failures
        assert isinstance(failure.error, Interrupted)
        ids = [(id.entry_id(), id.batch_index()) for id in failure.message_ids]
        assert ids == [(0, 0), (1, -1)]
        assert rig.core.acks.counts.exhausted == 2
    else:
        assert failures == []


@ways
@changes
def test_a_cumulative_ack_that_was_not_confirmed_is_not_sent_into_another_life(
    options: dict[str, object], change: Change
) -> None:
    rig, _ = rig_of(3, 0, 3, options=options, consumer_type=SINGLE)
    messages = rig.take_all()
    rig.core.acknowledge_cumulative(messages[3], rig.done)
    rig.core.flush()
    rig.core.acknowledge_cumulative(messages[5], rig.done)
    change(rig)
    rig.pass_time(60_000)
    assert rig.sent() == []
    assert len(rig.take_all()) == 7
    if options.get("ack_receipt_enabled"):
        retries = bool(options.get("auto_retry_acknowledgement"))
        errors = [_error(change, state, retries) for state in ("in flight", "pending")]
        assert told(rig) == errors


@ways
@changes
def test_a_message_in_chunks_begins_anew_in_another_life(
    options: dict[str, object], change: Change
) -> None:
    rig, _ = rig_of(options=options)
    entries = chunk_entries(b"a message in three parts", 8)
    publish(rig, *entries[:2])
    rig.pump()
    first = chunk_entries(b"another that was acked", 8, sequence_id=1)
    publish(rig, *first)
    (message,) = rig.take_all()
    rig.core.acknowledge([message], rig.done)
    change(rig)
    publish(rig, *entries[2:])
    assert {m.data() for m in rig.take_all()} == {
        b"a message in three parts",
        b"another that was acked",
    }
    assert rig.sent() == []


@ways
def test_the_same_life_is_sent_what_was_not_confirmed(options: dict[str, object]) -> None:
    rig, broker = rig_of(3, 0, options=options)
    messages = rig.take_all()
    rig.core.acknowledge([messages[0], messages[3]])
    rig.reconnect()
    rig.pump()
    assert broker.left() == {(0, 1), (0, 2)}
    assert rig.core.take_failures() == []


def test_a_broker_that_tells_no_life_is_sent_what_was_not_confirmed() -> None:
    rig = connected(3, auto_retry_acknowledgement=True)
    messages = rig.take_all()
    rig.core.acknowledge([messages[0]])
    rig.reconnect()
    rig.pump()
    assert rig.broker.left() == {(0, 1), (0, 2)}


# ---- Seeks of one's own ------------------------------------------------------


@pytest.mark.parametrize("tells", [True, False])
def test_what_is_acked_after_a_seek_of_ones_own_is_sent_into_its_life(tells: bool) -> None:
    rig, broker = rig_of(3, 0, options=WAYS[2])
    messages = rig.take_all()
    rig.core.prepare_seek()
    rig.life = RESET
    broker.start_over()
    rig.core.sought(MessageId.earliest, False, RESET if tells else "")
    rig.core.acknowledge([messages[1]], rig.done)
    rig.reconnect()
    rig.pump()
    assert broker.left() == {(0, 0), (0, 2), (1, -1)}
    assert rig.results == [None]


def test_what_is_acked_after_a_seek_of_ones_own_is_not_sent_into_the_next_life() -> None:
    """Somebody else resets the cursor before we are back."""
    rig, broker = rig_of(3, 0, options=WAYS[2])
    messages = rig.take_all()
    rig.core.prepare_seek()
    broker.start_over()
    rig.core.sought(MessageId.earliest, False, RESET)
    rig.core.acknowledge([messages[1]], rig.done)
    rig.disconnect()
    rig.life = "7.2"
    rig.connect()
    rig.pump()
    assert broker.left() == broker.everything()
    assert told(rig) == [Interrupted]


def test_a_seek_whose_answer_was_lost_decides_what_is_acked() -> None:
    rig, broker = rig_of(3, 0, options=WAYS[2])
    messages = rig.take_all()
    rig.core.prepare_seek()
    rig.core.acknowledge([messages[0]], rig.done)
    broker.start_over()
    rig.disconnect()
    rig.life = RESET
    rig.connect()
    rig.pump()
    assert broker.left() == broker.everything()
    assert told(rig) == [Interrupted]


def test_what_a_seek_of_ones_own_left_out_comes_after_a_reset_by_others() -> None:
    rig, broker = rig_of(3, 0, options={}, consumer_type=SINGLE)
    messages = rig.take_all()
    rig.core.prepare_seek()
    broker.start_over()
    rig.core.sought(messages[1].message_id(), False, RESET)
    rig.life = RESET
    rig.reconnect()
    assert rig.places() == [(0, 2), (1, -1)]
    rig.disconnect()
    rig.life = "7.2"
    rig.connect()
    assert rig.places() == [(0, 0), (0, 1), (0, 2), (1, -1)]


# ---- Messages the application has --------------------------------------------


@ways
def test_a_message_from_before_a_reset_can_be_acked(options: dict[str, object]) -> None:
    rig, broker = rig_of(2, options=options)
    messages = rig.take_all()
    reset(rig)
    rig.core.acknowledge([messages[0]], rig.done)
    rig.core.flush()
    rig.pump()
    assert broker.left() == {(0, 1)}
    assert rig.results == [None]


@ways
@pytest.mark.parametrize("own", [False, True])
def test_a_message_of_before_acks_no_sibling_that_came_back(
    options: dict[str, object], own: bool
) -> None:
    """It was the last of its batch, which the reset or the seek has brought back whole."""
    rig, broker = rig_of(2, options=options)
    first, _ = rig.take_all()
    rig.core.acknowledge([first], None)
    rig.core.flush()
    rig.pump()
    rig.disconnect()
    rig.connect()
    (second,) = rig.take_all()
    if own:
        rig.core.sought(MessageId.earliest, True, RESET)
    reset(rig)
    rig.core.acknowledge([second], rig.done)
    rig.core.flush()
    rig.pump()
    assert broker.left() == {(0, 0)}


@ways
def test_nothing_is_acked_through_a_message_from_before_a_reset(
    options: dict[str, object],
) -> None:
    """What is before it came back with the reset, and was not handled since."""
    rig, broker = rig_of(2, 0, options=options, consumer_type=SINGLE)
    messages = rig.take_all()
    reset(rig)
    rig.core.acknowledge_cumulative(messages[2], rig.done)
    rig.core.flush()
    rig.pump()
    assert broker.left() == broker.everything()
    assert told(rig) == [Interrupted if options.get("ack_receipt_enabled") else type(None)]
    rig.core.acknowledge_cumulative(rig.take_all()[2], rig.done)
    rig.core.flush()
    rig.pump()
    assert broker.left() == set()


@ways
@departures
@pytest.mark.parametrize("how", ["one", "list", "mixed", "cumulative"])
def test_a_message_from_elsewhere_acks_nothing(
    options: dict[str, object], change: Change, how: str
) -> None:
    rig, broker = rig_of(2, 0, options=options, consumer_type=SINGLE)
    messages = rig.take_all()
    change(rig)
    (fresh, *_) = rig.take_all()
    if how == "one":
        rig.core.acknowledge_message(messages[1], rig.done)
    elif how == "list":
        rig.core.acknowledge(messages[1:], rig.done)
    elif how == "mixed":
        rig.core.acknowledge([messages[1], fresh], rig.done)
    else:
        rig.core.acknowledge_cumulative(messages[2], rig.done)
    rig.core.flush()
    rig.pump()
    acked = {(0, 0)} if how == "mixed" else set()
    assert broker.left() == broker.everything() - acked
    assert told(rig) == [Interrupted if options.get("ack_receipt_enabled") else type(None)]
    if options.get("auto_retry_acknowledgement"):
        assert rig.core.next_ms() == rig.now, "it is told at once"
        (failure,) = rig.core.take_failures()
        assert isinstance(failure.error, Interrupted)
        assert len(failure.message_ids) == (2 if how == "list" else 1)
    assert rig.core.acks.counts.exhausted == (2 if how == "list" else 1)


@departures
def test_a_message_from_elsewhere_is_not_asked_for_again(change: Change) -> None:
    options: dict[str, object] = {"negative_ack_redelivery_delay_ms": 100}
    rig, _ = rig_of(0, 0, options={**options, "unacked_messages_timeout_ms": 10_000})
    messages = rig.take_all()
    rig.core.negative_acknowledge(messages[0])
    change(rig)
    rig.core.negative_acknowledge(messages[1])
    rig.core.pause()
    rig.pass_time(5_000)
    assert rig.redeliveries() == []


@departures
def test_who_is_on_the_way_to_a_dead_letter_topic_hides_nobody_elsewhere(change: Change) -> None:
    policy = ConsumerDeadLetterPolicy(max_redeliver_count=1)
    rig, broker = rig_of(
        0, options={"dead_letter_policy": policy, "negative_ack_redelivery_delay_ms": 100}
    )
    for _ in range(2):
        (message,) = rig.take_all()
        rig.core.negative_acknowledge(message)
        rig.pass_time(100)
    (dead,) = rig.core.take_dead()
    change(rig)
    broker.counts = [0]
    assert rig.places() == [(0, -1)]
    rig.core.dead_published(dead)
    rig.core.flush()
    rig.pump()
    assert broker.left() == {(0, -1)}


@departures
def test_nothing_that_was_fetched_elsewhere_is_handed_out(change: Change) -> None:
    rig, broker = rig_of(0, 0, options={})
    rig.pump()
    assert rig.core.queue_length() == 2
    if change is elsewhere:
        rig.core.moved()
        assert rig.core.take() is None
    change(rig)
    assert rig.places() == [(0, -1), (1, -1)]
    assert all(count == 0 for count in broker.counts)


def test_a_message_of_another_consumer_is_acked_by_its_id() -> None:
    one, _ = rig_of(0, 0, options={})
    other, broker = rig_of(0, 0, options={})
    messages = one.take_all()
    other.take_all()
    elsewhere(one)
    fresh = one.take_all()
    other.core.acknowledge([fresh[0]])
    other.core.acknowledge([messages[1]])
    other.core.flush()
    other.pump()
    assert broker.left() == {(1, -1)}, "the second is from where the first consumer is no more"


# ---- Readers -----------------------------------------------------------------


def test_a_reader_begins_at_another_cluster_as_it_was_told_to() -> None:
    rig = Rig(SINGLE, durable=False, start_message_id=MessageId.earliest)
    rig.broker.publish(3, 0)
    rig.connect()
    taken = rig.take_all()
    before = rig.core.has_taken
    rig.core.moved()
    assert (before, rig.core.has_taken) == (True, False)
    start = rig.core.subscribe_from()
    assert start is not None
    assert (start.ledger_id, start.entry_id) == (-1, -1)
    rig.online = False
    rig.connect()
    assert rig.places() == [place(message) for message in taken]
