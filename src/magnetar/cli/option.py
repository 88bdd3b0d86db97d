"""Arguments and options that many commands have, each said once."""

from typing import Annotated, TypeAlias

import typer

from magnetar.errors import SettingsError

__all__ = [
    "Force",
    "Json",
    "NamespaceName",
    "SubscriptionName",
    "TopicArgument",
    "duration_s",
    "pairs",
    "size_bytes",
]

TopicArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC",
        help="A topic: persistent://tenant/namespace/name, or a short name.",
        show_default=False,
    ),
]
NamespaceName: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAMESPACE", help="tenant/namespace", show_default=False)
]
SubscriptionName: TypeAlias = Annotated[
    str,
    typer.Option("-s", "--subscription", metavar="SUB", help="The subscription."),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Force: TypeAlias = Annotated[
    bool, typer.Option("-f", "--force", help="Also if it is in use or not empty.")
]

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_BYTES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def duration_s(name: str, text: str) -> int:
    """Seconds, from a number with a unit; without one it is seconds. Raises SettingsError.

    >>> duration_s("-t", "90"), duration_s("-t", "2h"), duration_s("-t", "-1")
    (90, 7200, -1)
    """
    unit = text[-1:].lower()
    digits = text[:-1] if unit in _SECONDS else text
    return _number(name, text, digits, "a time such as 90, 10m, 2h, 7d") * _SECONDS.get(unit, 1)


def size_bytes(name: str, text: str) -> int:
    """Bytes, from a number with a unit; without one it is bytes. Raises SettingsError.

    >>> size_bytes("-l", "10"), size_bytes("-l", "2K"), size_bytes("-l", "1G")
    (10, 2048, 1073741824)
    """
    unit = text[-1:].upper()
    digits = text[:-1] if unit in _BYTES else text
    return _number(name, text, digits, "a size such as 4096, 10M, 2G") * _BYTES.get(unit, 1)


def _number(name: str, text: str, digits: str, wanted: str) -> int:
    if not digits.removeprefix("-").isdecimal() or len(digits) > 18:
        raise SettingsError(name, f"{text!r} is not {wanted}")
    return int(digits)


def pairs(name: str, texts: list[str]) -> dict[str, str]:
    """Properties, each written as NAME=VALUE. Raises SettingsError."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise SettingsError(name, f"{text!r} is no property: write it as NAME=VALUE")
        found[key] = value
    return found
