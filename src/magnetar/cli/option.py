"""Arguments and options that many commands have, each said once."""

import re
from typing import Annotated, Any, Final, TypeAlias

import typer

from magnetar.cli.name import complete, given
from magnetar.cli.target import full_name
from magnetar.errors import SettingsError

__all__ = [
    "Actions",
    "Force",
    "Json",
    "NamespaceName",
    "NamespaceOrDefault",
    "Role",
    "SubscriptionName",
    "TopicArgument",
    "duration_s",
    "full_topic",
    "named",
    "named_subscription",
    "named_topic",
    "namespace_argument",
    "pairs",
    "size_bytes",
    "topic_argument",
    "words",
]


def named_topic(context: typer.Context, name: str) -> str:
    """Returns a topic that was given: a short name is one of the target's namespace."""
    if context.resilient_parsing or not name:
        return name
    noted = given.note(context)
    noted.topic = full_name(name)
    return noted.topic


def full_topic(context: typer.Context, name: str) -> str:
    """Returns the full name of a topic that was given, which need not exist."""
    return name if context.resilient_parsing or not name else full_name(name)


def named_subscription(context: typer.Context, name: str) -> str:
    """Returns a subscription that was given."""
    given.note(context).subscription = name
    return name


def named_namespace(context: typer.Context, name: str) -> str:
    """Returns a namespace that was given."""
    given.note(context).namespace = name
    return name


def named(context: typer.Context, name: str) -> str:
    """Anything else that was given."""
    given.note(context)
    return name


def topic_argument() -> Any:
    """Returns the argument TOPIC, for those who make their commands in a loop."""
    return typer.Argument(
        metavar="TOPIC",
        help="Topic name: persistent://tenant/namespace/topic, or a short name.",
        show_default=False,
        callback=named_topic,
        autocompletion=complete.topics,
    )


def namespace_argument(metavar: str = "NAMESPACE", more: str = "") -> Any:
    """Returns the argument NAMESPACE, likewise."""
    return typer.Argument(
        metavar=metavar,
        help=f"Namespace: tenant/namespace{more}.",
        show_default=False,
        callback=named_namespace,
        autocompletion=complete.namespaces,
    )


TopicArgument: TypeAlias = Annotated[str, topic_argument()]
NamespaceName: TypeAlias = Annotated[str, namespace_argument()]
# For commands that change nothing.
NamespaceOrDefault: TypeAlias = Annotated[
    str, namespace_argument("[NAMESPACE]", " (default: that of --namespace)")
]
SubscriptionName: TypeAlias = Annotated[
    str,
    typer.Option(
        "-s",
        "--subscription",
        metavar="SUB",
        help="Subscription name.",
        callback=named_subscription,
        autocompletion=complete.subscriptions,
    ),
]
Role: TypeAlias = Annotated[str, typer.Option("--role", metavar="ROLE", help="Role.")]
Actions: TypeAlias = Annotated[
    str,
    typer.Option(
        "--actions", metavar="ACTIONS", help="Actions, separated by commas: produce,consume,skip..."
    ),
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
    """Returns a size in bytes, from a number with a unit or without one. Raises SettingsError.

    >>> size_bytes("-l", "10"), size_bytes("-l", "2K"), size_bytes("-l", "1G")
    (10, 2048, 1073741824)
    """
    return _amount(name, text, _BYTES, "a size such as 4096, 10M, 2G")


def _amount(name: str, text: str, units: dict[str, int], wanted: str) -> int:
    match = _NUMBER.fullmatch(text)
    # Below 0 is only -1, no limit: -5 is a slip, and would be taken for the same.
    if match is None or match[2].lower() not in units or int(match[1]) < -1:
        raise SettingsError(name, f"{text!r} is not {wanted}")
    return int(match[1]) * units[match[2].lower()]


def words(text: str) -> list[str]:
    """Returns what stands between commas.

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
