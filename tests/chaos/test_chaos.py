"""Acks stick in the real world too: processes, TCP, and kill -9.

MAGNETAR_CHAOS_MESSAGES and MAGNETAR_CHAOS_SECONDS make the runs longer.
"""

import os
from pathlib import Path

import pytest
from chaos.facts import Facts
from chaos.run import Plan, run

MESSAGES = int(os.environ.get("MAGNETAR_CHAOS_MESSAGES", "2000"))
SECONDS = float(os.environ.get("MAGNETAR_CHAOS_SECONDS", "6"))
SEED = int(os.environ.get("MAGNETAR_CHAOS_SEED", "1"))

PLANS = {
    "Key_Shared": ("KeyShared", 3, False),
    "Failover": ("Failover", 2, True),
    "Exclusive": ("Exclusive", 1, True),
}


@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_lost_and_nothing_that_was_acked_comes_back(name: str, tmp_path: Path) -> None:
    type, workers, cumulative = PLANS[name]
    plan = Plan(type, workers, cumulative, True, MESSAGES, SECONDS, seed=SEED)
    ran, facts = run(plan, tmp_path)
    verdict = facts.judge(ran.sent)
    assert facts.count.kills > 0, "the broker was never killed"
    assert len(ran.sent) == MESSAGES
    assert verdict.fine, verdict
    # What a consumer has acked it remembers through everything, confirmed or not.
    assert facts.count.same_worker == 0


GOOD = [
    "W w0",
    "P w0 1:0:0 a 0",
    "P w0 1:1:0 a 1",
    "Q w0 1:0:0",
    "A w0 1:0:0",
    "K",
    "P w0 1:1:0 a 1",
    "Q w0 1:1:0",
    "C w0 1:1:0",
]


def test_a_good_run_is_fine_and_counted() -> None:
    facts = Facts(GOOD)
    assert facts.judge([("a", 0), ("a", 1)]).fine
    count = facts.count
    assert (count.handed, count.again, count.same_worker, count.kills) == (3, 1, 0, 1)
    assert facts.acked == 2


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("P w1 1:0:0 a 0", "came_back"),
        ("P w0 1:1:0 a 1", "twice"),
        ("P w0 1:3:0 b 3\nP w0 1:2:0 b 2", "out_of_order"),
    ],
)
def test_what_is_wrong_is_found(line: str, wrong: str) -> None:
    verdict = Facts([*GOOD, *line.splitlines()]).judge([("a", 0)])
    assert not verdict.fine
    assert [name for name in vars(verdict) if getattr(verdict, name)] == [wrong]


def test_what_is_missing_is_lost() -> None:
    assert Facts(GOOD).judge([("a", 0), ("a", 2)]).lost == ["a 2"]
