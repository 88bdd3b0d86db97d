"""Properties of topics: texts by name that mean nothing to the broker, and stay with the topic."""

from typing import Final

from magnetar.admin.http.answer import (
    NOT_ACCEPTABLE,
    PRECONDITION,
    Refusal,
    json_answer,
    no_content,
)
from magnetar.admin.http.call import TOPIC, Call, text_map
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import TEXT, TEXT_MAP, answers
from magnetar.broker.auth.access import LOOK, MANAGE
from magnetar.broker.namespace.directory import TopicNote
from magnetar.broker.setting.text_limits import PROPERTIES, check_properties

__all__ = ["ROUTES"]


def _properties(call: Call) -> dict[str, str]:
    """What a topic has. Raises Refusal, BrokerError if there is no such topic, or it keeps none."""
    name = call.topic_name
    if not name.persistent:
        raise Refusal(
            NOT_ACCEPTABLE, f"{name} is not persistent: nothing is kept of it, properties included"
        )
    if call.admin.partitions(name):
        return call.broker.directory.partitioned_properties.get(str(name), {})
    return call.broker.directory.note(str(call.topic().name)).properties


def _keep(call: Call, properties: dict[str, str]) -> None:
    name, directory = str(call.topic_name), call.broker.directory
    check_properties("properties", properties, PROPERTIES)
    if count := call.admin.partitions(call.topic_name):
        directory.put_partitioned(name, count, properties)
        return
    before = directory.note(name)
    note = TopicNote(terminated=before.terminated, epoch=before.epoch, properties=properties)
    directory.put_note(name, note)


async def get_properties(call: Call) -> Response:
    """Returns the properties of a topic."""
    return json_answer(_properties(call))


async def put_properties(call: Call) -> Response:
    """Adds properties to those of a topic; of one that it has it changes the value."""
    properties = text_map("properties", await call.json_object())
    _keep(call, {**_properties(call), **properties})
    return no_content()


async def delete_property(call: Call) -> Response:
    """Removes one property of a topic, which need not be there."""
    key = call.query("key")
    if not key:
        raise Refusal(PRECONDITION, "key is missing: give the property's name in the query")
    properties = dict(_properties(call))
    if properties.pop(key, None) is not None:
        _keep(call, properties)
    return no_content()


PATH: Final = f"{TOPIC}/properties"
ROUTES: Final[list[Route]] = [
    Route("GET", PATH, get_properties, on_topic(LOOK), answer=answers(TEXT_MAP)),
    Route("PUT", PATH, put_properties, on_topic(MANAGE), body=TEXT_MAP),
    Route("DELETE", PATH, delete_property, on_topic(MANAGE), query={"key": TEXT}),
]
