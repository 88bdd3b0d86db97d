"""What each route asks of whoever calls it.

    PUBLIC      nothing: probes of machines that have no token
    METRICS     nothing, unless the setting `authenticate_metrics` asks who it is; without
                authentication it is for loopback alone then
    ANYONE      to be known
    SUPERUSER   to be a superuser; so does every route that is not named here
    ADMIN       to be an admin of the tenant in the path
    on_namespace, on_topic
                an operation on what the path names; `magnetar.broker.auth.access` says which
                roles may

The router asks before a handler is called, so that handlers need not. What concerns one
subscription has it as `{subscription}` in its path, and asks for its permission too; what
concerns all of them is the tenant's admins'.
"""

from typing import Final

from magnetar.admin.http.call import SUBSCRIPTION, TOPIC, Call
from magnetar.admin.route.brokers import BROKERS
from magnetar.admin.route.clusters import CLUSTERS
from magnetar.admin.route.lookup import LOOKUP
from magnetar.admin.route.namespaces import BUNDLE, NAMESPACE
from magnetar.admin.route.permissions import PERMISSIONS
from magnetar.admin.route.schemas import SCHEMAS
from magnetar.admin.route.tenants import TENANTS
from magnetar.admin.route.topics import LIST
from magnetar.broker.auth.access import CONSUME, LOOK, MANAGE, PRODUCE, SKIP

__all__ = ["METRICS", "NEEDS", "PUBLIC", "SUPERUSER", "Need", "check_need"]


class Need:
    """What a route asks: of whom, and for topics and namespaces which operation."""

    def __init__(self, kind: str, operation: str = "") -> None:
        self.kind = kind
        self.operation = operation


PUBLIC: Final = Need("public")
METRICS: Final = Need("metrics")
ANYONE: Final = Need("anyone")
SUPERUSER: Final = Need("superuser")
ADMIN: Final = Need("admin")


def on_namespace(operation: str) -> Need:
    return Need("namespace", operation)


def on_topic(operation: str) -> Need:
    return Need("topic", operation)


def check_need(need: Need, call: Call) -> None:
    """Raises BrokerError unless who calls has what the route asks."""
    access, principal = call.broker.access, call.principal
    subscription = call.path.get("subscription", "")
    if need.kind == "superuser":
        access.require_superuser(principal)
    elif need.kind == "admin":
        access.require_admin(principal, call.path["tenant"])
    elif need.kind == "namespace" and access.enabled:
        access.require_namespace(principal, need.operation, call.namespace, subscription)
    elif need.kind == "topic" and access.enabled:
        access.require_topic(principal, need.operation, call.topic_name, subscription)


