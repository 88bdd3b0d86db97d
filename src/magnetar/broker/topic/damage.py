"""A damaged entry in the way of a subscription: where it is, and how to get past it.

The disk has lost what it had confirmed. What lies in front of the entry is delivered, and there
the subscription stops, for nobody knows what is lost. It says where, tries again now and then,
and goes on when an operator says so, when the policy `autoSkipNonRecoverableData` does, or when
the entry can be read again.

| state    | the entry cannot be read | it can | it is acked or skipped |
|----------|--------------------------|--------|------------------------|
| none     | stuck, told of once      | -      | -                      |
| stuck    | stuck                    | none   | none                   |
"""

from typing import TYPE_CHECKING, Final, final

from magnetar.broker.promise import Promise, broken
from magnetar.errors import BrokerError, CorruptionError
from magnetar.model import Position, ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.storage.ledger.read_plan import ReadPlan

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["Damage"]


@final
class Damage:
    """What stands in the way of one subscription."""

    def __init__(self, subscription: "Subscription") -> None:
        self._subscription: Final = subscription
        self._position: Position | None = None
        self._reason: str = ""
        # Damaged entries that were skipped since the topic was loaded.
        self.skipped: int = 0

    @property
    def position(self) -> Position | None:
        """The entry that the subscription is stuck at; None if it is not stuck."""
        position = self._position
        if position is not None and self._subscription.cursor.remaining(position) == 0:
            self._position = None
        return self._position

    @property
    def reason(self) -> str:
        """What is wrong with it, and where on the disk."""
        return self._reason if self.position is not None else ""

    def found(self, position: Position, error: CorruptionError) -> None:
        """Notes that an entry cannot be read."""
        subscription = self._subscription
        if position != self._position:
            self._position = position
            self._reason = str(error)
            subscription.topic.host.warn(
                f"{subscription.title} stops at {position.ledger_id}:{position.entry_id}: {error}; "
                "if no backup has it, skip it by `magnetar subscriptions skip-damaged`, or set the "
                "policy autoSkipNonRecoverableData"
            )
        if subscription.topic.policies.skip_damaged:
            self.skip()

    def read(self, plan: ReadPlan) -> None:
        """Notes that these entries could be read."""
        if self._position is not None:
            for entry in plan.entries:
                if Position(entry.ledger_id, entry.entry_id) == self._position:
                    self._position = None
                    return

    def skip(self) -> Promise[None]:
        """Acks the entry, whatever the type of the subscription."""
        subscription, position = self._subscription, self.position
        if position is None:
            reason = f"{subscription.title} is not stuck at a damaged entry: there is none to skip"
            return broken(BrokerError(ServerError.NotAllowedError, reason))
        id = MessageIdData(position.ledger_id, position.entry_id)
        promise = subscription.move(subscription.cursor.plan_acks([id]))

        def skipped(done: None) -> None:
            self.skipped += 1
            title = subscription.title
            subscription.topic.host.warn(f"{title}: damaged entry {position} was skipped")

        def failed(error: Exception) -> None:
            subscription.topic.host.warn(f"{subscription.title}: not skipped: {error}")

        promise.then(skipped, failed)
        return promise
