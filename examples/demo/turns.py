"""Which message of a key a worker may handle now, so that the order of a key survives a nack.

A message that could not be handled is refused and comes again. What follows it under its key
may be in the worker's queue already, so that is refused too, and comes again behind it: a
broker redelivers a key in its order. A refused message is expected until it comes again. It may
never do: another worker got it after a lost connection, or an operator skipped it. Then one
that was refused after it comes first, which is how that is known.

| a message comes                                           | then                           |
|-----------------------------------------------------------|--------------------------------|
| and none before it is expected                            | it is handled                  |
| for the first time, and one before it is expected         | it is refused                  |
| again, and one before it was refused later than it        | it is refused                  |
| again, and all that are expected were refused before it   | those are gone; it is handled  |
"""

from itertools import count

from examples.demo.facts import Place


class Turns:
    """See the module."""

    def __init__(self) -> None:
        # By key: when each message was refused that has not come again.
        self._expected: dict[str, dict[Place, int]] = {}
        self._clock = count()

    def may_handle(self, key: str, place: Place) -> bool:
        expected = self._expected.get(key)
        if not expected:
            return True
        before = [other for other in expected if other < place]
        refused = expected.get(place)
        if refused is None:
            return not before
        if any(expected[other] > refused for other in before):
            return False
        for other in before:
            del expected[other]
        return True

    def refused(self, key: str, place: Place) -> None:
        self._expected.setdefault(key, {})[place] = next(self._clock)

    def handled(self, key: str, place: Place) -> None:
        expected = self._expected.get(key)
        if expected is not None:
            expected.pop(place, None)
            if not expected:
                del self._expected[key]
