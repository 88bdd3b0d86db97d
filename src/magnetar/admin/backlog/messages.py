"""Single messages: peeked at, found by time or place, and named.

A peek answers the payload as the producer gave it, decompressed, with what else is known of
the entry in headers. A batch is answered as it is; who asked takes it apart.
"""

import asyncio
import base64
from datetime import UTC, datetime
from typing import Final

import msgspec

from magnetar.admin.backlog.unacked_runs import unacked_runs
from magnetar.admin.http.answer import (
    NOT_FOUND,
    PRECONDITION,
    UNPROCESSABLE,
    Refusal,
    json_answer,
)
from magnetar.admin.http.bridge import durable, read_entry
from magnetar.admin.http.call import SUBSCRIPTION, TOPIC, Call, ledgers_of, stored
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import NUMBER, OCTETS, PLACE, POSITION, Json, answers, one_of
from magnetar.admin.route.subscriptions import read_place
from magnetar.admin.route.topics import id_json
from magnetar.broker.auth.access import CONSUME, LOOK
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.topic.topic import BEGINNING, Topic
from magnetar.errors import RemoteProtocolError
from magnetar.model import CompressionType, Position
from magnetar.protocol import MessageMetadata, decompress, split_entry
from magnetar.storage.ledger.read_plan import StoredEntry

__all__ = ["ROUTES", "date_text"]

# A chunk has the size of the whole message in its metadata; a payload is what was sent.
COMPRESSIONS: Final = {int(kind): kind.name for kind in CompressionType}
# The last day that a date can have. Times are what producers say.
DATE_MAX_MS: Final = 253_402_300_799_000


