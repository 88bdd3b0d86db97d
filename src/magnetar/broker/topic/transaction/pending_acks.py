"""Acks that wait for the end of their transactions, of one subscription.

| an ack of a message that is | in the same transaction | in another, or in none |
|-----------------------------|-------------------------|------------------------|
| pending                     | changes nothing         | conflict               |
| acked                       | conflict                | conflict; in none,     |
|                             |                         | changes nothing        |
| neither                     | is pending              | is pending, or acked   |

A message is one index of a batch, or an entry; a cumulative ack is about all that is not acked up
to its place, and a conflict if any of it is pending elsewhere.

What is pending counts as unacked everywhere but for delivery: it is handed to nobody before the
transaction ends. A commit acks it; after an abort it is as if it had never been acked.
"""

from collections.abc import Iterable
from typing import Final, final

from mypy_extensions import i64

from magnetar.ack import AckDelta, Cursor, Ledgers
from magnetar.ack.delta import LedgerDelta
from magnetar.ack.ledgers import KEY_MAX
from magnetar.ack.record import is_complete, merge_records, record_size, remaining_indexes
from magnetar.broker.topic.ack.ack_budget import AckShare
from magnetar.errors import BrokerError
from magnetar.model import Position, ServerError

__all__ = ["PendingAcks", "TransactionAcks", "memory_of", "merge_deltas"]

# For the estimate of memory: of a delta, and of each entry that it names.
DELTA_BYTES: Final = 400
NAME_BYTES: Final = 150


@final
class TransactionAcks:
    """The acks of one transaction in one subscription, as deltas that its commit will write."""

    def __init__(self, number: int, epoch: int) -> None:
        self.number: Final = number
        # Of another epoch they mean nothing: the subscription was reset since.
        self.epoch: Final = epoch
        # By ticket; those that were there when the broker started have others, below 0.
        self.deltas: Final[dict[int, AckDelta]] = {}
        # The key of the consumer that sent the last of them; 0 if that was before the broker
        # started.
        self.consumer_key: int = 0

    def merged(self) -> AckDelta:
        """Returns all of them as one delta."""
        return merge_deltas(self.epoch, list(self.deltas.values()))

    def load(self, delta: AckDelta) -> None:
        """One that was there when the broker started."""
        self.deltas[-1 - len(self.deltas)] = delta


def memory_of(delta: AckDelta) -> i64:
    """What a delta takes while it waits, which nothing else of its subscription has to share.

    Once it is applied a cursor has one record of each batch; here each delta has its own.
    """
    names: i64 = 0
    for _, entries, records in delta.ledgers:
        names += len(entries) + len(records)
    return delta.record_bytes + DELTA_BYTES + NAME_BYTES * names


def merge_deltas(epoch: int, deltas: list[AckDelta]) -> AckDelta:
    """Returns one delta that says what all of them say."""
    if len(deltas) == 1:
        return deltas[0]
    mark: Position | None = None
    entries: dict[int, set[int]] = {}
    records: dict[int, dict[int, int]] = {}
    for delta in deltas:
        if delta.mark_delete is not None and (mark is None or mark < delta.mark_delete):
            mark = delta.mark_delete
        for ledger_id, whole, parts in delta.ledgers:
            entries.setdefault(ledger_id, set()).update(whole)
            known = records.setdefault(ledger_id, {})
            for entry_id, record in parts:
                before = known.get(entry_id, 0)
                known[entry_id] = record if before == 0 else merge_records(before, record)
    ledgers: list[LedgerDelta] = []
    for ledger_id in sorted(entries):
        whole_ones, known = entries[ledger_id], records[ledger_id]
        whole_ones.update([entry_id for entry_id, record in known.items() if is_complete(record)])
        rest = [item for item in sorted(known.items()) if item[0] not in whole_ones]
        ledgers.append((ledger_id, tuple(sorted(whole_ones)), tuple(rest)))
    return AckDelta(epoch, mark, tuple(ledgers))


