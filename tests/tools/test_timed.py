"""The parts of `make test` end as their commands do, and a table says what they took."""

import sys
from pathlib import Path

import pytest
import timed


@pytest.fixture(autouse=True)
def _parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed, "PARTS", tmp_path / "build" / "parts")


def test_a_part_ends_as_its_command_and_is_in_the_table(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert timed.main(["--begin"]) == 0
    assert timed.main(["good", sys.executable, "-c", "print('said')"]) == 0
    assert timed.main(["bad", sys.executable, "-c", "raise SystemExit(3)"]) == 3
    said = capfd.readouterr().out
    assert "== good\nsaid\n" in said
    assert "== bad: FAILED, 3 from" in said
    assert timed.main(["--table"]) == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["part", "good", "bad", "all"]
    assert (lines[1][-1], lines[2][-1]) == ("ok", "FAILED")


def test_a_new_run_begins_with_an_empty_table() -> None:
    timed.main(["--begin"])
    timed.main(["old", sys.executable, "-c", ""])
    timed.main(["--begin"])
    assert "old" not in timed.table(timed.PARTS.read_text(), 0)


def test_the_whole_is_by_the_clock_and_the_cpu_is_a_sum() -> None:
    kept = "100.0\ncompile\t90\t160\tok\ntests\t200\t250\tok\n"
    assert timed.table(kept, 400.0).splitlines()[-1].split() == ["all", "300", "410"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans on")
def test_the_time_of_a_process_that_nobody_waited_for_is_counted() -> None:
    # The child ends before its own, which computes for a while; the pipe tells when it has.
    burn = "import time\nwhile time.process_time() < 1.5: pass"
    leave = (
        "import os, subprocess, sys; r, w = os.pipe();"
        f"subprocess.Popen([sys.executable, '-c', {burn!r}], pass_fds=[w]); os.close(w);"
        "os.read(r, 1); os._exit(0)"
    )
    timed.main(["--begin"])
    timed.main(["left", sys.executable, "-c", leave])
    row = timed.table(timed.PARTS.read_text(), 0).splitlines()[1].split()
    assert int(row[2]) >= 1
