"""A transaction of a client: what takes part, what is on its way, and when it may end.

`transaction_state.py` has the states as a table. Each message and each call of acknowledge is one
operation: it `join`s before anything is done about it, and `leave`s when the broker has confirmed
it or it has failed. A commit waits until all have left, and becomes an abort if one of them failed;
`failure` is the first that did.

Nothing is done here about time but to refuse what comes too late: the broker aborts a
transaction whose time is over.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.transaction.enlistment import Enlistment, Participant
from magnetar.client.transaction.transaction_state import (
    ABORT,
    ABORTED,
    ABORTING,
    COMMIT,
    COMMITTING,
    DECIDING,
    FAILED,
    LEFT,
    NAMES,
    NO,
    OPEN,
    QUIET,
    UNKNOWN,
    next_state,
)
from magnetar.errors import InvalidTxnStatusError, TransactionTimeoutError
from magnetar.model.txn_id import TxnId

__all__ = ["TransactionCore"]


@final
class TransactionCore:
    """See the module. `wants` is called when there is something to ask the coordinator for."""

    def __init__(
        self,
        id: TxnId,
        timeout_ms: i64,
        begun_ms: i64,
        *,
        now_ms: Callable[[], int],
        wants: Callable[[], None],
    ) -> None:
        self.id: Final = id
        self.timeout_ms: Final[i64] = timeout_ms
        self._due_ms: Final[i64] = begun_ms + timeout_ms
        self._now_ms: Final = now_ms
        self._wants: Final = wants
        self.state: i64 = OPEN
        # Why it cannot be committed, if it cannot.
        self.failure: Exception | None = None
        # How many operations are on their way.
        self.under_way: i64 = 0
        self._enlistments: Final[dict[tuple[str, str], Enlistment]] = {}
        self._wanted: list[Enlistment] = []
        self._participants: Final[dict[Participant, None]] = {}
        self._when_quiet: list[Callable[[], None]] = []

    @property
    def state_name(self) -> str:
        return NAMES[self.state]

    # ---- What takes part -----------------------------------------------------

    def join(self) -> None:
        """One more operation begins. Raises InvalidTxnStatusError, TransactionTimeoutError."""
        if self.state != OPEN:
            raise InvalidTxnStatusError(
                f"transaction {self.id} is {self.state_name}: begin another one"
            )
        if self.failure is not None:
            raise InvalidTxnStatusError(
                f"transaction {self.id} can only be aborted, since something in it failed: "
                f"{self.failure}"
            ) from self.failure
        if self.late:
            raise self.too_late()
        self.under_way += 1

    @property
    def late(self) -> bool:
        """Whether its time is over."""
        return self._now_ms() >= self._due_ms

    def too_late(self) -> TransactionTimeoutError:
        return TransactionTimeoutError(
            f"transaction {self.id} was not committed within {self.timeout_ms} ms, so the broker "
            "aborts it: do it again in another one, with a longer timeout if it needs more time"
        )

    def leave(self, count: i64, error: Exception | None) -> None:
        """So many operations have ended: well, or with this error."""
        assert count <= self.under_way, "more operations end than began"
        self.under_way -= count
        if error is not None and self.failure is None:
            self.failure = error
        if self.under_way == 0:
            self._tell_quiet()

    def fail(self, error: Exception) -> None:
        """Something that the broker had confirmed does not hold any more."""
        if self.failure is None and self.state in (OPEN, COMMITTING):
            self.failure = error

    def enlist(self, topic: str, subscription: str, participant: Participant) -> Enlistment:
        """The place of a topic, or of a subscription, in this transaction."""
        key = (topic, subscription)
        enlistment = self._enlistments.get(key)
        if enlistment is None:
            enlistment = Enlistment(self, topic, subscription)
            self._enlistments[key] = enlistment
            self._wanted.append(enlistment)
            self._wants()
        enlistment.add(participant)
        self._participants[participant] = None
        return enlistment

    def take_wanted(self) -> list[Enlistment]:
        """What the coordinator is to be asked for; it counts as asked."""
        wanted = self._wanted
        self._wanted = []
        for enlistment in wanted:
            enlistment.ask()
        return wanted

    # ---- The end -------------------------------------------------------------

    def begin_commit(self) -> None:
        """Raises InvalidTxnStatusError."""
        self._begin(COMMIT, "committed")
        self.flush()

    def begin_abort(self) -> None:
        """Raises InvalidTxnStatusError."""
        self._begin(ABORT, "aborted")
        self.flush()

    def _begin(self, event: i64, what: str) -> None:
        if next_state(self.state, event) == NO:
            advice = ""
            if self.state == UNKNOWN:
                advice = ": call commit again, which asks the broker what became of it"
            raise InvalidTxnStatusError(
                f"transaction {self.id} is {self.state_name}, and cannot be {what}{advice}"
            )
        self.move(event)

    def flush(self) -> None:
        """Has everybody send what he has, as far as he can."""
        for participant in list(self._participants):
            participant.flush()

    def when_quiet(self, callback: Callable[[], None]) -> None:
        """Calls back when nothing is on its way any more: now, or later."""
        self._when_quiet.append(callback)
        if self.under_way == 0:
            self._tell_quiet()

    def _tell_quiet(self) -> None:
        waiting = self._when_quiet
        self._when_quiet = []
        for callback in waiting:
            callback()

    def become_quiet(self) -> bool:
        """Notes that all that a commit waits for has ended; returns whether it may go on."""
        if self.state == COMMITTING:
            self.move(QUIET if self.failure is None else FAILED)
        return self.state == DECIDING

    def move(self, event: i64) -> None:
        following = next_state(self.state, event)
        assert following != NO, f"a transaction in state {self.state_name} had event {event}"
        self.state = following

    def tell_end(self, end: int) -> None:
        """Tells everybody who takes part how it ends."""
        for participant in list(self._participants):
            participant.ended(self, end)

    @property
    def open(self) -> bool:
        """Whether it may take more."""
        return self.state == OPEN

    @property
    def aborting(self) -> bool:
        """Whether it will never be committed."""
        return self.state == ABORTING or self.state == ABORTED or self.state == LEFT
