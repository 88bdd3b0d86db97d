"""Keys: positions as numbers that are small enough, however wide ledger ids are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.ack import Ledgers
from magnetar.ack.ledgers import ENTRY_COUNT_MAX, GONE_MAX, KEY_MAX, NO_KEY
from magnetar.model import Position
from magnetar.model.message_id_data import MessageIdData

WIDE = 2**53 - 100
IDS = st.lists(st.integers(0, 2**53), min_size=1, max_size=8, unique=True).map(sorted)
ENTRIES = st.integers(-1, ENTRY_COUNT_MAX - 1)


def ledgers_of(*ids: int) -> Ledgers:
    ledgers = Ledgers()
    for id in ids:
        ledgers.add(id, 3)
    return ledgers


@given(IDS, st.data())
def test_keys_sort_as_positions_do_and_fit_62_bits(ids: list[int], data: st.DataObject) -> None:
    ledgers = ledgers_of(*ids)
    places = data.draw(st.lists(st.tuples(st.sampled_from(ids), ENTRIES), min_size=1))
    keys = [ledgers.key(*place) for place in places]
    assert sorted(keys) == [ledgers.key(*place) for place in sorted(places)]
    assert all(0 <= key < KEY_MAX < 2**62 for key in keys)


@given(IDS, st.data())
def test_a_key_is_read_as_the_position_that_it_was_made_of(
    ids: list[int], data: st.DataObject
) -> None:
    ledgers = ledgers_of(*ids)
    place = st.builds(Position, st.sampled_from(ids), st.integers(0, ENTRY_COUNT_MAX - 1))
    for position in data.draw(st.lists(place)):
        key = ledgers.key(position.ledger_id, position.entry_id)
        assert ledgers.position(key) == position
        assert ledgers.ledger_of(key) == position.ledger_id


@pytest.mark.parametrize("place", [(6, 0), (5, -2), (5, ENTRY_COUNT_MAX), (-1, -1), (2**63 - 1, 0)])
def test_what_is_not_here_has_no_key(place: tuple[int, int]) -> None:
    ledgers = ledgers_of(5, WIDE)
    assert ledgers.key(*place) == NO_KEY
    assert ledgers.keys([MessageIdData(*place), MessageIdData(WIDE, 1)]) == [ledgers.key(WIDE, 1)]


def test_keys_of_trimmed_ledgers_can_be_read_for_a_while() -> None:
    ledgers = ledgers_of(*range(5, 5 + GONE_MAX + 3))
    first = ledgers.key(5, 2)
    for id in range(5, 5 + GONE_MAX):
        ledgers.remove(id)
    assert ledgers.position(first) == Position(5, 2)
    assert ledgers.key(5, 2) == first
    ledgers.remove(5 + GONE_MAX)
    assert ledgers.position(first) == Position(-1, 2)
    assert ledgers.key(5, 2) == NO_KEY
    last = ledgers.key(5 + GONE_MAX + 2, 1)
    assert ledgers.position(last) == Position(5 + GONE_MAX + 2, 1)


def test_the_number_of_a_ledger_that_is_here_is_never_forgotten() -> None:
    """Of empty ledgers any may be trimmed, and the oldest stays."""
    ledgers = ledgers_of(5)
    for id in range(6, 6 + GONE_MAX + 3):
        ledgers.add(id, 0)
    for id in range(6, 6 + GONE_MAX + 3):
        ledgers.remove(id)
    assert ledgers.position(ledgers.key(5, 1)) == Position(5, 1)
