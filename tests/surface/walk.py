"""Pulsar's admin REST, walked: requests of every operation, in an order that a fresh broker takes.

Apache Pulsar was walked once, and its answers are in recording.json; the tests walk our broker and
compare. A request names things of its chapter's own: `{ns}` is the chapter's namespace, `{ledger}`
the ledger of the last message that was published or asked for.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["Request", "chapters"]

# Of the four that a namespace has, and one that no namespace has.
BUNDLE: Final = "0x00000000_0x40000000"
NO_BUNDLE: Final = "0x00000000_0x00000001"


class Request(NamedTuple):
    """What is asked: the path begins behind /admin/v2, unless it begins with two slashes."""

    method: str
    path: str
    body: object = None
    # Whether nothing is told of the body: some answers are of this machine, or this moment.
    status_only: bool = False

    @property
    def key(self) -> str:
        return f"{self.method} {self.path}"


def get(path: str, *, status_only: bool = False) -> Request:
    return Request("GET", path, status_only=status_only)


def put(path: str, body: object = None) -> Request:
    return Request("PUT", path, body)


def post(path: str, body: object = None) -> Request:
    return Request("POST", path, body)


def delete(path: str, body: object = None) -> Request:
    return Request("DELETE", path, body)


def publish(topic: str, count: int, domain: str = "persistent") -> Request:
    """As Pulsar's REST producer; a topic must have an owner before, so it is asked for one."""
    messages = [{"payload": f"message {i}", "key": f"k{i}"} for i in range(count)]
    body = {"producerName": "walk", "messages": messages}
    return Request("POST", f"//topics/{domain}/{topic}", body, status_only=True)


# ---- Tenants, clusters, brokers ----------------------------------------------------------


def tenants() -> Iterator[Request]:
    yield get("/tenants", status_only=True)
    yield get("/tenants/{tenant}")
    yield get("/tenants/{tenant}-none")
    yield put("/tenants/{tenant}", {"adminRoles": [], "allowedClusters": ["standalone"]})
    yield put("/tenants/{tenant}-2", {"adminRoles": ["a"], "allowedClusters": ["standalone"]})
    yield get("/tenants/{tenant}-2")
    yield put("/tenants/{tenant}-3", {"adminRoles": ["a"], "allowedClusters": ["moon"]})
    yield put("/tenants/{tenant}-3", {"adminRoles": ["a"], "allowedClusters": []})
    yield put("/tenants/{tenant}-4")
    yield put("/tenants/{tenant}$4", {"adminRoles": [], "allowedClusters": ["standalone"]})
    yield post("/tenants/{tenant}-2", {"adminRoles": ["b"], "allowedClusters": ["standalone"]})
    yield post("/tenants/{tenant}-2", {"adminRoles": ["b"], "allowedClusters": ["moon"]})
    yield post("/tenants/{tenant}-none", {"adminRoles": [], "allowedClusters": ["standalone"]})
    yield put("/namespaces/{tenant}-2/n")
    yield delete("/tenants/{tenant}-2")
    yield delete("/namespaces/{tenant}-2/n")
    yield delete("/tenants/{tenant}-2")
    yield delete("/tenants/{tenant}-2")


def clusters() -> Iterator[Request]:
    yield get("/clusters")
    for name in ("standalone", "moon"):
        yield get(f"/clusters/{name}")
        yield get(f"/clusters/{name}/peers")
        yield get(f"/clusters/{name}/migrate")
        yield get(f"/clusters/{name}/failureDomains")
        yield get(f"/clusters/{name}/failureDomains/d")
        yield get(f"/clusters/{name}/namespaceIsolationPolicies")
        yield get(f"/clusters/{name}/namespaceIsolationPolicies/brokers")
        yield get(f"/clusters/{name}/namespaceIsolationPolicies/brokers/b:1")
        yield get(f"/clusters/{name}/namespaceIsolationPolicies/p")
        yield delete(f"/clusters/{name}/failureDomains/d")
        yield delete(f"/clusters/{name}/namespaceIsolationPolicies/p")
        yield post(f"/clusters/{name}/peers", ["moon"])
    yield post("/clusters/standalone/peers", [])
    yield put("/clusters/standalone", {"serviceUrl": "http://127.0.0.1:1"})
    yield put("/clusters/mars", {"serviceUrl": "http://127.0.0.1:1"})
    yield post("/clusters/moon", {"serviceUrl": "http://127.0.0.1:1"})
    yield delete("/clusters/moon")
    yield delete("/clusters/mars")
    yield post("/clusters/standalone/failureDomains/d", {"brokers": ["b:1"]})
    yield delete("/clusters/standalone/failureDomains/d")
    isolation = {
        "namespaces": ["{tenant}/other"],
        "primary": ["b1"],
        "secondary": ["b2"],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "90"},
        },
    }
    yield post("/clusters/standalone/namespaceIsolationPolicies/p", isolation)
    yield delete("/clusters/standalone/namespaceIsolationPolicies/p")


