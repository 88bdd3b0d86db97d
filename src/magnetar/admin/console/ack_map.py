"""The ack state of a subscription as a picture: a window of the topic, cut into equal buckets.

A topic is a row of entries, and here they are counted from the oldest that is stored; `ledgers`
says where each ledger begins, so that a number leads to a position and back. A window begins
at a position and has so many entries; each bucket has as many of them as the next, the last
perhaps fewer. For each bucket:

    acked     entries that are acked, those up to mark-delete too
    partial   batches of which a part is acked
    held      entries that a consumer has and has not acked, on Shared and Key_Shared
    delayed   entries that wait for their time, as far as they were read

Where mark-delete stands (`markDelete`), and behind what nothing is acked (`lastTouched`), is told
as the number of the entry that follows: what is unacked between them are holes, and what comes
then is the rest of the backlog.

A window of no more entries than buckets has one for each entry, and then tells of batches, too:
how many messages each has, and which of them are left, as bits in hexadecimal (bit 0 is
index 0).

A million holes cost no more than one: the bitmaps count ranges by themselves. What is held
and delayed is looked at one by one, in slices.
"""

from bisect import bisect_right
from itertools import accumulate
from typing import Final

from magnetar.ack import Cursor
from magnetar.admin.http.answer import json_answer
from magnetar.admin.http.breather import Breather
from magnetar.admin.http.call import (
    SUBSCRIPTION,
    Call,
    ledgers_of,
    read_position,
    stored,
    whole_number,
)
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    NULL,
    NUMBER,
    TEXT,
    WHOLE,
    Json,
    answers,
    each,
    either,
    integer,
    list_of,
    record,
)
from magnetar.broker.auth.access import LOOK
from magnetar.broker.topic.dispatch.dispatcher import Dispatcher
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import Topic
from magnetar.model import Position

__all__ = ["POSITION_TEXT", "ROUTES"]

BUCKETS: Final = 2048
BUCKETS_MAX: Final = 8192
# Of what is left of batches; those beyond it say how many are left, and not which.
BITS_MAX: Final = 1 << 20
# More than so many held or delayed entries are looked for only in windows that are small.
WALK_MAX: Final = 200_000
SMALL_WINDOW: Final = 20_000

Batch = dict[str, object]


class Row:
    """A topic as a row of entries: the number of a position, and what lies between two numbers."""

    def __init__(self, topic: Topic) -> None:
        self.ids = [one.id for one in ledgers_of(topic)]
        counts = [max(int(topic.ledgers.entry_count(id)), 0) for id in self.ids]
        # Where each ledger begins; the last is where all of it ends.
        self.starts = [0, *accumulate(counts)]

    @property
    def end(self) -> int:
        return self.starts[-1]

    def number(self, position: Position) -> int:
        """The number of an entry, or that of the next if it is not there."""
        at = bisect_right(self.ids, position.ledger_id) - 1
        if at < 0:
            return 0
        if self.ids[at] < position.ledger_id:
            return self.starts[at + 1]
        return min(self.starts[at] + max(position.entry_id, 0), self.starts[at + 1])

    def parts(self, first: int, end: int) -> list[tuple[int, int, int]]:
        """The ledgers between two numbers: id, first entry, and the entry after the last."""
        found: list[tuple[int, int, int]] = []
        at = bisect_right(self.starts, first) - 1
        while at < len(self.ids) and self.starts[at] < end:
            start = self.starts[at]
            low, high = max(first, start), min(end, self.starts[at + 1])
            if low < high:
                found.append((self.ids[at], low - start, high - start))
            at += 1
        return found


