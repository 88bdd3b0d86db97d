"""Plans about transactions. One is named as Pulsar writes its id: `(0,17)`, or `0:17`."""

from magnetar.errors import SettingsError, UsageError
from magnetar.model.txn_id import TxnId
from magnetar.rest.path import transactions_path
from magnetar.rest.request import Plan, Request
from magnetar.rest.response.transaction import CoordinatorStats, TransactionMetadata

__all__ = ["abort", "coordinator_stats", "get", "halves", "list_open"]


def halves(transaction: str) -> tuple[str, str]:
    """Returns the two halves of a transaction's id. Raises SettingsError.

    >>> halves("(0,17)"), halves("0:17")
    (('0', '17'), ('0', '17'))
    """
    try:
        id = TxnId.parse(transaction)
    except UsageError as error:
        raise SettingsError("transaction", str(error)) from None
    return str(int(id.most)), str(int(id.least))


def list_open(open_for_ms: int = 0) -> Plan[dict[str, TransactionMetadata]]:
    """Returns the transactions that have been open for so long, by their ids, oldest first."""
    path = transactions_path("slowTransactions", str(open_for_ms))
    return (yield Request("GET", path)).as_type(dict[str, TransactionMetadata])


def get(transaction: str) -> Plan[TransactionMetadata]:
    """Returns what a transaction has done, or how it ended. Raises NotFoundError."""
    path = transactions_path("transactionMetadata", *halves(transaction))
    return (yield Request("GET", path)).as_type(TransactionMetadata)


def abort(transaction: str) -> Plan[None]:
    """Aborts a transaction. Raises ConflictError if it was committed."""
    yield Request("POST", transactions_path("abortTransaction", *halves(transaction)))


def coordinator_stats() -> Plan[dict[str, CoordinatorStats]]:
    """Returns the coordinators by their numbers, with how many transactions are open at each."""
    path = transactions_path("coordinatorStats")
    return (yield Request("GET", path)).as_type(dict[str, CoordinatorStats])
