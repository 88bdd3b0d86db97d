"""Limits: the policies that are one whole number, their names and what is in effect of them.

A limit is a row, which says what it is called, and an attribute of `Limits`, which is what
compiled code reads. 0 is "no limit", and "never" for the TTL. REST and OpenAPI follow from the
row; besides, a new limit is whoever honours it, and a row of the command line's.
"""

from typing import Final, final

from magnetar.broker.setting.setting import COUNT_MAX, INT_MAX
from magnetar.broker.setting.settings import BrokerSettings

__all__ = ["LIMIT_POLICIES", "LimitPolicy", "Limits"]


@final
class LimitPolicy:
    """The names of a limit.

    `name` is the path's at topics, `at_namespace` the path's at namespaces, and `in_whole` the
    field's where Pulsar has all policies of a namespace in one object; empty where it has none.
    `effective` is the attribute of `Limits`, in units of which `unit` make one; `most` is the
    highest that may be told.
    """

    def __init__(
        self,
        name: str,
        effective: str,
        *,
        at_namespace: str = "",
        in_whole: str = "",
        unit: int = 1,
        most: int = INT_MAX,
    ) -> None:
        self.name: Final = name
        self.effective: Final = effective
        self.at_namespace: Final = at_namespace or name
        self.in_whole: Final = in_whole
        self.unit: Final = unit
        self.most: Final = most


LIMIT_POLICIES: Final = (
    LimitPolicy("messageTTL", "ttl_ms", in_whole="message_ttl_in_seconds", unit=1000),
    LimitPolicy(
        "maxUnackedMessagesOnConsumer",
        "max_unacked_per_consumer",
        at_namespace="maxUnackedMessagesPerConsumer",
        in_whole="max_unacked_messages_per_consumer",
    ),
    LimitPolicy(
        "maxUnackedMessagesOnSubscription",
        "max_unacked_per_subscription",
        at_namespace="maxUnackedMessagesPerSubscription",
        in_whole="max_unacked_messages_per_subscription",
    ),
    LimitPolicy(
        "maxProducers",
        "max_producers",
        at_namespace="maxProducersPerTopic",
        in_whole="max_producers_per_topic",
    ),
    LimitPolicy(
        "maxConsumers",
        "max_consumers",
        at_namespace="maxConsumersPerTopic",
        in_whole="max_consumers_per_topic",
    ),
    LimitPolicy(
        "maxSubscriptionsPerTopic", "max_subscriptions", in_whole="max_subscriptions_per_topic"
    ),
    LimitPolicy(
        "maxConsumersPerSubscription",
        "max_consumers_per_subscription",
        in_whole="max_consumers_per_subscription",
    ),
    LimitPolicy(
        "maxTopicsPerNamespace", "max_topics_per_namespace", in_whole="max_topics_per_namespace"
    ),
    LimitPolicy("maxMessageSize", "message_size_max"),
    LimitPolicy(
        "subscriptionExpirationTime",
        "subscription_expiry_ms",
        in_whole="subscription_expiration_time_minutes",
        unit=60_000,
    ),
    LimitPolicy(
        "compactionThreshold",
        "compaction_threshold",
        in_whole="compaction_threshold",
        most=COUNT_MAX,
    ),
)


@final
class Limits:
    """What is in effect of them: the topic's policy, else its namespace's, else the setting."""

    def __init__(self, settings: BrokerSettings, levels: list[dict[str, int]]) -> None:
        self.ttl_ms: Final[int] = _limit_of(levels, "messageTTL", settings.ttl_seconds) * 1000
        self.max_unacked_per_consumer: Final[int] = _limit_of(
            levels, "maxUnackedMessagesOnConsumer", settings.max_unacked_per_consumer
        )
        self.max_unacked_per_subscription: Final[int] = _limit_of(
            levels, "maxUnackedMessagesOnSubscription", settings.max_unacked_per_subscription
        )
        self.max_producers: Final[int] = _limit_of(
            levels, "maxProducers", settings.max_producers_per_topic
        )
        self.max_consumers: Final[int] = _limit_of(
            levels, "maxConsumers", settings.max_consumers_per_topic
        )
        self.max_subscriptions: Final[int] = _limit_of(
            levels, "maxSubscriptionsPerTopic", settings.max_subscriptions_per_topic
        )
        self.max_consumers_per_subscription: Final[int] = _limit_of(
            levels, "maxConsumersPerSubscription", settings.max_consumers_per_subscription
        )
        self.max_topics_per_namespace: Final[int] = _limit_of(
            levels, "maxTopicsPerNamespace", settings.max_topics_per_namespace
        )
        size_max = _limit_of(levels, "maxMessageSize", 0) or settings.message_size_max
        self.message_size_max: Final[int] = min(size_max, settings.message_size_max)
        minutes = _limit_of(
            levels, "subscriptionExpirationTime", settings.subscription_expiration_minutes
        )
        self.subscription_expiry_ms: Final[int] = minutes * 60_000
        self.compaction_threshold: Final[int] = _limit_of(
            levels, "compactionThreshold", settings.compaction_threshold_bytes
        )


def _limit_of(levels: list[dict[str, int]], policy: str, default: int) -> int:
    for level in levels:
        value = level.get(policy)
        if value is not None:
            return value
    return default