async def get_ack_map(call: Call) -> Response:
    """Returns the ack state of a window of the topic, as counts in equal buckets."""
    subscription = call.subscription()
    topic = stored(subscription.topic)
    row = Row(topic)
    start = read_position("from", call.query("from"))
    first = 0 if start is None else min(row.number(start), row.end)
    count = call.query_number("entries", 0)
    end = row.end if count == 0 else min(first + count, row.end)
    buckets = whole_number("buckets", call.query("buckets") or BUCKETS, 1, BUCKETS_MAX)
    width = max(-(-(end - first) // buckets), 1)
    window = _Window(subscription, row, first, end, width)
    await window.count()
    cursor = subscription.cursor
    return json_answer(
        {
            "epoch": cursor.epoch,
            "markDeletePosition": str(cursor.mark_delete),
            "markDelete": _after(row, cursor.mark_delete),
            "lastTouched": _after(row, cursor.last_touched() or cursor.mark_delete),
            "lastPosition": str(topic.ledgers.last()),
            "msgBacklog": cursor.unacked_entries(),
            "ackedRanges": cursor.acked_run_count(),
            "partiallyAckedBatches": cursor.partial_entries(),
            "entries": row.end,
            "ledgers": [
                {"ledgerId": id, "first": begin}
                for id, begin in zip(row.ids, row.starts, strict=False)
            ],
            "first": first,
            "end": end,
            "width": width,
            "acked": window.acked,
            "partial": window.partial,
            "held": window.held,
            "delayed": window.delayed,
            "batches": await window.batches() if width == 1 else [],
        }
    )


def _after(row: Row, position: Position) -> int:
    """The number of the entry behind a position."""
    return row.number(Position(position.ledger_id, position.entry_id + 1))


class _Window:
    """The buckets of a window, being counted."""

    def __init__(
        self, subscription: Subscription, row: Row, first: int, end: int, width: int
    ) -> None:
        self._subscription = subscription
        self._cursor: Cursor = subscription.cursor
        self._topic = subscription.topic
        self._row = row
        self._first, self._end, self._width = first, end, width
        self._breather = Breather()
        self.acked: list[int] = []
        self.partial: list[int] = []
        # None where there are too many to look for.
        self.held: list[int] | None = None
        self.delayed: list[int] | None = None

    async def count(self) -> None:
        for low in range(self._first, self._end, self._width):
            acked = partial = 0
            high = min(low + self._width, self._end)
            for ledger_id, first, end in self._row.parts(low, high):
                found = self._cursor.acked_between(ledger_id, first, end)
                acked, partial = acked + found[0], partial + found[1]
            self.acked.append(acked)
            self.partial.append(partial)
            await self._breather.rest()
        dispatcher = self._subscription.dispatcher
        if dispatcher is None:
            self.held = self.delayed = [0] * len(self.acked)
        elif self._end - self._first <= SMALL_WINDOW:
            await self._look(dispatcher)
        else:
            await self._walk(dispatcher)

    async def _look(self, dispatcher: Dispatcher) -> None:
        """Asks of each entry of the window."""
        held, delayed = [0] * len(self.acked), [0] * len(self.acked)
        if len(dispatcher.owners) or len(dispatcher.delayed):
            number = self._first
            for ledger_id, first, end in self._row.parts(self._first, self._end):
                for entry_id in range(first, end):
                    key = self._topic.ledgers.key(ledger_id, entry_id)
                    bucket = (number - self._first) // self._width
                    held[bucket] += key in dispatcher.owners
                    delayed[bucket] += key in dispatcher.delayed
                    number += 1
                    await self._breather.rest()
        self.held, self.delayed = held, delayed

    async def _walk(self, dispatcher: Dispatcher) -> None:
        """Asks where each of them is."""
        if len(dispatcher.owners) <= WALK_MAX:
            self.held = [0] * len(self.acked)
            await self._put(self.held, list(dispatcher.owners))
        if len(dispatcher.delayed) <= WALK_MAX:
            self.delayed = [0] * len(self.acked)
            page = dispatcher.delayed.page_after(-1)
            while page is not None:
                await self._put(self.delayed, [key for key, _ in page[1]])
                page = dispatcher.delayed.page_after(page[0])

    async def _put(self, counts: list[int], keys: list[int]) -> None:
        ledgers = self._topic.ledgers
        for key in keys:
            number = self._row.number(ledgers.position(key))
            if self._first <= number < self._end:
                counts[(number - self._first) // self._width] += 1
            await self._breather.rest()

    async def batches(self) -> list[Batch]:
        """The batches of a window with a bucket for each entry; what is left of each."""
        found: list[Batch] = []
        sizes = self._topic.ledgers.sizes
        bits = 0
        number = self._first
        for ledger_id, first, end in self._row.parts(self._first, self._end):
            for entry_id in range(first, end):
                size = int(sizes.batch_size(ledger_id, entry_id))
                if size > 1:
                    position = Position(ledger_id, entry_id)
                    batch: Batch = {"entry": number, "size": size}
                    remaining = self._cursor.remaining(position)
                    if remaining:
                        batch["left"] = remaining.bit_count()
                        bits += size
                        if bits <= BITS_MAX:
                            batch["remaining"] = f"{remaining:x}"
                    found.append(batch)
                number += 1
                await self._breather.rest()
        return found


POSITION_TEXT: Final[Json] = {"type": "string", "pattern": "^[0-9]{1,18}:[0-9]{1,18}$"}
COUNTS: Final[Json] = list_of(NUMBER)
MAP: Final[Json] = record(
    **each(NUMBER, "epoch", "markDelete", "lastTouched", "msgBacklog", "ackedRanges"),
    **each(NUMBER, "partiallyAckedBatches", "entries", "first", "end", "width"),
    **each(TEXT, "markDeletePosition", "lastPosition"),
    **each(COUNTS, "acked", "partial"),
    **each(either(COUNTS, NULL), "held", "delayed"),
    ledgers=list_of(record(ledgerId=WHOLE, first=NUMBER)),
    batches=list_of(
        record(("left", "remaining"), **each(NUMBER, "entry", "size", "left"), remaining=TEXT)
    ),
)

ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        f"{SUBSCRIPTION}/ackMap",
        get_ack_map,
        on_topic(LOOK),
        query={
            "from": POSITION_TEXT,
            "entries": NUMBER,
            "buckets": integer(1, BUCKETS_MAX) | {"default": BUCKETS},
        },
        answer=answers(MAP),
    ),
]
