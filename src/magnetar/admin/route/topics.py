"""Topics and their partitions: made, listed, unloaded, terminated, cut short, deleted.

A partitioned topic is a name and a number of partitions, each of them a topic. What is
asked of the whole is done to every partition.
"""

from typing import Final

from magnetar.admin.http.answer import (
    CONFLICT,
    NOT_ACCEPTABLE,
    NOT_ALLOWED,
    PRECONDITION,
    Refusal,
    json_answer,
    no_content,
)
from magnetar.admin.http.bridge import at_ease, durable, wait_for
from magnetar.admin.http.call import (
    INT32_MAX,
    TOPIC,
    Call,
    stored,
    text_map,
    whole_number,
)
from magnetar.admin.http.required_permission import on_namespace, on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    FLAG,
    FORCE,
    NUMBER,
    PLACE,
    TEXT_MAP,
    TEXTS,
    Json,
    answers,
    integer,
    map_of,
    object_of,
)
from magnetar.admin.route.namespaces import partitioned_names
from magnetar.broker.auth.access import LOOK, MANAGE
from magnetar.broker.schema.schema import schema_topic
from magnetar.broker.topic.topic import BEGINNING, Topic
from magnetar.model import Position, TopicName
from magnetar.storage.ledger.retention import Retention

__all__ = ["LIST", "ROUTES", "id_json"]

LIST: Final = "/admin/v2/{domain:persistent|non-persistent}/{tenant}/{namespace}"


# ---- Lists -----------------------------------------------------------------------------


async def list_topics(call: Call) -> Response:
    """Returns the topics of a namespace, partitions included."""
    call.broker.directory.require_namespace(call.namespace)
    persistent = call.path["domain"] == "persistent"
    return json_answer(
        call.broker.names(call.namespace, persistent=persistent, others=not persistent)
    )


async def list_partitioned(call: Call) -> Response:
    """Returns the partitioned topics of a namespace."""
    call.broker.directory.require_namespace(call.namespace)
    prefix = f"{call.path['domain']}://"
    names = partitioned_names(call.broker, call.namespace)
    return json_answer([name for name in names if name.startswith(prefix)])


# ---- Topics ----------------------------------------------------------------------------


async def create(call: Call) -> Response:
    """Creates a topic without partitions."""
    name = call.topic_name
    properties = text_map("properties", await call.json_object())
    call.broker.directory.require_namespace(name.namespace)
    _require_new(call, name)
    whole = name.partitioned
    count = call.admin.partitions(whole)
    if name.partition >= count > 0:
        raise Refusal(
            PRECONDITION, f"{whole} has {count} partitions: give it more, then there is {name}"
        )
    if not name.persistent:
        call.broker.topic(name, may_create=True)
        return no_content()
    call.broker.create_topic(name, properties)
    await durable(call.broker)
    return no_content()


def _require_new(call: Call, name: TopicName) -> None:
    if call.admin.partitions(name) or call.broker.exists(name):
        raise Refusal(CONFLICT, f"This topic already exists: {name}")


async def delete(call: Call) -> Response:
    """Deletes a topic; with `force` also one that is in use."""
    name = call.topic_name
    if call.admin.partitions(name):
        raise Refusal(CONFLICT, f"{name} is partitioned: delete it as a partitioned topic")
    if 0 <= name.partition < call.admin.partitions(name.partitioned):
        raise Refusal(
            CONFLICT, f"{name} is a partition of {name.partitioned}: delete that as a whole"
        )
    _check_unused([call.topic()], force=call.flag("force"))
    await _delete(call, name)
    call.broker.directory.forget_permissions(name)
    return no_content()


async def _delete(call: Call, name: TopicName) -> None:
    delete_schema = call.flag("deleteSchema", default=True)
    await wait_for(call.broker.delete_topic(name, force=True, delete_schema=delete_schema))


def _check_unused(topics: list[Topic], *, force: bool) -> None:
    """Before anything is deleted: all partitions go, or none."""
    for topic in topics:
        if not force and (topic.subscriptions or topic.producers):
            raise Refusal(
                PRECONDITION,
                f"{topic.name} has {len(topic.producers)} producers and "
                f"{len(topic.subscriptions)} subscriptions: delete them first, or force it",
            )


async def unload(call: Call) -> Response:
    """Closes a topic, so that its clients connect anew."""
    for topic in await call.topics():
        await wait_for(call.broker.unload(topic.name))
    return no_content()


async def terminate(call: Call) -> Response:
    """Ends a topic: nothing can be published any more, and what is there stays."""
    return json_answer(await _terminate(stored(call.topic())))


