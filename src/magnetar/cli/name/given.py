"""What a command was given to work on, noted as it is read, for whoever explains an error."""

from contextvars import ContextVar
from typing import Any

import typer

__all__ = ["Given", "current", "forget", "note"]


class Given:
    """The names on the line, and the command with its other options."""

    def __init__(self) -> None:
        self.topic = ""
        self.subscription = ""
        self.namespace = ""
        self.context: Any = None

    @property
    def command(self) -> str:
        """Noun and verb: `topics delete`; empty before anything was given."""
        if self.context is None:
            return ""
        words = [self.context.info_name]
        if self.context.parent is not None and self.context.parent.parent is not None:
            words.insert(0, self.context.parent.info_name)
        return " ".join(words)

    def unused(self, option: str) -> bool:
        """Returns whether the command has a flag that was not given."""
        return self.context is not None and self.context.params.get(option) is False


_given: ContextVar[Given | None] = ContextVar("given", default=None)


def forget() -> None:
    """For a new command."""
    _given.set(Given())


def current() -> Given:
    """Returns what was given to this command."""
    found = _given.get()
    if found is None:
        forget()
        return current()
    return found


def note(context: typer.Context) -> Given:
    """Notes and returns what was given to the command whose arguments are being read."""
    found = current()
    found.context = context
    return found
