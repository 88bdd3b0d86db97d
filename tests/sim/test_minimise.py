"""A failure is made small, and what is left of it is a story."""

from collections.abc import Iterable, Sequence

import pytest
from sim import life, search
from sim.case import Case
from sim.minimise import Minimiser, attempt, describe, reduce_items
from sim.timeline import Timeline

from magnetar.testing import History, Violation
from magnetar.testing.checker.history import Received, Sent

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
SEED = 86
RUNS = 25


def test_items_that_are_not_needed_are_dropped() -> None:
    asked: list[Sequence[int]] = []

    def test(left: Sequence[int]) -> bool:
        asked.append(left)
        return 3 in left and 17 in left

    assert reduce_items(range(20), test) == [3, 17]
    assert len(asked) < 60
    assert reduce_items(range(20), lambda left: True) == []
    assert reduce_items([5], lambda left: 5 in left) == [5]


def third_message(history: History) -> Iterable[Violation]:
    """Somebody is handed the third message of a producer, which is what is wrong here."""
    for fact in history.of(Received):
        if fact.payload.startswith(b"p0 2"):
            yield Violation("I0", f"{fact} was handed out")
            return


def test_a_failure_becomes_smaller_and_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "CHECKERS", [third_message])
    (scenario, *_) = Case(SEED).scenarios()
    failure = attempt(SEED, scenario)
    assert failure is not None
    assert failure.sign == "I0"
    told: list[str] = []
    minimiser = Minimiser(SEED, failure, told.append, runs_max=RUNS)
    least = minimiser.run()
    assert minimiser.runs == RUNS
    assert least.sign == "I0"
    assert len(least.simulation.history) < len(failure.simulation.history)
    assert told
    assert all("still fails" in line for line in told)
    # It can be had again.
    again = attempt(SEED, least.scenario)
    assert again is not None
    assert again.simulation.history.facts == least.simulation.history.facts
    assert "messages are sent" in next(describe(least))
    _check_timeline(Timeline(least.simulation, least.error))


def _check_timeline(timeline: Timeline) -> None:
    wrong = [step for step in timeline.steps if step.wrong]
    assert [step.title for step in wrong] == ["Received"]
    assert timeline.steps[-1] is wrong[0]
    assert [step.at_s for step in timeline.steps] == sorted(step.at_s for step in timeline.steps)
    titles = [step.title for step in timeline.steps]
    assert titles.index(Sent.__name__) < titles.index("Dispatched") < titles.index("Received")
    text = timeline.text()
    assert "\n✗ " in text
    page = timeline.page("A <title>", ["a & b"])
    assert "A &lt;title&gt;" in page
    assert "a &amp; b" in page
    assert page.count("class='row wrong'") == 1
    assert "<script" not in page
    assert "http" not in page


def test_a_seed_that_does_not_fail_is_not_made_smaller(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(life, "CHECKERS", [])
    assert search.main(["--seed", str(SEED), "--minimise"]) == 0
    assert "does not fail" in capsys.readouterr().out
