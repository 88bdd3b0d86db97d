"""Tenants, clusters, namespaces and policies over REST."""

from collections.abc import Callable

import pytest
from support.served import Served

from magnetar.admin.route.policies import applied
from magnetar.broker.policy.effective_policies import EffectivePolicies
from magnetar.broker.policy.policy import NO_EFFECT, POLICY_NAMES
from magnetar.broker.setting.settings import BrokerSettings


def test_a_tenant_lives_and_goes(served: Served) -> None:
    assert "public" in served.http.get("/tenants").json()
    assert served.http.get("/tenants/acme").status_code == 404
    assert served.http.post("/tenants/acme").status_code == 404
    assert served.http.put("/tenants/acme", json={"adminRoles": ["boss"]}).status_code == 204
    assert served.http.put("/tenants/acme").status_code == 409
    assert served.http.get("/tenants/acme").json() == {
        "adminRoles": ["boss"],
        "allowedClusters": ["standalone"],
    }
    assert served.http.post("/tenants/acme", json={"adminRoles": []}).status_code == 204
    assert served.http.get("/tenants/acme").json()["adminRoles"] == []
    assert served.http.put("/namespaces/acme/shop").status_code == 204
    assert served.http.delete("/tenants/acme").status_code == 409
    assert served.http.put("/persistent/acme/shop/orders").status_code == 204
    assert served.http.delete("/tenants/acme?force=true").status_code == 204
    assert served.http.get("/namespaces/acme").status_code == 404
    assert served.http.delete("/tenants/acme").status_code == 404


def test_a_tenant_of_an_unknown_cluster_is_refused(served: Served) -> None:
    answer = served.http.put("/tenants/far", json={"allowedClusters": ["moon"]})
    assert answer.status_code == 412


def test_there_is_one_cluster(served: Served) -> None:
    assert served.http.get("/clusters").json() == ["standalone"]
    assert served.http.get("/clusters/standalone").json()["brokerServiceUrl"] == served.url
    assert served.http.get("/clusters/moon").status_code == 404
    assert served.http.put("/clusters/standalone", json={}).status_code == 409
    assert served.http.put("/clusters/moon", json={}).status_code == 405
    assert served.http.delete("/clusters/standalone").status_code == 405


def test_a_namespace_lives_and_goes(served: Served) -> None:
    assert served.http.put("/namespaces/public/here").status_code == 204
    assert served.http.put("/namespaces/public/here").status_code == 409
    assert "public/here" in served.http.get("/namespaces/public").json()
    assert served.http.get("/namespaces/none").status_code == 404
    assert served.http.put("/namespaces/none/here").status_code == 404
    assert served.http.put("/persistent/public/here/t").status_code == 204
    assert served.http.delete("/namespaces/public/here").status_code == 409
    assert served.http.delete("/persistent/public/here/t").status_code == 204
    assert served.http.delete("/namespaces/public/here").status_code == 204
    assert served.http.get("/namespaces/public/here").status_code == 404


def test_a_namespace_is_deleted_with_all_in_it_by_force(served: Served) -> None:
    ns = served.namespace()
    served.http.put(f"/persistent/{ns}/whole/partitions", json=2)
    served.http.put(f"/persistent/{ns}/whole/subscription/s")
    served.http.put(f"/non-persistent/{ns}/news")
    assert served.http.delete(f"/namespaces/{ns}").status_code == 409
    assert served.http.delete(f"/namespaces/{ns}?force=true").status_code == 204
    assert served.http.get(f"/persistent/{ns}").status_code == 404


def test_a_namespace_may_be_created_with_its_policies(served: Served) -> None:
    body = {
        "bundles": {"numBundles": 4},
        "replication_clusters": ["standalone"],
        "message_ttl_in_seconds": 60,
        "retention_policies": {"retentionTimeInMinutes": 5, "retentionSizeInMB": 6},
        "schema_compatibility_strategy": "UNDEFINED",
    }
    assert served.http.put("/namespaces/public/told", json=body).status_code == 204
    whole = served.http.get("/namespaces/public/told").json()
    assert whole["message_ttl_in_seconds"] == 60
    assert whole["retention_policies"] == body["retention_policies"]
    assert served.http.get("/namespaces/public/told/messageTTL").json() == 60
    bad = {"replication_clusters": ["moon"]}
    assert served.http.put("/namespaces/public/far", json=bad).status_code == 412


