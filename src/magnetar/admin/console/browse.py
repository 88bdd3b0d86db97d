"""Messages of a topic or of a backlog, a page at a time, all or those that are looked for.

A search reads as much as fits half a second or `BYTES_MAX`, and answers with what it found, how
many entries it looked at, and where to go on (`next`): so that a search through a million
entries is many short requests, and whoever has seen enough stops asking.

`from` is `ledger:entry`, or `ledger:entry:index` inside a batch. Of a message in chunks the first
chunk that is met stands for all; `.../message` has the payload of the whole.

With a subscription each message says what the subscription has to do with it:

    acked     it is done
    held      a consumer has it: `consumer` says which
    delayed   it waits for its time
    waiting   none of these

Without one too it is said of a message that its transaction was aborted: nobody ever gets it.

What was read in vain is no harm: nothing is acked, moved or created by looking.
"""

from typing import Final

from magnetar.ack import Cursor
from magnetar.admin.console.entry_messages import EntryMessages, read_messages
from magnetar.admin.console.message_filter import FILTERS, MessageFilter
from magnetar.admin.http.answer import BAD_REQUEST, Refusal, json_answer
from magnetar.admin.http.breather import Breather
from magnetar.admin.http.bridge import read_plan
from magnetar.admin.http.call import SUBSCRIPTION, TOPIC, Call, shown, stored, whole_number
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    FLAG,
    NULL,
    NUMBER,
    TEXT,
    TEXT_MAP,
    WHOLE,
    Json,
    answers,
    each,
    either,
    integer,
    list_of,
    one_of,
    record,
)
from magnetar.broker.auth.access import CONSUME
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import Topic
from magnetar.errors import CorruptionError
from magnetar.model import Position
from magnetar.storage.ledger.read_plan import StoredEntry

__all__ = ["ROUTES"]

PAGE: Final = 50
PAGE_MAX: Final = 500
# The beginning of a payload, as a list shows it.
PAYLOAD: Final = 1024
PAYLOAD_MAX: Final = 1 << 16
# One request searches for so long, and through so much.
SEARCH_SECONDS: Final = 0.5
BYTES_MAX: Final = 16 << 20
# What one plan reads.
PLAN_ENTRIES: Final = 200
PLAN_BYTES: Final = 1 << 20
# A batch is left in between only so often: each message of it is a step otherwise.
REST_EVERY: Final = 64


async def get_messages(call: Call) -> Response:
    """Returns messages of a topic from a place on, all or those that are looked for."""
    return await _answer(call, stored(call.topic()), None)


async def get_backlog(call: Call) -> Response:
    """Returns messages that a subscription has not acked, or all if `acked` says so, with what
    it has to do with each.
    """
    subscription = call.subscription()
    return await _answer(call, stored(subscription.topic), subscription)


async def _answer(call: Call, topic: Topic, subscription: Subscription | None) -> Response:
    search = _Search(call, topic, subscription)
    rows = await search.run()
    last = topic.ledgers.last()
    return json_answer(
        {
            "messages": rows,
            "searched": search.searched,
            "next": search.next,
            "lastPosition": str(last) if last.entry_id >= 0 else "",
        }
    )


