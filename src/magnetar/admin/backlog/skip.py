"""Skipping messages by their ids (PIP-423): one request, all of it or nothing.

A body names messages in one of three ways:

    {"type": "messageId", "messageIds": [{"ledgerId": 5, "entryId": 2, "batchIndex": 3}, ...]}
    {"type": "byteArray", "messageIds": ["CAUQAiAD", ...]}
    ["CAUQAiAD", ...]

The second has the bytes of ids in base64, as clients serialize them; so has the third, and a
body without a type. `batchIndex` is one message of a batch, and without it all of the entry
is meant. `partitionIndex` may say which partition it is. Numbers may be texts. A field that
is none of these is refused: a `batchIndex` that is misspelt would skip a whole batch.

| query      | default                  | means                                                |
|------------|--------------------------|------------------------------------------------------|
| `recall`   | true (`skip_recall_ms`)  | consumers give back what they hold, then it answers  |
| `details`  | false                    | 200 and what became of each id, instead of 204       |
"""

import asyncio
import binascii
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final, TypeAlias

import msgspec

from magnetar.admin.backlog.audit import audit_skip
from magnetar.admin.backlog.id_list import PIECE_BYTES, cut_list, find_list
from magnetar.admin.backlog.skip_answer import skip_answer
from magnetar.admin.backlog.stats_shape import SKIPPED
from magnetar.admin.http.answer import BAD_REQUEST, NOT_ALLOWED, TOO_LARGE, Refusal
from magnetar.admin.http.bridge import wait_for
from magnetar.admin.http.call import (
    INT32_MAX,
    INT64_MAX,
    SUBSCRIPTION,
    Call,
    decode_json,
    shown,
    stored,
    whole_number,
)
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    FLAG,
    NUMBER,
    TEXT,
    Json,
    answers,
    integer,
    list_of,
    object_of,
)
from magnetar.broker.auth.access import SKIP
from magnetar.broker.setting.text_limits import SKIP_BODY
from magnetar.broker.topic.chunk.chunk_search import find_chunks
from magnetar.broker.topic.skip.skip import PIECE_IDS, Skip
from magnetar.broker.topic.topic import Topic
from magnetar.errors import BrokerError, RemoteProtocolError, UsageError
from magnetar.model import ServerError
from magnetar.model.message_id_data import SHAPE, MessageIdData, decode_message_id_data
from magnetar.wire.reader import Reader

__all__ = ["ROUTES", "plan_in_turns", "read_ids", "skip_refusals"]

MESSAGE_ID: Final = "messageId"
BYTE_ARRAY: Final = "byteArray"
FIELDS: Final = frozenset(("ledgerId", "entryId", "batchIndex", "partitionIndex"))
# How long consumers have to give back what they hold, where the settings say not to ask them.
RECALL_MS: Final = 5000
NO_MESSAGES: Final = "the body names no messages: give a list of ids, or one as messageIds"

# A request names so many; 16 MiB could name a million.
IDS_MAX: Final = 200_000

# Ids are not read yet, only told apart. A list that is long is not even that: see `id_list.py`.
Ids: TypeAlias = list[msgspec.Raw]


class _Body(msgspec.Struct):
    messageIds: Ids
    type: object = BYTE_ARRAY


_BODY: Final = msgspec.json.Decoder(_Body | Ids)

Place: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
Index: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=INT32_MAX)] | None


