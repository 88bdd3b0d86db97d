"""Acks of what only the compacted view has: the ledgers that it was published to are gone.

A cursor keeps holes by ledger, so behind such a ledger there is nothing but mark-delete to move.

| an ack of something that only the view has   | does                                             |
|----------------------------------------------|--------------------------------------------------|
| that mark-delete covers                      | nothing: it is acked                             |
| cumulative                                   | moves mark-delete there                          |
| cumulative, within a batch                   | moves it in front of the batch                   |
| of the message that comes next in the view   | moves it there                                   |
| of a later one, or of a part of a batch      | is refused: it would be forgotten                |

So who acknowledges one message after the other, in order, may do as always. What comes next is
reckoned from acks that are on their way too: a client does not wait for one before the next.
"""

from typing import TYPE_CHECKING, Final, final

from magnetar.ack.delta import AckDelta
from magnetar.errors import BrokerError
from magnetar.model import AckType, Position, ServerError
from magnetar.protocol import CommandAck
from magnetar.storage.compaction.view_log import View
from magnetar.storage.compaction.view_table import ViewTable

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["ViewAcks"]

BEFORE_ALL: Final = Position(-1, -1)


@final
class ViewAcks:
    """See the module. Of one subscription."""

    def __init__(self) -> None:
        # Where mark-delete will stand, and of which epoch that is.
        self._mark: Position = BEFORE_ALL
        self._epoch: int = -1

    def with_view(self, subscription: "Subscription", ack: CommandAck, delta: AckDelta) -> AckDelta:
        """Returns what an ACK asks for, with that of the view. Raises BrokerError."""
        compaction = subscription.topic.compaction
        view = compaction.view
        if view is None:
            return delta
        mark = self._current(subscription)
        gone = [Position(id.ledger_id, id.entry_id) for id in ack.message_ids]
        gone = [each for each in gone if only_in_view(subscription, view, mark, each)]
        if not gone:
            return delta
        if ack.ack_type == AckType.Cumulative:
            moved = gone[0]
            if ack.message_ids[0].ack_set:
                moved = Position(moved.ledger_id, moved.entry_id - 1)
        else:
            moved = in_order(subscription, compaction.table(), mark, gone, ack)
        return AckDelta(
            delta.epoch,
            max(moved, mark),
            delta.ledgers,
            record_bytes=delta.record_bytes,
            growth=delta.growth,
        )

    def have_queued(self, delta: AckDelta) -> None:
        """It is on its way to the disk."""
        if delta.mark_delete is not None and delta.mark_delete > self._mark:
            self._mark = delta.mark_delete

    def have_failed(self) -> None:
        """Something was not written, so nothing that was behind it is next."""
        self._mark = BEFORE_ALL

    def _current(self, subscription: "Subscription") -> Position:
        cursor = subscription.cursor
        if self._epoch != cursor.epoch:
            self._epoch = cursor.epoch
            self._mark = BEFORE_ALL
        return max(self._mark, cursor.mark_delete)


def only_in_view(
    subscription: "Subscription", view: View, mark: Position, position: Position
) -> bool:
    """Whether an entry is unacked and nowhere but in the view."""
    ledgers = subscription.topic.ledgers
    return (
        mark < position <= view.facts.through
        and ledgers.entry_count(position.ledger_id) < 0
        and ledgers.was_trimmed(position.ledger_id)
    )


def in_order(
    subscription: "Subscription",
    table: ViewTable | None,
    mark: Position,
    gone: list[Position],
    ack: CommandAck,
) -> Position:
    """Returns how far these acks reach, if there is nothing unacked between them."""
    if any(id.ack_set for id in ack.message_ids):
        raise _not_kept(subscription, "a part of a batch")
    for position in sorted(gone):
        if table is None or not comes_next(table, mark, position):
            raise _not_kept(subscription, f"{position.ledger_id}:{position.entry_id}")
        mark = position
    return mark


def comes_next(table: ViewTable, mark: Position, position: Position) -> bool:
    """Whether the view has nothing between mark-delete and an entry of it."""
    number = table.first_from(Position(mark.ledger_id, mark.entry_id + 1))
    return number < len(table) and table.position(number) == position


def _not_kept(subscription: "Subscription", what: str) -> BrokerError:
    return BrokerError(
        ServerError.NotAllowedError,
        f"{what} is only in the compacted view of {subscription.topic.name}: acknowledge in "
        "order there, or cumulatively",
    )
