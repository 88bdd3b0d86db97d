"""Tenants, clusters, namespaces and policies over REST."""

from collections.abc import Callable

import pytest
from support.served import Served

from magnetar.admin.route.policies import BAD_REQUESTS, UNTOLD, UNTOLD_OF_NAMESPACE, applied
from magnetar.broker.policy.effective_policies import EffectivePolicies
from magnetar.broker.policy.kept import KEPT_POLICIES
from magnetar.broker.policy.policy import AUTO_UPDATES, NO_EFFECT, POLICY_NAMES
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


def test_what_tools_compare_word_by_word(served: Served) -> None:
    """Go's pulsaradmin and pulsarctl compare whole texts."""
    served.http.put("/persistent/public/default/words/partitions", json=2)
    for method, path, status, reason in (
        ("GET", "/namespaces/public/nowhere", 404, "Namespace does not exist"),
        ("GET", "/persistent/public/nowhere", 404, "Namespace does not exist"),
        ("GET", "/persistent/public/nowhere/partitioned", 404, "Namespace does not exist"),
        ("POST", "/namespaces/nowhere/n/autoTopicCreation", 404, "Tenant does not exist"),
        ("GET", "/tenants/nowhere", 404, "Tenant does not exist"),
        ("PUT", "/tenants/public", 409, "Tenant already exist"),
        (
            "POST",
            "/persistent/public/default/words/terminate",
            405,
            "Termination of a partitioned topic is not allowed",
        ),
    ):
        answer = served.http.request(method, path, json={})
        assert (answer.status_code, answer.json()["reason"]) == (status, reason), path
    served.http.delete("/persistent/public/default/words/partitions?force=true")


def test_texts_that_nobody_gave_are_none(served: Served) -> None:
    """Go's clients write every field of a namespace that they create."""
    path = "/namespaces/public/by-go"
    body = {"antiAffinityGroup": "", "bundles": {"boundaries": None, "numBundles": 8}}
    assert served.http.put(path, json=body).status_code == 204
    assert "antiAffinityGroup" not in served.http.get(path).json()
    assert served.http.delete(path).status_code == 204


def test_a_namespace_may_be_created_with_its_permissions(served: Served) -> None:
    """As scripts for Apache Pulsar do it: it would look open, and be closed to everybody."""
    topic = "persistent://public/granted/t"
    wanted = {
        "namespace_auth": {"writer": ["produce"], "both": ["consume", "produce"], "none": []},
        "destination_auth": {topic: {"reader": ["consume"]}},
        "subscription_auth_roles": {"s": ["reader"], "open": []},
    }
    path = "/namespaces/public/granted"
    assert served.http.put(path, json={"auth_policies": wanted}).status_code == 204
    assert served.http.get(path).json()["auth_policies"] == {
        "namespace_auth": {"writer": ["produce"], "both": ["produce", "consume"]},
        "destination_auth": {topic: {"reader": ["consume"]}},
        "subscription_auth_roles": {"s": ["reader"]},
    }
    assert served.http.delete(path).status_code == 204
    assert served.http.put(path, json={"auth_policies": None}).status_code == 204
    assert served.http.get(f"{path}/permissions").json() == {}
    assert served.http.delete(path).status_code == 204


