"""What tests would use is named where it is missing, and installed where somebody wants that."""

from pathlib import Path
from types import ModuleType

import pytest
from support.program import load

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name in ("INSTALL", "CI"):
        monkeypatch.delenv(name, raising=False)
    return load(ROOT / "tools" / "programs.py")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its apt-get notes what it is asked for, and nobody but root may call it."""
    programs = tmp_path / "bin"
    programs.mkdir()
    add(programs, "apt-get", f'echo "$@" >> {tmp_path}/asked')
    (programs / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return programs


def add(programs: Path, name: str, does: str = "true") -> None:
    program = programs / name
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)


def asked(machine: Path) -> str:
    file = machine.parent / "asked"
    return file.read_text() if file.exists() else ""


def test_where_nobody_asks_for_it_nothing_is_installed_and_one_line_names_it(
    tool: ModuleType, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main() == 0
    assert asked(machine) == ""
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    for word in ("chromium (the console)", "promtool", "apt-get install", "INSTALL=1"):
        assert word in said


def test_where_all_is_there_nothing_is_said(
    tool: ModuleType, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for program, _, _ in tool.PROGRAMS:
        add(machine, program)
    assert tool.main() == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("wish", ["INSTALL", "CI"])
def test_what_is_missing_is_installed_where_that_is_wanted(
    tool: ModuleType, machine: Path, monkeypatch: pytest.MonkeyPatch, wish: str
) -> None:
    add(machine, "promtool")
    monkeypatch.setenv(wish, "true")
    assert tool.main() == 0
    words = asked(machine).split()
    assert words[:2] == ["install", "-y"]
    assert "chromium" in words
    assert "prometheus" not in words


def test_a_variable_that_says_no_is_no_wish(
    tool: ModuleType, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "false")
    monkeypatch.setenv("INSTALL", "/usr/bin/install")
    assert tool.main() == 0
    assert asked(machine) == ""


def test_whoever_would_be_asked_for_a_password_installs_nothing(
    tool: ModuleType,
    machine: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("INSTALL", "1")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    add(machine, "sudo", "exit 1")
    assert tool.main() == 0
    assert asked(machine) == ""
    assert "apt-get install chromium" in capsys.readouterr().err
    add(machine, "sudo", 'shift; exec "$@"')
    add(machine, "true")
    assert tool.main() == 0
    assert "chromium" in asked(machine)


def test_an_installation_that_fails_is_told_and_no_error(
    tool: ModuleType,
    machine: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("INSTALL", "1")
    add(machine, "apt-get", "echo no network >&2; exit 100")
    assert tool.main() == 0
    said = capsys.readouterr().err
    assert "apt-get: no network" in said
    assert "left out" in said
