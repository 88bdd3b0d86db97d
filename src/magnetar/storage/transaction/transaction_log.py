"""Writing transactions: each call queues records, which count once they are durable.

The end of a transaction is one group: a commit's with the deltas of all its acks, an abort's with
what each ledger has aborted entries of. Recovery takes a group whole or not at all, so there is
no end by half, however many topics it is about.

What is sent and acked in a transaction must be durable, or have failed, before its end is queued.
"""

from typing import Final, final

from mypy_extensions import i64
from pyroaring import BitMap

from magnetar.model import Position
from magnetar.storage.ids import IDS_PER_MS, STRIPES, Ids
from magnetar.storage.log.log import Log
from magnetar.storage.log.record import Record
from magnetar.storage.log.record_kind import DELTA, TXN_ACK, TXN_OPEN, TXN_SENT
from magnetar.storage.state_record import aborted_record, decode_aborted
from magnetar.storage.transaction.transaction_state import (
    ABORTED,
    COMMITTED,
    OpenTransaction,
    Transactions,
    end_record,
)

__all__ = ["TransactionLog"]

# What is left of an id without its stripe is a time in 1/32 ms. Each millisecond has room for so
# many transactions: below 2**53, and more of them than anybody opens in one.
NUMBERS_PER_MS: Final = 4096


@final
class TransactionLog:
    """See the module."""

    def __init__(self, log: Log, ids: Ids) -> None:
        self._log: Final = log
        self._ids: Final = ids
        self._number: i64 = 0
        # What aborted of a ledger, as far as that is on its way to the disk.
        self._aborting: Final[dict[int, BitMap]] = {}

    @property
    def state(self) -> Transactions:
        """What is durable."""
        return self._log.state.transactions

    def begin(self, timeout_ms: int, owner: str) -> int:
        """Opens a transaction; its number, which no other ever has."""
        if self._number == 0:
            # An id is taken once for each run of a store, and no later run begins below it.
            by_id = self._ids.take() // STRIPES // IDS_PER_MS * NUMBERS_PER_MS
            self._number = max(by_id, self.state.number_last)
        self._number += 1
        self._log.add(
            Record(
                TXN_OPEN,
                -self._number,
                timeout_ms,
                time_ms=self._log.clock_ms(),
                body=owner.encode(),
            )
        )
        return self._number

    def owner(self, transaction: OpenTransaction) -> str:
        """Whose it is, read from the disk."""
        return self._log.read_body(transaction.address, transaction.size).decode()

    def sent(self, number: int, position: Position) -> int:
        """The entry that was queued last is part of a transaction; one group has both."""
        record = Record(TXN_SENT, -number, position.ledger_id, time_ms=position.entry_id)
        return self._log.add(record, tied=True)

    def ack(self, number: int, cursor_id: int, delta: bytes) -> int:
        """Queues a delta that the transaction's commit will write; returns the ticket."""
        return self._log.add(Record(TXN_ACK, -number, cursor_id, body=delta))

    def deltas(self, transaction: OpenTransaction) -> list[tuple[int, bytes]]:
        """The deltas that wait for its end, each with its cursor; read from the disk."""
        return [
            (cursor_id, self._log.read_body(address, size))
            for cursor_id, places in transaction.acks.items()
            for address, size in places
        ]

    def commit(self, number: int, deltas: list[tuple[int, int, bytes]]) -> int:
        """Queues the end, with the delta of each cursor: its id, the epoch, the bytes."""
        tied = False
        for cursor_id, epoch, delta in deltas:
            self._log.add(Record(DELTA, cursor_id, epoch, body=delta), tied=tied)
            tied = True
        return self._end(number, COMMITTED, tied=tied)

    def abort(self, number: int) -> int:
        """Queues the end: its entries are nobody's from then on."""
        tied = False
        transaction = self.state.open[number]
        for ledger_id, entries in transaction.sent.items():
            ledger = self._log.state.ledgers.get(ledger_id)
            if (
                ledger is None
                or self._log.deleting(ledger_id)
                or self._log.deleting(ledger.topic_id)
            ):
                continue
            aborted = self._queued(ledger_id) | BitMap(entries)
            self._log.add(aborted_record(ledger_id, aborted), tied=tied)
            self._aborting[ledger_id] = aborted
            tied = True
        return self._end(number, ABORTED, tied=tied)

    def _end(self, number: int, outcome: int, *, tied: bool) -> int:
        return self._log.add(end_record(number, outcome, self._log.clock_ms()), tied=tied)

    def aborted(self, ledger_id: int) -> BitMap:
        """The entries of a ledger that are durably nobody's; not to be changed."""
        ledger = self._log.state.ledgers.get(ledger_id)
        if ledger is None or ledger.aborted_address < 0:
            return NOTHING
        if ledger.aborted is None:
            body = self._log.read_body(ledger.aborted_address, ledger.aborted_size)
            ledger.aborted = decode_aborted(body)
        return ledger.aborted

    def _queued(self, ledger_id: int) -> BitMap:
        found = self._aborting.get(ledger_id)
        return self.aborted(ledger_id) if found is None else found

    def committed(self) -> None:
        """A group became durable."""
        if self._aborting:
            for ledger_id in list(self._aborting):
                if not self._log.has_pending(ledger_id):
                    del self._aborting[ledger_id]

    def abandon(self) -> None:
        """A group failed, and with it everything on its way."""
        self._aborting.clear()


NOTHING: Final = BitMap()
