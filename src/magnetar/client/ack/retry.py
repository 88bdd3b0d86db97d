"""Acks that failed: when each is sent again, and when it is given up.

Every ack that failed once is here until it ends; those that never fail are not, and cost
nothing. The states, and what each event makes of them:

| state     | sent      | kept | failed               | lost    | due     | dropped    |
|-----------|-----------|------|----------------------|---------|---------|------------|
| pending   | in flight | -    | -                    | pending | -       | superseded |
| in flight | -         | done | waiting or exhausted | pending | -       | superseded |
| waiting   | -         | -    | -                    | pending | pending | superseded |

Done, exhausted and superseded are ends: the ack is forgotten here. An event without a cell
is a mistake of ours, and raises.

- *failed* costs an attempt; *lost* costs none. It is the connection that was lost, or a list
  of acks that was refused for one of them and is sent in parts.
- An ack that was on its way each time when `BREAKS_FREE` connections in a row broke may be
  what breaks them: the next times are failures, after which it waits like any other, and what
  is not to blame gets through meanwhile. Time without a connection costs nothing.
- An ack waits as long as the backoff says of its failures so far; `next_ms` is the earliest
  moment, `take_due` hands out those whose time has come. The broker that refused it is the
  same one on the next connection, so losing one does not end a wait: else connections that
  break often would use up all attempts within seconds. *Lost* is of those only that were
  refused because the broker was about to close the consumer (`was_closing`): what they met
  was the loss of the connection, and costs as little.
- *dropped*: a later cumulative ack, a seek or an unsubscribe makes it pointless.

An ack of an entry has its key; the cumulative ack, of which there is one, has `CUMULATIVE`.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.deadlines import Deadlines
from magnetar.client.option.backoff import (
    JITTER,
    MultiplierRedeliveryBackoff,
    RedeliveryBackoff,
    RetryBackoff,
)
from magnetar.client.option.check import MS_MAX
from magnetar.client.option.options import ConsumerOptions
from magnetar.errors import (
    ConnectError,
    ConsumerNotFound,
    MagnetarError,
    NotAllowedError,
    ServiceUnitNotReady,
    UnknownError,
)

__all__ = [
    "BREAKS_FREE",
    "CUMULATIVE",
    "DONE",
    "EXHAUSTED",
    "IN_FLIGHT",
    "PENDING",
    "SUPERSEDED",
    "WAITING",
    "AckRetries",
    "AckRetry",
    "RetryPolicy",
    "ack_retries",
    "default_backoff",
    "is_kept_already",
    "is_retriable",
    "may_be_one_of_many",
    "wants_whole_batches",
    "was_closing",
]

CUMULATIVE: Final = -1

PENDING: Final = 0
IN_FLIGHT: Final = 1
WAITING: Final = 2
DONE: Final = 3
EXHAUSTED: Final = 4
SUPERSEDED: Final = 5

SENT: Final = 0
KEPT: Final = 1
FAILED: Final = 2
GIVEN_UP: Final = 3
LOST: Final = 4
DUE: Final = 5
DROPPED: Final = 6

NEXT: Final[dict[tuple[int, int], int]] = {
    (PENDING, SENT): IN_FLIGHT,
    (PENDING, LOST): PENDING,
    (PENDING, DROPPED): SUPERSEDED,
    (IN_FLIGHT, KEPT): DONE,
    (IN_FLIGHT, FAILED): WAITING,
    (IN_FLIGHT, GIVEN_UP): EXHAUSTED,
    (IN_FLIGHT, LOST): PENDING,
    (IN_FLIGHT, DROPPED): SUPERSEDED,
    (WAITING, LOST): PENDING,
    (WAITING, DUE): PENDING,
    (WAITING, DROPPED): SUPERSEDED,
}

# So many connections may break in a row with an ack on its way before that costs attempts.
BREAKS_FREE: Final = 16
# What a broker names when it refuses acks of single messages of a batch.
BATCH_INDEXES: Final = "acknowledgmentAtBatchIndexLevelEnabled"


def is_retriable(error: Exception) -> bool:
    """Whether an ack that failed with this may succeed later, as it is.

    >>> is_retriable(ServiceUnitNotReady("unloading")), is_retriable(NotAllowedError("no"))
    (True, False)
    """
    return isinstance(error, MagnetarError) and error.retry_ack


def was_closing(error: Exception) -> bool:
    """Whether the broker refused an ack because the consumer is about to be closed there.

    On the next connection, or when it has subscribed again, that is over.
    """
    return isinstance(error, (ServiceUnitNotReady, ConsumerNotFound))


def may_be_one_of_many(error: Exception) -> bool:
    """Whether one ack in a list may have been what the whole list was refused for."""
    return isinstance(error, (NotAllowedError, UnknownError))


def is_kept_already(error: Exception) -> bool:
    """Whether a cumulative ack was refused because the broker is at or behind it already.

    Apache Pulsar 5.0 says so with an error; for us it is a success.
    """
    return isinstance(error, UnknownError) and "already mark-deleted" in str(error)


def wants_whole_batches(error: Exception) -> bool:
    """Whether acks were refused because the broker takes none of single messages of a batch."""
    return isinstance(error, NotAllowedError) and BATCH_INDEXES in str(error)


@final
class RetryPolicy:
    """How often acks are tried again, and after how long.

    A `RedeliveryBackoff` is made less by up to a tenth, so that consumers who
    failed together do not come back together. A function is taken at its word: its result
    is the wait in ms. If it raises, or its result is no such number, the default stands in
    and `take_problem` tells.
    """

    def __init__(
        self,
        max_retries: int,
        backoff: RedeliveryBackoff | RetryBackoff,
        random: Callable[[], float] | None = None,
    ) -> None:
        self.max_retries: Final = max_retries
        self._backoff: Final = (
            backoff if isinstance(backoff, RedeliveryBackoff) else default_backoff()
        )
        self._function: Final[RetryBackoff | None] = (
            None if isinstance(backoff, RedeliveryBackoff) else backoff
        )
        self._random: Final = random
        self._problem: Exception | None = None

    def delay_ms(self, failures: int) -> int:
        """The wait after a failure, when there were so many before it."""
        if self._function is not None:
            delay_ms = self._asked(self._function, failures)
            if delay_ms >= 0:
                return delay_ms
        delay_ms = self._backoff.next_ms(failures)
        if self._random is not None:
            delay_ms -= int(delay_ms * JITTER * self._random())
        return delay_ms

    def _asked(self, function: RetryBackoff, failures: int) -> int:
        try:
            answer = function(failures)
        except Exception as error:
            self._problem = error
            return -1
        if isinstance(answer, (int, float)) and 0 <= answer <= MS_MAX:
            return int(answer)
        self._problem = ValueError(f"{answer!r:.40} is not a number of milliseconds")
        return -1

    def take_problem(self) -> Exception | None:
        """What was wrong with the function of the application's, if anything was."""
        problem = self._problem
        self._problem = None
        return problem


