"""What the log says of transactions: those that are open, and how the last ones ended.

| record       | of an open transaction               | of any other                             |
|--------------|--------------------------------------|------------------------------------------|
| transaction  | -                                    | it is open                               |
| sent         | one more entry is its own            | passed over                              |
| txn ack      | one more delta waits for its end     | passed over                              |
| end          | it has ended, and how is remembered  | the same, moved here; or passed over, if |
|              |                                      | that is forgotten                        |

A transaction has a number that ascends and is never used twice. In the log its id is the negative
of that, since all other objects have positive ones.

All that the log has of an open transaction stays where it is: no segment goes that is not older
than the oldest one (`segment_held`). So an end is never lost while the beginning is there. Of what
is older, the record of the segments says up to which number everything has ended (`over_before`).
"""

from array import array
from heapq import heappop, heappush
from typing import Final, final

from mypy_extensions import i64

from magnetar.model import Position
from magnetar.storage.log.record import Record, segment_of
from magnetar.storage.log.record_kind import TXN_END

__all__ = [
    "ABORTED",
    "COMMITTED",
    "ENDED_MAX",
    "EndedTransaction",
    "OpenTransaction",
    "Transactions",
]

# How a transaction ended, as its last record has it.
COMMITTED: Final = 1
ABORTED: Final = 2

# Of so many it is remembered how they ended: whoever did not hear it may ask again.
ENDED_MAX: Final = 10_000


@final
class OpenTransaction:
    """A transaction that has not ended, with all that waits for its end."""

    def __init__(
        self, number: i64, opened_ms: i64, timeout_ms: i64, address: i64, size: i64
    ) -> None:
        self.number: Final[i64] = number
        self.opened_ms: Final[i64] = opened_ms
        self.timeout_ms: Final[i64] = timeout_ms
        self.address: Final[i64] = address
        self.size: Final[i64] = size
        # By ledger, its entries in order.
        self.sent: Final[dict[int, array[int]]] = {}
        # By cursor, addresses and sizes of the deltas that its end will apply, or not.
        self.acks: Final[dict[int, list[tuple[int, int]]]] = {}
        # By segment, the bytes of its records.
        self.usage: Final[dict[int, int]] = {}

    def count(self, record: Record) -> None:
        """One more record is its own."""
        segment_id = segment_of(record.address)
        self.usage[segment_id] = self.usage.get(segment_id, 0) + record.size()


@final
class EndedTransaction:
    """How a transaction ended."""

    def __init__(self, number: i64, outcome: i64, ended_ms: i64, address: i64, size: i64) -> None:
        self.number: Final[i64] = number
        self.outcome: Final[i64] = outcome
        self.ended_ms: Final[i64] = ended_ms
        self.address: Final[i64] = address
        self.size: Final[i64] = size

    def record(self) -> Record:
        """The record that says so, to be written anew."""
        return end_record(self.number, self.outcome, self.ended_ms)


@final
class Transactions:
    """See the module; `LogState` folds records into it, and counts what lives."""

    def __init__(self) -> None:
        # In order of their numbers, which is the order of the log.
        self.open: Final[dict[int, OpenTransaction]] = {}
        self.ended: Final[dict[int, EndedTransaction]] = {}
        # Which open ones have something in a ledger, or for a cursor.
        self.by_ledger: Final[dict[int, set[int]]] = {}
        self.by_cursor: Final[dict[int, set[int]]] = {}
        self.number_last: i64 = 0
        self._ended_order: Final[list[int]] = []

    def segment_held(self) -> int:
        """The oldest segment that an open transaction has a record in; -1 if none is open."""
        for transaction in self.open.values():
            return segment_of(transaction.address)
        return -1

    def first_open(self, ledger_ids: list[int]) -> Position | None:
        """The first entry of an open transaction in these ledgers, which are in order."""
        if self.by_ledger:
            for ledger_id in ledger_ids:
                numbers = self.by_ledger.get(ledger_id)
                if numbers:
                    entries = [self.open[number].sent[ledger_id][0] for number in numbers]
                    return Position(ledger_id, min(entries))
        return None

    def over_before(self) -> int:
        """Returns the number below which all transactions have ended."""
        for transaction in self.open.values():
            return transaction.number
        return self.number_last + 1

    # ---- The fold ------------------------------------------------------------

    def begin(self, record: Record) -> OpenTransaction:
        """A transaction is open."""
        number = -record.id
        transaction = OpenTransaction(
            number, record.time_ms, record.sub_id, record.address, record.size()
        )
        self.open[number] = transaction
        self.number_last = max(self.number_last, number)
        transaction.count(record)
        return transaction

    def send(self, record: Record) -> bool:
        """An entry is part of a transaction; False if that is not open."""
        transaction = self.open.get(-record.id)
        if transaction is None:
            return False
        ledger_id = record.sub_id
        entries = transaction.sent.get(ledger_id)
        if entries is None:
            entries = transaction.sent[ledger_id] = array("I")
            self.by_ledger.setdefault(ledger_id, set()).add(transaction.number)
        entries.append(record.time_ms)
        transaction.count(record)
        return True

    def ack(self, record: Record) -> bool:
        """A delta waits for the end of a transaction; False if that is not open."""
        transaction = self.open.get(-record.id)
        if transaction is None:
            return False
        cursor_id = record.sub_id
        transaction.acks.setdefault(cursor_id, []).append((record.address, record.size()))
        self.by_cursor.setdefault(cursor_id, set()).add(transaction.number)
        transaction.count(record)
        return True

    def close(self, number: int) -> OpenTransaction | None:
        """Ends a transaction, and returns what it was, so that its records are counted as dead."""
        transaction = self.open.pop(number, None)
        if transaction is not None:
            for ledger_id in transaction.sent:
                _discard(self.by_ledger, ledger_id, number)
            for cursor_id in transaction.acks:
                _discard(self.by_cursor, cursor_id, number)
        return transaction

    def remember(self, ended: EndedTransaction) -> EndedTransaction | None:
        """Keeps how one ended; returns the one whose record is worth nothing any more.

        Those with the highest numbers are kept, in whatever order their records come: so a
        restart remembers the same.
        """
        number = ended.number
        self.number_last = max(self.number_last, number)
        before = self.ended.get(number)
        self.ended[number] = ended
        if before is not None:
            return before
        heappush(self._ended_order, number)
        if len(self._ended_order) > ENDED_MAX:
            return self.ended.pop(heappop(self._ended_order))
        return None

    def ended_in(self, segment_id: int) -> list[EndedTransaction]:
        """Returns those whose record is in a segment."""
        return [one for one in self.ended.values() if segment_of(one.address) == segment_id]


def _discard(numbers: dict[int, set[int]], id: int, number: int) -> None:
    found = numbers.get(id)
    if found is not None:
        found.discard(number)
        if not found:
            del numbers[id]


def end_record(number: i64, outcome: i64, ended_ms: i64) -> Record:
    return Record(TXN_END, -number, outcome, time_ms=ended_ms)
