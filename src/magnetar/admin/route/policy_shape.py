"""The shapes of policies, as they are answered one by one and with their namespace."""

from typing import Final

from magnetar.admin.http.shape import (
    AMOUNT,
    FLAG,
    TEXT,
    TEXT_MAP,
    TEXTS,
    WHOLE,
    Json,
    each,
    either,
    list_of,
    map_of,
    one_of,
    record,
)
from magnetar.broker.policy.kept import KEPT_POLICIES
from magnetar.broker.policy.limits import LIMIT_POLICIES

__all__ = ["DISPATCH_RATE", "NAMESPACE_POLICIES", "POLICY_VALUE"]

_QUOTA: Final[Json] = record(**each(WHOLE, "limit", "limitSize", "limitTime"), policy=TEXT)
_QUOTAS: Final[Json] = map_of(_QUOTA)
_RETENTION: Final[Json] = record(**each(WHOLE, "retentionTimeInMinutes", "retentionSizeInMB"))
_DELAYED: Final[Json] = record(**each(WHOLE, "tickTime", "maxDeliveryDelayInMillis"), active=FLAG)
_INACTIVE: Final[Json] = record(
    inactiveTopicDeleteMode=TEXT, maxInactiveDurationSeconds=WHOLE, deleteWhileInactive=FLAG
)
_AUTO_TOPIC: Final[Json] = record(
    ("topicType", "defaultNumPartitions"),
    allowAutoTopicCreation=FLAG,
    topicType=one_of("partitioned", "non-partitioned"),
    defaultNumPartitions=WHOLE,
)
_AUTO_SUBSCRIPTION: Final[Json] = record(allowAutoSubscriptionCreation=FLAG)
_PERSISTENCE: Final[Json] = record(
    **each(WHOLE, "bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum"),
    managedLedgerMaxMarkDeleteRate=AMOUNT,
)
_GROUPS: Final = ("bookkeeperAffinityGroupPrimary", "bookkeeperAffinityGroupSecondary")
_AFFINITY: Final[Json] = record(_GROUPS, **each(TEXT, *_GROUPS))
DISPATCH_RATE: Final[Json] = record(
    **each(WHOLE, "dispatchThrottlingRateInMsg", "dispatchThrottlingRateInByte"),
    ratePeriodInSecond=WHOLE,
    relativeToPublishRate=FLAG,
)
_PUBLISH_RATE: Final[Json] = record(
    **each(WHOLE, "publishThrottlingRateInMsg", "publishThrottlingRateInByte")
)
_SUBSCRIBE_RATE: Final[Json] = record(
    **each(WHOLE, "subscribeThrottlingRatePerConsumer", "ratePeriodInSecond")
)
# One shape for all: which of them it is follows from the policy that the path names.
POLICY_VALUE: Final[Json] = either(
    WHOLE,
    FLAG,
    TEXT,
    TEXTS,
    _RETENTION,
    _DELAYED,
    _INACTIVE,
    _AUTO_TOPIC,
    _AUTO_SUBSCRIPTION,
    _QUOTAS,
    _PERSISTENCE,
    _AFFINITY,
    DISPATCH_RATE,
    _PUBLISH_RATE,
    _SUBSCRIBE_RATE,
)

_BY_CLUSTER: Final[Json] = map_of(DISPATCH_RATE)
_GRANTS: Final[Json] = map_of(TEXTS)
_TOLD: Final[dict[str, Json]] = {
    **each(WHOLE, *(row.in_whole for row in LIMIT_POLICIES if row.in_whole)),
    **each(FLAG, "deduplicationEnabled", "autoSkipNonRecoverableData"),
    **each(POLICY_VALUE, *(row.in_whole for row in KEPT_POLICIES if row.in_whole)),
    "schema_auto_update_compatibility_strategy": TEXT,
    "resource_group_name": TEXT,
    "retention_policies": _RETENTION,
    "autoTopicCreationOverride": _AUTO_TOPIC,
    "autoSubscriptionCreationOverride": _AUTO_SUBSCRIPTION,
    "delayed_delivery_policies": _DELAYED,
    "inactive_topic_policies": _INACTIVE,
}
NAMESPACE_POLICIES: Final[Json] = record(
    tuple(_TOLD),
    **_TOLD,
    auth_policies=record(
        namespace_auth=_GRANTS, destination_auth=map_of(_GRANTS), subscription_auth_roles=_GRANTS
    ),
    replication_clusters=TEXTS,
    bundles=record(boundaries=TEXTS, numBundles=WHOLE),
    backlog_quota_map=_QUOTAS,
    schema_compatibility_strategy=TEXT,
    schema_validation_enforced=FLAG,
    subscription_types_enabled=list_of(TEXT),
    properties=TEXT_MAP,
    subscription_auth_mode=TEXT,
    **each(FLAG, "deleted", "migrated", "encryption_required", "is_allow_auto_update_schema"),
    **each(_BY_CLUSTER, "clusterDispatchRate", "topicDispatchRate", "subscriptionDispatchRate"),
    **each(_BY_CLUSTER, "replicatorDispatchRate", "latency_stats_sample_rate"),
    clusterSubscribeRate=map_of(_SUBSCRIBE_RATE),
    publishMaxMessageRate=map_of(_PUBLISH_RATE),
)
