"""Backlogs, counted: what a subscription has before it, and what a topic stores for all.

Nothing is read for this: the indexes have the sizes of batches, and the cursor what is acked.
"""

from typing import Final

from magnetar.ack import Cursor
from magnetar.admin.backlog.stats_shape import ANALYSIS, OFFLINE_BACKLOG
from magnetar.admin.backlog.unacked_runs import unacked_runs
from magnetar.admin.http.answer import PRECONDITION, Refusal, json_answer
from magnetar.admin.http.call import SUBSCRIPTION, TOPIC, Call, ledgers_of, stored
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import NUMBER, POSITION, REFUSAL, answers
from magnetar.admin.route.subscriptions import read_place
from magnetar.broker.auth.access import CONSUME, LOOK
from magnetar.broker.topic.topic import Topic
from magnetar.model import Position

__all__ = ["ROUTES"]


async def analyze(call: Call) -> Response:
    """Counts the backlog of a subscription, from a position on if the body names one."""
    body = await call.json()
    place = None if body is None else read_place(body)
    subscription = call.subscription()
    topic = stored(subscription.topic)
    cursor = subscription.cursor
    start = cursor.mark_delete if place is None else place.next_read(topic)
    entries, messages, first, last = _count(topic, cursor, start)
    return json_answer(
        {
            "entries": entries,
            "messages": messages,
            "markerMessages": 0,
            # There are no filters, so all is accepted.
            "filterAcceptedEntries": entries,
            "filterRejectedEntries": 0,
            "filterRescheduledEntries": 0,
            "filterAcceptedMessages": messages,
            "filterRejectedMessages": 0,
            "filterRescheduledMessages": 0,
            "aborted": False,
            "firstMessageId": first,
            "lastMessageId": last,
        }
    )


def _count(
    topic: Topic, cursor: Cursor, start: Position
) -> tuple[int, int, str | None, str | None]:
    """Unacked entries and messages from a position on, and the first and last of them."""
    entries = 0
    messages = 0
    first: str | None = None
    last: str | None = None
    sizes = topic.ledgers.sizes
    for run in unacked_runs(cursor, start):
        entries += run.end - run.first
        messages += sizes.message_count(run.ledger_id, run.first, run.end)
        first = first or f"{run.ledger_id}:{run.first}"
        last = f"{run.ledger_id}:{run.end - 1}"
    for _, remaining, size in cursor.partly_acked(start):
        messages -= size - remaining.bit_count()
    return entries, messages, first, last


async def offline_backlog(call: Call) -> Response:
    """Estimates the backlog of a topic, as Pulsar does for topics that are not loaded."""
    topic = stored(call.topic())
    ledgers = ledgers_of(topic)
    return json_answer(
        {
            "storageSize": topic.storage.size_bytes(),
            "totalMessages": sum([max(topic.ledgers.entry_count(one.id), 0) for one in ledgers]),
            "messageBacklog": sum(
                [one.cursor.unacked_entries() for one in topic.subscriptions.values()]
            ),
            "brokerName": call.admin.broker_id,
            "topicName": str(topic.name),
            "dataLedgerDetails": [
                {"entries": one.entries, "timestamp": one.created_ms, "size": one.size_bytes}
                | {"ledgerId": one.id}
                for one in ledgers
            ],
            "cursorDetails": {
                name: {
                    "cursorBacklog": one.cursor.unacked_entries(),
                    "cursorLedgerId": one.cursor_id,
                }
                for name, one in topic.subscriptions.items()
            },
            "statGeneratedAt": call.broker.host.now_ms(),
        }
    )


async def find_by_index(call: Call) -> Response:
    """Always refuses: messages have no index here, as they may have in Apache Pulsar."""
    call.query_number("index", 0)
    raise Refusal(
        PRECONDITION,
        "GetMessageIDByIndex is not allowed when broker entry metadata is disabled, as it is here: "
        "ask by time, at messageid/{ms}",
    )


ROUTES: Final[list[Route]] = [
    Route(
        "POST",
        f"{SUBSCRIPTION}/analyzeBacklog",
        analyze,
        on_topic(LOOK),
        body=POSITION,
        body_required=False,
        answer=answers(ANALYSIS),
    ),
    Route(
        "GET", f"{TOPIC}/backlog", offline_backlog, on_topic(LOOK), answer=answers(OFFLINE_BACKLOG)
    ),
    Route(
        "GET",
        f"{TOPIC}/getMessageIdByIndex",
        find_by_index,
        on_topic(CONSUME),
        query={"index": NUMBER},
        answer=REFUSAL,
    ),
]