def brokers() -> Iterator[Request]:
    yield get("/brokers", status_only=True)
    yield get("/brokers/standalone", status_only=True)
    yield get("/brokers/moon")
    yield get("/brokers/health")
    yield get("/brokers/ready")
    yield get("/brokers/version", status_only=True)
    yield get("/brokers/leaderBroker")
    yield get("/brokers/backlog-quota-check")
    yield get("/brokers/configuration", status_only=True)
    yield get("/brokers/configuration/values", status_only=True)
    yield get("/brokers/configuration/runtime", status_only=True)
    yield get("/brokers/internal-configuration", status_only=True)
    yield get("/brokers/standalone/{broker}/ownedNamespaces", status_only=True)
    yield get("/brokers/moon/{broker}/ownedNamespaces", status_only=True)
    yield post("/brokers/configuration/ttlDurationDefaultInSeconds/0")
    yield post("/brokers/configuration/noSuchSetting/0")
    yield post("/brokers/configuration/webServicePort/1")
    yield delete("/brokers/configuration/ttlDurationDefaultInSeconds")
    yield delete("/brokers/configuration/noSuchSetting")
    yield get("/broker-stats/topics", status_only=True)
    yield get("/broker-stats/metrics", status_only=True)
    yield get("/broker-stats/mbeans", status_only=True)
    yield get("/broker-stats/load-report", status_only=True)
    yield get("/broker-stats/bookieops", status_only=True)
    yield get("/broker-stats/allocator-stats/default", status_only=True)
    yield get("/broker-stats/allocator-stats/ml-cache", status_only=True)
    yield get("/broker-stats/allocator-stats/none")
    yield get("/broker-stats/broker-resource-availability/public/default")
    yield get("/metadata/migration/status")
    yield post("/metadata/migration/start?target=")


def bookies_and_groups() -> Iterator[Request]:
    yield get("/bookies/all", status_only=True)
    yield get("/bookies/racks-info")
    yield get("/bookies/racks-info/b:1")
    yield delete("/bookies/racks-info/b:1")
    yield post("/bookies/racks-info/b:1?group=g", {"rack": "/r", "hostname": "b"})
    yield delete("/bookies/racks-info/b:1")
    group = {
        "publishRateInMsgs": 10,
        "publishRateInBytes": 100,
        "dispatchRateInMsgs": 20,
        "dispatchRateInBytes": 200,
    }
    yield get("/resourcegroups")
    yield get("/resourcegroups/{tenant}")
    yield put("/resourcegroups/{tenant}", group)
    yield get("/resourcegroups/{tenant}")
    yield get("/namespaces/{ns}/resourcegroup")
    yield post("/namespaces/{ns}/resourcegroup/{tenant}-none")
    yield post("/namespaces/{ns}/resourcegroup/{tenant}")
    yield get("/namespaces/{ns}/resourcegroup")
    yield delete("/resourcegroups/{tenant}")
    yield delete("/namespaces/{ns}/resourcegroup")
    yield get("/namespaces/{ns}/resourcegroup")
    yield delete("/resourcegroups/{tenant}")
    yield delete("/resourcegroups/{tenant}")
    # What bundles begin with: a broker would go on with other numbers.
    quota = {
        "msgRateIn": 40.0,
        "msgRateOut": 120.0,
        "bandwidthIn": 100000.0,
        "bandwidthOut": 300000.0,
        "memory": 80.0,
        "dynamic": True,
    }
    yield get("/resource-quotas")
    yield post("/resource-quotas", quota)
    yield get(f"/resource-quotas/{{ns}}/{BUNDLE}")
    yield post(f"/resource-quotas/{{ns}}/{BUNDLE}", quota)
    yield get(f"/resource-quotas/{{ns}}/{BUNDLE}")
    yield delete(f"/resource-quotas/{{ns}}/{BUNDLE}")
    yield get(f"/resource-quotas/{{ns}}/{NO_BUNDLE}")


# ---- Namespaces --------------------------------------------------------------------------


