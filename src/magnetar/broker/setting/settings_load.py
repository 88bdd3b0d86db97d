"""From what a user wrote to `BrokerSettings`.

Five sources, the first that names a setting wins: options of the command line, variables
`MAGNETAR_*`, `magnetar.toml`, Pulsar's `broker.conf`, and the defaults. Every source is read
whole, so that a slip in one is reported even where another one wins.

A size may be written as `64 MiB`, a time as `30 s`; a bare number is in the setting's own
unit. The names in `RESERVED` are the command line's own: they may stand beside the settings,
and `reserved_values` finds them.

Nothing here opens a file or looks at the environment: that is the command line's part.
"""

import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final, final

from magnetar.broker.setting.broker_conf import read_broker_conf
from magnetar.broker.setting.setting import (
    BOOL,
    BYTES,
    MEBIBYTES,
    MIB,
    MINUTES,
    MS,
    NAMES,
    SECONDS,
    TEXT,
    Setting,
    Value,
)
from magnetar.broker.setting.settings import SETTINGS, BrokerSettings
from magnetar.errors import SettingsError

__all__ = [
    "BROKER_CONF",
    "COMMANDS",
    "COMMAND_LINE",
    "ENVIRONMENT",
    "RESERVED",
    "TOML",
    "LoadedSettings",
    "load_settings",
    "reserved_values",
]

COMMAND_LINE: Final = "command line"
ENVIRONMENT: Final = "environment"
TOML: Final = "magnetar.toml"
BROKER_CONF: Final = "broker.conf"

RESERVED: Final = (
    "data",
    "host",
    "port",
    "http_port",
    "tls_port",
    "https_port",
    "advertised_host",
    "insecure",
    "config",
    "memory",
    "broker_conf",
    "log_level",
    "log_format",
)

# Variables that the other commands read (docs/reference/cli.md): where they go, and who asks.
COMMANDS: Final = ("url", "admin_url", "token", "profile", "namespace")

_PREFIX: Final = "MAGNETAR_"

_SIZES: Final[dict[str, int]] = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}
_TIMES: Final[dict[str, int]] = {
    "ms": 1,
    "s": 1000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}

# Kinds with a unit: the units that may be written, and what the setting's own is of them.
_UNITS: Final[dict[str, tuple[dict[str, int], int]]] = {
    BYTES: (_SIZES, 1),
    MEBIBYTES: (_SIZES, MIB),
    MS: (_TIMES, 1),
    SECONDS: (_TIMES, 1000),
    MINUTES: (_TIMES, 60_000),
}

_WORDS: Final[dict[str, bool]] = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


