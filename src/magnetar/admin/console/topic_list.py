"""All topics, or all subscriptions, in an order that is asked for, a page at a time.

There may be ten thousand, and several people look every few seconds. So the figures are
gathered once for all of them, in slices, and kept for as long as they are worth: a second, and
one more for each thousand rows, five at most. Topics that nobody has used since the start are
loaded for it, since a backlog that nobody reads is what an operator looks for.

Whoever asks sees the topics that they may look at.
"""

import asyncio
import time
from collections.abc import Callable
from heapq import merge
from typing import Final

from magnetar.admin.backlog.topic_stats import oldest_ms
from magnetar.admin.console.session import CONSOLE
from magnetar.admin.http.answer import json_answer
from magnetar.admin.http.breather import Breather
from magnetar.admin.http.bridge import prepare
from magnetar.admin.http.call import Admin, Call, whole_number
from magnetar.admin.http.required_permission import ANYONE
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    AMOUNT,
    FLAG,
    NUMBER,
    TEXT,
    WHOLE,
    Json,
    answers,
    each,
    integer,
    list_of,
    one_of,
    record,
)
from magnetar.broker.auth.access import LOOK
from magnetar.broker.auth.roles import Principal
from magnetar.broker.broker import Broker
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import Topic
from magnetar.errors import BrokerError
from magnetar.model import TopicName

__all__ = ["ROUTES", "Listing", "TopicLists"]

PAGE_MAX: Final = 500
ROWS_A_SECOND: Final = 1000
AGE_SECONDS_MAX: Final = 5.0
# So many rows are sorted in one event: some two milliseconds.
SORTED_AT_ONCE: Final = 2000

Row = dict[str, str | float | bool]

# What rows can be ordered by; those that a row lacks count as nothing.
ORDERS: Final = (
    "topic",
    "subscription",
    "backlog",
    "age",
    "rateIn",
    "rateOut",
    "storage",
    "consumers",
    "unacked",
    "delayed",
)
TEXTS: Final = ("topic", "subscription")


class Listing:
    """Rows of all topics and of all subscriptions, as they were at one time."""

    def __init__(self) -> None:
        self.topics: list[Row] = []
        self.subscriptions: list[Row] = []
        # Orders that somebody asked for.
        self._sorted: dict[tuple[bool, str], list[Row]] = {}

    @property
    def young_seconds(self) -> float:
        """How long it is as good as a new one."""
        rows = len(self.topics) + len(self.subscriptions)
        return min(1.0 + rows / ROWS_A_SECOND, AGE_SECONDS_MAX)

    async def in_order(self, *, subscriptions: bool, order: str) -> list[Row]:
        """The rows by one of their figures, the least first."""
        found = self._sorted.get((subscriptions, order))
        if found is None:
            rows = self.subscriptions if subscriptions else self.topics
            missing: str | float = "" if order in TEXTS else 0
            found = await in_order(rows, lambda row: row.get(order, missing))
            self._sorted[subscriptions, order] = found
        return found


async def in_order(rows: list[Row], figure: Callable[[Row], str | float]) -> list[Row]:
    """The rows by a figure; many are sorted a part at a time, and the parts are merged."""
    breather = Breather()
    parts: list[list[Row]] = []
    for first in range(0, len(rows), SORTED_AT_ONCE):
        parts.append(sorted(rows[first : first + SORTED_AT_ONCE], key=figure))
        await breather.rest()
    if len(parts) == 1:
        return parts[0]
    found: list[Row] = []
    for row in merge(*parts, key=figure):
        found.append(row)
        await breather.rest()
    return found


class TopicLists:
    """One listing for all who ask at about the same time; `clock` gives seconds."""

    def __init__(self, broker: Callable[[], Broker], clock: Callable[[], float]) -> None:
        self._broker = broker
        self._clock = clock
        self._last: Listing | None = None
        self._made_at = 0.0
        self._making: asyncio.Task[Listing] | None = None

    async def get(self) -> Listing:
        last = self._last
        if last is not None and self._clock() - self._made_at < last.young_seconds:
            return last
        if self._making is None:
            self._making = asyncio.create_task(self._renew())
        # Who asked first may go, and others wait for the same.
        return await asyncio.shield(self._making)

    def forget(self) -> None:
        """Something was made or deleted: the next who asks sees it."""
        self._last = None

    async def _renew(self) -> Listing:
        try:
            made = await make_listing(self._broker())
        finally:
            self._making = None
        self._last, self._made_at = made, self._clock()
        return made


async def make_listing(broker: Broker) -> Listing:
    """The figures of all topics, loaded or not, in many turns."""
    listing = Listing()
    breather = Breather()
    now_ms = broker.host.now_ms()
    names = [*broker.topic_ids, *[name for name in broker.topics if name not in broker.topic_ids]]
    for name in names:
        await breather.rest()
        try:
            parsed = TopicName.parse(name)
            await prepare(broker, parsed)
            topic = broker.find(parsed)
        except BrokerError:
            continue  # it was deleted, or is being unloaded
        await _put(listing, topic, now_ms, breather)
    return listing


