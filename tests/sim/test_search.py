"""The search: it splits over processes, outlives their deaths, and goes on where it stopped."""

from pathlib import Path

import pytest
from sim import case, crew, life, search
from sim.case import other_life, run_case, try_case
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
        book.add(1, Result(10))
        book.add(2, Result(error="Stuck: I3"))
        with pytest.raises(Busy, match="another search"):
            Logbook(path)
    with path.open("a") as file:
        file.write('\n{"seed": 3, "fac')
    with Logbook(path) as book:
        assert book.results == {1: Result(10), 2: Result(error="Stuck: I3")}
        book.add(3, Result(7))
    with Logbook(path) as book:
        assert book.results[3] == Result(7)
        assert list(book.failed()) == [2]
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
        book.add(10, Result(error="Stuck: I3"))
        assert Search(range(10, 14), book, jobs=2).run() == 1
    told = capsys.readouterr().out
    assert "goes on where it stopped" in told
    assert "seed 10: Stuck: I3\n  to repeat it:  make sim SEED=10" in told
    assert "seed 12: Broken: it is\n  to repeat it:  make sim SEED=12" in told
    assert "4 of 4 seeds, 2 failed," in told
    assert "4 seeds, 24 facts, 2 failed: 10, 12" in told
    with Logbook(tmp_path / "log.jsonl") as book:
        assert Search(range(10, 14), book, jobs=2).run() == 1
    assert "seeds 10 to 13 are all done with this build" in capsys.readouterr().out


def test_a_search_that_is_interrupted_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(search, "try_case", try_light)
    with Logbook(tmp_path / "log.jsonl") as book:
        add = book.add

        def add_one(seed: int, result: Result) -> None:
            add(seed, result)
            raise KeyboardInterrupt

        monkeypatch.setattr(book, "add", add_one)
        assert Search(range(4), book, jobs=1).run() == search.INTERRUPTED
    assert "the same command goes on from here" in capsys.readouterr().out
    assert book.results == {0: Result(0)}


def fail(seed: int, **options: object) -> Simulation:
    raise PowerLost("no power")


def test_a_search_outlives_a_program_that_met_a_disk_without_power(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(life, "run_seed", fail)
    assert try_case(3) == Result(error="PowerLost: no power")


def test_a_failure_of_another_life_says_which_life_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = next(seed for seed in range(100) if other_life(seed) == "store")
    monkeypatch.setitem(case.OTHERS, "store", fail)
    monkeypatch.setattr(life, "run_seed", lambda seed, **options: Simulation(seed))
    expected = f"PowerLost: no power in the life 'store' of seed {seed}"
    assert try_case(seed) == Result(error=expected)


def test_each_life_has_its_share_of_seeds() -> None:
    drawn = [other_life(seed) for seed in range(800)]
    for other in case.OTHERS:
        assert 25 < drawn.count(other) < 80
    assert drawn.count("") > 500


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
    run_case(2, watch=seen.append)
    assert try_case(2).facts == len(seen[0].history)
    assert seen[0].loop.trace.count > 100
