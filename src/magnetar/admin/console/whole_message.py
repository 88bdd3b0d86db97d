"""One message, whole: out of its batch, decompressed, and put together from its chunks."""

from typing import Final

from magnetar.admin.console.entry_messages import EntryMessages, read_messages, unpack
from magnetar.admin.http.answer import NOT_FOUND, TOO_LARGE, UNPROCESSABLE, Refusal
from magnetar.admin.http.bridge import read_entry, wait_for
from magnetar.admin.http.call import TOPIC, Call, stored
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import INT32_MAX, OCTETS, integer
from magnetar.broker.auth.access import CONSUME
from magnetar.broker.topic.chunk.chunk_search import find_chunks
from magnetar.broker.topic.topic import Topic
from magnetar.model import Position
from magnetar.model.message_id_data import MessageIdData

__all__ = ["ROUTES", "find_entry", "whole_of"]

# A page holds it in memory, and so do we until it is sent.
SIZE_MAX: Final = 64 << 20


async def get_message(call: Call) -> Response:
    """Returns the payload of one message, with all of its chunks."""
    topic = stored(call.topic())
    position = Position(call.number("ledger"), call.number("entry"))
    entry = await find_entry(call, topic, position)
    if entry.is_chunk:
        entry = await whole_of(call, topic, entry)
    index = call.query_number("batchIndex", -1, -1)
    for message in entry.messages():
        if message.batch_index in (index, -1) or index < 0:
            if message.fault:
                raise Refusal(UNPROCESSABLE, f"{position}: {message.fault}")
            headers = {"cache-control": "no-store"}
            return Response(message.payload, 200, headers, "application/octet-stream")
    raise Refusal(NOT_FOUND, f"the entry {position} has no message {index}")


async def find_entry(call: Call, topic: Topic, position: Position) -> EntryMessages:
    """Returns an entry of a topic, taken apart. Raises Refusal."""
    # The store knows the entries of all topics.
    stored_entry = None
    if position.entry_id < topic.ledgers.entry_count(position.ledger_id):
        stored_entry = await read_entry(call.broker, position)
    if stored_entry is None or stored_entry.data is None:
        raise Refusal(NOT_FOUND, f"{topic.name} has no entry {position}")
    return await read_messages(position, stored_entry.data, call.broker.settings.message_size_max)


async def whole_of(call: Call, topic: Topic, chunk: EntryMessages) -> EntryMessages:
    """Returns all chunks of a message as one. Raises Refusal if one is missing."""
    assert chunk.metadata is not None
    total, size = chunk.metadata.num_chunks_from_msg or 0, chunk.metadata.total_chunk_msg_size or 0
    if max(size, chunk.metadata.uncompressed_size) > SIZE_MAX:
        raise Refusal(
            TOO_LARGE, f"the message has {size} bytes, and {SIZE_MAX} are shown: receive it"
        )
    id = MessageIdData(chunk.position.ledger_id, chunk.position.entry_id)
    pieces: dict[int, EntryMessages] = {}
    for one in await wait_for(find_chunks([topic], [id])):
        entry = await find_entry(call, topic, Position(one.ledger_id, one.entry_id))
        if entry.metadata is not None:
            pieces[entry.metadata.chunk_id or 0] = entry
    missing = [number for number in range(total) if number not in pieces]
    if missing:
        raise Refusal(
            NOT_FOUND, f"of {total} chunks {len(missing)} are not there, chunk {missing[0]} first"
        )
    first = pieces[0]
    assert first.metadata is not None
    first.payload = b"".join([pieces[number].payload for number in range(total)])
    if first.metadata.compression and not first.encrypted:
        await unpack(first, SIZE_MAX)
    return first


ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        f"{TOPIC}/ledger/{{ledger}}/entry/{{entry}}/message",
        get_message,
        on_topic(CONSUME),
        query={"batchIndex": integer(-1, INT32_MAX)},
        answer=OCTETS,
    ),
]
