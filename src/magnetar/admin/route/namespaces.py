"""Namespaces: groups of topics that share policies."""

from typing import Final

from magnetar.admin.http.answer import (
    CONFLICT,
    NOT_FOUND,
    PRECONDITION,
    Refusal,
    json_answer,
    no_content,
)
from magnetar.admin.http.bridge import wait_for
from magnetar.admin.http.call import Call, check_name, shown
from magnetar.admin.http.required_permission import ADMIN, on_namespace
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    ANYTHING,
    FORCE,
    NUMBER,
    TEXTS,
    Json,
    answers,
    object_of,
    one_of,
)
from magnetar.admin.route.policy_shape import NAMESPACE_POLICIES
from magnetar.broker.auth.access import CONSUME, LOOK, MANAGE, SKIP
from magnetar.broker.broker import Broker
from magnetar.broker.policy.policy import NUMBER_POLICIES, Policies
from magnetar.model import TopicName

__all__ = [
    "BUNDLE",
    "NAMESPACE",
    "ROUTES",
    "delete_namespace",
    "namespace_policies",
    "partitioned_names",
]

NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"

# Pulsar cuts a namespace into bundles that brokers share out. Here is one broker, and one.
BUNDLE: Final = "0x00000000_0xffffffff"
BUNDLES: Final = {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}

# What Pulsar calls policies where it has all of a namespace in one object.
WHOLE: Final[dict[str, str]] = {
    **{row.in_whole: row.at_namespace for row in NUMBER_POLICIES if row.in_whole},
    "retention_policies": "retention",
    "backlog_quota_map": "backlogQuotaMap",
    "deduplicationEnabled": "deduplication",
    "autoTopicCreationOverride": "autoTopicCreation",
    "autoSubscriptionCreationOverride": "autoSubscriptionCreation",
    "delayed_delivery_policies": "delayedDelivery",
    "inactive_topic_policies": "inactiveTopicPolicies",
    "schema_compatibility_strategy": "schemaCompatibilityStrategy",
    "schema_validation_enforced": "schemaValidationEnforced",
    "autoSkipNonRecoverableData": "autoSkipNonRecoverableData",
    "subscription_types_enabled": "subscriptionTypesEnabled",
}
# Java writes these whether they were told or not; such a value tells nothing.
UNTOLD: Final[dict[str, object]] = {
    "backlog_quota_map": {},
    "schema_compatibility_strategy": "UNDEFINED",
    "schema_validation_enforced": False,
    "subscription_types_enabled": [],
}


def namespace_policies(call: Call) -> Policies:
    """What the namespace of a call was told. Raises Refusal if there is none."""
    found = call.broker.directory.namespaces.get(call.namespace)
    if found is None:
        raise Refusal(NOT_FOUND, f"Namespace {call.namespace} does not exist")
    return found


async def list_namespaces(call: Call) -> Response:
    """Returns the namespaces of a tenant."""
    tenant = call.path["tenant"]
    if tenant not in call.broker.directory.tenants:
        raise Refusal(NOT_FOUND, f"there is no tenant {tenant!r}")
    return json_answer(sorted(call.broker.directory.namespaces_of(tenant)))


async def get_namespace(call: Call) -> Response:
    """Returns the policies and permissions of a namespace."""
    policies = namespace_policies(call)
    whole: dict[str, object] = {
        "auth_policies": call.broker.directory.permissions_of(call.namespace).to_json(),
        "replication_clusters": [call.admin.cluster],
        "bundles": BUNDLES,
    }
    for field, name in WHOLE.items():
        told = policies.get_json(name)
        if told is None:
            told = UNTOLD.get(field)
        if told is not None:
            whole[field] = told
    return json_answer(whole)


async def create_namespace(call: Call) -> Response:
    """Creates a namespace, with the policies that the body has."""
    body = await call.json_object()
    tenant = call.path["tenant"]
    check_name("namespace", call.path["namespace"])
    call.broker.require_short("namespace", call.namespace)
    if tenant not in call.broker.directory.tenants:
        raise Refusal(NOT_FOUND, f"there is no tenant {tenant!r}: create it first")
    if call.namespace in call.broker.directory.namespaces:
        raise Refusal(CONFLICT, f"there is a namespace {call.namespace!r} already")
    clusters = body.get("replication_clusters")
    if isinstance(clusters, list) and any(one != call.admin.cluster for one in clusters):
        raise Refusal(
            PRECONDITION,
            f"Invalid cluster ids: {shown(clusters)}; there is {call.admin.cluster!r}",
        )
    policies = Policies()
    for field, name in WHOLE.items():
        told = body.get(field)
        if told is not None and told != UNTOLD.get(field):
            policies.set_json(name, told)
    call.broker.directory.put_namespace(call.namespace, policies)
    return no_content()


async def delete(call: Call) -> Response:
    """Deletes a namespace; with `force` its topics too."""
    namespace_policies(call)
    await delete_namespace(call.broker, call.namespace, force=call.flag("force"))
    return no_content()


