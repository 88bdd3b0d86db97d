"""Policies of namespaces and topics, as Pulsar's admin REST sets them.

`Policies` is what one namespace or one topic was told: each policy is there or is not. It
is spoken to in JSON, under the names that Pulsar's REST paths have for it at either level,
and nothing gets in that was not checked.

`EffectivePolicies` is what holds for one topic: for each policy the topic's own value, else
its namespace's, else the broker's setting. It is computed once and never changes; whoever
changes a policy makes a new one.

A quota and a retention are without limit at -1, other limits at 0. `maxMessageSize` can only
lower what the broker allows.
"""

from collections.abc import Mapping
from typing import Final, final

from magnetar.broker.settings import (
    BACKLOG_POLICIES,
    COUNT_MAX,
    INACTIVE_MODES,
    INT_MAX,
    MEBIBYTES_MAX,
    MIB,
    MS_MAX,
    SCHEMA_COMPATIBILITIES,
    SUBSCRIPTION_TYPES,
    BrokerSettings,
)
from magnetar.errors import SettingsError

__all__ = [
    "DESTINATION_STORAGE",
    "MESSAGE_AGE",
    "NO_EFFECT",
    "POLICY_NAMES",
    "AutoTopicCreation",
    "BacklogQuota",
    "DelayedDelivery",
    "EffectivePolicies",
    "InactiveTopics",
    "Policies",
    "RetentionTime",
]

# The kinds of backlog quotas. The third that Pulsar's documents name is a policy, not a kind.
DESTINATION_STORAGE: Final = "destination_storage"
MESSAGE_AGE: Final = "message_age"

# Whole numbers from 0, by their name at topics. 0 is "no limit", and "never" for the TTL.
_NUMBERS: Final = (
    "messageTTL",
    "maxUnackedMessagesOnConsumer",
    "maxUnackedMessagesOnSubscription",
    "maxProducers",
    "maxConsumers",
    "maxSubscriptionsPerTopic",
    "maxConsumersPerSubscription",
    "maxTopicsPerNamespace",
    "maxMessageSize",
)
_FLAGS: Final = ("deduplicationEnabled", "schemaValidationEnforced")

# Every policy by each of its names; the topic's name of it is the one to keep.
POLICY_NAMES: Final[dict[str, str]] = {
    **{name: name for name in _NUMBERS},
    **{name: name for name in _FLAGS},
    "maxUnackedMessagesPerConsumer": "maxUnackedMessagesOnConsumer",
    "maxUnackedMessagesPerSubscription": "maxUnackedMessagesOnSubscription",
    "maxProducersPerTopic": "maxProducers",
    "maxConsumersPerTopic": "maxConsumers",
    "deduplication": "deduplicationEnabled",
    "retention": "retention",
    "backlogQuota": "backlogQuotaMap",
    "backlogQuotaMap": "backlogQuotaMap",
    "delayedDelivery": "delayedDelivery",
    "subscriptionTypesEnabled": "subscriptionTypesEnabled",
    "inactiveTopicPolicies": "inactiveTopicPolicies",
    "autoTopicCreation": "autoTopicCreation",
    "autoSubscriptionCreation": "autoSubscriptionCreation",
    "schemaCompatibilityStrategy": "schemaCompatibilityStrategy",
}

_NO_RATES: Final = "rates are not limited here; a slow peer stops the reads of its own socket"

# Policies that Pulsar has and this broker does not honour. It says so, and stores nothing.
NO_EFFECT: Final[dict[str, str]] = {
    "dispatchRate": _NO_RATES,
    "publishRate": _NO_RATES,
    "subscribeRate": _NO_RATES,
    "subscriptionDispatchRate": _NO_RATES,
    "replicatorDispatchRate": _NO_RATES,
    "persistence": "there are no bookies to choose, and every ack is written before its receipt",
    "dispatcherPauseOnAckStatePersistent": "the ack state is always written, so none waits for it",
    "compactionThreshold": "topics are not compacted here",
    "offloadPolicies": "ledgers are not offloaded here",
    "replication": "there is one cluster, this broker",
    "deduplicationSnapshotInterval": "deduplication_snapshot_entries says it for all topics",
    "subscriptionExpirationTime": "subscriptions stay until somebody deletes them",
    "entryFilters": "there are no plugins",
}


@final
class RetentionTime:
    """How long and how much of what is acked stays. -1 is without limit."""

    def __init__(self, minutes: int, mb: int) -> None:
        self.minutes: Final = minutes
        self.mb: Final = mb


