"""A part of `make test` is left out only if nothing changed since it passed."""

import sys
from pathlib import Path

import pytest
import unchanged
from programs import PROGRAMS as TESTED

COUNT = "import pathlib; p = pathlib.Path(r'{}'); p.write_text(p.read_text() + 'x')"


class Part:
    """A command that counts how often it ran, over a tree of its own."""

    def __init__(self, root: Path) -> None:
        self.tree = root / "tree"
        self._runs = root / "runs"
        self._runs.write_text("")
        (self.tree / "src").mkdir(parents=True)
        self.source = self.tree / "src" / "a.py"
        self.source.write_text("a = 1\n")

    def run(self, also: str = "") -> int:
        program = COUNT.format(self._runs) + also
        return unchanged.main(["part", sys.executable, "-c", program])

    @property
    def runs(self) -> int:
        return len(self._runs.read_text())


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Part:
    part = Part(tmp_path)
    monkeypatch.setattr(unchanged, "ROOT", part.tree)
    monkeypatch.setattr(unchanged, "PASSED", part.tree / ".build" / "passed")
    for name in ("CI", "FORCE"):
        monkeypatch.delenv(name, raising=False)
    return part


def test_what_passed_is_not_run_again(part: Part, capfd: pytest.CaptureFixture[str]) -> None:
    assert (part.run(), part.run(), part.runs) == (0, 0, 1)
    said = capfd.readouterr().out
    assert "unchanged since it passed at" in said
    assert "FORCE=1" in said


def test_a_program_that_tests_use_and_is_new_here_runs_it_again(
    part: Part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or its tests would never run once it is installed."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    for runs, name in enumerate(("", *[program for program, _, _ in TESTED]), 1):
        if name:
            (programs / name).write_text("#!/bin/sh\n")
            (programs / name).chmod(0o755)
        part.run()
        assert part.runs == runs, name


@pytest.mark.parametrize("name", ["CI", "FORCE"])
def test_it_can_be_forced(part: Part, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part.run()
    monkeypatch.setenv(name, "1")
    part.run()
    assert part.runs == 2


def test_every_change_runs_it_again(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    part.run()
    part.source.write_text("a = 2\n")
    part.run()
    assert part.runs == 2
    part.source.with_name("b.py").write_text("")
    part.run()
    assert part.runs == 3
    part.source.with_name("b.py").rename(part.source.with_name("c.py"))
    part.run()
    assert part.runs == 4
    monkeypatch.setenv("MAGNETAR_SIM_SEEDS", "7")
    part.run()
    assert part.runs == 5
    part.run("; other = 1")
    assert part.runs == 6
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.metadata.distributions", list)
    part.run("; other = 1")
    assert part.runs == 7


def test_what_is_built_is_no_change(part: Part) -> None:
    part.run()
    cache = part.tree / "src" / "__pycache__"
    cache.mkdir()
    (cache / "a.pyc").write_bytes(b"")
    (part.tree / ".coverage").write_bytes(b"")
    part.run()
    assert part.runs == 1


def test_what_failed_is_run_again(part: Part) -> None:
    assert part.run("; raise SystemExit(3)") == 3
    assert part.run("; raise SystemExit(3)") == 3
    assert part.runs == 2


def test_a_failure_forgets_that_it_passed(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    flag = part.tree / ".build" / "flag"
    also = f"; raise SystemExit(pathlib.Path(r'{flag}').exists())"
    assert part.run(also) == 0
    flag.write_text("")
    with monkeypatch.context() as context:
        context.setenv("FORCE", "1")
        assert part.run(also) == 1
    flag.unlink()
    assert part.run(also) == 0
    assert part.runs == 3


def test_a_change_while_it_runs_is_not_taken_for_tested(part: Part) -> None:
    also = f"; pathlib.Path(r'{part.source}').write_text('a = 3')"
    assert part.run(also) == 0
    part.run(also)
    assert part.runs == 2
