"""The horizon of a topic: the first entry of an open transaction. Nobody sees it, or beyond it.

A topic's `Ledgers` have as many entries as may be seen, and cursors, dispatchers, counters and
whoever asks for the last message know no others. So a topic with a horizon just does not grow
beyond it; when the transaction ends it does, to the next horizon or to its end.

| a transaction that ends | its entries                                              |
|-------------------------|----------------------------------------------------------|
| committed               | are like any others, in the order in which they came     |
| aborted                 | are void: acked for every cursor there is and ever will  |
|                         | be, so nobody is given them and ledgers are trimmed      |

As in Apache Pulsar, what is published beside a transaction waits behind the horizon too: the order
of a topic is that of its positions.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64
from pyroaring import BitMap

from magnetar.model import Position

if TYPE_CHECKING:
    from magnetar.ack import Ledgers
    from magnetar.storage.store import Store

__all__ = ["Horizon"]


@final
class Horizon:
    """See the module."""

    def __init__(self, ledgers: "Ledgers", store: "Store") -> None:
        self._ledgers: Final = ledgers
        self._store: Final = store
        # By open transaction, its first entry: in order, since that is how they come.
        self._first: Final[dict[int, Position]] = {}
        # Those with entries here that ended since the topic was loaded.
        self.committed: int = 0
        self.aborted: int = 0
        self._load(ledgers.ids_from(0))

    def _load(self, ledger_ids: list[int]) -> None:
        """Finds what the store has open in these ledgers."""
        state = self._store.transactions.state
        if not state.by_ledger:
            return
        found: dict[int, Position] = {}
        for ledger_id in ledger_ids:
            for number in state.by_ledger.get(ledger_id, ()):
                if number not in found:
                    entry_id = state.open[number].sent[ledger_id][0]
                    found[number] = Position(ledger_id, entry_id)
        for first, number in sorted([(first, number) for number, first in found.items()]):
            self._first[number] = first

    @property
    def clear(self) -> bool:
        """Whether everything may be seen."""
        return len(self._first) == 0

    @property
    def position(self) -> Position | None:
        """The first entry that nobody may see, if there is one."""
        for first in self._first.values():
            return first
        return None

    def first_of(self, number: int) -> Position | None:
        """The first entry of a transaction here."""
        return self._first.get(number)

    def numbers(self) -> list[int]:
        """The open transactions that have entries here."""
        return list(self._first)

    def sent(self, number: int, position: Position) -> None:
        """An entry of an open transaction is durable."""
        self._first.setdefault(number, position)

    def ended(self, number: int, aborted: dict[int, BitMap]) -> None:
        """A transaction is over; of an aborted one, with its entries here by ledger."""
        if self._first.pop(number, None) is not None:
            if aborted:
                self.aborted += 1
            else:
                self.committed += 1
        for ledger_id, entries in aborted.items():
            self._ledgers.void(ledger_id, entries)

    def limit(self, ledger_id: i64, count: i64) -> i64:
        """How many of the first `count` entries of a ledger may be seen."""
        position = self.position
        if position is None or ledger_id < position.ledger_id:
            return count
        return min(count, position.entry_id) if ledger_id == position.ledger_id else 0
