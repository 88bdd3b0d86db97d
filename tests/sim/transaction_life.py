"""The life of a seed in which programs transact, for those who want no other."""

from collections import Counter
from functools import cache
from typing import Any

from sim import life

from magnetar.testing.checker.history import Fact
from magnetar.testing.sim.simulation import Simulation


def run_seed(seed: int, **options: Any) -> Simulation:
    """Runs it and judges it. Raises what went wrong."""
    return life.run_scenario(seed, life.transactions_of(seed), **options)


@cache
def count_facts(seed: int) -> Counter[type[Fact]]:
    """What a seed brought, kind by kind; it is run once. Raises as `run_seed` does."""
    return Counter(type(fact) for fact in run_seed(seed).history.facts)