@final
class BacklogQuota:
    """How much may be unacked, and what happens beyond. Below 0 there is no limit."""

    def __init__(self, limit_size: int, limit_time: int, policy: str) -> None:
        self.limit_size: Final = limit_size
        self.limit_time: Final = limit_time
        self.policy: Final = policy


@final
class DelayedDelivery:
    """Whether messages may wait, on which tick, and how long at most (0: any time)."""

    def __init__(self, active: bool, tick_ms: int, max_delay_ms: int) -> None:
        self.active: Final = active
        self.tick_ms: Final = tick_ms
        self.max_delay_ms: Final = max_delay_ms


@final
class InactiveTopics:
    """When a topic that nobody uses goes."""

    def __init__(self, mode: str, inactive_ms: int, enabled: bool) -> None:
        self.mode: Final = mode
        self.inactive_ms: Final = inactive_ms
        self.enabled: Final = enabled


@final
class AutoTopicCreation:
    """Whether a name that is used becomes a topic; 0 partitions is one without any."""

    def __init__(self, allowed: bool, partitions: int) -> None:
        self.allowed: Final = allowed
        self.partitions: Final = partitions


@final
class Policies:
    """What one namespace or topic was told; None where it was told nothing."""

    def __init__(self) -> None:
        self.retention: RetentionTime | None = None
        self.delayed_delivery: DelayedDelivery | None = None
        self.inactive_topics: InactiveTopics | None = None
        self.auto_topic_creation: AutoTopicCreation | None = None
        self.auto_subscription_creation: bool | None = None
        self.subscription_types: tuple[str, ...] | None = None
        self.schema_compatibility: str | None = None
        # By kind of quota, and by the topic's name of the policy.
        self.backlog_quotas: dict[str, BacklogQuota] = {}
        self.numbers: dict[str, int] = {}
        self.flags: dict[str, bool] = {}

    @classmethod
    def from_json(cls, whole: object) -> "Policies":
        """What `to_json` gave."""
        policies = cls()
        for name, body in _object("policies", whole).items():
            policies.set_json(name, body)
        return policies

    def to_json(self) -> dict[str, object]:
        """All that was told, by the topic's name of each policy."""
        whole: dict[str, object] = {}
        for name in sorted(set(POLICY_NAMES.values())):
            body = self.get_json(name)
            if body is not None:
                whole[name] = body
        return whole

    def set_json(self, name: str, body: object) -> None:
        """Tell a policy, as the body of its REST path does; null takes it away.

        `backlogQuota` takes the quota of one kind, which is the size of the storage unless
        `set_backlog_quota` is called for another; `backlogQuotaMap` takes all of them.
        """
        policy = _policy_name(name)
        if body is None:
            self.remove(name)
        elif policy in _NUMBERS:
            self.numbers[policy] = _number(name, name, body, 0, INT_MAX)
        elif policy in _FLAGS:
            self.flags[policy] = _flag(name, name, body)
        elif name == "backlogQuota":
            self.set_backlog_quota(DESTINATION_STORAGE, body)
        elif policy == "backlogQuotaMap":
            self.backlog_quotas = _backlog_quotas(name, body)
        elif policy == "retention":
            self.retention = _retention(name, body)
        elif policy == "delayedDelivery":
            self.delayed_delivery = _delayed_delivery(name, body)
        elif policy == "inactiveTopicPolicies":
            self.inactive_topics = _inactive_topics(name, body)
        elif policy == "autoTopicCreation":
            self.auto_topic_creation = _auto_topic_creation(name, body)
        elif policy == "autoSubscriptionCreation":
            fields = _object(name, body)
            self.auto_subscription_creation = _flag_of(
                name, fields, "allowAutoSubscriptionCreation"
            )
        elif policy == "subscriptionTypesEnabled":
            self.subscription_types = _subscription_types(name, body)
        else:
            assert policy == "schemaCompatibilityStrategy"
            self.schema_compatibility = _choice(name, name, body, SCHEMA_COMPATIBILITIES)

    def get_json(self, name: str) -> object | None:
        """The body that Pulsar's REST answers for a policy; None if it was not told."""
        policy = _policy_name(name)
        if policy in _NUMBERS:
            return self.numbers.get(policy)
        if policy in _FLAGS:
            return self.flags.get(policy)
        if policy == "backlogQuotaMap":
            return _backlog_quotas_json(self.backlog_quotas)
        if policy == "subscriptionTypesEnabled":
            return None if self.subscription_types is None else list(self.subscription_types)
        if policy == "schemaCompatibilityStrategy":
            return self.schema_compatibility
        return self._get_object(policy)

    def remove(self, name: str) -> None:
        """Forget a policy, so that the next level holds. It need not be there."""
        policy = _policy_name(name)
        self.numbers.pop(policy, None)
        self.flags.pop(policy, None)
        if policy == "backlogQuotaMap":
            self.backlog_quotas = {}
        elif policy == "retention":
            self.retention = None
        elif policy == "delayedDelivery":
            self.delayed_delivery = None
        elif policy == "inactiveTopicPolicies":
            self.inactive_topics = None
        elif policy == "autoTopicCreation":
            self.auto_topic_creation = None
        elif policy == "autoSubscriptionCreation":
            self.auto_subscription_creation = None
        elif policy == "subscriptionTypesEnabled":
            self.subscription_types = None
        elif policy == "schemaCompatibilityStrategy":
            self.schema_compatibility = None

    def set_backlog_quota(self, kind: str, body: object) -> None:
        """Tell the quota of one kind, which REST has as `?backlogQuotaType=`."""
        self.backlog_quotas[_quota_kind(kind)] = _backlog_quota("backlogQuota", body)

    def remove_backlog_quota(self, kind: str) -> None:
        self.backlog_quotas.pop(_quota_kind(kind), None)

    def _get_object(self, policy: str) -> object | None:
        if policy == "retention" and self.retention is not None:
            return {
                "retentionTimeInMinutes": self.retention.minutes,
                "retentionSizeInMB": self.retention.mb,
            }
        if policy == "delayedDelivery" and self.delayed_delivery is not None:
            return {
                "active": self.delayed_delivery.active,
                "tickTime": self.delayed_delivery.tick_ms,
                "maxDeliveryDelayInMillis": self.delayed_delivery.max_delay_ms,
            }
        if policy == "inactiveTopicPolicies" and self.inactive_topics is not None:
            return {
                "inactiveTopicDeleteMode": self.inactive_topics.mode,
                "maxInactiveDurationSeconds": self.inactive_topics.inactive_ms // 1000,
                "deleteWhileInactive": self.inactive_topics.enabled,
            }
        if policy == "autoTopicCreation" and self.auto_topic_creation is not None:
            return _auto_topic_creation_json(self.auto_topic_creation)
        if policy == "autoSubscriptionCreation" and self.auto_subscription_creation is not None:
            return {"allowAutoSubscriptionCreation": self.auto_subscription_creation}
        return None


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


