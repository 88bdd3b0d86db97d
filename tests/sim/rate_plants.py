"""Bugs of rates, planted; see `plants.py`."""

from collections.abc import Callable
from typing import Any

from sim.plants import Plant, nothing

RATE = "magnetar.broker.rate"


def _does_not_pump(original: Callable[..., Any]) -> Callable[..., Any]:
    def tokens_came(self: Any) -> None:
        self._waits_for = None

    return tokens_came


def _calls_only_the_first(original: Callable[..., Any]) -> Callable[..., Any]:
    """Whoever waits behind another has no timer any more."""

    def ring(self: Any) -> None:
        self._timer = None
        if self._line:
            waiter, _ = self._line.popitem(last=False)
            self._call(waiter)

    return ring


RATE_PLANTS = [
    Plant(
        "tokens come, and a subscription that waits is not pumped",
        f"{RATE}.dispatch_gate:DispatchGate.tokens_came",
        _does_not_pump,
        24,
        life="rates",
    ),
    Plant(
        "tokens come, and only the first in line is called",
        f"{RATE}.throttle:Throttle._ring",
        _calls_only_the_first,
        24,
        life="rates",
    ),
    Plant(
        "what is handed out is not counted",
        f"{RATE}.dispatch_gate:DispatchGate.take",
        nothing,
        24,
        life="rates",
    ),
    Plant(
        "who published too much is not held up",
        f"{RATE}.publish_gate:PublishGate.take",
        nothing,
        0,
        life="rates",
    ),
]
