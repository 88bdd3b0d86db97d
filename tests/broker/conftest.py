"""What the tests of the broker share: a broker of each test's own, closed when that ends."""

from collections.abc import Iterator

import pytest
from support.world import World


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()
