"""Namespaces: groups of topics that share policies."""

from typing import Final

from magnetar.admin.http.answer import (
    BAD_REQUEST,
    CONFLICT,
    NOT_FOUND,
    PRECONDITION,
    Refusal,
    json_answer,
    no_content,
)
from magnetar.admin.http.bridge import at_ease, prepare, wait_for
from magnetar.admin.http.call import INT32_MAX, Call, check_name, shown, text_map, whole_number
from magnetar.admin.http.required_permission import ADMIN, on_namespace
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    ANYTHING,
    FORCE,
    TEXTS,
    answers,
    one_of,
)
from magnetar.admin.route.policy_shape import NAMESPACE_POLICIES
from magnetar.broker.auth.access import CONSUME, LOOK, MANAGE, SKIP
from magnetar.broker.auth.permissions import Permissions, read_permissions
from magnetar.broker.broker import Broker
from magnetar.broker.namespace.bundles import Bundles, bundles_of
from magnetar.broker.policy.kept import KEPT_POLICIES
from magnetar.broker.policy.limits import LIMIT_POLICIES
from magnetar.broker.policy.policy import Policies
from magnetar.broker.policy.rate_policy import RATE_POLICIES
from magnetar.broker.topic.topic import Topic
from magnetar.errors import SettingsError
from magnetar.model import TopicName

__all__ = [
    "BUNDLE",
    "NAMESPACE",
    "ROUTES",
    "clear_topics",
    "delete_namespace",
    "namespace_bundles",
    "namespace_policies",
    "partitioned_names",
    "unload_topics",
    "unsubscribe_topics",
]

NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"

# A bundle that is a whole namespace; it is taken of every one.
BUNDLE: Final = "0x00000000_0xffffffff"

# What Pulsar calls policies where it has all of a namespace in one object.
WHOLE: Final[dict[str, str]] = {
    **{row.in_whole: row.at_namespace for row in LIMIT_POLICIES if row.in_whole},
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
    "encryption_required": "encryptionRequired",
    "is_allow_auto_update_schema": "isAllowAutoUpdateSchema",
    "schema_auto_update_compatibility_strategy": "schemaAutoUpdateCompatibilityStrategy",
    "subscription_auth_mode": "subscriptionAuthMode",
    **{row.in_whole: row.name for row in KEPT_POLICIES if row.in_whole},
}
# Java writes these whether they were told or not; such a value tells nothing.
UNTOLD: Final[dict[str, object]] = {
    "backlog_quota_map": {},
    "schema_compatibility_strategy": "UNDEFINED",
    "schema_validation_enforced": False,
    "subscription_types_enabled": [],
    "encryption_required": False,
    "is_allow_auto_update_schema": True,
    "subscription_auth_mode": "None",
    "allowed_clusters": [],
    "offload_threshold": -1,
    "offload_threshold_in_seconds": -1,
}
# By cluster, of which there is one; the others are empty.
BY_CLUSTER: Final[dict[str, str]] = {
    field: row.name for row in RATE_POLICIES for field in row.in_whole
}
NO_CLUSTERS: Final[dict[str, object]] = {
    "replicatorDispatchRate": {},
    "latency_stats_sample_rate": {},
}


def namespace_policies(call: Call) -> Policies:
    """What the namespace of a call was told. Raises Refusal if there is none."""
    found = call.broker.directory.namespaces.get(call.namespace)
    if found is None:
        # In Apache Pulsar's words, which tools compare.
        tenant = call.namespace.partition("/")[0]
        known = tenant in call.broker.directory.tenants
        raise Refusal(NOT_FOUND, f"{'Namespace' if known else 'Tenant'} does not exist")
    return found


async def list_namespaces(call: Call) -> Response:
    """Returns the namespaces of a tenant."""
    tenant = call.path["tenant"]
    if tenant not in call.broker.directory.tenants:
        raise Refusal(NOT_FOUND, "Tenant not found")
    return json_answer(sorted(call.broker.directory.namespaces_of(tenant)))