NEEDS: Final[dict[tuple[str, str], Need]] = {
    # Brokers and clusters.
    ("GET", BROKERS): SUPERUSER,
    ("GET", f"{BROKERS}/{{cluster}}"): SUPERUSER,
    ("GET", f"{BROKERS}/health"): ANYONE,
    ("GET", f"{BROKERS}/ready"): PUBLIC,
    ("GET", f"{BROKERS}/live"): PUBLIC,
    ("GET", f"{BROKERS}/version"): ANYONE,
    ("GET", f"{BROKERS}/leaderBroker"): SUPERUSER,
    ("GET", f"{BROKERS}/configuration"): SUPERUSER,
    ("GET", f"{BROKERS}/configuration/values"): SUPERUSER,
    ("GET", f"{BROKERS}/configuration/runtime"): SUPERUSER,
    ("POST", f"{BROKERS}/configuration/{{name}}/{{value}}"): SUPERUSER,
    ("DELETE", f"{BROKERS}/configuration/{{name}}"): SUPERUSER,
    ("GET", f"{BROKERS}/internal-configuration"): SUPERUSER,
    ("GET", "/status.html"): PUBLIC,
    ("GET", "/healthz"): PUBLIC,
    ("GET", "/metrics"): METRICS,
    ("GET", "/openapi.json"): PUBLIC,
    ("GET", CLUSTERS): ANYONE,
    ("GET", f"{CLUSTERS}/{{cluster}}"): SUPERUSER,
    ("PUT", f"{CLUSTERS}/{{cluster}}"): SUPERUSER,
    ("POST", f"{CLUSTERS}/{{cluster}}"): SUPERUSER,
    ("DELETE", f"{CLUSTERS}/{{cluster}}"): SUPERUSER,
    ("GET", f"{CLUSTERS}/{{cluster}}/failureDomains"): SUPERUSER,
    # Tenants.
    ("GET", TENANTS): SUPERUSER,
    ("GET", f"{TENANTS}/{{tenant}}"): ADMIN,
    ("PUT", f"{TENANTS}/{{tenant}}"): SUPERUSER,
    ("POST", f"{TENANTS}/{{tenant}}"): SUPERUSER,
    ("DELETE", f"{TENANTS}/{{tenant}}"): SUPERUSER,
    # Namespaces.
    ("GET", "/admin/v2/namespaces/{tenant}"): ADMIN,
    ("GET", NAMESPACE): on_namespace(MANAGE),
    ("PUT", NAMESPACE): ADMIN,
    ("DELETE", NAMESPACE): ADMIN,
    ("GET", f"{NAMESPACE}/topics"): on_namespace(LOOK),
    ("PUT", f"{NAMESPACE}/unload"): on_namespace(MANAGE),
    ("PUT", f"{NAMESPACE}/{{bundle:{BUNDLE}}}/unload"): on_namespace(MANAGE),
    ("POST", f"{NAMESPACE}/clearBacklog"): on_namespace(MANAGE),
    ("POST", f"{NAMESPACE}/clearBacklog/{{subscription}}"): on_namespace(SKIP),
    ("POST", f"{NAMESPACE}/unsubscribe/{{subscription}}"): on_namespace(CONSUME),
    ("GET", f"{NAMESPACE}/bundles"): on_namespace(LOOK),
    ("GET", f"{NAMESPACE}/replication"): on_namespace(MANAGE),
    ("GET", PERMISSIONS): on_namespace(MANAGE),
    ("POST", f"{PERMISSIONS}/{{role}}"): on_namespace(MANAGE),
    ("DELETE", f"{PERMISSIONS}/{{role}}"): on_namespace(MANAGE),
    ("GET", f"{PERMISSIONS}/subscription"): on_namespace(MANAGE),
    ("POST", f"{PERMISSIONS}/subscription/{{subscription}}"): on_namespace(MANAGE),
    ("DELETE", f"{PERMISSIONS}/{{subscription}}/{{role}}"): on_namespace(MANAGE),
    ("GET", f"{NAMESPACE}/{{policy}}"): on_namespace(MANAGE),
    ("POST", f"{NAMESPACE}/{{policy}}"): on_namespace(MANAGE),
    ("PUT", f"{NAMESPACE}/{{policy}}"): on_namespace(MANAGE),
    ("DELETE", f"{NAMESPACE}/{{policy}}"): on_namespace(MANAGE),
    # Topics.
    ("GET", LIST): on_namespace(LOOK),
    ("GET", f"{LIST}/partitioned"): on_namespace(LOOK),
    ("PUT", TOPIC): on_topic(MANAGE),
    ("DELETE", TOPIC): on_topic(MANAGE),
    ("PUT", f"{TOPIC}/unload"): on_topic(MANAGE),
    ("POST", f"{TOPIC}/terminate"): on_topic(MANAGE),
    ("POST", f"{TOPIC}/terminate/partitions"): on_topic(MANAGE),
    ("DELETE", f"{TOPIC}/truncate"): on_topic(MANAGE),
    ("POST", f"{TOPIC}/trim"): on_topic(MANAGE),
    ("GET", f"{TOPIC}/properties"): on_topic(LOOK),
    ("GET", f"{TOPIC}/partitions"): on_topic(LOOK),
    ("PUT", f"{TOPIC}/partitions"): on_topic(MANAGE),
    ("POST", f"{TOPIC}/partitions"): on_topic(MANAGE),
    ("DELETE", f"{TOPIC}/partitions"): on_topic(MANAGE),
    ("GET", f"{TOPIC}/permissions"): on_topic(MANAGE),
    ("POST", f"{TOPIC}/permissions/{{role}}"): on_topic(MANAGE),
    ("DELETE", f"{TOPIC}/permissions/{{role}}"): on_topic(MANAGE),
    ("GET", f"{TOPIC}/{{policy}}"): on_topic(MANAGE),
    ("POST", f"{TOPIC}/{{policy}}"): on_topic(MANAGE),
    ("PUT", f"{TOPIC}/{{policy}}"): on_topic(MANAGE),
    ("DELETE", f"{TOPIC}/{{policy}}"): on_topic(MANAGE),
    ("GET", f"{TOPIC}/stats"): on_topic(LOOK),
    ("GET", f"{TOPIC}/partitioned-stats"): on_topic(LOOK),
    ("GET", f"{TOPIC}/internalStats"): on_topic(LOOK),
    ("GET", f"{TOPIC}/partitioned-internalStats"): on_topic(LOOK),
    ("GET", f"{TOPIC}/internal-info"): on_topic(LOOK),
    ("GET", LOOKUP): on_topic(LOOK),
    ("GET", f"{LOOKUP}/bundle"): on_topic(LOOK),
    # Messages.
    ("GET", f"{TOPIC}/ledger/{{ledger}}/entry/{{entry}}"): on_topic(CONSUME),
    ("GET", f"{TOPIC}/examinemessage"): on_topic(CONSUME),
    ("GET", f"{TOPIC}/messageid/{{time}}"): on_topic(CONSUME),
    ("GET", f"{TOPIC}/lastMessageId"): on_topic(LOOK),
    ("PUT", f"{TOPIC}/backlogSize"): on_topic(LOOK),
    ("GET", f"{TOPIC}/backlog"): on_topic(LOOK),
    ("GET", f"{TOPIC}/getMessageIdByIndex"): on_topic(CONSUME),
    # Subscriptions.
    ("GET", f"{TOPIC}/subscriptions"): on_topic(LOOK),
    ("POST", f"{TOPIC}/all_subscription/expireMessages/{{seconds}}"): on_topic(MANAGE),
    ("PUT", SUBSCRIPTION): on_topic(CONSUME),
    ("DELETE", SUBSCRIPTION): on_topic(CONSUME),
    ("GET", f"{SUBSCRIPTION}/properties"): on_topic(LOOK),
    ("PUT", f"{SUBSCRIPTION}/properties"): on_topic(CONSUME),
    ("GET", f"{SUBSCRIPTION}/position/{{position}}"): on_topic(CONSUME),
    ("GET", f"{SUBSCRIPTION}/ackState"): on_topic(LOOK),
    ("POST", f"{SUBSCRIPTION}/analyzeBacklog"): on_topic(LOOK),
    ("POST", f"{SUBSCRIPTION}/skip/{{count}}"): on_topic(SKIP),
    ("POST", f"{SUBSCRIPTION}/skip_all"): on_topic(SKIP),
    ("POST", f"{SUBSCRIPTION}/skipDamaged"): on_topic(SKIP),
    ("POST", f"{SUBSCRIPTION}/skipByMessageIds"): on_topic(SKIP),
    ("POST", f"{SUBSCRIPTION}/resetcursor/{{time}}"): on_topic(CONSUME),
    ("POST", f"{SUBSCRIPTION}/resetcursor"): on_topic(CONSUME),
    ("POST", f"{SUBSCRIPTION}/expireMessages/{{seconds}}"): on_topic(CONSUME),
    ("POST", f"{SUBSCRIPTION}/expireMessages"): on_topic(CONSUME),
    # Schemas.
    ("GET", f"{SCHEMAS}/schema"): on_topic(LOOK),
    ("GET", f"{SCHEMAS}/schema/{{version}}"): on_topic(LOOK),
    ("GET", f"{SCHEMAS}/schemas"): on_topic(LOOK),
    ("POST", f"{SCHEMAS}/schema"): on_topic(PRODUCE),
    ("DELETE", f"{SCHEMAS}/schema"): on_topic(MANAGE),
    ("POST", f"{SCHEMAS}/compatibility"): on_topic(LOOK),
    ("POST", f"{SCHEMAS}/version"): on_topic(LOOK),
}
