"""What holds for one topic: its own policies, else its namespace's, else the broker's settings.

It is computed once and never changes; whoever changes a policy makes a new one.

A quota and a retention are without limit at -1; `limits.py` has the limits that are so at 0.
"""

from typing import Final, final

from magnetar.broker.policy.effective_rates import EffectiveRates
from magnetar.broker.policy.limits import Limits
from magnetar.broker.policy.policy import AUTO_UPDATES, Policies
from magnetar.broker.policy.policy_value import (
    DESTINATION_STORAGE,
    MESSAGE_AGE,
    AutoTopicCreation,
    BacklogQuota,
    DelayedDelivery,
    InactiveTopics,
)
from magnetar.broker.setting.setting import MIB
from magnetar.broker.setting.settings import BrokerSettings

__all__ = ["EffectivePolicies"]


@final
class EffectivePolicies:
    """What holds for one topic, all levels considered."""

    def __init__(
        self, settings: BrokerSettings, namespace: Policies | None, topic: Policies | None
    ) -> None:
        levels = [level for level in (topic, namespace) if level is not None]

        self.limits: Final = Limits(settings, [level.numbers for level in levels])
        group = "" if namespace is None else namespace.resource_group
        self.rates: Final = EffectiveRates(settings, levels, topic, group)

        minutes, mb = _retention_of(levels, settings)
        self.retention_time_ms: Final[int] = _scaled(minutes, 60_000)
        self.retention_size_bytes: Final[int] = _scaled(mb, MIB)

        size = _quota_of(levels, DESTINATION_STORAGE, settings)
        age = _quota_of(levels, MESSAGE_AGE, settings)
        self.backlog_quota_bytes: Final[int] = max(size.limit_size, -1)
        self.backlog_quota_ms: Final[int] = age.limit_time * 1000 if age.limit_time > 0 else -1
        # What happens beyond `backlog_quota_bytes`, and beyond `backlog_quota_ms`.
        self.backlog_size_policy: Final[str] = size.policy
        self.backlog_time_policy: Final[str] = age.policy

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
        self.encryption_required: Final[bool] = _flag_at(
            levels, "encryptionRequired", settings.encryption_required
        )
        self.auto_update_schema: Final[bool] = _flag_at(
            levels, "isAllowAutoUpdateSchema", settings.allow_auto_update_schema
        )
        self.subscription_auth_mode: Final[str] = _auth_mode_of(levels)
        # What changes nothing, as it was told nearest.
        self.kept: Final[dict[str, object]] = {}
        for level in reversed(levels):
            self.kept.update(level.kept)
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
        if level.schema_auto_update is not None:
            return AUTO_UPDATES[level.schema_auto_update]
    if settings.schema_compatibility == "UNDEFINED":
        return "FULL"
    return settings.schema_compatibility


def _auth_mode_of(levels: list[Policies]) -> str:
    for level in levels:
        if level.subscription_auth_mode is not None:
            return level.subscription_auth_mode
    return "None"


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
