"""Resource groups: rates that all namespaces of a group share."""

from typing import Final

from magnetar.admin.http.answer import (
    NOT_FOUND,
    PRECONDITION,
    Refusal,
    json_answer,
    no_content,
    optional_answer,
)
from magnetar.admin.http.bridge import wait_for
from magnetar.admin.http.call import Call, check_name, whole_number
from magnetar.admin.http.required_permission import SUPERUSER, on_namespace
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import TEXT, TEXTS, WHOLE, Json, answers, each, object_of, record
from magnetar.admin.route.namespaces import NAMESPACE, namespace_policies
from magnetar.broker.auth.access import MANAGE
from magnetar.broker.policy.policy import Policies
from magnetar.broker.rate.resource_group import FIELDS, ResourceGroup
from magnetar.broker.setting.setting import COUNT_MAX, INT_MAX

__all__ = ["ROUTES"]


async def list_groups(call: Call) -> Response:
    """Returns the names of all resource groups."""
    return json_answer(sorted(call.broker.directory.groups))


async def get_group(call: Call) -> Response:
    """Returns the rates of a resource group."""
    return json_answer(_group(call).to_json())


def _group(call: Call) -> ResourceGroup:
    name = call.path["group"]
    found = call.broker.directory.groups.get(name)
    if found is None:
        raise Refusal(NOT_FOUND, f"ResourceGroup does not exist: {name!r}")
    return found


async def put_group(call: Call) -> Response:
    """Creates a resource group, or changes those of its rates that the body has."""
    body = await call.json_object()
    name = call.path["group"]
    check_name("resource group", name)
    call.broker.require_short("resource group", name)
    before = call.broker.directory.groups.get(name)
    numbers = {} if before is None else before.to_json()
    for field in FIELDS:
        if body.get(field) is not None:
            most = INT_MAX if field.endswith("Msgs") else COUNT_MAX
            numbers[field] = whole_number(field, body[field], -1, most)
    call.broker.directory.put_group(name, ResourceGroup(numbers))
    await wait_for(call.broker.group_changed(name))
    return no_content()


async def delete_group(call: Call) -> Response:
    """Deletes a resource group that no namespace is in."""
    _group(call)
    name = call.path["group"]
    users = call.broker.directory.namespaces_in(name)
    if users:
        raise Refusal(
            PRECONDITION,
            f"ResourceGroup is in use: {len(users)} namespaces are in it, {min(users)} for one",
        )
    call.broker.directory.delete_group(name)
    await wait_for(call.broker.group_changed(name))
    return no_content()


async def group_of_namespace(call: Call) -> Response:
    """Returns the resource group of a namespace; 204 if it is in none."""
    return optional_answer(namespace_policies(call).resource_group or None)


async def join_group(call: Call) -> Response:
    """Puts a namespace into a resource group; it leaves the one that it was in."""
    policies = namespace_policies(call)
    name = call.path["group"]
    if name not in call.broker.directory.groups:
        raise Refusal(PRECONDITION, f"ResourceGroup does not exist: {name!r}")
    return await _put(call, policies, name)


async def leave_group(call: Call) -> Response:
    """Takes a namespace out of its resource group."""
    return await _put(call, namespace_policies(call), "")


async def _put(call: Call, policies: Policies, group: str) -> Response:
    fresh = Policies.from_json(policies.to_json())
    fresh.resource_group = group
    call.broker.directory.put_namespace(call.namespace, fresh)
    await wait_for(call.broker.policies_changed(call.namespace))
    return no_content()


GROUPS: Final = "/admin/v2/resourcegroups"
GROUP: Final = f"{NAMESPACE}/resourcegroup"
RATES: Final[Json] = record(**each(WHOLE, *FIELDS))
TOLD: Final[Json] = object_of((), **each(WHOLE, *FIELDS))

ROUTES: Final[list[Route]] = [
    Route("GET", GROUPS, list_groups, SUPERUSER, answer=answers(TEXTS)),
    Route("GET", f"{GROUPS}/{{group}}", get_group, SUPERUSER, answer=answers(RATES)),
    Route("PUT", f"{GROUPS}/{{group}}", put_group, SUPERUSER, body=TOLD),
    Route("DELETE", f"{GROUPS}/{{group}}", delete_group, SUPERUSER),
    Route(
        "GET", GROUP, group_of_namespace, on_namespace(MANAGE), answer=answers(TEXT, optional=True)
    ),
    Route("POST", f"{GROUP}/{{group}}", join_group, on_namespace(MANAGE)),
    Route("DELETE", GROUP, leave_group, on_namespace(MANAGE)),
]
