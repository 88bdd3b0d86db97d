"""Stats over REST: of a topic, of a partitioned one, and what is below."""

from typing import Final

from magnetar.admin.backlog.messages import date_text
from magnetar.admin.backlog.stats_shape import (
    INTERNAL_INFO,
    INTERNAL_STATS,
    PARTITIONED_INTERNAL_STATS,
    PARTITIONED_STATS,
    TOPIC_STATS,
)
from magnetar.admin.backlog.topic_stats import (
    Figures,
    StatsOptions,
    internal_figures,
    listed_ledgers,
    topic_figures,
)
from magnetar.admin.http.answer import NOT_FOUND, Refusal, long_json_answer
from magnetar.admin.http.bridge import at_ease
from magnetar.admin.http.call import TOPIC, Call, stored
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import FLAG, Json, answers
from magnetar.broker.auth.access import LOOK
from magnetar.broker.topic.topic import Topic

__all__ = ["ROUTES"]

# Of several partitions the latest is what counts, not the sum.
LATEST_OF: Final = ("Timestamp", "TimeStamp", "AgeSeconds")
# What has no sum: the first partition's is shown.
NO_SUM: Final = (
    "producerId",
    "topicEpoch",
    "averageMsgSize",
    "backlogQuotaLimitSize",
    "backlogQuotaLimitTime",
    "lastOffloadLedgerId",
)
# Of times, the first; what is not above 0 is none.
EARLIEST_OF: Final = (
    "earliestMsgPublishTimeInBacklog",
    "earliestMsgPublishTimeInBacklogs",
    "topicCreationTimeStamp",
)


def _options(call: Call) -> StatsOptions:
    call.flag("getPreciseBacklog")  # it always is
    return StatsOptions(
        backlog_size=call.flag("subscriptionBacklogSize", default=True),
        earliest_time=call.flag("getEarliestTimeInBacklog"),
        publishers=not call.flag("excludePublishers"),
        consumers=not call.flag("excludeConsumers"),
    )


async def get_stats(call: Call) -> Response:
    """Returns the figures of a topic, its producers, subscriptions and consumers."""
    name = call.topic_name
    if call.admin.partitions(name):
        raise Refusal(
            NOT_FOUND, f"Topic {name} not found: it is partitioned, ask for its partitioned-stats"
        )
    return await long_json_answer(
        await topic_figures(call.topic(), _options(call), call.admin.broker_id)
    )


async def get_partitioned_stats(call: Call) -> Response:
    """Returns the figures of a partitioned topic in sum, and of each partition."""
    name = call.topic_name
    count = call.admin.require_partitions(name)
    options = _options(call)
    topics = await call.topics()
    per_partition = call.flag("perPartition", default=True)
    parts: Figures = {}
    whole: Figures = {}
    async for topic in at_ease(topics):
        part = await topic_figures(topic, options, call.admin.broker_id)
        if per_partition:
            parts[str(topic.name)] = part
        add_figures(whole, part)
    properties = call.broker.directory.partitioned_properties.get(str(name), {})
    whole["metadata"] = {"partitions": count, "deleted": False, "properties": properties}
    whole["partitions"] = parts
    return await long_json_answer(whole)


def add_figures(whole: Figures, part: Figures) -> None:
    """Adds figures of a partition to those of its topic: numbers are added, lists joined."""
    for field, value in part.items():
        whole[field] = _added(field, whole.get(field), value)


def _added(field: str, before: object, value: object) -> object:
    if isinstance(value, dict):
        whole = before if isinstance(before, dict) else {}
        add_figures(whole, value)
        return whole
    if isinstance(value, list):
        joined = before if isinstance(before, list) else []
        joined += value
        return joined
    if before is None:
        return value
    if isinstance(value, bool):
        return bool(before) or value
    if isinstance(value, int | float) and isinstance(before, int | float):
        if field in NO_SUM or before == value == -1:
            return before
        if field in EARLIEST_OF:
            return min(before, value) if min(before, value) > 0 else max(before, value)
        return max(before, value) if field.endswith(LATEST_OF) else before + value
    return before or value


async def get_internal_stats(call: Call) -> Response:
    """Returns the ledgers of a topic, and the positions of its cursors."""
    call.admin.require_whole(call.topic_name)
    return await long_json_answer(await internal_figures(stored(call.topic())))


async def get_partitioned_internal_stats(call: Call) -> Response:
    """Returns the ledgers and cursors of each partition of a topic."""
    count = call.admin.require_partitions(call.topic_name)
    found: dict[str, object] = {}
    async for topic in at_ease(await call.topics()):
        if topic.name.persistent:
            found[str(topic.name)] = await internal_figures(topic)
    return await long_json_answer(
        {"metadata": {"partitions": count, "deleted": False}, "partitions": found}
    )


async def get_internal_info(call: Call) -> Response:
    """Returns ledgers and cursors as Pulsar's metadata store would have them."""
    name = call.topic_name
    if not call.admin.partitions(name) or not name.persistent:
        return await long_json_answer(await _info(stored(call.topic())))
    parts: dict[str, object] = {}
    async for topic in at_ease(await call.topics()):
        parts[str(topic.name)] = await _info(topic)
    return await long_json_answer({"version": 0, "partitions": parts})


async def _info(topic: Topic) -> Figures:
    cursors: dict[str, object] = {}
    async for subscription in at_ease(list(topic.subscriptions.values())):
        cursors[subscription.name] = {
            "version": 0,
            "creationDate": date_text(subscription.created_ms),
            "modificationDate": date_text(subscription.last_active_ms),
            "cursorsLedgerId": subscription.cursor_id,
            "markDelete": {
                "ledgerId": subscription.cursor.mark_delete.ledger_id,
                "entryId": subscription.cursor.mark_delete.entry_id,
            },
        }
    return {
        "version": 0,
        "creationDate": date_text(topic.created_ms),
        "modificationDate": date_text(topic.created_ms),
        "ledgers": [
            {"ledgerId": one.id, "entries": one.entries, "size": one.size_bytes}
            | {"timestamp": one.sealed_ms, "isOffloaded": False}
            for one in listed_ledgers(topic)
        ],
        "cursors": cursors,
    }


STATS: Final[dict[str, Json]] = {
    "getPreciseBacklog": FLAG,
    "subscriptionBacklogSize": FLAG,
    "getEarliestTimeInBacklog": FLAG,
    "excludePublishers": FLAG,
    "excludeConsumers": FLAG,
}

ROUTES: Final[list[Route]] = [
    Route(
        "GET", f"{TOPIC}/stats", get_stats, on_topic(LOOK), query=STATS, answer=answers(TOPIC_STATS)
    ),
    Route(
        "GET",
        f"{TOPIC}/partitioned-stats",
        get_partitioned_stats,
        on_topic(LOOK),
        query={**STATS, "perPartition": FLAG},
        answer=answers(PARTITIONED_STATS),
    ),
    Route(
        "GET",
        f"{TOPIC}/internalStats",
        get_internal_stats,
        on_topic(LOOK),
        answer=answers(INTERNAL_STATS),
    ),
    Route(
        "GET",
        f"{TOPIC}/partitioned-internalStats",
        get_partitioned_internal_stats,
        on_topic(LOOK),
        answer=answers(PARTITIONED_INTERNAL_STATS),
    ),
    Route(
        "GET",
        f"{TOPIC}/internal-info",
        get_internal_info,
        on_topic(LOOK),
        answer=answers(INTERNAL_INFO),
    ),
]
