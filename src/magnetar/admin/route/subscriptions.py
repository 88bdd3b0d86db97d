"""Subscriptions: made and deleted, and their cursors moved.

A position in a body is `"earliest"`, `"latest"`, or an object with `ledgerId`, `entryId`
and perhaps `batchIndex`; `isExcluded` says that the message itself is not meant.
"""

from typing import Final, final

from magnetar.admin.http.answer import (
    BAD_REQUEST,
    CONFLICT,
    NOT_ALLOWED,
    PRECONDITION,
    Refusal,
    json_answer,
    no_content,
)
from magnetar.admin.http.bridge import durable, wait_for
from magnetar.admin.http.call import (
    INT32_MAX,
    INT64_MAX,
    SUBSCRIPTION,
    TOPIC,
    Call,
    stored,
    text_map,
    whole_number,
)
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import FORCE, POSITION, TEXT_MAP, TEXTS, answers
from magnetar.admin.route.topic.compaction import COMPACTION, drop_views
from magnetar.broker.auth.access import CONSUME, LOOK, MANAGE, SKIP
from magnetar.broker.topic.chunk.spanning import find_spanning
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import BEGINNING, Topic
from magnetar.errors import BatchIndexError, StorageError
from magnetar.model import Position

__all__ = ["ROUTES", "Place", "read_place"]

EARLIEST: Final = "earliest"
LATEST: Final = "latest"


@final
class Place:
    """Where a cursor is to be put."""

    def __init__(
        self,
        ledger_id: int,
        entry_id: int,
        *,
        batch_index: int = -1,
        partition: int = -1,
        excluded: bool = False,
        properties: dict[str, str] | None = None,
    ) -> None:
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.batch_index = batch_index
        self.partition = partition
        self.excluded = excluded
        self.properties = properties or {}

    @property
    def earliest(self) -> bool:
        return self.ledger_id < 0

    @property
    def latest(self) -> bool:
        return self.ledger_id == INT64_MAX

    def next_read(self, topic: Topic) -> Position:
        """Returns what a subscription that begins here reads first, batches aside."""
        if self.earliest:
            return BEGINNING
        if self.latest:
            last = topic.ledgers.last()
            return Position(last.ledger_id, last.entry_id + 1)
        whole = self.excluded and self.batch_index < 0
        return Position(self.ledger_id, self.entry_id + 1 if whole else self.entry_id)

    @property
    def next_index(self) -> int:
        """The first index of the entry that is meant; -1 for all of it."""
        if self.batch_index < 0 or self.earliest or self.latest:
            return -1
        return self.batch_index + 1 if self.excluded else self.batch_index


def read_place(body: object) -> Place:
    """Returns the position that a body names. Raises Refusal."""
    if body is None or body == LATEST:
        return Place(INT64_MAX, INT64_MAX)
    if body == EARLIEST:
        return Place(-1, -1)
    if not isinstance(body, dict):
        raise Refusal(
            BAD_REQUEST,
            "the body names no position: give earliest, latest, or ledgerId and entryId",
        )
    ledger_id = whole_number("ledgerId", body.get("ledgerId"), -1)
    entry_id = whole_number("entryId", body.get("entryId"), -1)
    excluded = body.get("isExcluded", body.get("excluded", False))
    if not isinstance(excluded, bool):
        raise Refusal(BAD_REQUEST, "isExcluded is true or false")
    return Place(
        ledger_id,
        min(entry_id, INT64_MAX - 1),  # there is always a next one
        batch_index=whole_number("batchIndex", body.get("batchIndex", -1), -1, INT32_MAX),
        partition=whole_number("partitionIndex", body.get("partitionIndex", -1), -1, INT32_MAX),
        excluded=excluded,
        properties=text_map("properties", body.get("properties")),
    )


# ---- Which there are -------------------------------------------------------------------


async def list_subscriptions(call: Call) -> Response:
    """Returns the names of a topic's subscriptions."""
    names = {name: None for topic in await call.topics() for name in topic.subscriptions}
    return json_answer(sorted(names))


