"""What a WebSocket is for, by its path and query: Pulsar's `/ws/v2/...`.

| path                                                | is a     |
|-----------------------------------------------------|----------|
| /ws/v2/producer/persistent/TENANT/NAMESPACE/TOPIC   | producer |
| /ws/v2/consumer/persistent/.../TOPIC/SUBSCRIPTION   | consumer |
| /ws/v2/reader/persistent/.../TOPIC                  | reader   |

`non-persistent` stands where `persistent` does. Each piece is decoded by itself. A parameter that
is none of Pulsar's is refused, for one with a slip in it would be passed over too.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus

from magnetar.client.option.policy import (
    ConsumerDeadLetterPolicy,
    HashingScheme,
    PartitionsRoutingMode,
)
from magnetar.errors import InvalidConfiguration, InvalidMessageIdError
from magnetar.model import ConsumerType, InitialPosition, MessageId
from magnetar.model.enums import COMPRESSION_NAMES
from magnetar.model.subscription_type import EXCLUSIVE, SUBSCRIPTION_TYPES

__all__ = ["CONSUMER", "PRODUCER", "READER", "Target", "read_target"]

PRODUCER: Final = "producer"
CONSUMER: Final = "consumer"
READER: Final = "reader"
KINDS: Final = (PRODUCER, CONSUMER, READER)
# What is asked of any of them.
SHARED: Final = ("token",)

QUEUE_DEFAULT: Final = 1000
QUEUE_MAX: Final = 10_000
PENDING_MAX: Final = 1000
# Messages of a partition that the client has fetched while the peer reads: an entry in memory.
FETCHED: Final = 1


class Target:
    """A kind, a topic, and what the client of it is told."""

    def __init__(self, kind: str, topic: str, subscription: str, query: Mapping[str, str]) -> None:
        self.kind = kind
        self.topic = topic
        self.subscription = subscription
        self.token: str = query.get("token", "")
        self._query = query

    def producer_options(self) -> dict[str, Any]:
        """Raises InvalidConfiguration; so do the others."""
        self._allow(
            "sendTimeoutMillis",
            "batchingEnabled",
            "batchingMaxMessages",
            "batchingMaxPublishDelay",
            "maxPendingMessages",
            "messageRoutingMode",
            "compressionType",
            "producerName",
            "initialSequenceId",
            "hashingScheme",
        )
        return {
            "send_timeout_millis": self._number("sendTimeoutMillis", 30_000),
            "batching_enabled": self._flag("batchingEnabled", True),
            "batching_max_messages": self._number("batchingMaxMessages", 1000),
            "batching_max_publish_delay_ms": self._number("batchingMaxPublishDelay", 10),
            "max_pending_messages": min(
                self._number("maxPendingMessages", PENDING_MAX, 1), PENDING_MAX
            ),
            "message_routing_mode": self._choice(
                "messageRoutingMode",
                {
                    "SinglePartition": PartitionsRoutingMode.UseSinglePartition,
                    "RoundRobinPartition": PartitionsRoutingMode.RoundRobinDistribution,
                },
                "RoundRobinPartition",
            ),
            "compression_type": self._choice(
                "compressionType",
                COMPRESSION_NAMES,
                "NONE",
            ),
            "producer_name": self._query.get("producerName"),
            "initial_sequence_id": self._number_or_none("initialSequenceId"),
            "hashing_scheme": self._choice(
                "hashingScheme",
                {
                    "JavaStringHash": HashingScheme.JavaStringHash,
                    "Murmur3_32Hash": HashingScheme.Murmur3_32Hash,
                },
                "JavaStringHash",
            ),
        }

    def consumer_options(self) -> dict[str, Any]:
        self._allow(
            "ackTimeoutMillis",
            "subscriptionType",
            "subscriptionInitialPosition",
            "receiverQueueSize",
            "consumerName",
            "priorityLevel",
            "maxRedeliverCount",
            "deadLetterTopic",
            "negativeAckRedeliveryDelay",
            "pullMode",
        )
        options: dict[str, Any] = {
            "consumer_type": self._choice(
                "subscriptionType",
                {type.name: ConsumerType(type.number) for type in SUBSCRIPTION_TYPES},
                EXCLUSIVE.name,
            ),
            "initial_position": self._choice(
                "subscriptionInitialPosition",
                {"Latest": InitialPosition.Latest, "Earliest": InitialPosition.Earliest},
                "Latest",
            ),
            "receiver_queue_size": FETCHED,
            "consumer_name": self._query.get("consumerName"),
            "priority_level": self._number("priorityLevel", 0),
            "unacked_messages_timeout_ms": self._number("ackTimeoutMillis", 0),
            "negative_ack_redelivery_delay_ms": self._number("negativeAckRedeliveryDelay", 60_000),
        }
        if "maxRedeliverCount" in self._query or "deadLetterTopic" in self._query:
            options["dead_letter_policy"] = ConsumerDeadLetterPolicy(
                self._number("maxRedeliverCount", 16, 1), self._query.get("deadLetterTopic")
            )
        return options

    def reader_options(self) -> dict[str, Any]:
        self._allow("readerName", "receiverQueueSize", "messageId", "pullMode")
        return {
            "start_message_id": self._start(),
            "reader_name": self._query.get("readerName"),
            "receiver_queue_size": FETCHED,
        }

    @property
    def queue_size(self) -> int:
        """How many messages may be with the peer that it has not acknowledged."""
        return min(self._number("receiverQueueSize", QUEUE_DEFAULT, 1), QUEUE_MAX)

    @property
    def pulls(self) -> bool:
        """Whether the peer asks for messages, by permits."""
        return self._flag("pullMode", False)

    def _start(self) -> MessageId:
        text = self._query.get("messageId", "latest")
        if text in ("earliest", "latest"):
            return MessageId.earliest if text == "earliest" else MessageId.latest
        try:
            # A plus in base64 that was not encoded for the query came as a space.
            return MessageId.from_base64(text.replace(" ", "+"))
        except (InvalidMessageIdError, ValueError):
            raise InvalidConfiguration(
                f"messageId: {text[:100]!r} is neither earliest, latest nor an id in base64"
            ) from None

    def _allow(self, *names: str) -> None:
        for name in self._query:
            if name not in names and name not in SHARED:
                raise InvalidConfiguration(
                    f"there is no parameter {name[:100]!r} of a {self.kind}: give some of "
                    f"{', '.join(names)}"
                )

    def _number(self, name: str, default: int, least: int = 0) -> int:
        text = self._query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) <= 18) or int(text) < least:
            raise InvalidConfiguration(f"{name}: {text[:100]!r} is no number from {least} on")
        return int(text)

    def _number_or_none(self, name: str) -> int | None:
        return self._number(name, 0) if name in self._query else None

    def _flag(self, name: str, default: bool) -> bool:
        text = self._query.get(name, "true" if default else "false")
        if text not in ("true", "false"):
            raise InvalidConfiguration(f"{name}: {text[:100]!r} is neither true nor false")
        return text == "true"

    def _choice(self, name: str, choices: Mapping[str, Any], default: str) -> Any:
        text = self._query.get(name, default)
        if text not in choices:
            raise InvalidConfiguration(f"{name}: {text[:100]!r} is none of {', '.join(choices)}")
        return choices[text]


def read_target(raw_path: bytes, query_string: bytes) -> Target | None:
    """Returns what a WebSocket is for; None if there is no such path. Raises
    InvalidConfiguration."""
    try:
        pieces = [
            unquote_plus(piece, errors="strict")
            for piece in raw_path.decode("ascii").strip("/").split("/")
        ]
        query = dict(parse_qsl(query_string.decode("ascii"), True, errors="strict"))
    except UnicodeDecodeError:
        raise InvalidConfiguration("the path or the query is not UTF-8") from None
    if len(pieces) < 7 or pieces[:2] != ["ws", "v2"] or pieces[2] not in KINDS:
        return None
    kind, domain, tenant, namespace, topic = pieces[2:7]
    rest = pieces[7:]
    wanted = 1 if kind == CONSUMER else 0
    if len(rest) != wanted or domain not in ("persistent", "non-persistent"):
        return None
    return Target(kind, f"{domain}://{tenant}/{namespace}/{topic}", rest[0] if rest else "", query)
