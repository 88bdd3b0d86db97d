"""The requests that skip messages by their ids: one, or several where a body would be too large.

One request is all or nothing. What does not fit into one goes partition by partition, and of a
partition in as many as it needs; every id is looked up before the first of them is sent, so
that a bad one is found while nothing has changed.
"""

import json
from typing import Final

from magnetar.cli.console import counted, status, warn
from magnetar.cli.skip.ledger_map import LedgerMap
from magnetar.model import MessageId, TopicName
from magnetar.model.message_id import ChunkMessageId
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.path import subscription_path

__all__ = ["Skipped", "request_body", "send_skips", "split_ids"]

# The broker takes 16 MiB.
BODY_BYTES_MAX: Final = 15 << 20


class Skipped:
    """What the broker said; `rows` has what became of each id, if it says that."""

    def __init__(self) -> None:
        self.requests = 0
        self.messages = 0
        self.unconfirmed = 0
        self.rows: list[dict[str, object]] = []

    def take(self, answer: object) -> None:
        self.requests += 1
        if isinstance(answer, dict):
            self.messages += int(answer.get("skipped", 0))
            self.unconfirmed += int(answer.get("unconfirmed", 0))
            self.rows += answer.get("messageIds", [])


def request_body(ids: list[MessageId]) -> dict[str, object]:
    """The body of a request: plain numbers where they say it all.

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


def send_skips(
    admin: AdminClient,
    topic: TopicName,
    subscription: str,
    ids: list[MessageId],
    *,
    recall: bool | None,
    bytes_max: int = BODY_BYTES_MAX,
) -> Skipped:
    """Skips all; says how far it came if it stops. Raises AdminError."""
    path = subscription_path(topic, subscription, "skipByMessageIds")
    parts = [ids]
    if _size(ids) > bytes_max:
        parts = split_ids(LedgerMap.load(admin, topic), ids, bytes_max)
        warn(
            f"{counted(len(ids), 'id')} are too many for one request: they go in {len(parts)}, "
            "each of one partition and each all or nothing"
        )
    skipped = Skipped()
    try:
        for part in parts:
            with status(f"skipping {counted(len(part), 'id')}"):
                answer = admin.post(path, request_body(part), details=True, recall=recall)
            skipped.take(answer)
    except BaseException:
        if skipped.requests:
            warn(
                f"{skipped.requests} of {len(parts)} requests are done, and the others changed "
                "nothing: the same command once more does the rest"
            )
        raise
    return skipped


def split_ids(ledgers: LedgerMap, ids: list[MessageId], bytes_max: int) -> list[list[MessageId]]:
    """Ids by partition, and in parts that fit into a request. Raises what a bad id is."""
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
