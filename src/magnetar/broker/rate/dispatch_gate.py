"""The gate of a subscription: what is handed out there counts for the rates that hold for it.

| the gate | there is something to hand out         | tokens come             | rates change     |
|----------|----------------------------------------|-------------------------|------------------|
| open     | it goes out; waiting, if a rate is     | -                       | open             |
|          | reached or others stand before it      |                         |                  |
| waiting  | it waits                               | open, and it is pumped  | open, and pumped |

A subscription has a gate only while some rate holds for it: its own, its topic's, its namespace's
group's or the broker's. It stands in one line at a time, that of the rate which lasts longest, and
looks at all of them again when it is called. What is delivered again counts as what is new.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.broker.rate.throttle import Throttle, Waiter

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["REASONS", "DispatchGate", "Held"]

# Whose rate it is that holds a subscription up, as stats and metrics name it.
REASONS: Final = ("subscription", "topic", "broker", "resourceGroup")

# While rates are only for those with a backlog: who has fewer entries to get has none. Pulsar's
# default of `managedLedgerCursorBackloggedThreshold`.
BACKLOG_ENTRIES: Final = 1000


@final
class Held:
    """How often a subscription was held up for each reason, for messages and for bytes."""

    def __init__(self) -> None:
        self.messages: Final[dict[str, int]] = dict.fromkeys(REASONS, 0)
        self.bytes: Final[dict[str, int]] = dict.fromkeys(REASONS, 0)

    def count(self, reason: str, *, messages: bool) -> None:
        counts = self.messages if messages else self.bytes
        counts[reason] += 1


@final
class DispatchGate(Waiter):
    """See the module. `throttles` are those that hold, by reason."""

    def __init__(self, subscription: "Subscription", throttles: dict[str, Throttle]) -> None:
        settings = subscription.topic.settings
        self._subscription: Final = subscription
        self._throttles: dict[str, Throttle] = throttles
        self._by_entry: Final[bool] = settings.dispatch_rate_by_entry
        self._spares_tail: Final[bool] = not settings.dispatch_rate_without_backlog
        self._waits_for: Throttle | None = None

    @property
    def waiting(self) -> bool:
        return self._waits_for is not None

    def holds_up(self) -> bool:
        """Whether nothing may be handed out now; then it is pumped when something may."""
        if self._waits_for is not None:
            return True
        if self._spares_tail and not self._has_backlog():
            return False
        dispatcher = self._subscription.dispatcher
        if dispatcher is None or not dispatcher.wants_tokens():
            return False  # nor will anything be handed out
        for reason, throttle in self._throttles.items():
            if throttle.is_before(self):
                self._wait_for(reason, throttle)
                return True
        return self.is_shut()

    def is_shut(self) -> bool:
        """The same, of one that was let on and has handed something out since."""
        longest, worst = 0, ""
        for reason, throttle in self._throttles.items():
            wait_ms = throttle.wait_ms()
            if wait_ms > longest:
                longest, worst = wait_ms, reason
        if not worst or (self._spares_tail and not self._has_backlog()):
            return False
        self._wait_for(worst, self._throttles[worst])
        return True

    def _wait_for(self, reason: str, throttle: Throttle) -> None:
        if self._waits_for is None:
            self._subscription.held.count(reason, messages=throttle.lacks_messages())
            self._waits_for = throttle
            throttle.wait(self)

    def _has_backlog(self) -> bool:
        dispatcher = self._subscription.dispatcher
        if dispatcher is None:
            return False
        ledgers = self._subscription.topic.ledgers
        if dispatcher.replay_count() > BACKLOG_ENTRIES:
            return True
        return ledgers.entries_after(ledgers.previous(dispatcher.read_position)) > BACKLOG_ENTRIES

    def take(self, messages: i64, size: int) -> None:
        """Counts an entry that was handed out, with so many messages of it."""
        if self._spares_tail and not self._has_backlog():
            return
        count = 1 if self._by_entry else int(messages)
        for throttle in self._throttles.values():
            throttle.take(count, size)

    def tokens_came(self) -> None:
        self._waits_for = None
        self._subscription.pump()

    def check(self) -> bool:
        """Returns whether it waits; asserts that it is called then, between two events."""
        if self._waits_for is not None:
            assert self in self._waits_for.waiting, "a subscription waits, and nobody calls it"
            self._waits_for.check()
        return self._waits_for is not None

    def change(self, throttles: dict[str, Throttle]) -> None:
        """Other rates hold from now on, or none."""
        self._throttles = throttles
        self.leave()

    def leave(self) -> None:
        """It does not wait any more, for what it waited for may not hold now."""
        if self._waits_for is not None:
            self._waits_for.forget(self)
            self._waits_for = None
