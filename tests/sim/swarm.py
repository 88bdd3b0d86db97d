"""Swarm: each seed draws its own mix of features, each on or off by a weight of its own.

A mix that has everything in it finds less than many that leave things out: what is frequent
hides what is rare. So features are drawn one by one, over a scenario that is drawn as `life.py`
draws it, and kinds of trouble too, some seeds with few of them and some with many.

| feature       | weight | what it does                                                           |
|---------------|--------|------------------------------------------------------------------------|
| crowd         | 0.25   | up to four producers and three subscriptions                           |
| crews         | 0.3    | consumers of a subscription are one program with one client; producers |
|               |        | are another                                                            |
| slow disk     | 0.2    | every write takes up to a second, from the beginning to the end        |
| space         | 0.2    | the disk is full again and again, in the middle of what is done        |
| clocks        | 0.15   | the time of day jumps, besides whatever else goes wrong                |
| storm         | 0.15   | trouble comes fifty times a second                                     |
| large         | 0.2    | payloads up to 3 kB, of all sizes                                      |
| few, many     | 0.2    | 20 messages of a producer, or 400                                      |
| tiny ledgers  | 0.2    | a ledger has one or two entries                                        |
| small reads   | 0.2    | the broker reads and hands out few entries at a time                   |
| few unacked   | 0.2    | a consumer may hold few messages, a subscription not many more         |
| short sight   | 0.15   | Key_Shared looks ahead over few entries                                |
| narrow pipes  | 0.15   | few publishes are under way on a connection, and little waits for it   |
| other hashes  | 0.15   | Key_Shared splits the range of hashes instead of consistent hashing    |
| snapshots     | 0.15   | deduplication writes down what it knows after each entry               |
| odd queues    | 0.3    | receiver queues of sizes that nobody would choose                      |
| hot keys      | 0.2    | one key, or forty                                                      |
| nacks         | 0.2    | a third of all messages is refused                                     |
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from sim.scenario import (
    ProducerPlan,
    Scenario,
    SubscriptionPlan,
    draw,
    draw_edges,
    draw_producer,
    draw_subscription,
    sharpen,
    vary,
)

from magnetar.testing.sim.trouble import KINDS

Change = Callable[[Scenario, Random], Scenario]


def draw_swarm(random: Random) -> Scenario:
    """One scenario; everything is drawn from one stream."""
    scenario = sharpen(draw(random), random)
    share = random.choice((0.0, 0.1, 0.3, 0.6))
    kinds = tuple(kind for kind in KINDS if random.random() < share)
    scenario = replace(scenario, kinds=kinds, rush=random.random() < 0.15)
    chosen = [name for name, (weight, _) in FEATURES.items() if random.random() < weight]
    for name in chosen:
        scenario = FEATURES[name][1](scenario, random)
    scenario = vary(scenario, random)
    if not any(plan.seek_share for plan in scenario.subscriptions):
        scenario = replace(scenario, edges=draw_edges(random))
    return _spare(replace(scenario, extras=replace(scenario.extras, features=tuple(chosen))))


def _spare(scenario: Scenario) -> Scenario:
    """Takes out what cannot go together."""
    limits = dict(scenario.extras.limits)
    if any(plan.withhold for plan in scenario.subscriptions):
        # What is kept unacked would leave no room for anything else.
        limits.pop("max_unacked_per_consumer", None)
        limits.pop("max_unacked_per_subscription", None)
    return replace(scenario, extras=replace(scenario.extras, limits=tuple(limits.items())))


def _crowd(scenario: Scenario, random: Random) -> Scenario:
    producers = [*scenario.producers]
    while len(producers) < 4 and random.random() < 0.7:
        producers.append(draw_producer(random, f"p{len(producers)}"))
    chunks = any(producer.batching == "chunks" for producer in producers)
    subscriptions = [
        replace(plan, withhold=plan.withhold and not chunks) for plan in scenario.subscriptions
    ]
    while len(subscriptions) < 3 and random.random() < 0.7:
        name = f"s{len(subscriptions)}"
        subscriptions.append(draw_subscription(random, name, chunks=chunks))
    return replace(scenario, producers=tuple(producers), subscriptions=tuple(subscriptions))


def _with_kind(kind: str) -> Change:
    def change(scenario: Scenario, random: Random) -> Scenario:
        return replace(scenario, kinds=tuple(sorted({*scenario.kinds, kind})))

    return change


def _crews(scenario: Scenario, random: Random) -> Scenario:
    return replace(scenario, extras=replace(scenario.extras, crews=True))


def _large(scenario: Scenario, random: Random) -> Scenario:
    return replace(scenario, extras=replace(scenario.extras, payload_max=3000))


def _limits(**choices: tuple[int, ...]) -> Change:
    """Each setting of the broker is one of some values."""

    def change(scenario: Scenario, random: Random) -> Scenario:
        drawn = {name: random.choice(values) for name, values in choices.items()}
        limits = {**dict(scenario.extras.limits), **drawn}
        return replace(scenario, extras=replace(scenario.extras, limits=tuple(limits.items())))

    return change


def _slow_disk(scenario: Scenario, random: Random) -> Scenario:
    slow_s = random.choice((0.05, 0.3, 1.0))
    return replace(scenario, extras=replace(scenario.extras, slow_disk_s=slow_s))


def _storm(scenario: Scenario, random: Random) -> Scenario:
    return replace(scenario, gap_s=0.02, seconds=3.0)


def _messages(scenario: Scenario, random: Random) -> Scenario:
    return replace(scenario, extras=replace(scenario.extras, messages_max=random.choice((20, 400))))


def _tiny_ledgers(scenario: Scenario, random: Random) -> Scenario:
    return replace(scenario, ledger_entries_max=random.choice((1, 2)))


def _each_plan(change: Callable[[SubscriptionPlan, Random], SubscriptionPlan]) -> Change:
    def apply(scenario: Scenario, random: Random) -> Scenario:
        plans = tuple(change(plan, random) for plan in scenario.subscriptions)
        return replace(scenario, subscriptions=plans)

    return apply


def _odd_queue(plan: SubscriptionPlan, random: Random) -> SubscriptionPlan:
    return replace(plan, queue_size=random.choice((0, 1, 2, 4, 7, 33, 1000)))


def _nacks(plan: SubscriptionPlan, random: Random) -> SubscriptionPlan:
    return replace(plan, nack_share=0.33) if random.random() < 0.7 else plan


def _hot_keys(scenario: Scenario, random: Random) -> Scenario:
    def change(producer: ProducerPlan) -> ProducerPlan:
        return replace(producer, keys=random.choice((1, 40)))

    return replace(scenario, producers=tuple(change(one) for one in scenario.producers))


# By name: how often, and what it makes of a scenario.
FEATURES: dict[str, tuple[float, Change]] = {
    "crowd": (0.25, _crowd),
    "crews": (0.3, _crews),
    "slow disk": (0.2, _slow_disk),
    "space": (0.2, _with_kind("full")),
    "clocks": (0.15, _with_kind("clock")),
    "storm": (0.15, _storm),
    "large": (0.2, _large),
    "few, many": (0.2, _messages),
    "tiny ledgers": (0.2, _tiny_ledgers),
    "small reads": (
        0.2,
        _limits(dispatch_round_robin_entries=(1, 3), dispatch_read_entries=(1, 2, 7)),
    ),
    "few unacked": (
        0.2,
        _limits(max_unacked_per_consumer=(20, 50), max_unacked_per_subscription=(60, 200)),
    ),
    "short sight": (
        0.15,
        _limits(
            key_shared_look_ahead_per_consumer=(1, 5, 20),
            key_shared_look_ahead_per_subscription=(10, 50),
        ),
    ),
    "narrow pipes": (
        0.15,
        _limits(
            max_pending_publishes_per_connection=(1, 5),
            max_outbound_bytes_per_connection=(8192, 32768),
        ),
    ),
    "other hashes": (0.15, _limits(key_shared_consistent_hashing=(False,))),
    "snapshots": (0.15, _limits(deduplication_snapshot_entries=(1, 5))),
    "odd queues": (0.3, _each_plan(_odd_queue)),
    "hot keys": (0.2, _hot_keys),
    "nacks": (0.2, _each_plan(_nacks)),
}
