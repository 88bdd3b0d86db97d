"""The real store on a disk that rots: what was receipted is there, or somebody is told."""

import os

import pytest
from sim.rot_life import run_seed

# Each takes a second, and is a store of several lives with eight damaged copies of each.
SEEDS = max(2, int(os.environ.get("MAGNETAR_SIM_SEEDS", "50")) // 12)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_damage_is_never_silent_and_passing_trouble_leaves_nothing(seed: int) -> None:
    _, oracle = run_seed(seed)
    assert oracle.receipted


def test_the_seeds_bring_every_shortage_and_every_outcome() -> None:
    outcomes: set[str] = set()
    lines = ""
    for seed in range(3):
        loop, oracle = run_seed(seed)
        outcomes |= set(oracle.outcomes)
        lines += loop.trace.text()
    assert outcomes == {"whole", "told", "refused"}
    for sign in ("Too many open files", "Cannot allocate memory", "No space left", "jumps by -"):
        assert sign in lines
