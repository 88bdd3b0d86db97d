"""Permissions: what roles may do in a namespace, on a topic, with a subscription.

A grant says all that a role may do from then on, there; to revoke is to grant nothing. What
a permission allowed is closed when it is taken away. `magnetar.broker.auth.permissions` tells
what the actions mean.
"""

from typing import Final

from magnetar.admin.http.answer import BAD_REQUEST, Refusal, json_answer, no_content
from magnetar.admin.http.bridge import wait_for
from magnetar.admin.http.call import TOPIC, Call, shown
from magnetar.admin.http.required_permission import ANYONE, on_namespace, on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import TEXT, TEXTS, Json, answers, list_of, map_of, object_of
from magnetar.admin.route.namespaces import NAMESPACE, namespace_policies
from magnetar.broker.auth.access import MANAGE
from magnetar.broker.auth.permissions import Permissions, read_actions, read_roles
from magnetar.errors import SettingsError
from magnetar.model import TopicName

__all__ = ["PERMISSIONS", "ROUTES"]

PERMISSIONS: Final = f"{NAMESPACE}/permissions"
# In one request for several topics.
TOPICS_MAX: Final = 1000


def _of(call: Call) -> Permissions:
    namespace_policies(call)
    return call.broker.directory.permissions_of(call.namespace)


async def _keep(call: Call, permissions: Permissions) -> Response:
    """Answers when what is no longer allowed is closed."""
    call.broker.directory.put_permissions(call.namespace, permissions)
    await wait_for(call.broker.permissions_changed(call.namespace))
    return no_content()


async def _actions(call: Call) -> tuple[str, ...]:
    body = await call.json()
    call.broker.require_short("role", call.path["role"])
    try:
        return read_actions(body)
    except SettingsError as error:
        raise Refusal(BAD_REQUEST, str(error)) from None


async def _roles(call: Call) -> tuple[str, ...]:
    body = await call.json()
    try:
        roles = read_roles(body)
    except SettingsError:
        reason = f"the body is {shown(body)}: give a list of roles"
        raise Refusal(BAD_REQUEST, reason) from None
    for role in roles:
        call.broker.require_short("role", role)
    return roles


# ---- Namespaces ------------------------------------------------------------------------


async def get_on_namespace(call: Call) -> Response:
    """Returns what each role may do in a namespace."""
    return json_answer(_of(call).namespace)


async def grant_on_namespace(call: Call) -> Response:
    """Lets a role do what the body lists, in a namespace."""
    actions = await _actions(call)
    return await _keep(call, _of(call).with_namespace(call.path["role"], actions))


async def revoke_on_namespace(call: Call) -> Response:
    """Takes all permissions of a role in a namespace away."""
    return await _keep(call, _of(call).with_namespace(call.path["role"], ()))


# ---- Topics ----------------------------------------------------------------------------


async def get_on_topic(call: Call) -> Response:
    """Returns what each role may do with a topic."""
    return json_answer(_of(call).grants_on(str(call.topic_name.partitioned)))


async def grant_on_topic(call: Call) -> Response:
    """Lets a role do what the body lists, with a topic."""
    actions = await _actions(call)
    topic = str(call.topic_name.partitioned)
    return await _keep(call, _of(call).with_topic(topic, call.path["role"], actions))


async def revoke_on_topic(call: Call) -> Response:
    """Takes the permissions of a role on a topic away; it need not have any."""
    topic = str(call.topic_name.partitioned)
    return await _keep(call, _of(call).with_topic(topic, call.path["role"], ()))


async def grant_on_topics(call: Call) -> Response:
    """Lets roles do what the body lists, each with a topic: all of it, or nothing."""
    return await _change_topics(call, grant=True)


async def revoke_on_topics(call: Call) -> Response:
    """Takes the permissions of roles on topics away."""
    return await _change_topics(call, grant=False)


