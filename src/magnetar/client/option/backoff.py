"""How long to wait before the next try: longer each time, and never all at once.

`Backoff` is for connections and lookups: each wait is twice the one before, less a random
part, so that clients who lost the same broker do not all come back together. Randomness is
the caller's. A `RedeliveryBackoff` is for messages and acks: the wait follows from how often
they were tried already, and is the same each time it is asked.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, TypeAlias, final

from magnetar.client.option.check import MS_MAX
from magnetar.errors import SettingsError

__all__ = [
    "INITIAL_MS",
    "JITTER",
    "MAX_MS",
    "Backoff",
    "MultiplierRedeliveryBackoff",
    "RedeliveryBackoff",
    "RetryBackoff",
]

# Failures so far, 0 for the first, give the wait in ms.
RetryBackoff: TypeAlias = Callable[[int], object]

# Pulsar's clients start at 100 ms and stop growing at 60 s.
INITIAL_MS: Final = 100
MAX_MS: Final = 60_000
# The share of a wait that is random. Pulsar's clients take off up to a tenth.
JITTER: Final = 0.1


@final
class Backoff:
    """Waits that double from `initial_ms` to `max_ms`, each less up to a tenth.

    `random` gives a number from 0 up to 1. A wait never falls below `initial_ms`.
    """

    def __init__(
        self,
        random: Callable[[], float],
        *,
        initial_ms: int = INITIAL_MS,
        max_ms: int = MAX_MS,
    ) -> None:
        if initial_ms < 1:
            raise SettingsError("initial_backoff_ms", f"{initial_ms} is too little: give 1 or more")
        if max_ms < initial_ms:
            raise SettingsError(
                "max_backoff_ms", f"{max_ms} is less than the first wait: give {initial_ms} or more"
            )
        self._random: Final = random
        self._initial_ms: Final = initial_ms
        self._max_ms: Final = max_ms
        self._next_ms: int = initial_ms

    def next_ms(self) -> int:
        """Returns the wait before the next try."""
        wait_ms = self._next_ms
        self._next_ms = min(2 * wait_ms, self._max_ms)
        jitter_ms = int(wait_ms * JITTER * self._random())
        return max(self._initial_ms, wait_ms - jitter_ms)

    def reset(self) -> None:
        """A try succeeded: the next wait is the first again."""
        self._next_ms = self._initial_ms


class RedeliveryBackoff(ABC):
    """What options of redelivery take; `MultiplierRedeliveryBackoff` is the one that there is."""

    @abstractmethod
    def next_ms(self, count: int) -> int:
        """Returns the wait after `count` tries before this one."""


@final
class MultiplierRedeliveryBackoff(RedeliveryBackoff):
    """`min_delay_ms` times `multiplier` for every time before, at most `max_delay_ms`.

    >>> backoff = MultiplierRedeliveryBackoff(min_delay_ms=1000, max_delay_ms=5000)
    >>> [backoff.next_ms(count) for count in range(4)]
    [1000, 2000, 4000, 5000]
    """

    def __init__(
        self,
        min_delay_ms: int = 10_000,
        max_delay_ms: int = 600_000,
        multiplier: float = 2.0,
    ) -> None:
        if not 0 <= min_delay_ms <= MS_MAX:
            raise SettingsError("min_delay_ms", f"{min_delay_ms} is not between 0 and {MS_MAX}")
        if not min_delay_ms <= max_delay_ms <= MS_MAX:
            raise SettingsError(
                "max_delay_ms", f"{max_delay_ms} is not between {min_delay_ms} and {MS_MAX}"
            )
        if not 1.0 <= multiplier < float("inf"):
            raise SettingsError("multiplier", f"{multiplier} is too little: give 1 or more")
        self.min_delay_ms: Final = min_delay_ms
        self.max_delay_ms: Final = max_delay_ms
        self.multiplier: Final = multiplier

    def next_ms(self, count: int) -> int:
        """Returns the wait after `count` tries before this one."""
        delay_ms = float(self.min_delay_ms)
        for _ in range(max(0, count)):
            # What stays as it is stays for ever, so that a high count costs nothing.
            if delay_ms >= self.max_delay_ms or delay_ms * self.multiplier == delay_ms:
                break
            delay_ms *= self.multiplier
        return min(int(delay_ms), self.max_delay_ms)
