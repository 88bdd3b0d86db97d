"""Backlogs: every unacked entry in one task, none that is acked."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.arrow.plan.backlog import Backlog, Run, plan_backlog

ENTRIES = st.sets(st.tuples(st.integers(1, 3), st.integers(0, 60)))


def runs_of(entries: set[tuple[int, int]]) -> list[Run]:
    """The runs that these entries make."""
    runs: list[Run] = []
    for ledger, entry in sorted(entries):
        if runs and runs[-1][0] == ledger and runs[-1][2] == entry:
            runs[-1] = (ledger, runs[-1][1], entry + 1)
        else:
            runs.append((ledger, entry, entry + 1))
    return runs


@given(ENTRIES, ENTRIES, st.integers(0, 20), st.integers(0, 10))
def test_each_entry_is_in_one_task(
    one: set[tuple[int, int]], other: set[tuple[int, int]], wanted: int, gap_max: int
) -> None:
    unacked = {"a": one, "b": other}
    picked = dict.fromkeys(sorted(one)[::3], 5)
    backlogs = {"a": Backlog(runs_of(one), picked), "b": Backlog(runs_of(other), {})}
    splits = plan_backlog(backlogs, wanted, gap_max)
    for topic, entries in unacked.items():
        found = [
            (ledger, entry)
            for name, _, _, runs, _ in splits
            if name == topic
            for ledger, first, end in runs
            for entry in range(first, end)
        ]
        assert found == sorted(entries)
    for _, start, end, runs, _ in splits:
        assert (start, end) == ((*runs[0][:2], 0), (runs[-1][0], runs[-1][2], 0))
    assert len(splits) >= min(wanted, len(one) + len(other))
    bits = {(ledger, entry) for _, _, _, _, bits in splits for ledger, entry, _ in bits}
    assert bits == set(picked)


def test_runs_that_are_close_are_read_at_one_go() -> None:
    backlog = Backlog([(1, 0, 2), (1, 5, 6), (1, 100, 101), (2, 0, 1)], {(1, 1): 0b110})
    assert backlog.entries == 5
    assert plan_backlog({"t": backlog}, 0) == [
        ("t", (1, 0, 0), (1, 6, 0), [(1, 0, 2), (1, 5, 6)], [(1, 1, "6")]),
        ("t", (1, 100, 0), (1, 101, 0), [(1, 100, 101)], []),
        ("t", (2, 0, 0), (2, 1, 0), [(2, 0, 1)], []),
    ]
    assert plan_backlog({}, 4) == []
