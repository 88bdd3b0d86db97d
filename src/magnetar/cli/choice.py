"""What the options and variables in front of a command say of its target."""

from typing import Any

import typer

from magnetar.cli.target import Choice

__all__ = ["choice_of"]

FIELDS = ("url", "admin_url", "token", "tls_trust_certs", "namespace", "profile")


def choice_of(context: typer.Context) -> Choice:
    """Returns the choices that were made for `magnetar` itself, in the outermost context."""
    root: Any = context.find_root()
    given: dict[str, str] = {}
    around: dict[str, str] = {}
    for field in FIELDS:
        # An empty variable is one that was taken back.
        if not (value := root.params.get(field)) and not _by_hand(root, field):
            continue
        (given if _by_hand(root, field) else around)[field] = value or ""
    return Choice(given.pop("profile", None), given, around)


def _by_hand(root: Any, field: str) -> bool:
    source = root.get_parameter_source(field)
    return source is not None and source.name == "COMMANDLINE"
