"""A data directory as plain values, which are the JSON document of `dump` as they stand.

Names are Pulsar's where Pulsar has one. `ackedRanges` are the entries that are acked above
the mark-delete position: `first` to `end` - 1 of a ledger. `unacked` lists the indexes that
are left of a batch. Times are in milliseconds since 1970.
"""

from typing import TypedDict

from magnetar.ack import Cursor
from magnetar.cli.data.directory import DataDirectory
from magnetar.storage.compaction.view_facts import decode_view_facts
from magnetar.storage.ledger.ledger_index import index_path
from magnetar.storage.state import TopicState
from magnetar.storage.transaction.transaction_state import OpenTransaction

__all__ = [
    "CompactedView",
    "CursorView",
    "DirectoryView",
    "LedgerView",
    "PartlyAckedView",
    "RangeView",
    "TopicView",
    "TransactionView",
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
    abortedEntries: int
    uncommittedEntries: int


class CompactedView(LedgerView):
    through: str
    keptEntries: int
    keptMessages: int


class TopicView(TypedDict):
    id: int
    name: str
    ledgers: list[LedgerView]
    compacted: CompactedView | None
    cursors: list[StoredCursorView]


class CutView(TypedDict):
    path: str
    offset: int
    bytes: int
    records: int


class TransactionView(TypedDict):
    txnId: str
    owner: str
    openedAt: int
    timeoutMs: int
    producedEntries: dict[str, int]
    ackedEntries: dict[str, dict[str, int]]


class DirectoryView(TypedDict):
    closedInOrder: bool
    cuts: list[CutView]
    openTransactions: list[TransactionView]
    topics: list[TopicView]


def view_directory(directory: DataDirectory, topics: list[TopicState]) -> DirectoryView:
    """Returns these topics of the directory, and how it was left."""
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
        "openTransactions": [_view_transaction(directory, one) for one in directory.transactions()],
        "topics": [_view_topic(directory, topic) for topic in topics],
    }


def _view_transaction(directory: DataDirectory, transaction: OpenTransaction) -> TransactionView:
    """Returns what waits for its end; of topics and subscriptions that are gone nothing does."""
    state = directory.state
    produced: dict[str, int] = {}
    for ledger_id, entries in transaction.sent.items():
        if ledger_id in state.ledgers:
            topic = state.topics[state.ledgers[ledger_id].topic_id].name
            produced[topic] = produced.get(topic, 0) + len(entries)
    acked: dict[str, dict[str, int]] = {}
    for cursor_id, delta in directory.pending(transaction):
        cursor = state.cursors.get(cursor_id)
        if cursor is not None:
            topic = state.topics[cursor.topic_id].name
            named = sum(len(entries) + len(parts) for _, entries, parts in delta.ledgers)
            counts = acked.setdefault(topic, {})
            counts[cursor.name] = counts.get(cursor.name, 0) + named
    return {
        "txnId": f"(0,{transaction.number})",
        "owner": directory.owner(transaction),
        "openedAt": transaction.opened_ms,
        "timeoutMs": transaction.timeout_ms,
        "producedEntries": produced,
        "ackedEntries": acked,
    }


def _view_topic(directory: DataDirectory, topic: TopicState) -> TopicView:
    ledgers = directory.ledgers(topic)
    return {
        "id": topic.id,
        "name": topic.name,
        "ledgers": [_view_ledger(directory, id) for id in topic.ledger_ids],
        "compacted": _view_compacted(directory, topic),
        "cursors": [
            _view_stored(
                cursor_id,
                directory.state.cursors[cursor_id].name,
                directory.cursor(cursor_id, ledgers),
            )
            for cursor_id in topic.cursor_ids
        ],
    }


def _view_ledger(directory: DataDirectory, ledger_id: int) -> LedgerView:
    ledger, transactions = directory.state.ledgers[ledger_id], directory.state.transactions
    count = ledger.index.count()
    numbers = transactions.by_ledger.get(ledger_id, ())
    return {
        "id": ledger.id,
        "sealed": ledger.sealed,
        "entries": count,
        "messages": ledger.index.message_count(0, count),
        "bytes": ledger.index.size_bytes(),
        "createdAt": ledger.created_ms,
        "sealedAt": ledger.sealed_ms if ledger.sealed else None,
        "abortedEntries": len(directory.aborted(ledger_id)),
        "uncommittedEntries": sum(len(transactions.open[n].sent[ledger_id]) for n in numbers),
    }


def _view_compacted(directory: DataDirectory, topic: TopicState) -> CompactedView | None:
    if topic.view_id < 0:
        return None
    ledger = directory.state.ledgers[topic.view_id]
    facts = decode_view_facts(index_path(ledger.id), ledger.view)
    return {
        **_view_ledger(directory, ledger.id),
        "through": str(facts.through),
        "keptEntries": facts.entries,
        "keptMessages": facts.messages,
    }


def _view_stored(cursor_id: int, name: str, cursor: Cursor) -> StoredCursorView:
    return {"id": cursor_id, "epoch": cursor.epoch, **view_cursor(name, cursor)}


def view_cursor(name: str, cursor: Cursor) -> CursorView:
    """Returns what a cursor says of its subscription."""
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