@final
class LoadedSettings:
    """The settings, what is to be told the user once, and where each value came from.

    `sources` has a name for every setting that is not at its default by silence alone.
    `options` are what a `broker.conf` says of the names in `RESERVED`; any other source of
    them wins.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        notices: list[str],
        sources: dict[str, str],
        options: dict[str, str],
    ) -> None:
        self.settings: Final = settings
        self.notices: Final = notices
        self.sources: Final = sources
        self.options: Final = options


def load_settings(
    toml_text: str | None,
    environ: Mapping[str, str],
    broker_conf_text: str | None,
    options: Mapping[str, str],
) -> LoadedSettings:
    """Put the sources together; raises SettingsError for the first thing wrong in any."""
    loaded = _Loader()
    if broker_conf_text is not None:
        conf = read_broker_conf(broker_conf_text)
        loaded.notices.extend(conf.notices)
        loaded.options.update(conf.options)
        for name, value in conf.values.items():
            loaded.take(name, value, BROKER_CONF)
    if toml_text is not None:
        _load_toml(toml_text, loaded)
    _load_environment(environ, loaded)
    _load_options(options, loaded)
    return loaded.done()


def reserved_values(
    toml_text: str | None, environ: Mapping[str, str], options: Mapping[str, str]
) -> dict[str, str]:
    """Returns what the sources say of the names in `RESERVED`, as text, in the same order of
    weight."""
    values: dict[str, str] = {}
    if toml_text is not None:
        for name, given in _toml_items(toml_text):
            if name in RESERVED:
                values[name] = str(given).lower() if isinstance(given, bool) else str(given)
    for name in RESERVED:
        variable = environ.get(_PREFIX + name.upper())
        if variable is not None:
            values[name] = variable
    for option, text in options.items():
        if _option_name(option) in RESERVED:
            values[_option_name(option)] = text
    return values


@final
class _Loader:
    """Values taken so far; a later source takes the place of an earlier one."""

    def __init__(self) -> None:
        self.values: Final[dict[str, Value]] = {}
        self.sources: Final[dict[str, str]] = {}
        self.notices: Final[list[str]] = []
        self.options: Final[dict[str, str]] = {}

    def take(self, name: str, value: Value, source: str) -> None:
        self.values[name] = value
        self.sources[name] = source

    def done(self) -> LoadedSettings:
        # Each value was checked against the kind of its setting as it was read.
        settings = BrokerSettings(**self.values)  # type: ignore[arg-type]
        return LoadedSettings(settings, self.notices, self.sources, self.options)


# ---- The sources -----------------------------------------------------------------------


def _load_toml(text: str, loaded: _Loader) -> None:
    for name, given in _toml_items(text):
        if name in RESERVED:
            continue
        key = f"{TOML}: {name}"
        setting = _setting(key, name)
        loaded.take(name, _checked(key, setting, _from_toml(key, setting, given)), TOML)


def _toml_items(text: str) -> list[tuple[str, object]]:
    """Returns all names with their values, those in tables too; a table is only a heading."""
    try:
        top: dict[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(TOML, f"this is not TOML: {error}") from None
    items: dict[str, object] = {}
    for name, given in _flat(top):
        if name in items:
            raise SettingsError(f"{TOML}: {name}", "it is given twice: remove one of the two")
        items[name] = given
    return list(items.items())


def _flat(top: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, given in top.items():
        if isinstance(given, dict):
            yield from given.items()
        else:
            yield name, given


def _load_environment(environ: Mapping[str, str], loaded: _Loader) -> None:
    for key in sorted(environ):
        if not key.startswith(_PREFIX):
            continue
        name = key.removeprefix(_PREFIX).lower()
        if name in SETTINGS:
            setting = SETTINGS[name]
            value = _checked(key, setting, _from_text(key, setting, environ[key]))
            loaded.take(name, value, ENVIRONMENT)
        elif name not in RESERVED and name not in COMMANDS:
            loaded.notices.append(f"the variable {key} is not a setting, and has no effect")


def _load_options(options: Mapping[str, str], loaded: _Loader) -> None:
    for option, text in options.items():
        name = _option_name(option)
        if name in RESERVED:
            continue
        key = f"--{name.replace('_', '-')}"
        setting = _setting(key, name)
        loaded.take(name, _checked(key, setting, _from_text(key, setting, text)), COMMAND_LINE)


def _option_name(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _setting(key: str, name: str) -> Setting:
    setting = SETTINGS.get(name)
    if setting is not None:
        return setting
    meant = get_close_matches(name, SETTINGS, n=1, cutoff=0.7)
    advice = f"did you mean {meant[0]}?" if meant else "see the reference of the configuration"
    raise SettingsError(key, f"there is no such setting: {advice}")


# ---- The values ------------------------------------------------------------------------


def _checked(key: str, setting: Setting, value: Value) -> Value:
    setting.check(key, value)
    return value


def _from_toml(key: str, setting: Setting, given: object) -> Value:
    """TOML has types of its own; text is for units."""
    if setting.kind == NAMES:
        if isinstance(given, list) and all(isinstance(name, str) for name in given):
            return tuple(given)
        raise SettingsError(key, f"{given!r} is not a list of names: give one")
    if setting.kind == BOOL:
        if isinstance(given, bool):
            return given
        raise SettingsError(key, f"{given!r} is neither true nor false: give one of them")
    if isinstance(given, int) and not isinstance(given, bool) and setting.kind != TEXT:
        return given
    if isinstance(given, str) and (setting.kind == TEXT or setting.kind in _UNITS):
        return _from_text(key, setting, given)
    shown = "what is given" if setting.secret else repr(given)
    raise SettingsError(key, f"{shown} has the wrong type: {_wanted(setting)}")


def _from_text(key: str, setting: Setting, text: str) -> Value:
    if setting.kind == TEXT:
        return text
    if setting.kind == NAMES:
        return tuple([name.strip() for name in text.split(",") if name.strip()])
    if setting.kind == BOOL:
        value = _WORDS.get(text.strip().lower())
        if value is None:
            raise SettingsError(key, f"{text!r} is neither true nor false: give one of them")
        return value
    return _amount(key, setting, text)


def _amount(key: str, setting: Setting, text: str) -> int:
    """Returns a whole number, and a unit if the kind has any."""
    number = text.strip()
    unit = number.lstrip("+-0123456789_")
    number = number[: len(number) - len(unit)].strip()
    unit = unit.strip()
    try:
        count = int(number)
    except ValueError:
        raise SettingsError(key, f"{text!r} is not an amount: {_wanted(setting)}") from None
    if not unit:
        return count
    units, own = _UNITS.get(setting.kind, ({}, 1))
    if unit not in units:
        raise SettingsError(key, f"{text!r} has no unit that fits: {_wanted(setting)}")
    whole, rest = divmod(count * units[unit], own)
    if rest:
        raise SettingsError(key, f"{text!r} is not whole: {_wanted(setting)}")
    return whole


def _wanted(setting: Setting) -> str:
    if setting.kind == TEXT:
        return "give a text"
    if setting.kind not in _UNITS:
        return "give a whole number"
    units, _ = _UNITS[setting.kind]
    return f"give a whole number of {setting.kind}, or one with a unit ({', '.join(units)})"
