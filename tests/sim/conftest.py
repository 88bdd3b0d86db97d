"""A seed takes the same branches as the tests of each room, a thousand times each."""

import pytest


@pytest.fixture(autouse=True)
def _untraced(without_coverage: None) -> None:
    pass