def namespaces() -> Iterator[Request]:
    yield get("/namespaces/{tenant}", status_only=True)
    yield get("/namespaces/{tenant}-none")
    yield get("/namespaces/{ns}")
    yield get("/namespaces/{ns}-none")
    yield put("/namespaces/{ns}")
    yield put("/namespaces/{tenant}-none/n")
    yield put("/namespaces/{ns}$2")
    yield put("/namespaces/{ns}-2", {"bundles": {"numBundles": 4}})
    yield get("/namespaces/{ns}-2")
    yield get("/namespaces/{ns}-2/bundles")
    yield put("/namespaces/{ns}-3", {"replication_clusters": ["moon"]})
    yield put("/namespaces/{ns}-4", {"replication_clusters": ["standalone"]})
    yield get("/namespaces/{ns}-4/replication")
    yield put("/namespaces/{ns}-5", {"bundles": {"numBundles": -1}})
    yield put("/namespaces/{ns}-6", {"bundles": {"numBundles": 0}})
    yield get("/namespaces/{ns}-6/bundles")
    yield get("/namespaces/{ns}/topics")
    yield put("/persistent/{ns}/a")
    yield put("/persistent/{ns}/p/partitions", 2)
    yield put("/non-persistent/{ns}/n")
    yield get("/namespaces/{ns}/topics")
    yield get("/namespaces/{ns}/topics?mode=PERSISTENT")
    yield get("/namespaces/{ns}/topics?mode=NON_PERSISTENT")
    yield get("/namespaces/{ns}/topics?mode=ALL")
    yield get("/namespaces/{ns}/topics?mode=SOME")
    yield get("/namespaces/{ns}/topics?includeSystemTopic=false")
    yield get("/namespaces/{ns}-none/topics")
    yield get("/namespaces/{ns}/bundles")
    yield get("/namespaces/{ns}-none/bundles")
    yield get(f"/namespaces/{{ns}}/{BUNDLE}/topicHashPositions")
    yield get(f"/namespaces/{{ns}}/{BUNDLE}/topicHashPositions?topics=persistent://{{ns}}/a")
    yield get(f"/namespaces/{{ns}}/{NO_BUNDLE}/topicHashPositions")
    for verb in ("clearBacklog", "clearBacklog/s", "unsubscribe/s"):
        yield post(f"/namespaces/{{ns}}/{verb}")
        yield post(f"/namespaces/{{ns}}/{BUNDLE}/{verb}")
        yield post(f"/namespaces/{{ns}}/{NO_BUNDLE}/{verb}")
        yield post(f"/namespaces/{{ns}}-none/{verb}")
    yield put(f"/namespaces/{{ns}}/{BUNDLE}/unload")
    yield put(f"/namespaces/{{ns}}/{NO_BUNDLE}/unload")
    yield put("/namespaces/{ns}/unload")
    yield put("/namespaces/{ns}-none/unload")
    yield put(f"/namespaces/{{ns}}/{BUNDLE}/split")
    yield get("/namespaces/{ns}/bundles")
    yield put(f"/namespaces/{{ns}}/{NO_BUNDLE}/split")
    yield delete(f"/namespaces/{{ns}}/{NO_BUNDLE}")
    yield get("/namespaces/standalone/antiAffinity/g?tenant={tenant}")
    yield get("/namespaces/{ns}/antiAffinity")
    yield post("/namespaces/{ns}/antiAffinity", "g")
    yield get("/namespaces/{ns}/antiAffinity")
    yield get("/namespaces/standalone/antiAffinity/g?tenant={tenant}")
    yield get("/namespaces/moon/antiAffinity/g?tenant={tenant}")
    yield delete("/namespaces/{ns}/antiAffinity")
    yield get("/namespaces/{ns}/antiAffinity")
    yield get("/namespaces/{ns}/scanOffloadedLedgers", status_only=True)
    yield post("/namespaces/{ns}/migration", False)
    yield delete("/namespaces/{ns}")
    yield delete("/namespaces/{ns}-2")
    yield delete("/namespaces/{ns}-2")
    yield delete("/namespaces/{ns}-none")
    yield delete("/namespaces/{tenant}-none/n")


NAMESPACE_PROPERTIES: Final = (
    get("/namespaces/{ns}/properties"),
    put("/namespaces/{ns}/properties", {"a": "1", "b": "2"}),
    get("/namespaces/{ns}/properties"),
    put("/namespaces/{ns}/property/c/3"),
    get("/namespaces/{ns}/property/c"),
    get("/namespaces/{ns}/property/none"),
    put("/namespaces/{ns}/properties", {"a": "4"}),
    get("/namespaces/{ns}/properties"),
    delete("/namespaces/{ns}/property/a"),
    delete("/namespaces/{ns}/property/none"),
    get("/namespaces/{ns}/properties"),
    delete("/namespaces/{ns}/properties"),
    get("/namespaces/{ns}/properties"),
    get("/namespaces/{ns}-none/properties"),
    put("/namespaces/{ns}-none/properties", {"a": "1"}),
)

RATE: Final = {
    "dispatchThrottlingRateInMsg": 100,
    "dispatchThrottlingRateInByte": 2000,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}
NO_RATE: Final = {
    "dispatchThrottlingRateInMsg": -1,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}
PUBLISH_RATE: Final = {"publishThrottlingRateInMsg": 100, "publishThrottlingRateInByte": 2000}
SUBSCRIBE_RATE: Final = {"subscribeThrottlingRatePerConsumer": 10, "ratePeriodInSecond": 30}
PERSISTENCE: Final = {
    "bookkeeperEnsemble": 1,
    "bookkeeperWriteQuorum": 1,
    "bookkeeperAckQuorum": 1,
    "managedLedgerMaxMarkDeleteRate": 10.0,
}
QUOTA: Final = {"limitSize": 1000000, "limitTime": -1, "policy": "producer_request_hold"}
INACTIVE: Final = {
    "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
    "maxInactiveDurationSeconds": 600,
    "deleteWhileInactive": True,
}
OFFLOAD: Final = {
    "managedLedgerOffloadDriver": "filesystem",
    "managedLedgerOffloadThresholdInBytes": 1000000,
}
DELAYED: Final = {"active": True, "tickTime": 500, "maxDeliveryDelayInMillis": 9000}
AUTO_TOPIC: Final = {
    "allowAutoTopicCreation": True,
    "topicType": "partitioned",
    "defaultNumPartitions": 2,
}
AUTO_SUBSCRIPTION: Final = {"allowAutoSubscriptionCreation": False}
RETENTION: Final = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 20480}
LESS: Final = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 1}