async def delete_namespace(broker: Broker, namespace: str, *, force: bool) -> None:
    """Deletes a namespace; what is in it too, if forced. Raises Refusal."""
    names = broker.names(namespace, persistent=True, others=True)
    partitioned = partitioned_names(broker, namespace)
    if (names or partitioned) and not force:
        raise Refusal(
            CONFLICT,
            f"Cannot delete non empty namespace: {namespace} has {len(names)} topics; delete "
            "them first, or force it",
        )
    for name in partitioned:
        broker.directory.delete_partitioned(name)
        broker.directory.delete_topic_policies(name)
    for name in names:
        topic = TopicName.parse(name)
        await wait_for(broker.delete_topic(topic, force=True, delete_schema=True))
    broker.directory.delete_namespace(namespace)


def partitioned_names(broker: Broker, namespace: str) -> list[str]:
    """The partitioned topics of a namespace, persistent ones and others."""
    return [
        name
        for name in sorted(broker.directory.partitioned)
        if TopicName.parse(name).namespace == namespace
    ]


async def list_topics(call: Call) -> Response:
    """Returns the topics of a namespace."""
    namespace_policies(call)
    mode = (call.query("mode") or "PERSISTENT").upper()
    if mode not in ("PERSISTENT", "NON_PERSISTENT", "ALL"):
        raise Refusal(PRECONDITION, f"mode is {mode!r}: give PERSISTENT, NON_PERSISTENT or ALL")
    names = call.broker.names(
        call.namespace, persistent=mode != "NON_PERSISTENT", others=mode != "PERSISTENT"
    )
    return json_answer(names)


async def unload(call: Call) -> Response:
    """Closes the topics of a namespace, so that clients connect anew."""
    namespace_policies(call)
    for name in call.broker.names(call.namespace, persistent=True, others=True):
        if name in call.broker.topics:
            await wait_for(call.broker.unload(TopicName.parse(name)))
    return no_content()


async def clear_backlog(call: Call) -> Response:
    """Clears the backlog of all subscriptions of a namespace, or of those with a name."""
    namespace_policies(call)
    only = call.path.get("subscription")
    for name in call.broker.names(call.namespace):
        topic = call.broker.find(TopicName.parse(name))
        for subscription in list(topic.subscriptions.values()):
            if only is None or subscription.name == only:
                await wait_for(subscription.clear())
    return no_content()


async def unsubscribe(call: Call) -> Response:
    """Deletes a subscription of all topics of a namespace."""
    namespace_policies(call)
    topics = [call.broker.find(TopicName.parse(n)) for n in call.broker.names(call.namespace)]
    found = [
        topic.subscriptions[call.path["subscription"]]
        for topic in topics
        if call.path["subscription"] in topic.subscriptions
    ]
    busy = [subscription for subscription in found if subscription.busy]
    if busy:
        raise Refusal(PRECONDITION, f"{busy[0].title} has consumers: close them first")
    for subscription in found:
        await wait_for(subscription.topic.unsubscribe(subscription))
    return no_content()


async def get_bundles(call: Call) -> Response:
    """Returns the bundles of a namespace: there is one."""
    namespace_policies(call)
    return json_answer(BUNDLES)


async def get_replication(call: Call) -> Response:
    """Returns the clusters of a namespace: there is one."""
    namespace_policies(call)
    return json_answer([call.admin.cluster])


BUNDLES_SHAPE: Final[Json] = object_of(boundaries=TEXTS, numBundles=NUMBER)

ROUTES: Final[list[Route]] = [
    Route("GET", "/admin/v2/namespaces/{tenant}", list_namespaces, ADMIN, answer=answers(TEXTS)),
    Route(
        "GET", NAMESPACE, get_namespace, on_namespace(MANAGE), answer=answers(NAMESPACE_POLICIES)
    ),
    Route("PUT", NAMESPACE, create_namespace, ADMIN, body=ANYTHING, body_required=False),
    Route("DELETE", NAMESPACE, delete, ADMIN, query=FORCE),
    Route(
        "GET",
        f"{NAMESPACE}/topics",
        list_topics,
        on_namespace(LOOK),
        query={"mode": one_of("PERSISTENT", "NON_PERSISTENT", "ALL")},
        answer=answers(TEXTS),
    ),
    Route("PUT", f"{NAMESPACE}/unload", unload, on_namespace(MANAGE)),
    Route("PUT", f"{NAMESPACE}/{{bundle:{BUNDLE}}}/unload", unload, on_namespace(MANAGE)),
    Route("POST", f"{NAMESPACE}/clearBacklog", clear_backlog, on_namespace(MANAGE)),
    Route("POST", f"{NAMESPACE}/clearBacklog/{{subscription}}", clear_backlog, on_namespace(SKIP)),
    Route("POST", f"{NAMESPACE}/unsubscribe/{{subscription}}", unsubscribe, on_namespace(CONSUME)),
    Route(
        "GET",
        f"{NAMESPACE}/bundles",
        get_bundles,
        on_namespace(LOOK),
        answer=answers(BUNDLES_SHAPE),
    ),
    Route(
        "GET",
        f"{NAMESPACE}/replication",
        get_replication,
        on_namespace(MANAGE),
        answer=answers(TEXTS),
    ),
]
