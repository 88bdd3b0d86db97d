"""What holds for one topic: its own policies, else its namespace's, else the broker's settings.

It is computed once and never changes; whoever changes a policy makes a new one.

A quota and a retention are without limit at -1, other limits at 0. `maxMessageSize` can only
lower what the broker allows.
"""

from typing import Final, final

from magnetar.broker.policy.policy import Policies
from magnetar.broker.policy.policy_value import (
    DESTINATION_STORAGE,
    MESSAGE_AGE,
    AutoTopicCreation,
    BacklogQuota,
    DelayedDelivery,
    InactiveTopics,
)
from magnetar.broker.setting.settings import MIB, BrokerSettings

__all__ = ["EffectivePolicies"]


@final
class EffectivePolicies:
    """What holds for one topic, all levels considered."""

    def __init__(
        self, settings: BrokerSettings, namespace: Policies | None, topic: Policies | None
    ) -> None:
        levels = [level for level in (topic, namespace) if level is not None]

        minutes, mb = _retention_of(levels, settings)
        self.retention_time_ms: Final[int] = _scaled(minutes, 60_000)
        self.retention_size_bytes: Final[int] = _scaled(mb, MIB)
        self.ttl_ms: Final[int] = _number_of(levels, "messageTTL", settings.ttl_seconds) * 1000

        size = _quota_of(levels, DESTINATION_STORAGE, settings)
        age = _quota_of(levels, MESSAGE_AGE, settings)
        self.backlog_quota_bytes: Final[int] = max(size.limit_size, -1)
        self.backlog_quota_ms: Final[int] = age.limit_time * 1000 if age.limit_time > 0 else -1
        # What happens beyond `backlog_quota_bytes`, and beyond `backlog_quota_ms`.
        self.backlog_size_policy: Final[str] = size.policy
        self.backlog_time_policy: Final[str] = age.policy

        self.max_unacked_per_consumer: Final[int] = _number_of(
            levels, "maxUnackedMessagesOnConsumer", settings.max_unacked_per_consumer
        )
        self.max_unacked_per_subscription: Final[int] = _number_of(
            levels, "maxUnackedMessagesOnSubscription", settings.max_unacked_per_subscription
        )
        self.max_producers: Final[int] = _number_of(
            levels, "maxProducers", settings.max_producers_per_topic
        )
        self.max_consumers: Final[int] = _number_of(
            levels, "maxConsumers", settings.max_consumers_per_topic
        )
        self.max_subscriptions: Final[int] = _number_of(
            levels, "maxSubscriptionsPerTopic", settings.max_subscriptions_per_topic
        )
        self.max_consumers_per_subscription: Final[int] = _number_of(
            levels, "maxConsumersPerSubscription", settings.max_consumers_per_subscription
        )
        self.max_topics_per_namespace: Final[int] = _number_of(
            levels, "maxTopicsPerNamespace", settings.max_topics_per_namespace
        )
        size_max = _number_of(levels, "maxMessageSize", 0) or settings.message_size_max
        self.message_size_max: Final[int] = min(size_max, settings.message_size_max)

        delayed = _delayed_delivery_of(levels, settings)
        self.delayed_delivery: Final[bool] = delayed.active
        self.delayed_delivery_tick_ms: Final[int] = (
            delayed.tick_ms or settings.delayed_delivery_tick_ms
        )
        self.delayed_delivery_max_ms: Final[int] = delayed.max_delay_ms

        self.deduplication: Final[bool] = _flag_at(
            levels, "deduplicationEnabled", settings.deduplication
        )
        self.schema_validation_enforced: Final[bool] = _flag_at(
            levels, "schemaValidationEnforced", settings.schema_validation_enforced
        )
        self.skip_damaged: Final[bool] = _flag_at(
            levels, "autoSkipNonRecoverableData", settings.skip_damaged
        )
        self.schema_compatibility: Final[str] = _schema_compatibility_of(levels, settings)
        self.subscription_types: Final[tuple[str, ...]] = _subscription_types_of(levels, settings)

        inactive = _inactive_topics_of(levels, settings)
        self.delete_inactive: Final[bool] = inactive.enabled
        self.inactive_topic_ms: Final[int] = inactive.inactive_ms
        self.inactive_mode: Final[str] = inactive.mode

        creation = _auto_topic_creation_of(levels, settings)
        self.auto_create_topics: Final[bool] = creation.allowed
        self.auto_create_partitions: Final[int] = creation.partitions
        self.auto_create_subscriptions: Final[bool] = _auto_subscription_of(levels, settings)