# Name, verb, what it is set to, and what else is tried.
Policy = tuple[str, str, object, tuple[object, ...]]

NAMESPACE_POLICIES: Final[tuple[Policy, ...]] = (
    ("allowedClusters", "POST", ["standalone"], (["moon"], [])),
    ("allowedTopicPropertyKeysForMetrics", "POST", ["a"], ([],)),
    ("autoSubscriptionCreation", "POST", AUTO_SUBSCRIPTION, ()),
    ("autoTopicCreation", "POST", AUTO_TOPIC, ({"allowAutoTopicCreation": True},)),
    ("compactionThreshold", "PUT", 1000000, (0, -1)),
    ("deduplication", "POST", True, (False,)),
    ("deduplicationSnapshotInterval", "POST", 100, (0, -1, None)),
    ("delayedDelivery", "POST", DELAYED, ()),
    ("dispatchRate", "POST", RATE, (NO_RATE,)),
    ("dispatcherPauseOnAckStatePersistent", "POST", None, ()),
    ("encryptionRequired", "POST", True, (False,)),
    ("entryFilters", "POST", {"entryFilterNames": "none"}, ({"entryFilterNames": ""},)),
    ("inactiveTopicPolicies", "POST", INACTIVE, ()),
    ("isAllowAutoUpdateSchema", "POST", False, (True,)),
    ("maxConsumersPerSubscription", "POST", 5, (0, -1)),
    ("maxConsumersPerTopic", "POST", 5, (0, -1)),
    ("maxProducersPerTopic", "POST", 5, (0, -1)),
    ("maxSubscriptionsPerTopic", "POST", 5, (0, -1)),
    ("maxTopicsPerNamespace", "POST", 5, (0, -1)),
    ("maxUnackedMessagesPerConsumer", "POST", 5, (0, -1)),
    ("maxUnackedMessagesPerSubscription", "POST", 5, (0, -1)),
    ("messageTTL", "POST", 60, (0, -1, -2)),
    ("offloadDeletionLagMs", "PUT", 5000, (-1,)),
    ("offloadPolicies", "POST", OFFLOAD, ()),
    ("offloadThreshold", "PUT", 1000000, (-1,)),
    ("offloadThresholdInSeconds", "PUT", 1000, (-1,)),
    ("persistence", "POST", PERSISTENCE, ({**PERSISTENCE, "bookkeeperAckQuorum": 2},)),
    ("persistence/bookieAffinity", "POST", {"bookkeeperAffinityGroupPrimary": "g"}, ()),
    ("publishRate", "POST", PUBLISH_RATE, ()),
    ("replication", "POST", ["standalone"], (["moon"], [])),
    ("replicatorDispatchRate", "POST", RATE, (NO_RATE,)),
    ("retention", "POST", RETENTION, (LESS,)),
    ("schemaAutoUpdateCompatibilityStrategy", "PUT", "Backward", ("Full",)),
    ("schemaCompatibilityStrategy", "PUT", "BACKWARD", ("UNDEFINED",)),
    ("schemaValidationEnforced", "POST", True, (False,)),
    ("subscribeRate", "POST", SUBSCRIBE_RATE, ()),
    ("subscriptionAuthMode", "POST", "Prefix", ("None",)),
    ("subscriptionDispatchRate", "POST", RATE, (NO_RATE,)),
    ("subscriptionExpirationTime", "POST", 10, (0, -1)),
    ("subscriptionTypesEnabled", "POST", ["Shared"], ([],)),
)


def namespace_policies() -> Iterator[Request]:
    for name, verb, value, others in NAMESPACE_POLICIES:
        path = f"/namespaces/{{ns}}/{name}"
        yield get(path)
        yield Request(verb, path, value)
        yield get(path)
        yield from (Request(verb, path, other) for other in others)
        remove = path.replace("offloadPolicies", "removeOffloadPolicies")
        yield delete(remove)
        yield get(path)
        yield get(f"/namespaces/{{ns}}-none/{name}")
        yield Request(verb, f"/namespaces/{{ns}}-none/{name}", value)
    yield get("/namespaces/{ns}/schemaValidationEnforced?applied=true")
    path = "/namespaces/{ns}/backlogQuota"
    yield get("/namespaces/{ns}/backlogQuotaMap")
    yield post(path, QUOTA)
    yield post(
        f"{path}?backlogQuotaType=message_age", {"limitTime": 60, "policy": "producer_exception"}
    )
    yield get("/namespaces/{ns}/backlogQuotaMap")
    yield post(f"{path}?backlogQuotaType=none", QUOTA)
    yield post("/namespaces/{ns}/retention", LESS)
    yield delete(f"{path}?backlogQuotaType=message_age")
    yield delete(path)
    yield delete(path)
    yield get("/namespaces/{ns}/backlogQuotaMap")
    yield from NAMESPACE_PROPERTIES
    yield get("/namespaces/{ns}")


