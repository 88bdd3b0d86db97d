"""Lives of the swarm in which the broker has rates."""

from collections import Counter
from functools import cache
from typing import Any

from sim.life import run_scenario, swarm_of
from sim.rates import rated
from sim.scenario import Scenario

from magnetar.testing.checker.history import Fact
from magnetar.testing.sim.loop import SimLoop
from magnetar.testing.sim.simulation import Simulation


def scenario_of(seed: int) -> Scenario:
    scenario = swarm_of(seed)
    if "rates" in scenario.extras.features:
        return scenario
    return rated(scenario, SimLoop(seed).random_for("rates of a life"))


def run_seed(seed: int, **options: Any) -> Simulation:
    """Runs a seed and judges it. Raises what went wrong."""
    return run_scenario(seed, scenario_of(seed), **options)


@cache
def count_facts(seed: int) -> Counter[type[Fact]]:
    """What a seed brought, kind by kind; it is run once. Raises as `run_seed` does."""
    return Counter(type(fact) for fact in run_seed(seed).history.facts)
