"""Programs that transact beside all others, under trouble; nothing is done by half (I11)."""

from collections import Counter

import pytest
from sim.life import transactions_of
from sim.scenario import TYPES
from sim.transaction_life import run_seed

from magnetar.testing.checker.checkers import (
    all_or_nothing,
    isolated,
    one_holder,
    pending,
    sent_once,
    truthful,
)
from magnetar.testing.checker.history import (
    AckAnswered,
    Dispatched,
    Fact,
    History,
    Place,
    Received,
    Sent,
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

SEEDS = 200
TXN = "(0,7)"
PLACE = Place(5, 0)


def history(*facts: Fact) -> History:
    found = History()
    for fact in facts:
        found.add(fact)
    return found


def received(consumer: str = "c") -> Received:
    return Received(consumer, "s", "t", PLACE, 0, b"m", "", 0)


SENT = (TxnSent(TXN, "p", 0), Sent("p", 0, "t", b"m", "", False))
OUTPUT = TxnOutput(TXN, "out", b"o")
ASKED, COMMITTED, ABORTED = (
    TxnEndAsked(TXN, True),
    TxnEndTold(TXN, "committed"),
    TxnEndTold(TXN, "aborted"),
)


def test_what_is_drawn_is_of_every_kind() -> None:
    plans = [transactions_of(seed).extras.transactions for seed in range(SEEDS)]
    drawn = Counter(plan.type for plan in plans if plan is not None)
    assert set(drawn) == set(TYPES)
    acks = {(plan.type, plan.acks) for plan in plans if plan is not None}
    assert ("Failover", "cumulative") in acks
    assert ("Shared", "cumulative") not in acks
    assert any(plan is not None and plan.publish_share for plan in plans)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
# 40: an abort took a batch from who had all of it. 95, 205: programs that did not refuse what they
# could not acknowledge, one by one and cumulatively.
@pytest.mark.parametrize("seed", [0, 1, 2, 95000040, 95000095, 95000205])
def test_nothing_is_done_by_half(seed: int) -> None:
    found = run_seed(seed).history
    outcomes = Counter(fact.outcome for fact in found.of(TxnEndTold))
    assert outcomes["committed"] > 1
    assert sum(1 for _ in found.of(TxnRead)) >= outcomes["committed"] // 2


# ---- The judges -------------------------------------------------------------------


def test_nobody_is_handed_what_is_not_committed() -> None:
    assert list(isolated(history(*SENT, ASKED, received(), COMMITTED))) == []
    (early,) = isolated(history(*SENT, received(), ASKED, COMMITTED))
    assert "nobody has committed" in str(early)
    (aborted,) = isolated(history(*SENT, ASKED, ABORTED, received()))
    assert "was aborted" in str(aborted)
    (output,) = isolated(history(OUTPUT, TxnRead("out", b"o", PLACE)))
    assert "nobody has committed" in str(output)


def test_all_of_it_is_there_and_done_once() -> None:
    read = TxnRead("out", b"o", PLACE)
    acked = TxnAckAsked(TXN, "c", "s", (PLACE,), False)
    good = (OUTPUT, acked, ASKED, COMMITTED, received("other"), read)
    assert list(all_or_nothing(history(*good))) == []
    (lost,) = all_or_nothing(history(OUTPUT, ASKED, COMMITTED))
    assert "is not there" in str(lost)
    again = TxnAckAsked("(0,8)", "c", "s", (PLACE,), False)
    done = TxnEndTold("(0,8)", "committed")
    (twice,) = all_or_nothing(history(*good, again, TxnEndAsked("(0,8)", True), done))
    assert "acked by" in str(twice)
    assert list(all_or_nothing(history(*good, again))) == []  # it was never committed
    (returned,) = all_or_nothing(history(*good, received()))
    assert "had acked it" in str(returned)


def test_what_was_sent_again_is_there_once() -> None:
    read = TxnRead("out", b"o", PLACE)
    assert list(sent_once(history(read, read))) == []
    (twice,) = sent_once(history(read, TxnRead("out", b"o", Place(5, 1))))
    assert "is there at" in str(twice)


def test_what_is_told_is_what_is_so() -> None:
    unknown = TxnEndTold(TXN, "unknown")
    assert list(truthful(history(unknown, COMMITTED, TxnFound(TXN, "committed")))) == []
    (lied,) = truthful(history(ABORTED, TxnFound(TXN, "committed")))
    assert "was aborted before" in str(lied)
    (forgot,) = truthful(history(COMMITTED, TxnFound(TXN, "unknown")))
    assert "nobody knows it any more" in str(forgot)


def test_a_key_is_with_one_consumer_but_for_what_an_abort_takes_from_who_acked_it() -> None:
    both = [Subscribed(line, 1, "t", "s", "KeyShared", f"c{line}") for line in (1, 2)]

    def sent(line: int) -> Dispatched:
        return Dispatched(line, 1, 5, 0, 0b11, b"k", False)

    def acked(line: int) -> TxnAckCame:
        return TxnAckCame(line, 1, 9, ((5, 0, 0b10),), False, (), 7)

    assert list(one_holder(history(*both, sent(1), acked(1), sent(2), ABORTED))) == []
    (taken,) = one_holder(history(*both, sent(1), acked(2), sent(2), ABORTED))
    assert "hold entries of its key" in str(taken)
    assert len(list(one_holder(history(*both, sent(1), acked(1), sent(2), COMMITTED)))) == 1
    (again,) = one_holder(history(*both, sent(1), acked(1), sent(1), sent(2), ABORTED))
    assert "hold entries of its key" in str(again)


def test_what_is_pending_is_sent_to_nobody() -> None:
    subscribed = Subscribed(1, 2, "t", "s", "Shared", "c")
    came = TxnAckCame(1, 2, 9, ((5, 0, 0b10),), False, (), 7)
    answered = AckAnswered(1, 2, 9, "")

    def sent(unacked: int) -> Dispatched:
        return Dispatched(1, 2, 5, 0, unacked, b"", False)

    good = (subscribed, sent(0b11), came, answered, sent(0b10), COMMITTED)
    assert list(pending(history(*good))) == []
    assert list(pending(history(*good[:-1], sent(0b11), ABORTED))) == []
    (shown,) = pending(history(*good, sent(0b11)))
    assert "had acked it" in str(shown)
    through = TxnAckCame(1, 2, 10, ((5, 4, 0),), True, (), 7)
    later = (subscribed, through, AckAnswered(1, 2, 10, ""), sent(1), COMMITTED)
    assert len(list(pending(history(*later)))) == 1
