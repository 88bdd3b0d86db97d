"""`magnetar`, the command.

`serve` must be there at once, for it stands at the beginning of every test: it parses its
own options and leaves out what the other commands need for theirs.
"""

import sys
from collections.abc import Callable
from typing import Final

from magnetar.cli.exit_code import INTERRUPTED
from magnetar.cli.interrupt import uninterrupted

__all__ = ["main"]

# What is left out where there are only clients: docs/install.md.
NOT_FOR_CLIENTS: Final = ("jwt", "pyroaring", "re2", "rich", "typer", "uvicorn")


def main() -> None:
    """Runs the command that the arguments name."""
    try:
        with uninterrupted():
            command = _load()
        sys.exit(command())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except ModuleNotFoundError as error:
        if error.name not in NOT_FOR_CLIENTS:
            raise
        sys.exit(f"magnetar: {error.name} is not installed; all of it comes with: pip install .")


def _load() -> Callable[[], int | None]:
    if sys.argv[1:2] == ["serve"]:
        from magnetar.cli.serve import run

        return lambda: run(sys.argv[2:])
    from magnetar.cli.app import app

    return app
