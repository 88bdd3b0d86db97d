"""The audit tells flaws, says when it could learn nothing, and takes silence for no verdict."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.program import load

ROOT = Path(__file__).parent.parent.parent
WELL = {"name": "uv", "version": "1.0", "vulns": []}
SKIPPED = {"name": "uv", "skip_reason": "Dependency not found"}
FLAW = {"id": "PYSEC-1", "fix_versions": ["1.1"], "aliases": [], "description": ""}
FLAWED = {"name": "uv", "version": "1.0", "vulns": [FLAW]}


def tool_of(place: Path) -> Any:
    """The tool, with a pip-audit and a memory of its own."""
    tool: Any = load(ROOT / "tools" / "audit.py")
    tool.SUPPLY, tool.DONE = place, place / "audit.done"
    return tool


def audit(place: Path, answer: str) -> tuple[int, Path]:
    """What the tool makes of a pip-audit that answers so for every file."""
    tool = tool_of(place)
    program = place / "pip-audit"
    program.write_text(f"#!/bin/sh\necho asked >> {place}/asked\ncat <<'END'\n{answer}\nEND\n")
    program.chmod(0o755)
    return tool.main(), tool.DONE


def report(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def test_what_is_well_is_asked_once_a_day(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        code, done = audit(tmp_path, report(WELL))
        assert (code, capsys.readouterr().out) == (0, "")
        assert done.exists()
    assert len((tmp_path / "asked").read_text().split()) == 5, "once for each file"


def test_a_known_flaw_fails_and_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, done = audit(tmp_path, report(FLAWED))
    assert (code, done.exists()) == (1, False)
    told = capsys.readouterr().out
    assert told == "audit: uv 1.0 has PYSEC-1, mended in 1.1: edit pyproject.toml, make lock\n"


@pytest.mark.parametrize("answer", [report(SKIPPED), "", "refused"])
def test_an_index_that_says_nothing_is_told_in_a_line(
    answer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, done = audit(tmp_path, answer)
    assert (code, done.exists()) == (0, False)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("audit: not done, ")
    assert (tmp_path / "asked").read_text().split() == ["asked"], "once is enough"


def test_without_pip_audit_it_says_so_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool_of(tmp_path).main() == 0
    assert capsys.readouterr().out == "audit: not done, pip-audit cannot be installed here\n"


def test_what_runs_is_pinned_as_what_is_tested() -> None:
    def pins(name: str) -> set[str]:
        lines = (ROOT / "requirements" / f"{name}.lock").read_text().splitlines()
        return {line.split()[0] for line in lines if line[:1].isalnum()}

    assert pins("runtime"), "no pins were read"
    assert pins("runtime") <= pins("dev"), "make lock"
