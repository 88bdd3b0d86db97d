"""Makes a scenario that fails small, as long as it fails in the same way.

First what the scenario has is taken away piece by piece: programs, features, seconds. Then
trouble, of which each event is repeated with the luck that it had, and then single messages,
both by delta debugging: halves, quarters, down to one by one. What is left is what matters.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sim.life import run_scenario
from sim.scenario import AckEdges, Extras, ProducerPlan, Scenario, SubscriptionPlan

from magnetar.testing import ProcessKilled, Simulation, Trace, ViolationError
from magnetar.testing.checker.history import Sent
from magnetar.testing.sim.trouble import TroubleEvent

T = TypeVar("T")

# How many runs it may take; the smallest that was found until then is what it is.
RUNS_MAX = 300
SIGN_CHARS = 60
PAYLOAD = re.compile(r"p\d+ \d+")


@dataclass(frozen=True)
class Failure:
    """A run that failed."""

    scenario: Scenario
    simulation: Simulation
    error: BaseException

    @property
    def sign(self) -> str:
        """What two failures must have in common to be the same."""
        if isinstance(self.error, ViolationError):
            return self.error.violations[0].invariant
        words = re.sub(r"[0-9]+", "n", str(self.error)).partition(";")[0]
        return f"{type(self.error).__name__} {words[:SIGN_CHARS]}"


def attempt(seed: int, scenario: Scenario) -> Failure | None:
    """Runs a scenario; None if it does not fail."""
    begun: list[Simulation] = []
    try:
        run_scenario(seed, scenario, watch=begun.append, trace=Trace(written=False))
    except (Exception, ProcessKilled) as error:
        return Failure(scenario, begun[0], error)
    return None


class Minimiser:
    """See the module; `tell` is told how far it is."""

    def __init__(
        self, seed: int, failure: Failure, tell: Callable[[str], None], runs_max: int = RUNS_MAX
    ) -> None:
        self._seed = seed
        self._sign = failure.sign
        self._tell = tell
        self._runs_max = runs_max
        self.best = failure
        self.runs = 0

    def run(self) -> Failure:
        """The smallest that was found."""
        self._shrink()
        self._drop_trouble()
        self._drop_sends()
        self._shrink()
        return self.best

    def _try(self, scenario: Scenario) -> bool:
        """Runs one, and keeps it if it fails in the same way."""
        if self.runs >= self._runs_max:
            return False
        self.runs += 1
        found = attempt(self._seed, scenario)
        if found is None or found.sign != self._sign:
            return False
        self.best = found
        facts = len(found.simulation.history)
        self._tell(f"run {self.runs}: still fails, with {facts} facts")
        return True

    def _shrink(self) -> None:
        """Takes away what is not needed, until nothing can be."""
        before = None
        while before is not self.best:
            before, number = self.best, 0
            # One that did not go is not tried again before the others were.
            while (smaller := _nth(_smaller(self.best.scenario), number)) is not None:
                if not self._try(smaller):
                    number += 1

    def _drop_trouble(self) -> None:
        events = list(self.best.simulation.trouble)
        if not self._try(_scripted(self.best.scenario, events)):
            return  # its luck depends on what was drawn in between
        reduce_items(events, lambda left: self._try(_scripted(self.best.scenario, left)))

    def _drop_sends(self) -> None:
        sends = [
            found.group()
            for fact in self.best.simulation.history.of(Sent)
            if (found := PAYLOAD.match(fact.payload.decode("latin1")))
        ]

        def test(left: Sequence[str]) -> bool:
            muted = frozenset(sends).difference(left) | self.best.scenario.extras.muted
            return self._try(_with(self.best.scenario, muted=muted))

        reduce_items(sends, test)


def describe(failure: Failure) -> Iterator[str]:
    """What is left of a scenario, in lines."""
    scenario = failure.scenario
    sends = sum(1 for _ in failure.simulation.history.of(Sent))
    trouble = [event.kind for event in failure.simulation.trouble]
    wrong = f"these go wrong: {', '.join(trouble)}" if trouble else "nothing goes wrong"
    yield f"{sends} messages are sent, and {wrong}"
    for producer in scenario.producers:
        yield _words(f"producer {producer.name}", producer, PLAIN_PRODUCER)
    for plan in scenario.subscriptions:
        name = f"subscription {plan.name}, {plan.type}, consumers {plan.consumers}"
        yield _words(name, plan, PLAIN_SUBSCRIPTION)
    yield _words("the rest", scenario, PLAIN)
    if scenario.edges != AckEdges():
        yield str(scenario.edges)
    extras = dict(scenario.extras.limits) | {
        name: getattr(scenario.extras, name)
        for name in ("crews", "slow_disk_s", "payload_max")
        if getattr(scenario.extras, name)
    }
    if extras:
        yield ", ".join(f"{name} {value}" for name, value in extras.items())


def _words(what: str, plan: object, plain: Mapping[str, object]) -> str:
    """Something by what is special about it."""
    special = [f"{name} {getattr(plan, name)}" for name in _special(plan, plain)]
    return ", ".join([what, *special]) if special else f"{what}, plain"


def _scripted(scenario: Scenario, events: Sequence[TroubleEvent]) -> Scenario:
    return _with(scenario, script=tuple(events))


def _with(scenario: Scenario, **changes: object) -> Scenario:
    return replace(scenario, extras=replace(scenario.extras, **changes))  # type: ignore[arg-type]


def reduce_items(items: Sequence[T], test: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Delta debugging: the fewest items, in their order, of which the test still holds."""
    pieces = 2
    if items and test([]):
        return []
    while len(items) > 1:
        size = -(-len(items) // pieces)
        for begin in range(0, len(items), size):
            left = [*items[:begin], *items[begin + size :]]
            if left and test(left):
                items, pieces = left, max(pieces - 1, 2)
                break
        else:
            if pieces >= len(items):
                break
            pieces = min(len(items), 2 * pieces)
    return items


# ---- What can be taken away ----------------------------------------------------


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Scenarios with one thing less, those first that take away most."""
    for number in range(len(scenario.subscriptions)):
        if len(scenario.subscriptions) > 1:
            yield replace(scenario, subscriptions=_without(scenario.subscriptions, number))
    for number in range(len(scenario.producers)):
        if len(scenario.producers) > 1:
            yield replace(scenario, producers=_without(scenario.producers, number))
    if scenario.extras.script is None:
        for number in range(len(scenario.kinds)):
            yield replace(scenario, kinds=_without(scenario.kinds, number))
    yield from _plainer(scenario, PLAIN)
    if scenario.edges != AckEdges():
        yield replace(scenario, edges=AckEdges(retries_max=scenario.edges.retries_max))
        yield replace(scenario, edges=AckEdges())
    yield from _smaller_extras(scenario)
    if scenario.seconds > 1 and scenario.extras.script is None:
        yield replace(scenario, seconds=scenario.seconds / 2)
    for number, producer in enumerate(scenario.producers):
        for plain in _plainer(producer, PLAIN_PRODUCER):
            yield replace(scenario, producers=_with_item(scenario.producers, number, plain))
    for number, plan in enumerate(scenario.subscriptions):
        if plan.consumers > 1:
            fewer = replace(plan, consumers=plan.consumers - 1)
            yield replace(scenario, subscriptions=_with_item(scenario.subscriptions, number, fewer))
        for simple in _plainer(plan, PLAIN_SUBSCRIPTION):
            yield replace(
                scenario, subscriptions=_with_item(scenario.subscriptions, number, simple)
            )


def _smaller_extras(scenario: Scenario) -> Iterator[Scenario]:
    extras, plain = scenario.extras, Extras()
    for number in range(len(extras.limits)):
        yield _with(scenario, limits=_without(extras.limits, number))
    for name in ("crews", "slow_disk_s", "payload_max"):
        if getattr(extras, name) != getattr(plain, name):
            yield _with(scenario, **{name: getattr(plain, name)})
    if extras.messages_max > 3:
        yield _with(scenario, messages_max=extras.messages_max // 4 + 1)
        yield _with(scenario, messages_max=extras.messages_max * 3 // 4)


# What is left of a scenario, a producer and a subscription when nothing is special.
PLAIN = {
    "partitions": 0,
    "deduplication": False,
    "skips": False,
    "skips_large": False,
    "vandal": False,
    "reader": False,
    "deserter": False,
    "rush": False,
    "ledger_entries_max": 1000,
}
PLAIN_PRODUCER = {"batching": "none", "keys": 0, "burst": 1, "delayed_share": 0.0}
PLAIN_SUBSCRIPTION = {
    "acks": "single",
    "group_ms": 0,
    "queue_size": 100,
    "think_s": 0.0,
    "nack_share": 0.0,
    "seek_share": 0.0,
    "withhold": False,
    "any_order": False,
    "exclusive": False,
    "elsewhere_share": 0.0,
    "retries": False,
    "receipts": True,
}

P = TypeVar("P", Scenario, ProducerPlan, SubscriptionPlan)


def _plainer(plan: P, plain: Mapping[str, object]) -> Iterator[P]:
    for name in _special(plan, plain):
        yield replace(plan, **{name: plain[name]})  # type: ignore[arg-type]


def _special(plan: object, plain: Mapping[str, object]) -> list[str]:
    """What is not as plain as it could be."""
    return [name for name, value in plain.items() if getattr(plan, name) != value]


def _nth(items: Iterator[T], number: int) -> T | None:
    return next(itertools.islice(items, number, None), None)


def _without(items: tuple[T, ...], number: int) -> tuple[T, ...]:
    return (*items[:number], *items[number + 1 :])


def _with_item(items: tuple[T, ...], number: int, item: T) -> tuple[T, ...]:
    return (*items[:number], item, *items[number + 1 :])