@pytest.mark.parametrize(
    "wanted",
    [
        [],
        {"namespace_auth": ["produce"]},
        {"namespace_auth": {"writer": "produce"}},
        {"namespace_auth": {"writer": ["shout"]}},
        {"namespace_auth": {"w" * 100_000: ["produce"]}},
        {"destination_auth": {"persistent://public/elsewhere/t": {"reader": ["consume"]}}},
        {"destination_auth": {"persistent://": {"reader": ["consume"]}}},
        {"subscription_auth_roles": {"s": "reader"}},
    ],
)
def test_permissions_that_are_none_create_no_namespace(served: Served, wanted: object) -> None:
    path = "/namespaces/public/refused"
    assert 400 <= served.http.put(path, json={"auth_policies": wanted}).status_code < 500
    assert served.http.get(path).status_code == 404


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
    "compactionThreshold": 1 << 33,
    "deduplicationEnabled": True,
    "schemaValidationEnforced": True,
    "autoSkipNonRecoverableData": True,
    "schemaCompatibilityStrategy": "BACKWARD",
    "subscriptionTypesEnabled": ["Shared"],
    "subscriptionExpirationTime": 90,
    "subscriptionAuthMode": "Prefix",
    "schemaAutoUpdateCompatibilityStrategy": "Backward",
    "encryptionRequired": True,
    "isAllowAutoUpdateSchema": False,
    "autoSubscriptionCreation": {"allowAutoSubscriptionCreation": False},
    "retention": {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1},
    "delayedDelivery": {"active": True, "tickTime": 500, "maxDeliveryDelayInMillis": 9000},
    "inactiveTopicPolicies": {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 60,
        "deleteWhileInactive": True,
    },
    "publishRate": {"publishThrottlingRateInMsg": 100, "publishThrottlingRateInByte": 0},
    "dispatchRate": {
        "dispatchThrottlingRateInMsg": 10,
        "dispatchThrottlingRateInByte": -1,
        "ratePeriodInSecond": 60,
        "relativeToPublishRate": True,
    },
    "subscriptionDispatchRate": {
        "dispatchThrottlingRateInMsg": -1,
        "dispatchThrottlingRateInByte": 1 << 40,
        "ratePeriodInSecond": 1,
        "relativeToPublishRate": False,
    },
    "subscribeRate": {"subscribeThrottlingRatePerConsumer": 3, "ratePeriodInSecond": 5},
    "autoTopicCreation": {
        "allowAutoTopicCreation": True,
        "topicType": "partitioned",
        "defaultNumPartitions": 2,
    },
}


# Those that are kept and change nothing.
KEPT: dict[str, object] = {
    "persistence": {
        "bookkeeperEnsemble": 3,
        "bookkeeperWriteQuorum": 2,
        "bookkeeperAckQuorum": 1,
        "managedLedgerMaxMarkDeleteRate": 10.0,
    },
    "bookieAffinity": {"bookkeeperAffinityGroupPrimary": "fast"},
    "replication": ["standalone"],
    "allowedClusters": ["standalone"],
    "replicatorDispatchRate": {
        "dispatchThrottlingRateInMsg": -1,
        "dispatchThrottlingRateInByte": 1000,
        "ratePeriodInSecond": 2,
        "relativeToPublishRate": False,
    },
    "antiAffinity": "apart",
    "deduplicationSnapshotInterval": 100,
    "dispatcherPauseOnAckStatePersistent": True,
    "allowedTopicPropertyKeysForMetrics": ["team"],
    "offloadDeletionLagMs": 5000,
    "offloadThreshold": -1,
    "offloadThresholdInSeconds": -1,
}


def told(served: Served, path: str) -> object:
    """What a policy is; nothing, where nothing is said."""
    answer = served.http.get(path)
    assert answer.status_code in (200, 204)
    return None if answer.status_code == 204 else answer.json()


@pytest.mark.parametrize("policy", sorted(BODIES | KEPT))
def test_a_policy_is_told_asked_and_taken_back_at_both_levels(served: Served, policy: str) -> None:
    ns = served.namespace()
    served.http.put(f"/persistent/{ns}/t")
    body = (BODIES | KEPT)[policy]
    of_namespace = {**UNTOLD_OF_NAMESPACE, "replication": ["standalone"]}
    levels = ((f"/persistent/{ns}/t", UNTOLD), (f"/namespaces/{ns}", of_namespace))
    for base, untold in levels:
        path = f"{base}/{policy}"
        assert told(served, path) == untold.get(policy)
        before = told(served, f"{path}?applied=true")
        assert served.http.post(path, json=body).status_code == 204
        assert told(served, path) == body
        if policy != "schemaAutoUpdateCompatibilityStrategy":
            assert told(served, f"{path}?applied=true") == body
        assert served.http.delete(path).status_code == 204
        assert told(served, path) == untold.get(policy)
        assert told(served, f"{path}?applied=true") == before