async def get_namespace(call: Call) -> Response:
    """Returns the policies and permissions of a namespace."""
    policies = namespace_policies(call)
    whole: dict[str, object] = {
        "auth_policies": call.broker.directory.permissions_of(call.namespace).to_json(),
        "replication_clusters": [call.admin.cluster],
        "bundles": bundles_of(policies.bundles).to_json(),
        "properties": policies.properties,
        "deleted": False,
        "migrated": False,
        **NO_CLUSTERS,
    }
    if policies.resource_group:
        whole["resource_group_name"] = policies.resource_group
    for field, name in BY_CLUSTER.items():
        rate = policies.get_json(name)
        whole[field] = {} if rate is None else {call.admin.cluster: rate}
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
        raise Refusal(NOT_FOUND, f"Tenant does not exist: create {tenant!r} first")
    if call.namespace in call.broker.directory.namespaces:
        raise Refusal(CONFLICT, "Namespace already exists")
    clusters = body.get("replication_clusters")
    if isinstance(clusters, list) and any(one != call.admin.cluster for one in clusters):
        raise Refusal(
            PRECONDITION,
            f"Invalid cluster ids: {shown(clusters)}; there is {call.admin.cluster!r}",
        )
    policies = Policies()
    for field, name in WHOLE.items():
        told = body.get(field)
        # Of a text that nobody gave Go's clients write an empty one.
        if told not in (None, "") and told != UNTOLD.get(field):
            policies.set_json(name, told)
    for field, name in BY_CLUSTER.items():
        rates = body.get(field)
        if isinstance(rates, dict) and call.admin.cluster in rates:
            policies.set_json(name, rates[call.admin.cluster])
    policies.resource_group = _wanted_group(call, body.get("resource_group_name"))
    policies.properties = text_map("properties", body.get("properties"))
    policies.bundles = _wanted_bundles(body.get("bundles"))
    permissions = _wanted_permissions(call, body.get("auth_policies"))
    call.broker.directory.put_namespace(call.namespace, policies)
    call.broker.directory.put_permissions(call.namespace, permissions)
    return no_content()


def _wanted_permissions(call: Call, body: object) -> Permissions:
    """Returns the permissions that a body asks for. Raises Refusal and BrokerError."""
    try:
        permissions = read_permissions(body)
    except SettingsError as error:
        raise Refusal(BAD_REQUEST, str(error)) from None
    named = [permissions.namespace, *permissions.topics.values()]
    roles = [role for grants in named for role in grants]
    roles += [role for found in permissions.subscriptions.values() for role in found]
    for role in roles:
        call.broker.require_short("role", role)
    topics: dict[str, dict[str, tuple[str, ...]]] = {}
    for name, grants in permissions.topics.items():
        topic = TopicName.parse(name).partitioned
        if topic.namespace != call.namespace:
            raise Refusal(BAD_REQUEST, f"{name} is not in {call.namespace}")
        topics[str(topic)] = grants
    return Permissions(permissions.namespace, topics, permissions.subscriptions)


def _wanted_group(call: Call, name: object) -> str:
    """Returns the resource group that a body asks for; none, if it asks for none."""
    if name is None or name == "":
        return ""
    if not isinstance(name, str) or name not in call.broker.directory.groups:
        raise Refusal(PRECONDITION, f"ResourceGroup does not exist: {shown(name)}")
    return name


def _wanted_bundles(body: object) -> list[int]:
    """Returns the boundaries that a body asks for; none, for the default ones."""
    if body is None:
        return []
    count = body.get("numBundles", 0) if isinstance(body, dict) else body
    number = whole_number("numBundles", count, -INT32_MAX, INT32_MAX)
    return [] if number == 0 else Bundles.even(number).boundaries


async def delete(call: Call) -> Response:
    """Deletes a namespace; with `force` its topics too."""
    if call.namespace not in call.broker.directory.namespaces:
        raise Refusal(NOT_FOUND, f"Namespace {call.namespace} does not exist.")
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
    await unload_topics(call, call.broker.names(call.namespace, persistent=True, others=True))
    return no_content()


async def unload_topics(call: Call, names: list[str]) -> None:
    for name in names:
        if name in call.broker.topics:
            await wait_for(call.broker.unload(TopicName.parse(name)))


async def clear_backlog(call: Call) -> Response:
    """Clears the backlog of all subscriptions of a namespace, or of those with a name."""
    namespace_policies(call)
    await clear_topics(call, call.broker.names(call.namespace))
    return no_content()


async def clear_topics(call: Call, names: list[str]) -> None:
    only = call.path.get("subscription")
    for name in names:
        topic = await _loaded(call, name)
        async for subscription in at_ease(list(topic.subscriptions.values())):
            if only is None or subscription.name == only:
                await wait_for(subscription.clear())


async def _loaded(call: Call, name: str) -> Topic:
    topic = TopicName.parse(name)
    await prepare(call.broker, topic)
    return call.broker.find(topic)


async def unsubscribe(call: Call) -> Response:
    """Deletes a subscription of all topics of a namespace."""
    namespace_policies(call)
    await unsubscribe_topics(call, call.broker.names(call.namespace))
    return no_content()


async def unsubscribe_topics(call: Call, names: list[str]) -> None:
    topics = [await _loaded(call, name) for name in names]
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


def namespace_bundles(call: Call) -> Bundles:
    """Raises Refusal if there is no such namespace."""
    return bundles_of(namespace_policies(call).bundles)


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
    Route("POST", f"{NAMESPACE}/clearBacklog", clear_backlog, on_namespace(MANAGE)),
    Route("POST", f"{NAMESPACE}/clearBacklog/{{subscription}}", clear_backlog, on_namespace(SKIP)),
    Route("POST", f"{NAMESPACE}/unsubscribe/{{subscription}}", unsubscribe, on_namespace(CONSUME)),
]
