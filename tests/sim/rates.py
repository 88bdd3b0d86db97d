"""Rates in the swarm: drawn for some lives, and judged in each that has them."""

from dataclasses import replace
from random import Random

from sim.scenario import Scenario

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.testing.checker.checkers import check
from magnetar.testing.checker.rate_checker import held_to_dispatch_rate, held_to_publish_rate
from magnetar.testing.sim.simulation import Simulation

__all__ = ["RATES", "judge_rates", "rated"]

# By setting: so many messages in a second, or any number. What a program does in a life must be
# done in the time that it has with the slowest of them.
RATES: dict[str, tuple[int, ...]] = {
    "publish_rate_messages": (0, 30, 100),
    "publish_rate_per_topic_messages": (0, 30, 100),
    "dispatch_rate_messages": (0, 60, 200),
    "dispatch_rate_per_topic_messages": (0, 60, 200),
    "dispatch_rate_per_subscription_messages": (0, 30, 100),
    "dispatch_rate_per_subscription_bytes": (0, 0, 20_000),
}


def rated(scenario: Scenario, random: Random) -> Scenario:
    """The same with rates, at least one of those that are judged."""
    drawn = {name: random.choice(values) for name, values in RATES.items()}
    if not drawn["publish_rate_messages"]:
        drawn["dispatch_rate_messages"] = drawn["dispatch_rate_messages"] or 100
    if random.random() < 0.2:
        drawn["dispatch_rate_without_backlog"] = False
        drawn["dispatch_rate_messages"] = 0  # nothing is said of those who are spared
        drawn["publish_rate_messages"] = drawn["publish_rate_messages"] or 50
    limits = {**dict(scenario.extras.limits), **drawn}
    features = (*scenario.extras.features, "rates")
    extras = replace(scenario.extras, limits=tuple(limits.items()), features=features)
    return replace(scenario, extras=extras)


def judge_rates(simulation: Simulation, settings: BrokerSettings, scenario: Scenario) -> None:
    """Raises ViolationError if more went through than the broker was told to let."""
    history, starts = simulation.history, simulation.broker.starts_ns
    rate = settings.dispatch_rate_messages
    if rate:
        check(history, [lambda facts: held_to_dispatch_rate(facts, rate, starts)])
    published = settings.publish_rate_messages
    if published:
        publishers = len(scenario.producers) * max(scenario.partitions, 1)
        check(history, [lambda facts: held_to_publish_rate(facts, published, starts, publishers)])