def test_what_a_namespace_keeps_is_with_all_that_it_was_told(served: Served) -> None:
    ns = served.namespace()
    for policy, body in KEPT.items():
        assert served.http.post(f"/namespaces/{ns}/{policy}", json=body).status_code == 204
    whole = served.http.get(f"/namespaces/{ns}").json()
    for row in KEPT_POLICIES:
        if row.in_whole:
            assert whole[row.in_whole] == KEPT[row.name]
    again = f"/namespaces/{served.namespace()}-2"
    assert served.http.put(again, json=whole).status_code == 204
    assert served.http.get(f"{again}/persistence").json() == KEPT["persistence"]


@pytest.mark.parametrize(
    ("policy", "body"),
    [
        ("persistence", {"bookkeeperEnsemble": 1, "bookkeeperWriteQuorum": 2}),
        ("persistence", {"managedLedgerMaxMarkDeleteRate": -1}),
        ("replication", ["moon"]),
        ("replication", []),
        ("allowedClusters", ["standalone", "moon"]),
        ("maxMessageSize", 2**30),
        ("antiAffinity", ""),
        ("offloadThreshold", 1),
        ("deduplicationSnapshotInterval", -1),
        ("replicatorDispatchRate", {"dispatchThrottlingRateInMsg": -2}),
        ("dispatchRate", {"dispatchThrottlingRateInMsg": "many"}),
        ("subscriptionDispatchRate", {"relativeToPublishRate": 1}),
        ("publishRate", {"publishThrottlingRateInMsg": -2}),
        ("publishRate", 10),
        ("subscribeRate", {"ratePeriodInSecond": 0}),
        ("subscriptionExpirationTime", -1),
        ("subscriptionAuthMode", "Suffix"),
        ("schemaAutoUpdateCompatibilityStrategy", "Sideways"),
        ("encryptionRequired", "yes"),
        ("allowedTopicPropertyKeysForMetrics", "team"),
    ],
)
def test_what_is_not_valid_changes_nothing(served: Served, policy: str, body: object) -> None:
    ns = served.namespace()
    served.http.put(f"/persistent/{ns}/t")
    for base in (f"/persistent/{ns}/t", f"/namespaces/{ns}"):
        before = told(served, f"{base}/{policy}")
        answer = served.http.post(f"{base}/{policy}", json=body)
        assert answer.status_code == (400 if policy in BAD_REQUESTS else 412), answer.text
        assert any(word in answer.json()["reason"] for word in ("give", "there is", "must be"))
        assert told(served, f"{base}/{policy}") == before


def test_a_policy_may_be_taken_back_by_saying_nothing(served: Served) -> None:
    path = f"/namespaces/{served.namespace()}"
    interval = f"{path}/deduplicationSnapshotInterval"
    assert served.http.post(interval, json=5).status_code == 204
    assert served.http.post(interval).status_code == 204
    assert served.http.get(interval).status_code == 204
    types = f"{path}/subscriptionTypesEnabled"
    assert served.http.post(types, json=["Shared"]).status_code == 204
    assert served.http.post(types, json=[]).status_code == 204
    assert served.http.get(types).json() == []
    switch = f"{path}/dispatcherPauseOnAckStatePersistent"
    assert served.http.post(switch).status_code == 204
    assert served.http.get(switch).json() is True
    affinity = f"{path}/persistence/bookieAffinity"
    assert served.http.post(affinity, json=KEPT["bookieAffinity"]).status_code == 204
    assert served.http.get(affinity).json() == KEPT["bookieAffinity"]
    assert served.http.delete(affinity).status_code == 204
    assert served.http.get(affinity).status_code == 204


