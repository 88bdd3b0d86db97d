"""Whatever goes wrong while topics are compacted, views have the last of each key."""

import os

import pytest
from sim.compaction_life import run_seed

from magnetar.testing.checker.history import Received

SEEDS = int(os.environ.get("MAGNETAR_SIM_COMPACTION_SEEDS", "3"))


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_views_are_the_last_of_each_key_through_any_trouble(seed: int) -> None:
    assert sum(1 for _ in run_seed(seed).history.of(Received)) > 0
