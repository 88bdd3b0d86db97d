"""Arguments and options that many commands have, each said once."""

import re
from typing import Annotated, Final, TypeAlias

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
    "words",
]

TopicArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC",
        help="Topic name: persistent://tenant/namespace/topic, or a short name.",
        show_default=False,
    ),
]
NamespaceName: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="NAMESPACE", help="Namespace: tenant/namespace.", show_default=False),
]
SubscriptionName: TypeAlias = Annotated[
    str,
    typer.Option("-s", "--subscription", metavar="SUB", help="Subscription name."),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Force: TypeAlias = Annotated[
    bool, typer.Option("-f", "--force", help="Do it even if it is in use or not empty.")
]

_SECONDS: Final = {
    "": 1,
    "s": 1,
    "m": 60,
    "min": 60,
    "h": 3600,
    "d": 86_400,
    "w": 604_800,
    "y": 31_536_000,
}
_BYTES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_NUMBER: Final = re.compile(r"(-?[0-9]{1,18}) ?([a-z]*)", re.IGNORECASE)


def duration_s(name: str, text: str) -> int:
    """Seconds, from a number with a unit; without one it is seconds. Raises SettingsError.

    >>> duration_s("-t", "90"), duration_s("-t", "2h"), duration_s("-t", "-1")
    (90, 7200, -1)
    """
    return _amount(name, text, _SECONDS, "a time such as 90, 10min, 2h, 7d")


def size_bytes(name: str, text: str) -> int:
    """Bytes, from a number with a unit; without one it is bytes. Raises SettingsError.

    >>> size_bytes("-l", "10"), size_bytes("-l", "2K"), size_bytes("-l", "1G")
    (10, 2048, 1073741824)
    """
    return _amount(name, text, _BYTES, "a size such as 4096, 10M, 2G")


def _amount(name: str, text: str, units: dict[str, int], wanted: str) -> int:
    match = _NUMBER.fullmatch(text)
    if match is None or match[2].lower() not in units:
        raise SettingsError(name, f"{text!r} is not {wanted}")
    return int(match[1]) * units[match[2].lower()]


def words(text: str) -> list[str]:
    """What stands between commas.

    >>> words("produce, consume,")
    ['produce', 'consume']
    """
    return [word.strip() for word in text.split(",") if word.strip()]


def pairs(name: str, texts: list[str]) -> dict[str, str]:
    """Properties, each written as NAME=VALUE. Raises SettingsError."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise SettingsError(name, f"{text!r} is not a property: write it as NAME=VALUE")
        found[key] = value
    return found
