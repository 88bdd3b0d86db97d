"""Skipping messages by their ids (PIP-423): one request, all of it or nothing.

A body names messages in one of three ways:

    {"type": "messageId", "messageIds": [{"ledgerId": 5, "entryId": 2, "batchIndex": 3}, ...]}
    {"type": "byteArray", "messageIds": ["CAUQAiAD", ...]}
    ["CAUQAiAD", ...]

The second has the bytes of ids in base64, as clients serialize them; so has the third, and a
body without a type. `batchIndex` is one message of a batch, and without it all of the entry
is meant. `partitionIndex` may say which partition it is. Numbers may be texts. A field that
is none of these is refused: a `batchIndex` that is misspelt would skip a whole batch.
"""

import asyncio
import binascii
from typing import Final

from starlette.responses import Response

from magnetar.admin.answer import BAD_REQUEST, NOT_ALLOWED, Refusal, no_content
from magnetar.admin.bridge import read_plan, settle
from magnetar.admin.call import INT64_MAX, SUBSCRIPTION, Call, Route, shown, whole_number
from magnetar.broker.chunk_search import ChunkSearch
from magnetar.broker.skip import skip_messages
from magnetar.broker.topic import Topic
from magnetar.errors import BrokerError, RemoteProtocolError, UsageError
from magnetar.model import ServerError
from magnetar.model.message_id_data import SHAPE, MessageIdData, decode_message_id_data
from magnetar.wire.reader import Reader

__all__ = ["ROUTES", "read_ids"]

MESSAGE_ID: Final = "messageId"
BYTE_ARRAY: Final = "byteArray"
FIELDS: Final = frozenset(("ledgerId", "entryId", "batchIndex", "partitionIndex"))
INT32_MAX: Final = (1 << 31) - 1
# So many ids are read at once; then others have their turn.
TURN_IDS: Final = 1000


async def skip_by_ids(call: Call) -> Response:
    ids = await read_ids(await call.json())
    topics = call.topics()
    for topic in topics:
        if not topic.name.persistent:
            raise Refusal(NOT_ALLOWED, f"{topic.name} is not persistent: it stores nothing")
    try:
        plain = [id for id in ids if id.first_chunk is None]
        if len(plain) < len(ids):
            plain += await _chunks(call, topics, [id for id in ids if id.first_chunk is not None])
        await settle(skip_messages(topics, call.path["subscription"], plain))
    except UsageError as error:
        raise Refusal(BAD_REQUEST, str(error)) from error
    except BrokerError as error:
        if error.code == ServerError.NotAllowedError:
            raise Refusal(NOT_ALLOWED, error.reason) from error
        raise
    return no_content()


async def _chunks(call: Call, topics: list[Topic], ids: list[MessageIdData]) -> list[MessageIdData]:
    """The chunks of messages that were sent in several, each by itself."""
    search = ChunkSearch(topics, ids)
    while (plan := search.next_plan()) is not None:
        await read_plan(call.broker, plan)
        search.take(plan)
    return search.chunks()


# ---- The body --------------------------------------------------------------------------


async def read_ids(body: object) -> list[MessageIdData]:
    """The messages that a body names. Raises Refusal."""
    kind: object = BYTE_ARRAY
    listed = body
    if isinstance(body, dict):
        kind = body.get("type", BYTE_ARRAY)
        listed = body.get("messageIds")
    if kind not in (MESSAGE_ID, BYTE_ARRAY):
        raise Refusal(BAD_REQUEST, f"type is {shown(kind)}: give {MESSAGE_ID} or {BYTE_ARRAY}")
    if not isinstance(listed, list) or not listed:
        raise Refusal(
            BAD_REQUEST, "the body names no messages: give a list of ids, or one as messageIds"
        )
    read = _of_object if kind == MESSAGE_ID else _of_base64
    ids: list[MessageIdData] = []
    for first in range(0, len(listed), TURN_IDS):
        if first:
            await asyncio.sleep(0)
        for number, value in enumerate(listed[first : first + TURN_IDS], first):
            try:
                ids.append(read(value))
            except (Refusal, RemoteProtocolError, ValueError) as error:
                raise Refusal(BAD_REQUEST, f"id {number} of the list: {error}") from None
    return ids


def _of_object(value: object) -> MessageIdData:
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)} has no ledgerId and entryId")
    if not value.keys() <= FIELDS:
        unknown = sorted(map(str, value.keys() - FIELDS))[0]
        raise ValueError(f"{shown(unknown)} is no field of an id: {', '.join(sorted(FIELDS))} are")
    return MessageIdData(
        _field(value, "ledgerId", 0, INT64_MAX),
        _field(value, "entryId", 0, INT64_MAX),
        _optional(value, "partitionIndex", -1),
        _optional(value, "batchIndex", 0),
    )


def _field(value: dict[str, object], name: str, least: int, most: int) -> int:
    number = value.get(name)
    # Most are right, and there may be a hundred thousand.
    if type(number) is int and least <= number <= most:
        return number
    return whole_number(name, number, least, most)


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
    """Bytes can say anything. Of an index -1 is what some clients write where there is none."""
    if id.ledger_id < 0 or id.entry_id < 0:
        raise ValueError(f"no message is at {id.ledger_id}:{id.entry_id}")
    if id.batch_index < -1 or id.partition < -1 or id.batch_size < 0:
        raise ValueError(
            f"batch index {id.batch_index}, partition {id.partition}, size {id.batch_size}"
        )


ROUTES: Final[list[Route]] = [
    ("POST", f"{SUBSCRIPTION}/skipByMessageIds", skip_by_ids),
]
