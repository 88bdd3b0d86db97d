"""What the official client takes for `logger`, so that programs with one run as they are.

These are values; `engine/client_log` writes what they say. Arguments are taken as `object` and
checked here, so that a wrong type is the same error compiled and not.
"""

import logging
from enum import IntEnum
from typing import Final, TypeAlias, final

from magnetar.errors import SettingsError

__all__ = [
    "LOGGER",
    "ClientLogger",
    "ConsoleLogger",
    "FileLogger",
    "LoggerLevel",
    "check_logger",
]

# Of clients that were told none.
LOGGER: Final[logging.Logger] = logging.getLogger("magnetar.client")


class LoggerLevel(IntEnum):
    """From which level on something is written."""

    Debug = 0
    Info = 1
    Warn = 2
    Error = 3

    def __str__(self) -> str:
        return f"LoggerLevel.{self.name}"


_LEVELS: Final[dict[LoggerLevel, int]] = {
    LoggerLevel.Debug: logging.DEBUG,
    LoggerLevel.Info: logging.INFO,
    LoggerLevel.Warn: logging.WARNING,
    LoggerLevel.Error: logging.ERROR,
}


@final
class ConsoleLogger:
    """Writes to standard output."""

    def __init__(self, log_level: object = LoggerLevel.Info) -> None:
        self.log_level: LoggerLevel = _level(log_level)

    def level(self) -> int:
        """Returns the level as `logging` has it."""
        return _LEVELS[self.log_level]


@final
class FileLogger:
    """Writes to the end of a file."""

    def __init__(self, log_level: object, log_file: object) -> None:
        self.log_level: LoggerLevel = _level(log_level)
        if not isinstance(log_file, str):
            raise SettingsError("log_file", f"must be a str, not {type(log_file).__name__}")
        self.log_file: str = log_file

    def level(self) -> int:
        """Returns the level as `logging` has it."""
        return _LEVELS[self.log_level]


ClientLogger: TypeAlias = logging.Logger | ConsoleLogger | FileLogger | None


def check_logger(logger: object) -> ClientLogger:
    if logger is None or isinstance(logger, (logging.Logger, ConsoleLogger, FileLogger)):
        return logger
    raise SettingsError(
        "logger",
        f"expected a logging.Logger, a ConsoleLogger, a FileLogger or None, not {logger!r:.40}",
    )


def _level(log_level: object) -> LoggerLevel:
    if not isinstance(log_level, LoggerLevel):
        raise SettingsError("log_level", f"must be a LoggerLevel, not {type(log_level).__name__}")
    return log_level
