"""Lives of the swarm in which topics are compacted."""

from collections import Counter
from functools import cache
from typing import Any

from sim.life import compacted, run_scenario, swarm_of

from magnetar.testing.checker.history import Fact
from magnetar.testing.sim.simulation import Simulation


def run_seed(seed: int, **options: Any) -> Simulation:
    """Runs a seed and judges it. Raises what went wrong."""
    return run_scenario(seed, compacted(swarm_of(seed)), **options)


@cache
def count_facts(seed: int) -> Counter[type[Fact]]:
    """What a seed brought, kind by kind; it is run once. Raises as `run_seed` does."""
    return Counter(type(fact) for fact in run_seed(seed).history.facts)
