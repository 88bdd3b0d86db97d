"""The report of a run: its sentence, its colours, its clock."""

import re
from pathlib import Path

from demo.test_checks import GOOD

from examples.demo.checks import judge
from examples.demo.facts import Facts
from examples.demo.report import archived, growth, killed, machine, sentence, write_report

BEGAN_MS = 500


def facts_of(lines: list[str]) -> Facts:
    return Facts.read(lines, 8, 3000, 0, 0, {"orders": 1.0})


def page(lines: list[str], path: Path) -> str:
    facts = facts_of(lines)
    events = [(1.3, "the broker is killed with SIGKILL", "red")]
    report = write_report(facts, judge(facts), events, BEGAN_MS, "interpreted", path / "r.html")
    return report.read_text()


def test_it_opens_with_one_sentence_in_green_if_all_holds(tmp_path: Path) -> None:
    text = page(GOOD, tmp_path)
    first = re.search(r'<p class="verdict (\w+)">(.*?)</p>', text)
    assert first is not None
    assert text.index("verdict good") < text.index("<dl>")
    assert first[1] == "good"
    assert first[2] == (
        "All N checks hold: of 8 orders none was lost, none came back after its ack and none was "
        "out of order, although w2 was killed, the broker was killed and Spark was killed by "
        "SIGKILL."
    ).replace("N", str(len(judge(facts_of(GOOD)))), 1)
    assert text.count('class="s good"') == len(judge(facts_of(GOOD)))
    assert 'class="s bad"' not in text


def test_what_does_not_hold_is_red_and_named_first(tmp_path: Path) -> None:
    lines = [line for line in GOOD if line != "K 1800"]
    text = page(lines, tmp_path)
    wrong = [check for check in judge(facts_of(lines)) if not check.holds]
    assert wrong
    assert f'class="verdict bad">{len(wrong)} of ' in text
    assert text.count('class="s bad"') == len(wrong)
    assert all(check.name in sentence(facts_of(lines), wrong) for check in wrong)


def test_kills_are_marked_in_the_charts_on_the_clock_of_the_table(tmp_path: Path) -> None:
    assert [(at - BEGAN_MS) / 1000 for at, _ in killed(facts_of(GOOD))] == [1.255, 1.3, 2.16]
    text = page(GOOD, tmp_path)
    # The broker was killed 1.3 s after the start, by the table and by the chart.
    assert '<td class="s">1.3 s</td><td' in text
    charts = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    for chart in charts[:2]:
        for what in ("w2 was killed", "the broker was killed", "Spark was killed"):
            assert f">{what}<" in chart
        assert "seconds since the start" in chart


def test_the_lake_has_a_line_and_a_batch_that_is_run_again_counts_once(tmp_path: Path) -> None:
    assert [event.rows for event in archived(facts_of(GOOD))] == [5, 3]
    charts = re.findall(r"<svg.*?</svg>", page(GOOD, tmp_path), re.DOTALL)
    assert ">in the lake<" in charts[1]


def test_a_batch_that_spark_was_killed_behind_is_in_the_line_of_the_lake() -> None:
    assert growth(facts_of(GOOD)) == [(2650, 5), (2800, 3)]
    untold = [line for line in GOOD if not line.startswith("R 0")]
    spark_killed = next(at for at, what in killed(facts_of(GOOD)) if what.startswith("Spark"))
    assert growth(facts_of(untold)) == [(2800, 3), (spark_killed, 5)]


def test_build_and_machine_are_named(tmp_path: Path) -> None:
    text = page(GOOD, tmp_path)
    assert "<dt>build</dt><dd>interpreted</dd>" in text
    assert machine() in text
