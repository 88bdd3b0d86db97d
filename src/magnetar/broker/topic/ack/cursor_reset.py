"""A reset of a subscription: the cursor goes elsewhere, and the consumers come anew.

| step   | what happens                                              | what can go wrong         |
|--------|-----------------------------------------------------------|---------------------------|
| begin  | the subscription is fenced: nothing is acked or delivered | -                         |
| spare  | chunks are looked for of messages that end behind it      | the disk, or it is closed |
| write  | the reset, and acks of what it spares, as one group       | the disk                  |
| apply  | the cursor is there; consumers are closed                 | -                         |
| told   | all consumers are told, and the subscription is open      | -                         |

Whatever goes wrong, the cursor stays where it is, and the subscription is open again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias, final

from magnetar.ack import Delta, ResetDelta
from magnetar.broker.promise import Promise, kept
from magnetar.errors import BrokerError
from magnetar.model import Position, ServerError

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription
    from magnetar.broker.topic.topic import Topic

__all__ = ["CursorReset", "FindSpanning", "beside_view"]

# Of a topic and a position, the chunks up to there of messages that end behind it.
FindSpanning: TypeAlias = Callable[["Topic", Position], Promise[list[int]]]


@final
class CursorReset:
    """The resets of one subscription, of which one is under way at a time; see the module."""

    def __init__(self, subscription: "Subscription") -> None:
        self._subscription: Final = subscription
        # Where the one that is under way will put the cursor.
        self.target: Position | None = None
        # Kept when the one that is under way has ended, well or not: redeliveries wait for it.
        self.ended: Promise[None] = kept(None)

    def begin(self, delta: ResetDelta, find_spanning: FindSpanning | None) -> Promise[None]:
        """Carries out a reset that was planned; the promise is kept when consumers are told."""
        promise: Promise[None] = Promise()
        subscription = self._subscription
        # From now on: who acks while the place is looked for would ack in vain.
        subscription.fenced = True
        self.ended = Promise()
        self.target = delta.mark_delete
        spared: Promise[list[int]] = kept([])
        if find_spanning is not None:
            spared = find_spanning(subscription.topic, delta.mark_delete)
        spared.then(
            lambda keys: self._write(delta, keys, promise),
            lambda error: self._failed(promise, error),
        )
        return promise

    def _write(self, delta: ResetDelta, spared: list[int], promise: Promise[None]) -> None:
        subscription = self._subscription
        if subscription.closed:
            reason = f"{subscription.title} is closed: try again"
            self._failed(promise, BrokerError(ServerError.ServiceNotReady, reason))
            return
        reset, acks = subscription.cursor.plan_spare(delta, spared)
        self.target = reset.mark_delete

        def settled(error: Exception | None) -> None:
            if error is not None:
                self._failed(promise, error)
                return
            subscription.cursor.apply(reset)
            subscription.apply_acks(acks)
            subscription.pending.clear()
            # All of them: one of Failover that is not active may still have acks on their way.
            closed = subscription.close_consumers()
            # Fenced still: nobody comes back before all are told, nor is anything skipped.
            subscription.topic.dismiss(closed).then(told, promise.fail)

        def told(done: None) -> None:
            self._end()
            promise.keep(None)
            subscription.pump()

        deltas: list[Delta] = [reset] if acks.empty else [reset, acks]
        subscription.write_all(deltas).when_done(settled)

    def _failed(self, promise: Promise[None], error: Exception) -> None:
        self._end()
        promise.fail(error)
        self._subscription.pump()

    def _end(self) -> None:
        """A reset has ended, well or not."""
        self.target = None
        self._subscription.fenced = False
        self.ended.keep(None)


def beside_view(topic: "Topic", delta: ResetDelta, position: Position) -> ResetDelta:
    """Returns a reset that stands where it was asked for, though that was trimmed.

    A compacted view keeps some of what was trimmed, and its readers may begin there.
    """
    if topic.compaction.view is None:
        return delta
    first = topic.ledgers.at_or_after(Position(-1, 0))
    if first is not None and position.ledger_id >= first.ledger_id:
        return delta
    mark = Position(position.ledger_id, max(position.entry_id - 1, -1))
    end = max(delta.mark_delete, topic.compaction.through)
    return ResetDelta(delta.epoch, min(mark, end))
