"""Moving a cursor on: an operator or a policy acks what nobody has received.

Back it goes by a reset (`cursor_reset.py`).
"""

from typing import TYPE_CHECKING

from magnetar.ack import AckDelta
from magnetar.broker.promise import Promise, broken
from magnetar.errors import BrokerError
from magnetar.model import ServerError

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["move_cursor"]


def move_cursor(
    subscription: "Subscription", delta: AckDelta, *, expires: bool = False
) -> Promise[None]:
    """Writes what is to be acked, applies it, and lets consumers know."""
    if subscription.closed or subscription.fenced:
        reason = f"{subscription.title} is busy: try again"
        return broken(BrokerError(ServerError.ServiceNotReady, reason))
    promise: Promise[None] = Promise()

    def settled(error: Exception | None) -> None:
        cursor = subscription.cursor
        # Not what was unacked as it was planned: acks and publishes came since.
        unacked = cursor.unacked_entries()
        if error is None and not subscription.apply_acks(delta):
            reason = f"{subscription.title} was reset meanwhile"
            error = BrokerError(ServerError.ServiceNotReady, reason)
        if error is not None:
            promise.fail(error)
            return
        if expires:
            subscription.expired.add(unacked - cursor.unacked_entries(), 0)
            subscription.last_expired_ms = subscription.topic.host.now_ms()
        subscription.have_moved(delta)
        promise.keep(None)

    subscription.write_all([delta]).when_done(settled)
    return promise