# ---- From JSON, and back where that takes more than a line -----------------------------
# A field that Pulsar has and we do not know is passed over: newer clients may send more.


def _policy_name(name: str) -> str:
    policy = POLICY_NAMES.get(name)
    if policy is not None:
        return policy
    reason = NO_EFFECT.get(name)
    if reason is not None:
        raise SettingsError(name, f"this policy has no effect here: {reason}")
    raise SettingsError(name, f"there is no such policy; there are {', '.join(POLICY_NAMES)}")


def _object(name: str, body: object) -> Mapping[str, object]:
    if not isinstance(body, dict):
        raise SettingsError(name, f"{_shown(body)} is not a JSON object: give one")
    return body


def _number(name: str, field: str, value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingsError(name, f"{field} is {_shown(value)}: give a whole number")
    if value < low or value > high:
        raise SettingsError(name, f"{field} is {value}: give a number from {low} to {high}")
    return value


def _number_at(
    name: str, fields: Mapping[str, object], field: str, default: int, low: int, high: int
) -> int:
    value = fields.get(field)
    return default if value is None else _number(name, field, value, low, high)


def _flag(name: str, field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise SettingsError(name, f"{field} is {_shown(value)}: give true or false")
    return value


def _flag_of(name: str, fields: Mapping[str, object], field: str) -> bool:
    return _flag(name, field, fields.get(field))


def _choice(name: str, field: str, value: object, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise SettingsError(name, f"{field} is {_shown(value)}: give one of {', '.join(choices)}")
    return value


def _shown(value: object) -> str:
    """A value in an error, which is no place for a megabyte of it."""
    text = "missing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _retention(name: str, body: object) -> RetentionTime:
    fields = _object(name, body)
    minutes = _number_at(name, fields, "retentionTimeInMinutes", 0, -1, INT_MAX)
    mb = _number_at(name, fields, "retentionSizeInMB", 0, -1, MEBIBYTES_MAX)
    if (minutes == 0) != (mb == 0):
        raise SettingsError(
            name,
            "one of retentionTimeInMinutes and retentionSizeInMB is 0 and the other is not: give "
            "-1 for the one that shall not limit, or 0 for both to keep nothing",
        )
    return RetentionTime(minutes, mb)


def _quota_kind(kind: str) -> str:
    if kind not in (DESTINATION_STORAGE, MESSAGE_AGE):
        raise SettingsError(
            "backlogQuota",
            f"{_shown(kind)} is no kind of quota: give {DESTINATION_STORAGE} or {MESSAGE_AGE}",
        )
    return kind


def _backlog_quota(name: str, body: object) -> BacklogQuota:
    fields = _object(name, body)
    # Pulsar called the size "limit" once, and still sends both.
    size = _number_at(name, fields, "limit", -1, -COUNT_MAX, COUNT_MAX)
    size = _number_at(name, fields, "limitSize", size, -COUNT_MAX, COUNT_MAX)
    seconds = _number_at(name, fields, "limitTime", -1, -INT_MAX, INT_MAX)
    policy = _choice(name, "policy", fields.get("policy"), BACKLOG_POLICIES)
    return BacklogQuota(size, seconds, policy)


def _backlog_quotas(name: str, body: object) -> dict[str, BacklogQuota]:
    fields = _object(name, body)
    return {_quota_kind(kind): _backlog_quota(name, fields[kind]) for kind in fields}


def _backlog_quotas_json(quotas: Mapping[str, BacklogQuota]) -> object | None:
    if not quotas:
        return None
    return {
        kind: {
            "limit": quotas[kind].limit_size,
            "limitSize": quotas[kind].limit_size,
            "limitTime": quotas[kind].limit_time,
            "policy": quotas[kind].policy,
        }
        for kind in sorted(quotas)
    }


def _delayed_delivery(name: str, body: object) -> DelayedDelivery:
    fields = _object(name, body)
    return DelayedDelivery(
        _flag_of(name, fields, "active"),
        _number_at(name, fields, "tickTime", 0, 0, MS_MAX),
        _number_at(name, fields, "maxDeliveryDelayInMillis", 0, 0, MS_MAX),
    )


def _inactive_topics(name: str, body: object) -> InactiveTopics:
    fields = _object(name, body)
    mode = _choice(
        name, "inactiveTopicDeleteMode", fields.get("inactiveTopicDeleteMode"), INACTIVE_MODES
    )
    enabled = _flag_of(name, fields, "deleteWhileInactive")
    seconds = _number(
        name,
        "maxInactiveDurationSeconds",
        fields.get("maxInactiveDurationSeconds"),
        1 if enabled else 0,
        INT_MAX,
    )
    return InactiveTopics(mode, seconds * 1000, enabled)


def _auto_topic_creation(name: str, body: object) -> AutoTopicCreation:
    fields = _object(name, body)
    if not _flag_of(name, fields, "allowAutoTopicCreation"):
        return AutoTopicCreation(False, 0)
    kinds = ("partitioned", "non-partitioned")
    if _choice(name, "topicType", fields.get("topicType"), kinds) == "partitioned":
        count = fields.get("defaultNumPartitions")
        return AutoTopicCreation(True, _number(name, "defaultNumPartitions", count, 1, INT_MAX))
    if fields.get("defaultNumPartitions") is not None:
        raise SettingsError(
            name, "defaultNumPartitions has no meaning for non-partitioned topics: leave it out"
        )
    return AutoTopicCreation(True, 0)


def _auto_topic_creation_json(creation: AutoTopicCreation) -> dict[str, object]:
    if not creation.allowed:
        return {"allowAutoTopicCreation": False}
    if creation.partitions == 0:
        return {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}
    return {
        "allowAutoTopicCreation": True,
        "topicType": "partitioned",
        "defaultNumPartitions": creation.partitions,
    }


def _subscription_types(name: str, body: object) -> tuple[str, ...]:
    if not isinstance(body, list) or not body:
        raise SettingsError(
            name,
            f"{_shown(body)} is no list of types: give some of {', '.join(SUBSCRIPTION_TYPES)}",
        )
    given = [_choice(name, "a type", one, SUBSCRIPTION_TYPES) for one in body]
    return tuple(one for one in SUBSCRIPTION_TYPES if one in given)