def permissions() -> Iterator[Request]:
    yield put("/persistent/{ns}/t")
    yield get("/namespaces/{ns}/permissions")
    yield post("/namespaces/{ns}/permissions/r", ["produce", "consume"])
    yield post("/namespaces/{ns}/permissions/r2", ["fly"])
    yield get("/namespaces/{ns}/permissions")
    yield delete("/namespaces/{ns}/permissions/r")
    yield delete("/namespaces/{ns}/permissions/r")
    yield get("/namespaces/{ns}/permissions/subscription")
    yield post("/namespaces/{ns}/permissions/subscription/s", ["r"])
    yield get("/namespaces/{ns}/permissions/subscription")
    yield delete("/namespaces/{ns}/permissions/s/r")
    yield delete("/namespaces/{ns}/permissions/s/r")
    yield get("/namespaces/{ns}/permissions/subscription")
    yield get("/namespaces/{ns}-none/permissions")
    yield post("/namespaces/{ns}-none/permissions/r", ["produce"])
    for topic in ("t", "none"):
        yield get(f"/persistent/{{ns}}/{topic}/permissions")
        yield post(f"/persistent/{{ns}}/{topic}/permissions/r", ["produce"])
        yield get(f"/persistent/{{ns}}/{topic}/permissions")
        yield delete(f"/persistent/{{ns}}/{topic}/permissions/r")
        yield delete(f"/persistent/{{ns}}/{topic}/permissions/r")
    many = [{"topic": "persistent://{ns}/t", "role": "r", "actions": ["consume"]}]
    yield post("/namespaces/grantPermissionsOnTopics", many)
    yield get("/persistent/{ns}/t/permissions")
    yield post(
        "/namespaces/revokePermissionsOnTopics", [{"topic": "persistent://{ns}/t", "role": "r"}]
    )
    yield get("/persistent/{ns}/t/permissions")


# ---- Topics ------------------------------------------------------------------------------


def _ways(domain: str) -> str:
    return f"/{domain}/{{ns}}"


def topics(domain: str) -> Iterator[Request]:
    at = _ways(domain)
    yield get(at)
    yield get(f"{at}/partitioned")
    yield get(f"/{domain}/{{ns}}-none")
    yield get(f"/{domain}/{{ns}}-none/partitioned")
    yield put(f"{at}/t")
    yield put(f"{at}/t")
    yield put(f"{at}/with", {"a": "1"})
    yield put(f"/{domain}/{{ns}}-none/t")
    yield put(f"{at}/p/partitions", 3)
    yield put(f"{at}/p/partitions", 3)
    yield put(f"{at}/t/partitions", 3)
    yield put(f"{at}/p")
    yield put(f"{at}/q/partitions", {"partitions": 2, "properties": {"b": "2"}})
    yield put(f"{at}/r/partitions", 0)
    yield put(f"{at}/r-partition-0/partitions", 1)
    yield put(f"{at}/p-partition-7")
    yield put(f"{at}/lone-partition-0")
    yield get(at)
    yield get(f"{at}/partitioned")
    yield get(f"{at}?bundle={BUNDLE}")
    yield get(f"{at}?includeSystemTopic=true", status_only=True)
    for topic in ("t", "p", "q", "none", "p-partition-0", "p-partition-7"):
        yield get(f"{at}/{topic}/partitions")
    yield get(f"{at}/none/partitions?checkAllowAutoCreation=true")
    yield post(f"{at}/p/partitions", 4)
    yield post(f"{at}/p/partitions", 4)
    yield post(f"{at}/p/partitions", 2)
    yield post(f"{at}/t/partitions", 4)
    yield post(f"{at}/none/partitions", 4)
    yield post(f"{at}/p/createMissedPartitions")
    yield post(f"{at}/t/createMissedPartitions")
    for topic in ("t", "p", "with", "q", "none"):
        yield get(f"{at}/{topic}/properties")
    yield put(f"{at}/t/properties", {"x": "1", "y": "2"})
    yield put(f"{at}/t/properties", {"y": "3"})
    yield get(f"{at}/t/properties")
    yield delete(f"{at}/t/properties?key=x")
    yield delete(f"{at}/t/properties?key=none")
    yield delete(f"{at}/t/properties")
    yield get(f"{at}/t/properties")
    yield put(f"{at}/p/properties", {"x": "1"})
    yield get(f"{at}/p/properties")
    yield delete(f"{at}/p/properties?key=x")
    yield get(f"{at}/p/properties")
    yield put(f"{at}/none/properties", {"x": "1"})
    yield put(f"{at}/none2/unload")
    for topic in ("t", "p", "none"):
        yield put(f"{at}/{topic}/unload")
        yield post(f"{at}/{topic}/trim")
        yield get(f"//lookup/v2/topic/{domain}/{{ns}}/{topic}", status_only=True)
        yield get(f"//lookup/v2/topic/{domain}/{{ns}}/{topic}/bundle")
    for topic in ("p", "t", "none"):
        yield post(f"{at}/{topic}/terminate/partitions")
        yield post(f"{at}/{topic}/terminate")
        yield delete(f"{at}/{topic}/truncate")
    yield put(f"{at}/d")
    yield delete(f"{at}/d")
    yield delete(f"{at}/d")
    yield delete(f"{at}/d?force=true")
    yield put(f"{at}/d")
    yield put(f"{at}/d/subscription/s")
    yield delete(f"{at}/d")
    yield get(f"{at}/d/stats", status_only=True)
    yield put(f"{at}/d/partitions", 2)
    yield put(f"{at}/d/subscription/s")
    yield delete(f"{at}/d")
    yield delete(f"{at}/d-partition-0")
    yield delete(f"{at}/d/partitions")
    yield delete(f"{at}/d/partitions")
    yield delete(f"{at}/t/partitions")
    yield get(f"{at}/d/partitions")
    yield get(f"{at}/lone-partition-0/stats", status_only=True)
    yield delete(f"{at}/lone-partition-0")


