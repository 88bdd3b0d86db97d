"""An ACK that names messages in chunks: the entries that it means are looked up first."""

from typing import TYPE_CHECKING

from magnetar.broker.promise import Promise
from magnetar.broker.topic.ack.ack_answer import refuse_ack
from magnetar.broker.topic.ack.ack_refusal import ack_refusal
from magnetar.broker.topic.consumer import Consumer
from magnetar.errors import UsageError
from magnetar.model import ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAck

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["ack_when_found"]


def ack_when_found(
    subscription: "Subscription",
    consumer: Consumer,
    ack: CommandAck,
    found: Promise[list[MessageIdData]],
) -> None:
    """Acks what was found, once it is.

    What depends on acks waits for it as if it were on its way to the disk; and as there, a
    reset that comes meanwhile makes it void.
    """
    refusal = ack_refusal(subscription, ack)
    if refusal is not None:
        refuse_ack(consumer, ack.request_id, refusal.code, refusal.reason)
        return
    unsettled_acks = subscription.unsettled_acks
    unsettled_acks.begin_search()
    epoch = subscription.cursor.epoch

    def searched(ids: list[MessageIdData]) -> None:
        if subscription.cursor.epoch == epoch:
            command = CommandAck(
                ack.consumer_id, ack.ack_type, ids, ack.request_id, ack.validation_error
            )
            command.txnid_least_bits = ack.txnid_least_bits
            command.txnid_most_bits = ack.txnid_most_bits
            subscription.ack(consumer, command)
        else:
            code = ServerError.ServiceNotReady
            refuse_ack(consumer, ack.request_id, code, subscription.was_reset)
        unsettled_acks.end_search()

    def failed(error: Exception) -> None:
        wrong = isinstance(error, UsageError)
        code = ServerError.NotAllowedError if wrong else ServerError.PersistenceError
        refuse_ack(consumer, ack.request_id, code, str(error))
        unsettled_acks.end_search()

    found.then(searched, failed)
