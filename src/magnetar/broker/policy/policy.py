"""Policies of namespaces and topics, as Pulsar's admin REST sets them.

`Policies` is what one namespace or one topic was told: each policy is there or is not. It
is spoken to in JSON, under the names that Pulsar's REST paths have for it at either level,
and nothing gets in that was not checked. `effective_policies` says what holds for a topic.
"""

from typing import Final, final

from magnetar.broker.policy.kept import KEPT_POLICIES, KeptPolicy
from magnetar.broker.policy.limits import LIMIT_POLICIES
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
from magnetar.broker.policy.rate_policy import (
    RATE_POLICIES,
    RatePolicy,
    read_dispatch_rate,
    show_dispatch_rate,
)
from magnetar.broker.rate.rate import Rate
from magnetar.broker.setting.section.producer import SCHEMA_COMPATIBILITIES
from magnetar.errors import SettingsError

__all__ = ["AUTO_UPDATES", "NO_EFFECT", "POLICY_NAMES", "Policies"]


_LIMITS: Final = {row.name: row for row in LIMIT_POLICIES}
_FLAGS: Final = (
    "deduplicationEnabled",
    "schemaValidationEnforced",
    # Of our own: Apache Pulsar has it for the whole broker only.
    "autoSkipNonRecoverableData",
    "encryptionRequired",
    "isAllowAutoUpdateSchema",
)
_KEPT: Final[dict[str, KeptPolicy]] = {row.name: row for row in KEPT_POLICIES}
_RATES: Final[dict[str, RatePolicy]] = {row.name: row for row in RATE_POLICIES}
# Whether roles may use subscriptions of any name, or of such that begin with theirs.
AUTH_MODES: Final = ("None", "Prefix")
# What Pulsar said of schemas before it had compatibility strategies, and which that is today.
AUTO_UPDATES: Final[dict[str, str]] = {
    "AutoUpdateDisabled": "ALWAYS_INCOMPATIBLE",
    "Backward": "BACKWARD",
    "Forward": "FORWARD",
    "Full": "FULL",
    "AlwaysCompatible": "ALWAYS_COMPATIBLE",
    "BackwardTransitive": "BACKWARD_TRANSITIVE",
    "ForwardTransitive": "FORWARD_TRANSITIVE",
    "FullTransitive": "FULL_TRANSITIVE",
}

# Every policy by each of its names; the topic's name of it is the one to keep.
POLICY_NAMES: Final[dict[str, str]] = {
    **{row.name: row.name for row in LIMIT_POLICIES},
    **{row.at_namespace: row.name for row in LIMIT_POLICIES},
    **{name: name for name in _FLAGS},
    **{name: name for name in _KEPT},
    **{name: name for name in _RATES},
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
    "schemaAutoUpdateCompatibilityStrategy": "schemaAutoUpdateCompatibilityStrategy",
    "subscriptionAuthMode": "subscriptionAuthMode",
}

