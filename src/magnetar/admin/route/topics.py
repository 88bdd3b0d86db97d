"""Topics: made, listed, unloaded, terminated, cut short, deleted.

What is asked of a partitioned topic as a whole is done to every partition; `partitions` has what
concerns their number.
"""

from typing import Final

from magnetar.admin.http.answer import (
    CONFLICT,
    NOT_ALLOWED,
    PRECONDITION,
    Refusal,
    json_answer,
    no_content,
)
from magnetar.admin.http.bridge import durable, wait_for
from magnetar.admin.http.call import (
    TOPIC,
    Call,
    stored,
    text_map,
)
from magnetar.admin.http.required_permission import on_namespace, on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    FLAG,
    FORCE,
    PLACE,
    TEXT_MAP,
    TEXTS,
    Json,
    answers,
    map_of,
)
from magnetar.admin.route.namespaces import namespace_policies, partitioned_names
from magnetar.admin.route.topic.compaction import held_compactions
from magnetar.broker.auth.access import LOOK, MANAGE
from magnetar.broker.topic.topic import Topic
from magnetar.model import Position, TopicName
from magnetar.storage.ledger.retention import Retention

__all__ = ["DELETE", "LIST", "ROUTES", "check_unused", "id_json", "require_new"]

LIST: Final = "/admin/v2/{domain:persistent|non-persistent}/{tenant}/{namespace}"


# ---- Lists -----------------------------------------------------------------------------


async def list_topics(call: Call) -> Response:
    """Returns the topics of a namespace, partitions included."""
    namespace_policies(call)
    persistent = call.path["domain"] == "persistent"
    return json_answer(
        call.broker.names(call.namespace, persistent=persistent, others=not persistent)
    )


async def list_partitioned(call: Call) -> Response:
    """Returns the partitioned topics of a namespace."""
    namespace_policies(call)
    prefix = f"{call.path['domain']}://"
    names = partitioned_names(call.broker, call.namespace)
    return json_answer([name for name in names if name.startswith(prefix)])


# ---- Topics ----------------------------------------------------------------------------


async def create(call: Call) -> Response:
    """Creates a topic without partitions."""
    name = call.topic_name
    properties = text_map("properties", await call.json_object())
    call.broker.directory.require_namespace(name.namespace)
    require_new(call, name)
    whole = name.partitioned
    count = call.admin.partitions(whole)
    if name.partition >= count > 0:
        raise Refusal(
            PRECONDITION, f"{whole} has {count} partitions: give it more, then there is {name}"
        )
    if name.partition >= 0 and not count:
        raise Refusal(
            PRECONDITION, f"{name} is called like a partition, and there is no topic {whole}"
        )
    if not name.persistent:
        call.broker.topic(name, may_create=True)
        return no_content()
    call.broker.create_topic(name, properties)
    await durable(call.broker)
    return no_content()


def require_new(call: Call, name: TopicName) -> None:
    if call.admin.partitions(name) or call.broker.exists(name):
        raise Refusal(CONFLICT, f"This topic already exists: {name}")


async def delete(call: Call) -> Response:
    """Deletes a topic; with `force` also one that is in use."""
    name = call.topic_name
    if call.admin.partitions(name):
        raise Refusal(CONFLICT, f"{name} is a partitioned topic: delete it with all its partitions")
    if 0 <= name.partition < call.admin.partitions(name.partitioned):
        raise Refusal(
            CONFLICT, f"{name} is a partition of {name.partitioned}: delete that as a whole"
        )
    check_unused([call.topic()], force=call.flag("force"))
    await _delete(call, name)
    call.broker.directory.forget_permissions(name)
    return no_content()


async def _delete(call: Call, name: TopicName) -> None:
    delete_schema = call.flag("deleteSchema", default=True)
    await wait_for(call.broker.delete_topic(name, force=True, delete_schema=delete_schema))


def check_unused(topics: list[Topic], *, force: bool) -> None:
    """Before anything is deleted: all partitions go, or none.

    Subscriptions that nobody is connected to go with their topic, as Apache Pulsar has it.
    """
    for topic in topics:
        consumers = topic.consumer_count()
        busy = any(subscription.busy for subscription in topic.subscriptions.values())
        if not force and (topic.producers or busy):
            raise Refusal(
                PRECONDITION,
                f"Topic has {len(topic.producers) + consumers} clients connected: {topic.name} has "
                f"{len(topic.producers)} producers and {consumers} consumers; close them first, or "
                "force it",
            )


async def unload(call: Call) -> Response:
    """Closes a topic, so that its clients connect anew."""
    for topic in await call.topics():
        await wait_for(call.broker.unload(topic.name))
    return no_content()


async def terminate(call: Call) -> Response:
    """Ends a topic: nothing can be published any more, and what is there stays."""
    if call.admin.partitions(call.topic_name):
        raise Refusal(NOT_ALLOWED, "Termination of a partitioned topic is not allowed")
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


def id_json(position: Position, topic: Topic, batch: int = 0) -> dict[str, int]:
    """Returns a message's id as Pulsar's JSON has it: the last one of a batch of so many."""
    return {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": topic.name.partition,
        "batchIndex": batch - 1,
        "batchSize": batch,
    }


async def truncate(call: Call) -> Response:
    """Deletes all messages, even those that retention would keep."""
    topics = [stored(topic) for topic in await call.topics()]
    with held_compactions(topics):
        for topic in topics:
            await wait_for(topic.compaction.drop_held())
            await durable(call.broker)  # a topic that is new is known to the store after that
            for subscription in list(topic.subscriptions.values()):
                await wait_for(subscription.clear())
            call.broker.store.seal_topic(topic.id)
            await durable(call.broker)
            topic.storage.trim(Retention(), uncompacted=True)
            await durable(call.broker)
    return no_content()


async def trim(call: Call) -> Response:
    """Deletes the ledgers that nobody needs any more."""
    for topic in [stored(topic) for topic in await call.topics()]:
        topic.storage.trim()
    await durable(call.broker)
    return no_content()


DELETE: Final[dict[str, Json]] = {**FORCE, "deleteSchema": FLAG}

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
]
