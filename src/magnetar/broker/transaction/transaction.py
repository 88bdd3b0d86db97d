"""A transaction that has not ended, as the coordinator knows it."""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.broker.promise import Promise

if TYPE_CHECKING:
    from magnetar.broker.topic.transaction.pending_acks import TransactionAcks

__all__ = ["ABORTING", "COMMITTING", "OPEN", "Transaction"]

# Pulsar's names of states; where a transaction has ended, the log knows how.
OPEN: Final = "OPEN"
COMMITTING: Final = "COMMITTING"
ABORTING: Final = "ABORTING"


@final
class Transaction:
    """See the module; `transactions.py` has the table of its states."""

    def __init__(self, number: int, owner: str, timeout_ms: int, opened_ms: int) -> None:
        self.number: Final = number
        # The role that opened it; empty where nobody proves who he is.
        self.owner: Final = owner
        self.timeout_ms: Final = timeout_ms
        self.opened_ms: Final = opened_ms
        self.state: str = OPEN
        # Entries and messages' ids, counted when they are queued.
        self.entries: int = 0
        self.acked: int = 0
        # By cursor, with those that are on their way to the disk.
        self.acks: Final[dict[int, TransactionAcks]] = {}
        # What it said that it would be about: topics, and subscriptions of topics.
        self.topics: Final[set[str]] = set()
        self.subscriptions: Final[set[tuple[str, str]]] = set()
        # The ticket of the last record of it.
        self.ticket: int = -1
        self.ended: Promise[None] = Promise()

    @property
    def name_count(self) -> int:
        """How many topics and subscriptions it is about."""
        return len(self.topics) + len(self.subscriptions)

    @property
    def end_cost(self) -> i64:
        """What its end costs, in units of some 50 us."""
        count: i64 = self.name_count
        return 1 + count + self.acked // 50

    @property
    def id_text(self) -> str:
        """Its id as Pulsar writes it: the coordinator, and the number."""
        return f"(0,{self.number})"

    @property
    def title(self) -> str:
        """What it is called in messages to people."""
        return f"transaction {self.id_text}"
