"""Settings of transactions: whether there are any, and how large they may be."""

from dataclasses import dataclass, field

from mypy_extensions import trait

from magnetar.broker.setting.setting import BOOL, COUNT, MINUTE_MS, MS, says

__all__ = ["TransactionSettings"]


@trait
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TransactionSettings:
    """Part of `BrokerSettings`; in the manual under "Transactions"."""

    transactions: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "whether clients may publish and acknowledge in transactions",
            conf={"transactionCoordinatorEnabled": 1},
        ),
    )
    max_open_transactions: int = field(
        default=10_000,
        metadata=says(
            COUNT,
            "transactions that are open at a time",
            conf={"maxActiveTransactionsPerCoordinator": 1},
        ),
    )
    max_entries_per_transaction: int = field(
        default=100_000,
        metadata=says(COUNT, "entries that are published in one transaction"),
    )
    max_acks_per_transaction: int = field(
        default=10_000,
        metadata=says(
            COUNT,
            "messages and batches that are acknowledged in one transaction; nobody else is "
            "served while it ends, 1 us for each",
        ),
    )
    max_acks_of_transactions: int = field(
        default=1_000_000,
        metadata=says(COUNT, "messages and batches that are acknowledged in all open transactions"),
    )
    max_topics_per_transaction: int = field(
        default=1000,
        metadata=says(
            COUNT,
            "topics and subscriptions that one transaction is about; nobody else is served "
            "while it ends, 9 us for each",
        ),
    )
    max_topics_of_transactions: int = field(
        default=200_000,
        metadata=says(COUNT, "topics and subscriptions that all open transactions are about"),
    )
    transaction_timeout_max_ms: int = field(
        default=60 * MINUTE_MS,
        metadata=says(
            MS, "the longest that a transaction may ask to stay open; then it is aborted", low=1
        ),
    )
