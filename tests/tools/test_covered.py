"""Coverage sees the workers of a run, and ends as the run ended."""

import subprocess
import sys
from pathlib import Path

import coverage
import covered
import pytest

# A program that starts another one, as pytest-xdist starts its workers.
DATA = "build/seen"
PROGRAM = "import subprocess, sys; subprocess.run([sys.executable, '-c', {!r}], check=True)"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.coverage.run]\nparallel = true\n")
    (tmp_path / "measured.py").write_text(
        "def half(x):\n    if x:\n        return 1\n    return 2\n"
    )
    monkeypatch.setattr(covered, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_a_child_ran_is_seen(tree: Path) -> None:
    child = "import measured; measured.half(1)"
    assert covered.main([DATA, sys.executable, "-c", PROGRAM.format(child)]) == 0
    data = coverage.CoverageData(DATA)
    data.read()
    assert data.lines(str(tree / "measured.py")) == [1, 2, 3]
    # The report reads the same, though it looks for parts beside it.
    report = [sys.executable, "-m", "coverage", "report", f"--data-file={DATA}", "--fail-under=75"]
    told = subprocess.run(report, capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, ""), told.stdout


def test_it_ends_as_the_command_did(tree: Path) -> None:
    assert covered.main([DATA, sys.executable, "-c", "import measured; raise SystemExit(3)"]) == 3
