"""What a run reached, as a set of words: cheap signs that one run went where no other did.

| state                              | for example                          |
|------------------------------------|--------------------------------------|
| two facts of a consumer in a row,  | `KeyShared: Dispatched > Dismissed`  |
| on its connection                  |                                      |
| the same of a program              | `Shared program: Nacked > AckFailed` |
| trouble, and the fact after it     | `power, then AckAnswered`            |
| two kinds of trouble in a row      | `stall, then unload`                 |
| how many facts of a kind there are | `Nacked x 32`, by powers of two      |
"""

from bisect import bisect_right
from collections import Counter

from magnetar.testing.checker.history import (
    AckAnswered,
    AckAsked,
    AckCame,
    Dispatched,
    Fact,
    History,
    Opened,
    SeekAnswered,
    Sought,
    Subscribed,
)
from magnetar.testing.sim.simulation import Simulation


def states_of(simulation: Simulation) -> set[str]:
    """See the module."""
    history = simulation.history
    found = _on_lines(history) | _in_programs(history) | _in_trouble(simulation)
    for kind, count in Counter(type(fact).__name__ for fact in history.facts).items():
        found.add(f"{kind} x {1 << (count.bit_length() - 1)}")
    return found


def _on_lines(history: History) -> set[str]:
    found: set[str] = set()
    types: dict[tuple[int, int], str] = {}
    last: dict[tuple[int, int], str] = {}
    for fact in history.facts:
        line, consumer = getattr(fact, "line", None), getattr(fact, "consumer", None)
        if line is None or not isinstance(consumer, int):
            continue
        seat = (line, consumer)
        if isinstance(fact, Subscribed):
            types[seat] = fact.type
        word = _word(fact)
        found.add(f"{types.get(seat, '?')}: {last.get(seat, 'nothing')} > {word}")
        last[seat] = word
    return found


def _in_programs(history: History) -> set[str]:
    found: set[str] = set()
    types: dict[str, str] = {}
    last: dict[str, str] = {}
    for fact in history.facts:
        consumer = getattr(fact, "consumer", None)
        if not isinstance(consumer, str):
            continue
        if isinstance(fact, Opened):
            types[consumer] = fact.type
        word = _word(fact)
        pair = f"{last.get(consumer, 'nothing')} > {word}"
        found.add(f"{types.get(consumer, '?')} program: {pair}")
        last[consumer] = word
    return found


def _in_trouble(simulation: Simulation) -> set[str]:
    found: set[str] = set()
    history, before = simulation.history, "nothing"
    for event in simulation.trouble:
        found.add(f"{before}, then {event.kind}")
        before = event.kind
        at = bisect_right(history.times, event.at_ns)
        if at < len(history):
            found.add(f"{event.kind}, then {_word(history.facts[at])}")
    return found


def _word(fact: Fact) -> str:
    """The kind of a fact, and what makes it another one."""
    name = type(fact).__name__
    if isinstance(fact, Dispatched):
        batch = " of a batch" if fact.unacked > 1 else ""
        return name + (" of chunks" if fact.chunk >= 0 else batch) + " late" * fact.delayed
    if isinstance(fact, (AckCame, AckAsked)):
        return name + " cumulative" * fact.cumulative
    if isinstance(fact, (AckAnswered, SeekAnswered)):
        return f"{name} {fact.error}".rstrip()
    if isinstance(fact, Sought):
        return f"{name} {fact.stage}"
    return name
