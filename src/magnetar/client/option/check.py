"""Checks of what users say, each by the name of the option that it is for.

A value is taken as `object` and comes back with its type, or SettingsError is raised: the
same one whether this file is compiled or not.
"""

from enum import IntEnum
from typing import Final, TypeVar

from magnetar.errors import SettingsError

__all__ = [
    "INT_MAX",
    "MS_MAX",
    "choice",
    "flag",
    "instance_or_none",
    "number",
    "number_or_none",
    "properties",
    "text",
    "text_or_none",
    "wrong_type",
]

T = TypeVar("T")
E = TypeVar("E", bound=IntEnum)

INT_MAX: Final = (1 << 31) - 1
# 139 years: added to the time of day it stays far from the end of 64 bits.
MS_MAX: Final = 1 << 42


def wrong_type(name: str, value: object, wanted: str) -> SettingsError:
    return SettingsError(name, f"expected {wanted}, not {type(value).__name__} ({value!r:.40})")


def number(name: str, value: object, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type(name, value, "a whole number")
    number = int(value)
    if number < low:
        raise SettingsError(name, f"{number} is too little: give {low} or more")
    if number > high:
        raise SettingsError(name, f"{number} is too much: give {high} or less")
    return number


def number_or_none(name: str, value: object, low: int, high: int) -> int | None:
    return None if value is None else number(name, value, low, high)


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise wrong_type(name, value, "True or False")
    return value


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise wrong_type(name, value, "a text")
    if not value:
        raise SettingsError(name, "the text is empty: give one")
    return value


def text_or_none(name: str, value: object) -> str | None:
    return None if value is None else text(name, value)


def choice(name: str, value: object, choices: type[E]) -> E:
    if isinstance(value, choices):
        return value
    names = ", ".join(f"{choices.__name__}.{choice.name}" for choice in choices)
    raise SettingsError(name, f"{value!r:.40} is not one of {names}")


def instance_or_none(name: str, value: object, kind: type[T]) -> T | None:
    if value is None or isinstance(value, kind):
        return value
    raise wrong_type(name, value, f"a {kind.__name__}")


def instances(name: str, value: object, kind: type[T]) -> tuple[T, ...]:
    """Returns several of a kind, none if there is no list of them."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise wrong_type(name, value, f"a list of {kind.__name__}")
    found: list[T] = []
    for one in value:
        if not isinstance(one, kind):
            raise wrong_type(name, one, f"a list of {kind.__name__}")
        found.append(one)
    return tuple(found)


def properties(name: str, value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong_type(name, value, "a dict of texts")
    properties: dict[str, str] = {}
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise SettingsError(name, f"{key!r:.40}: {text!r:.40} is not a text with a text")
        properties[key] = text
    return properties
