"""Producing over HTTP, at the path and with the names of Pulsar's REST producer.

    {"messages": [{"key": "k", "payload": "text", "properties": {}, "eventTime": 0}]}

`payload` is text; `payloadBase64`, our own, has bytes instead, and a message with neither has a
null value. A message with a key goes to the partition that the key has with Java's clients, one
without to any. Each message has an answer of its own, with its id or with why it was not
stored. Schemas are not applied: `valueSchema`, `keySchema` are refused, and a message may say
which version of the topic's schema its bytes have (`schemaVersion`); where the policies ask
producers for a schema it must.
"""

import binascii
from typing import Annotated, Final

import msgspec

from magnetar.admin.console.publishing import Publisher
from magnetar.admin.http.answer import BAD_REQUEST, NOT_FOUND, Refusal, json_answer
from magnetar.admin.http.bridge import prepare, wait_for
from magnetar.admin.http.call import Call
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    INT32_MAX,
    INT64_MAX,
    NUMBER,
    TEXT,
    TEXT_MAP,
    WHOLE,
    Json,
    answers,
    each,
    integer,
    list_of,
    object_of,
    record,
)
from magnetar.broker.auth.access import PRODUCE
from magnetar.broker.schema.schema import schema_topic
from magnetar.errors import BrokerError
from magnetar.model import ServerError, TopicName
from magnetar.protocol import MessageMetadata

__all__ = ["ROUTES", "java_slot", "partition_for", "require_schema"]

MESSAGES_MAX: Final = 1000

Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    payload: str | None = None
    payloadBase64: str | None = None
    key: str | None = None
    properties: dict[str, str] = {}
    eventTime: Milliseconds = 0
    deliverAt: Milliseconds = 0
    schemaVersion: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] | None = None
    # What a partitioned topic is given for each; a key has its own.
    partition: Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)] | None = None


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    messages: Annotated[list[_Message], msgspec.Meta(min_length=1, max_length=MESSAGES_MAX)]
    # Pulsar's clients of this path give one; here each message is published for itself.
    producerName: str = ""


_BODY: Final = msgspec.json.Decoder(_Body)


async def produce(call: Call) -> Response:
    """Publishes messages, one after the other; each has its id or its error in the answer."""
    try:
        body = _BODY.decode(await call.raw())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(BAD_REQUEST, f"the body names no messages: {error}") from None
    payloads = [_payload(number, one) for number, one in enumerate(body.messages)]
    client = call.request.client
    address = "-" if client is None else f"{client.host}:{client.port}"
    results: list[dict[str, object]] = []
    may_create = call.broker.access.may_create(call.principal, call.topic_name)
    # A topic that is not there yet comes to be with the partitions that the policies say.
    call.broker.partitions(call.topic_name, may_create=may_create)
    fixed = _fixed_partition(call)
    for number, (message, payload) in enumerate(zip(body.messages, payloads, strict=True)):
        if fixed is None:
            name = partition_for(call, call.topic_name, message.key, message.partition, number)
        else:
            name = call.topic_name.with_partition(fixed)
        await prepare(call.broker, name)
        topic = call.broker.topic(name, may_create=may_create)
        try:
            await require_schema(call, name, message.schemaVersion)
            with Publisher(topic, address) as publisher:
                metadata = publisher.metadata()
                _fill(metadata, message, payload)
                id = await publisher.publish(metadata, payload or b"")
        except BrokerError as error:
            results.append({"messageId": "", "errorCode": error.code, "errorMsg": error.reason})
            continue
        place = f"{id.ledger_id}:{id.entry_id}:{name.partition}"
        results.append({"messageId": place, "errorCode": 0, "errorMsg": ""})
    _forget_lists(call)
    return json_answer({"messagePublishResults": results})


