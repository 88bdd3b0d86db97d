"""A token bucket: what may be taken comes evenly, and what is not taken is saved for one period.

It is told the time with every call, and has no clock of its own. So in any time what was taken is
no more than comes in it, what was saved before, and the last thing that was taken: one token is
enough to take something large, and what it lacks is owed, so that nothing is larger than a bucket
can ever be.
"""

from typing import Final, final

__all__ = ["TokenBucket"]

# Who waits is called when there is something for so long, and not for every single token.
WORTH_MS: Final = 10


@final
class TokenBucket:
    """`rate` tokens come in `period_ms`; so many are saved at most, and there at the beginning."""

    def __init__(self, rate: int, period_ms: int, now_ms: int) -> None:
        self._rate: int = rate
        self._period_ms: int = period_ms
        # In parts of a token, of which `period_ms` make one, so that nothing is ever rounded.
        self._parts: int = rate * period_ms
        self._filled_ms: int = now_ms

    def take(self, count: int, now_ms: int) -> None:
        """Takes so many, whether they are there or not."""
        self._fill(now_ms)
        self._parts -= count * self._period_ms

    def tokens(self, now_ms: int) -> int:
        """How many are there; below 0 if some are owed."""
        self._fill(now_ms)
        return self._parts // self._period_ms

    def wait_ms(self, now_ms: int) -> int:
        """In how many milliseconds it is worth to look again; 0 if a token is there."""
        self._fill(now_ms)
        if self._parts >= self._period_ms:
            return 0
        wanted = max(self._period_ms, self._rate * min(WORTH_MS, self._period_ms))
        return -(-(wanted - self._parts) // self._rate)

    def change(self, rate: int, period_ms: int, now_ms: int) -> None:
        """Others come from now on; what is there or owed stays, as far as it may be saved."""
        self._fill(now_ms)
        kept = self._parts * period_ms // self._period_ms
        self._rate = rate
        self._period_ms = period_ms
        self._parts = min(kept, rate * period_ms)

    def _fill(self, now_ms: int) -> None:
        if now_ms > self._filled_ms:
            more = self._parts + (now_ms - self._filled_ms) * self._rate
            self._parts = min(more, self._rate * self._period_ms)
            self._filled_ms = now_ms
