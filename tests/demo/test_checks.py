"""Each check of the demo holds for a good run, and fails for the one thing that it is about."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from examples.demo import __main__ as demo
from examples.demo.checks import CHECKS, figures, judge
from examples.demo.facts import Facts, event_of

# A run in small: a batch of key a with a poison message, two orders of b the first of which is
# refused once, one in chunks, one that is delayed and one that is cancelled.
GOOD = """
W w1
W w2
P w1 5:0:0 a 0 c0 1100 0
N w1 5:0:1 a 1 c1 1101 0
N w1 5:0:2 a 2 c2 1102 0
A w1 5:0:0 1200
T 5:9:-1
N w2 5:1:-1 b 0 c3 1300 0
N w2 5:2:-1 b 1 c4 1301 0
N w1 5:0:1 a 1 c1 1500 1
T 5:0:1
P w2 5:1:-1 b 0 c3 1700 1
P w2 5:2:-1 b 1 c4 1701 1
A w2 5:1:-1 1750
X w2 1755
W w3
P w3 5:2:-1 b 1 c4 1760 2
A w3 5:2:-1 1770
K 1800
P w1 5:0:2 a 2 c2 1900 2
A w1 5:0:2 1950
P w3 5:5:-1 bulk 0 c5 1960 0
A w3 5:5:-1 1970
P w3 5:10:-1 later 0 c7 2500 0
A w3 5:10:-1 2600
S 5:0:0 a 0 plain c0 1000 0
S 5:0:1 a 1 poison c1 1000 0
S 5:0:2 a 2 plain c2 1000 0
S 5:1:-1 b 0 flaky c3 1001 0
S 5:2:-1 b 1 plain c4 1002 0
S 5:5:-1 bulk 0 large c5 1003 0
S 5:9:-1 gone 0 cancelled c6 1004 2400
S 5:10:-1 later 0 later c7 1005 2450
L a 0 c0
L a 1 c1
L a 2 c2
L b 0 c3
L b 1 c4
L bulk 0 c5
L gone 0 c6
L later 0 c7
R 0 5 2650
R 1 3 2700
R 1 3 2800
Z 2660
""".strip().splitlines()

Broken = Callable[[Facts], Facts]


def facts_of(lines: list[str]) -> Facts:
    return Facts.read(lines, 8, 3000, 0, 0, {})


def without(*lines: str) -> Broken:
    assert set(lines) <= set(GOOD)
    return lambda _: facts_of([line for line in GOOD if line not in lines])


def after(line: str, *more: str) -> Broken:
    at = GOOD.index(line) + 1
    return lambda _: facts_of([*GOOD[:at], *more, *GOOD[at:]])


def instead(line: str, other: str) -> Broken:
    at = GOOD.index(line)
    return lambda _: facts_of([*GOOD[:at], other, *GOOD[at + 1 :]])


def swapped(line: str, other: str) -> Broken:
    pair = {line: other, other: line}
    return lambda _: facts_of([pair.get(one, one) for one in GOOD])


def but(**values: Any) -> Broken:
    return lambda facts: replace(facts, **values)


REFUSED = [line for line in GOOD if line.startswith("N")]
ACKED = [line for line in GOOD if line.startswith("A")]
END = "A w3 5:10:-1 2600"

# What is done to the facts, and the check that must fail; no other may.
BREAKS: list[tuple[str, Broken]] = [
    ("everything_was_sent", but(planned=9)),
    ("nothing_was_lost", without("P w3 5:5:-1 bulk 0 c5 1960 0")),
    ("everything_is_acked", but(unacked=1)),
    ("everything_is_acked", without(*ACKED)),
    # Its ack was confirmed by an earlier life of the broker.
    ("nothing_came_back", after(END, "P w3 5:0:0 a 0 c0 2700 1")),
    # It had acked that itself.
    ("nothing_came_back", after(END, "N w3 5:5:-1 bulk 0 c5 2700 1")),
    (
        "keys_are_in_order",
        swapped("P w2 5:1:-1 b 0 c3 1700 1", "P w2 5:2:-1 b 1 c4 1701 1"),
    ),
    (
        "nothing_was_damaged",
        instead("P w3 5:5:-1 bulk 0 c5 1960 0", "P w3 5:5:-1 bulk 0 bad 1960 0"),
    ),
    (
        "nothing_was_early",
        instead("P w3 5:10:-1 later 0 c7 2500 0", "P w3 5:10:-1 later 0 c7 2449 0"),
    ),
    ("the_poison_is_gone", without("T 5:0:1")),
    ("the_poison_is_gone", after("T 5:0:1", "P w1 5:0:1 a 1 c1 1600 2")),
    ("the_poison_is_gone", after(END, *["N w1 5:0:1 a 1 c1 2700 2"] * 2)),
    ("the_cancelled_never_came", after(END, "P w1 5:9:-1 gone 0 c6 2700 0")),
    ("the_cancelled_never_came", without("T 5:9:-1")),
    ("the_cancelled_never_came", but(ended_ms=2400)),
    ("there_was_trouble", without("X w2 1755")),
    ("there_was_trouble", without("K 1800")),
    ("there_was_trouble", without(*REFUSED)),
    ("the_lake_is_exact", without("L b 1 c4")),
    ("the_lake_is_exact", after("L b 1 c4", "L b 1 c4")),
    ("the_lake_is_exact", after("L b 1 c4", "L b 2 c4")),
    ("the_lake_is_exact", instead("L bulk 0 c5", "L bulk 0 bad")),
    ("the_archive_is_acked", but(unarchived=1)),
]


def failing(facts: Facts) -> list[str]:
    return [check.__name__ for check in CHECKS if not check(facts).holds]


def test_a_good_run_passes_every_check() -> None:
    assert failing(facts_of(GOOD)) == []
    assert len(judge(facts_of(GOOD))) == len(CHECKS)


@pytest.mark.parametrize(("name", "broken"), BREAKS)
def test_what_is_broken_fails_its_check(name: str, broken: Broken) -> None:
    assert failing(broken(facts_of(GOOD))) == [name]


def test_every_check_can_fail() -> None:
    assert {name for name, _ in BREAKS} == {check.__name__ for check in CHECKS}


def test_a_run_in_which_nothing_happened_proves_nothing() -> None:
    assert {"everything_was_sent", "everything_is_acked", "the_poison_is_gone"} <= set(
        failing(facts_of([]))
    )
    assert {"the_cancelled_never_came", "there_was_trouble", "the_lake_is_exact"} <= set(
        failing(facts_of([]))
    )


def test_a_message_of_the_batch_of_the_poison_must_be_handled() -> None:
    facts = without("P w1 5:0:2 a 2 c2 1900 2")(facts_of(GOOD))
    assert failing(facts) == ["nothing_was_lost", "the_poison_is_gone"]


def test_one_copy_of_the_poison_may_be_on_its_way_when_it_is_skipped() -> None:
    assert failing(after("T 5:0:1", "N w1 5:0:1 a 1 c1 1510 1")(facts_of(GOOD))) == []


def test_what_another_worker_was_about_to_be_given_did_not_come_back() -> None:
    assert failing(after("A w3 5:2:-1 1770", "P w1 5:2:-1 b 1 c4 1771 3")(facts_of(GOOD))) == []


def test_the_table_counts() -> None:
    assert {name: value for name, value, _ in figures(facts_of(GOOD))} == {
        "sent": 8,
        "processed": 6,
        "acked": 6,
        "handed out again": 5,
        "came back after ack": 0,
        "lost": 0,
        "out of order": 0,
        "rows in the lake": 8,
    }


def test_what_fails_is_shown_and_is_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    facts = facts_of(GOOD)
    demo.show(Console(width=200), facts, judge(facts))
    assert (capsys.readouterr().out.count("✗"), demo.code_of(judge(facts))) == (0, demo.DONE)
    facts = but(unacked=1, unarchived=2)(facts)
    demo.show(Console(width=200), facts, judge(facts))
    said = capsys.readouterr().out
    assert said.count("✗") == 2
    assert "✗ what is archived is acked: 2 unacked" in said
    assert demo.code_of(judge(facts)) == demo.FAILED


def test_a_line_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="no such fact: 'Q w1'"):
        event_of("Q w1")