async def _put(listing: Listing, topic: Topic, now_ms: int, breather: Breather) -> None:
    name = str(topic.name)
    whole: Row = {
        "topic": name,
        "rateIn": topic.incoming.message_rate,
        "rateOut": 0.0,
        "storage": topic.storage.size_bytes(),
        "producers": len(topic.producers),
        "subscriptions": len(topic.subscriptions),
        "terminated": topic.terminated,
        **dict.fromkeys(("consumers", "backlog", "age", "unacked", "delayed"), 0),
    }
    for subscription in list(topic.subscriptions.values()):
        await breather.rest()
        row = _subscription_row(name, subscription, now_ms)
        listing.subscriptions.append(row)
        for figure in ("rateOut", "consumers", "unacked", "delayed"):
            whole[figure] = float(whole[figure]) + float(row[figure])
        for figure in ("backlog", "age"):
            whole[figure] = max(float(whole[figure]), float(row[figure]))
    for figure in ("consumers", "unacked", "delayed", "backlog", "age"):
        whole[figure] = int(float(whole[figure]))
    listing.topics.append(whole)


def _subscription_row(name: str, subscription: Subscription, now_ms: int) -> Row:
    cursor, dispatcher = subscription.cursor, subscription.dispatcher
    oldest = oldest_ms(subscription)
    return {
        "topic": name,
        "subscription": subscription.name,
        "type": subscription.type_name,
        "rateOut": sum([c.out.message_rate for c in subscription.consumers]),
        "consumers": len(subscription.consumers),
        "backlog": cursor.unacked_entries(),
        "age": 0 if oldest < 0 else max(now_ms - oldest, 0),
        "unacked": 0 if dispatcher is None else dispatcher.unacked_count(),
        "delayed": 0 if dispatcher is None else dispatcher.delayed_count(),
        "ranges": cursor.acked_run_count(),
        "partial": cursor.partial_entries(),
        "damaged": subscription.damage.position is not None,
    }


# ---- Pages -----------------------------------------------------------------------------


async def get_topics(call: Call) -> Response:
    """Returns a page of the topics, or of the subscriptions, that who asks may look at."""
    of_subscriptions = call.query("of") == "subscriptions"
    order = call.query("order") or "backlog"
    offset = call.query_number("offset", 0)
    limit = whole_number("limit", call.query("limit") or 50, 1, PAGE_MAX)
    descending = call.flag("descending", default=True)
    words = (call.query("filter") or "").casefold().split()
    listing = await topic_lists(call.admin).get()
    if order not in ORDERS:
        order = "backlog"
    rows = await listing.in_order(subscriptions=of_subscriptions, order=order)
    if words or not call.broker.access.is_superuser(call.principal):
        rows = await _chosen(call.broker, call.principal, rows, words)
    total = len(rows)
    page = [
        rows[total - 1 - number if descending else number]
        for number in range(offset, min(offset + limit, total))
    ]
    return json_answer({"total": total, "of": len(listing.topics), "rows": page})


async def _chosen(
    broker: Broker, principal: Principal | None, rows: list[Row], words: list[str]
) -> list[Row]:
    """The rows that have all of these words in their names, and that may be looked at."""
    breather = Breather()
    superuser = broker.access.is_superuser(principal)
    found: list[Row] = []
    for row in rows:
        await breather.rest()
        subscription = str(row.get("subscription", ""))
        text = f"{row['topic']} {subscription}".casefold()
        if all(word in text for word in words) and (
            superuser or broker.access.on_topic(principal, LOOK, TopicName.parse(str(row["topic"])))
        ):
            found.append(row)
    return found


def topic_lists(admin: Admin) -> TopicLists:
    """What all requests to a broker share."""
    if admin.topic_lists is None:
        admin.topic_lists = TopicLists(lambda: admin.broker, time.monotonic)
    return admin.topic_lists


TOPIC_ROW: Final[dict[str, Json]] = {
    **each(TEXT, "topic", "subscription", "type"),
    **each(AMOUNT, "rateIn", "rateOut"),
    **each(WHOLE, "storage", "producers", "subscriptions", "consumers", "backlog", "age"),
    **each(WHOLE, "unacked", "delayed", "ranges", "partial"),
    **each(FLAG, "terminated", "damaged"),
}
OPTIONAL: Final = ("subscription", "type", "rateIn", "storage", "producers", "subscriptions")
OPTIONAL_TOO: Final = ("ranges", "partial", "terminated", "damaged")
LIST: Final[Json] = record(
    total=NUMBER, of=NUMBER, rows=list_of(record((*OPTIONAL, *OPTIONAL_TOO), **TOPIC_ROW))
)

ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        f"{CONSOLE}/topics",
        get_topics,
        ANYONE,
        query={
            "of": one_of("topics", "subscriptions"),
            "order": one_of(*ORDERS),
            "descending": FLAG,
            "offset": NUMBER,
            "limit": integer(1, PAGE_MAX),
            "filter": TEXT,
        },
        answer=answers(LIST),
    ),
]