def test_the_topics_of_a_namespace_are_listed_by_mode(served: Served) -> None:
    ns = served.namespace()
    served.http.put(f"/persistent/{ns}/stored")
    served.http.put(f"/non-persistent/{ns}/news")
    stored, news = f"persistent://{ns}/stored", f"non-persistent://{ns}/news"
    path = f"/namespaces/{ns}/topics"
    assert served.http.get(path).json() == [stored]
    assert served.http.get(f"{path}?mode=NON_PERSISTENT").json() == [news]
    assert served.http.get(f"{path}?mode=ALL").json() == [news, stored]
    assert served.http.get(f"{path}?mode=SOME").status_code == 412


def test_a_namespace_is_unloaded_and_cleared_as_a_whole(served: Served) -> None:
    ns = served.namespace()
    for topic in ("a", "b"):
        served.http.put(f"/persistent/{ns}/{topic}")
        served.http.put(f"/persistent/{ns}/{topic}/subscription/s", json="earliest")
        served.http.put(f"/persistent/{ns}/{topic}/subscription/kept", json="earliest")
        served.publish(f"{ns}/{topic}", 2)
    assert served.http.put(f"/namespaces/{ns}/unload").status_code == 204
    assert served.call(lambda: [n for n in served.broker.topics if ns in n]) == []
    assert served.http.post(f"/namespaces/{ns}/clearBacklog/s").status_code == 204

    def backlogs() -> list[int]:
        stats = [served.http.get(f"/persistent/{ns}/{topic}/stats").json() for topic in "ab"]
        return [one["subscriptions"][s]["msgBacklog"] for one in stats for s in ("s", "kept")]

    assert backlogs() == [0, 2, 0, 2]
    assert served.http.post(f"/namespaces/{ns}/clearBacklog").status_code == 204
    assert backlogs() == [0, 0, 0, 0]
    assert served.http.post(f"/namespaces/{ns}/unsubscribe/s").status_code == 204
    assert served.http.get(f"/persistent/{ns}/a/subscriptions").json() == ["kept"]


BODIES: dict[str, object] = {
    "messageTTL": 60,
    "maxUnackedMessagesOnConsumer": 10,
    "maxUnackedMessagesOnSubscription": 20,
    "maxProducers": 3,
    "maxConsumers": 4,
    "maxSubscriptionsPerTopic": 5,
    "maxConsumersPerSubscription": 6,
    "maxTopicsPerNamespace": 7,
    "maxMessageSize": 4096,
    "deduplicationEnabled": True,
    "schemaValidationEnforced": True,
    "autoSkipNonRecoverableData": True,
    "schemaCompatibilityStrategy": "BACKWARD",
    "subscriptionTypesEnabled": ["Shared"],
    "autoSubscriptionCreation": {"allowAutoSubscriptionCreation": False},
    "retention": {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1},
    "delayedDelivery": {"active": True, "tickTime": 500, "maxDeliveryDelayInMillis": 9000},
    "inactiveTopicPolicies": {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 60,
        "deleteWhileInactive": True,
    },
    "autoTopicCreation": {
        "allowAutoTopicCreation": True,
        "topicType": "partitioned",
        "defaultNumPartitions": 2,
    },
}