class _Search:
    """One request; see the module."""

    def __init__(self, call: Call, topic: Topic, subscription: Subscription | None) -> None:
        self._call = call
        self._topic = topic
        self._subscription = subscription
        self._cursor: Cursor | None = None if subscription is None else subscription.cursor
        self._with_acked = subscription is None or call.flag("acked")
        self._filter = MessageFilter(call)
        self._limit = whole_number("limit", call.query("limit") or PAGE, 1, PAGE_MAX)
        self._payload = call.query_number("payload", PAYLOAD)
        if self._payload > PAYLOAD_MAX:
            raise Refusal(BAD_REQUEST, f"payload is at most {PAYLOAD_MAX}: ask for the message")
        self._start, self._index = self._first()
        self._breather = Breather()
        self._rows: list[dict[str, object]] = []
        self._chunks_seen: set[str] = set()
        self.searched = 0
        self.next: str | None = None

    def _first(self) -> tuple[Position, int]:
        """Where to begin, and at which index of that entry."""
        given = self._call.query("from")
        if given is not None:
            pieces = given.split(":")
            if len(pieces) not in (2, 3):
                raise Refusal(BAD_REQUEST, f"from is {shown(given)}: give ledger:entry[:index]")
            numbers = [whole_number("from", piece) for piece in pieces]
            return Position(numbers[0], numbers[1]), numbers[2] if len(numbers) == 3 else 0
        start = Position(0, 0)
        if self._filter.since:
            start = self._topic.storage.position_at(self._filter.since)
        if self._cursor is not None and not self._with_acked:
            mark = self._cursor.mark_delete
            start = max(start, Position(mark.ledger_id, mark.entry_id + 1))
        return start, 0

    async def run(self) -> list[dict[str, object]]:
        position: Position | None = self._start
        size = 0
        while position is not None:
            positions = self._following(position)
            if not positions:
                break
            for entry in await self._read(positions):
                at = Position(entry.ledger_id, entry.entry_id)
                if self.next is None and (size >= BYTES_MAX or self._is_late):
                    self.next = str(at)
                if self.next is not None:
                    return self._rows
                size += int(entry.length)
                self.searched += 1
                await self._take(entry, at)
            if self.next is not None:
                return self._rows
            last = positions[-1]
            position = self._topic.ledgers.next(last)
        return self._rows

    @property
    def _is_late(self) -> bool:
        return self.searched > 0 and self._breather.seconds >= SEARCH_SECONDS

    def _following(self, position: Position) -> list[Position]:
        """The next entries to look at, from one on."""
        found: list[Position] = []
        at: Position | None = position
        while at is not None and len(found) < PLAN_ENTRIES:
            run_end = 0
            if self._cursor is not None and not self._with_acked:
                run = self._cursor.next_run(at, PLAN_ENTRIES - len(found))
                if run is None:
                    break
                at, run_end = Position(run.ledger_id, run.first), int(run.end)
            else:
                at = self._topic.ledgers.at_or_after(at)
                if at is None:
                    break
                count = int(self._topic.ledgers.entry_count(at.ledger_id))
                run_end = min(count, int(at.entry_id) + PLAN_ENTRIES - len(found))
            found += [Position(at.ledger_id, one) for one in range(int(at.entry_id), run_end)]
            at = Position(at.ledger_id, run_end)
        return found

    async def _read(self, positions: list[Position]) -> list[StoredEntry]:
        """Their entries, as many as fit one read; damaged ones have no bytes."""
        store = self._topic.store
        plan = store.plan_entries(positions, PLAN_BYTES)
        if plan.entries:
            last = Position(plan.entries[-1].ledger_id, plan.entries[-1].entry_id)
            del positions[positions.index(last) + 1 :]
        try:
            await read_plan(self._call.broker, plan)
        except CorruptionError:
            # Which of them it is, shows when each is read by itself.
            return [await self._read_one(position) for position in positions]
        return plan.entries

    async def _read_one(self, position: Position) -> StoredEntry:
        plan = self._topic.store.plan_entries([position])
        try:
            await read_plan(self._call.broker, plan)
        except CorruptionError:
            plan.entries[0].data = None
        return plan.entries[0]

    async def _take(self, entry: StoredEntry, at: Position) -> None:
        """Puts what is looked for of an entry into the page."""
        if entry.data is None:
            found = EntryMessages(at, None)
            found.fault = "the entry is damaged on the disk"
        else:
            size_max = self._call.broker.settings.message_size_max
            found = await read_messages(at, entry.data, size_max)
        if not self._filter.takes_entry(found) or self._is_known_chunk(found):
            return
        remaining = None if self._cursor is None else self._cursor.remaining(at)
        void = self._topic.ledgers.is_void(at)
        for number, message in enumerate(found.messages()):
            if number % REST_EVERY == REST_EVERY - 1:
                await self._breather.rest()
            index = message.batch_index
            if (at == self._start and index < self._index and index >= 0) or (
                not self._with_acked and _is_acked(remaining, index)
            ):
                continue
            if not self._filter.takes(message):
                continue
            if len(self._rows) == self._limit:
                self.next = str(at) if index < 0 else f"{at}:{index}"
                return
            row = found.row(message, self._payload)
            if self._subscription is not None:
                row |= _state(self._subscription, at, _is_acked(remaining, index))
            if void:
                row["state"] = "aborted"
            self._rows.append(row)
        await self._breather.rest()

    def _is_known_chunk(self, entry: EntryMessages) -> bool:
        """Whether a chunk of the same message was met before."""
        if not entry.is_chunk or entry.metadata is None:
            return False
        uuid = entry.metadata.uuid or ""
        if uuid in self._chunks_seen:
            return True
        self._chunks_seen.add(uuid)
        return False


