"""Since when the acks of a consumer have been asked for, call by call.

A program may ask for the ack of a message again as soon as its first call has failed, which can be
before it is told that the first ack was given up. So times belong to calls and not to messages: an
ack that was given up ends the calls that have failed, and leaves those that still wait.
"""

from collections.abc import Iterable

from magnetar.testing.checker.history import Place

__all__ = ["AskedAcks"]


class AskedAcks:
    """The calls of one consumer that asked for acks, and what each of them asked for.

    Without receipts a call ends at once and says nothing of its ack, so there `kept` and `failed`
    are not told, and an ack that was given up ends all calls of its messages.
    """

    def __init__(self, *, receipts: bool) -> None:
        self._receipts = receipts
        self._calls: dict[Place, dict[int, float]] = {}
        self._failed: set[int] = set()

    def asked(self, number: int, places: Iterable[Place], now: float) -> None:
        """Notes that a call asks for acks, at a time in seconds."""
        for place in places:
            self._calls.setdefault(place, {})[number] = now

    def kept(self, number: int, places: Iterable[Place]) -> None:
        """Forgets a call whose acks the broker confirmed."""
        for place in places:
            self._end(place, [number])

    def failed(self, number: int) -> None:
        """Notes that a call failed: the next that is given up of its messages may be its acks."""
        self._failed.add(number)

    def given_up(self, places: Iterable[Place], now: float) -> float | None:
        """Returns for how long the oldest of these acks was tried; None if none was asked for."""
        since: list[float] = []
        for place in places:
            calls = self._calls.get(place, {})
            since += calls.values()
            over = [number for number in calls if not self._receipts or number in self._failed]
            self._end(place, over)
        return now - min(since) if since else None

    def _end(self, place: Place, numbers: Iterable[int]) -> None:
        calls = self._calls.get(place, {})
        for number in numbers:
            calls.pop(number, None)
        if not calls:
            self._calls.pop(place, None)