async def _change_topics(call: Call, *, grant: bool) -> Response:
    body = await call.json()
    if not isinstance(body, list) or len(body) > TOPICS_MAX:
        raise Refusal(
            BAD_REQUEST, f"the body is {shown(body)}: give a list of {TOPICS_MAX} at most"
        )
    changed: dict[str, Permissions] = {}
    for one in body:
        name, role, actions = _read_change(call, one, grant=grant)
        before = changed.get(name.namespace)
        if before is None:
            before = call.broker.directory.permissions_of(name.namespace)
        changed[name.namespace] = before.with_topic(str(name.partitioned), role, actions)
    for namespace, permissions in changed.items():
        call.broker.directory.put_permissions(namespace, permissions)
        await wait_for(call.broker.permissions_changed(namespace))
    return no_content()


def _read_change(call: Call, one: object, *, grant: bool) -> tuple[TopicName, str, tuple[str, ...]]:
    """A topic, a role and what it may do. Raises Refusal, BrokerError."""
    if not isinstance(one, dict) or not one.get("topic") or not one.get("role"):
        raise Refusal(BAD_REQUEST, f"{shown(one)} has no topic and role: give both")
    name, role = TopicName.parse(str(one["topic"])), str(one["role"])
    call.broker.directory.require_namespace(name.namespace)
    call.broker.access.require_admin(call.principal, name.tenant)
    call.broker.require_short("role", role)
    if not grant:
        return name, role, ()
    try:
        return name, role, read_actions(one.get("actions"))
    except SettingsError as error:
        raise Refusal(BAD_REQUEST, str(error)) from None


# ---- Subscriptions ---------------------------------------------------------------------


async def get_on_subscriptions(call: Call) -> Response:
    """Returns the roles that subscriptions of a namespace are reserved for."""
    return json_answer(_of(call).subscriptions)


async def grant_on_subscription(call: Call) -> Response:
    """Restricts a subscription to roles; an empty list opens it to all who may consume."""
    roles = await _roles(call)
    return await _keep(call, _of(call).with_subscription(call.path["subscription"], roles))


async def revoke_on_subscription(call: Call) -> Response:
    """Takes a role from those that a subscription is reserved for."""
    before = _of(call)
    name = call.path["subscription"]
    left = [role for role in before.subscriptions.get(name, ()) if role != call.path["role"]]
    return await _keep(call, before.with_subscription(name, tuple(left)))


ROLES: Final[Json] = map_of(TEXTS)

ROUTES: Final[list[Route]] = [
    Route("GET", PERMISSIONS, get_on_namespace, on_namespace(MANAGE), answer=answers(ROLES)),
    Route("POST", f"{PERMISSIONS}/{{role}}", grant_on_namespace, on_namespace(MANAGE), body=TEXTS),
    Route("DELETE", f"{PERMISSIONS}/{{role}}", revoke_on_namespace, on_namespace(MANAGE)),
    Route(
        "GET",
        f"{PERMISSIONS}/subscription",
        get_on_subscriptions,
        on_namespace(MANAGE),
        answer=answers(ROLES),
    ),
    Route(
        "POST",
        f"{PERMISSIONS}/subscription/{{subscription}}",
        grant_on_subscription,
        on_namespace(MANAGE),
        body=TEXTS,
    ),
    Route(
        "DELETE",
        f"{PERMISSIONS}/{{subscription}}/{{role}}",
        revoke_on_subscription,
        on_namespace(MANAGE),
    ),
    Route(
        "POST",
        "/admin/v2/namespaces/grantPermissionsOnTopics",
        grant_on_topics,
        ANYONE,
        body=list_of(object_of(("topic", "role"), topic=TEXT, role=TEXT, actions=TEXTS)),
    ),
    Route(
        "POST",
        "/admin/v2/namespaces/revokePermissionsOnTopics",
        revoke_on_topics,
        ANYONE,
        body=list_of(object_of(("topic", "role"), topic=TEXT, role=TEXT)),
    ),
    Route("GET", f"{TOPIC}/permissions", get_on_topic, on_topic(MANAGE), answer=answers(ROLES)),
    Route("POST", f"{TOPIC}/permissions/{{role}}", grant_on_topic, on_topic(MANAGE), body=TEXTS),
    Route("DELETE", f"{TOPIC}/permissions/{{role}}", revoke_on_topic, on_topic(MANAGE)),
]
