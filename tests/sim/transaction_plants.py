"""Planted bugs in transactions (I11), of the broker and of the client."""

from collections.abc import Callable
from typing import Any

from sim.plants import BROKER, CLIENT, Plant, nothing, returns

from magnetar.broker.promise import kept
from magnetar.storage.transaction.transaction_log import NOTHING as NO_ENTRIES
from magnetar.storage.transaction.transaction_state import COMMITTED

STORAGE = "magnetar.storage"
TRANSACTIONS = f"{BROKER}.transaction.transactions:Transactions"
# What one topic shows of a commit comes so much later than what others show.
LATE_MS = 200


def _sees_all(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, ledger_id, count: count


def _voids_nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, number, aborted: original(self, number, {})


def _acks_nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, number, deltas: original(self, number, [])


def _acks_but_one(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, number, deltas: original(self, number, deltas[:1])


def _delivers_all(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, position: self._cursor.remaining(position)


def _counts_the_written(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, ledger_id: self.store.log.state.ledgers[ledger_id].index.count()


def _commits_instead(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, number: self._end(number, COMMITTED, tied=False)


def _not_part_of_it(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, number, position: self._log.journal.ticket_next - 1


def _one_by_one(original: Callable[..., Any]) -> Callable[..., Any]:
    def settle(self: Any) -> None:
        sent = dict(self._sent)
        for name in list(sent)[1:]:
            del self._sent[name]
        original(self)
        self._moved.clear()

        def rest() -> None:
            self._sent.clear()
            self._sent.update(dict(list(sent.items())[1:]))
            original(self)

        self._broker.host.call_later(LATE_MS, rest)

    return settle


def _answers_at_once(original: Callable[..., Any]) -> Callable[..., Any]:
    def end(self: Any, *ids: Any, commit: bool) -> Any:
        original(self, *ids, commit=commit)
        return kept(None)

    return end


def _keeps_the_older(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, messages: len(messages)


def _never_fails(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, count, error: original(self, count, None)


async def _quiet(self: Any) -> None:
    """Nothing is waited for."""


def _does_not_wait(original: Callable[..., Any]) -> Callable[..., Any]:
    return _quiet


def _asks_anew(original: Callable[..., Any]) -> Callable[..., Any]:
    async def decide(self: Any) -> None:
        self._lost = False
        await original(self)

    return decide


def _plant(name: str, where: str, make: Any, seed: int, **more: Any) -> Plant:
    return Plant(name, where, make, seed, life="transactions", **more)


TRANSACTION_PLANTS = [
    _plant(
        "what is not committed is seen",
        f"{BROKER}.topic.transaction.horizon:Horizon.limit",
        _sees_all,
        0,
    ),
    _plant(
        "what aborted is seen",
        f"{BROKER}.topic.transaction.horizon:Horizon.ended",
        _voids_nothing,
        0,
    ),
    _plant(
        "what aborted is seen after a load",
        f"{STORAGE}.transaction.transaction_log:TransactionLog.aborted",
        returns(NO_ENTRIES),
        0,
    ),
    _plant(
        "a topic that is loaded does not know what is open",
        f"{BROKER}.topic.transaction.horizon:Horizon._load",
        nothing,
        0,
    ),
    _plant(
        "a commit leaves the acks out",
        f"{STORAGE}.transaction.transaction_log:TransactionLog.commit",
        _acks_nothing,
        0,
    ),
    _plant(
        "a commit writes the acks of one subscription only",
        f"{STORAGE}.transaction.transaction_log:TransactionLog.commit",
        _acks_but_one,
        2,
    ),
    _plant(
        "topics show a commit one after the other",
        f"{BROKER}.transaction.transaction_end:TransactionEnd.settle",
        _one_by_one,
        2,
    ),
    _plant(
        "the end of a transaction shows what another one stores in the same write",
        f"{BROKER}.topic.persistent_topic:PersistentTopic._stored_count",
        _counts_the_written,
        98000277,
    ),
    _plant(
        "an abort is written as a commit",
        f"{STORAGE}.transaction.transaction_log:TransactionLog.abort",
        _commits_instead,
        0,
    ),
    _plant(
        "an end is answered before it is durable",
        f"{TRANSACTIONS}.end",
        _answers_at_once,
        2,
    ),
    _plant(
        "an entry is not known as its transaction's",
        f"{STORAGE}.transaction.transaction_log:TransactionLog.sent",
        _not_part_of_it,
        0,
    ),
    _plant(
        "nobody ends what was left open",
        f"{BROKER}.transaction.deadlines:Deadlines.set",
        nothing,
        5,
    ),
    _plant(
        "what is pending is delivered",
        f"{BROKER}.topic.transaction.pending_acks:PendingAcks.deliverable",
        _delivers_all,
        0,
    ),
    _plant(
        "what is pending is forgotten when the topic is loaded",
        f"{BROKER}.topic.transaction.pending_acks:PendingAcks.load",
        nothing,
        0,
    ),
    _plant(
        "two transactions may ack one message",
        f"{BROKER}.topic.transaction.pending_acks:PendingAcks.holder",
        returns(0),
        42,
    ),
    _plant(
        "nobody brings back what an aborted transaction had acked",
        f"{BROKER}.topic.dispatch.shared:SharedDispatcher.released",
        nothing,
        28,
        also=(f"{CLIENT}.transaction.consumer:ConsumerTransactions._bring_again", nothing),
    ),
    _plant(
        "who takes over is handed what stands behind a pending ack",
        f"{BROKER}.topic.transaction.pending_acks:PendingAcks.is_held_from",
        returns(False),
        95000110,
    ),
    _plant(
        "who was replaced acks what the next is at work on",
        f"{BROKER}.topic.dispatch.single:SingleDispatcher.may_not_transact",
        returns(False),
        98100234,
    ),
    _plant(
        "an abort takes the rest of a batch from who is at work on it",
        f"{BROKER}.topic.dispatch.key_shared:KeySharedDispatcher._keeps_order",
        returns(False),
        97001450,
    ),
    _plant(
        "what nobody says the end of holds back what comes again",
        f"{CLIENT}.transaction.consumer:ConsumerTransactions.came",
        nothing,
        97000612,
    ),
    _plant(
        "a batch that comes again with more in it is taken for the copy that is here",
        f"{CLIENT}.consumer.receive_queue:ReceiveQueue.replace",
        _keeps_the_older,
        97000658,
    ),
    _plant(
        "what fails in a transaction does not keep it from its commit",
        f"{CLIENT}.transaction.core:TransactionCore.leave",
        _never_fails,
        5,
    ),
    _plant(
        "a commit does not wait for what is on its way to the broker",
        f"{CLIENT}.engine.transaction:EngineTransaction._quiet",
        _does_not_wait,
        0,
    ),
    _plant(
        "a commit that may be done is called not committed",
        f"{CLIENT}.engine.transaction:EngineTransaction._decide",
        _asks_anew,
        89,
    ),
]
