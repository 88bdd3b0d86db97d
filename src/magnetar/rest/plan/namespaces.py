"""Plans about namespaces, tenants and the brokers themselves."""

from collections.abc import Sequence

from magnetar.rest.path import namespace_path, path_of
from magnetar.rest.request import Plan, Request
from magnetar.rest.response.lookup import Tenant

__all__ = [
    "clear_backlog",
    "create",
    "create_tenant",
    "delete",
    "delete_tenant",
    "get_tenant",
    "health",
    "list_clusters",
    "list_namespaces",
    "list_tenants",
    "unload",
    "update_tenant",
    "version",
]


def list_namespaces(tenant: str = "public") -> Plan[list[str]]:
    """Returns the namespaces of a tenant, as `tenant/namespace`."""
    return (yield Request("GET", path_of("namespaces", tenant))).as_type(list[str])


def create(namespace: str) -> Plan[None]:
    """Creates a namespace, `tenant/namespace`. Raises ConflictError if it is there."""
    yield Request("PUT", namespace_path(namespace))


def delete(namespace: str, *, force: bool = False) -> Plan[None]:
    """Deletes a namespace. Raises an AdminError if it has topics, unless `force` is true."""
    yield Request("DELETE", namespace_path(namespace), query={"force": force})


def unload(namespace: str) -> Plan[None]:
    """Takes all topics of a namespace out of memory; clients connect again."""
    yield Request("PUT", namespace_path(namespace, "unload"))


def clear_backlog(namespace: str, subscription: str | None = None) -> Plan[None]:
    """Acks everything on all topics of a namespace, for one subscription or for all."""
    pieces = () if subscription is None else (subscription,)
    yield Request("POST", namespace_path(namespace, "clearBacklog", *pieces))


# ---- Tenants ---------------------------------------------------------------------------


def list_tenants() -> Plan[list[str]]:
    """Returns the names of all tenants."""
    return (yield Request("GET", path_of("tenants"))).as_type(list[str])


def get_tenant(tenant: str) -> Plan[Tenant]:
    """Returns what is known of a tenant. Raises NotFoundError."""
    return (yield Request("GET", path_of("tenants", tenant))).as_type(Tenant)


def create_tenant(
    tenant: str, *, admin_roles: Sequence[str] = (), allowed_clusters: Sequence[str] | None = None
) -> Plan[None]:
    """Creates a tenant, allowed on all clusters unless some are named."""
    body = yield from _tenant_body(admin_roles, allowed_clusters)
    yield Request("PUT", path_of("tenants", tenant), body)


def update_tenant(
    tenant: str, *, admin_roles: Sequence[str] = (), allowed_clusters: Sequence[str] | None = None
) -> Plan[None]:
    """Replaces the roles and the clusters of a tenant."""
    body = yield from _tenant_body(admin_roles, allowed_clusters)
    yield Request("POST", path_of("tenants", tenant), body)


def _tenant_body(
    admin_roles: Sequence[str], allowed_clusters: Sequence[str] | None
) -> Plan[dict[str, object]]:
    # Apache Pulsar wants at least one.
    clusters = (yield from list_clusters()) if allowed_clusters is None else allowed_clusters
    return {"adminRoles": list(admin_roles), "allowedClusters": list(clusters)}


def delete_tenant(tenant: str, *, force: bool = False) -> Plan[None]:
    """Deletes a tenant. Raises ConflictError if it has namespaces, unless `force` is true."""
    yield Request("DELETE", path_of("tenants", tenant), query={"force": force})


# ---- Brokers ---------------------------------------------------------------------------


def list_clusters() -> Plan[list[str]]:
    """Returns the names of all clusters."""
    found = (yield Request("GET", path_of("clusters"))).as_type(list[str])
    return [name for name in found if name != "global"]


def health() -> Plan[None]:
    """Returns if the broker can store messages. Raises ServerSideError if it cannot."""
    yield Request("GET", path_of("brokers", "health"))


def version() -> Plan[str]:
    """Returns the version of the broker."""
    return (yield Request("GET", path_of("brokers", "version"))).body.decode().strip().strip('"')
