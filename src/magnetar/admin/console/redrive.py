"""Dead letters go back to where they came from, one by one, as an operator names them.

| step    | what happens                                                                        |
|---------|-------------------------------------------------------------------------------------|
| find    | each id's message is read; one that is acked, or names no topic, stays where it is    |
| check   | who asks may produce to each topic                                                  |
| publish | a copy goes to its topic: value, key and properties, without those of dead letters   |
| skip    | what is durable there is skipped here, all of it at once                            |

A letter says where it comes from in `REAL_TOPIC`; `to` of the body sends all to one topic.
`REDRIVE_COUNT` counts its returns. Letters that are published are there twice if the broker
ends before the skip: a message may come again, and none is lost. A letter that a consumer
has in hand may be processed there, too; stop those first.
"""

from typing import Annotated, Final

import msgspec

from magnetar.admin.backlog.audit import audit_redrive
from magnetar.admin.backlog.skip import plan_in_turns, skip_refusals
from magnetar.admin.console.entry_messages import EntryMessages, Shown
from magnetar.admin.console.produce import partition_for, require_schema
from magnetar.admin.console.publishing import Publisher
from magnetar.admin.console.whole_message import find_entry
from magnetar.admin.http.answer import BAD_REQUEST, Refusal, json_answer
from magnetar.admin.http.bridge import prepare, wait_for
from magnetar.admin.http.call import INT32_MAX, INT64_MAX, SUBSCRIPTION, Call, stored
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    NUMBER,
    TEXT,
    WHOLE,
    Json,
    answers,
    each,
    integer,
    list_of,
    object_of,
    record,
)
from magnetar.broker.auth.access import PRODUCE, SKIP
from magnetar.broker.schema.schema import schema_topic
from magnetar.broker.topic.skip.skip import Skip
from magnetar.broker.topic.subscription import Subscription
from magnetar.errors import BrokerError, InvalidTopicNameError
from magnetar.model import Position, TopicName
from magnetar.model.message_id_data import MessageIdData

__all__ = ["ROUTES"]

IDS_MAX: Final = 1000
# How long consumers have to give back what they hold, where the settings say not to ask them.
RECALL_MS: Final = 5000
REAL_TOPIC: Final = "REAL_TOPIC"
REDRIVE_COUNT: Final = "REDRIVE_COUNT"
# What dead letters are marked with, which goes again.
OF_LETTERS: Final = frozenset(
    (
        REAL_TOPIC,
        "REAL_SUBSCRIPTION",
        "ORIGIN_MESSAGE_ID",
        "ORIGIN_MESSAGE_IDY_TIME",
        "RECONSUMETIMES",
        "DELAY_TIME",
    )
)


class _Letter:
    """A message that is to go back, and what became of it."""

    def __init__(self, id: "_Id") -> None:
        self.id = MessageIdData(id.ledgerId, id.entryId, batch_index=id.batchIndex)
        self.entry: EntryMessages | None = None
        self.message: Shown | None = None
        self.target: TopicName | None = None
        self.sent_as = ""
        self.trouble = ""

    def result(self) -> dict[str, object]:
        return {
            "ledgerId": int(self.id.ledger_id),
            "entryId": int(self.id.entry_id),
            "batchIndex": int(self.id.batch_index),
            "result": self.trouble or "redriven",
            "topic": "" if self.target is None else str(self.target),
            "messageId": self.sent_as,
        }


class _Id(msgspec.Struct, forbid_unknown_fields=True):
    ledgerId: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
    entryId: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
    batchIndex: Annotated[int, msgspec.Meta(ge=-1, le=INT32_MAX)] = -1


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    messageIds: Annotated[list[_Id], msgspec.Meta(min_length=1, max_length=IDS_MAX)]
    to: str | None = None


_BODY: Final = msgspec.json.Decoder(_Body)


async def redrive(call: Call) -> Response:
    """Publishes dead letters to the topics that they came from, and skips them here."""
    try:
        body = _BODY.decode(await call.raw())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(BAD_REQUEST, f"the body names no letters: {error}") from None
    to = None if body.to is None else TopicName.parse(body.to)
    subscription = call.subscription()
    stored(subscription.topic)
    letters = [_Letter(one) for one in body.messageIds]
    for letter in letters:
        await _find(call, subscription, letter, to)
    found = [letter for letter in letters if not letter.trouble]
    # Whether they may be skipped is known before any is published.
    skip = await _plan_skip(subscription, found)
    for number, letter in enumerate(found):
        await _publish(call, letter, number)
    sent = [letter for letter in found if letter.sent_as]
    if len(sent) < len(found):
        skip = await _plan_skip(subscription, sent)
    if skip is not None:
        await wait_for(skip.carry_out())
        audit_redrive(call, [letter.id for letter in sent])
        await wait_for(skip.recalled(call.broker.settings.skip_recall_ms or RECALL_MS))
    return json_answer({"redriven": len(sent), "messageIds": [one.result() for one in letters]})


