"""Tests that fail now and then are named, with how often they did."""

import subprocess
import sys
from pathlib import Path

import pytest
import steady

# Fails in every second run: it keeps what it saw beside it.
MOODY = """
import pathlib

def test_moody():
    seen = pathlib.Path(__file__).with_name("seen")
    seen.write_text((seen.read_text() if seen.exists() else "") + "x")
    assert len(seen.read_text()) % 2 == 1

def test_steady():
    assert True
"""


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(steady, "ROOT", tmp_path)
    monkeypatch.setattr(steady, "LOGS", tmp_path / "logs")
    return tmp_path / "logs"


def run(folder: Path, text: str, runs: int) -> int:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(text)
    asked = ["--runs", str(runs), "--load", "0", "--workers", "0"]
    return steady.main([*asked, str(folder / "test_it.py")])


def test_a_moody_test_is_named_and_its_output_kept(
    tmp_path: Path, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, MOODY, 3) == 1
    said = capsys.readouterr().out
    assert "1 of 3  test_it.py::test_moody" in said
    assert "test_steady" not in said
    assert [path.name for path in logs.iterdir()] == ["2.log"]


def test_steady_tests_are_praised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "def test_it():\n    assert True\n", 2) == 0
    assert "2 runs, none failed" in capsys.readouterr().out


def test_a_run_that_never_came_to_its_tests_has_failed() -> None:
    assert steady.failures("no such file", 4) == ["pytest ended with 4"]
    assert steady.failures("1 passed", 0) == []


def test_the_load_ends_with_its_block() -> None:
    with steady.load(2):
        pass
    with pytest.raises(KeyError), steady.load(1):
        raise KeyError


def test_the_load_ends_with_whoever_made_it() -> None:
    nobody = "-1"  # is not its parent
    ran = subprocess.run([sys.executable, "-c", steady.BURNER, nobody], timeout=60)
    assert ran.returncode == 0
