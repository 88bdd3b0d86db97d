"""What lies below a topic: ledgers and cursors."""

from msgspec import field

from magnetar.rest.response.record import Record

__all__ = [
    "AckState",
    "BacklogAnalysis",
    "CursorStats",
    "Hole",
    "InternalStats",
    "LedgerInfo",
    "PartlyAckedBatch",
]


class LedgerInfo(Record, frozen=True):
    """A ledger: a run of entries."""

    ledger_id: int = -1
    """The ledger's id, which message ids begin with."""
    entries: int = 0
    """How many entries it has; Apache Pulsar says 0 of the ledger that it writes to."""
    size: int = 0
    """How many bytes it has."""


class CursorStats(Record, frozen=True):
    """The cursor of a subscription."""

    mark_delete_position: str = ""
    """The position, `ledger:entry`, up to which everything is acked."""
    read_position: str = ""
    """The position that is read next."""
    individually_deleted_messages: str = ""
    """Runs of acked entries above the mark-delete position, as a text."""
    messages_consumed_counter: int = 0
    """How many entries are acked."""
    state: str = ""
    """`Open` for a cursor that is kept, `NoLedger` for one that is not."""


class InternalStats(Record, frozen=True):
    """Ledgers and cursors of a topic."""

    entries_added_counter: int = 0
    """How many entries were published."""
    number_of_entries: int = 0
    """How many entries are stored."""
    total_size: int = 0
    """How many bytes are stored."""
    current_ledger_entries: int = 0
    """How many entries the ledger has that is written to."""
    current_ledger_size: int = 0
    """How many bytes the ledger has that is written to."""
    last_confirmed_entry: str = ""
    """The position, `ledger:entry`, of the last entry."""
    max_read_position: str = ""
    """The position up to which consumers may read: entries of open transactions are behind it."""
    state: str = ""
    """`LedgerOpened`, `Terminated`, or another state that the server names."""
    ledgers: list[LedgerInfo] = field(default_factory=list)
    """Ledgers, oldest first."""
    cursors: dict[str, CursorStats] = field(default_factory=dict)
    """Cursors by the name of their subscription."""


class BacklogAnalysis(Record, frozen=True):
    """A subscription's backlog, counted entry by entry."""

    entries: int = 0
    """How many entries are not acked."""
    messages: int = 0
    """How many messages are not acked."""
    aborted: bool = False
    """Whether the server gave up before the end."""


class Hole(Record, frozen=True):
    """A run of unacked entries that has something acked behind it."""

    first: str = ""
    """The position, `ledger:entry`, of the first entry."""
    last: str = ""
    """The position of the last entry."""


class PartlyAckedBatch(Record, frozen=True):
    """A batch of which some messages are acked."""

    position: str = ""
    """The position, `ledger:entry`, of the batch."""
    batch_size: int = 0
    """How many messages it has."""
    remaining: list[int] = field(default_factory=list)
    """The indexes of the messages that are not acked."""


class AckState(Record, frozen=True):
    """What is acked on a subscription, exactly. Magnetar alone tells this."""

    mark_delete_position: str = ""
    """The position, `ledger:entry`, up to which everything is acked."""
    last_position: str = ""
    """The position of the topic's last entry."""
    last_acked_position: str = ""
    """The position of the last entry of which anything is acked."""
    msg_backlog: int = 0
    """How many entries are not acked."""
    msg_backlog_messages: int = 0
    """How many messages are not acked."""
    holes: list[Hole] = field(default_factory=list)
    """Runs of unacked entries that have something acked behind them."""
    batches: list[PartlyAckedBatch] = field(default_factory=list)
    """Batches that are acked in part."""
    next: str | None = None
    """Where the next page begins; None if this is the last."""
