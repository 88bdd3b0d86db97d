"""`magnetar`, the command.

`serve` must be there at once, for it stands at the beginning of every test: it parses its
own options and leaves out what the other commands need for theirs.
"""

import sys

__all__ = ["main"]


def main() -> None:
    """Runs the command that the arguments name."""
    if sys.argv[1:2] == ["serve"]:
        from magnetar.cli.serve import run

        sys.exit(run(sys.argv[2:]))
    from magnetar.cli.app import app

    app()