def date_text(time_ms: int) -> str:
    """Returns a time as Pulsar's clients read it.

    >>> date_text(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    moment = datetime.fromtimestamp(min(max(time_ms, 0), DATE_MAX_MS) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def peek(call: Call) -> Response:
    """Returns the k-th entry of a backlog.

    As in Pulsar a subscription that is missing is created, at the beginning of the topic; it
    stays if there is nothing to show, and the answer says so.
    """
    count = call.number("position")
    topic = stored(call.topic())
    name = call.path["subscription"]
    subscription = topic.subscriptions.get(name)
    made = ""
    if subscription is None:
        if not topic.policies.auto_create_subscriptions:
            raise Refusal(
                PRECONDITION, f"{topic.name} has no subscription {name!r}: create it first"
            )
        subscription = topic.create_subscription(name, BEGINNING, {})
        await durable(call.broker)
        made = ", which was created by this,"
    position = _unacked(subscription, max(count, 1))
    if position is None:
        count = max(count, 1)
        raise Refusal(NOT_FOUND, f"{subscription.title}{made} has no {count} unacked entries")
    return await _entry_answer(call, topic, position)


def _unacked(subscription: Subscription, count: int) -> Position | None:
    """Returns the unacked entry with this number, from 1."""
    cursor = subscription.cursor
    for run in unacked_runs(cursor, cursor.mark_delete):
        if count <= run.end - run.first:
            return Position(run.ledger_id, run.first + count - 1)
        count -= run.end - run.first
    return None


async def get_entry(call: Call) -> Response:
    """Returns a stored entry by its ledger and number; nothing moves by it."""
    topic = stored(call.topic())
    position = Position(call.number("ledger"), call.number("entry"))
    # The store knows the entries of all topics.
    if position.entry_id >= topic.ledgers.entry_count(position.ledger_id):
        raise Refusal(
            NOT_FOUND, f"{topic.name} has no entry {position.ledger_id}:{position.entry_id}"
        )
    return await _entry_answer(call, topic, position)


async def examine(call: Call) -> Response:
    """Returns the n-th entry from the beginning or from the end."""
    topic = stored(call.topic())
    place = call.query("initialPosition") or "latest"
    number = max(call.query_number("messagePosition", 1), 1)
    if place not in ("earliest", "latest"):
        raise Refusal(PRECONDITION, f"initialPosition is {place!r}: give earliest or latest")
    counts = [(one.id, int(topic.ledgers.entry_count(one.id))) for one in ledgers_of(topic)]
    total = sum([max(count, 0) for _, count in counts])
    if not total:
        raise Refusal(PRECONDITION, f"{topic.name} has no messages")
    if number > total:
        raise Refusal(NOT_FOUND, f"{topic.name} has {total} entries, so no {number}")
    index = number - 1 if place == "earliest" else total - number
    for ledger_id, count in counts:
        if index < count:
            return await _entry_answer(call, topic, Position(ledger_id, index))
        index -= max(count, 0)
    raise AssertionError("the counts of ledgers do not add up")


async def find_by_time(call: Call) -> Response:
    """Finds the first message published at or after a time; the last if there is none."""
    topic = stored(call.topic())
    position = min(topic.storage.position_at(call.number("time")), topic.ledgers.last())
    return json_answer(id_json(position, topic))


async def last_message_id(call: Call) -> Response:
    """Returns the id of the last message of a topic."""
    call.admin.require_whole(call.topic_name)
    topic = stored(call.topic())
    last = topic.ledgers.last()
    batch = 0
    if last.entry_id >= 0:
        entry = await read_entry(call.broker, last)
        batch = 0 if entry is None else _metadata(entry).num_messages_in_batch or 0
    return json_answer(id_json(last, topic, batch))


async def backlog_size(call: Call) -> Response:
    """Returns the size of the backlog from a message on, in bytes."""
    place = read_place(await call.json())
    topic = stored(call.topic())
    if place.latest:
        return json_answer(0)
    before = BEGINNING if place.earliest else Position(place.ledger_id, place.entry_id - 1)
    return json_answer(topic.storage.backlog_bytes(before))


# ---- Entries ---------------------------------------------------------------------------


def _metadata(entry: StoredEntry) -> MessageMetadata:
    assert entry.data is not None
    return split_entry(entry.data).metadata()


async def _entry_answer(call: Call, topic: Topic, position: Position) -> Response:
    entry = await read_entry(call.broker, position)
    if entry is None:
        raise Refusal(
            NOT_FOUND, f"{topic.name} has no entry {position.ledger_id}:{position.entry_id}"
        )
    assert entry.data is not None
    parts = split_entry(entry.data)
    metadata = parts.metadata()
    body = parts.payload()
    if metadata.compression and not metadata.encryption_keys and metadata.chunk_id is None:
        try:
            body = await asyncio.to_thread(
                decompress,
                metadata.compression,
                body,
                metadata.uncompressed_size,
                call.broker.settings.message_size_max,
            )
        except RemoteProtocolError as error:
            raise Refusal(
                UNPROCESSABLE,
                f"entry {position} cannot be decompressed: {error}",
            ) from error
    headers = {
        f"X-Pulsar-{name}": value
        for name, value in _headers(position, metadata, len(parts.payload())).items()
    }
    return Response(body, headers=headers, media_type="application/octet-stream")


def _headers(position: Position, metadata: MessageMetadata, size: int) -> dict[str, str]:
    found = {
        "Message-ID": str(position),
        "publish-time": date_text(metadata.publish_time),
        "producer-name": _ascii(metadata.producer_name),
        "sequence-id": str(metadata.sequence_id),
        "Is-Encrypted": "true" if metadata.encryption_keys else "false",
        "compression": COMPRESSIONS.get(metadata.compression, str(metadata.compression)),
        "uncompressed-size": str(metadata.uncompressed_size),
    }
    if metadata.event_time > 0:
        found["event-time"] = date_text(metadata.event_time)
    if metadata.deliver_at_time is not None:
        found["deliver-at-time"] = date_text(metadata.deliver_at_time)
    if metadata.partition_key is not None:
        found["partition-key"] = _ascii(metadata.partition_key)
        found["partition-key-b64-encoded"] = _flag(metadata.partition_key_b64_encoded)
    if metadata.num_messages_in_batch is not None:
        found["num-batch-message"] = str(metadata.num_messages_in_batch)
        found["batch-size"] = str(size)
    if metadata.properties:
        found["PROPERTY"] = _ascii_json(dict(metadata.properties))
    if metadata.null_value:
        found["null-value"] = "true"
    if metadata.replicated_from is not None:
        found["replicated-from"] = _ascii(metadata.replicated_from)
    if metadata.ordering_key is not None:
        found["Base64-ordering-key"] = _base64(metadata.ordering_key)
    if metadata.schema_version is not None:
        found["Base64-schema-version"] = _base64(metadata.schema_version)
        # The name that the Java client looks for.
        found["Base64-schema-version-b64encoded"] = _base64(metadata.schema_version)
    return {**found, **_chunk_headers(metadata)}


def _chunk_headers(metadata: MessageMetadata) -> dict[str, str]:
    if metadata.uuid is None or metadata.num_chunks_from_msg is None:
        return {}
    return {
        "uuid": _ascii(metadata.uuid),
        "num-chunks-from-msg": str(metadata.num_chunks_from_msg),
        "chunk-id": str(metadata.chunk_id),
        "total-chunk-msg-size": str(metadata.total_chunk_msg_size),
        "PROPERTY-TOTAL-CHUNKS": str(metadata.num_chunks_from_msg),
        "PROPERTY-CHUNK-ID": str(metadata.chunk_id),
    }


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _ascii(text: str) -> str:
    """Returns a text that a header can carry; what it cannot is escaped, line ends above all."""
    if text.isascii() and text.isprintable():
        return text
    return text.encode("unicode_escape").decode()


def _ascii_json(value: dict[str, str]) -> str:
    text = msgspec.json.encode(value).decode()
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    units = text.encode("utf-16-be")
    pairs = [units[i : i + 2] for i in range(0, len(units), 2)]
    return "".join(
        chr(int.from_bytes(pair)) if int.from_bytes(pair) < 0x7F else f"\\u{pair.hex()}"
        for pair in pairs
    )


EXAMINE: Final[dict[str, Json]] = {
    "initialPosition": one_of("earliest", "latest"),
    "messagePosition": NUMBER,
}

ROUTES: Final[list[Route]] = [
    Route("GET", f"{SUBSCRIPTION}/position/{{position}}", peek, on_topic(CONSUME), answer=OCTETS),
    Route(
        "GET",
        f"{TOPIC}/ledger/{{ledger}}/entry/{{entry}}",
        get_entry,
        on_topic(CONSUME),
        answer=OCTETS,
    ),
    Route(
        "GET", f"{TOPIC}/examinemessage", examine, on_topic(CONSUME), query=EXAMINE, answer=OCTETS
    ),
    Route(
        "GET", f"{TOPIC}/messageid/{{time}}", find_by_time, on_topic(CONSUME), answer=answers(PLACE)
    ),
    Route("GET", f"{TOPIC}/lastMessageId", last_message_id, on_topic(LOOK), answer=answers(PLACE)),
    Route(
        "PUT",
        f"{TOPIC}/backlogSize",
        backlog_size,
        on_topic(LOOK),
        body=POSITION,
        body_required=False,
        answer=answers(NUMBER),
    ),
]
