"""The coordinator of transactions over REST: its figures, what is open, and aborts.

Paths and names are Pulsar's. A transaction has an id in two halves, the first of which is the
coordinator's number: here always 0. What `timeoutAt` tells is how many milliseconds it may take,
as in Pulsar; `endTimestamp`, `entries` and `acks` are names of our own.

Pulsar forgets a transaction when it has ended. Here its end is told of for as long as it is
remembered, which is what somebody wants to know who never heard the answer.
"""

from typing import Final

import msgspec

from magnetar.admin.http.answer import (
    BAD_REQUEST,
    NOT_ALLOWED,
    UNAVAILABLE,
    Refusal,
    json_answer,
    long_json_answer,
    no_content,
)
from magnetar.admin.http.breather import Breather
from magnetar.admin.http.bridge import wait_for
from magnetar.admin.http.call import Call
from magnetar.admin.http.required_permission import SUPERUSER
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import NUMBER, REFUSAL, answers
from magnetar.admin.transaction.transaction_shape import (
    COORDINATOR_STATS,
    COORDINATORS,
    METADATA,
    SLOW,
)
from magnetar.broker.transaction.transaction import Transaction
from magnetar.broker.transaction.transactions import COORDINATOR_ID, Transactions, outcome_name
from magnetar.errors import BrokerError
from magnetar.model import Position, ServerError

__all__ = ["ROUTES", "TRANSACTIONS", "TXN", "Figures", "enabled", "transaction_id"]

Figures = dict[str, object]

TRANSACTIONS: Final = "/admin/v3/transactions"
TXN: Final = "{mostSigBits}/{leastSigBits}"
# So many are listed, the oldest ones; and so many names of topics with them, for one that is
# about thousands of topics has them all in its answer.
LISTED_MAX: Final = 10_000
NAMES_LISTED_MAX: Final = 100_000
ONE_JOURNAL: Final = "transactions are kept in the one journal of the broker: there is no other log"


def enabled(call: Call) -> Transactions:
    """The coordinator. Raises Refusal where there is none."""
    transactions = call.broker.transactions
    if not transactions.enabled:
        raise Refusal(
            UNAVAILABLE, "this broker has no transactions: start it with transactions=true"
        )
    return transactions


def transaction_id(call: Call) -> int:
    """The number of the transaction in the path. Raises BrokerError, Refusal."""
    enabled(call).require_coordinator(call.number("mostSigBits"))
    return call.number("leastSigBits")


# ---- The coordinator -------------------------------------------------------------------


async def list_coordinators(call: Call) -> Response:
    """Returns the coordinators of transactions, of which there is one."""
    enabled(call)
    return json_answer([{"id": COORDINATOR_ID, "brokerServiceUrl": call.admin.server.url}])


async def get_coordinator_stats(call: Call) -> Response:
    """Returns how many transactions are open, of one coordinator or of each."""
    transactions = enabled(call)
    if call.query("coordinatorId") is None:
        return json_answer({str(COORDINATOR_ID): coordinator_figures(transactions)})
    transactions.require_coordinator(call.query_number("coordinatorId", COORDINATOR_ID))
    return json_answer(coordinator_figures(transactions))


def coordinator_figures(transactions: Transactions) -> Figures:
    return {
        "state": "Ready",
        "leastSigBits": transactions.number_last,
        "lowWaterMark": transactions.over_before - 1,
        "ongoingTxnSize": len(transactions.open),
        "recoverStartTime": transactions.loaded_ms,
        "recoverEndTime": transactions.loaded_ms,
    }


# ---- Transactions ----------------------------------------------------------------------


async def get_metadata(call: Call) -> Response:
    """Returns what a transaction has done, or how it ended."""
    number = transaction_id(call)
    transactions = enabled(call)
    transaction = transactions.open.get(number)
    if transaction is not None:
        return await long_json_answer(_figures(call, transaction, names=True))
    ended = transactions.ended(number)
    if ended is None:
        raise BrokerError(
            ServerError.TransactionNotFound,
            f"there is no transaction ({COORDINATOR_ID},{number}), or it ended long ago",
        )
    return json_answer(
        {
            "txnId": f"({COORDINATOR_ID},{number})",
            "owner": "",
            "openTimestamp": 0,
            "timeoutAt": 0,
            "endTimestamp": int(ended.ended_ms),
            "status": outcome_name(int(ended.outcome)).upper(),
            "entries": 0,
            "acks": 0,
            "producedPartitions": {},
            "ackedPartitions": {},
        }
    )