async def terminate_partitions(call: Call) -> Response:
    """Ends all partitions of a topic."""
    if not call.admin.partitions(call.topic_name):
        raise Refusal(NOT_ALLOWED, f"{call.topic_name} is not partitioned: terminate it itself")
    topics = [stored(topic) for topic in await call.topics()]
    last = [await _terminate(topic) for topic in topics]
    return json_answer({str(number): id for number, id in enumerate(last)})


async def _terminate(topic: Topic) -> dict[str, int]:
    topic.terminate()
    # What was on its way is part of the topic yet.
    await durable(topic.broker)
    return id_json(topic.ledgers.last(), topic)


def id_json(position: Position, topic: Topic) -> dict[str, int]:
    """A message's id as Pulsar's JSON has it."""
    return {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": topic.name.partition,
    }


async def truncate(call: Call) -> Response:
    """Deletes all messages, even those that retention would keep."""
    for topic in [stored(topic) for topic in await call.topics()]:
        await durable(call.broker)  # a topic that is new is known to the store after that
        for subscription in list(topic.subscriptions.values()):
            await wait_for(subscription.clear())
        call.broker.store.seal_topic(topic.id)
        await durable(call.broker)
        topic.storage.trim(Retention())
        await durable(call.broker)
    return no_content()


async def trim(call: Call) -> Response:
    """Deletes the ledgers that nobody needs any more."""
    for topic in [stored(topic) for topic in await call.topics()]:
        topic.storage.trim()
    await durable(call.broker)
    return no_content()


async def get_properties(call: Call) -> Response:
    """Returns the properties of a topic."""
    name = call.topic_name
    if call.admin.partitions(name):
        return json_answer(call.broker.directory.partitioned_properties.get(str(name), {}))
    return json_answer(call.broker.directory.note(str(call.topic().name)).properties)


# ---- Partitions ------------------------------------------------------------------------


async def get_partitions(call: Call) -> Response:
    """Returns the number of partitions; 0 for a topic that is not partitioned."""
    name = call.topic_name
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
    _require_new(call, name)
    await wait_for(call.broker.create_partitioned(name, count, properties))
    await durable(call.broker)
    return no_content()


async def update_partitions(call: Call) -> Response:
    """Adds partitions; they get the subscriptions of the topic too."""
    name = call.topic_name
    count, _ = await _wanted(call)
    before = call.admin.require_partitions(name)
    if count <= before:
        raise Refusal(
            CONFLICT, f"{name} has {before} partitions, and {count} is not more: it only grows"
        )
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
    return no_content()


async def _wanted(call: Call) -> tuple[int, dict[str, str]]:
    """A bare number, or one with properties."""
    body = await call.json()
    properties: dict[str, str] = {}
    if isinstance(body, dict):
        properties = text_map("properties", body.get("properties"))
        body = body.get("partitions")
    return whole_number("partitions", body, -INT32_MAX, INT32_MAX), properties


async def delete_partitioned(call: Call) -> Response:
    """Deletes a topic with all its partitions."""
    name, broker = call.topic_name, call.broker
    count = call.admin.require_partitions(name)
    _check_unused(await call.topics(), force=call.flag("force"))
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


DELETE: Final[dict[str, Json]] = {**FORCE, "deleteSchema": FLAG}
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
    Route("GET", LIST, list_topics, on_namespace(LOOK), answer=answers(TEXTS)),
    Route(
        "GET", f"{LIST}/partitioned", list_partitioned, on_namespace(LOOK), answer=answers(TEXTS)
    ),
    Route("PUT", TOPIC, create, on_topic(MANAGE), body=TEXT_MAP, body_required=False),
    Route("DELETE", TOPIC, delete, on_topic(MANAGE), query=DELETE),
    Route("PUT", f"{TOPIC}/unload", unload, on_topic(MANAGE)),
    Route("POST", f"{TOPIC}/terminate", terminate, on_topic(MANAGE), answer=answers(PLACE)),
    Route(
        "POST",
        f"{TOPIC}/terminate/partitions",
        terminate_partitions,
        on_topic(MANAGE),
        answer=answers(map_of(PLACE)),
    ),
    Route("DELETE", f"{TOPIC}/truncate", truncate, on_topic(MANAGE)),
    Route("POST", f"{TOPIC}/trim", trim, on_topic(MANAGE)),
    Route("GET", f"{TOPIC}/properties", get_properties, on_topic(LOOK), answer=answers(TEXT_MAP)),
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
]