async def _find(
    call: Call, subscription: Subscription, letter: _Letter, to: TopicName | None
) -> None:
    """The message of an id and where it goes, or why it stays."""
    id = letter.id
    position = Position(id.ledger_id, id.entry_id)
    if subscription.cursor.is_acked(position, id.batch_index):
        letter.trouble = "already acked"
        return
    entry = await find_entry(call, subscription.topic, position)
    letter.entry = entry
    if entry.is_chunk:
        letter.trouble = "it is in chunks: redrive it with `magnetar pipeline`"
        return
    if entry.batch_size and id.batch_index < 0:
        letter.trouble = "it is a batch: name its messages by their indexes"
        return
    for message in entry.messages():
        if message.batch_index in (id.batch_index, -1):
            letter.message = message
            break
    if letter.message is None:
        letter.trouble = f"the batch has no index {id.batch_index}"
        return
    letter.trouble = letter.message.fault
    try:
        letter.target = to or _origin(letter.message)
        call.broker.access.require_topic(call.principal, PRODUCE, letter.target)
    except (BrokerError, InvalidTopicNameError) as error:
        letter.trouble = error.reason if isinstance(error, BrokerError) else str(error)


def _origin(message: Shown) -> TopicName:
    """The topic that a letter comes from. Raises InvalidTopicNameError."""
    real = message.properties.get(REAL_TOPIC)
    if real is None:
        raise InvalidTopicNameError("", f"it has no {REAL_TOPIC}, so it is no dead letter")
    return TopicName.parse(real)


async def _plan_skip(subscription: Subscription, letters: list[_Letter]) -> Skip | None:
    """Returns the skip of these, not carried out. Raises Refusal, BrokerError."""
    if not letters:
        return None
    ids = [letter.id for letter in letters]
    with skip_refusals():
        skip = Skip([subscription.topic], subscription.name, ids, recall=True, details=False)
        await plan_in_turns(skip)
    return skip


async def _publish(call: Call, letter: _Letter, number: int) -> None:
    assert letter.message is not None
    assert letter.entry is not None
    assert letter.entry.metadata is not None
    assert letter.target is not None
    message, before = letter.message, letter.entry.metadata
    whole = letter.target.partitioned
    came_from = letter.target.partition if letter.target.partition >= 0 else None
    try:
        name = letter.target
        if call.admin.partitions(whole):
            name = partition_for(call, whole, message.key, came_from, number)
        await prepare(call.broker, name)
        topic = call.broker.find(name)
        version = _schema_version(call, before.schema_version, name)
        await require_schema(call, name, version)
        with Publisher(topic, "redrive") as publisher:
            metadata = publisher.metadata()
            metadata.partition_key = message.key
            metadata.partition_key_b64_encoded = message.key_is_base64
            metadata.ordering_key = message.ordering_key
            metadata.event_time = message.event_time
            metadata.null_value = message.null_value
            metadata.properties = list(restored(message.properties).items())
            metadata.schema_version = None if version is None else version.to_bytes(8)
            if letter.entry.encrypted:
                # What nobody here can read goes as it is.
                metadata.encryption_keys = before.encryption_keys
                metadata.encryption_algo = before.encryption_algo
                metadata.encryption_param = before.encryption_param
                metadata.compression = before.compression
                metadata.uncompressed_size = before.uncompressed_size
            id = await publisher.publish(metadata, message.payload)
    except (BrokerError, Refusal) as error:
        letter.trouble = error.reason
        return
    letter.target = name
    letter.sent_as = f"{id.ledger_id}:{id.entry_id}"


def _schema_version(call: Call, version: bytes | None, target: TopicName) -> int | None:
    """The version that the schema of a letter has at its target; None if it is not there.

    Each topic counts its versions by itself.
    """
    schemas = call.broker.schemas
    number = -1 if version is None or len(version) != 8 else int.from_bytes(version)
    schema = schemas.get(schema_topic(call.topic_name), number) if number >= 0 else None
    if schema is None:
        return None
    for other in schemas.versions(schema_topic(target)):
        if other.info.type == schema.info.type and other.info.data == schema.info.data:
            return other.version
    return None


def restored(properties: dict[str, str]) -> dict[str, str]:
    """The properties that a letter had before it died, and how often it was redriven.

    >>> restored({"REAL_TOPIC": "t", "RECONSUMETIMES": "3", "colour": "red"})
    {'colour': 'red', 'REDRIVE_COUNT': '1'}
    """
    found = {name: text for name, text in properties.items() if name not in OF_LETTERS}
    before = found.get(REDRIVE_COUNT, "0")
    digits = before.isascii() and before.isdigit() and len(before) < 10
    found[REDRIVE_COUNT] = str(int(before) + 1 if digits else 1)
    return found


BODY: Final[Json] = object_of(
    ("messageIds",),
    messageIds=list_of(
        object_of(
            ("ledgerId", "entryId"),
            **each(NUMBER, "ledgerId", "entryId"),
            batchIndex=integer(-1, INT32_MAX),
        )
        | {"additionalProperties": False},
        least=1,
    )
    | {"maxItems": IDS_MAX},
    to=TEXT,
) | {"additionalProperties": False}
RESULTS: Final[Json] = record(
    redriven=WHOLE,
    messageIds=list_of(
        record(
            **each(WHOLE, "ledgerId", "entryId", "batchIndex"),
            **each(TEXT, "result", "topic", "messageId"),
        )
    ),
)

ROUTES: Final[list[Route]] = [
    Route(
        "POST",
        f"{SUBSCRIPTION}/redrive",
        redrive,
        on_topic(SKIP),
        body=BODY,
        answer=answers(RESULTS),
    ),
]
