"""Judges of transactions (I11): all or nothing, isolated, and what was told is what is so.

What a transaction does is known by its programs, when it ended by what they were told, and how by
the broker's log, which is looked at when all is over. A transaction of which nobody knows the end
counts as not committed.
"""

from collections.abc import Iterable
from typing import Final

from magnetar.testing.checker.chunk_facts import ChunkFacts
from magnetar.testing.checker.history import (
    AckAnswered,
    Dispatched,
    History,
    Place,
    Received,
    Sent,
    Stored,
    Subscribed,
    TxnAckAsked,
    TxnAckCame,
    TxnEndAsked,
    TxnEndTold,
    TxnFound,
    TxnOutput,
    TxnRead,
    TxnSent,
)
from magnetar.testing.checker.seeks import NOWHERE, Seats
from magnetar.testing.checker.violation import Violation

__all__ = ["Transactions", "all_or_nothing", "isolated", "pending", "sent_once", "truthful"]

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
UNKNOWN: Final = "unknown"


class Transactions:
    """Which message is of which transaction, and how each ended, as far as that is known."""

    def __init__(self, history: History) -> None:
        self.of: Final = {(f.producer, f.number): f.txn for f in history.of(TxnSent)}
        self.outcome: Final = {
            fact.txn: fact.outcome for fact in history.of(TxnEndTold) if fact.outcome != UNKNOWN
        }
        self.outcome.update(
            {fact.txn: fact.outcome for fact in history.of(TxnFound) if fact.outcome != UNKNOWN}
        )

    def counts(self, stored: Stored) -> bool:
        """Returns whether a message that was stored is there for everybody."""
        txn = self.of.get((stored.producer, stored.number))
        return txn is None or self.outcome.get(txn) == COMMITTED


def truthful(history: History) -> Iterable[Violation]:
    """I11: who is told how a transaction ended is told what the log has, always the same."""
    told: dict[str, str] = {}
    for _, fact in history.among(TxnEndTold, TxnFound):
        assert isinstance(fact, (TxnEndTold, TxnFound))
        if fact.outcome == UNKNOWN:
            if isinstance(fact, TxnFound) and told.get(fact.txn) == COMMITTED:
                yield Violation("I11", f"{fact.txn} was committed, and nobody knows it any more")
            continue
        before = told.setdefault(fact.txn, fact.outcome)
        if before != fact.outcome:
            yield Violation("I11", f"{fact}, and was {before} before")


def isolated(history: History) -> Iterable[Violation]:
    """I11: nobody is handed what is not committed, on whatever topic and subscription."""
    transactions = history.view(Transactions)
    sent = {(fact.producer, fact.number): fact.payload for fact in history.of(Sent)}
    txns = {sent[key]: txn for key, txn in transactions.of.items() if key in sent}
    txns.update({fact.payload: fact.txn for fact in history.of(TxnOutput)})
    asked: set[str] = set()
    for _, fact in history.among(Received, TxnRead, TxnEndAsked):
        if isinstance(fact, TxnEndAsked):
            if fact.commit:
                asked.add(fact.txn)
        elif isinstance(fact, (Received, TxnRead)) and fact.payload in txns:
            txn = txns[fact.payload]
            if txn not in asked:
                yield Violation("I11", f"{fact} is of {txn}, which nobody has committed yet")
            elif transactions.outcome.get(txn, COMMITTED) != COMMITTED:
                yield Violation("I11", f"{fact} is of {txn}, which was aborted")


def all_or_nothing(history: History) -> Iterable[Violation]:
    """I11: what a committed transaction sent is read, and what it acked is done once.

    For histories at whose end somebody has read all outputs.
    """
    outcome = history.view(Transactions).outcome
    read: dict[bytes, list[Place]] = {}
    for fact in history.of(TxnRead):
        read.setdefault(fact.payload, []).append(fact.place)
    for output in history.of(TxnOutput):
        places = read.get(output.payload, [])
        if outcome.get(output.txn) == COMMITTED and not places:
            yield Violation("I11", f"{output} was committed, and is not there")
    yield from _done_once(history, outcome)


def sent_once(history: History) -> Iterable[Violation]:
    """I11: with deduplication, what a transaction sent is there once, if it was sent again too."""
    places: dict[bytes, Place] = {}
    for fact in history.of(TxnRead):
        before = places.setdefault(fact.payload, fact.place)
        if before != fact.place:
            yield Violation("I11", f"{fact.payload!r} is there at {before} and at {fact.place}")


def _done_once(history: History, outcome: dict[str, str]) -> Iterable[Violation]:
    """What two committed transactions acked was done twice.

    And a consumer is not handed again what it acked; another may have had it queued meanwhile,
    where consumers share and one lost its connection: its transaction has a conflict.
    """
    done: dict[tuple[str, Place], str] = {}
    told: dict[tuple[str, Place], str] = {}
    acked: dict[str, list[TxnAckAsked]] = {}
    for _, fact in history.among(TxnAckAsked, TxnEndTold, Received):
        if isinstance(fact, TxnAckAsked):
            acked.setdefault(fact.txn, []).append(fact)
            if outcome.get(fact.txn) != COMMITTED:
                continue
            for place in fact.places:
                before = done.setdefault((fact.subscription, place), fact.txn)
                if before != fact.txn:
                    yield Violation("I11", f"{place} was acked by {before} and by {fact.txn}")
        elif isinstance(fact, TxnEndTold) and fact.outcome == COMMITTED:
            for ack in acked.get(fact.txn, ()):
                told.update({(ack.consumer, place): fact.txn for place in ack.places})
        elif isinstance(fact, Received) and (fact.consumer, fact.place) in told:
            txn = told[fact.consumer, fact.place]
            yield Violation("I11", f"{fact} came, and {txn} had acked it and was committed")


def pending(history: History) -> Iterable[Violation]:
    """I11: what a transaction has acked is sent to nobody, unless it was aborted."""
    outcome = history.view(Transactions).outcome
    numbers = {int(txn.strip("()").partition(",")[2]) for txn in outcome if _is(outcome, txn)}
    seats, chunks = Seats(), history.view(ChunkFacts)
    waiting: dict[tuple[int, int, int], TxnAckCame] = {}
    # By topic and subscription, and entry: what is left of it.
    left: dict[tuple[object, int, int], int] = {}
    through: dict[object, tuple[int, int]] = {}
    for _, fact in history.among(Subscribed, TxnAckCame, AckAnswered, Dispatched):
        seats.take(fact)
        if isinstance(fact, TxnAckCame) and fact.number in numbers:
            waiting[fact.line, fact.consumer, fact.request] = fact
        elif isinstance(fact, AckAnswered):
            ack = waiting.pop((fact.line, fact.consumer, fact.request), None)
            if ack is None or fact.error:
                continue
            where = seats.topic.get((fact.line, fact.consumer), NOWHERE)
            for ledger, entry, rest in chunks.acked(ack):
                key = (where, ledger, entry)
                left[key] = left.get(key, -1) & rest
                if ack.cumulative:
                    through[where] = max(through.get(where, (-1, -1)), (ledger, entry - 1))
        elif isinstance(fact, Dispatched):
            where = seats.topic.get((fact.line, fact.consumer), NOWHERE)
            key = (where, fact.ledger, fact.entry)
            if fact.unacked & ~left.get(key, -1) or (
                (fact.ledger, fact.entry) <= through.get(where, (-1, -1))
            ):
                yield Violation(
                    "I11",
                    f"{fact} was sent, and a transaction that was committed had acked it before",
                )


def _is(outcome: dict[str, str], txn: str) -> bool:
    return outcome[txn] == COMMITTED
