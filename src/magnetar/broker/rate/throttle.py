"""A throttle: a rate that some share, and the line of those who wait for it.

| who waits | it took too much | time passes              | the rate is changed | it is lifted     |
|-----------|------------------|--------------------------|---------------------|------------------|
| nobody    | it is in line,   | -                        | -                   | -                |
|           | the timer is set |                          |                     |                  |
| some      | it is in line,   | the timer rings: as many | the timer is set    | all are called,  |
|           | behind them      | are called as there is   | anew                | a few in each    |
|           |                  | something for; for those |                     | event            |
|           |                  | behind it is set again   |                     |                  |

What must hold: whoever waits is in the line, and as long as there is a line there is a timer. So
nobody needs a second cause to go on: neither a publish nor an ack (I3). The line is first come,
first served, and whoever was called goes to its end if it comes again: of many who share a rate
none is passed over for ever.

What it lets through in a time is no more than the rate allows for it, what is saved for one period,
and one piece (an entry) of each of those who were called: what they take is known afterwards.
"""

from collections import OrderedDict
from typing import Final, final

from mypy_extensions import mypyc_attr

from magnetar.broker.host import Host, Timer
from magnetar.broker.rate.rate import Rate
from magnetar.broker.rate.token_bucket import TokenBucket

__all__ = ["Throttle", "Waiter"]

# A clock may be set, and a rate be changed to a much higher one: it is looked at so often.
WAIT_MS_MAX: Final = 10_000
# So many are called in one event: each only says that it wants a turn, or hands out what one round
# has room for.
CALLED_AT_ONCE: Final = 50


@mypyc_attr(allow_interpreted_subclasses=True)
class Waiter:
    """Whoever waits in a line, in one at a time."""

    def tokens_came(self) -> None:
        """It may go on. It is not in the line any more."""
        raise NotImplementedError


@final
class Throttle:
    """See the module."""

    def __init__(self, host: Host, rate: Rate) -> None:
        self._host: Final = host
        self._messages: TokenBucket | None = None
        self._bytes: TokenBucket | None = None
        self._line: Final[OrderedDict[Waiter, None]] = OrderedDict()
        self._timer: Timer | None = None
        # Who is called at this moment: the line is not before it.
        self._called: Waiter | None = None
        # What was taken at once the last time: so much the next one may take, too.
        self._size: int = 1
        self.change(rate)

    @property
    def limits(self) -> bool:
        """Whether there is a rate."""
        return self._messages is not None or self._bytes is not None

    @property
    def waiting(self) -> list[Waiter]:
        """Who waits, the first one first."""
        return list(self._line)

    # ---- Taking --------------------------------------------------------------

    def take(self, messages: int, size: int) -> None:
        """Counts what was let through."""
        now_ms = self._host.ticks_ms()
        if self._messages is not None:
            self._messages.take(messages, now_ms)
        if self._bytes is not None:
            self._bytes.take(size, now_ms)
        self._size = size

    def wait_ms(self) -> int:
        """In how long something may be taken; 0 if at once."""
        now_ms = self._host.ticks_ms()
        wait_ms = 0 if self._messages is None else self._messages.wait_ms(now_ms)
        if self._bytes is not None:
            wait_ms = max(wait_ms, self._bytes.wait_ms(now_ms))
        return wait_ms

    def lacks_messages(self) -> bool:
        """Whether it is messages that there are too many of, rather than bytes."""
        return self._messages is not None and self._messages.tokens(self._host.ticks_ms()) <= 0

    def is_before(self, waiter: Waiter) -> bool:
        """Whether others wait that come first."""
        return len(self._line) > 0 and waiter is not self._called

    # ---- Waiting -------------------------------------------------------------

    def wait(self, waiter: Waiter) -> None:
        """Puts it at the end of the line, unless it stands there; it is called in its turn."""
        if waiter not in self._line:
            self._line[waiter] = None
        self._set_timer()

    def forget(self, waiter: Waiter) -> None:
        """It does not wait any more."""
        self._line.pop(waiter, None)
        if not self._line and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def let_go(self) -> None:
        """Whoever waits now need not any more, whatever the rate: it is not theirs now."""
        waiting = list(self._line)
        self._line.clear()
        self._call_some(waiting, 0)

    def _call_some(self, waiting: list[Waiter], first: int) -> None:
        for waiter in waiting[first : first + CALLED_AT_ONCE]:
            self._call(waiter)
        if first + CALLED_AT_ONCE < len(waiting):
            self._host.call_soon(lambda: self._call_some(waiting, first + CALLED_AT_ONCE))

    def _set_timer(self) -> None:
        if self._timer is None and self._line:
            delay_ms = min(max(self.wait_ms(), 1), WAIT_MS_MAX)
            self._timer = self._host.call_later(delay_ms, self._ring)

    def _ring(self) -> None:
        self._timer = None
        left = self._room()
        while self._line and left > 0 and self.wait_ms() == 0:
            left -= 1
            waiter, _ = self._line.popitem(last=False)
            self._call(waiter)
        self._set_timer()

    def _room(self) -> int:
        """How many may be called, as far as that can be known."""
        room, now_ms = CALLED_AT_ONCE, self._host.ticks_ms()
        if self._messages is not None:
            room = min(room, self._messages.tokens(now_ms))
        if self._bytes is not None:
            room = min(room, max(self._bytes.tokens(now_ms) // max(self._size, 1), 1))
        return room

    def _call(self, waiter: Waiter) -> None:
        before, self._called = self._called, waiter
        try:
            waiter.tokens_came()
        except Exception as error:
            # Those behind it must not wait for ever.
            self._host.fault("something that waited for a rate failed", error)
        self._called = before

    # ---- Changing ------------------------------------------------------------

    def change(self, rate: Rate) -> None:
        """There is another rate from now on, or none."""
        self._messages = self._changed(self._messages, rate.messages, rate.period_ms)
        self._bytes = self._changed(self._bytes, rate.bytes, rate.period_ms)
        if not self.limits:
            self.let_go()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._set_timer()

    def _changed(self, bucket: TokenBucket | None, count: int, period: int) -> TokenBucket | None:
        if count <= 0:
            return None
        now_ms = self._host.ticks_ms()
        if bucket is None:
            return TokenBucket(count, period, now_ms)
        bucket.change(count, period, now_ms)
        return bucket

    def check(self) -> None:
        """Asserts that nobody is forgotten, between two events."""
        assert not self._line or self._timer is not None, "somebody waits, and nobody calls it"
