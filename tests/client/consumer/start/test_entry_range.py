"""Ranges of entries: in order, once each, with what is missed known."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.consumer.start.entry_range import FIRST_PERMITS, PERMITS_MAX, At, EntryRange
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandMessage, encode_entry
from magnetar.protocol.metadata import MessageMetadata


def message(ledger: int, entry: int, count: int | None = None) -> CommandMessage:
    metadata = MessageMetadata("p", 0, 0)
    metadata.num_messages_in_batch = count
    raw = encode_entry(metadata.encode(), b"x")
    return CommandMessage(1, MessageIdData(ledger, entry), raw, 0, None, None)


def taken(range: EntryRange, *entries: At) -> list[At]:
    found = [range.take(message(*at)) for at in entries]
    return [(int(raw.ledger_id), int(raw.entry_id)) for raw in found if raw is not None]


def test_a_range_has_its_start_and_not_its_end() -> None:
    range = EntryRange((7, 1), (7, 3))
    assert taken(range, (7, 0), (7, 1), (7, 2), (7, 3), (9, 0)) == [(7, 1), (7, 2)]
    assert range.done
    assert range.gaps == []


def test_what_comes_twice_is_dropped() -> None:
    range = EntryRange((7, 0), None)
    assert taken(range, (7, 0), (7, 1), (7, 0), (7, 1), (7, 2)) == [(7, 0), (7, 1), (7, 2)]
    assert not range.done


def test_gaps_are_known() -> None:
    range = EntryRange((7, 0), (9, 5))
    assert taken(range, (7, 0), (7, 3), (8, 0), (9, 9)) == [(7, 0), (7, 3), (8, 0)]
    assert range.gaps == [((7, 1), (7, 3)), ((7, 4), (8, 0)), ((8, 1), (9, 5))]
    assert range.done


def test_a_beginning_misses_nothing_before_it() -> None:
    range = EntryRange((-1, -1), (7, 9))
    assert taken(range, (7, 3)) == [(7, 3)]
    assert range.gaps == []


def test_a_topic_that_ends_before_the_range_ends_it() -> None:
    range = EntryRange((7, 0), (8, 0))
    taken(range, (7, 0))
    range.nothing_left((7, 2))
    assert range.next == (7, 1), "there are entries to come"
    range.nothing_left((7, 0))
    assert range.done
    assert range.gaps == [((7, 1), (8, 0))]
    range.nothing_left((7, 0))
    assert len(range.gaps) == 1
    empty = EntryRange((-1, -1), (8, 0))
    empty.nothing_left((-1, -1))
    assert empty.done
    endless = EntryRange((7, 0), None)
    endless.nothing_left((-1, -1))
    assert not endless.done


@given(st.lists(st.integers(1, 50), min_size=1, max_size=200))
def test_permits_suffice_and_no_more_than_the_range_can_use(sizes: list[int]) -> None:
    range = EntryRange((7, 0), (7, len(sizes)))
    permits = int(range.connected())
    assert 0 < permits <= min(FIRST_PERMITS, len(sizes))
    largest = max(sizes)
    for entry, size in enumerate(sizes):
        assert permits > 0, "the broker waits for permits, and we for it"
        range.take(message(7, entry, size))
        permits -= size
        if given := int(range.due()):
            permits += given
            assert permits <= max((len(sizes) - entry - 1) * largest, 1)
    assert range.done
    assert range.due() == 0


def test_permits_are_bounded() -> None:
    range = EntryRange((7, 0), None)
    assert range.connected() == FIRST_PERMITS
    range.take(message(7, 0, 1000))
    assert range.due() == PERMITS_MAX
    assert range.due() == 0
    assert range.connected() == PERMITS_MAX


def test_a_damaged_entry_is_handed_on_without_metadata() -> None:
    range = EntryRange((7, 0), None)
    raw = range.take(CommandMessage(1, MessageIdData(7, 0), b"\x00\x00\xff\xff", 0, None, None))
    assert raw is not None
    assert (raw.metadata, raw.messages, raw.size) == (None, 1, 4)
