"""Planted bugs at the edges of acks: what is refused, taken back, or overtaken by a reset."""

from collections.abc import Callable
from typing import Any

from sim.plants import BROKER, CLIENT, Plant, nothing, returns


def _all_waits_end(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: self.end_waits()


def _keeps_bits(original: Callable[..., Any]) -> Callable[..., Any]:
    def refused(self: Any, flight: Any, error: Exception) -> None:
        left = [acks.unacked() for acks in flight.acks]
        original(self, flight, error)
        for acks, unacked in zip(flight.acks, left, strict=True):
            acks.keep(unacked)

    return refused


def _forgets_more(original: Callable[..., Any]) -> Callable[..., Any]:
    def confirm(self: Any, acks: Any, left: int) -> None:
        acks.more = False
        original(self, acks, left)

    return confirm


def _tells_all(original: Callable[..., Any]) -> Callable[..., Any]:
    def settle(self: Any, acks: Any, error: Exception | None) -> None:
        stakes, acks.stakes = acks.stakes or [], None
        for stake in stakes:
            self._told(stake.waiter, error)

    return settle


def _in_silence(original: Callable[..., Any]) -> Callable[..., Any]:
    def give_up_all(self: Any, error: Exception) -> None:
        self._waiters.clear()
        self.clear(error)

    return give_up_all


def _closes_nobody(original: Callable[..., Any]) -> Callable[..., Any]:
    def have_reset(self: Any, *deltas: Any) -> None:
        self.dismiss = lambda consumer: None
        try:
            original(self, *deltas)
        finally:
            del self.dismiss

    return have_reset


ACK_PLANTS = [
    Plant(
        "a reset leaves consumers, and acks from before it, where they are",
        f"{BROKER}.subscription:Subscription._have_reset",
        _closes_nobody,
        93,
    ),
    Plant(
        "the backoff of a refused ack is forgotten with the connection",
        f"{CLIENT}.ack_retry:AckRetries.lose_all",
        _all_waits_end,
        156,
    ),
    Plant(
        "an ack that was taken back is sent",
        f"{CLIENT}.ack_tracker:AckTracker.take_back",
        nothing,
        9,
    ),
    Plant(
        "an ack that failed goes with the next of its batch",
        f"{CLIENT}.ack_answers:AckAnswers._refused",
        _keeps_bits,
        79,
    ),
    Plant(
        "what was acked while an ack was under way is not sent",
        f"{CLIENT}.ack_answers:AckAnswers._confirm",
        _forgets_more,
        5,
    ),
    Plant(
        "who waits is told of the ACK, and not of his message",
        f"{CLIENT}.ack_answers:AckAnswers._settle_stakes",
        _tells_all,
        13,
    ),
    Plant(
        "acks that are given up are not reported",
        f"{CLIENT}.ack_answers:AckAnswers.take_given_up",
        returns([]),
        69,
    ),
    Plant(
        "acks are sent into another life of the subscription",
        f"{CLIENT}.consumer_core:ConsumerCore._join",
        nothing,
        25,
    ),
    Plant(
        "acks that a reset makes pointless are dropped in silence",
        f"{CLIENT}.ack_tracker:AckTracker.give_up_all",
        _in_silence,
        0,
    ),
]