async def create(call: Call) -> Response:
    """Creates a subscription, at the position that the body names, or at the end."""
    name = call.path["subscription"]
    place = read_place(await call.json())
    if not name.strip():
        raise Refusal(BAD_REQUEST, "the subscription has no name")
    topics = await _topics_to_subscribe(call)
    for topic in topics:
        if not topic.name.persistent:
            raise Refusal(
                NOT_ALLOWED, f"{topic.name} is not persistent: consumers make its subscriptions"
            )
        if name in topic.subscriptions and not call.admin.partitions(call.topic_name):
            raise Refusal(
                CONFLICT, f"Subscription already exists for topic: {name} of {topic.name}"
            )
    missing = [topic for topic in topics if name not in topic.subscriptions]
    if not missing:
        raise Refusal(
            CONFLICT, f"Subscription already exists for topic: {name} of {call.topic_name}"
        )
    for topic in missing:
        await _create(topic, name, place)
    return no_content()


async def _topics_to_subscribe(call: Call) -> list[Topic]:
    """Returns the topic, or its partitions; it is created where clients may create it, too."""
    name = call.topic_name
    if not call.admin.partitions(name) and name.persistent:
        if call.broker.partitions(name, may_create=True):
            return await call.topics()
        return [call.broker.topic(name, may_create=True)]
    return await call.topics()


async def _create(topic: Topic, name: str, place: Place) -> None:
    begin = place.next_read(topic)
    # Entries that are on their way come behind whatever is the last now.
    mark = topic.ledgers.last() if place.latest else topic.ledgers.previous(begin)
    subscription = topic.create_subscription(
        name, BEGINNING if place.earliest else mark, place.properties
    )
    await durable(topic.broker)
    if place.next_index > 0:
        await _reset(subscription, place)


async def delete(call: Call) -> Response:
    """Deletes a subscription; with `force` also one that has consumers."""
    if call.path["subscription"] == COMPACTION:
        topics = [stored(topic) for topic in await call.topics()]
        if not any(COMPACTION in topic.subscriptions for topic in topics):
            await drop_views(topics)
            return no_content()
    subscriptions = await call.subscriptions()
    for subscription in subscriptions:
        if subscription.busy and not call.flag("force"):
            raise Refusal(
                PRECONDITION,
                f"{subscription.title} has {len(subscription.consumers)} consumers: close them "
                "first, or force it",
            )
    for subscription in subscriptions:
        await wait_for(subscription.topic.unsubscribe(subscription))
    return no_content()


async def get_properties(call: Call) -> Response:
    """Returns the properties of a subscription."""
    found: dict[str, str] = {}
    for subscription in await call.subscriptions():
        found.update(subscription.properties)
    return json_answer(found)


async def set_properties(call: Call) -> Response:
    """Sets the properties of a subscription."""
    properties = text_map("properties", await call.json())
    for subscription in await call.subscriptions():
        before = subscription.properties
        subscription.properties = properties
        if subscription.durable:
            try:
                await durable(call.broker, subscription.save_properties())
            except StorageError:
                subscription.properties = before
                raise
    return no_content()


# ---- Moving cursors --------------------------------------------------------------------


def _movable(subscriptions: list[Subscription], busy: int) -> list[Subscription]:
    """Returns those whose cursors may be moved now, which is all of them. Raises Refusal."""
    for subscription in subscriptions:
        stored(subscription.topic)
        if subscription.fenced and not subscription.closed:
            raise Refusal(busy, f"{subscription.title} is being reset: try again after that")
    return subscriptions


async def skip(call: Call) -> Response:
    """Skips the next entries of a subscription, as many as the path says."""
    count = call.number("count")
    (subscription,) = _movable([call.subscription()], CONFLICT)
    await wait_for(subscription.skip(count))
    return no_content()


async def skip_damaged(call: Call) -> Response:
    """Skips the damaged entry that the subscription is stuck at."""
    (subscription,) = _movable([call.subscription()], CONFLICT)
    if subscription.damage.position is None:
        raise Refusal(PRECONDITION, f"{subscription.title} is not stuck at a damaged entry")
    await wait_for(subscription.damage.skip())
    return no_content()


async def skip_all(call: Call) -> Response:
    """Skips everything that a subscription has not acknowledged."""
    for subscription in _movable(await call.subscriptions(), CONFLICT):
        await wait_for(subscription.clear())
    return no_content()


