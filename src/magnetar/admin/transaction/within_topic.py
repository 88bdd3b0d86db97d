"""What open transactions have in a topic, and in a subscription of it, over REST.

Paths and names are Pulsar's: its buffer is what hides entries, here the topic's horizon, and its
pending acks are ours. A topic that is asked about is loaded.
"""

from typing import Final

from magnetar.admin.http.answer import (
    BAD_REQUEST,
    NOT_ALLOWED,
    NOT_FOUND,
    Refusal,
    json_answer,
)
from magnetar.admin.http.call import INT32_MAX, Call
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import FLAG, REFUSAL, answers, integer
from magnetar.admin.transaction.coordinator import (
    ONE_JOURNAL,
    TRANSACTIONS,
    TXN,
    Figures,
    enabled,
    in_buffer,
    in_pending_ack,
    transaction_id,
)
from magnetar.admin.transaction.transaction_shape import (
    ABORTED_ENTRIES,
    BUFFER_STATS,
    IN_BUFFER,
    IN_PENDING_ACK,
    PENDING_ACK_STATS,
    POSITION_STATE,
)
from magnetar.broker.auth.access import LOOK
from magnetar.broker.topic.persistent_topic import PersistentTopic
from magnetar.broker.topic.subscription import Subscription
from magnetar.broker.transaction.transactions import Transactions
from magnetar.model import Position
from magnetar.wire.ack_set import BATCH_SIZE_MAX

__all__ = ["ROUTES"]

TOPIC: Final = "{tenant}/{namespace}/{topic}"
SUBSCRIPTION: Final = f"{TOPIC}/{{subscription}}"
LOW_WATER_MARKS: Final = {"lowWaterMarks": FLAG}


def _topic(call: Call) -> PersistentTopic:
    enabled(call)
    topic = call.topic()
    assert isinstance(topic, PersistentTopic)  # the path has no other domain
    return topic


async def get_buffer_stats(call: Call) -> Response:
    """Returns how far a topic may be read, and how many transactions have something in it."""
    topic = _topic(call)
    transactions = call.broker.transactions
    found: Figures = {
        "state": "Ready",
        "maxReadPosition": str(topic.ledgers.last()),
        "lastSnapshotTimestamps": 0,
        "ongoingTxnSize": len(topic.horizon.numbers()),
        "totalAbortedTransactions": topic.horizon.aborted,
        "recoverStartTime": transactions.loaded_ms,
        "recoverEndTime": transactions.loaded_ms,
    }
    return json_answer(found | _low_water_marks(call, transactions))


def _low_water_marks(call: Call, transactions: Transactions) -> Figures:
    if not call.flag("lowWaterMarks"):
        return {}
    return {"lowWaterMarks": {"0": transactions.over_before - 1}}


async def get_in_buffer(call: Call) -> Response:
    """Returns where a transaction begins in a topic, and whether it was aborted."""
    number = transaction_id(call)
    name, transactions = str(_topic(call).name), call.broker.transactions
    first = transactions.first_entries(number).get(name)
    return json_answer(in_buffer(transactions, number, first))


def _subscription(call: Call) -> Subscription:
    topic = _topic(call)
    return call.admin.subscription(topic, call.path["subscription"])


async def get_pending_ack_stats(call: Call) -> Response:
    """Returns how many transactions have acks on a subscription that wait for their ends."""
    subscription = _subscription(call)
    transactions = call.broker.transactions
    found: Figures = {
        "state": "Ready" if subscription.durable else "None",
        "ongoingTxnSize": len(subscription.pending),
        "recoverStartTime": transactions.loaded_ms,
        "recoverEndTime": transactions.loaded_ms,
    }
    return json_answer(found | _low_water_marks(call, transactions))


async def get_in_pending_ack(call: Call) -> Response:
    """Returns how far a transaction acks a subscription, if it does so cumulatively."""
    number = transaction_id(call)
    subscription = _subscription(call)
    if number not in subscription.pending.by_number:
        reason = f"transaction (0,{number}) has no acks on {subscription.title}"
        raise Refusal(NOT_FOUND, reason)
    topic_name = str(subscription.topic.name)
    return json_answer(in_pending_ack(call, topic_name, subscription.name, number))


