"""Transactions, as their coordinator tells of them."""

from msgspec import field

from magnetar.rest.response.record import Record

__all__ = ["CoordinatorStats", "TransactionAcks", "TransactionEntries", "TransactionMetadata"]


class TransactionEntries(Record, frozen=True):
    """What a transaction sent to one topic."""

    start_position: str | None = None
    """The position, `ledger:entry`, of its first entry there; None if there is none yet."""
    aborted: bool = False
    """Whether it was aborted."""


class TransactionAcks(Record, frozen=True):
    """What a transaction acknowledged on one subscription."""

    cumulative_ack_position: str | None = None
    """The position up to which it acknowledges everything; None if it names messages."""


class TransactionMetadata(Record, frozen=True):
    """A transaction that is open, or how it ended."""

    txn_id: str = ""
    """Its id, `(coordinator,number)`."""
    status: str = ""
    """`OPEN`, `COMMITTING`, `COMMITTED`, `ABORTING` or `ABORTED`."""
    owner: str | None = ""
    """The role that opened it; empty where nobody proves who he is."""
    open_timestamp: int = 0
    """When it was opened, in ms since 1970."""
    timeout_at: int = 0
    """How many milliseconds it may be open; then it is aborted."""
    end_timestamp: int = 0
    """When it ended, in ms since 1970; 0 while it is open, and where the server does not tell."""
    entries: int = 0
    """Entries that it sent; 0 where the server does not tell."""
    acks: int = 0
    """Messages and batches that it acknowledged; 0 where the server does not tell."""
    produced_partitions: dict[str, TransactionEntries] = field(default_factory=dict)
    """What it sent, by topic."""
    acked_partitions: dict[str, dict[str, TransactionAcks]] = field(default_factory=dict)
    """What it acknowledged, by topic and subscription."""


class CoordinatorStats(Record, frozen=True):
    """A coordinator of transactions."""

    state: str = ""
    """`Ready` if it can be asked."""
    least_sig_bits: int = 0
    """The number of its latest transaction."""
    low_water_mark: int = 0
    """All transactions up to this number have ended."""
    ongoing_txn_size: int = 0
    """Transactions that are open."""
    recover_start_time: int = 0
    """When it began to recover, in ms since 1970."""
    recover_end_time: int = 0
    """When it was there again, in ms since 1970."""
