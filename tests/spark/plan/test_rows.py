"""Rows are numbered by what they hold, so a second run numbers them alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import UsageError
from magnetar.spark.plan.rows import (
    ROWS_MAX,
    Row,
    content_key,
    digest_of,
    digest_of_values,
    first_number,
)

ROWS = st.tuples(
    st.sampled_from(["t", "u", "1:t"]),
    st.none() | st.binary(max_size=4),
    st.none() | st.text(max_size=3),
    st.none() | st.binary(max_size=3),
    st.none() | st.integers(0, 100),
    st.none() | st.integers(0, 100),
    st.none() | st.lists(st.tuples(st.text(max_size=2), st.text(max_size=2))).map(tuple),
)


@given(ROWS, ROWS)
def test_different_rows_have_different_keys(one: Row, other: Row) -> None:
    # Without properties and with none is the same message.
    assert (content_key(one) == content_key(other)) == (
        (*one[:6], one[6] or ()) == (*other[:6], other[6] or ())
    )


@given(st.lists(ROWS))
def test_the_order_that_rows_come_in_does_not_count(rows: list[Row]) -> None:
    keys = sorted(map(content_key, rows))
    again = sorted(map(content_key, reversed(rows)))
    assert digest_of(keys, ["t"]) == digest_of(again, ["t"])


def test_other_rows_or_targets_have_another_digest() -> None:
    digests = {
        digest_of([b"a"], ["t"]),
        digest_of([b"b"], ["t"]),
        digest_of([b"a", b"a"], ["t"]),
        digest_of([b"a"], ["t", "u"]),
        digest_of([], []),
    }
    assert len(digests) == 5


def test_numbers_grow_from_micro_batch_to_micro_batch() -> None:
    assert first_number(5) + ROWS_MAX == first_number(6)
    for bad in (-1, 1 << 31):
        with pytest.raises(UsageError, match="beyond"):
            first_number(bad)


def test_values_have_a_digest_of_their_own() -> None:
    digests = {
        digest_of_values(b"ab", b"12", ["t"]),
        digest_of_values(b"a", b"12", ["t"]),
        digest_of_values(b"b2", b"1a", ["t"]),
        digest_of_values(b"2ab", b"1", ["t"]),
        digest_of_values(b"ab", b"12", ["t", "u"]),
        digest_of([b"ab"], ["t"]),
    }
    assert len(digests) == 6
