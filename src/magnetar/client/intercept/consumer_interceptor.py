"""Interceptors of consumers: what sees each message that is received, and what becomes of it.

    a message came -> before_consume of the first, the second, ... -> receive returns it
    acknowledge -> sent, or stored where receipts were asked for -> on_acknowledge of all

They are called by the thread that receives or acks, or by that of a listener; those that tell of
redelivery by the thread for callbacks, or on the loop. So they should not wait for anything. What
one raises is logged and goes no further, as in Apache Pulsar's Java client: the message goes on as
it was before, and the next interceptor has its turn.

They are classes that users write, so this file is not compiled.
"""

from typing import TYPE_CHECKING, Any

from magnetar.model.message_id import MessageId

if TYPE_CHECKING:
    from magnetar.client.consumer.message import Message

__all__ = ["ConsumerInterceptor"]


class ConsumerInterceptor:
    """What a consumer of `interceptors=[...]` calls for each message; derive from it.

    Each method does nothing unless it is there. What one raises is logged, and changes nothing.

    >>> class Count(ConsumerInterceptor):
    ...     received = 0
    ...
    ...     def before_consume(self, consumer, message):
    ...         self.received += 1
    ...         return message
    """

    def before_consume(self, consumer: Any, message: "Message[Any]") -> "Message[Any]":
        """Returns the message that the application gets: this one, or another."""
        return message

    def on_acknowledge(self, consumer: Any, message_id: MessageId, error: Exception | None) -> None:
        """The message was acknowledged: the ack is on its way, or stored where receipts were asked
        for; or it failed with an error."""

    def on_acknowledge_cumulative(
        self, consumer: Any, message_id: MessageId, error: Exception | None
    ) -> None:
        """The same of a message and all before it."""

    def on_negative_acks_send(self, consumer: Any, message_ids: set[MessageId]) -> None:
        """These were acknowledged negatively, and the broker is asked for them again now."""

    def on_ack_timeout_send(self, consumer: Any, message_ids: set[MessageId]) -> None:
        """These were not acknowledged in time, and the broker is asked for them again now."""

    def close(self) -> None:
        """The consumer is closed."""
