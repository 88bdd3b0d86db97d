"""From the log to the ack room: a topic's ledgers, and its cursors as they were.

A cursor is its last snapshot with every later delta applied in the order of the log.
Deltas of an epoch that a reset ended are dropped by the cursor itself.

There may be thousands of deltas, with thousands of ids each, so a cursor can be loaded in steps;
each tells what it cost, in units of about 50 us.
"""

from collections.abc import Generator
from typing import Final, final

from mypy_extensions import i64

from magnetar.ack import BatchSizes, Cursor, Ledgers, decode_delta, decode_snapshot_steps
from magnetar.storage.ledger.ledger_index import LedgerIndex
from magnetar.storage.state import LogState
from magnetar.storage.store import Store

__all__ = [
    "StoredBatchSizes",
    "is_long_to_load",
    "load_cursor",
    "load_cursor_steps",
    "load_ledgers",
]

# So many bytes of snapshots and deltas are read and applied in one unit.
UNIT_BYTES: Final = 64
# To count the messages of a block takes ten microseconds.
BLOCK_ENTRIES: Final = 1024
UNCOUNTED: Final = -1


@final
class StoredBatchSizes(BatchSizes):
    """Batch sizes as the indexes of the log have them.

    Of whole blocks of entries it is remembered how many messages they have: whoever asks for a
    backlog of millions would else hold everybody up each time. So a long range costs what of it
    was never counted, and then next to nothing; whoever cannot wait for the first time asks for
    it piece by piece.
    """

    def __init__(self, state: LogState) -> None:
        self._state: Final = state
        # By ledger: the messages of each block, UNCOUNTED if nobody has asked yet.
        self._blocks: Final[dict[int, list[int]]] = {}

    def batch_size(self, ledger_id: i64, entry_id: i64) -> i64:
        ledger = self._state.ledgers.get(ledger_id)
        if ledger is None or entry_id < 0 or entry_id >= ledger.index.count():
            return 0
        return ledger.index.batch_size(entry_id)

    def message_count(self, ledger_id: i64, first: i64, end: i64) -> i64:
        ledger = self._state.ledgers.get(ledger_id)
        if ledger is None:
            self._blocks.pop(ledger_id, None)
            return max(end - first, 0)
        index = ledger.index
        known: i64 = min(end, index.count())
        beyond: i64 = max(end - max(first, known), 0)
        block = (first + BLOCK_ENTRIES - 1) // BLOCK_ENTRIES
        block_end = known // BLOCK_ENTRIES
        if block >= block_end:
            return index.message_count(first, known) + beyond
        messages: i64 = index.message_count(first, block * BLOCK_ENTRIES)
        messages += self._in_blocks(ledger_id, index, block, block_end)
        return messages + index.message_count(block_end * BLOCK_ENTRIES, known) + beyond

    def _in_blocks(self, ledger_id: i64, index: LedgerIndex, block: i64, end: i64) -> i64:
        """The messages of whole blocks, all of whose entries are known."""
        counts = self._blocks.get(ledger_id)
        if counts is None:
            counts = self._blocks[ledger_id] = []
        if len(counts) < end:
            counts.extend([UNCOUNTED] * (end - len(counts)))
        messages: i64 = 0
        for number in range(block, end):
            if counts[number] == UNCOUNTED:
                first = number * BLOCK_ENTRIES
                counts[number] = index.message_count(first, first + BLOCK_ENTRIES)
            messages += counts[number]
        return messages


def load_ledgers(store: Store, topic_id: int) -> Ledgers:
    """What the cursors of a topic must know of it, as far as it is durable and to be seen.

    From the first entry of an open transaction on, nothing is; what aborted is void.
    """
    ledgers = Ledgers(StoredBatchSizes(store.log.state), born=topic_id)
    stored = store.ledgers(topic_id)
    first = store.transactions.state.first_open([ledger.id for ledger in stored])
    for ledger in stored:
        count = ledger.entries
        if first is not None and ledger.id >= first.ledger_id:
            count = first.entry_id if ledger.id == first.ledger_id else 0
        ledgers.add(ledger.id, count)
        ledgers.void(ledger.id, store.transactions.aborted(ledger.id))
    if not stored:
        # All that it had was trimmed, and nobody knows which: a late ack of it is no mistake.
        ledgers.trimmed_through(store.last_id)
    return ledgers


def load_cursor(store: Store, cursor_id: int, ledgers: Ledgers) -> Cursor:
    """The durable state of a cursor."""
    steps = load_cursor_steps(store, cursor_id, ledgers)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            cursor: Cursor = end.value
            return cursor


def load_cursor_steps(
    store: Store, cursor_id: int, ledgers: Ledgers
) -> Generator[int, None, Cursor]:
    """The durable state of a cursor, in steps that yield their cost in units.

    Nobody acks meanwhile. But what it is made of may be written anew to free a segment, which
    takes the old away: then it begins anew.
    """
    while True:
        reader = store.cursor_reader(cursor_id)
        snapshot = reader.snapshot()
        yield 1
        cursor = yield from decode_snapshot_steps(snapshot, ledgers)
        number = 0
        while reader.current and number < reader.deltas:
            delta = reader.delta(number)
            cursor.apply(decode_delta(delta))
            number += 1
            yield 1 + len(delta) // UNIT_BYTES
        if reader.current:
            return cursor


def is_long_to_load(state: LogState, topic_id: int, units: int) -> bool:
    """Whether it takes more than so many units to load all cursors of a topic."""
    topic = state.topics.get(topic_id)
    cost: i64 = 0
    for cursor_id in topic.cursor_ids if topic is not None else []:
        cursor = state.cursors[cursor_id]
        size = cursor.slices.total_bytes + cursor.deltas.total_bytes
        cost += 1 + cursor.deltas.count() + size // UNIT_BYTES
        if cost > units:
            return True
    return False
