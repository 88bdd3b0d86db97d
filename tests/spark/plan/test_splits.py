"""Splits cover ranges: nothing twice, nothing left out, whatever is asked for."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.arrow.plan.range_end import BEGINNING, Place, Range
from magnetar.spark.plan.splits import Ledgers, Piece, Weights, pieces_of, plan_splits


@st.composite
def topics(draw: st.DrawFn) -> tuple[Range, list[tuple[int, int]]]:
    """A range of a topic that has some ledgers, and these."""
    ids = sorted(draw(st.sets(st.integers(0, 20), min_size=1, max_size=5)))
    ledgers = [(id, draw(st.integers(0, 30))) for id in ids]
    at = st.sampled_from(ledgers).flatmap(
        lambda ledger: st.tuples(st.just(ledger[0]), st.integers(0, ledger[1]), st.integers(0, 3))
    )
    first, last = sorted([draw(at), draw(at)])
    start: Place = draw(st.sampled_from([first, BEGINNING]))
    return ("t", start, last), ledgers


def chained(splits: list[Range], start: Place, end: Place) -> bool:
    """Whether each split begins where the one before ends, from start to end."""
    at = start
    for _, first, last in splits:
        if first != at or not first < last:
            return False
        at = last
    return at == end


@given(topics(), st.booleans(), st.integers(0, 40), st.integers(0, 50), st.integers(0, 500))
def test_splits_cover_the_range(
    topic: tuple[Range, list[tuple[int, int]]],
    told: bool,
    partitions_min: int,
    rows_max: int,
    bytes_max: int,
) -> None:
    (name, start, end), known = topic
    if start >= end:
        return
    ledgers = Ledgers()
    if told:
        ledgers.add(name, known)
    splits = plan_splits(
        pieces_of([(name, start, end)], ledgers),
        partitions_min=partitions_min,
        rows_max=rows_max,
        bytes_max=bytes_max,
        weights={name: Weights(3.0, 40.0)},
    )
    assert chained(splits, start, end)
    # Entries are divided by the ends of the range alone.
    assert all(last[2] == 0 for _, _, last in splits[:-1])


def test_one_ledger_is_divided_evenly() -> None:
    pieces = pieces_of([("t", (5, 10, 0), (5, 20, 0))], Ledgers())
    assert plan_splits(pieces, partitions_min=3) == [
        ("t", (5, 10, 0), (5, 13, 0)),
        ("t", (5, 13, 0), (5, 16, 0)),
        ("t", (5, 16, 0), (5, 20, 0)),
    ]


def test_a_range_that_begins_inside_of_a_batch_keeps_its_index() -> None:
    pieces = pieces_of([("t", (5, 10, 7), (5, 11, 3))], Ledgers())
    assert plan_splits(pieces, partitions_min=9) == [
        ("t", (5, 10, 7), (5, 11, 0)),
        ("t", (5, 11, 0), (5, 11, 3)),
    ]


def test_ledgers_that_are_not_known_stay_whole() -> None:
    pieces = pieces_of([("t", (3, 4, 0), (5, 2, 0))], Ledgers())
    assert [piece.entries for piece in pieces] == [-1, 2]
    assert plan_splits(pieces, partitions_min=3) == [
        ("t", (3, 4, 0), (5, 0, 0)),
        ("t", (5, 0, 0), (5, 1, 0)),
        ("t", (5, 1, 0), (5, 2, 0)),
    ]
    assert len(pieces_of([("t", (3, 4, 0), (5, 0, 0))], Ledgers())) == 1


def test_partitions_share_what_is_asked_for_by_their_entries() -> None:
    pieces = [Piece("a", (1, 0, 0), (1, 90, 0), 90), Piece("b", (2, 0, 0), (2, 10, 0), 10)]
    splits = plan_splits(pieces, partitions_min=10)
    assert [topic for topic, _, _ in splits] == ["a"] * 9 + ["b"]


def test_splits_are_bounded_by_rows_and_bytes() -> None:
    pieces = [Piece("a", (1, 0, 0), (1, 100, 0), 100)]
    weights = {"a": Weights(10.0, 1000.0)}
    assert len(plan_splits(pieces, rows_max=100, weights=weights)) == 10
    assert len(plan_splits(pieces, bytes_max=5000, weights=weights)) == 20
    assert len(plan_splits(pieces, rows_max=100)) == 1
