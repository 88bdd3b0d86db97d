"""What a route asks of whoever calls it.

    PUBLIC      nothing: probes of machines that have no token
    SCRAPE      nothing, unless the setting `authenticate_metrics` asks who it is; without
                authentication it is for loopback alone then
    ANYONE      to be known
    SUPERUSER   to be a superuser
    ADMIN       to be an admin of the tenant in the path
    on_namespace, on_topic
                an operation on what the path names; `magnetar.broker.auth.access` says which
                roles may

Each `Route` has one, and the router asks before a handler is called, so that handlers need not.
What concerns one subscription has it as `{subscription}` in its path, and asks for its permission
too; what concerns all of them is the tenant's admins'.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from magnetar.admin.http.call import Call

__all__ = [
    "ADMIN",
    "ANYONE",
    "PUBLIC",
    "SCRAPE",
    "SUPERUSER",
    "Need",
    "check_need",
    "on_namespace",
    "on_topic",
]


class Need:
    """What a route asks: of whom, and for topics and namespaces which operation."""

    def __init__(self, kind: str, operation: str = "") -> None:
        self.kind = kind
        self.operation = operation


PUBLIC: Final = Need("public")
SCRAPE: Final = Need("metrics")
ANYONE: Final = Need("anyone")
SUPERUSER: Final = Need("superuser")
ADMIN: Final = Need("admin")


def on_namespace(operation: str) -> Need:
    """Returns an operation on the namespace in the path."""
    return Need("namespace", operation)


def on_topic(operation: str) -> Need:
    """Returns an operation on the topic in the path."""
    return Need("topic", operation)


def check_need(need: Need, call: "Call") -> None:
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
