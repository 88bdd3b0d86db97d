"""A setting: how its value is written, which values it may have, what it says, and Pulsar's key."""

from typing import Final, TypeAlias, final

from magnetar.errors import SettingsError

__all__ = [
    "BOOL",
    "BYTES",
    "COUNT",
    "COUNT_MAX",
    "INT_MAX",
    "MEBIBYTES",
    "MEBIBYTES_MAX",
    "MIB",
    "MINUTES",
    "MINUTE_MS",
    "MS",
    "MS_MAX",
    "NAMES",
    "SECONDS",
    "SECOND_MS",
    "TEXT",
    "Setting",
    "Value",
    "says",
]

# What any setting's value is made of.
Value: TypeAlias = bool | int | str | tuple[str, ...]

# Kinds of settings: how a value is written, and what is counted.
BOOL: Final = "yes or no"
COUNT: Final = "number"
BYTES: Final = "bytes"
MS: Final = "ms"
SECONDS: Final = "seconds"
MINUTES: Final = "minutes"
MEBIBYTES: Final = "MiB"
TEXT: Final = "text"
NAMES: Final = "names"

MIB: Final = 1 << 20
SECOND_MS: Final = 1000
MINUTE_MS: Final = 60_000

# Compiled code counts with 64 bits, Pulsar in most places with 32.
COUNT_MAX: Final = (1 << 63) - 1
INT_MAX: Final = (1 << 31) - 1
# 139 years: added to the time of day it stays far from the end of 64 bits.
MS_MAX: Final = 1 << 42
# As bytes it still fits.
MEBIBYTES_MAX: Final = (1 << 43) - 1

_HIGH: Final[dict[str, int]] = {
    MS: MS_MAX,
    SECONDS: INT_MAX,
    MINUTES: INT_MAX,
    MEBIBYTES: MEBIBYTES_MAX,
}


@final
class Setting:
    """What is declared of one field of `BrokerSettings`."""

    def __init__(
        self,
        kind: str,
        meaning: str,
        low: int,
        high: int,
        choices: tuple[str, ...],
        optional: bool,
        secret: bool,
        conf: dict[str, int],
    ) -> None:
        self.kind: Final = kind
        # For the manual, and for those who ask on the command line.
        self.meaning: Final = meaning
        self.low: Final = low
        self.high: Final = min(high, _HIGH.get(kind, COUNT_MAX))
        self.choices: Final = choices
        # Whether a text or a list may be empty, which then says nothing.
        self.optional: Final = optional
        # Whether the value must not be shown to anybody.
        self.secret: Final = secret
        # Pulsar's keys in broker.conf, and how many of our units are one of theirs.
        self.conf: Final = conf

    def check(self, name: str, value: Value) -> None:
        """Raise SettingsError unless a value of the right type is one that it may have.

        The error names the setting as `name` has it.
        """
        if isinstance(value, bool):
            return
        if isinstance(value, int):
            self._check_number(name, value)
        elif isinstance(value, str):
            self._check_text(name, value)
        else:
            self._check_names(name, value)

    def _check_number(self, name: str, value: int) -> None:
        if value < self.low:
            raise SettingsError(name, f"{value} is too little: give {self.low} or more")
        if value > self.high:
            raise SettingsError(name, f"{value} is too much: give {self.high} or less")

    def _check_text(self, name: str, value: str) -> None:
        if not value:
            if self.optional:
                return
            raise SettingsError(name, "the text is empty: give one, or leave the setting out")
        if self.choices and value not in self.choices:
            raise SettingsError(
                name, f"{value!r} is not one of {', '.join(self.choices)}: choose one of these"
            )

    def _check_names(self, name: str, value: tuple[str, ...]) -> None:
        if not value and not self.optional:
            raise SettingsError(name, "the list is empty: name at least one")
        for one in value:
            if not one:
                raise SettingsError(name, "a name in the list is empty: leave it out")
            self._check_text(name, one)


def says(
    kind: str,
    meaning: str,
    *,
    low: int = 0,
    high: int = COUNT_MAX,
    choices: tuple[str, ...] = (),
    optional: bool = False,
    secret: bool = False,
    conf: dict[str, int] | None = None,
) -> dict[str, Setting]:
    """What a field of `BrokerSettings` says beside its name, type and default; see `Setting`."""
    return {"setting": Setting(kind, meaning, low, high, choices, optional, secret, conf or {})}
