"""The ack state of a subscription, which no stats field of Pulsar shows.

    mark-delete   it and everything before it is acked
    holes         above it: runs of unacked entries that have something acked behind them
    batches       partly acked ones: which indexes are left

What lies behind the last entry that anything was acked of (`lastAckedPosition`) is the rest
of the backlog, and is no hole. A state may have a million holes, so it comes in pages: `next`,
if there is one, is what to ask for as `from`. Pages that are put together have every hole and
batch once, as long as nothing was acked meanwhile; a hole that a page ends in goes on in the
next one.

With `redelivered=N` the N entries that consumers gave back most often come too, with how
often that was. It is counted for Shared and Key_Shared, in memory.
"""

from typing import Final

from magnetar.ack import Cursor
from magnetar.admin.backlog.topic_stats import count_messages
from magnetar.admin.backlog.unacked_runs import unacked_runs
from magnetar.admin.http.answer import json_answer
from magnetar.admin.http.call import SUBSCRIPTION, Call, read_position, stored, whole_number
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    NULL,
    NUMBER,
    TEXT,
    Json,
    answers,
    each,
    either,
    integer,
    list_of,
    record,
)
from magnetar.broker.auth.access import LOOK
from magnetar.broker.topic.subscription import Subscription
from magnetar.model import Position

__all__ = ["PAGE", "PAGE_MAX", "ROUTES", "holes_and_batches"]

PAGE: Final = 1000
PAGE_MAX: Final = 10_000
# A page ends with the batch that makes it longer than this, for batches may be large.
INDEXES_MAX: Final = 100_000

Hole = tuple[Position, Position]
Batch = tuple[Position, int, list[int]]


async def get_ack_state(call: Call) -> Response:
    """Returns what a subscription has acknowledged, in pages: holes, what is left of batches."""
    subscription = call.subscription()
    await count_messages(stored(subscription.topic))
    limit = whole_number("limit", call.query("limit") or PAGE, 1, PAGE_MAX)
    cursor = subscription.cursor
    start = read_position("from", call.query("from")) or cursor.mark_delete
    holes, batches, following = holes_and_batches(cursor, start, limit)
    most = whole_number("redelivered", call.query("redelivered") or 0, 0, PAGE_MAX)
    return json_answer(
        {
            "markDeletePosition": str(cursor.mark_delete),
            "lastPosition": str(subscription.topic.ledgers.last()),
            "lastAckedPosition": str(cursor.last_touched() or cursor.mark_delete),
            "epoch": cursor.epoch,
            "msgBacklog": cursor.unacked_entries(),
            "msgBacklogMessages": cursor.unacked_messages(),
            "ackedRanges": cursor.acked_run_count(),
            "partiallyAckedBatches": cursor.partial_entries(),
            "holes": [{"first": str(first), "last": str(last)} for first, last in holes],
            "batches": [
                {"position": str(position), "batchSize": size, "remaining": left}
                for position, size, left in batches
            ],
            "next": None if following is None else str(following),
            **({"redelivered": _redelivered(subscription, most)} if most else {}),
        }
    )


def _redelivered(subscription: Subscription, limit: int) -> list[dict[str, object]]:
    dispatcher = subscription.dispatcher
    if dispatcher is None:
        return []
    ledgers = subscription.topic.ledgers
    return [
        {"position": str(ledgers.position(key)), "count": count}
        for key, count in dispatcher.most_redelivered(limit)
    ]


def holes_and_batches(
    cursor: Cursor, start: Position, limit: int
) -> tuple[list[Hole], list[Batch], Position | None]:
    """Returns at most `limit` of each, from a position on, and where the next page begins."""
    end = cursor.last_touched()
    if end is None:
        return [], [], None
    holes, cut = _holes(cursor, start, end, limit)
    batches: list[Batch] = []
    indexes = 0
    for position, remaining, size in cursor.partly_acked(start):
        if cut is not None and position >= cut:
            break
        if len(batches) == limit or indexes > INDEXES_MAX:
            cut = position
            break
        left = [index for index in range(size) if remaining >> index & 1]
        indexes += len(left)
        batches.append((position, size, left))
    return _clipped(holes, cut), batches, cut


def _holes(
    cursor: Cursor, start: Position, end: Position, limit: int
) -> tuple[list[Hole], Position | None]:
    holes: list[Hole] = []
    for run in unacked_runs(cursor, start):
        first = Position(run.ledger_id, run.first)
        if first > end:
            break
        if len(holes) == limit:
            return holes, first
        holes.append((first, min(Position(run.ledger_id, run.end - 1), end)))
    return holes, None


def _clipped(holes: list[Hole], cut: Position | None) -> list[Hole]:
    """What of the holes comes before a position."""
    if cut is None:
        return holes
    before = [hole for hole in holes if hole[0] < cut]
    if before and before[-1][1] >= cut:
        before[-1] = (before[-1][0], Position(cut.ledger_id, cut.entry_id - 1))
    return before


QUERY: Final[dict[str, Json]] = {
    "limit": integer(1, PAGE_MAX) | {"default": PAGE},
    "redelivered": integer(0, PAGE_MAX) | {"default": 0},
    "from": {"type": "string", "pattern": "^[0-9]{1,18}:[0-9]{1,18}$"},
}
ACK_STATE: Final[Json] = record(
    ("redelivered",),
    **each(TEXT, "markDeletePosition", "lastPosition", "lastAckedPosition"),
    **each(NUMBER, "epoch", "msgBacklog", "msgBacklogMessages"),
    **each(NUMBER, "ackedRanges", "partiallyAckedBatches"),
    holes=list_of(record(first=TEXT, last=TEXT)),
    batches=list_of(record(position=TEXT, batchSize=NUMBER, remaining=list_of(NUMBER))),
    next=either(TEXT, NULL),
    redelivered=list_of(record(position=TEXT, count=NUMBER)),
)

ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        f"{SUBSCRIPTION}/ackState",
        get_ack_state,
        on_topic(LOOK),
        query=QUERY,
        answer=answers(ACK_STATE),
    ),
]
