"""The judges of rates: no more is let through in any time than the rate allows.

A referee has a token bucket of its own, made of floating point numbers and the time of each fact.
A broker that starts begins with a full one, and so does the referee.
"""

from collections.abc import Iterable
from typing import Final

from magnetar.testing.checker.history import Dispatched, History, Place, Stored
from magnetar.testing.checker.violation import Violation

__all__ = ["held_to_dispatch_rate", "held_to_publish_rate"]

SECOND_NS: Final = 1_000_000_000
# The broker counts in milliseconds.
ROUNDING_MS: Final = 2


def held_to_dispatch_rate(history: History, rate: int, starts_ns: list[int]) -> Iterable[Violation]:
    """Of all messages together: nothing is written to a consumer while no token is there."""
    level, filled_ns = float(rate), 0
    starts = sorted(starts_ns)
    least = 1 - rate * ROUNDING_MS / 1000
    for at, fact in history.among(Dispatched):
        assert isinstance(fact, Dispatched)
        now_ns = history.times[at]
        while starts and starts[0] <= now_ns:
            level, filled_ns = float(rate), starts.pop(0)
        level = min(level + (now_ns - filled_ns) * rate / SECOND_NS, float(rate))
        filled_ns = now_ns
        if level < least:
            yield Violation("rate", f"{fact} with {level:.1f} of {rate} tokens left, at {now_ns}")
        level -= fact.unacked.bit_count()


def held_to_publish_rate(
    history: History, rate: int, starts_ns: list[int], publishers: int
) -> Iterable[Violation]:
    """Of all messages together: since each start no more receipts are given than the rate allows.

    Each connection may be let through once more than that, with one entry; and clients hear of a
    receipt later than it is given, so that only what has passed since a start is judged.
    """
    entries: dict[tuple[int, int, int], set[Place]] = {}
    for fact in history.of(Stored):
        entry = fact.partition, fact.place.ledger, fact.place.entry
        entries.setdefault(entry, set()).add(fact.place)
    largest = max([len(places) for places in entries.values()], default=0)
    starts = sorted(starts_ns)
    begun_ns, passed = 0, 0
    for at, stored in history.among(Stored):
        now_ns = history.times[at]
        while starts and starts[0] <= now_ns:
            begun_ns, passed = starts.pop(0), 0
        passed += 1
        allowed = rate + (now_ns - begun_ns) * rate / SECOND_NS + publishers * largest + 1
        if passed > allowed:
            yield Violation("rate", f"{stored} is one of {passed}, and {allowed:.1f} may be stored")
