"""What benchmarks/compare_builds.py makes of the figures of two builds."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_figures_are_read_from_tables_and_those_of_others_left_out() -> None:
    from compare_builds import read_tables

    text = (
        "client, 100,000 messages\n"
        "             rate       latency  target\n"
        "  ---------  ---------  -------  -------\n"
        "  send       120,000/s  1.5 ms   100,000/s\n"
        "  official   10/s       9 ms     \n"
    )
    assert read_tables(text) == {
        ("client, 100,000 messages", "send", "rate"): (120_000.0, "/s"),
        ("client, 100,000 messages", "send", "latency"): (1.5, "ms"),
    }


@pytest.mark.parametrize(
    ("ratios", "unit", "said"),
    [
        ([1.0, 1.02, 0.98], "/s", ""),
        ([0.9, 0.91, 0.92], "/s", "worse"),
        ([0.9, 0.91, 0.92], "ms", "better"),
        ([0.5, 0.95, 1.5, 0.96, 1.2, 0.9, 0.94], "/s", "worse?"),
        ([1.1], "/s", "better"),
    ],
)
def test_a_verdict_says_so_when_the_rounds_do_not_agree(
    ratios: list[float], unit: str, said: str
) -> None:
    from compare_builds import verdict

    assert verdict(ratios, unit) == said
