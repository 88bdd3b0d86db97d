"""Policies of namespaces and topics: in Pulsar's JSON, and as they hold for a topic."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.broker.policy.effective_policies import EffectivePolicies
from magnetar.broker.policy.policy import POLICY_NAMES, Policies
from magnetar.broker.policy.policy_value import DESTINATION_STORAGE, MESSAGE_AGE
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.errors import SettingsError

SIZE_QUOTA = {
    "limit": 10,
    "limitSize": 10,
    "limitTime": -1,
    "policy": "producer_exception",
}
AGE_QUOTA = {
    "limit": -1,
    "limitSize": -1,
    "limitTime": 20,
    "policy": "consumer_backlog_eviction",
}

NO_RATE = {
    "dispatchThrottlingRateInMsg": -1,
    "dispatchThrottlingRateInByte": -1,
    "ratePeriodInSecond": 1,
    "relativeToPublishRate": False,
}
# One body for each policy, just as Pulsar answers it.
BODIES: dict[str, object] = {
    "retention": {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1},
    "backlogQuotaMap": {DESTINATION_STORAGE: SIZE_QUOTA, MESSAGE_AGE: AGE_QUOTA},
    "messageTTL": 30,
    "maxUnackedMessagesOnConsumer": 1,
    "maxUnackedMessagesOnSubscription": 2,
    "maxProducers": 3,
    "maxConsumers": 4,
    "maxSubscriptionsPerTopic": 5,
    "maxConsumersPerSubscription": 6,
    "maxTopicsPerNamespace": 7,
    "maxMessageSize": 1000,
    "compactionThreshold": 1 << 40,
    "delayedDelivery": {"active": False, "tickTime": 5, "maxDeliveryDelayInMillis": 6},
    "deduplicationEnabled": True,
    "subscriptionTypesEnabled": ["Exclusive", "Key_Shared"],
    "inactiveTopicPolicies": {
        "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
        "maxInactiveDurationSeconds": 9,
        "deleteWhileInactive": False,
    },
    "autoTopicCreation": {
        "allowAutoTopicCreation": True,
        "topicType": "partitioned",
        "defaultNumPartitions": 3,
    },
    "autoSubscriptionCreation": {"allowAutoSubscriptionCreation": False},
    "schemaCompatibilityStrategy": "BACKWARD",
    "schemaValidationEnforced": True,
    "autoSkipNonRecoverableData": True,
    "subscriptionExpirationTime": 90,
    "encryptionRequired": True,
    "isAllowAutoUpdateSchema": False,
    "schemaAutoUpdateCompatibilityStrategy": "Full",
    "subscriptionAuthMode": "Prefix",
    # What is kept and changes nothing.
    "persistence": {
        "bookkeeperEnsemble": 3,
        "bookkeeperWriteQuorum": 3,
        "bookkeeperAckQuorum": 2,
        "managedLedgerMaxMarkDeleteRate": 1.5,
    },
    "bookieAffinity": {"bookkeeperAffinityGroupPrimary": "a"},
    "replication": ["here"],
    "allowedClusters": ["here", "there"],
    "replicatorDispatchRate": {
        "dispatchThrottlingRateInMsg": 1,
        "dispatchThrottlingRateInByte": -1,
        "ratePeriodInSecond": 1,
        "relativeToPublishRate": True,
    },
    "antiAffinity": "group",
    "dispatchRate": NO_RATE,
    "subscriptionDispatchRate": NO_RATE,
    "publishRate": {"publishThrottlingRateInMsg": -1, "publishThrottlingRateInByte": 0},
    "subscribeRate": {"subscribeThrottlingRatePerConsumer": -1, "ratePeriodInSecond": 5},
    "deduplicationSnapshotInterval": 5,
    "dispatcherPauseOnAckStatePersistent": True,
    "allowedTopicPropertyKeysForMetrics": ["team"],
    "offloadDeletionLagMs": 100,
    "offloadThreshold": -1,
    "offloadThresholdInSeconds": -1,
}


def told(**bodies: object) -> Policies:
    policies = Policies()
    for name, body in bodies.items():
        policies.set_json(name, body)
    return policies


def refusal(name: str, body: object) -> SettingsError:
    policies = Policies()
    with pytest.raises(SettingsError) as caught:
        policies.set_json(name, body)
    assert policies.to_json() == {}
    return caught.value


# ---- In JSON ----------------------------------------------------------------------------


def test_there_is_a_body_for_every_policy() -> None:
    assert set(BODIES) == set(POLICY_NAMES.values())


@pytest.mark.parametrize("policy", BODIES)
def test_a_policy_comes_back_as_it_was_told(policy: str) -> None:
    policies = Policies()
    assert policies.get_json(policy) is None
    policies.set_json(policy, BODIES[policy])
    assert policies.get_json(policy) == BODIES[policy]
    assert policies.to_json() == {policy: BODIES[policy]}
    policies.remove(policy)
    assert policies.get_json(policy) is None
    policies.set_json(policy, BODIES[policy])
    policies.set_json(policy, None)
    assert policies.to_json() == {}


@pytest.mark.parametrize(("name", "policy"), POLICY_NAMES.items())
def test_each_name_of_a_policy_is_the_same_policy(name: str, policy: str) -> None:
    policies = told(**{policy: BODIES[policy]})
    assert policies.get_json(name) == BODIES[policy]
    policies.remove(name)
    assert policies.to_json() == {}
    if name != "backlogQuota":
        policies.set_json(name, BODIES[policy])
        assert policies.get_json(policy) == BODIES[policy]


def test_properties_and_bundles_of_a_namespace_are_kept_with_its_policies() -> None:
    policies = told(messageTTL=30)
    policies.properties = {"team": "shop"}
    policies.bundles = [0, 1 << 31, (1 << 32) - 1]
    again = Policies.from_json(json.loads(json.dumps(policies.to_json())))
    assert again.properties == policies.properties
    assert again.bundles == policies.bundles
    assert again.numbers == {"messageTTL": 30}


@given(st.sets(st.sampled_from(sorted(BODIES))))
def test_the_whole_survives_the_catalog(names: set[str]) -> None:
    policies = told(**{name: BODIES[name] for name in names})
    text = json.dumps(policies.to_json())
    assert Policies.from_json(json.loads(text)).to_json() == policies.to_json()
    assert set(policies.to_json()) == names


def test_quotas_are_told_one_kind_at_a_time_too() -> None:
    policies = Policies()
    policies.set_json("backlogQuota", {"limitSize": 10, "policy": "producer_exception"})
    assert policies.get_json("backlogQuota") == {DESTINATION_STORAGE: SIZE_QUOTA}
    policies.set_backlog_quota(MESSAGE_AGE, AGE_QUOTA)
    assert policies.get_json("backlogQuotaMap") == BODIES["backlogQuotaMap"]
    policies.remove_backlog_quota(DESTINATION_STORAGE)
    policies.remove_backlog_quota(DESTINATION_STORAGE)
    assert policies.get_json("backlogQuotaMap") == {MESSAGE_AGE: AGE_QUOTA}
    with pytest.raises(SettingsError, match="'weight' is not a kind of quota"):
        policies.set_backlog_quota("weight", AGE_QUOTA)
    with pytest.raises(SettingsError, match="'weight' is not a kind of quota"):
        policies.remove_backlog_quota("weight")


def test_the_old_name_of_a_quota_s_size_is_read() -> None:
    policies = told(backlogQuota={"limit": 7, "policy": "producer_exception"})
    assert policies.backlog_quotas[DESTINATION_STORAGE].limit_size == 7


def test_fields_may_be_left_out_where_pulsar_has_a_default() -> None:
    assert told(retention={}).get_json("retention") == {
        "retentionTimeInMinutes": 0,
        "retentionSizeInMB": 0,
    }
    assert told(delayedDelivery={"active": True}).get_json("delayedDelivery") == {
        "active": True,
        "tickTime": 0,
        "maxDeliveryDelayInMillis": 0,
    }


@pytest.mark.parametrize(
    "body",
    [
        {"allowAutoTopicCreation": False},
        {"allowAutoTopicCreation": True, "topicType": "non-partitioned"},
    ],
)
def test_creation_comes_back_as_it_was_told(body: object) -> None:
    assert told(autoTopicCreation=body).get_json("autoTopicCreation") == body


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("messageTTL", -1, "messageTTL is -1: give a number from 0"),
        ("messageTTL", 1 << 31, "give a number from 0 to 2147483647"),
        ("messageTTL", "10", "messageTTL is '10': give a whole number"),
        ("messageTTL", True, "messageTTL is True: give a whole number"),
        ("deduplication", 1, "deduplication is 1: give true or false"),
        ("retention", 5, "5 is not a JSON object"),
        ("retention", "x" * 100, "xxx... is not a JSON object"),
        ("retention", {"retentionTimeInMinutes": -2, "retentionSizeInMB": 1}, "is -2"),
        ("retention", {"retentionTimeInMinutes": 5}, "give -1 for the one that shall not limit"),
        ("backlogQuota", {"limitSize": 5}, "policy is missing: give one of producer_request_hold"),
        ("backlogQuota", {"limitTime": 1.5, "policy": "producer_exception"}, "limitTime is 1.5"),
        ("backlogQuotaMap", {"weight": SIZE_QUOTA}, "'weight' is not a kind of quota"),
        ("delayedDelivery", {}, "active is missing: give true or false"),
        ("subscriptionTypesEnabled", {}, "{} is not a list of types"),
        ("subscriptionTypesEnabled", "Shared", "'Shared' is not a list of types"),
        ("subscriptionTypesEnabled", ["Solo"], "a type is 'Solo': give one of Exclusive"),
        ("inactiveTopicPolicies", {"inactiveTopicDeleteMode": "never"}, "is 'never': give one of"),
        (
            "inactiveTopicPolicies",
            {
                "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
                "deleteWhileInactive": True,
                "maxInactiveDurationSeconds": 0,
            },
            "maxInactiveDurationSeconds is 0: give a number from 1",
        ),
        ("autoTopicCreation", {}, "allowAutoTopicCreation is missing"),
        ("autoTopicCreation", {"allowAutoTopicCreation": True}, "topicType is missing"),
        (
            "autoTopicCreation",
            {"allowAutoTopicCreation": True, "topicType": "partitioned"},
            "defaultNumPartitions is missing: give a whole number",
        ),
        (
            "autoTopicCreation",
            {
                "allowAutoTopicCreation": True,
                "topicType": "non-partitioned",
                "defaultNumPartitions": 1,
            },
            "defaultNumPartitions has no meaning",
        ),
        ("autoSubscriptionCreation", {}, "allowAutoSubscriptionCreation is missing"),
        ("schemaCompatibilityStrategy", "SOME", "is 'SOME': give one of UNDEFINED"),
        ("offloadPolicies", {}, "this policy has no effect here: ledgers are not offloaded"),
        ("colour", 1, "there is no such policy; there are messageTTL"),
    ],
)
def test_a_bad_body_is_refused_and_changes_nothing(name: str, body: object, said: str) -> None:
    error = refusal(name, body)
    assert error.key in (name, "backlogQuota")
    assert said in error.reason


def test_a_whole_that_is_no_object_is_refused() -> None:
    with pytest.raises(SettingsError, match="policies: \\[\\] is not a JSON object"):
        Policies.from_json([])


def test_a_bad_quota_in_a_map_leaves_the_others_as_they_were() -> None:
    policies = told(backlogQuotaMap={MESSAGE_AGE: AGE_QUOTA})
    with pytest.raises(SettingsError):
        policies.set_json("backlogQuotaMap", {DESTINATION_STORAGE: SIZE_QUOTA, "weight": {}})
    assert policies.get_json("backlogQuotaMap") == {MESSAGE_AGE: AGE_QUOTA}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
)


@given(st.sampled_from(sorted(POLICY_NAMES)), JSON)
def test_any_body_is_taken_or_refused(name: str, body: object) -> None:
    policies = Policies()
    try:
        policies.set_json(name, body)
    except SettingsError:
        assert policies.to_json() == {}


# ---- As they hold -----------------------------------------------------------------------


def test_untold_the_broker_s_settings_hold() -> None:
    settings = BrokerSettings(
        retention_minutes=2,
        retention_mb=3,
        ttl_seconds=4,
        backlog_quota_bytes=5,
        backlog_quota_seconds=6,
        max_producers_per_topic=7,
        max_consumers_per_topic=8,
        max_subscriptions_per_topic=9,
        max_consumers_per_subscription=10,
        max_topics_per_namespace=11,
        delayed_delivery_max_ms=12,
        auto_create_partitions=13,
    )
    for effective in (
        EffectivePolicies(settings, None, None),
        EffectivePolicies(settings, Policies(), Policies()),
    ):
        assert (effective.retention_time_ms, effective.retention_size_bytes) == (120_000, 3 << 20)
        assert effective.limits.ttl_ms == 4000
        assert (effective.backlog_quota_bytes, effective.backlog_quota_ms) == (5, 6000)
        assert effective.backlog_size_policy == "producer_request_hold"
        assert effective.backlog_time_policy == "producer_request_hold"
        assert effective.limits.max_unacked_per_consumer == 50_000
        assert effective.limits.max_unacked_per_subscription == 200_000
        assert (effective.limits.max_producers, effective.limits.max_consumers) == (7, 8)
        assert (
            effective.limits.max_subscriptions,
            effective.limits.max_consumers_per_subscription,
        ) == (9, 10)
        assert effective.limits.max_topics_per_namespace == 11
        assert effective.limits.message_size_max == 5 << 20
        assert effective.delayed_delivery
        assert effective.delayed_delivery_tick_ms == 1000
        assert effective.delayed_delivery_max_ms == 12
        assert not effective.deduplication
        assert not effective.schema_validation_enforced
        assert effective.schema_compatibility == "FULL"
        assert effective.subscription_types == ("Exclusive", "Shared", "Failover", "Key_Shared")
        assert effective.delete_inactive
        assert effective.inactive_topic_ms == 60_000
        assert effective.inactive_mode == "delete_when_no_subscriptions"
        assert effective.auto_create_topics
        assert effective.auto_create_partitions == 13
        assert effective.auto_create_subscriptions


def test_what_a_level_was_told_holds() -> None:
    whole = told(**BODIES)
    for levels in ((whole, None), (None, whole), (Policies(), whole), (whole, Policies())):
        effective = EffectivePolicies(BrokerSettings(), *levels)
        assert (effective.retention_time_ms, effective.retention_size_bytes) == (600_000, -1)
        assert effective.limits.ttl_ms == 30_000
        assert (effective.backlog_quota_bytes, effective.backlog_quota_ms) == (10, 20_000)
        assert effective.backlog_size_policy == "producer_exception"
        assert effective.backlog_time_policy == "consumer_backlog_eviction"
        assert effective.limits.max_unacked_per_consumer == 1
        assert effective.limits.max_unacked_per_subscription == 2
        assert (effective.limits.max_producers, effective.limits.max_consumers) == (3, 4)
        assert (
            effective.limits.max_subscriptions,
            effective.limits.max_consumers_per_subscription,
        ) == (5, 6)
        assert effective.limits.max_topics_per_namespace == 7
        assert effective.limits.message_size_max == 1000
        assert not effective.delayed_delivery
        assert (effective.delayed_delivery_tick_ms, effective.delayed_delivery_max_ms) == (5, 6)
        assert effective.deduplication
        assert effective.schema_validation_enforced
        assert effective.schema_compatibility == "BACKWARD"
        assert effective.subscription_types == ("Exclusive", "Key_Shared")
        assert not effective.delete_inactive
        assert effective.inactive_topic_ms == 9000
        assert effective.inactive_mode == "delete_when_subscriptions_caught_up"
        assert (effective.auto_create_topics, effective.auto_create_partitions) == (True, 3)
        assert not effective.auto_create_subscriptions


numbers = st.none() | st.integers(0, 100)


@given(topic=numbers, namespace=numbers, broker=st.integers(0, 100))
def test_the_topic_s_word_counts_before_the_namespace_s(
    topic: int | None, namespace: int | None, broker: int
) -> None:
    effective = EffectivePolicies(
        BrokerSettings(max_producers_per_topic=broker, retention_minutes=1, retention_mb=1),
        told(maxProducersPerTopic=namespace),
        told(maxProducers=topic, retention={"retentionTimeInMinutes": -1, "retentionSizeInMB": 2}),
    )
    named = [value for value in (topic, namespace, broker) if value is not None]
    assert effective.limits.max_producers == named[0]
    assert (effective.retention_time_ms, effective.retention_size_bytes) == (-1, 2 << 20)


def test_each_kind_of_quota_is_looked_for_by_itself() -> None:
    effective = EffectivePolicies(
        BrokerSettings(backlog_quota_bytes=1, backlog_quota_seconds=2),
        told(backlogQuotaMap={MESSAGE_AGE: AGE_QUOTA, DESTINATION_STORAGE: SIZE_QUOTA}),
        told(backlogQuota={"limitSize": -7, "policy": "consumer_backlog_eviction"}),
    )
    assert (effective.backlog_quota_bytes, effective.backlog_quota_ms) == (-1, 20_000)
    assert effective.backlog_size_policy == "consumer_backlog_eviction"


def test_an_age_of_zero_is_no_quota() -> None:
    effective = EffectivePolicies(BrokerSettings(backlog_quota_seconds=0), None, None)
    assert effective.backlog_quota_ms == -1


@pytest.mark.parametrize(("minutes", "mb"), [(0, 5), (5, 0), (0, -1), (-1, 0), (0, 0)])
def test_a_retention_of_zero_in_time_or_size_keeps_nothing(minutes: int, mb: int) -> None:
    settings = BrokerSettings(retention_minutes=minutes, retention_mb=mb)
    effective = EffectivePolicies(settings, None, None)
    assert (effective.retention_time_ms, effective.retention_size_bytes) == (0, 0)


def test_a_topic_cannot_raise_the_size_of_a_message() -> None:
    settings = BrokerSettings(message_size_max=2000)
    for body, size in ((5000, 2000), (1500, 1500), (0, 2000)):
        effective = EffectivePolicies(settings, None, told(maxMessageSize=body))
        assert effective.limits.message_size_max == size


def test_a_tick_of_zero_is_the_broker_s() -> None:
    delayed = told(delayedDelivery={"active": True})
    assert EffectivePolicies(BrokerSettings(), delayed, None).delayed_delivery_tick_ms == 1000


def test_an_undefined_strategy_asks_the_next_level() -> None:
    undefined = told(schemaCompatibilityStrategy="UNDEFINED")
    settings = BrokerSettings(schema_compatibility="UNDEFINED")
    assert EffectivePolicies(settings, undefined, undefined).schema_compatibility == "FULL"
    forward = told(schemaCompatibilityStrategy="FORWARD")
    assert EffectivePolicies(settings, forward, undefined).schema_compatibility == "FORWARD"
