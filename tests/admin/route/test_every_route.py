"""Every path and verb of REST, called once as an operator would, with its answer.

A route that nobody calls here fails the first test; one that answers in another way than Pulsar
does (docs/reference/rest.md) fails the second.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import httpx
import jsonschema_rs
import pytest
from support.served import Served

import magnetar
from magnetar.admin.http.routes import ROUTES
from magnetar.admin.http.shape import Answer
from magnetar.admin.route.namespaces import BUNDLE

N: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
D: Final = "/admin/v2/{domain}/{tenant}/{namespace}"
T: Final = f"{D}/{{topic}}"
S: Final = f"{T}/subscription/{{subscription}}"
G: Final = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
C: Final = "/admin/v2/clusters"
B: Final = "/admin/v2/brokers"
PRODUCE: Final = "/topics/{domain}/{tenant}/{namespace}/{topic}"
L: Final = "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}"
X: Final = "/admin/v3/transactions"
XT: Final = "{tenant}/{namespace}/{topic}"
XS: Final = f"{XT}/{{subscription}}"
TXN: Final = "{mostSigBits}/{leastSigBits}"
SCHEMA: Final = {"type": "STRING", "schema": "", "properties": {}}
RETENTION: Final = {"retentionTimeInMinutes": 5, "retentionSizeInMB": 7}
FIRST: Final = "first"  # stands for the id of the topic's first message
NOTHING: Final = None

# What the path names unless a row says something else.
NAMES: Final = {
    "domain": "persistent",
    "tenant": "public",
    "topic": "t",
    "subscription": "s",
    "cluster": "standalone",
    "bundle": BUNDLE,
    "role": "worker",
    "policy": "retention",
    "position": "1",
    "partition": "1",
    "count": "1",
    "seconds": "3600",
    "time": "0",
    "version": "0",
    "name": "ttl_seconds",
    "value": "5",
    "group": "g",
    "broker": "b",
    "bookie": "b",
    "allocator": "default",
    "key": "a",
    "file": "main.js",
    "part": "ui",
    "mostSigBits": "0",
    "leastSigBits": "1",
    "coordinatorId": "0",
    "timeout": "0",
}
PARTITIONED: Final = {"topic": "p"}
TN: Final = "{tenant}/{namespace}"
ISOLATION: Final = "/admin/v2/clusters/{cluster}/namespaceIsolationPolicies"
GROUP: Final = {"group": "g"}
DOMAIN: Final = {"domain": "d"}
QUARTER: Final = {"bundle": "0x00000000_0x40000000"}
NOBODY: Final = {"subscription": "nobody's"}
AFFINITY: Final = {"bookkeeperAffinityGroupPrimary": "g"}
NEW: Final = {"topic": "new"}

# Method and path: what else is in the path, the body, the status.
Row = tuple[dict[str, str], object, int]
ROWS: Final[dict[tuple[str, str], Row]] = {
    ("GET", "/status.html"): ({}, NOTHING, 200),
    ("GET", "/healthz"): ({}, NOTHING, 200),
    ("GET", "/admin/v2/brokers/live"): ({}, NOTHING, 200),
    ("GET", "/metrics"): ({}, NOTHING, 200),
    ("GET", "/openapi.json"): ({}, NOTHING, 200),
    ("GET", "/docs"): ({}, NOTHING, 200),
    ("GET", "/"): ({}, NOTHING, 200),
    ("GET", "/console/{file}"): ({}, NOTHING, 200),
    ("GET", "/console/{part}/{file}"): ({"file": "dom.js"}, NOTHING, 200),
    ("GET", "/admin/v2/console/session"): ({}, NOTHING, 200),
    ("GET", "/admin/v2/console/overview"): ({}, NOTHING, 200),
    ("GET", "/admin/v2/console/topics"): ({}, NOTHING, 200),
    ("GET", L): ({}, NOTHING, 200),
    ("GET", f"{L}/bundle"): ({}, NOTHING, 200),
    # Brokers and clusters: there is one of each, and its settings are in files.
    ("GET", B): ({}, NOTHING, 200),
    ("GET", f"{B}/{{cluster}}"): ({}, NOTHING, 200),
    ("GET", f"{B}/configuration"): ({}, NOTHING, 200),
    ("GET", f"{B}/configuration/runtime"): ({}, NOTHING, 200),
    ("GET", f"{B}/configuration/values"): ({}, NOTHING, 200),
    ("POST", f"{B}/configuration/{{name}}/{{value}}"): ({}, NOTHING, 412),
    ("DELETE", f"{B}/configuration/{{name}}"): ({}, NOTHING, 412),
    ("GET", f"{B}/health"): ({}, NOTHING, 200),
    ("GET", f"{B}/internal-configuration"): ({}, NOTHING, 200),
    ("GET", f"{B}/leaderBroker"): ({}, NOTHING, 200),
    ("GET", f"{B}/ready"): ({}, NOTHING, 200),
    ("GET", f"{B}/version"): ({}, NOTHING, 200),
    ("GET", "/admin/v2/broker-stats/topics"): ({}, NOTHING, 200),
    ("GET", "/admin/v2/broker-stats/load-report"): ({}, NOTHING, 200),
    ("GET", C): ({}, NOTHING, 200),
    ("GET", f"{C}/{{cluster}}"): ({}, NOTHING, 200),
    ("PUT", f"{C}/{{cluster}}"): ({}, {}, 409),
    ("POST", f"{C}/{{cluster}}"): ({}, {}, 405),
    ("DELETE", f"{C}/{{cluster}}"): ({}, NOTHING, 405),
    ("GET", f"{C}/{{cluster}}/failureDomains"): ({}, NOTHING, 200),
    # Tenants and namespaces.
    ("GET", "/admin/v2/tenants"): ({}, NOTHING, 200),
    ("GET", "/admin/v2/tenants/{tenant}"): ({}, NOTHING, 200),
    ("PUT", "/admin/v2/tenants/{tenant}"): ({"tenant": "every-route"}, {}, 204),
    ("POST", "/admin/v2/tenants/{tenant}"): ({"tenant": "every-route"}, {"adminRoles": ["a"]}, 204),
    ("DELETE", "/admin/v2/tenants/{tenant}"): ({"tenant": "every-route"}, NOTHING, 204),
    ("GET", "/admin/v2/namespaces/{tenant}"): ({}, NOTHING, 200),
    ("GET", N): ({}, NOTHING, 200),
    ("PUT", N): ({"namespace": "made-by-every-route"}, {}, 204),
    ("DELETE", N): ({"namespace": "made-by-every-route"}, NOTHING, 204),
    ("GET", f"{N}/topics"): ({}, NOTHING, 200),
    ("GET", f"{N}/bundles"): ({}, NOTHING, 200),
    ("GET", f"{N}/properties"): ({}, NOTHING, 200),
    ("PUT", f"{N}/properties"): ({}, {"a": "b"}, 204),
    ("GET", f"{N}/property/{{key}}"): ({"key": "a"}, NOTHING, 200),
    ("PUT", f"{N}/property/{{key}}/{{value}}"): ({"key": "a"}, NOTHING, 204),
    ("DELETE", f"{N}/property/{{key}}"): ({"key": "a"}, NOTHING, 200),
    ("DELETE", f"{N}/properties"): ({}, NOTHING, 204),
    ("DELETE", f"{N}/removeOffloadPolicies"): ({}, NOTHING, 204),
    ("POST", f"{N}/persistence/{{policy}}"): ({"policy": "bookieAffinity"}, AFFINITY, 204),
    ("GET", f"{N}/persistence/{{policy}}"): ({"policy": "bookieAffinity"}, NOTHING, 200),
    ("DELETE", f"{N}/persistence/{{policy}}"): ({"policy": "bookieAffinity"}, NOTHING, 204),
    ("GET", f"{N}/resourcegroup"): ({}, NOTHING, 204),
    ("POST", f"{N}/resourcegroup/{{group}}"): (GROUP, NOTHING, 412),
    ("DELETE", f"{N}/resourcegroup"): ({}, NOTHING, 204),
    ("GET", f"{N}/{{bundle}}/topicHashPositions"): ({}, NOTHING, 200),
    ("POST", f"{N}/{{bundle}}/clearBacklog"): (QUARTER, NOTHING, 204),
    ("POST", f"{N}/{{bundle}}/clearBacklog/{{subscription}}"): (QUARTER, NOTHING, 204),
    ("POST", f"{N}/{{bundle}}/unsubscribe/{{subscription}}"): (NOBODY, NOTHING, 204),
    ("PUT", f"{N}/{{bundle}}/split"): (QUARTER, NOTHING, 204),
    ("GET", "/admin/v2/namespaces/{tenant}/antiAffinity/{group}"): (
        {"tenant": "standalone", **GROUP},
        NOTHING,
        200,
    ),
    ("POST", "/admin/v2/namespaces/grantPermissionsOnTopics"): ({}, [], 204),
    ("POST", "/admin/v2/namespaces/revokePermissionsOnTopics"): ({}, [], 204),
    # What there is of a cluster beside its one broker: nothing.
    ("GET", f"{C}/{{cluster}}/peers"): ({}, NOTHING, 204),
    ("POST", f"{C}/{{cluster}}/peers"): ({}, [], 204),
    ("GET", f"{C}/{{cluster}}/migrate"): ({}, NOTHING, 404),
    ("POST", f"{C}/{{cluster}}/migrate"): ({}, NOTHING, 405),
    ("GET", f"{C}/{{cluster}}/failureDomains/{{domain}}"): (DOMAIN, NOTHING, 404),
    ("POST", f"{C}/{{cluster}}/failureDomains/{{domain}}"): (DOMAIN, {}, 405),
    ("DELETE", f"{C}/{{cluster}}/failureDomains/{{domain}}"): (DOMAIN, NOTHING, 404),
    ("GET", ISOLATION): ({}, NOTHING, 404),
    ("GET", f"{ISOLATION}/brokers"): ({}, NOTHING, 404),
    ("GET", f"{ISOLATION}/brokers/{{broker}}"): ({"broker": "b"}, NOTHING, 404),
    ("GET", f"{ISOLATION}/{{policy}}"): ({}, NOTHING, 404),
    ("POST", f"{ISOLATION}/{{policy}}"): ({}, {}, 405),
    ("DELETE", f"{ISOLATION}/{{policy}}"): ({}, NOTHING, 204),
    ("GET", f"{B}/backlog-quota-check"): ({}, NOTHING, 204),
    ("GET", f"{B}/{{cluster}}/{{broker}}/ownedNamespaces"): ({"broker": "b"}, NOTHING, 404),
    ("GET", "/admin/v2/metadata/migration/status"): ({}, NOTHING, 200),
    ("POST", "/admin/v2/metadata/migration/start"): ({}, NOTHING, 400),
    ("GET", "/admin/v2/broker-stats/metrics"): ({}, NOTHING, 200),
    ("GET", "/admin/v2/broker-stats/mbeans"): ({}, NOTHING, 200),
    ("GET", "/admin/v2/broker-stats/bookieops"): ({}, NOTHING, 200),
    ("GET", "/admin/v2/broker-stats/allocator-stats/{allocator}"): (
        {"allocator": "default"},
        NOTHING,
        406,
    ),
    ("GET", f"/admin/v2/broker-stats/broker-resource-availability/{TN}"): ({}, NOTHING, 409),
    ("GET", "/admin/v2/bookies/all"): ({}, NOTHING, 200),
    ("GET", "/admin/v2/bookies/racks-info"): ({}, NOTHING, 200),
    ("GET", "/admin/v2/bookies/racks-info/{bookie}"): ({"bookie": "b"}, NOTHING, 404),
    ("POST", "/admin/v2/bookies/racks-info/{bookie}"): ({"bookie": "b"}, {}, 405),
    ("DELETE", "/admin/v2/bookies/racks-info/{bookie}"): ({"bookie": "b"}, NOTHING, 404),
    ("GET", "/admin/v2/resourcegroups"): ({}, NOTHING, 200),
    ("GET", "/admin/v2/resourcegroups/{group}"): (GROUP, NOTHING, 404),
    ("PUT", "/admin/v2/resourcegroups/{group}"): (GROUP, {}, 204),
    ("DELETE", "/admin/v2/resourcegroups/{group}"): (GROUP, NOTHING, 204),
    ("GET", "/admin/v2/resource-quotas"): ({}, NOTHING, 200),
    ("POST", "/admin/v2/resource-quotas"): ({}, {}, 405),
    ("GET", f"/admin/v2/resource-quotas/{TN}/{{bundle}}"): ({}, NOTHING, 200),
    ("POST", f"/admin/v2/resource-quotas/{TN}/{{bundle}}"): ({}, {}, 405),
    ("DELETE", f"/admin/v2/resource-quotas/{TN}/{{bundle}}"): ({}, NOTHING, 204),
    ("PUT", f"{N}/unload"): ({}, NOTHING, 204),
    ("PUT", f"{N}/{{bundle}}/unload"): ({}, NOTHING, 204),
    ("POST", f"{N}/{{policy}}"): ({}, RETENTION, 204),
    ("PUT", f"{N}/{{policy}}"): ({}, RETENTION, 204),
    ("GET", f"{N}/{{policy}}"): ({}, NOTHING, 200),
    ("DELETE", f"{N}/{{policy}}"): ({}, NOTHING, 204),
    ("GET", f"{N}/permissions"): ({}, NOTHING, 200),
    ("POST", f"{N}/permissions/{{role}}"): ({}, ["consume"], 204),
    ("DELETE", f"{N}/permissions/{{role}}"): ({}, NOTHING, 204),
    ("GET", f"{N}/permissions/subscription"): ({}, NOTHING, 200),
    ("POST", f"{N}/permissions/subscription/{{subscription}}"): ({}, ["worker"], 204),
    ("DELETE", f"{N}/permissions/{{subscription}}/{{role}}"): ({}, NOTHING, 204),
    # Schemas, in the order in which they come to be.
    ("POST", f"{G}/schema"): ({}, SCHEMA, 200),
    ("GET", f"{G}/schema"): ({}, NOTHING, 200),
    ("GET", f"{G}/schema/{{version}}"): ({}, NOTHING, 200),
    ("GET", f"{G}/schemas"): ({}, NOTHING, 200),
    ("GET", f"{G}/metadata"): ({}, NOTHING, 200),
    ("POST", f"{G}/compatibility"): ({}, SCHEMA, 202),
    ("POST", f"{G}/version"): ({}, SCHEMA, 200),
    ("DELETE", f"{G}/schema"): ({}, NOTHING, 200),
    # Topics.
    ("GET", D): ({}, NOTHING, 200),
    ("GET", f"{D}/partitioned"): ({}, NOTHING, 200),
    ("PUT", T): (NEW, NOTHING, 204),
    ("DELETE", T): (NEW, NOTHING, 204),
    ("GET", f"{T}/partitions"): (PARTITIONED, NOTHING, 200),
    ("PUT", f"{T}/partitions"): (NEW, 2, 204),
    ("POST", f"{T}/partitions"): (PARTITIONED, 3, 204),
    ("GET", f"{T}/partitioned-stats"): (PARTITIONED, NOTHING, 200),
    ("GET", f"{T}/partitioned-internalStats"): (PARTITIONED, NOTHING, 200),
    ("POST", f"{T}/terminate/partitions"): (PARTITIONED, NOTHING, 200),
    ("DELETE", f"{T}/partitions"): (NEW, NOTHING, 204),
    ("GET", f"{T}/stats"): ({}, NOTHING, 200),
    ("GET", f"{T}/internalStats"): ({}, NOTHING, 200),
    ("GET", f"{T}/internal-info"): ({}, NOTHING, 200),
    ("GET", f"{T}/properties"): ({}, NOTHING, 200),
    ("PUT", f"{T}/properties"): ({}, {"a": "b"}, 204),
    ("DELETE", f"{T}/properties"): ({}, NOTHING, 412),
    ("POST", f"{T}/createMissedPartitions"): (PARTITIONED, NOTHING, 204),
    ("GET", f"{T}/permissions"): ({}, NOTHING, 200),
    ("POST", f"{T}/permissions/{{role}}"): ({}, ["consume"], 204),
    ("DELETE", f"{T}/permissions/{{role}}"): ({}, NOTHING, 204),
    ("POST", f"{T}/{{policy}}"): ({}, RETENTION, 204),
    ("PUT", f"{T}/{{policy}}"): ({}, RETENTION, 204),
    ("GET", f"{T}/{{policy}}"): ({}, NOTHING, 200),
    ("DELETE", f"{T}/{{policy}}"): ({}, NOTHING, 204),
    ("DELETE", f"{T}/policies"): ({}, NOTHING, 204),
    ("GET", f"{T}/backlog"): ({}, NOTHING, 200),
    ("PUT", f"{T}/backlogSize"): ({}, FIRST, 200),
    ("GET", f"{T}/examinemessage"): ({}, NOTHING, 200),
    ("GET", f"{T}/lastMessageId"): ({}, NOTHING, 200),
    ("GET", f"{T}/messageid/{{time}}"): ({}, NOTHING, 200),
    ("GET", f"{T}/ledger/{{ledger}}/entry/{{entry}}"): ({}, NOTHING, 200),
    ("GET", f"{T}/ledger/{{ledger}}/entry/{{entry}}/message"): ({}, NOTHING, 200),
    ("GET", f"{T}/messages"): ({}, NOTHING, 200),
    ("GET", f"{T}/rights"): ({}, NOTHING, 200),
    ("POST", PRODUCE): ({}, {"messages": [{"payload": "x"}]}, 200),
    ("POST", f"{PRODUCE}/partitions/{{partition}}"): (
        {"partition": "1", **PARTITIONED},
        {"messages": [{"payload": "x"}], "producerName": "p"},
        200,
    ),
    # As a broker of Pulsar that numbers no messages.
    ("GET", f"{T}/getMessageIdByIndex"): ({}, NOTHING, 412),
    ("PUT", f"{T}/unload"): ({}, NOTHING, 204),
    ("GET", f"{T}/offload"): ({}, NOTHING, 200),
    ("PUT", f"{T}/offload"): ({}, FIRST, 405),
    ("GET", f"{T}/{{subscription}}/dispatchRate"): ({}, NOTHING, 204),
    ("POST", f"{T}/{{subscription}}/dispatchRate"): ({}, {}, 204),
    ("DELETE", f"{T}/{{subscription}}/dispatchRate"): ({}, NOTHING, 204),
    ("GET", f"{T}/shadowTopics"): ({}, NOTHING, 204),
    ("PUT", f"{T}/shadowTopics"): ({}, ["persistent://public/default/shadow"], 405),
    ("DELETE", f"{T}/shadowTopics"): ({}, NOTHING, 204),
    ("GET", f"{S}/replicatedSubscriptionStatus"): ({}, NOTHING, 200),
    ("POST", f"{S}/replicatedSubscriptionStatus"): ({}, False, 204),
    ("POST", f"{T}/trim"): ({}, NOTHING, 204),
    ("DELETE", f"{T}/compaction"): ({}, NOTHING, 204),
    ("PUT", f"{T}/compaction"): ({}, NOTHING, 204),
    ("GET", f"{T}/compaction"): ({}, NOTHING, 200),
    # Subscriptions.
    ("GET", f"{T}/subscriptions"): ({}, NOTHING, 200),
    ("PUT", S): ({"subscription": "new"}, "earliest", 204),
    ("GET", f"{S}/properties"): ({}, NOTHING, 200),
    ("PUT", f"{S}/properties"): ({}, {"a": "b"}, 204),
    ("GET", f"{S}/ackState"): ({}, NOTHING, 200),
    ("GET", f"{S}/ackMap"): ({}, NOTHING, 200),
    ("GET", f"{S}/delayed"): ({}, NOTHING, 200),
    ("GET", f"{S}/messages"): ({}, NOTHING, 200),
    ("POST", f"{S}/redrive"): ({}, {"messageIds": [FIRST]}, 200),
    ("GET", f"{S}/position/{{position}}"): ({}, NOTHING, 200),
    ("POST", f"{S}/analyzeBacklog"): ({}, FIRST, 200),
    ("POST", f"{S}/skip/{{count}}"): ({}, NOTHING, 204),
    ("POST", f"{S}/skipByMessageIds"): ({}, {"type": "messageId", "messageIds": [FIRST]}, 204),
    ("POST", f"{S}/expireMessages"): ({}, FIRST, 204),
    ("POST", f"{S}/skip_all"): ({}, NOTHING, 204),
    ("POST", f"{S}/skipDamaged"): ({}, NOTHING, 412),
    ("POST", f"{S}/resetcursor/{{time}}"): ({}, NOTHING, 204),
    ("POST", f"{S}/resetcursor"): ({}, FIRST, 204),
    ("POST", f"{S}/expireMessages/{{seconds}}"): ({}, NOTHING, 204),
    ("POST", f"{T}/all_subscription/expireMessages/{{seconds}}"): ({}, NOTHING, 204),
    ("DELETE", S): ({"subscription": "new"}, NOTHING, 204),
    # Transactions, of which none is there; tests/admin/transaction has those that are.
    ("GET", f"{X}/coordinators"): ({}, NOTHING, 200),
    ("GET", f"{X}/coordinatorStats"): ({}, NOTHING, 200),
    ("GET", f"{X}/transactionMetadata/{TXN}"): ({}, NOTHING, 404),
    ("GET", f"{X}/slowTransactions/{{timeout}}"): ({}, NOTHING, 200),
    ("POST", f"{X}/abortTransaction/{TXN}"): ({}, NOTHING, 404),
    ("GET", f"{X}/coordinatorInternalStats/{{coordinatorId}}"): ({}, NOTHING, 405),
    ("POST", f"{X}/transactionCoordinator/replicas"): ({}, 3, 400),
    ("GET", f"{X}/transactionBufferStats/{XT}"): ({}, NOTHING, 200),
    ("GET", f"{X}/transactionInBufferStats/{XT}/{TXN}"): ({}, NOTHING, 200),
    ("GET", f"{X}/transactionBufferInternalStats/{XT}"): ({}, NOTHING, 405),
    ("GET", f"{X}/pendingAckStats/{XS}"): ({}, NOTHING, 200),
    ("GET", f"{X}/transactionInPendingAckStats/{XS}/{TXN}"): ({}, NOTHING, 404),
    ("GET", f"{X}/positionStatsInPendingAck/{XS}/{{ledger}}/{{entry}}"): ({}, NOTHING, 200),
    ("GET", f"{X}/abortedEntries/{XT}/{{ledger}}/{{entry}}"): ({}, NOTHING, 200),
    ("GET", f"{X}/pendingAckInternalStats/{XS}"): ({}, NOTHING, 405),
    # What empties a namespace and ends a topic.
    ("POST", f"{N}/clearBacklog"): ({}, NOTHING, 204),
    ("POST", f"{N}/clearBacklog/{{subscription}}"): ({}, NOTHING, 204),
    ("POST", f"{N}/unsubscribe/{{subscription}}"): ({}, NOTHING, 204),
    ("POST", f"{T}/terminate"): ({}, NOTHING, 200),
    ("DELETE", f"{T}/truncate"): ({}, NOTHING, 204),
}


def plain(path: str) -> str:
    """A path without the patterns of its names."""
    return re.sub(r"\{(\w+):[^}]*\}", r"{\1}", path)


def test_every_route_has_a_row() -> None:
    assert set(ROWS) == {(route.method, plain(route.path)) for route in ROUTES}


def test_every_route_answers(served: Served) -> None:
    """One after the other, on one topic: what an earlier row makes, a later one finds."""
    namespace = served.namespace()
    for name, partitions in (("t", 0), ("p", 2)):
        path = f"/persistent/{namespace}/{name}"
        if partitions:
            assert served.http.put(f"{path}/partitions", json=partitions).status_code == 204
        else:
            assert served.http.put(path).status_code == 204
        assert served.http.put(f"{path}/subscription/s").status_code == 204
    first = served.publish(f"{namespace}/t", 3)[0]
    place = {"ledgerId": first.ledger_id(), "entryId": first.entry_id()}
    names = NAMES | {
        "namespace": namespace.partition("/")[2],
        "ledger": str(place["ledgerId"]),
        "entry": str(place["entryId"]),
    }
    declared = {(route.method, plain(route.path)): route.answer for route in ROUTES}
    wrong = []
    for (method, path), (told, body, status) in ROWS.items():
        answer = called(served, method, path.format(**(names | told)), with_id(body, place))
        if answer.status_code != status:
            wrong.append(f"{method} {path}: {answer.status_code}, not {status}: {answer.text}")
        elif status >= 400 and not answer.json()["reason"]:
            wrong.append(f"{method} {path}: no reason")
        elif status < 400:
            wrong += [f"{method} {path}: {why}" for why in unlike(declared[method, path], answer)]
    assert not wrong, "\n".join(wrong)


def unlike(declared: Answer, answer: httpx.Response) -> Iterator[str]:
    """In what an answer differs from what its route says."""
    if answer.status_code not in declared.statuses:
        yield f"{answer.status_code} is not among {declared.statuses}"
    if answer.status_code == 204:
        return
    media = answer.headers["content-type"].partition(";")[0]
    if media != declared.media:
        yield f"{media}, not {declared.media}"
    elif media == "application/json":
        for error in jsonschema_rs.validator_for(declared.shape).iter_errors(answer.json()):
            yield f"{error.message} in {answer.text[:500]}"
        yield from unnamed(declared.shape, answer.json(), "")


def unnamed(shape: Any, value: object, at: str) -> Iterator[str]:
    """The fields of an answer that its shape does not name."""
    if "anyOf" in shape:
        fit = [one for one in shape["anyOf"] if jsonschema_rs.validator_for(one).is_valid(value)]
        found = [list(unnamed(one, value, at)) for one in fit]
        yield from min(found, key=len)
    elif isinstance(value, list) and "items" in shape:
        for one in value:
            yield from unnamed(shape["items"], one, f"{at}[]")
    elif isinstance(value, dict) and "additionalProperties" in shape:
        for name, one in value.items():
            yield from unnamed(shape["additionalProperties"], one, f"{at}.{name}")
    elif isinstance(value, dict) and "properties" in shape:
        for name, one in value.items():
            if name not in shape["properties"]:
                yield f"{at}.{name} is not in the shape"
            else:
                yield from unnamed(shape["properties"][name], one, f"{at}.{name}")


def vague(shape: Any, at: str) -> Iterator[str]:
    """The parts of a shape that say nothing of what is there."""
    if not shape or shape == {"type": "object"} or shape == {"type": "array"}:
        yield at
    for one in shape.get("anyOf", []):
        yield from vague(one, at)
    for name, one in shape.get("properties", {}).items():
        yield from vague(one, f"{at}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(shape.get(name), dict):
            yield from vague(shape[name], f"{at}[]")


def test_every_answer_has_a_shape_that_says_what_is_in_it() -> None:
    found = [
        one
        for route in ROUTES
        if 200 in route.answer.statuses
        for one in vague(route.answer.shape, f"{route.method} {plain(route.path)}")
    ]
    # What an OpenAPI document is, others say.
    document = [f"GET /openapi.json.{part}" for part in ("info", "paths", "components")]
    assert sorted(found) == sorted(document)


@pytest.mark.parametrize("kind", ["Exclusive", "Failover", "Shared", "KeyShared"])
def test_stats_of_a_topic_in_use_are_as_their_shape_says(served: Served, kind: str) -> None:
    namespace = served.namespace()
    with magnetar.Client(served.url) as client:
        topic = f"persistent://{namespace}/busy"
        consumer = client.subscribe(topic, "s", getattr(magnetar.ConsumerType, kind))
        producer = client.create_producer(topic)
        for number in range(4):
            producer.send(b"x", partition_key=str(number))
        consumer.acknowledge(consumer.receive(30_000))
        at = f"/admin/v2/persistent/{namespace}/busy"
        declared = {(route.method, plain(route.path)): route.answer for route in ROUTES}
        for name in ("stats", "internalStats", "internal-info", "backlog"):
            answer = called(served, "GET", f"{at}/{name}", NOTHING)
            assert list(unlike(declared["GET", f"{T}/{name}"], answer)) == []
        everything = "/admin/v2/broker-stats/topics"
        answer = called(served, "GET", everything, NOTHING)
        assert list(unlike(declared["GET", everything], answer)) == []


@pytest.mark.parametrize(
    ("policy", "body"),
    [
        ("messageTTL", 5),
        ("deduplication", True),
        ("schemaCompatibilityStrategy", "FULL"),
        ("subscriptionTypesEnabled", ["Shared"]),
        (
            "backlogQuotaMap",
            {"destination_storage": {"limitSize": 5, "policy": "producer_exception"}},
        ),
        ("delayedDelivery", {"active": True, "tickTime": 1, "maxDeliveryDelayInMillis": 5}),
        ("autoTopicCreation", {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}),
        ("autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False}),
        (
            "inactiveTopicPolicies",
            {
                "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
                "maxInactiveDurationSeconds": 5,
                "deleteWhileInactive": True,
            },
        ),
    ],
)
def test_each_policy_is_as_its_shape_says(served: Served, policy: str, body: object) -> None:
    namespace = f"/admin/v2/namespaces/{served.namespace()}"
    declared = {(route.method, plain(route.path)): route.answer for route in ROUTES}
    told = called(served, "POST", f"{namespace}/{policy}", body)
    assert told.status_code == 204, told.text
    answer = called(served, "GET", f"{namespace}/{policy}", NOTHING)
    assert list(unlike(declared["GET", f"{N}/{{policy}}"], answer)) == []
    whole = called(served, "GET", namespace, NOTHING)
    assert list(unlike(declared["GET", N], whole)) == []


def test_the_page_for_people_tells_of_every_operation_and_asks_nobody(served: Served) -> None:
    answer = called(served, "GET", "/docs", NOTHING)
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    for route in ROUTES:
        assert f"<code>{plain(route.path)}</code>" in answer.text
    assert answer.text.count("<details>") == len(ROUTES)
    assert re.findall(r"(?:src|href)=\"(?!#|/openapi\.json)", answer.text) == []
    assert "<script" not in answer.text


def with_id(body: object, place: dict[str, int]) -> object:
    if body == FIRST:
        return place
    if isinstance(body, dict):
        return {key: with_id(value, place) for key, value in body.items()}
    return [place] if body == [FIRST] else body


def called(served: Served, method: str, path: str, body: object) -> httpx.Response:
    options: dict[str, Any] = {} if body is NOTHING else {"json": body}
    return served.http.request(method, f"{served.http_url}{path}", **options)


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"])
def test_a_verb_that_a_path_does_not_have_is_not_allowed(served: Served, method: str) -> None:
    """And nothing else: a path that is there is not said to be absent."""
    names = NAMES | {"namespace": "default", "ledger": "1", "entry": "1"}
    for path in {path for _, path in ROWS}:
        if "{policy}" in path or (method, path) in ROWS:
            continue
        at = path.format(**names)
        others = [
            one for _, one in ROWS if re.fullmatch(pattern(one), at) and (method, one) in ROWS
        ]
        if not others:
            answer = called(served, method, at, NOTHING)
            assert (answer.status_code, bool(answer.json()["reason"])) == (405, True), (method, at)


def pattern(path: str) -> str:
    return re.sub(r"\{\w+\}", "[^/]+", path)
