"""An ack on its way to the disk: what it does once it is durable, and what is answered."""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.ack import AckDelta
from magnetar.broker.commits import Commit
from magnetar.broker.topic.ack.ack_answer import answer_ack, refuse_ack
from magnetar.broker.topic.consumer import Consumer
from magnetar.model import ServerError

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription
    from magnetar.broker.topic.topic import Topic

__all__ = ["AckCommit"]


@final
class AckCommit(Commit):
    """An ack on its way to the disk."""

    def __init__(
        self,
        ticket: int,
        subscription: "Subscription",
        delta: AckDelta,
        consumer: Consumer,
        request_id: int | None,
        keys: list[int],
        *,
        moves: bool,
        size: i64,
    ) -> None:
        super().__init__(ticket)
        # What it takes of what the peer may have on its way to the disk.
        self._size: Final[i64] = size
        self._subscription: Final = subscription
        self._delta: Final = delta
        self._consumer: Final = consumer
        self._request_id: Final = request_id
        self._keys: Final = keys
        self._moves: Final = moves
        self._applied: bool = False

    def topic(self) -> "Topic | None":
        return self._subscription.topic

    def apply(self, error: Exception | None) -> None:
        self._consumer.peer.acks_ended(self._size)
        self._subscription.share.arrived(self._delta.growth)
        if error is not None:
            self._subscription.view_acks.have_failed()
        self._applied = error is None and self._subscription.apply_acks(self._delta)

    def settle(self, error: Exception | None) -> None:
        if error is not None:
            reason = f"the ack was not written: {error}"
            refuse_ack(self._consumer, self._request_id, ServerError.PersistenceError, reason)
        elif not self._applied:
            reason = self._subscription.was_reset
            refuse_ack(self._consumer, self._request_id, ServerError.ServiceNotReady, reason)
        else:
            self._subscription.have_acked(self._keys, self._consumer, moves=self._moves)
            answer_ack(self._consumer, self._request_id)