READS: Final = (
    "backlog",
    "compaction",
    "examinemessage?initialPosition=earliest&messagePosition=1",
    "getMessageIdByIndex?index=0",
    "getMessageIdByIndex",
    "internal-info",
    "internalStats",
    "internalStats?metadata=true",
    "lastMessageId",
    "messageid/0",
    "messageid/4000000000000",
    "offload",
    "partitioned-internalStats",
    "partitioned-stats",
    "partitioned-stats?perPartition=false",
    "permissions",
    "shadowTopics",
    "stats",
    "stats?getPreciseBacklog=true&subscriptionBacklogSize=true&getEarliestTimeInBacklog=true",
    "subscriptions",
    "s/dispatchRate",
    "subscription/s/position/1",
    "subscription/s/position/99",
    "subscription/s/position/0",
    "subscription/none/position/1",
    "subscription/s/properties",
    "subscription/none/properties",
    "subscription/s/replicatedSubscriptionStatus",
)


def reads(domain: str) -> Iterator[Request]:
    """What can be asked of a topic with messages, of an empty one, of one that is not there."""
    at = _ways(domain)
    yield put(f"{at}/t")
    yield put(f"{at}/empty")
    yield put(f"{at}/p/partitions", 2)
    for topic in ("t", "p"):
        yield put(f"{at}/{topic}/subscription/s", "earliest")
    yield get(f"//lookup/v2/topic/{domain}/{{ns}}/t", status_only=True)
    yield publish("{ns}/t", 5, domain)
    for topic in ("t", "empty", "p", "none"):
        for read in READS:
            yield get(f"{at}/{topic}/{read}")
    yield get(f"/{domain}/{{ns}}-none/t/stats")
    yield get(f"/{domain}/{{tenant}}-none/n/t/stats")
    if domain == "persistent":
        yield get(f"{at}/t/ledger/{{ledger}}/entry/0")
        yield get(f"{at}/t/ledger/{{ledger}}/entry/99")
        yield get(f"{at}/t/ledger/999999/entry/0")
        yield get(f"{at}/none/ledger/1/entry/0")
        yield put(f"{at}/t/backlogSize", {"ledgerId": "{ledger}", "entryId": 0})
        yield put(f"{at}/none/backlogSize", {"ledgerId": 1, "entryId": 0})
        yield put(f"{at}/t/offload", {"ledgerId": "{ledger}", "entryId": 0})
    else:
        yield get(f"{at}/t/ledger/1/entry/0")
        yield put(f"{at}/t/backlogSize", {"ledgerId": 1, "entryId": 0})
        yield put(f"{at}/t/offload", {"ledgerId": 1, "entryId": 0})
    yield put(f"{at}/t/shadowTopics", [f"{domain}://{{ns}}/shadow"])
    yield delete(f"{at}/t/shadowTopics")
    yield put(f"{at}/t/compaction")
    yield put(f"{at}/none/compaction")
    yield put(f"{at}/p/compaction")