class _Id(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An id as nearly all are; what else may stand for one is read by `_of_object`."""

    ledgerId: Place
    entryId: Place
    partitionIndex: Index = None
    batchIndex: Index = None


_IDS: Final = msgspec.json.Decoder(list[_Id])


@contextmanager
def skip_refusals() -> Iterator[None]:
    """Raises Refusal for ids that are wrong, and for what the subscription does not allow."""
    try:
        yield
    except UsageError as error:
        raise Refusal(BAD_REQUEST, str(error)) from error
    except BrokerError as error:
        if error.code == ServerError.NotAllowedError:
            raise Refusal(NOT_ALLOWED, error.reason) from error
        raise


async def plan_in_turns(skip: Skip) -> None:
    """Judges the ids of a skip, a piece in each event. Raises UsageError, BrokerError."""
    while skip.plan_piece():  # noqa: ASYNC110, others have their turn
        await asyncio.sleep(0)


async def skip_by_ids(call: Call) -> Response:
    """Skips single messages of a subscription by their ids (PIP-423): all of them or none."""
    wait_ms = call.broker.settings.skip_recall_ms
    recall = call.flag("recall", wait_ms > 0)
    details = call.flag("details")
    ids = await read_ids(await call.raw(SKIP_BODY))
    topics = [stored(topic) for topic in await call.topics()]
    with skip_refusals():
        plain = await _with_chunks(topics, ids)
        name = call.path["subscription"]
        skip = Skip(topics, name, plain, recall=recall, details=details)
        await plan_in_turns(skip)
        await wait_for(skip.carry_out())
    audit_skip(call, plain, skip.skipped, recall=recall)
    await wait_for(skip.recalled(wait_ms or RECALL_MS))
    return await skip_answer(skip, details=details)


async def _with_chunks(topics: list[Topic], ids: list[MessageIdData]) -> list[MessageIdData]:
    """Returns the ids, and for messages that were sent in chunks those of all their chunks."""
    found: list[MessageIdData] = []
    for first in range(0, len(ids), PIECE_IDS):
        if first:
            await asyncio.sleep(0)
        some = await wait_for(find_chunks(topics, ids[first : first + PIECE_IDS]))
        found.extend(some)
    return found


# ---- The body --------------------------------------------------------------------------


async def read_ids(raw: bytes) -> list[MessageIdData]:
    """Returns the messages that a body names. Raises Refusal."""
    if len(raw) <= PIECE_BYTES:
        kind, listed = _told_apart(raw)
        _check_kind(kind)
        return _read_piece(b"[%b]" % b",".join(listed), kind == MESSAGE_ID, 0)
    head, first, end = find_list(raw)
    kind, _ = _told_apart(head)
    _check_kind(kind)
    ids: list[MessageIdData] = []
    for piece in cut_list(raw, first, end, objects=kind == MESSAGE_ID):
        ids += _read_piece(piece, kind == MESSAGE_ID, len(ids))
        if len(ids) > IDS_MAX:
            raise Refusal(
                TOO_LARGE, f"the list has more than {IDS_MAX} ids: send it in several requests"
            )
        await asyncio.sleep(0)
    return ids


def _check_kind(kind: object) -> None:
    if kind not in (MESSAGE_ID, BYTE_ARRAY):
        raise Refusal(BAD_REQUEST, f"type is {shown(kind)}: give {MESSAGE_ID} or {BYTE_ARRAY}")


def _read_piece(piece: bytes, objects: bool, first: int) -> list[MessageIdData]:
    """Returns the ids of a piece of the list; `first` is the number of its first.

    Raises Refusal.
    """
    if objects and (plain := _read_plain(piece)):
        return plain
    values = decode_json(piece)
    if not isinstance(values, list) or not values:
        raise Refusal(BAD_REQUEST, NO_MESSAGES)
    read = _of_object if objects else _of_base64
    ids: list[MessageIdData] = []
    for number, value in enumerate(values, first):
        try:
            ids.append(read(value))
        except (Refusal, RemoteProtocolError, ValueError) as error:
            raise Refusal(BAD_REQUEST, f"id {number} of the list: {error}") from None
    return ids


def _read_plain(piece: bytes) -> list[MessageIdData]:
    """Returns the ids of a piece in which all are written in the usual way; none, if one is not."""
    try:
        ids = _IDS.decode(piece)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return [
        MessageIdData(
            id.ledgerId,
            id.entryId,
            -1 if id.partitionIndex is None else id.partitionIndex,
            -1 if id.batchIndex is None else id.batchIndex,
        )
        for id in ids
    ]


def _told_apart(raw: bytes) -> tuple[object, Ids]:
    try:
        body = _BODY.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        decode_json(raw)  # which says what is wrong, if it is no JSON
        raise Refusal(BAD_REQUEST, NO_MESSAGES) from None
    return (body.type, body.messageIds) if isinstance(body, _Body) else (BYTE_ARRAY, body)


def _of_object(value: object) -> MessageIdData:
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)} has no ledgerId and entryId")
    if not value.keys() <= FIELDS:
        unknown = sorted(map(str, value.keys() - FIELDS))[0]
        raise ValueError(
            f"{shown(unknown)} is not a field of an id: {', '.join(sorted(FIELDS))} are"
        )
    return MessageIdData(
        _field(value, "ledgerId", 0, INT64_MAX),
        _field(value, "entryId", 0, INT64_MAX),
        _optional(value, "partitionIndex", -1),
        # -1 is what some clients write where there is none, here and in base64.
        _optional(value, "batchIndex", -1),
    )


def _field(value: dict[str, object], name: str, least: int, most: int) -> int:
    return whole_number(name, value.get(name), least, most)


def _optional(value: dict[str, object], name: str, least: int) -> int:
    return -1 if value.get(name) is None else _field(value, name, least, INT32_MAX)


def _of_base64(value: object) -> MessageIdData:
    if not isinstance(value, str):
        raise ValueError(
            f'{shown(value)} is not base64; ids with ledgerId and entryId need "type": "messageId"'
        )
    try:
        raw = binascii.a2b_base64(value, strict_mode=True)
    except ValueError as error:
        raise ValueError(f"{shown(value)} is not base64 ({error})") from None
    id = decode_message_id_data(Reader(raw, 0, len(raw), SHAPE))
    _check_decoded(id)
    if id.first_chunk is not None:
        _check_decoded(id.first_chunk)
    return id


def _check_decoded(id: MessageIdData) -> None:
    """Bytes can say anything."""
    if id.ledger_id < 0 or id.entry_id < 0:
        raise ValueError(f"no message is at {id.ledger_id}:{id.entry_id}")
    if id.batch_index < -1 or id.partition < -1 or id.batch_size < 0:
        raise ValueError(
            f"batch index {id.batch_index}, partition {id.partition}, size {id.batch_size}"
        )


ID_SHAPE: Final[Json] = object_of(
    ("ledgerId", "entryId"),
    ledgerId=NUMBER,
    entryId=NUMBER,
    batchIndex=integer(0, INT32_MAX),
    partitionIndex=integer(-1, INT32_MAX),
) | {"additionalProperties": False}
IDS_SHAPE: Final[Json] = {
    "oneOf": [
        object_of(
            ("type", "messageIds"),
            type={"const": MESSAGE_ID},
            messageIds=list_of(ID_SHAPE, least=1),
        ),
        object_of(("messageIds",), type={"const": BYTE_ARRAY}, messageIds=list_of(TEXT, least=1)),
        list_of(TEXT, least=1),
    ]
}

ROUTES: Final[list[Route]] = [
    Route(
        "POST",
        f"{SUBSCRIPTION}/skipByMessageIds",
        skip_by_ids,
        on_topic(SKIP),
        query={"recall": FLAG, "details": FLAG},
        body=IDS_SHAPE,
        answer=answers(SKIPPED, optional=True),
    ),
]
