"""The search: it splits over processes, outlives their deaths, and goes on where it stopped."""

import os
from pathlib import Path

import pytest
from sim import case, crew, life, search
from sim.case import Case, run_case, try_case
from sim.corpus import Coverage, children, read_corpus
from sim.crew import Crew
from sim.light_cases import DEADLY, SILENT, square, try_light
from sim.logbook import Busy, Logbook, build_digest
from sim.result import Result
from sim.search import Search

from magnetar.testing import PowerLost, Simulation


def test_every_case_is_run_once_and_a_death_is_told_with_its_case() -> None:
    with Crew[int, int | str](2, square, str) as hands:
        found = list(hands.results(n for n in range(8) if n != SILENT))
    results = dict(found)
    assert len(found) == len(results) == 7
    assert results.pop(DEADLY) == "its process died: SIGKILL"
    assert all(result == number * number for number, result in results.items())


def test_a_case_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "ENDLESS_S", 1.0)
    with Crew[int, int | str](1, square, str) as hands:
        found = list(hands.results(iter([SILENT])))
    assert found == [(SILENT, "it did not end within 1 s")]


def test_a_logbook_remembers_what_was_done_in_spite_of_a_line_that_was_cut_off(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.jsonl"
    with Logbook(path) as book:
        book.add(Case(1), Result(10))
        book.add(Case(2), Result(error="Stuck: I3"))
        with pytest.raises(Busy, match="another search"):
            Logbook(path)
    with path.open("a") as file:
        file.write('\n{"case": "3", "fac')
    with Logbook(path) as book:
        assert book.results == {Case(1): Result(10), Case(2): Result(error="Stuck: I3")}
        book.add(Case(3, 5), Result(7, states=frozenset({"a", "b"})))
    with Logbook(path) as book:
        assert book.results[Case(3, 5)] == Result(7, states=frozenset({"a", "b"}))
        assert list(book.failed()) == [Case(2)]
        book.forget()
    with Logbook(path) as book:
        assert book.results == {}


def test_the_digest_of_a_build_is_the_same_as_long_as_the_build_is() -> None:
    assert build_digest() == build_digest()


def test_a_search_goes_on_where_it_stopped_and_says_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(search, "try_case", try_light)
    with Logbook(tmp_path / "log.jsonl") as book:
        book.add(Case(10), Result(error="Stuck: I3"))
        assert Search([Case(seed) for seed in range(10, 14)], book, jobs=2).run() == 1
    told = capsys.readouterr().out
    assert "goes on where it stopped" in told
    assert "seed 10: Stuck: I3\n  to repeat it:  make sim SEED=10" in told
    assert "seed 12: Broken: it is\n  to repeat it:  make sim SEED=12" in told
    assert "4 of 4 seeds, 2 failed," in told
    assert "4 seeds, 24 facts, 2 failed: 10, 12" in told
    with Logbook(tmp_path / "log.jsonl") as book:
        assert Search([Case(seed) for seed in range(10, 14)], book, jobs=2).run() == 1
    assert "seeds 10 to 13 are all done with this build" in capsys.readouterr().out


def test_a_search_that_is_interrupted_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(search, "try_case", try_light)
    with Logbook(tmp_path / "log.jsonl") as book:
        add = book.add

        def add_one(case: Case, result: Result) -> None:
            add(case, result)
            raise KeyboardInterrupt

        monkeypatch.setattr(book, "add", add_one)
        assert Search([Case(seed) for seed in range(4)], book, jobs=1).run() == search.INTERRUPTED
    assert "the same command goes on from here" in capsys.readouterr().out
    assert list(book.results) == [Case(0)]


def fail(*_: object, **options: object) -> Simulation:
    raise PowerLost("no power")


def test_a_search_outlives_a_program_that_met_a_disk_without_power(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(life, "run_scenario", fail)
    assert try_case(Case(3)) == Result(error="PowerLost: no power")


def test_a_failure_of_another_life_says_which_life_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = next(seed for seed in range(100) if Case(seed).other() == "store")
    monkeypatch.setitem(case.OTHERS, "store", fail)
    monkeypatch.setattr(life, "run_scenario", lambda luck, scenario, **options: None)
    expected = f"PowerLost: no power in the life 'store' of seed {seed}"
    assert try_case(Case(seed)) == Result(error=expected)


def test_one_life_of_a_seed_can_be_named() -> None:
    case = Case.parse("7:transactions")
    assert (case.seed, case.luck, str(case), case.other()) == (7, 7, "7:transactions", "")
    (scenario,) = case.scenarios()
    assert scenario == life.transactions_of(7)
    assert Case.parse("7.3:swarm").luck == Case.parse("7.3").luck
    with pytest.raises(ValueError, match="'swarms' is no life: life, swarm, transactions are"):
        Case.parse("7:swarms")


def test_each_life_has_its_share_of_seeds() -> None:
    drawn = [Case(seed).other() for seed in range(800)]
    for other in case.OTHERS:
        assert 25 < drawn.count(other) < 80
    assert 300 < drawn.count("swarm") < 500


def test_a_seed_that_fails_shows_its_trace_and_its_history(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(life, "CHECKERS", [fail])
    assert search.main(["--seed", "1", "--trace"]) == 1
    told = capsys.readouterr()
    assert " process broker started as " in told.out
    assert "\n---- the history\n0 " in told.out
    assert "make sim SEED=1" in told.out
    assert "PowerLost: no power" in told.err


def test_a_search_writes_no_trace_and_comes_to_the_same_history() -> None:
    seen: list[Simulation] = []
    run_case(Case(2), watch=seen.append)
    result = try_case(Case(2))
    assert result.facts == sum(len(simulation.history) for simulation in seen)
    assert all(simulation.loop.trace.count > 100 for simulation in seen)
    assert "Dispatched x" in " ".join(result.states)


# ---- Children, and the corpus ------------------------------------------------


def test_a_child_has_the_scenario_of_its_seed_and_other_luck() -> None:
    child = Case.parse("7.3")
    assert (child, str(child)) == (Case(7, 3), "7.3")
    assert child.scenarios() == Case(7).scenarios()
    assert len({child.luck, Case(7).luck, Case(7, 4).luck, Case(73).luck}) == 4
    with pytest.raises(ValueError, match="x"):
        Case.parse("x")


def test_the_corpus_has_the_fewest_seeds_that_reach_everything(tmp_path: Path) -> None:
    coverage = Coverage()
    assert coverage.add(Case(1), frozenset({"a"}))
    assert coverage.add(Case(2), frozenset({"a", "b", "c"}))
    assert not coverage.add(Case(3), frozenset({"b", "c"}))
    assert coverage.add(Case(4, 1), frozenset({"c", "d"}))
    assert coverage.write(tmp_path / "corpus.txt") == 2
    corpus = read_corpus(tmp_path / "corpus.txt")
    assert corpus == [Case(2), Case(4, 1)]
    assert "2  3 new: a; b" in (tmp_path / "corpus.txt").read_text()
    assert children(corpus, 1, 3) == [Case(4, 1), Case(2, 2), Case(4, 2)]


CORPUS = int(os.environ.get("MAGNETAR_SIM_CORPUS", "4"))


@pytest.mark.parametrize("case", read_corpus()[:CORPUS], ids=str)
def test_seeds_of_the_corpus_violate_nothing(case: Case) -> None:
    result = try_case(case)
    assert result.error == ""
    assert result.facts > 100
