"""Offsets as Spark keeps them: the same text for the same places, whatever their order."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.arrow.plan.range_end import BEGINNING, behind_entry, entry_end, parse_place
from magnetar.errors import SettingsError, UsageError
from magnetar.spark.plan.offsets import Offsets, offsets_of

NUMBER = st.integers(0, 50)
PLACES = st.tuples(NUMBER, NUMBER, st.integers(0, 5)) | st.just(BEGINNING)
OFFSETS = st.dictionaries(st.sampled_from("abcdef"), PLACES)


@given(OFFSETS)
def test_the_order_of_topics_does_not_count(
    places: dict[str, tuple[int, int, int]],
) -> None:
    shuffled = dict(reversed(list(places.items())))
    assert json.dumps(Offsets(places).to_value()) == json.dumps(Offsets(shuffled).to_value())


@given(OFFSETS)
def test_they_come_back_from_json_as_the_same_text(
    places: dict[str, tuple[int, int, int]],
) -> None:
    sizes = {topic: 9 for topic, place in places.items() if place[2]}
    offsets = Offsets(places, sizes, {topic: (3, 4, 0) for topic in places if topic < "c"})
    text = json.dumps(offsets.to_value())
    back = offsets_of(json.loads(text))
    assert (back, back.sizes, back.holds) == (offsets, offsets.sizes, offsets.holds)
    assert hash(back) == hash(offsets)
    # Spark writes what it was given with keys as they are, and compares the text.
    assert json.dumps(back.to_value()) == text == json.dumps(offsets.to_value(), sort_keys=True)


@given(OFFSETS, OFFSETS)
def test_ranges_are_what_lies_between(
    start: dict[str, tuple[int, int, int]], end: dict[str, tuple[int, int, int]]
) -> None:
    ranges = Offsets(start).ranges_to(Offsets(end))
    assert [topic for topic, _, _ in ranges] == sorted(
        topic for topic in end if start.get(topic, BEGINNING) < end[topic]
    )
    for topic, first, last in ranges:
        assert (first, last) == (start.get(topic, BEGINNING), end[topic])


def test_a_partition_that_was_added_is_read_from_its_beginning() -> None:
    before = Offsets({"t-partition-0": (3, 5, 0)})
    after = Offsets({"t-partition-0": (3, 5, 0), "t-partition-1": (4, 2, 0)})
    assert before.ranges_to(after) == [("t-partition-1", BEGINNING, (4, 2, 0))]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("[", "not JSON"),
        (3, "not a JSON object"),
        ({"v": 2, "topics": {}}, "version 2"),
        ({"v": 1}, "`topics` is missing"),
        ({"v": 1, "topics": {"t": 3}}, "has no place"),
        ({"v": 1, "topics": {"t": {"l": 1, "e": "x", "b": 0}}}, "is not a number"),
        ({"v": 1, "topics": {"t": {"l": 1, "e": True, "b": 0}}}, "is not a number"),
        ({"v": 1, "topics": {"t": {"l": 1, "e": 1, "b": 0, "h": 3}}}, "is not an entry"),
        ({"v": 1, "topics": {"t": {"l": 1, "e": 1, "b": 0, "h": [1]}}}, "is not an entry"),
    ],
)
def test_what_is_no_offset_is_refused(value: object, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        offsets_of(value)


def test_acks_do_not_go_beyond_what_is_held() -> None:
    places = {"a": (1, 5, 2), "b": (1, 5, 2), "c": (1, 5, 2)}
    offsets = Offsets(places, holds={"b": (1, 3, 0), "c": (1, 6, 0)})
    assert [offsets.acked(topic) for topic in "abc"] == [(1, 5, 2), (1, 3, 0), (1, 5, 2)]


def test_an_offset_is_compared_with_offsets_alone() -> None:
    assert Offsets() != {}
    assert offsets_of(json.dumps(Offsets({"t": (1, 2, 3)}).to_value())).places == {"t": (1, 2, 3)}


def test_places_are_read() -> None:
    assert parse_place("o", "7:4:2") == (7, 4, 2)
    assert behind_entry(-1, -1) == BEGINNING
    assert entry_end((7, 4, 2)) == (7, 5)
    for text in ("", "7", "7:4:2:1", "a:b", "7:-1", "7:٣", "7:99999999999999999999"):
        with pytest.raises(SettingsError, match="is not a message id"):
            parse_place("o", text)