def test_bundles_are_kept_split_and_have_their_topics(served: Served) -> None:
    ns = f"{served.namespace()}-b"
    path = f"/namespaces/{ns}"
    assert served.http.put(path, json={"bundles": {"numBundles": 2}}).status_code == 204
    whole = {"boundaries": ["0x00000000", "0x80000000", "0xffffffff"], "numBundles": 2}
    assert served.http.get(f"{path}/bundles").json() == whole
    for name in "abcdef":
        served.http.put(f"/persistent/{ns}/{name}")
        served.http.put(f"/persistent/{ns}/{name}/subscription/s", json="earliest")
    lookup = f"{served.http_url}/lookup/v2/topic/persistent/{ns}"
    by_bundle: dict[str, list[str]] = {}
    for name in "abcdef":
        by_bundle.setdefault(served.http.get(f"{lookup}/{name}/bundle").text, []).append(name)
    assert len(by_bundle) == 2
    bundle, names = next(iter(by_bundle.items()))
    positions = served.http.get(f"{path}/{bundle}/topicHashPositions").json()["topicHashPositions"]
    assert sorted(positions) == [f"persistent://{ns}/{name}" for name in names]
    assert served.http.put(f"{path}/{bundle}/unload").status_code == 204
    loaded = served.call(lambda: [n[-1] for n in served.broker.topics if f"//{ns}/" in n])
    assert sorted(loaded) == sorted(set("abcdef") - set(names))
    assert served.http.post(f"{path}/{bundle}/clearBacklog").status_code == 204
    assert served.http.post(f"{path}/{bundle}/clearBacklog/s").status_code == 204
    assert served.http.post(f"{path}/{bundle}/unsubscribe/s").status_code == 204
    left = [n for n in "abcdef" if served.http.get(f"/persistent/{ns}/{n}/subscriptions").json()]
    assert left == sorted(set("abcdef") - set(names))
    assert served.http.put(f"{path}/{bundle}/split").status_code == 204
    assert served.http.get(f"{path}/bundles").json()["numBundles"] == 3
    assert served.http.put(f"{path}/{bundle}/split").status_code == 412
    assert served.http.put(f"{path}/LARGEST/split").status_code == 204
    assert served.http.put(f"{path}/0x00000000_0x00000001/unload").status_code == 412
    bad = {"bundles": {"numBundles": -1}}
    assert served.http.put(f"{path}-bad", json=bad).status_code == 412
    assert served.http.get(f"/namespaces/{served.namespace()}/bundles").json()["numBundles"] == 4


def test_a_namespace_keeps_its_properties(served: Served) -> None:
    path = f"/namespaces/{served.namespace()}"
    assert served.http.get(f"{path}/properties").json() == {}
    assert served.http.put(f"{path}/properties", json={"a": "1", "b": "2"}).status_code == 204
    assert served.http.put(f"{path}/property/c/3").status_code == 204
    assert served.http.get(f"{path}/property/c").text == "3"
    assert served.http.get(f"{path}/property/none").status_code == 204
    assert served.http.delete(f"{path}/property/a").text == "1"
    assert served.http.delete(f"{path}/property/a").status_code == 204
    assert served.http.get(f"{path}/properties").json() == {"b": "2", "c": "3"}
    assert served.http.get(path).json()["properties"] == {"b": "2", "c": "3"}
    assert served.http.delete(f"{path}/properties").status_code == 204
    assert served.http.get(f"{path}/properties").json() == {}
    assert served.http.put(f"{path}/properties", json={"a": 1}).status_code == 400
    assert served.http.get(f"{path}-none/properties").status_code == 404


def test_namespaces_are_found_by_their_group(served: Served) -> None:
    ns = served.namespace()
    group = f"group-{ns.rpartition('-')[2]}"
    assert served.http.post(f"/namespaces/{ns}/antiAffinity", json=group).status_code == 204
    # As Java's client says it.
    other = served.namespace()
    answer = served.http.post(f"/namespaces/{other}/antiAffinity", content=b"apart")
    assert answer.status_code == 204
    assert served.http.get(f"/namespaces/{other}/antiAffinity").json() == "apart"
    found = f"/namespaces/standalone/antiAffinity/{group}?tenant=public"
    assert served.http.get(found).json() == [ns]
    assert served.http.get(found.replace("standalone", "moon")).status_code == 412


