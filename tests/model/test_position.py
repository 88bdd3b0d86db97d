"""Positions are values that sort as the topic does."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar import Position

NUMBERS = st.integers(-1, 3) | st.integers(-1, 2**63 - 1)
POSITIONS = st.builds(Position, NUMBERS, NUMBERS)


@given(POSITIONS, POSITIONS)
def test_order_equality_and_hash_are_those_of_the_pair(a: Position, b: Position) -> None:
    x, y = (a.ledger_id, a.entry_id), (b.ledger_id, b.entry_id)
    assert (a == b, a != b) == (x == y, x != y)
    assert (a < b, a <= b, a > b, a >= b) == (x < y, x <= y, x > y, x >= y)
    assert hash(a) == hash(x)


@given(POSITIONS)
def test_positions_pickle_and_copy(position: Position) -> None:
    assert pickle.loads(pickle.dumps(position)) == position
    assert copy.copy(position) == copy.deepcopy(position) == position


def test_text_is_what_pulsar_prints() -> None:
    assert (str(Position(7, -1)), repr(Position(7, -1))) == ("7:-1", "Position(7, -1)")


def test_other_things_are_neither_equal_nor_comparable() -> None:
    assert Position(1, 2) != (1, 2)
    for compare in ("__lt__", "__le__", "__gt__", "__ge__"):
        assert getattr(Position(1, 2), compare)((1, 2)) is NotImplemented


def test_positions_take_no_new_values() -> None:
    with pytest.raises(AttributeError):
        setattr(Position(1, 2), "anything", 1)  # noqa: B010
