"""Which ACKs a subscription refuses, whatever the entries are that they name."""

from typing import TYPE_CHECKING

from magnetar.errors import BrokerError
from magnetar.model import AckType, ServerError
from magnetar.protocol import CommandAck

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["ack_refusal"]


def ack_refusal(subscription: "Subscription", ack: CommandAck) -> BrokerError | None:
    """Returns why an ACK is refused, or None if it is not."""
    refusal = subscription.not_now()
    if refusal is not None:
        return refusal
    if ack.ack_type == AckType.Cumulative:
        if len(ack.message_ids) != 1:
            return _not_allowed(f"a cumulative ack names one message, not {len(ack.message_ids)}")
        dispatcher = subscription.dispatcher
        if dispatcher is None or not dispatcher.type.accepts_cumulative_acks:
            return _not_allowed(
                "cumulative acks are for Exclusive and Failover: acknowledge each message"
            )
    elif not subscription.topic.settings.batch_index_ack:
        for id in ack.message_ids:
            if id.ack_set is not None and id.ack_set != 0:
                return _not_allowed(
                    "acknowledgmentAtBatchIndexLevelEnabled is false here: acknowledge "
                    "whole batches, or switch it on"
                )
    return None


def _not_allowed(reason: str) -> BrokerError:
    return BrokerError(ServerError.NotAllowedError, reason)