@final
class PendingAcks:
    """See the module."""

    def __init__(self, ledgers: Ledgers, cursor: Cursor, share: AckShare) -> None:
        self._ledgers: Final = ledgers
        self._cursor: Final = cursor
        # What they will take of the cursor's memory counts as on its way to it.
        self._share: Final = share
        self._growth: i64 = 0
        self.by_number: Final[dict[int, TransactionAcks]] = {}
        # By key of the entry: whose it is as a whole, and who has which part of it.
        self._whole: Final[dict[int, int]] = {}
        self._parts: Final[dict[int, dict[int, int]]] = {}
        # The keys that each transaction names, and the lowest of them.
        self._named: Final[dict[int, set[int]]] = {}
        self._first: Final[dict[int, int]] = {}
        # Those of which a delta could not be written: what is known of them is made anew before
        # somebody asks. A group that failed had thousands of them, perhaps.
        self._stale: Final[set[int]] = set()
        # The keys that those named, of which the dispatcher does not know yet.
        self._refused: list[int] = []
        # Whose cumulative ack is pending, and how far it goes.
        self._through_number: int = 0
        self._through: Position | None = None

    def __len__(self) -> int:
        """How many transactions have acks here."""
        return len(self.by_number)

    # ---- They come and go ----------------------------------------------------

    def load(self, acks: Iterable[TransactionAcks]) -> None:
        """What open transactions acked before the topic was loaded, of this epoch of the cursor."""
        for one in acks:
            if one.epoch == self._cursor.epoch:
                self.by_number[one.number] = one
                for delta in one.deltas.values():
                    self._index(one.number, delta)
                    self._reserve(memory_of(delta))

    def add(self, acks: TransactionAcks, delta: AckDelta, ticket: int) -> None:
        """One more delta of a transaction."""
        self.by_number[acks.number] = acks
        acks.deltas[ticket] = delta
        self._index(acks.number, delta)
        self._reserve(memory_of(delta))

    def take_back(self, acks: TransactionAcks, delta: AckDelta, ticket: int) -> bool:
        """A delta could not be written; whether it is the first of which somebody is to be told
        (`take_refused`)."""
        acks.deltas.pop(ticket, None)
        if self.by_number.get(acks.number) is not acks:
            return False
        self._reserve(-memory_of(delta))
        self._stale.add(acks.number)
        is_first = not self._refused
        for ledger_id, entries, records in delta.ledgers:
            for entry_id in [*entries, *[entry_id for entry_id, _ in records]]:
                self._refused.append(self._ledgers.key(ledger_id, entry_id))
        return is_first

    def take_refused(self) -> list[int]:
        """Returns the entries whose acks could not be written since the last call."""
        refused = self._refused
        self._refused = []
        return refused

    def _take_stale_out(self) -> None:
        """Forgets what was taken back."""
        for number in self._stale:
            acks = self.by_number.get(number)
            if acks is None:
                continue
            self._forget(number)
            for delta in acks.deltas.values():
                self._index(number, delta)
            if not acks.deltas:
                del self.by_number[number]
        self._stale.clear()

    def remove(self, number: int) -> list[int]:
        """The transaction has ended; the keys of the entries that it named."""
        acks = self.by_number.pop(number, None)
        if acks is None:
            return []
        for delta in acks.deltas.values():
            self._reserve(-memory_of(delta))
        self._stale.discard(number)
        return self._forget(number)

    def _forget(self, number: int) -> list[int]:
        """What a transaction named, which nobody holds for it any more."""
        if self._through_number == number:
            self._through_number = 0
            self._through = None
        self._first.pop(number, None)
        keys = sorted(self._named.pop(number, NO_KEYS))
        for key in keys:
            if self._whole.get(key) == number:
                del self._whole[key]
            parts = self._parts.get(key)
            if parts is not None:
                parts.pop(number, None)
                if not parts:
                    del self._parts[key]
        return keys

    def clear(self) -> None:
        """The subscription was reset or closed: none of it means anything here any more."""
        self.by_number.clear()
        self._whole.clear()
        self._parts.clear()
        self._named.clear()
        self._first.clear()
        self._stale.clear()
        self._refused = []
        self._through_number = 0
        self._through = None
        self._reserve(-self._growth)

    def _reserve(self, growth: i64) -> None:
        self._growth += growth
        self._share.reserve(growth)

    def _index(self, number: int, delta: AckDelta) -> None:
        if delta.mark_delete is not None and (
            self._through is None or self._through < delta.mark_delete
        ):
            self._through_number = number
            self._through = delta.mark_delete
        named = self._named.setdefault(number, set())
        first = self._first.get(number, KEY_MAX)
        for ledger_id, entries, records in delta.ledgers:
            for entry_id in entries:
                key = self._ledgers.key(ledger_id, entry_id)
                if key < 0:
                    continue  # an operator has acked it, and its ledger is gone
                self._whole[key] = number
                named.add(key)
                first = min(first, key)
            for entry_id, record in records:
                key = self._ledgers.key(ledger_id, entry_id)
                if key < 0:
                    continue
                parts = self._parts.setdefault(key, {})
                before = parts.get(number, 0)
                parts[number] = record if before == 0 else merge_records(before, record)
                named.add(key)
                first = min(first, key)
        self._first[number] = first

    # ---- Questions -----------------------------------------------------------

    def conflict(self, delta: AckDelta) -> BrokerError | None:
        """Returns why an ack outside of transactions is refused; None if it is not."""
        other = self.holder(0, delta) if self.by_number else 0
        if other == 0:
            return None
        return BrokerError(
            ServerError.TransactionConflict,
            f"a message of this ack is acknowledged in transaction (0,{other}): wait for its end",
        )

    def holder(self, number: int, delta: AckDelta) -> int:
        """Returns another transaction that has something of what a delta would ack; 0 if none has.

        `number` is whose delta it is, 0 if it is no transaction's.
        """
        self._take_stale_out()
        if delta.mark_delete is not None:
            other = self._holder_through(number, delta.mark_delete)
            if other != 0:
                return other
        for ledger_id, entries, records in delta.ledgers:
            for entry_id in entries:
                other = self._holder_of(number, ledger_id, entry_id, 0)
                if other != 0:
                    return other
            for entry_id, record in records:
                other = self._holder_of(number, ledger_id, entry_id, record)
                if other != 0:
                    return other
        return 0

    def _holder_through(self, number: int, target: Position) -> int:
        if self._through_number not in (0, number):
            return self._through_number
        end = self._ledgers.key(target.ledger_id, target.entry_id)
        for other, first in self._first.items():
            if other != number and first <= end:
                return other
        return 0

    def _holder_of(self, number: int, ledger_id: i64, entry_id: i64, record: int) -> int:
        """Who else has of an entry what `record` acks of it; all of it, if that is 0."""
        through = self._through
        if (
            through is not None
            and self._through_number != number
            and Position(ledger_id, entry_id) <= through
        ):
            return self._through_number
        key = self._ledgers.key(ledger_id, entry_id)
        other = self._whole.get(key, number)
        if other != number:
            return other
        for other, part in self._parts.get(key, NOTHING).items():
            if other != number and (record == 0 or overlap(record, part)):
                return other
        return 0

    def has(self, number: int, delta: AckDelta) -> bool:
        """Whether all that a delta acks is pending in this transaction already."""
        self._take_stale_out()
        if delta.mark_delete is not None and (
            self._through_number != number
            or self._through is None
            or self._through < delta.mark_delete
        ):
            return False
        for ledger_id, entries, records in delta.ledgers:
            for entry_id in entries:
                if self._whole.get(self._ledgers.key(ledger_id, entry_id)) != number:
                    return False
            for entry_id, record in records:
                key = self._ledgers.key(ledger_id, entry_id)
                part = self._parts.get(key, NOTHING).get(number, 0)
                whole = self._whole.get(key) == number
                if not whole and (part == 0 or merge_records(part, record) != part):
                    return False
        return True

    def deliverable(self, position: Position) -> int | None:
        """What of an entry may be delivered: its unacked indexes without those that are pending.

        The answer is as `Cursor.remaining` has it.
        """
        unacked = self._cursor.remaining(position)
        if self._stale:
            self._take_stale_out()
        if unacked == 0 or not self.by_number:
            return unacked
        if self._through is not None and position <= self._through:
            return 0
        key = self._ledgers.key(position.ledger_id, position.entry_id)
        if key in self._whole:
            return 0
        parts = self._parts.get(key)
        if parts is None:
            return unacked
        left = unacked
        for part in parts.values():
            rest = remaining_indexes(part)
            left = rest if left is None else left & rest
        return left

    def is_held_from(self, position: Position, consumer_key: int) -> bool:
        """Whether something of an entry is pending that another consumer acked."""
        if not self.by_number:
            return False
        if self._stale:
            self._take_stale_out()
        if self._through is not None and position <= self._through:
            return self.by_number[self._through_number].consumer_key != consumer_key
        key = self._ledgers.key(position.ledger_id, position.entry_id)
        number = self._whole.get(key)
        if number is not None and self.by_number[number].consumer_key != consumer_key:
            return True
        for number in self._parts.get(key, NOTHING):
            if self.by_number[number].consumer_key != consumer_key:
                return True
        return False

    def through(self, number: int) -> Position | None:
        """How far a transaction acks cumulatively; None if it does not."""
        return self._through if self._through_number == number else None

    def numbers(self) -> Iterable[int]:
        """The transactions that have acks here."""
        return self.by_number.keys()


NOTHING: Final[dict[int, int]] = {}
NO_KEYS: Final[set[int]] = set()


def overlap(one: int, other: int) -> bool:
    """Whether two records ack some index both."""
    size = min(record_size(one), record_size(other))
    every = (1 << size) - 1
    return (every & ~remaining_indexes(one) & ~remaining_indexes(other)) != 0
