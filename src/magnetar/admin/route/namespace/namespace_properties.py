"""Properties of namespaces: texts by name that mean nothing to the broker."""

from typing import Final

from magnetar.admin.http.answer import json_answer, no_content, text_answer
from magnetar.admin.http.call import Call, text_map
from magnetar.admin.http.required_permission import on_namespace
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import TEXT, TEXT_MAP, Answer, answers
from magnetar.admin.route.namespaces import NAMESPACE, namespace_policies
from magnetar.broker.auth.access import LOOK, MANAGE
from magnetar.broker.policy.policy import Policies
from magnetar.broker.setting.text_limits import PROPERTIES, check_properties

__all__ = ["ROUTES"]


def _keep(call: Call, properties: dict[str, str]) -> None:
    check_properties("properties", properties, PROPERTIES)
    fresh = Policies.from_json(namespace_policies(call).to_json())
    fresh.properties = properties
    call.broker.directory.put_namespace(call.namespace, fresh)


async def get_properties(call: Call) -> Response:
    """Returns the properties of a namespace."""
    return json_answer(namespace_policies(call).properties)


async def put_properties(call: Call) -> Response:
    """Adds properties to those of a namespace; of one that it has it changes the value."""
    before = namespace_policies(call).properties
    _keep(call, {**before, **text_map("properties", await call.json_object())})
    return no_content()


async def delete_properties(call: Call) -> Response:
    """Removes all properties of a namespace."""
    _keep(call, {})
    return no_content()


async def get_property(call: Call) -> Response:
    """Returns one property of a namespace."""
    return _text(namespace_policies(call).properties.get(call.path["key"]))


def _text(value: str | None) -> Response:
    """A text as it stands, as Pulsar's clients read it."""
    return no_content() if value is None else text_answer(value)


async def put_property(call: Call) -> Response:
    """Sets one property of a namespace."""
    before = namespace_policies(call).properties
    _keep(call, {**before, call.path["key"]: call.path["value"]})
    return no_content()


async def delete_property(call: Call) -> Response:
    """Removes one property of a namespace, and returns its value."""
    properties = dict(namespace_policies(call).properties)
    value = properties.pop(call.path["key"], None)
    if value is not None:
        _keep(call, properties)
    return _text(value)


SAID: Final = Answer((200, 204), "text/plain", TEXT)
ALL: Final = f"{NAMESPACE}/properties"
ONE: Final = f"{NAMESPACE}/property/{{key}}"
ROUTES: Final[list[Route]] = [
    Route("GET", ALL, get_properties, on_namespace(LOOK), answer=answers(TEXT_MAP)),
    Route("PUT", ALL, put_properties, on_namespace(MANAGE), body=TEXT_MAP),
    Route("DELETE", ALL, delete_properties, on_namespace(MANAGE)),
    Route("GET", ONE, get_property, on_namespace(LOOK), answer=SAID),
    Route("PUT", f"{ONE}/{{value}}", put_property, on_namespace(MANAGE)),
    Route("DELETE", ONE, delete_property, on_namespace(MANAGE), answer=SAID),
]