def default_backoff() -> MultiplierRedeliveryBackoff:
    """Returns the backoff for acks: 100 ms at first, doubling up to 10 s."""
    return MultiplierRedeliveryBackoff(100, 10_000, 2.0)


@final
class AckRetry:
    """One ack that failed: its state, how often it did, and since when it is tried."""

    def __init__(self, since_ms: int) -> None:
        self.state: i64 = IN_FLIGHT
        self.failures: i64 = 0
        # How many connections broke in a row with it on its way.
        self.breaks: i64 = 0
        # Its last failure was that the broker was about to close the consumer.
        self.closing: bool = False
        self.since_ms: Final = since_ms


@final
class AckRetries:
    """The acks of one consumer that failed. See the module."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.policy: Final = policy
        self._retries: dict[int, AckRetry] = {}
        self._due: Final = Deadlines()

    def __len__(self) -> int:
        return len(self._retries)

    def __contains__(self, key: int) -> bool:
        return key in self._retries

    def get(self, key: int) -> AckRetry | None:
        return self._retries.get(key)

    @property
    def waiting(self) -> int:
        """How many wait for their time."""
        return len(self._due)

    def waiting_keys(self) -> list[int]:
        return [key for key, retry in self._retries.items() if retry.state == WAITING]

    # ---- Events --------------------------------------------------------------

    def sent(self, key: int) -> bool:
        """Notes that it was sent; returns whether it had failed before."""
        retry = self._retries.get(key)
        if retry is None:
            return False
        _move(retry, SENT)
        return True

    def kept(self, key: int) -> AckRetry | None:
        """The broker has it. Returns what became of it here, if it ever failed."""
        return self._end(key, KEPT)

    def may_retry(self, key: int, error: Exception) -> bool:
        """Whether an ack that failed with this error is to be tried again."""
        retry = self._retries.get(key)
        failures: i64 = 0 if retry is None else retry.failures
        return failures < self.policy.max_retries and is_retriable(error)

    def failed(self, key: int, since_ms: int, now_ms: int, error: Exception) -> None:
        """It failed, and is to be tried again later. `since_ms` is when it was acked."""
        retry = self._begin(key, since_ms)
        retry.closing = was_closing(error)
        if not retry.closing and not isinstance(error, ConnectError):
            retry.breaks = 0
        _move(retry, FAILED)
        self._due.add(key, now_ms + self.policy.delay_ms(retry.failures))
        retry.failures += 1

    def renewed(self, key: int) -> None:
        """A newer ack stands for it, which has all of its tries. The wait stays as it is."""
        retry = self._retries.get(key)
        if retry is not None:
            retry.failures = 0

    def broke(self, key: int, since_ms: int, *, free: bool) -> bool:
        """Its connection broke. If that is `free` it goes again for nothing; else it is to be
        told that it failed. Returns `free`."""
        retry = self._begin(key, since_ms)
        retry.breaks += 1
        if free:
            _move(retry, LOST)
        return free

    def may_break(self, key: int) -> bool:
        """Whether it goes again for nothing if its connection breaks now."""
        retry = self._retries.get(key)
        return retry is None or retry.breaks < BREAKS_FREE

    def lost(self, key: int, since_ms: int) -> None:
        """It is to be sent by itself: at once, for nothing."""
        _move(self._begin(key, since_ms), LOST)

    def given_up(self, key: int) -> None:
        """It failed for the last time."""
        self._end(key, GIVEN_UP)

    def superseded(self, key: int) -> None:
        """Something later says it too, or makes it pointless."""
        self._end(key, DROPPED)

    def clear(self) -> None:
        """All of them are pointless."""
        self._retries.clear()
        self._due.clear()

    def _begin(self, key: int, since_ms: int) -> AckRetry:
        retry = self._retries.get(key)
        if retry is None:
            retry = AckRetry(since_ms)
            self._retries[key] = retry
        return retry

    def _end(self, key: int, event: int) -> AckRetry | None:
        retry = self._retries.pop(key, None)
        if retry is not None:
            _move(retry, event)
            self._due.remove(key)
        return retry

    # ---- Time ----------------------------------------------------------------

    def next_ms(self) -> int | None:
        return self._due.next_ms()

    def take_due(self, now_ms: int) -> list[int]:
        """Makes those pending whose time has come, and returns them."""
        keys = self._due.take_due(now_ms)
        for key in keys:
            _move(self._retries[key], DUE)
        return keys

    def hasten(self, key: int) -> None:
        """Its wait ends before its time: it is pending now."""
        self._due.remove(key)
        _move(self._retries[key], DUE)

    def lose_all(self) -> list[int]:
        """The connection is lost. Returns those whose wait ends with it: they are pending now."""
        return [key for key in self.waiting_keys() if self._lose(key, self._retries[key])]

    def _lose(self, key: int, retry: AckRetry) -> bool:
        if not retry.closing or retry.breaks >= BREAKS_FREE:
            return False
        retry.closing = False
        retry.breaks += 1
        retry.failures -= 1
        self._due.remove(key)
        _move(retry, LOST)
        return True

    def end_waits(self) -> list[int]:
        """Makes those pending that waited, for there is no later; returns them."""
        keys = self.waiting_keys()
        for key in keys:
            _move(self._retries[key], DUE)
        self._due.clear()
        return keys


def _move(retry: AckRetry, event: int) -> None:
    state = NEXT.get((retry.state, event))
    assert state is not None, f"an ack in state {retry.state} had event {event}"
    retry.state = state


def ack_retries(options: ConsumerOptions, random: Callable[[], float] | None) -> AckRetries | None:
    """Returns the retries that the options of a consumer ask for, None if they want none."""
    if not options.auto_retry_acknowledgement:
        return None
    backoff = options.auto_retry_acknowledgement_backoff
    if backoff is None:
        backoff = default_backoff()
    return AckRetries(RetryPolicy(options.max_acknowledgement_retries, backoff, random))