async def get_slow(call: Call) -> Response:
    """Returns the transactions that have been open for more than so many milliseconds."""
    transactions = enabled(call)
    timeout_ms = call.number("timeout")
    transactions.require_coordinator(call.query_number("coordinatorId", COORDINATOR_ID))
    now_ms = call.broker.host.now_ms()
    found: dict[str, msgspec.Raw] = {}
    breather = Breather()
    names = 0
    for transaction in list(transactions.open.values()):
        if now_ms - transaction.opened_ms < timeout_ms:
            continue
        if len(found) == LISTED_MAX:
            break
        names += len(transaction.topics) + len(transaction.subscriptions)
        figures = _figures(call, transaction, names=names <= NAMES_LISTED_MAX)
        found[transaction.id_text] = msgspec.Raw(msgspec.json.encode(figures))
        await breather.rest()
    return await long_json_answer(found)


def _figures(call: Call, transaction: Transaction, *, names: bool) -> Figures:
    """What is known of one that is open; of the topics only if their names are wanted."""
    produced: dict[str, Figures] = {}
    acked: dict[str, dict[str, Figures]] = {}
    if names:
        transactions = call.broker.transactions
        firsts = transactions.first_entries(transaction.number)
        for name in sorted(transaction.topics):
            produced[name] = in_buffer(transactions, transaction.number, firsts.get(name))
        for topic, subscription in sorted(transaction.subscriptions):
            found = in_pending_ack(call, topic, subscription, transaction.number)
            acked.setdefault(topic, {})[subscription] = found
    return {
        "txnId": transaction.id_text,
        "owner": transaction.owner,
        "openTimestamp": transaction.opened_ms,
        "timeoutAt": transaction.timeout_ms,
        "endTimestamp": 0,
        "status": transaction.state,
        "entries": transaction.entries,
        "acks": transaction.acked,
        "producedPartitions": produced,
        "ackedPartitions": acked,
    }


def in_buffer(transactions: Transactions, number: int, first: Position | None) -> Figures:
    """Where a transaction begins in a topic, which is not loaded for that; how it ended."""
    ended = transactions.ended(number)
    return {
        "startPosition": None if first is None else str(first),
        "aborted": ended is not None and outcome_name(int(ended.outcome)) == "aborted",
    }


def in_pending_ack(call: Call, topic_name: str, subscription: str, number: int) -> Figures:
    """How far a transaction acks a subscription, if it does so cumulatively."""
    topic = call.broker.topics.get(topic_name)
    found = None if topic is None else topic.subscriptions.get(subscription)
    mark = None if found is None else found.pending.through(number)
    return {"cumulativeAckPosition": None if mark is None else str(mark)}


async def abort(call: Call) -> Response:
    """Aborts a transaction; what it sent is never seen, and what it acked comes again."""
    number = transaction_id(call)
    await wait_for(enabled(call).end(COORDINATOR_ID, number, call.principal, commit=False))
    return no_content()


# ---- What Pulsar has and a broker with one journal has not -------------------------------


async def get_internal_stats(call: Call) -> Response:
    """Always refuses: the log of transactions is that of everything."""
    enabled(call)
    raise Refusal(NOT_ALLOWED, ONE_JOURNAL)


async def scale(call: Call) -> Response:
    """Always refuses: there is one coordinator."""
    enabled(call)
    raise Refusal(BAD_REQUEST, "there is one coordinator, for one journal: it cannot be more")


ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        f"{TRANSACTIONS}/coordinators",
        list_coordinators,
        SUPERUSER,
        answer=answers(COORDINATORS),
    ),
    Route(
        "GET",
        f"{TRANSACTIONS}/coordinatorStats",
        get_coordinator_stats,
        SUPERUSER,
        query={"coordinatorId": NUMBER},
        answer=answers(COORDINATOR_STATS),
    ),
    Route(
        "GET",
        f"{TRANSACTIONS}/transactionMetadata/{TXN}",
        get_metadata,
        SUPERUSER,
        answer=answers(METADATA),
    ),
    Route(
        "GET",
        f"{TRANSACTIONS}/slowTransactions/{{timeout}}",
        get_slow,
        SUPERUSER,
        query={"coordinatorId": NUMBER},
        answer=answers(SLOW),
    ),
    Route("POST", f"{TRANSACTIONS}/abortTransaction/{TXN}", abort, SUPERUSER),
    Route(
        "GET",
        f"{TRANSACTIONS}/coordinatorInternalStats/{{coordinatorId}}",
        get_internal_stats,
        SUPERUSER,
        answer=REFUSAL,
    ),
    Route(
        "POST",
        f"{TRANSACTIONS}/transactionCoordinator/replicas",
        scale,
        SUPERUSER,
        body=NUMBER,
        answer=REFUSAL,
    ),
]
