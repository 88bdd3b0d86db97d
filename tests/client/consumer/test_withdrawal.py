"""What a consumer does when the broker takes messages back (WITHDRAW)."""

import pytest
from client.chunk_model import chunk_entries, publish, rig_of
from client.consumer_model import LEDGER, Rig, connected, plain_entry

from magnetar.client.consumer.withdrawal import Withdrawal, whole_entries
from magnetar.client.option.options import ConsumerDeadLetterPolicy
from magnetar.model import ConsumerType
from magnetar.model.position_key import wide_key, wide_key_entry


def withdraw(rig: Rig, *ids: tuple[int, int]) -> list[tuple[int, int]]:
    """Takes entries back, each with what stays of it; what was given back in the same form."""
    withdrawal = Withdrawal({wide_key(LEDGER, entry): kept for entry, kept in ids})
    rig.core.withdraw(withdrawal)
    return [(wide_key_entry(key), left) for key, left in withdrawal.given_back().items()]


def test_what_is_queued_is_dropped_and_its_neighbours_are_not() -> None:
    rig = connected(0, 3, 0, 2)
    rig.pump()
    assert withdraw(rig, (1, 0b101), (2, 0)) == [(1, 0b101), (2, 0)]
    assert rig.places() == [(0, -1), (1, 0), (1, 2), (3, 0), (3, 1)]


def test_runs_name_whole_entries_and_no_more_than_are_allowed() -> None:
    keys = [wide_key(LEDGER, entry) for entry in (3, 4, 9)]
    assert whole_entries([LEDGER, 3, 2, LEDGER, 9, 1], 10) == dict.fromkeys(keys, 0)
    assert list(whole_entries([LEDGER, 3, 2, LEDGER, 9, 2**62], 3)) == keys
    # The same ones again count too, and a part of a run is none.
    assert list(whole_entries([LEDGER, 3, 2, LEDGER, 3, 2, LEDGER, 9, 1, LEDGER], 4)) == keys[:2]
    assert whole_entries([LEDGER, 3, 2**64 - 1], 10) == {}


def test_all_is_given_back_if_nothing_was_handed_out() -> None:
    rig = connected(0, 3, 0)
    rig.pump()
    part = Withdrawal({wide_key(LEDGER, 1): 0b001})
    rig.core.withdraw(part)
    assert not part.all_given_back
    whole = Withdrawal({wide_key(LEDGER, entry): 0 for entry in (0, 2)})
    assert not whole.all_given_back
    rig.core.withdraw(whole)
    assert whole.all_given_back


def test_what_was_handed_out_of_a_batch_is_not_all_given_back() -> None:
    rig = connected(2)
    rig.pump()
    assert rig.core.take() is not None
    withdrawal = Withdrawal({wide_key(LEDGER, 0): 0})
    rig.core.withdraw(withdrawal)
    assert withdrawal.given_back() == {wide_key(LEDGER, 0): 0b01}
    assert not withdrawal.all_given_back


def test_what_was_handed_out_is_not_given_back() -> None:
    rig = connected(0, 3)
    rig.pump()
    assert [rig.core.take() is not None for _ in range(2)] == [True, True]
    assert withdraw(rig, (0, 0), (1, 0)) == [(1, 0b001)]
    assert rig.core.take() is None


@pytest.mark.parametrize("queue_size", [2, 6, 1000])
def test_a_permit_goes_back_for_each_message_that_is_dropped(queue_size: int) -> None:
    rig = connected(*[0] * 12, receiver_queue_size=queue_size)
    rig.pump()
    withdraw(rig, (0, 0), (1, 0))
    rig.pump()
    core = rig.core
    assert core.available_permits + core.queue_length() + core.unreturned_permits == queue_size
    assert rig.places() == [(entry, -1) for entry in range(2, 12)]


def test_without_a_queue_who_waits_gets_the_next_one() -> None:
    rig = connected(0, 0, receiver_queue_size=0)
    rig.core.request(1)
    rig.pump()
    assert withdraw(rig, (0, 0)) == [(0, 0)]
    rig.pump()
    assert rig.places() == [(1, -1)]


def test_chunks_of_a_message_that_is_not_whole_are_given_back() -> None:
    rig = rig_of(ConsumerType.Shared)
    chunks = chunk_entries(b"abcdef", 2)
    publish(rig, *chunks[:2], plain_entry(b"z"))
    rig.pump()
    assert withdraw(rig, (0, 0), (1, 0)) == [(0, 0), (1, 0)]
    assert len(rig.core._assembler) == 0
    message = rig.core.take()
    assert message is not None
    assert message.data() == b"z"


def test_a_queued_message_in_chunks_goes_whole() -> None:
    rig = rig_of(ConsumerType.Shared)
    publish(rig, *chunk_entries(b"abcdef", 2), plain_entry(b"z"))
    rig.pump()
    assert withdraw(rig, (0, 0), (1, 0), (2, 0)) == [(0, 0), (1, 0), (2, 0)]
    message = rig.core.take()
    assert message is not None
    assert message.data() == b"z"


def test_what_was_refused_or_is_late_is_not_asked_for_again() -> None:
    rig = connected(
        0, 0, 0, negative_ack_redelivery_delay_ms=100, unacked_messages_timeout_ms=10_000
    )
    rig.pump()
    messages = [rig.core.take() for _ in range(3)]
    assert messages[0] is not None
    assert messages[1] is not None
    rig.core.negative_acknowledge(messages[0])
    rig.core.negative_acknowledge(messages[1])
    assert withdraw(rig, (0, 0), (2, 0)) == []
    rig.now += 60_000
    rig.core.tick(rig.now)
    assert rig.core.stats.entries_redelivered == 1


def test_what_was_skipped_does_not_become_a_dead_letter() -> None:
    rig = connected(
        2,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=ConsumerDeadLetterPolicy(1, "dead"),
    )
    rig.broker.counts[0] = 1
    rig.pump()
    for _ in range(2):
        message = rig.core.take()
        assert message is not None
        rig.core.negative_acknowledge(message)
    assert withdraw(rig, (0, 0b10)) == []
    rig.now += 1000
    rig.core.tick(rig.now)
    assert [message._index for message in rig.core.take_dead()] == [1]


@pytest.mark.parametrize(
    ("type", "left"),
    [
        (ConsumerType.Exclusive, 3),
        (ConsumerType.Failover, 3),
        (ConsumerType.Shared, 0),
        (ConsumerType.KeyShared, 0),
    ],
)
def test_without_a_connection_nothing_that_others_may_have_is_handed_out(
    type: ConsumerType, left: int
) -> None:
    rig = connected(0, 0, 0, consumer_type=type)
    rig.pump()
    rig.disconnect()
    assert rig.core.queue_length() == left
    rig.connect()
    rig.pump()
    assert len(rig.places()) == 3