@pytest.mark.parametrize("policy", sorted(BODIES))
def test_a_policy_is_told_asked_and_taken_back_at_both_levels(served: Served, policy: str) -> None:
    ns = served.namespace()
    served.http.put(f"/persistent/{ns}/t")
    for path in (f"/persistent/{ns}/t/{policy}", f"/namespaces/{ns}/{policy}"):
        assert served.http.get(path).status_code == 204
        before = served.http.get(f"{path}?applied=true").json()
        assert served.http.post(path, json=BODIES[policy]).status_code == 204
        assert served.http.get(path).json() == BODIES[policy]
        assert served.http.get(f"{path}?applied=true").json() == BODIES[policy]
        assert served.http.delete(path).status_code == 204
        assert served.http.get(path).status_code == 204
        assert served.http.get(f"{path}?applied=true").json() == before


def test_every_policy_can_be_shown_and_is_tested() -> None:
    policies = set(POLICY_NAMES.values())
    effective = EffectivePolicies(BrokerSettings(), None, None)
    assert set(applied(effective).to_json()) == policies
    assert set(BODIES) == policies - {"backlogQuotaMap"}


def test_a_topic_goes_by_its_namespace_until_it_is_told(served: Served) -> None:
    ns = served.namespace()
    served.http.put(f"/persistent/{ns}/t")
    applied = f"/persistent/{ns}/t/messageTTL?applied=true"
    served.http.post(f"/namespaces/{ns}/messageTTL", json=60)
    assert served.http.get(applied).json() == 60
    # As Java's client tells it.
    assert served.http.post(f"/persistent/{ns}/t/messageTTL?messageTTL=30").status_code == 204
    assert served.http.get(applied).json() == 30
    assert served.call(lambda: served.broker.topics[f"persistent://{ns}/t"].policies.ttl_ms) == (
        30_000
    )
    served.http.delete(f"/persistent/{ns}/t/messageTTL")
    assert served.http.get(applied).json() == 60


def test_backlog_quotas_are_told_by_kind(served: Served) -> None:
    ns = served.namespace()
    path = f"/namespaces/{ns}/backlogQuota"
    size = {"limitSize": 1000, "policy": "producer_exception"}
    age = {"limitTime": 60, "policy": "consumer_backlog_eviction"}
    assert served.http.get(f"{path}Map").json() == {}
    assert served.http.post(path, json=size).status_code == 204
    assert served.http.post(f"{path}?backlogQuotaType=message_age", json=age).status_code == 204
    told = served.http.get(f"{path}Map").json()
    assert told["destination_storage"]["limitSize"] == 1000
    assert told["message_age"]["limitTime"] == 60
    assert set(served.http.get(f"{path}Map?applied=true").json()) == set(told)
    assert served.http.delete(f"{path}?backlogQuotaType=message_age").status_code == 204
    assert set(served.http.get(f"{path}Map").json()) == {"destination_storage"}
    assert served.http.post(f"{path}?backlogQuotaType=moon", json=age).status_code == 412


def test_a_policy_without_effect_is_refused_with_the_reason(served: Served) -> None:
    ns = served.namespace()
    for policy in set(NO_EFFECT) - {"replication"}:
        path = f"/namespaces/{ns}/{policy}"
        assert served.http.get(path).status_code == 204
        assert served.http.delete(path).status_code == 204
        answer = served.http.post(path, json={})
        assert answer.status_code == 412
        assert "no effect here" in answer.json()["reason"]


def test_a_bad_value_changes_nothing(served: Served) -> None:
    ns = served.namespace()
    path = f"/namespaces/{ns}/retention"
    good = {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1}
    served.http.post(path, json=good)
    assert served.http.post(path, json={"retentionTimeInMinutes": -5}).status_code == 412
    assert served.http.post(path, json="x").status_code == 412
    assert served.http.post(path).status_code == 400
    assert served.http.get(path).json() == good
    assert served.http.post(f"/namespaces/{ns}/noSuchPolicy", json=1).status_code == 404


def test_a_limit_on_topics_is_kept(own_broker: Callable[[BrokerSettings], Served]) -> None:
    served = own_broker(BrokerSettings(max_topics_per_namespace=1))
    assert served.http.put("/persistent/public/default/a").status_code == 204
    assert served.http.put("/persistent/public/default/b").status_code == 412