async def get_position_state(call: Call) -> Response:
    """Returns whether a message is acked, waits for the end of a transaction, or neither."""
    subscription = _subscription(call)
    position = Position(call.number("ledger"), call.number("entry"))
    index = call.query_number("batchIndex", -1, -1)
    return json_answer({"state": _position_state(subscription, position, index)})


def _position_state(subscription: Subscription, position: Position, index: int) -> str:
    if position.entry_id >= subscription.topic.ledgers.entry_count(position.ledger_id):
        gone = subscription.topic.ledgers.was_trimmed(position.ledger_id)
        return "MarkDelete" if gone else "InvalidPosition"
    size = subscription.batch_size(position)
    if index >= size:
        raise Refusal(BAD_REQUEST, f"{position} has {size} messages: there is no index {index}")
    mask = (1 << size) - 1 if index < 0 else 1 << index
    every = (1 << BATCH_SIZE_MAX) - 1
    unacked = subscription.cursor.remaining(position)
    if mask & (every if unacked is None else unacked) == 0:
        return "MarkDelete"
    left = subscription.pending.deliverable(position)
    return "NotInPendingAck" if mask & (every if left is None else left) else "PendingAck"


async def get_aborted_entries(call: Call) -> Response:
    """Returns how many entries of a range in a ledger are of aborted transactions.

    Nobody ever gets those, so a reader that misses some can tell that nothing was lost.
    """
    topic = call.topic()
    assert isinstance(topic, PersistentTopic)  # the path has no other domain
    ledger, first = call.number("ledger"), call.number("entry")
    end = min(call.query_number("end", first + 1), topic.ledgers.entry_count(ledger))
    if end <= first:
        return json_answer({"aborted": 0})
    aborted = call.broker.store.transactions.aborted(ledger)
    return json_answer({"aborted": aborted.range_cardinality(first, end)})


async def get_internal_stats(call: Call) -> Response:
    """Always refuses: what waits for the end of transactions is in the one journal."""
    enabled(call)
    raise Refusal(NOT_ALLOWED, ONE_JOURNAL)


ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        f"{TRANSACTIONS}/transactionBufferStats/{TOPIC}",
        get_buffer_stats,
        on_topic(LOOK),
        query=LOW_WATER_MARKS,
        answer=answers(BUFFER_STATS),
    ),
    Route(
        "GET",
        f"{TRANSACTIONS}/transactionInBufferStats/{TOPIC}/{TXN}",
        get_in_buffer,
        on_topic(LOOK),
        answer=answers(IN_BUFFER),
    ),
    Route(
        "GET",
        f"{TRANSACTIONS}/pendingAckStats/{SUBSCRIPTION}",
        get_pending_ack_stats,
        on_topic(LOOK),
        query=LOW_WATER_MARKS,
        answer=answers(PENDING_ACK_STATS),
    ),
    Route(
        "GET",
        f"{TRANSACTIONS}/transactionInPendingAckStats/{SUBSCRIPTION}/{TXN}",
        get_in_pending_ack,
        on_topic(LOOK),
        answer=answers(IN_PENDING_ACK),
    ),
    Route(
        "GET",
        f"{TRANSACTIONS}/positionStatsInPendingAck/{SUBSCRIPTION}/{{ledger}}/{{entry}}",
        get_position_state,
        on_topic(LOOK),
        query={"batchIndex": integer(-1, INT32_MAX)},
        answer=answers(POSITION_STATE),
    ),
    Route(
        "GET",
        f"{TRANSACTIONS}/abortedEntries/{TOPIC}/{{ledger}}/{{entry}}",
        get_aborted_entries,
        on_topic(LOOK),
        query={"end": integer(0)},
        answer=answers(ABORTED_ENTRIES),
    ),
    Route(
        "GET",
        f"{TRANSACTIONS}/transactionBufferInternalStats/{TOPIC}",
        get_internal_stats,
        on_topic(LOOK),
        answer=REFUSAL,
    ),
    Route(
        "GET",
        f"{TRANSACTIONS}/pendingAckInternalStats/{SUBSCRIPTION}",
        get_internal_stats,
        on_topic(LOOK),
        answer=REFUSAL,
    ),
]
