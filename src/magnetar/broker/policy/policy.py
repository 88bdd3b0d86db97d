"""Policies of namespaces and topics, as Pulsar's admin REST sets them.

`Policies` is what one namespace or one topic was told: each policy is there or is not. It
is spoken to in JSON, under the names that Pulsar's REST paths have for it at either level,
and nothing gets in that was not checked. `effective_policies` says what holds for a topic.
"""

from typing import Final, final

from magnetar.broker.policy.policy_value import (
    DESTINATION_STORAGE,
    AutoTopicCreation,
    BacklogQuota,
    DelayedDelivery,
    InactiveTopics,
    RetentionTime,
    read_auto_topic_creation,
    read_backlog_quota,
    read_backlog_quotas,
    read_choice,
    read_delayed_delivery,
    read_flag,
    read_flag_of,
    read_inactive_topics,
    read_number,
    read_object,
    read_quota_kind,
    read_retention,
    read_subscription_types,
)
from magnetar.broker.setting.setting import INT_MAX
from magnetar.broker.setting.settings import SCHEMA_COMPATIBILITIES
from magnetar.errors import SettingsError

__all__ = ["NO_EFFECT", "NUMBER_POLICIES", "POLICY_NAMES", "NumberPolicy", "Policies"]


@final
class NumberPolicy:
    """A policy that is a whole number from 0, under all of its names.

    `name` is the path's at topics, `at_namespace` the path's at namespaces, and `in_whole` the
    field's where Pulsar has all policies of a namespace in one object; empty where it has none.
    `effective` is the attribute of `EffectivePolicies`, in units of which `unit` make one.
    """

    def __init__(
        self,
        name: str,
        effective: str,
        *,
        at_namespace: str = "",
        in_whole: str = "",
        unit: int = 1,
    ) -> None:
        self.name: Final = name
        self.effective: Final = effective
        self.at_namespace: Final = at_namespace or name
        self.in_whole: Final = in_whole
        self.unit: Final = unit


# 0 is "no limit", and "never" for the TTL. A new one is a row here, an attribute of
# `EffectivePolicies`, and a row of the command line's; REST and OpenAPI follow from it.
NUMBER_POLICIES: Final = (
    NumberPolicy("messageTTL", "ttl_ms", in_whole="message_ttl_in_seconds", unit=1000),
    NumberPolicy(
        "maxUnackedMessagesOnConsumer",
        "max_unacked_per_consumer",
        at_namespace="maxUnackedMessagesPerConsumer",
        in_whole="max_unacked_messages_per_consumer",
    ),
    NumberPolicy(
        "maxUnackedMessagesOnSubscription",
        "max_unacked_per_subscription",
        at_namespace="maxUnackedMessagesPerSubscription",
        in_whole="max_unacked_messages_per_subscription",
    ),
    NumberPolicy(
        "maxProducers",
        "max_producers",
        at_namespace="maxProducersPerTopic",
        in_whole="max_producers_per_topic",
    ),
    NumberPolicy(
        "maxConsumers",
        "max_consumers",
        at_namespace="maxConsumersPerTopic",
        in_whole="max_consumers_per_topic",
    ),
    NumberPolicy(
        "maxSubscriptionsPerTopic", "max_subscriptions", in_whole="max_subscriptions_per_topic"
    ),
    NumberPolicy(
        "maxConsumersPerSubscription",
        "max_consumers_per_subscription",
        in_whole="max_consumers_per_subscription",
    ),
    NumberPolicy(
        "maxTopicsPerNamespace", "max_topics_per_namespace", in_whole="max_topics_per_namespace"
    ),
    NumberPolicy("maxMessageSize", "message_size_max"),
)
_NUMBERS: Final = frozenset([row.name for row in NUMBER_POLICIES])
_FLAGS: Final = (
    "deduplicationEnabled",
    "schemaValidationEnforced",
    # Of our own: Apache Pulsar has it for the whole broker only.
    "autoSkipNonRecoverableData",
)

# Every policy by each of its names; the topic's name of it is the one to keep.
POLICY_NAMES: Final[dict[str, str]] = {
    **{row.name: row.name for row in NUMBER_POLICIES},
    **{row.at_namespace: row.name for row in NUMBER_POLICIES},
    **{name: name for name in _FLAGS},
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
        for name, body in read_object("policies", whole).items():
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
            self.numbers[policy] = read_number(name, name, body, 0, INT_MAX)
        elif policy in _FLAGS:
            self.flags[policy] = read_flag(name, name, body)
        elif name == "backlogQuota":
            self.set_backlog_quota(DESTINATION_STORAGE, body)
        elif policy == "backlogQuotaMap":
            self.backlog_quotas = read_backlog_quotas(name, body)
        elif policy == "retention":
            self.retention = read_retention(name, body)
        elif policy == "delayedDelivery":
            self.delayed_delivery = read_delayed_delivery(name, body)
        elif policy == "inactiveTopicPolicies":
            self.inactive_topics = read_inactive_topics(name, body)
        elif policy == "autoTopicCreation":
            self.auto_topic_creation = read_auto_topic_creation(name, body)
        elif policy == "autoSubscriptionCreation":
            fields = read_object(name, body)
            self.auto_subscription_creation = read_flag_of(
                name, fields, "allowAutoSubscriptionCreation"
            )
        elif policy == "subscriptionTypesEnabled":
            self.subscription_types = read_subscription_types(name, body)
        else:
            assert policy == "schemaCompatibilityStrategy"
            self.schema_compatibility = read_choice(name, name, body, SCHEMA_COMPATIBILITIES)

    def get_json(self, name: str) -> object | None:
        """The body that Pulsar's REST answers for a policy; None if it was not told."""
        policy = _policy_name(name)
        if policy in _NUMBERS:
            return self.numbers.get(policy)
        if policy in _FLAGS:
            return self.flags.get(policy)
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
        self.backlog_quotas[read_quota_kind(kind)] = read_backlog_quota("backlogQuota", body)

    def remove_backlog_quota(self, kind: str) -> None:
        self.backlog_quotas.pop(read_quota_kind(kind), None)

    def _get_object(self, policy: str) -> object | None:
        """Of a policy that has fields."""
        if policy == "backlogQuotaMap":
            quotas = self.backlog_quotas
            return {kind: quotas[kind].to_json() for kind in sorted(quotas)} or None
        if policy == "retention" and self.retention is not None:
            return self.retention.to_json()
        if policy == "delayedDelivery" and self.delayed_delivery is not None:
            return self.delayed_delivery.to_json()
        if policy == "inactiveTopicPolicies" and self.inactive_topics is not None:
            return self.inactive_topics.to_json()
        if policy == "autoTopicCreation" and self.auto_topic_creation is not None:
            return self.auto_topic_creation.to_json()
        if policy == "autoSubscriptionCreation" and self.auto_subscription_creation is not None:
            return {"allowAutoSubscriptionCreation": self.auto_subscription_creation}
        return None


def _policy_name(name: str) -> str:
    policy = POLICY_NAMES.get(name)
    if policy is not None:
        return policy
    reason = NO_EFFECT.get(name)
    if reason is not None:
        raise SettingsError(name, f"this policy has no effect here: {reason}")
    raise SettingsError(name, f"there is no such policy; there are {', '.join(POLICY_NAMES)}")