def subscriptions(domain: str) -> Iterator[Request]:
    at = _ways(domain)
    yield put(f"{at}/t")
    yield put(f"{at}/p/partitions", 2)
    yield get(f"//lookup/v2/topic/{domain}/{{ns}}/t", status_only=True)
    yield publish("{ns}/t", 10, domain)
    for topic in ("t", "p", "none"):
        s = f"{at}/{topic}/subscription"
        yield put(f"{s}/s", "earliest")
        yield put(f"{s}/s", "earliest")
        yield put(f"{s}/latest")
        yield get(f"{at}/{topic}/subscriptions")
        yield get(f"{s}/s/properties")
        yield put(f"{s}/s/properties", {"a": "1"})
        yield get(f"{s}/s/properties")
        yield put(f"{s}/none/properties", {"a": "1"})
        yield post(f"{s}/s/skip/2")
        yield post(f"{s}/s/skip/0")
        yield post(f"{s}/none/skip/2")
        yield post(f"{s}/s/expireMessages/100000")
        yield post(f"{s}/latest/expireMessages/100000")
        yield post(f"{s}/none/expireMessages/100000")
        yield post(f"{at}/{topic}/all_subscription/expireMessages/100000")
        yield post(f"{s}/s/resetcursor/0")
        yield post(f"{s}/none/resetcursor/0")
        yield post(f"{s}/s/analyzeBacklog", {"ledgerId": -1, "entryId": -1})
        yield post(f"{s}/s/analyzeBacklog")
        yield post(f"{s}/none/analyzeBacklog", {"ledgerId": -1, "entryId": -1})
        place = {"ledgerId": "{ledger}", "entryId": 4}
        if domain == "persistent" and topic == "t":
            yield post(f"{s}/s/resetcursor", place)
            yield post(f"{s}/s/expireMessages", {"ledgerId": "{ledger}", "entryId": 5})
            yield post(f"{s}/s/expireMessages", {"ledgerId": "{ledger}", "entryId": 5})
        yield post(f"{s}/none/resetcursor", {"ledgerId": 1, "entryId": 4})
        yield post(f"{s}/none/expireMessages", {"ledgerId": 1, "entryId": 4})
        yield post(f"{s}/s/resetcursor")
        yield post(f"{s}/s/replicatedSubscriptionStatus", True)
        yield get(f"{s}/s/replicatedSubscriptionStatus")
        yield post(f"{s}/s/replicatedSubscriptionStatus", False)
        yield post(f"{s}/s/skip_all")
        yield post(f"{s}/none/skip_all")
        yield delete(f"{s}/s")
        yield delete(f"{s}/s")
        yield delete(f"{s}/latest?force=true")


TOPIC_POLICIES: Final[tuple[Policy, ...]] = (
    ("autoSubscriptionCreation", "POST", AUTO_SUBSCRIPTION, ()),
    ("compactionThreshold", "POST", 1000000, (0, -1)),
    ("deduplicationEnabled", "POST", True, (False,)),
    ("deduplicationSnapshotInterval", "POST", 100, (0, -1)),
    ("delayedDelivery", "POST", DELAYED, ()),
    ("dispatchRate", "POST", RATE, (NO_RATE,)),
    ("dispatcherPauseOnAckStatePersistent", "POST", None, ()),
    ("entryFilters", "POST", {"entryFilterNames": "none"}, ({"entryFilterNames": ""},)),
    ("inactiveTopicPolicies", "POST", INACTIVE, ()),
    ("maxConsumers", "POST", 5, (0, -1)),
    ("maxConsumersPerSubscription", "POST", 5, (0, -1)),
    ("maxMessageSize", "POST", 4096, (0, -1, 99999999)),
    ("maxProducers", "POST", 5, (0, -1)),
    ("maxSubscriptionsPerTopic", "POST", 5, (0, -1)),
    ("maxUnackedMessagesOnConsumer", "POST", 5, (0, -1)),
    ("maxUnackedMessagesOnSubscription", "POST", 5, (0, -1)),
    ("offloadPolicies", "POST", OFFLOAD, ()),
    ("persistence", "POST", PERSISTENCE, ({**PERSISTENCE, "bookkeeperAckQuorum": 2},)),
    ("publishRate", "POST", PUBLISH_RATE, ()),
    ("replication", "POST", ["standalone"], (["moon"], [])),
    ("replicatorDispatchRate", "POST", RATE, (NO_RATE,)),
    ("retention", "POST", RETENTION, (LESS,)),
    ("schemaCompatibilityStrategy", "PUT", "BACKWARD", ("UNDEFINED",)),
    ("schemaValidationEnforced", "POST", True, (False,)),
    ("subscribeRate", "POST", SUBSCRIBE_RATE, ()),
    ("subscriptionDispatchRate", "POST", RATE, (NO_RATE,)),
    ("subscriptionTypesEnabled", "POST", ["Shared"], ([],)),
    ("s/dispatchRate", "POST", RATE, (NO_RATE,)),
)


def topic_policies(domain: str) -> Iterator[Request]:
    at = _ways(domain)
    yield put(f"{at}/t")
    yield put(f"{at}/p/partitions", 2)
    yield put(f"{at}/t/subscription/s", "earliest")
    for name, verb, value, others in TOPIC_POLICIES:
        path = f"{at}/t/{name}"
        yield get(path)
        yield get(f"{path}?applied=true")
        yield Request(verb, path, value)
        yield get(path)
        yield get(f"{path}?applied=true")
        yield from (Request(verb, path, other) for other in others)
        yield delete(path)
        yield get(path)
        yield get(f"{at}/none/{name}")
        yield Request(verb, f"{at}/none/{name}", value)
        yield Request(verb, f"{at}/p/{name}", value)
        yield get(f"{at}/p/{name}")
        yield delete(f"{at}/p/{name}")
    for name, value in (("messageTTL", 60), ("subscriptionExpirationTime", 10)):
        path = f"{at}/t/{name}"
        yield get(path)
        yield get(f"{path}?applied=true")
        yield post(f"{path}?{name}={value}")
        yield get(path)
        yield get(f"{path}?applied=true")
        yield from (post(f"{path}?{name}={other}") for other in (0, -1, -2))
        yield delete(path)
        yield get(path)
    path = f"{at}/t/backlogQuota"
    yield get(f"{path}Map")
    yield get(f"{path}Map?applied=true")
    yield post(path, QUOTA)
    yield get(f"{path}Map")
    yield get(f"{path}Map?applied=true")
    yield delete(path)
    yield get(f"{path}Map")
    yield post(f"{at}/t/maxProducers?isGlobal=true", 7)
    yield get(f"{at}/t/maxProducers?isGlobal=true")
    yield get(f"{at}/t/maxProducers")
    yield delete(f"{at}/t/maxProducers?isGlobal=true")
    yield post(f"{at}/t/maxProducers", 7)
    yield delete(f"{at}/t/policies")
    yield get(f"{at}/t/maxProducers")


