"""The command itself."""

import sys
from typing import Any

import pytest
from cli.conftest import Run
from typer.main import get_command

import magnetar
from magnetar.cli.app import app
from magnetar.cli.console import printable, status
from magnetar.cli.main import main


def test_the_version_says_whether_it_is_compiled(run: Run) -> None:
    build = "compiled" if magnetar.COMPILED else "interpreted from its sources"
    assert run("--version") == (0, f"magnetar {magnetar.__version__} ({build})\n", "")


def test_without_a_command_there_is_help(run: Run) -> None:
    code, out, err = run()
    assert code == 2
    assert "check" in out + err
    assert "dump" in out + err


def without_help(command: Any, path: str) -> list[str]:
    """Returns what says nothing of itself: a command, its options and arguments, those below."""
    silent = [] if command.help else [path]
    silent += [f"{path} {one.name}" for one in command.params if not getattr(one, "help", None)]
    for name, below in getattr(command, "commands", {}).items():
        silent += without_help(below, f"{path} {name}")
    return silent


def test_every_command_option_and_argument_says_what_it_is() -> None:
    assert without_help(get_command(app), "magnetar") == []


def test_the_script_runs_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["magnetar", "--version"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("magnetar ")


def test_names_cannot_command_the_terminal() -> None:
    assert printable("a\x1b[2J\r\nb \u202e\x00") == "a\\x1b[2J\\r\\nb \\u202e\\x00"
    assert printable("größe [bold]") == "größe [bold]"


def test_someone_at_a_terminal_is_told_what_takes_so_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with status("looking"):
        pass
    assert "looking" in capsys.readouterr().err
