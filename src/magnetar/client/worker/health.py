"""What a worker tells of itself: where it is, what it did, what went wrong last."""

from typing import Final, final

from magnetar.client.worker.state import ENDED, WorkerEvent, WorkerState, next_state

__all__ = ["WorkerHealth", "WorkerRecord"]


@final
class WorkerHealth:
    """A worker at one moment. Times are seconds since 1970, as `time.time` has them.

    `handled` counts messages whose function returned and `failed` those whose function raised,
    each time they came. `given_up` counts those that a stop did not wait for. `attempts` is how
    often in a row the broker could not be had.
    """

    __slots__ = (
        "attempts",
        "connected",
        "failed",
        "failures_in_a_row",
        "given_up",
        "handled",
        "in_hand",
        "last_failure",
        "last_failure_at",
        "last_message_at",
        "state",
    )

    def __init__(
        self,
        *,
        state: WorkerState,
        connected: bool,
        in_hand: int,
        handled: int,
        failed: int,
        given_up: int,
        failures_in_a_row: int,
        attempts: int,
        last_message_at: float | None,
        last_failure_at: float | None,
        last_failure: str | None,
    ) -> None:
        self.state: Final = state
        self.connected: Final = connected
        self.in_hand: Final = in_hand
        self.handled: Final = handled
        self.failed: Final = failed
        self.given_up: Final = given_up
        self.failures_in_a_row: Final = failures_in_a_row
        self.attempts: Final = attempts
        self.last_message_at: Final = last_message_at
        self.last_failure_at: Final = last_failure_at
        self.last_failure: Final = last_failure

    @property
    def running(self) -> bool:
        """Whether it has a subscription and a connection: what a readiness probe asks."""
        return self.state == WorkerState.RUNNING and self.connected

    @property
    def alive(self) -> bool:
        """Whether somebody runs it, be the broker there or not: what a liveness probe asks."""
        return self.state not in ENDED

    def as_dict(self) -> dict[str, object]:
        """Returns all of it as values that JSON has, for a route of one's own."""
        return {
            "state": self.state.name.lower(),
            "running": self.running,
            "connected": self.connected,
            "in_hand": self.in_hand,
            "handled": self.handled,
            "failed": self.failed,
            "given_up": self.given_up,
            "failures_in_a_row": self.failures_in_a_row,
            "attempts": self.attempts,
            "last_message_at": self.last_message_at,
            "last_failure_at": self.last_failure_at,
            "last_failure": self.last_failure,
        }

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.as_dict().items())
        return f"WorkerHealth({fields})"


@final
class WorkerRecord:
    """What happened to a worker so far. The clock is its caller's."""

    def __init__(self) -> None:
        self.state: WorkerState = WorkerState.IDLE
        self.in_hand: int = 0
        self._handled: int = 0
        self._failed: int = 0
        self._given_up: int = 0
        self._failures_in_a_row: int = 0
        self._attempts: int = 0
        self._last_message_at: float | None = None
        self._last_failure_at: float | None = None
        self._last_failure: str | None = None

    def move(self, event: WorkerEvent) -> WorkerState:
        """Returns the state that the worker is in now."""
        self.state = next_state(self.state, event)
        if event == WorkerEvent.SUBSCRIBED:
            self._attempts = 0
        return self.state

    def lost(self, now: float, error: Exception) -> None:
        """Notes that the broker could not be had."""
        self._attempts += 1
        self._note(now, error)
        self.move(WorkerEvent.LOST)

    def broke(self, now: float, error: Exception) -> None:
        """Notes that the worker ends by an error."""
        self._note(now, error)
        self.move(WorkerEvent.BREAK)

    def took(self, now: float) -> None:
        """A message is in hand."""
        self.in_hand += 1
        self._last_message_at = now

    def handled(self) -> None:
        """A function returned, and its message is acked."""
        self.in_hand -= 1
        self._handled += 1
        self._failures_in_a_row = 0

    def failed(self, now: float, error: BaseException) -> None:
        """A function raised, and its message is to come again."""
        self.in_hand -= 1
        self._failed += 1
        self._failures_in_a_row += 1
        self._note(now, error)

    def gave_up(self) -> None:
        """A message goes back because the worker stops."""
        self.in_hand -= 1
        self._given_up += 1

    def _note(self, now: float, error: BaseException) -> None:
        self._last_failure_at = now
        self._last_failure = f"{type(error).__name__}: {error}"

    def health(self, *, connected: bool) -> WorkerHealth:
        return WorkerHealth(
            state=self.state,
            connected=connected,
            in_hand=self.in_hand,
            handled=self._handled,
            failed=self._failed,
            given_up=self._given_up,
            failures_in_a_row=self._failures_in_a_row,
            attempts=self._attempts,
            last_message_at=self._last_message_at,
            last_failure_at=self._last_failure_at,
            last_failure=self._last_failure,
        )
