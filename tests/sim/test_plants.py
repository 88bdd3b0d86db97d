"""A check that cannot fail is no check: every planted bug is found within 200 seeds.

MAGNETAR_SIM_PLANT_SEEDS says how many seeds may be tried; the first is one that is known. Those
that are rare are looked for only where it allows more.
"""

import os
from collections.abc import Iterable

import pytest
from sim import compaction_life, homes, life, rate_life, rot_life, transaction_life
from sim.planted import PLANTS
from sim.plants import Plant

import magnetar
from magnetar.errors import MagnetarError

SEEDS_FEW = 200
SEEDS_MAX = int(os.environ.get("MAGNETAR_SIM_PLANT_SEEDS", str(SEEDS_FEW)))
FINDABLE = [plant for plant in PLANTS if SEEDS_MAX > SEEDS_FEW or not plant.rare]

LIVES = {
    "life": life,
    "compaction": compaction_life,
    "homes": homes,
    "rates": rate_life,
    "rot": rot_life,
    "transactions": transaction_life,
}


def find(plant: Plant, seeds: Iterable[int]) -> int | None:
    """The first seed that fails with the bug in place, and only because of it."""
    with plant.planted() as calls:
        for seed in seeds:
            calls.clear()
            try:
                LIVES[plant.life].run_seed(seed)
            except (AssertionError, KeyError, MagnetarError, ExceptionGroup):
                assert calls, "the planted bug was never executed"
                return seed
    return None


@pytest.mark.skipif(magnetar.COMPILED, reason="compiled code cannot be changed")
@pytest.mark.parametrize("plant", FINDABLE, ids=lambda plant: plant.name)
def test_a_planted_bug_is_found(plant: Plant) -> None:
    found = find(plant, [plant.seed, *range(SEEDS_MAX)])
    assert found is not None, f"{SEEDS_MAX} seeds did not find that {plant.name}"
    if found != plant.seed or not os.environ.get("MAGNETAR_ONCE"):
        assert LIVES[plant.life].count_facts(found)  # without the bug it does not fail


@pytest.mark.once
@pytest.mark.parametrize(("kind", "seed"), sorted({(plant.life, plant.seed) for plant in PLANTS}))
def test_its_seed_does_not_fail_without_the_bug(kind: str, seed: int) -> None:
    assert LIVES[kind].count_facts(seed)


def test_there_are_enough_plants() -> None:
    assert len(PLANTS) >= 10
    assert len({plant.name for plant in PLANTS}) == len(PLANTS)
