"""Compaction of topics: begun, and how it stands. Of a partitioned topic, of every partition."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from magnetar.admin.http.answer import CONFLICT, NOT_ALLOWED, Refusal, json_answer, no_content
from magnetar.admin.http.bridge import wait_for
from magnetar.admin.http.call import TOPIC, Call, stored
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import TEXT, Json, answers, object_of, one_of
from magnetar.broker.auth.access import LOOK, MANAGE
from magnetar.broker.topic.compaction.topic_compaction import CompactionStatus, TopicCompaction
from magnetar.broker.topic.topic import Topic
from magnetar.errors import BrokerError

__all__ = ["COMPACTION", "ROUTES", "drop_views", "held_compactions"]

# The subscription that stands for a view in Apache Pulsar, and that goes with it.
COMPACTION: Final = "__compaction"


async def compact(call: Call) -> Response:
    """Begins to compact a topic; a compaction that runs already is a conflict."""
    compactions = [stored(topic).compaction for topic in await call.topics()]
    idle = [compaction for compaction in compactions if not compaction.busy]
    if not idle:
        raise Refusal(CONFLICT, f"Compaction already in progress: {call.topic_name}")
    for compaction in idle:
        compaction.trigger()
    return no_content()


async def status(call: Call) -> Response:
    """Returns how the last compaction of a topic stands, or ended."""
    compactions = [stored(topic).compaction for topic in await call.topics()]
    if not compactions:  # partitions of a topic that stores nothing, which nobody has used
        raise Refusal(NOT_ALLOWED, f"{call.topic_name} is not persistent: it stores nothing")
    found = min(compactions, key=_rank)
    return json_answer({"status": found.status.value, "lastError": found.error})


async def delete(call: Call) -> Response:
    """Deletes the compacted view of a topic; the topic itself stays as it is."""
    await drop_views([stored(topic) for topic in await call.topics()])
    return no_content()


async def drop_views(topics: list[Topic]) -> None:
    """Deletes the compacted views of topics. Raises Refusal."""
    with held_compactions(topics):
        for topic in topics:
            await wait_for(topic.compaction.drop_held())


@contextmanager
def held_compactions(topics: list[Topic]) -> Iterator[None]:
    """No compaction of these topics begins meanwhile. Raises Refusal if one runs."""
    held: list[Topic] = []
    try:
        for topic in topics:
            try:
                topic.compaction.hold()
            except BrokerError as error:
                raise Refusal(CONFLICT, error.reason) from None
            held.append(topic)
        yield
    finally:
        for topic in held:
            topic.compaction.let_go()


# Of several partitions, the one that counts for the whole.
RANKS: Final = (
    CompactionStatus.RUNNING,
    CompactionStatus.ERROR,
    CompactionStatus.NOT_RUN,
    CompactionStatus.SUCCESS,
)


def _rank(compaction: TopicCompaction) -> int:
    return RANKS.index(compaction.status)


STATUS: Final[Json] = object_of(
    ("status", "lastError"),
    status=one_of(*[status.value for status in CompactionStatus]),
    lastError=TEXT,
)

ROUTES: Final[list[Route]] = [
    Route("PUT", f"{TOPIC}/compaction", compact, on_topic(MANAGE)),
    Route("DELETE", f"{TOPIC}/compaction", delete, on_topic(MANAGE)),
    Route("GET", f"{TOPIC}/compaction", status, on_topic(LOOK), answer=answers(STATUS)),
]