def _is_acked(remaining: int | None, index: int) -> bool:
    """Whether a message is acked, by what is left of its entry (see `Cursor.remaining`)."""
    if remaining is None:
        return False
    return not (remaining >> index & 1 if index >= 0 else remaining)


def _state(subscription: Subscription, at: Position, acked: bool) -> dict[str, object]:
    found: dict[str, object] = {"state": "acked" if acked else "waiting", "redeliveries": 0}
    dispatcher = subscription.dispatcher
    if acked or dispatcher is None:
        return found
    key = subscription.topic.ledgers.key(at.ledger_id, at.entry_id)
    owner = dispatcher.owners.get(key)
    if owner is not None:
        found["state"] = "held"
        found["consumer"] = owner.name
    elif key in dispatcher.delayed:
        found["state"] = "delayed"
    found["redeliveries"] = int(dispatcher.redeliveries.count(key))
    return found


CHUNK: Final[Json] = record(uuid=TEXT, **each(NUMBER, "number", "of", "size"))
MESSAGE: Final[Json] = record(
    ("state", "redeliveries", "consumer"),
    **each(NUMBER, "ledgerId", "entryId", "batchSize", "payloadSize", "redeliveries"),
    **each(WHOLE, "batchIndex", "publishTime", "eventTime", "deliverAt", "schemaVersion"),
    **each(TEXT, "producerName", "sequenceId", "payload", "compression", "fault", "consumer"),
    **each(either(TEXT, NULL), "key", "orderingKey"),
    **each(FLAG, "keyIsBase64", "nullValue", "encrypted"),
    properties=TEXT_MAP,
    chunk=either(CHUNK, NULL),
    state=one_of("acked", "held", "delayed", "waiting", "aborted"),
)
PAGE_OF: Final[Json] = record(
    messages=list_of(MESSAGE), searched=NUMBER, next=either(TEXT, NULL), lastPosition=TEXT
)
QUERY: Final[dict[str, Json]] = {
    "from": {"type": "string", "pattern": "^[0-9]{1,18}:[0-9]{1,18}(:[0-9]{1,9})?$"},
    "limit": integer(1, PAGE_MAX) | {"default": PAGE},
    "payload": integer(0, PAYLOAD_MAX) | {"default": PAYLOAD},
    **FILTERS,
}

ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        f"{TOPIC}/messages",
        get_messages,
        on_topic(CONSUME),
        query=QUERY,
        answer=answers(PAGE_OF),
    ),
    Route(
        "GET",
        f"{SUBSCRIPTION}/messages",
        get_backlog,
        on_topic(CONSUME),
        query={**QUERY, "acked": FLAG},
        answer=answers(PAGE_OF),
    ),
]
