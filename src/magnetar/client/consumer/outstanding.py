"""What the application has and did not ack yet: when it comes again, and what dies instead.

| a message is  | until                                      | then                               |
|---------------|--------------------------------------------|------------------------------------|
| taken         | its entry is acked, or the ack timeout     | it is late: redelivered, or dead   |
| refused       | its entry is acked, or its delay is over   | redelivered, or dead               |
| dead          | it is published to the dead letter topic   | acked; refused again if that fails |

Nothing is kept for a message that is only taken, unless there is an ack timeout or a dead
letter policy.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.deadlines import earlier
from magnetar.client.consumer.counts import ConsumerCounts
from magnetar.client.consumer.dead_letter import DeadLetters
from magnetar.client.consumer.message import Message
from magnetar.client.consumer.negative_acks import NegativeAcks
from magnetar.client.consumer.unacked import Unacked
from magnetar.client.consumer.withdrawal import Withdrawal
from magnetar.client.option.options import ConsumerOptions

__all__ = ["Due", "Outstanding"]


@final
class Due:
    """Entries whose time is up: those that were refused, and those that are late."""

    def __init__(self, refused: list[int], late: list[int]) -> None:
        self.refused: Final = refused
        self.late: Final = late


@final
class Outstanding:
    """See the module. `wake` says that there are dead to publish."""

    def __init__(
        self,
        options: ConsumerOptions,
        dead_letters: DeadLetters,
        counts: ConsumerCounts,
        *,
        now_ms: Callable[[], int],
        wake: Callable[[], None],
    ) -> None:
        self._negative: Final = NegativeAcks(
            options.negative_ack_redelivery_delay_ms, options.negative_ack_redelivery_backoff
        )
        self._unacked: Final = Unacked(
            options.unacked_messages_timeout_ms, options.ack_timeout_redelivery_backoff
        )
        self._dead_letters: Final = dead_letters
        self._counts: Final = counts
        self._now_ms: Final = now_ms
        self._wake: Final = wake
        # Whether a message that is taken, or acked, has more to be told about it.
        self.follows: Final[bool] = self._unacked.enabled or dead_letters.enabled
        self._dead: list[Message] = []

    def taken(self, message: Message) -> None:
        delivery = message._delivery
        if self._unacked.enabled:
            self._unacked.taken(delivery.key, delivery.redelivery_count, self._now_ms())
        if self._dead_letters.enabled:
            self._dead_letters.taken(message)

    def kept_back(self, key: int, redelivery_count: i64) -> None:
        """An entry is not for the application yet: the ack timeout brings it again."""
        if self._unacked.enabled:
            self._unacked.taken(key, redelivery_count, self._now_ms())

    def refused(self, key: int, index: i64, redelivery_count: i64) -> None:
        """A message is to come again after its delay; index -1 means all of the entry."""
        self._negative.add(key, redelivery_count, self._now_ms())
        if self._dead_letters.enabled:
            self._dead_letters.refused(key, index)

    def acked(self, key: int, index: i64, complete: bool) -> None:
        if self.follows or len(self._negative.deadlines):
            if complete:
                self._negative.deadlines.remove(key)
                self._unacked.deadlines.remove(key)
            self._dead_letters.acked(key, index, complete)

    def acked_through(self, key: int) -> None:
        if len(self._negative.deadlines):
            self._negative.deadlines.remove_through(key)
        if self._unacked.enabled:
            self._unacked.deadlines.remove_through(key)

    def withdrawn(self, withdrawal: Withdrawal) -> None:
        """Skipped messages neither come again nor die; of a batch the others still do."""
        if not self.follows and not len(self._negative.deadlines):
            return
        for key, kept in withdrawal.kept.items():
            if kept == 0:
                self.acked(key, -1, True)
            else:
                self._dead_letters.withdrawn(key, kept)

    def forget(self, key: int) -> None:
        """Forgets an entry that is asked for again."""
        self._dead_letters.forget(key)
        self._unacked.deadlines.remove(key)
        self._negative.deadlines.remove(key)

    def clear(self) -> None:
        """Forgets everything, for everything comes again."""
        self._negative.deadlines.clear()
        self._unacked.deadlines.clear()
        self._dead_letters.clear()

    def moved(self) -> None:
        """Nothing of it comes again, and nobody is to be buried elsewhere."""
        self.clear()
        self._dead_letters.forget_all()
        self._dead = []

    # ---- Time ----------------------------------------------------------------

    def next_ms(self) -> int | None:
        due_ms = self._negative.deadlines.next_ms()
        if self._unacked.enabled:
            due_ms = earlier(due_ms, self._unacked.deadlines.next_ms())
        return due_ms

    def take_due(self, now_ms: int) -> Due | None:
        refused = self._negative.deadlines.take_due(now_ms)
        late = self._unacked.deadlines.take_due(now_ms)
        self._counts.entries_late += len(late)
        return Due(refused, late) if refused or late else None

    def bury(self, due: Due) -> list[int]:
        """Lets candidates for dead letters die; returns the others, which are to come again."""
        keys: list[int] = []
        for key in due.refused:
            if self._dead_letters.is_candidate(key):
                # What was not refused stays with the application, for the last time.
                self.die(self._dead_letters.take_refused(key))
            else:
                keys.append(key)
        for key in due.late:
            if self._dead_letters.is_candidate(key):
                self.die(self._dead_letters.take_all(key))
            elif key not in keys:
                keys.append(key)
        return keys

    # ---- The dead ------------------------------------------------------------

    def die(self, messages: list[Message]) -> None:
        for message in messages:
            self._dead_letters.publishing(message)
        if messages:
            self._dead.extend(messages)
            self._wake()

    def take_dead(self) -> list[Message]:
        dead = self._dead
        self._dead = []
        return dead

    def dead_ended(self, message: Message) -> bool:
        """Lets go of a message that is in the dead letter topic, or will not get there; returns
        whether it is still unacked where it came from."""
        self._dead_letters.published(message)
        return not message._delivery.gone