# ---- What each level says, the nearest first ------------------------------------------


def _number_of(levels: list[Policies], policy: str, default: int) -> int:
    for level in levels:
        value = level.numbers.get(policy)
        if value is not None:
            return value
    return default


def _flag_at(levels: list[Policies], policy: str, default: bool) -> bool:
    for level in levels:
        value = level.flags.get(policy)
        if value is not None:
            return value
    return default


def _scaled(value: int, factor: int) -> int:
    return -1 if value < 0 else value * factor


def _retention_of(levels: list[Policies], settings: BrokerSettings) -> tuple[int, int]:
    """Minutes and MB. One of them at 0 keeps nothing, whatever the other says."""
    minutes, mb = settings.retention_minutes, settings.retention_mb
    for level in reversed(levels):
        if level.retention is not None:
            minutes, mb = level.retention.minutes, level.retention.mb
    return (minutes, mb) if minutes != 0 and mb != 0 else (0, 0)


def _quota_of(levels: list[Policies], kind: str, settings: BrokerSettings) -> BacklogQuota:
    for level in levels:
        quota = level.backlog_quotas.get(kind)
        if quota is not None:
            return quota
    return BacklogQuota(
        settings.backlog_quota_bytes, settings.backlog_quota_seconds, settings.backlog_quota_policy
    )


def _delayed_delivery_of(levels: list[Policies], settings: BrokerSettings) -> DelayedDelivery:
    for level in levels:
        if level.delayed_delivery is not None:
            return level.delayed_delivery
    return DelayedDelivery(
        settings.delayed_delivery,
        settings.delayed_delivery_tick_ms,
        settings.delayed_delivery_max_ms,
    )


def _schema_compatibility_of(levels: list[Policies], settings: BrokerSettings) -> str:
    """UNDEFINED asks the next level; behind the broker Pulsar has FULL."""
    for level in levels:
        if level.schema_compatibility not in (None, "UNDEFINED"):
            assert level.schema_compatibility is not None
            return level.schema_compatibility
    if settings.schema_compatibility == "UNDEFINED":
        return "FULL"
    return settings.schema_compatibility


def _subscription_types_of(levels: list[Policies], settings: BrokerSettings) -> tuple[str, ...]:
    for level in levels:
        if level.subscription_types is not None:
            return level.subscription_types
    return settings.subscription_types


def _inactive_topics_of(levels: list[Policies], settings: BrokerSettings) -> InactiveTopics:
    for level in levels:
        if level.inactive_topics is not None:
            return level.inactive_topics
    return InactiveTopics(
        settings.inactive_topic_mode, settings.inactive_topic_ms, settings.delete_inactive_topics
    )


def _auto_topic_creation_of(levels: list[Policies], settings: BrokerSettings) -> AutoTopicCreation:
    for level in levels:
        if level.auto_topic_creation is not None:
            return level.auto_topic_creation
    return AutoTopicCreation(settings.auto_create_topics, settings.auto_create_partitions)


def _auto_subscription_of(levels: list[Policies], settings: BrokerSettings) -> bool:
    for level in levels:
        if level.auto_subscription_creation is not None:
            return level.auto_subscription_creation
    return settings.auto_create_subscriptions