# Policies that Pulsar has and this broker does not honour. It says so, and stores nothing.
NO_EFFECT: Final[dict[str, str]] = {
    "offloadPolicies": "ledgers are not offloaded here",
    "entryFilters": "no entry filter is found: there are no plugins",
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
        self.schema_auto_update: str | None = None
        self.subscription_auth_mode: str | None = None
        # Of a namespace: texts that mean nothing to the broker, and where its bundles end if they
        # are not the default ones.
        self.properties: dict[str, str] = {}
        self.bundles: list[int] = []
        # The group whose rates its topics share; empty if it is in none.
        self.resource_group: str = ""
        # Rates by the name of the policy; of a topic, those of one subscription by its name.
        self.rates: dict[str, Rate] = {}
        self.subscription_rates: dict[str, Rate] = {}
        # What changes nothing, as JSON by its name.
        self.kept: dict[str, object] = {}
        # By kind of quota, and by the topic's name of the policy.
        self.backlog_quotas: dict[str, BacklogQuota] = {}
        self.numbers: dict[str, int] = {}
        self.flags: dict[str, bool] = {}

    @classmethod
    def from_json(cls, whole: object) -> "Policies":
        """Returns what `to_json` gave."""
        policies = cls()
        for name, body in read_object("policies", whole).items():
            if name == "properties":
                fields = read_object(name, body)
                policies.properties = {key: str(fields[key]) for key in fields}
            elif name == "bundles":
                assert isinstance(body, list)
                policies.bundles = [int(one) for one in body]
            elif name == "resourceGroup":
                policies.resource_group = str(body)
            elif name == "subscriptionRates":
                policies.subscription_rates = {
                    key: read_dispatch_rate(name, rate)
                    for key, rate in read_object(name, body).items()
                }
            else:
                policies.set_json(name, body)
        return policies

    def to_json(self) -> dict[str, object]:
        """Returns all that was told, by the topic's name of each policy."""
        whole: dict[str, object] = {}
        for name in sorted(set(POLICY_NAMES.values())):
            body = self.get_json(name)
            if body is not None:
                whole[name] = body
        if self.properties:
            whole["properties"] = dict(self.properties)
        if self.bundles:
            whole["bundles"] = list(self.bundles)
        if self.resource_group:
            whole["resourceGroup"] = self.resource_group
        if self.subscription_rates:
            rates = self.subscription_rates
            whole["subscriptionRates"] = {key: show_dispatch_rate(rates[key]) for key in rates}
        return whole

    def set_json(self, name: str, body: object) -> None:
        """Tell a policy, as the body of its REST path does; null takes it away.

        `backlogQuota` takes the quota of one kind, which is the size of the storage unless
        `set_backlog_quota` is called for another; `backlogQuotaMap` takes all of them.
        """
        policy = _policy_name(name)
        if body is None:
            self.remove(name)
        elif policy in _LIMITS:
            self.numbers[policy] = read_number(name, name, body, 0, _LIMITS[policy].most)
        elif policy in _FLAGS:
            self.flags[policy] = read_flag(name, name, body)
        elif policy in _KEPT:
            self.kept[policy] = _KEPT[policy].read(name, body)
        elif policy in _RATES:
            self.rates[policy] = _RATES[policy].read(name, body)
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
            self.subscription_types = read_subscription_types(name, body) or None
        elif policy == "schemaAutoUpdateCompatibilityStrategy":
            self.schema_auto_update = read_choice(name, name, body, tuple(AUTO_UPDATES))
        elif policy == "subscriptionAuthMode":
            self.subscription_auth_mode = read_choice(name, name, body, AUTH_MODES)
        else:
            assert policy == "schemaCompatibilityStrategy"
            self.schema_compatibility = read_choice(name, name, body, SCHEMA_COMPATIBILITIES)

    def get_json(self, name: str) -> object | None:
        """Returns the body that Pulsar's REST answers for a policy; None if it was not told."""
        policy = _policy_name(name)
        if policy in _LIMITS:
            return self.numbers.get(policy)
        if policy in _FLAGS:
            return self.flags.get(policy)
        if policy in _KEPT:
            return self.kept.get(policy)
        if policy in _RATES:
            rate = self.rates.get(policy)
            return None if rate is None else _RATES[policy].show(rate)
        if policy == "schemaAutoUpdateCompatibilityStrategy":
            return self.schema_auto_update
        if policy == "subscriptionAuthMode":
            return self.subscription_auth_mode
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
        self.kept.pop(policy, None)
        self.rates.pop(policy, None)
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
        elif policy == "schemaAutoUpdateCompatibilityStrategy":
            self.schema_auto_update = None
        elif policy == "subscriptionAuthMode":
            self.subscription_auth_mode = None

    def set_subscription_rate(self, subscription: str, body: object) -> None:
        """Tell the dispatch rate of one subscription of a topic; None takes it back."""
        if body is None:
            self.subscription_rates.pop(subscription, None)
        else:
            self.subscription_rates[subscription] = read_dispatch_rate("dispatchRate", body)

    def set_backlog_quota(self, kind: str, body: object) -> None:
        """Tell the quota of one kind, which REST has as `?backlogQuotaType=`."""
        self.backlog_quotas[read_quota_kind(kind)] = read_backlog_quota("backlogQuota", body)

    def remove_backlog_quota(self, kind: str) -> None:
        self.backlog_quotas.pop(read_quota_kind(kind), None)

    def _get_object(self, policy: str) -> object | None:
        """Returns the JSON of a policy that has fields; None if it was not told."""
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