async def reset_to_time(call: Call) -> Response:
    """Moves a subscription to what was published at a time, in milliseconds since 1970."""
    time_ms = call.number("time")
    for subscription in _movable(await call.subscriptions(), PRECONDITION):
        await wait_for(
            subscription.reset(
                subscription.topic.storage.position_at(time_ms), find_spanning=find_spanning
            )
        )
    return no_content()


async def reset_to_id(call: Call) -> Response:
    """Moves a subscription to a message id."""
    place = read_place(await call.json())
    (subscription,) = _movable([call.subscription()], PRECONDITION)
    await _reset(subscription, place)
    return no_content()


async def _reset(subscription: Subscription, place: Place) -> None:
    """Inside a batch if that is known; else to the whole entry, as Pulsar does."""
    position = place.next_read(subscription.topic)
    try:
        await wait_for(
            subscription.reset(position, batch_index=place.next_index, find_spanning=find_spanning)
        )
    except BatchIndexError as error:
        raise Refusal(PRECONDITION, str(error)) from error


async def expire_by_time(call: Call) -> Response:
    """Expires messages older than a time, on one subscription or on all."""
    seconds = call.number("seconds")
    done: list[Subscription] = []
    for subscription in _movable(await _to_expire(call), CONFLICT):
        if not subscription.cursor.unacked_entries():
            done.append(subscription)
            continue
        topic = subscription.topic
        boundary = topic.storage.position_at(call.broker.host.now_ms() - seconds * 1000)
        await wait_for(subscription.expire_before(boundary))
    if done:
        raise Refusal(
            CONFLICT,
            f"Expire message by timestamp not issued on topic {done[0].topic.name} for "
            f"subscription {done[0].name}: all is acked there. Others of this request were seen to",
        )
    return no_content()


async def _to_expire(call: Call) -> list[Subscription]:
    if "subscription" in call.path:
        return await call.subscriptions()
    return [one for topic in await call.topics() for one in topic.subscriptions.values()]


async def expire_by_id(call: Call) -> Response:
    """Acknowledges everything up to a message id."""
    place = read_place(await call.json())
    (subscription,) = _movable([call.subscription()], CONFLICT)
    ledgers = subscription.topic.ledgers
    position = Position(place.ledger_id, place.entry_id)
    if place.excluded:
        position = ledgers.previous(position)
    if not place.earliest:
        await wait_for(subscription.expire(min(position, ledgers.last())))
    return no_content()


ROUTES: Final[list[Route]] = [
    Route(
        "GET", f"{TOPIC}/subscriptions", list_subscriptions, on_topic(LOOK), answer=answers(TEXTS)
    ),
    Route("PUT", SUBSCRIPTION, create, on_topic(CONSUME), body=POSITION, body_required=False),
    Route("DELETE", SUBSCRIPTION, delete, on_topic(CONSUME), query=FORCE),
    Route(
        "GET",
        f"{SUBSCRIPTION}/properties",
        get_properties,
        on_topic(LOOK),
        answer=answers(TEXT_MAP),
    ),
    Route("PUT", f"{SUBSCRIPTION}/properties", set_properties, on_topic(CONSUME), body=TEXT_MAP),
    Route("POST", f"{SUBSCRIPTION}/skip/{{count}}", skip, on_topic(SKIP)),
    Route("POST", f"{SUBSCRIPTION}/skip_all", skip_all, on_topic(SKIP)),
    Route("POST", f"{SUBSCRIPTION}/skipDamaged", skip_damaged, on_topic(SKIP)),
    Route("POST", f"{SUBSCRIPTION}/resetcursor/{{time}}", reset_to_time, on_topic(CONSUME)),
    Route("POST", f"{SUBSCRIPTION}/resetcursor", reset_to_id, on_topic(CONSUME), body=POSITION),
    Route("POST", f"{SUBSCRIPTION}/expireMessages/{{seconds}}", expire_by_time, on_topic(CONSUME)),
    Route("POST", f"{SUBSCRIPTION}/expireMessages", expire_by_id, on_topic(CONSUME), body=POSITION),
    Route(
        "POST",
        f"{TOPIC}/all_subscription/expireMessages/{{seconds}}",
        expire_by_time,
        on_topic(MANAGE),
    ),
]
