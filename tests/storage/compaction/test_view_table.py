"""The positions of a view, against a sorted list."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import CorruptionError
from magnetar.model import Position
from magnetar.storage.compaction import view_table
from magnetar.storage.compaction.view_table import ViewTable, piece_count

POSITIONS = st.lists(
    st.builds(Position, st.integers(1, 6), st.integers(0, 20)), unique=True, max_size=40
).map(sorted)
ANY = st.builds(Position, st.integers(-1, 7), st.integers(-1, 22))


def table_of(positions: list[Position]) -> ViewTable:
    table = ViewTable()
    for position in positions:
        table.add(position)
    return table


@given(positions=POSITIONS, asked=st.lists(ANY, max_size=20))
def test_it_finds_what_a_sorted_list_finds(
    positions: list[Position], asked: list[Position]
) -> None:
    table = table_of(positions)
    assert len(table) == len(positions)
    assert table.ascends()
    assert [table.position(i) for i in range(len(table))] == positions
    for position in asked:
        assert table.first_from(position) == bisect_left(positions, position)


@given(positions=POSITIONS, size=st.integers(1, 9))
def test_it_comes_back_from_its_pieces(positions: list[Position], size: int) -> None:
    before, view_table.PIECE_POSITIONS = view_table.PIECE_POSITIONS, size  # type: ignore[misc]
    try:
        table = table_of(positions)
        pieces = [table.encode(i) for i in range(piece_count(len(positions)))]
    finally:
        view_table.PIECE_POSITIONS = before  # type: ignore[misc]
    back = ViewTable()
    for piece in pieces:
        back.take_in("index", piece)
    assert [back.position(i) for i in range(len(back))] == positions


def test_what_is_no_piece_is_damage() -> None:
    piece = table_of([Position(3, 1), Position(3, 2)]).encode(0)
    for cut in range(1, len(piece)):
        with pytest.raises(CorruptionError):
            ViewTable().take_in("index", piece[:cut])


def test_positions_that_do_not_ascend_are_seen() -> None:
    one = table_of([Position(3, 5)]).encode(0)
    for other in (Position(3, 5), Position(3, 4), Position(2, 9)):
        table = ViewTable()
        table.take_in("index", one)
        table.take_in("index", table_of([other]).encode(0))
        assert not table.ascends()
