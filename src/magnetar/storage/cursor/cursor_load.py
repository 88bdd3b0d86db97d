"""From the log to the ack room: a topic's ledgers, and its cursors as they were.

A cursor is its last snapshot with every later delta applied in the order of the log.
Deltas of an epoch that a reset ended are dropped by the cursor itself.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.ack import BatchSizes, Cursor, Ledgers, decode_delta, decode_snapshot
from magnetar.storage.state import LogState
from magnetar.storage.store import Store

__all__ = ["StoredBatchSizes", "load_cursor", "load_ledgers"]


@final
class StoredBatchSizes(BatchSizes):
    """Batch sizes as the indexes of the log have them.

    Of whole ledgers it is remembered how many messages they have, as far as they were counted:
    whoever asks for a backlog of millions would else hold everybody up each time.
    """

    def __init__(self, state: LogState) -> None:
        self._state: Final = state
        # By ledger: the entries that were counted, from the first on, and their messages.
        self._counted: Final[dict[int, tuple[int, int]]] = {}

    def batch_size(self, ledger_id: i64, entry_id: i64) -> i64:
        ledger = self._state.ledgers.get(ledger_id)
        if ledger is None or entry_id < 0 or entry_id >= ledger.index.count():
            return 0
        return ledger.index.batch_size(entry_id)

    def message_count(self, ledger_id: i64, first: i64, end: i64) -> i64:
        ledger = self._state.ledgers.get(ledger_id)
        if ledger is None:
            self._counted.pop(ledger_id, None)
            return max(end - first, 0)
        known = min(end, ledger.index.count())
        beyond = max(end - max(first, known), 0)
        if first > 0:
            return ledger.index.message_count(first, known) + beyond
        entries, messages = self._counted.get(ledger_id, (0, 0))
        if known < entries:
            return ledger.index.message_count(0, known) + beyond
        messages += ledger.index.message_count(entries, known)
        self._counted[ledger_id] = (int(known), messages)
        return messages + beyond


def load_ledgers(store: Store, topic_id: int) -> Ledgers:
    """What the cursors of a topic must know of it, as far as it is durable."""
    ledgers = Ledgers(StoredBatchSizes(store.log.state), born=topic_id)
    stored = store.ledgers(topic_id)
    for ledger in stored:
        ledgers.add(ledger.id, ledger.entries)
    if not stored:
        # All that it had was trimmed, and nobody knows which: a late ack of it is no mistake.
        ledgers.trimmed_through(store.last_id)
    return ledgers


def load_cursor(store: Store, cursor_id: int, ledgers: Ledgers) -> Cursor:
    """The durable state of a cursor."""
    image = store.cursor_image(cursor_id)
    cursor = decode_snapshot(image.snapshot, ledgers)
    for delta in image.deltas:
        cursor.apply(decode_delta(delta))
    return cursor
