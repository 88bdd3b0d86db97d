"""The requests that skip messages by their ids: one, or several where a body would be too large.

One request is all or nothing. What does not fit into one goes partition by partition, and of a
partition in as many as it needs; every id is looked up before the first of them is sent, so
that a bad one is found while nothing has changed.
"""

import json
from typing import Final

from magnetar.model import MessageId, TopicName
from magnetar.model.message_id import ChunkMessageId
from magnetar.rest.path import subscription_path
from magnetar.rest.request import Plan, Request
from magnetar.rest.skip.ledger_map import LedgerMap
from magnetar.rest.skip.skipped import Skipped

__all__ = ["BODY_BYTES_MAX", "request_body", "skip_part", "skip_parts", "split_ids"]

# The broker takes 16 MiB.
BODY_BYTES_MAX: Final = 15 << 20


def skip_parts(
    topic: TopicName, ids: list[MessageId], bytes_max: int = BODY_BYTES_MAX
) -> Plan[list[list[MessageId]]]:
    """Returns the ids in parts, each for one request. Raises AdminError, and what a bad id is."""
    if _size(ids) <= bytes_max:
        return [ids]
    ledgers = yield from LedgerMap.load(topic)
    return split_ids(ledgers, ids, bytes_max)


def skip_part(
    topic: TopicName, subscription: str, ids: list[MessageId], *, recall: bool | None = None
) -> Plan[Skipped]:
    """Skips all ids of a part, or none. Raises AdminError.

    A server that knows nothing of details answers with nothing.
    """
    path = subscription_path(topic, subscription, "skipByMessageIds")
    query = {"details": True, "recall": recall}
    answer = yield Request("POST", path, request_body(ids), query)
    return answer.as_type(Skipped) if answer.body.strip() else Skipped()


def request_body(ids: list[MessageId]) -> dict[str, object]:
    """Returns the body of a request: plain numbers where they say it all.

    >>> request_body([MessageId(ledger_id=1, entry_id=2, batch_index=3)])["messageIds"]
    [{'ledgerId': 1, 'entryId': 2, 'batchIndex': 3}]
    """
    plain = all(id.partition() < 0 and not isinstance(id, ChunkMessageId) for id in ids)
    if not plain:
        return {"type": "byteArray", "messageIds": [id.to_base64() for id in ids]}
    items: list[dict[str, int]] = []
    for id in ids:
        item = {"ledgerId": id.ledger_id(), "entryId": id.entry_id()}
        if id.batch_index() >= 0:
            item["batchIndex"] = id.batch_index()
        items.append(item)
    return {"type": "messageId", "messageIds": items}


def split_ids(ledgers: LedgerMap, ids: list[MessageId], bytes_max: int) -> list[list[MessageId]]:
    """Returns ids by partition, in parts that fit into a request. Raises what a bad id is."""
    by_part: dict[TopicName | None, list[MessageId]] = {}
    for id in ids:
        by_part.setdefault(ledgers.find(id), []).append(id)
    return [part for found in by_part.values() for part in _fitting(found, bytes_max)]


def _fitting(ids: list[MessageId], bytes_max: int) -> list[list[MessageId]]:
    count = -(-_size(ids) // bytes_max)
    length = -(-len(ids) // count)
    return [ids[first : first + length] for first in range(0, len(ids), length)]


def _size(ids: list[MessageId]) -> int:
    return len(json.dumps(request_body(ids)))
