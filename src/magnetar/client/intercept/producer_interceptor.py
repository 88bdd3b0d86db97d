"""Interceptors of producers: what sees, and may change, each message that is sent.

    send -> before_send of the first, the second, ... -> encoded, batched, sent
    stored, or failed -> on_send_acknowledgement of the first, the second, ... -> the sender is told

They are called by the thread that sends, and `on_send_acknowledgement` by whichever tells the
sender: that thread, the one for callbacks, or the loop. So they should not wait for anything.
What one raises is logged and goes no further, as in Apache Pulsar's Java client: the message goes
on as it was before, and the next interceptor has its turn.

They are classes that users write, so this file is not compiled.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from magnetar.model.message_id import MessageId

__all__ = ["MessageToSend", "ProducerInterceptor", "ProducerInterceptors"]


@dataclass
class MessageToSend:
    """A message as `send` was given it, before its value is encoded; its fields may be set."""

    content: Any
    properties: dict[str, str] = field(default_factory=dict)
    partition_key: str | None = None
    ordering_key: str | bytes | None = None
    sequence_id: int | None = None
    replication_clusters: list[str] | None = None
    disable_replication: bool = False
    event_timestamp: int | None = None
    deliver_at: int | None = None
    # A timedelta, as `send` takes it.
    deliver_after: Any = None
    transaction: Any = None

    def keywords(self) -> dict[str, Any]:
        """Returns what `send` takes besides the content."""
        return {
            "properties": self.properties or None,
            "partition_key": self.partition_key,
            "ordering_key": self.ordering_key,
            "sequence_id": self.sequence_id,
            "replication_clusters": self.replication_clusters,
            "disable_replication": self.disable_replication,
            "event_timestamp": self.event_timestamp,
            "deliver_at": self.deliver_at,
            "deliver_after": self.deliver_after,
            "transaction": self.transaction,
        }


class ProducerInterceptor:
    """What a producer of `interceptors=[...]` calls for each message; derive from it.

    Each method does nothing unless it is there. What one raises is logged, and changes nothing.

    >>> class Stamp(ProducerInterceptor):
    ...     def before_send(self, producer, message):
    ...         message.properties["from"] = "billing"
    ...         return message
    """

    def before_send(self, producer: Any, message: MessageToSend) -> MessageToSend:
        """Returns the message to send: this one, changed or not, or another."""
        return message

    def on_send_acknowledgement(
        self,
        producer: Any,
        message: MessageToSend,
        message_id: MessageId | None,
        error: Exception | None,
    ) -> None:
        """The message is stored under its id, or failed with an error; the other is None."""

    def close(self) -> None:
        """The producer is closed."""


class ProducerInterceptors:
    """All of a producer's, in their order."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor], log: logging.Logger) -> None:
        self._interceptors = interceptors
        self._log = log

    def before_send(self, producer: Any, message: MessageToSend) -> MessageToSend:
        for interceptor in self._interceptors:
            try:
                found: object = interceptor.before_send(producer, _copy_of(message))
            except Exception:
                self._tell(interceptor, "before_send")
                continue
            if isinstance(found, MessageToSend):
                message = found
            else:
                self._log.error(
                    "%s.before_send returned a %s, not the message to send: it is sent as it was",
                    type(interceptor).__name__,
                    type(found).__name__,
                )
        return message

    def acknowledged(
        self,
        producer: Any,
        message: MessageToSend,
        message_id: MessageId | None,
        error: Exception | None,
    ) -> None:
        for interceptor in self._interceptors:
            try:
                interceptor.on_send_acknowledgement(producer, message, message_id, error)
            except Exception:
                self._tell(interceptor, "on_send_acknowledgement")

    def close(self) -> None:
        for interceptor in self._interceptors:
            try:
                interceptor.close()
            except Exception:
                self._tell(interceptor, "close")

    def _tell(self, interceptor: ProducerInterceptor, what: str) -> None:
        self._log.exception("%s.%s failed", type(interceptor).__name__, what)


def _copy_of(message: MessageToSend) -> MessageToSend:
    """One for an interceptor, which may fail half way: then it has changed nothing."""
    properties: object = message.properties
    if isinstance(properties, dict):
        return replace(message, properties=dict(properties))
    # None is none, as for `send`, which refuses whatever else there may be.
    return message if properties else replace(message, properties={})