# ---- Schemas, and what is of other rooms -------------------------------------------------

STRING_SCHEMA: Final = {"type": "STRING", "schema": "", "properties": {}}
AVRO: Final = (
    '{"type":"record","name":"R","fields":[{"name":"a","type":["null","string"],"default":null}]}'
)
OTHER_AVRO: Final = '{"type":"record","name":"R","fields":[{"name":"b","type":"string"}]}'


def schemas() -> Iterator[Request]:
    yield put("/persistent/{ns}/t")
    at = "/schemas/{ns}/t"
    avro = {"type": "AVRO", "schema": AVRO, "properties": {}}
    other = {"type": "AVRO", "schema": OTHER_AVRO, "properties": {}}
    yield get(f"{at}/schema")
    yield get(f"{at}/schemas")
    yield get(f"{at}/metadata")
    yield post(f"{at}/compatibility", avro)
    yield post(f"{at}/schema", avro)
    yield post(f"{at}/schema", avro)
    yield post(f"{at}/schema", other)
    yield post(f"{at}/schema", {"type": "FLY", "schema": "", "properties": {}})
    yield get(f"{at}/schema")
    yield get(f"{at}/schema/0")
    yield get(f"{at}/schema/9")
    yield get(f"{at}/schemas")
    yield get(f"{at}/metadata")
    yield post(f"{at}/compatibility", avro)
    yield post(f"{at}/compatibility", other)
    yield post(f"{at}/version", avro)
    yield post(f"{at}/version", other)
    yield delete(f"{at}/schema")
    yield get(f"{at}/schema")
    yield delete(f"{at}/schema")
    yield delete(f"{at}/schema?force=true")
    yield get("/schemas/{ns}/none/schema")
    yield post("/schemas/{ns}-none/t/schema", STRING_SCHEMA)


def transactions() -> Iterator[Request]:
    """Of a broker without transactions, as both are unless they are told."""
    yield put("/persistent/{ns}/t")
    at = "//admin/v3/transactions"
    yield get(f"{at}/coordinators")
    yield get(f"{at}/coordinatorStats")
    yield get(f"{at}/coordinatorInternalStats/0")
    yield get(f"{at}/pendingAckInternalStats/{{ns}}/t/s")
    yield get(f"{at}/pendingAckStats/{{ns}}/t/s")
    yield get(f"{at}/positionStatsInPendingAck/{{ns}}/t/s/1/0")
    yield get(f"{at}/slowTransactions/1000")
    yield get(f"{at}/transactionBufferInternalStats/{{ns}}/t")
    yield get(f"{at}/transactionBufferStats/{{ns}}/t")
    yield get(f"{at}/transactionInBufferStats/{{ns}}/t/0/1")
    yield get(f"{at}/transactionInPendingAckStats/{{ns}}/t/s/0/1")
    yield get(f"{at}/transactionMetadata/0/1")
    yield post(f"{at}/abortTransaction/0/1")
    yield post(f"{at}/transactionCoordinator/replicas", 1)


def produce() -> Iterator[Request]:
    """Pulsar's REST producer, and what it says of topics that are not there."""
    body = {"messages": [{"payload": "x"}]}
    for domain in ("persistent", "non-persistent"):
        yield put(f"/{domain}/{{ns}}/t")
        yield put(f"/{domain}/{{ns}}/p/partitions", 2)
        yield get(f"//lookup/v2/topic/{domain}/{{ns}}/t", status_only=True)
        yield Request("POST", f"//topics/{domain}/{{ns}}/t", body, status_only=True)
        yield Request("POST", f"//topics/{domain}/{{ns}}/p", body, status_only=True)
        yield Request("POST", f"//topics/{domain}/{{ns}}/p/partitions/1", body, status_only=True)


def chapters() -> dict[str, list[Request]]:
    """All requests, by the chapter that they are of; each has a namespace of its own."""
    found = {
        "tenants": tenants(),
        "clusters": clusters(),
        "brokers": brokers(),
        "groups": bookies_and_groups(),
        "namespaces": namespaces(),
        "namespace-policies": namespace_policies(),
        "permissions": permissions(),
        "schemas": schemas(),
        "transactions": transactions(),
        "produce": produce(),
    }
    for domain in ("persistent", "non-persistent"):
        found[f"{domain}-topics"] = topics(domain)
        found[f"{domain}-reads"] = reads(domain)
        found[f"{domain}-subscriptions"] = subscriptions(domain)
        found[f"{domain}-policies"] = topic_policies(domain)
    return {name: list(requests) for name, requests in found.items()}