def test_every_policy_can_be_shown_and_is_tested() -> None:
    policies = set(POLICY_NAMES.values())
    effective = EffectivePolicies(BrokerSettings(), None, None)
    # Of some there is nothing to show while nobody has said anything.
    silent = {row.name for row in KEPT_POLICIES if row.default is None}
    silent |= {"schemaAutoUpdateCompatibilityStrategy", "publishRate"}
    assert set(applied(effective).to_json()) == policies - silent
    assert set(BODIES) == policies - {"backlogQuotaMap"} - set(KEPT)
    assert set(KEPT) == {row.name for row in KEPT_POLICIES}


@pytest.mark.parametrize(("word", "strategy"), sorted(AUTO_UPDATES.items()))
def test_what_was_said_of_schemas_before_strategies_is_one(
    served: Served, word: str, strategy: str
) -> None:
    ns = served.namespace()
    served.http.put(f"/persistent/{ns}/t")
    path = f"/namespaces/{ns}/schemaAutoUpdateCompatibilityStrategy"
    assert served.http.put(path, json=word).status_code == 204
    applied = f"/persistent/{ns}/t/schemaCompatibilityStrategy?applied=true"
    assert served.http.get(applied).json() == strategy
    # A strategy that was told goes before it.
    told = f"/namespaces/{ns}/schemaCompatibilityStrategy"
    assert served.http.put(told, json="BACKWARD_TRANSITIVE").status_code == 204
    assert served.http.get(applied).json() == "BACKWARD_TRANSITIVE"


def test_a_topic_goes_by_its_namespace_until_it_is_told(served: Served) -> None:
    ns = served.namespace()
    served.http.put(f"/persistent/{ns}/t")
    applied = f"/persistent/{ns}/t/messageTTL?applied=true"
    served.http.post(f"/namespaces/{ns}/messageTTL", json=60)
    assert served.http.get(applied).json() == 60
    # As Java's client tells it.
    assert served.http.post(f"/persistent/{ns}/t/messageTTL?messageTTL=30").status_code == 204
    assert served.http.get(applied).json() == 30
    assert served.call(
        lambda: served.broker.topics[f"persistent://{ns}/t"].policies.limits.ttl_ms
    ) == (30_000)
    served.http.delete(f"/persistent/{ns}/t/messageTTL")
    assert served.http.get(applied).json() == 60


def test_all_policies_of_a_topic_are_removed_at_once(served: Served) -> None:
    path = f"/persistent/{served.namespace()}/t"
    served.http.put(path)
    assert served.http.post(f"{path}/messageTTL", json=30).status_code == 204
    assert served.http.post(f"{path}/maxProducers", json=3).status_code == 204
    assert served.http.delete(f"{path}/policies").status_code == 204
    assert served.http.get(f"{path}/messageTTL").status_code == 204
    assert served.http.get(f"{path}/maxProducers?applied=true").json() == 0
    assert served.http.post(f"{path}/messageTTL?messageTTL=-2").status_code == 412
    assert served.http.delete(f"{path}-none/policies").status_code == 404


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
    for policy in NO_EFFECT:
        path = f"/namespaces/{ns}/{policy}"
        assert served.http.get(path).status_code == 204
        assert served.http.delete(path).status_code == 204
        answer = served.http.post(path, json={})
        assert answer.status_code == (400 if policy in BAD_REQUESTS else 412)
        assert "no effect here" in answer.json()["reason"]


def test_a_bad_value_changes_nothing(served: Served) -> None:
    ns = served.namespace()
    path = f"/namespaces/{ns}/retention"
    good = {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1}
    served.http.post(path, json=good)
    assert served.http.post(path, json={"retentionTimeInMinutes": -5}).status_code == 400
    assert served.http.post(path, json="x").status_code == 400
    assert served.http.post(path).status_code == 400
    assert served.http.get(path).json() == good
    assert served.http.post(f"/namespaces/{ns}/noSuchPolicy", json=1).status_code == 404


def test_a_limit_on_topics_is_kept(own_broker: Callable[[BrokerSettings], Served]) -> None:
    served = own_broker(BrokerSettings(max_topics_per_namespace=1))
    assert served.http.put("/persistent/public/default/a").status_code == 204
    assert served.http.put("/persistent/public/default/b").status_code == 412
