"""Each seed has its own mix of features, and no invariant is violated in any."""

from collections import Counter

import pytest
from sim.life import run_swarm_seed, settings_of, swarm_of
from sim.scenario import Extras
from sim.swarm import FEATURES

from magnetar.testing import KINDS
from magnetar.testing.checker.history import Opened, Received

SEEDS = 300


def test_every_feature_comes_about_as_often_as_its_weight_says() -> None:
    drawn = Counter(name for seed in range(SEEDS) for name in swarm_of(seed).extras.features)
    for name, (weight, _) in FEATURES.items():
        assert 0.5 < drawn[name] / (weight * SEEDS) < 1.5, name


def test_mixes_are_rare_and_so_are_kinds_of_trouble() -> None:
    scenarios = [swarm_of(seed) for seed in range(SEEDS)]
    assert len({scenario.extras.features for scenario in scenarios}) > SEEDS // 2
    assert any(not scenario.kinds for scenario in scenarios)
    assert {kind for scenario in scenarios for kind in scenario.kinds} == set(KINDS)


def test_what_a_swarm_draws_is_what_the_broker_is_set_to() -> None:
    limits = {name for seed in range(SEEDS) for name, _ in swarm_of(seed).extras.limits}
    assert "max_unacked_per_consumer" in limits
    for seed in range(20):
        scenario = swarm_of(seed)
        settings = settings_of(scenario)
        assert all(getattr(settings, name) == value for name, value in scenario.extras.limits)


def test_who_keeps_messages_has_room_for_others() -> None:
    for seed in range(SEEDS):
        scenario = swarm_of(seed)
        if any(plan.withhold for plan in scenario.subscriptions):
            assert "max_unacked_per_consumer" not in dict(scenario.extras.limits)


def _first(feature: str) -> int:
    return next(seed for seed in range(SEEDS) if feature in swarm_of(seed).extras.features)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("seed", sorted({_first(feature) for feature in FEATURES}))
def test_no_invariant_is_violated(seed: int) -> None:
    simulation = run_swarm_seed(seed)
    assert sum(1 for _ in simulation.history.of(Received)) > 3
    assert swarm_of(seed).extras != Extras()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_crew_has_one_client_and_consumers_with_names_of_their_own() -> None:
    seed = next(
        seed
        for seed in range(SEEDS)
        if swarm_of(seed).extras.crews
        and any(plan.consumers > 1 for plan in swarm_of(seed).subscriptions)
    )
    simulation = run_swarm_seed(seed)
    names = {fact.consumer.partition(".")[0] for fact in simulation.history.of(Opened)}
    assert any(name.startswith("s0-c") for name in names)
    assert "publishers" in simulation.programs
    assert not any(name.endswith("-crew") for name in names)
