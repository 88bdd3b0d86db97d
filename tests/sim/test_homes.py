"""The broker's directory is lost, copied and restored: ids still name one message (I9)."""

import pytest
from sim.homes import count_facts

from magnetar.testing.checker.history import Received, Stored

SEEDS = 20
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_id_names_two_messages_wherever_the_broker_lives(seed: int) -> None:
    count = count_facts(seed)
    assert count[Stored] > 80
    assert count[Received] > 80
