"""A data directory as plain values, which are the JSON document of `dump` as they stand.

Names are Pulsar's where Pulsar has one. `ackedRanges` are the entries that are acked above
the mark-delete position: `first` to `end` - 1 of a ledger. `unacked` lists the indexes that
are left of a batch. Times are in milliseconds since 1970.
"""

from typing import TypedDict

from magnetar.ack import Cursor
from magnetar.cli.data.directory import DataDirectory
from magnetar.storage.state import LedgerState, TopicState

__all__ = [
    "CursorView",
    "DirectoryView",
    "LedgerView",
    "PartlyAckedView",
    "RangeView",
    "TopicView",
    "view_cursor",
    "view_directory",
]


class RangeView(TypedDict):
    ledgerId: int
    first: int
    end: int


class PartlyAckedView(TypedDict):
    ledgerId: int
    entryId: int
    batchSize: int
    unacked: list[int]


class CursorView(TypedDict):
    name: str
    markDeletePosition: str
    msgBacklog: int
    msgBacklogMessages: int
    ackedRanges: list[RangeView]
    partlyAcked: list[PartlyAckedView]


class StoredCursorView(CursorView):
    id: int
    epoch: int


class LedgerView(TypedDict):
    id: int
    sealed: bool
    entries: int
    messages: int
    bytes: int
    createdAt: int
    sealedAt: int | None


class TopicView(TypedDict):
    id: int
    name: str
    ledgers: list[LedgerView]
    cursors: list[StoredCursorView]


class CutView(TypedDict):
    path: str
    offset: int
    bytes: int
    records: int


class DirectoryView(TypedDict):
    closedInOrder: bool
    cuts: list[CutView]
    topics: list[TopicView]


def view_directory(directory: DataDirectory, topics: list[TopicState]) -> DirectoryView:
    """These topics of the directory, and how it was left."""
    recovered = directory.recovered
    return {
        "closedInOrder": recovered.clean,
        "cuts": [
            {
                "path": cut.path,
                "offset": cut.offset,
                "bytes": cut.bytes_lost,
                "records": cut.records_lost,
            }
            for cut in recovered.cuts
        ],
        "topics": [_view_topic(directory, topic) for topic in topics],
    }


def _view_topic(directory: DataDirectory, topic: TopicState) -> TopicView:
    ledgers = directory.ledgers(topic)
    return {
        "id": topic.id,
        "name": topic.name,
        "ledgers": [_view_ledger(directory.state.ledgers[id]) for id in topic.ledger_ids],
        "cursors": [
            _view_stored(
                cursor_id,
                directory.state.cursors[cursor_id].name,
                directory.cursor(cursor_id, ledgers),
            )
            for cursor_id in topic.cursor_ids
        ],
    }


def _view_ledger(ledger: LedgerState) -> LedgerView:
    count = ledger.index.count()
    return {
        "id": ledger.id,
        "sealed": ledger.sealed,
        "entries": count,
        "messages": ledger.index.message_count(0, count),
        "bytes": ledger.index.size_bytes(),
        "createdAt": ledger.created_ms,
        "sealedAt": ledger.sealed_ms if ledger.sealed else None,
    }


def _view_stored(cursor_id: int, name: str, cursor: Cursor) -> StoredCursorView:
    return {"id": cursor_id, "epoch": cursor.epoch, **view_cursor(name, cursor)}


def view_cursor(name: str, cursor: Cursor) -> CursorView:
    """What a cursor says of its subscription."""
    return {
        "name": name,
        "markDeletePosition": str(cursor.mark_delete),
        "msgBacklog": cursor.unacked_entries(),
        "msgBacklogMessages": cursor.unacked_messages(),
        "ackedRanges": [
            {"ledgerId": run.ledger_id, "first": run.first, "end": run.end}
            for run in cursor.acked_runs()
        ],
        "partlyAcked": [
            {
                "ledgerId": position.ledger_id,
                "entryId": position.entry_id,
                "batchSize": size,
                "unacked": [index for index in range(size) if remaining >> index & 1],
            }
            for position, remaining, size in cursor.partly_acked()
        ],
    }
