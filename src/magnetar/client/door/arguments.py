"""What applications say to the doors, as the engine takes it: contents, ids, topics, versions.

Both doors take the same things and refuse the same things. What they are given is made of
classes that users write, and of Any, so this file is not compiled.
"""

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, TypedDict

from magnetar.client.consumer.message import Message
from magnetar.client.door.transaction import BaseTransaction, core_of
from magnetar.client.engine.consumer import EngineConsumer
from magnetar.client.engine.producer import EngineProducer
from magnetar.client.intercept.consumer_interceptors import ConsumerInterceptors
from magnetar.client.intercept.producer_interceptor import ProducerInterceptors
from magnetar.client.producer.outgoing import Outgoing
from magnetar.client.schema.schema import Schema
from magnetar.errors import InvalidConfiguration, UsageError
from magnetar.model import MessageId

__all__ = [
    "SendKeywords",
    "consumer_interceptors_of",
    "interceptors_of",
    "make_outgoing",
    "message_of",
    "messages_of",
    "split_topics",
    "version_bytes",
]


class SendKeywords(TypedDict, total=False):
    """What can be said of one message besides its content."""

    properties: dict[str, str] | None
    partition_key: str | None
    ordering_key: str | bytes | None
    sequence_id: int | None
    replication_clusters: list[str] | None
    disable_replication: bool
    event_timestamp: int | None
    deliver_at: int | None
    deliver_after: timedelta | None
    transaction: BaseTransaction | None


def make_outgoing(
    schema: Schema[Any],
    content: Any,
    sender: Any,
    producer: EngineProducer,
    *,
    properties: dict[str, str] | None = None,
    partition_key: str | None = None,
    ordering_key: str | bytes | None = None,
    sequence_id: int | None = None,
    replication_clusters: list[str] | None = None,
    disable_replication: bool = False,
    event_timestamp: int | None = None,
    deliver_at: int | None = None,
    deliver_after: timedelta | None = None,
    transaction: BaseTransaction | None = None,
) -> Outgoing:
    """Returns a message of what `send` was given. Raises what the schema raises."""
    if isinstance(ordering_key, str):
        ordering_key = ordering_key.encode()
    if deliver_after is not None:
        if not hasattr(deliver_after, "total_seconds"):
            raise UsageError(f"deliver_after: expected a timedelta, not {deliver_after!r:.40}")
        deliver_at = producer.day_ms() + int(deliver_after.total_seconds() * 1000)
    if disable_replication:
        replication_clusters = ["__local__"]
    return Outgoing(
        b"" if content is None else schema.encode(content),
        properties=properties,
        partition_key=partition_key,
        ordering_key=ordering_key,
        event_timestamp=event_timestamp or 0,
        deliver_at=deliver_at,
        sequence_id=sequence_id,
        replication_clusters=replication_clusters,
        null_value=content is None,
        sender=sender,
        transaction=core_of(transaction, producer.engine),
    )


def interceptors_of(producer: EngineProducer) -> ProducerInterceptors | None:
    """Those that a producer was made with, if there are any."""
    if not producer.options.interceptors:
        return None
    return ProducerInterceptors(producer.options.interceptors, producer.engine.log)


def consumer_interceptors_of(consumer: EngineConsumer) -> ConsumerInterceptors | None:
    if not consumer.options.interceptors:
        return None
    return ConsumerInterceptors(consumer.options.interceptors, consumer.engine.log)


def version_bytes(version: int | None) -> bytes:
    return b"" if version is None else version.to_bytes(8, "big")


def message_of(message: "Message | MessageId") -> "Message | MessageId":
    """Returns one thing that can be acked. A message stays one: it knows where it came from."""
    if isinstance(message, (Message, MessageId)):
        return message
    raise InvalidConfiguration(
        f"acknowledge takes a message or its id, not {type(message).__name__}"
    )


def messages_of(
    message: "Message | MessageId | Iterable[Message | MessageId]",
) -> "list[Message | MessageId]":
    if isinstance(message, (Message, MessageId)):
        return [message]
    return [message_of(one) for one in message]


def split_topics(
    topic: "str | list[str] | re.Pattern[str]",
) -> "tuple[list[str], re.Pattern[str] | None]":
    """Returns the topics that were named, or the pattern."""
    if isinstance(topic, re.Pattern):
        return [], topic
    if isinstance(topic, str):
        return [topic], None
    topics = list(topic)
    if not topics or not all(isinstance(one, str) for one in topics):
        raise InvalidConfiguration("topic: give a name, a list of names, or a compiled pattern")
    return topics, None
