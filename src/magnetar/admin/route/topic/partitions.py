"""Partitions: how many a topic has. It is a name and a number, and each partition is a topic."""

from typing import Final

from magnetar.admin.http.answer import (
    CONFLICT,
    NOT_ACCEPTABLE,
    NOT_FOUND,
    PRECONDITION,
    UNPROCESSABLE,
    Refusal,
    json_answer,
    no_content,
)
from magnetar.admin.http.bridge import at_ease, durable, wait_for
from magnetar.admin.http.call import INT32_MAX, TOPIC, Call, text_map, whole_number
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import FLAG, NUMBER, TEXT_MAP, Json, answers, integer, object_of
from magnetar.admin.route.topics import DELETE, check_unused, require_new
from magnetar.broker.auth.access import LOOK, MANAGE
from magnetar.broker.schema.schema import schema_topic
from magnetar.broker.topic.topic import BEGINNING

__all__ = ["ROUTES"]


async def get_partitions(call: Call) -> Response:
    """Returns the number of partitions; 0 for a topic that is not partitioned."""
    name = call.topic_name
    call.admin.require_in_range(name)
    count = call.broker.partitions(
        name,
        may_create=call.flag("checkAllowAutoCreation")
        and call.broker.access.may_create(call.principal, name),
    )
    properties = call.broker.directory.partitioned_properties.get(str(name), {})
    return json_answer({"partitions": count, "deleted": False, "properties": properties})


async def create_partitioned(call: Call) -> Response:
    """Creates a topic of as many partitions as the body says."""
    name = call.topic_name
    count, properties = await _wanted(call)
    call.broker.directory.require_namespace(name.namespace)
    if name.partition >= 0:
        raise Refusal(PRECONDITION, f"{name} is called like a partition: choose another name")
    limit = call.broker.settings.max_partitions_per_topic
    if count < 1 or 0 < limit < count:
        most = limit if limit > 0 else INT32_MAX
        raise Refusal(NOT_ACCEPTABLE, f"{count} partitions: give a number from 1 to {most}")
    require_new(call, name)
    await wait_for(call.broker.create_partitioned(name, count, properties))
    await durable(call.broker)
    return no_content()


async def update_partitions(call: Call) -> Response:
    """Adds partitions; they get the subscriptions of the topic too."""
    name = call.topic_name
    count, _ = await _wanted(call)
    before = call.admin.partitions(name)
    if not before:
        raise Refusal(
            CONFLICT, f"Topic {name} is not the partitioned topic. Create it with partitions"
        )
    if count < before:
        raise Refusal(
            UNPROCESSABLE,
            f"Desired partitions {count} can't be less than the current partitions {before}. "
            f"{name} only grows",
        )
    await _grow(call, before, count)
    return no_content()


async def create_missed(call: Call) -> Response:
    """Creates the partitions that a partitioned topic should have and has not."""
    name = call.topic_name
    count = call.admin.partitions(name)
    if not count:
        raise Refusal(NOT_FOUND, f"Topic {name} does not exist as a partitioned one")
    await _grow(call, count, count)
    return no_content()


async def _grow(call: Call, before: int, count: int) -> None:
    """Makes the partitions that are missing; new ones get the topic's subscriptions."""
    name = call.topic_name
    properties: dict[str, dict[str, str]] = {}
    async for topic in at_ease(await call.topics()):
        for subscription in topic.subscriptions.values():
            if subscription.durable:
                properties[subscription.name] = subscription.properties
    await wait_for(call.broker.create_partitioned(name, count))
    await durable(call.broker)
    numbers = range(before, count) if name.persistent else range(0)
    new = ((number, subscription) for number in numbers for subscription in properties)
    async for number, wanted in at_ease(new):
        topic = call.broker.find(name.with_partition(number))
        if wanted not in topic.subscriptions:
            topic.create_subscription(wanted, BEGINNING, properties[wanted])
    await durable(call.broker)


async def _wanted(call: Call) -> tuple[int, dict[str, str]]:
    """Returns how many partitions a body asks for, and properties if it has any."""
    body = await call.json()
    properties: dict[str, str] = {}
    if isinstance(body, dict):
        properties = text_map("properties", body.get("properties"))
        body = body.get("partitions")
    return whole_number("partitions", body, -INT32_MAX, INT32_MAX), properties


async def delete_partitioned(call: Call) -> Response:
    """Deletes a topic with all its partitions."""
    name, broker = call.topic_name, call.broker
    if not call.admin.partitions(name) and broker.exists(name):
        raise Refusal(
            CONFLICT, f"{name} is a non-partitioned topic. Delete it without its partitions"
        )
    count = call.admin.require_partitions(name)
    check_unused(await call.topics(), force=call.flag("force"))
    # First the name, so that no client makes a partition anew.
    broker.directory.delete_partitioned(str(name))
    for number in range(count):
        partition = name.with_partition(number)
        if broker.exists(partition):
            await wait_for(broker.delete_topic(partition, force=True, delete_schema=False))
    broker.directory.delete_topic_policies(str(name))
    broker.directory.forget_permissions(name)
    if call.flag("deleteSchema", default=True):
        broker.schemas.purge(schema_topic(name))
    return no_content()


PARTITIONS: Final[Json] = {
    "oneOf": [
        integer(1, INT32_MAX),
        object_of(("partitions",), partitions=integer(1, INT32_MAX), properties=TEXT_MAP),
    ]
}
METADATA: Final[Json] = object_of(
    ("partitions",), partitions=NUMBER, deleted=FLAG, properties=TEXT_MAP
)

ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        f"{TOPIC}/partitions",
        get_partitions,
        on_topic(LOOK),
        query={"checkAllowAutoCreation": FLAG},
        answer=answers(METADATA),
    ),
    Route("PUT", f"{TOPIC}/partitions", create_partitioned, on_topic(MANAGE), body=PARTITIONS),
    Route("POST", f"{TOPIC}/partitions", update_partitions, on_topic(MANAGE), body=PARTITIONS),
    Route("DELETE", f"{TOPIC}/partitions", delete_partitioned, on_topic(MANAGE), query=DELETE),
    Route("POST", f"{TOPIC}/createMissedPartitions", create_missed, on_topic(MANAGE)),
]
