"""The command line pointed at a broker: for the tests of commands that need one."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

from typer.main import get_command

from magnetar.cli.app import app


class Ran:
    """What came of a command."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    def __repr__(self) -> str:
        return f"exit {self.code}\n{self.out}\n{self.err}"

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class BrokerCli:
    """Runs commands in this process against a broker; knows which commands were run."""

    def __init__(self, url: str, admin_url: str) -> None:
        self.url = url
        self.admin_url = admin_url
        self.seen: set[str] = set()

    def run(self, *arguments: str | Path, input: str | None = None, admin_url: str = "") -> Ran:
        """A command, whatever comes of it."""
        texts = [str(argument) for argument in arguments]
        self.seen.add(command_of(texts))
        at = ["--url", self.url, "--admin-url", admin_url or self.admin_url]
        return run_command([*at, *texts], input or "")

    def ok(self, *arguments: str | Path, input: str | None = None) -> str:
        """What a command that must work prints."""
        ran = self.run(*arguments, input=input)
        assert ran.code == 0, ran
        return ran.out


@cache
def _command() -> Any:
    """Made once: all its options take longer than most commands do."""
    return get_command(app)


def run_command(arguments: list[str], input: str = "") -> Ran:
    """A command in this process, as typer's own runner would run it."""
    out, err = io.StringIO(), io.StringIO()
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(input.encode()))
    code: object = 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            _command().main(arguments, prog_name="magnetar")
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.stdin = before
    assert isinstance(code, int)
    return Ran(code, out.getvalue(), err.getvalue())


def command_of(arguments: list[str]) -> str:
    """The names that begin the arguments: a noun and its verb, or a verb."""
    nouns = {group.name for group in app.registered_groups}
    return " ".join(arguments[:2] if arguments[0] in nouns else arguments[:1])
