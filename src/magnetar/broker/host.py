"""What the broker cannot do by itself: time, timers, reading from disk. The shell's part.

`server.py` carries it out on an event loop; tests and the simulation have their own.
"""

from collections.abc import Callable

from mypy_extensions import mypyc_attr

from magnetar.broker.promise import Promise
from magnetar.storage.ledger.read_plan import ReadPlan

__all__ = ["Host", "Timer"]


@mypyc_attr(allow_interpreted_subclasses=True)
class Timer:
    """Something that will be called, unless it is cancelled first."""

    def cancel(self) -> None:
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Host:
    """See the module. Everything runs on one thread, and no callback inside another."""

    # When the first `kick` came of those that one call of the writer serves, by `ticks_us`; 0
    # where nobody says so.
    kicked_us: int = 0

    def now_ms(self) -> int:
        """The time of day, in ms since 1970. Somebody may set it, forward or back."""
        raise NotImplementedError

    def ticks_ms(self) -> int:
        """Milliseconds that only go on, whatever is done to the time of day; for intervals."""
        raise NotImplementedError

    def ticks_us(self) -> int:
        """The same clock in microseconds, as fine as it is."""
        return self.ticks_ms() * 1000

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Calls back once the present event is dealt with."""
        raise NotImplementedError

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        raise NotImplementedError

    def read(self, plan: ReadPlan) -> Promise[None]:
        """Runs the plan on some thread; the promise is kept or broken on this one, later."""
        raise NotImplementedError

    def run_aside(self, job: Callable[[], None]) -> Promise[None]:
        """Runs what takes long, and touches nothing of the broker's, on some thread.

        The promise is kept on this one, later, or broken with what the job raised.
        """
        raise NotImplementedError

    def kick(self) -> None:
        """Something was queued in the store."""
        raise NotImplementedError

    def warn(self, text: str) -> None:
        """Tells the operator something, once."""
        raise NotImplementedError

    def fault(self, text: str, error: Exception) -> None:
        """Tells the operator of a bug: an error that nobody foresaw, with its traceback."""
        raise NotImplementedError