def _fixed_partition(call: Call) -> int | None:
    """The partition that the path names; None if it names none. Raises Refusal."""
    if "partition" not in call.path:
        return None
    partition = call.number("partition")
    count = call.admin.partitions(call.topic_name)
    if partition >= count:
        raise Refusal(
            NOT_FOUND, f"{call.topic_name} has {count} partitions, so there is no {partition}"
        )
    return partition


async def require_schema(call: Call, name: TopicName, version: int | None) -> None:
    """Raises BrokerError for a version that a topic's schema does not have, or for no schema where
    the policies ask producers for one.
    """
    if version is None:
        await wait_for(call.broker.add_producer_schema(name, None))
    elif call.broker.schemas.get(schema_topic(name), version) is None:
        reason = f"{name} has no version {version} of a schema"
        raise BrokerError(ServerError.IncompatibleSchema, reason)


def _forget_lists(call: Call) -> None:
    """A list of topics that was made before does not have a topic that is new."""
    if call.admin.topic_lists is not None:
        call.admin.topic_lists.forget()


def partition_for(
    call: Call, name: TopicName, key: str | None, partition: int | None, number: int
) -> TopicName:
    """The topic that a message goes to: itself, or one of its partitions. Raises Refusal."""
    count = call.admin.partitions(name)
    if not count:
        return name
    if partition is not None and partition >= count:
        raise Refusal(BAD_REQUEST, f"{name} has {count} partitions, so no {partition}")
    if key is not None:
        return name.with_partition(java_slot(key) % count)
    return name.with_partition(number % count if partition is None else partition)


def java_slot(key: str) -> int:
    """Java's hash of a text without its sign, by which its clients choose partitions.

    >>> java_slot("orders")
    1138713317
    """
    units = key.encode("utf-16-be", "surrogatepass")
    found = 0
    for at in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[at : at + 2])) & 0xFFFFFFFF
    return found & INT32_MAX


def _payload(number: int, message: _Message) -> bytes | None:
    if message.payload is not None and message.payloadBase64 is not None:
        raise Refusal(BAD_REQUEST, f"message {number} has payload and payloadBase64: give one")
    if message.payload is not None:
        return message.payload.encode()
    if message.payloadBase64 is None:
        return None
    try:
        return binascii.a2b_base64(message.payloadBase64, strict_mode=True)
    except ValueError as error:
        raise Refusal(BAD_REQUEST, f"payloadBase64 of message {number}: {error}") from None


def _fill(metadata: MessageMetadata, message: _Message, payload: bytes | None) -> None:
    metadata.partition_key = message.key
    metadata.properties = list(message.properties.items()) or None
    metadata.event_time = message.eventTime
    metadata.null_value = payload is None
    if message.deliverAt:
        metadata.deliver_at_time = message.deliverAt
    if message.schemaVersion is not None:
        metadata.schema_version = message.schemaVersion.to_bytes(8)


MESSAGE: Final[Json] = object_of(
    (),
    **each(TEXT, "payload", "payloadBase64", "key"),
    properties=TEXT_MAP,
    **each(NUMBER, "eventTime", "deliverAt", "schemaVersion"),
    partition=integer(0, INT32_MAX),
) | {"additionalProperties": False}
MESSAGES: Final[Json] = object_of(
    ("messages",),
    producerName=TEXT,
    messages=list_of(MESSAGE, least=1) | {"maxItems": MESSAGES_MAX},
) | {"additionalProperties": False}
RESULTS: Final[Json] = record(
    messagePublishResults=list_of(record(**each(TEXT, "messageId", "errorMsg"), errorCode=WHOLE))
)

PATH: Final = "/topics/{domain:persistent|non-persistent}/{tenant}/{namespace}/{topic}"
ROUTES: Final[list[Route]] = [
    Route(
        "POST",
        path,
        produce,
        on_topic(PRODUCE),
        body=MESSAGES,
        answer=answers(RESULTS),
    )
    for path in (PATH, f"{PATH}/partitions/{{partition}}")
]
