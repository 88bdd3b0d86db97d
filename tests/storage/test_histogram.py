"""Histograms count as a list of all figures would."""

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.histogram import Histogram

bounds = st.lists(st.integers(0, 1000), min_size=1, max_size=8, unique=True).map(sorted)
figures = st.lists(st.tuples(st.integers(-50, 1100), st.integers(1, 5)), max_size=40)


@given(bounds, figures)
def test_each_figure_is_counted_in_the_first_bucket_that_it_fits(
    bounds: list[int], figures: list[tuple[int, int]]
) -> None:
    found = Histogram(tuple(bounds))
    plain = [0] * (len(bounds) + 1)
    for figure, times in figures:
        found.add(figure, times)
        plain[bisect_left(bounds, max(figure, 0))] += times
    assert found.counts == plain
    assert found.sum == sum(max(figure, 0) * times for figure, times in figures)
