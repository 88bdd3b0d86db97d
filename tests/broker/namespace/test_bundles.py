"""Bundles: every topic is in one of them, however they are split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.broker.namespace.bundles import BUNDLES_DEFAULT, Bundles, bundles_of
from magnetar.errors import SettingsError


def bounds(name: str) -> tuple[int, int]:
    low, _, high = name.partition("_")
    return int(low, 16), int(high, 16)


@given(st.integers(1, 300), st.lists(st.integers(0, 10_000), max_size=20), st.text())
def test_a_topic_is_in_the_one_bundle_that_has_its_hash(
    count: int, splits: list[int], topic: str
) -> None:
    bundles = Bundles.even(count)
    for one in splits:
        names = bundles.names()
        bundles = bundles.split(names[one % len(names)])
    assert len(bundles.names()) == count + len(splits)
    place = bundles.position(topic)
    found = [
        name
        for name in bundles.names()
        if bounds(name)[0] <= place < bounds(name)[1] or place == bounds(name)[1] == 2**32 - 1
    ]
    assert [bundles.of(topic)] == found
    assert bundles_of(bundles.boundaries).names() == bundles.names()


def test_they_are_those_of_apache_pulsar() -> None:
    """As its brokers answered where topics are."""
    bundles = bundles_of([])
    assert len(bundles.names()) == BUNDLES_DEFAULT
    topic = "persistent://walk1/persistent-reads/p-partition-1"
    assert bundles.position(topic) == 1808862040
    assert bundles.of(topic) == "0x40000000_0x80000000"


def test_what_cannot_be_split_is_refused() -> None:
    bundles = Bundles([0, 1, 2**32 - 1])
    with pytest.raises(SettingsError, match="cannot be split"):
        bundles.split("0x00000000_0x00000001")
    with pytest.raises(SettingsError, match="there is no bundle"):
        bundles.split("0x00000000_0x00000002")
    for count in (0, -1, 2**16 + 1):
        with pytest.raises(SettingsError):
            Bundles.even(count)
