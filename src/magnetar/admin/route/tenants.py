"""Tenants: who namespaces belong to."""

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
from magnetar.admin.http.bridge import wait_for
from magnetar.admin.http.call import Call, check_name, shown
from magnetar.admin.http.required_permission import ADMIN, SUPERUSER
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import FORCE, TEXTS, Json, answers, object_of
from magnetar.admin.route.namespaces import delete_namespace

__all__ = ["ROUTES", "TENANTS"]


async def list_tenants(call: Call) -> Response:
    """Returns the names of the tenants."""
    return json_answer(sorted(call.broker.directory.tenants))


async def get_tenant(call: Call) -> Response:
    """Returns who administers a tenant."""
    return json_answer(_tenant(call))


async def create_tenant(call: Call) -> Response:
    """Creates a tenant."""
    name = call.path["tenant"]
    check_name("tenant", name)
    call.broker.require_short("tenant", name)
    info = await _info(call)
    if name in call.broker.directory.tenants:
        raise Refusal(CONFLICT, "Tenant already exist")
    call.broker.directory.put_tenant(name, info)
    return no_content()


async def update_tenant(call: Call) -> Response:
    """Changes who administers a tenant."""
    info = await _info(call)
    _tenant(call)
    call.broker.directory.put_tenant(call.path["tenant"], info)
    await wait_for(call.broker.admins_changed(call.path["tenant"]))
    return no_content()


async def delete_tenant(call: Call) -> Response:
    """Deletes a tenant; with `force` its namespaces too."""
    _tenant(call)
    name = call.path["tenant"]
    namespaces = call.broker.directory.namespaces_of(name)
    if namespaces and not call.flag("force"):
        raise Refusal(
            CONFLICT,
            f"The tenant still has active namespaces: {name} has {len(namespaces)}; delete them "
            "first, or force it",
        )
    for namespace in namespaces:
        await delete_namespace(call.broker, namespace, force=True)
    call.broker.directory.delete_tenant(name)
    return no_content()


def _tenant(call: Call) -> dict[str, object]:
    name = call.path["tenant"]
    found = call.broker.directory.tenants.get(name)
    if found is None:
        raise Refusal(NOT_FOUND, "Tenant does not exist")
    return {"adminRoles": [], "allowedClusters": [call.admin.cluster], **found}


async def _info(call: Call) -> dict[str, object]:
    body = await call.json_object()
    roles = _names("adminRoles", body.get("adminRoles"))
    for role in roles:
        call.broker.require_short("role", role)
    clusters = _names("allowedClusters", body.get("allowedClusters")) or [call.admin.cluster]
    unknown = [cluster for cluster in clusters if cluster != call.admin.cluster]
    if unknown:
        raise Refusal(
            PRECONDITION, f"Clusters do not exist: {unknown}; there is {call.admin.cluster!r}"
        )
    return {"adminRoles": roles, "allowedClusters": clusters}


def _names(field: str, value: object) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise Refusal(BAD_REQUEST, f"{field} is {shown(value)}: give a list of names")
    return sorted(set(value))


TENANTS: Final = "/admin/v2/tenants"
TENANT: Final[Json] = object_of(adminRoles=TEXTS, allowedClusters=TEXTS)

ROUTES: Final[list[Route]] = [
    Route("GET", TENANTS, list_tenants, SUPERUSER, answer=answers(TEXTS)),
    Route("GET", f"{TENANTS}/{{tenant}}", get_tenant, ADMIN, answer=answers(TENANT)),
    Route(
        "PUT", f"{TENANTS}/{{tenant}}", create_tenant, SUPERUSER, body=TENANT, body_required=False
    ),
    Route("POST", f"{TENANTS}/{{tenant}}", update_tenant, SUPERUSER, body=TENANT),
    Route("DELETE", f"{TENANTS}/{{tenant}}", delete_tenant, SUPERUSER, query=FORCE),
]
