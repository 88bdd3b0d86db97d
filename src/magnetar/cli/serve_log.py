"""The log of `magnetar serve`: lines for people, or JSON for programs that collect logs.

| field       | is                                                          |
|-------------|-------------------------------------------------------------|
| `time`      | UTC, with milliseconds: `2027-01-15T08:00:00.123Z`          |
| `level`     | DEBUG, INFO, WARNING, ERROR or CRITICAL                     |
| `logger`    | who says it: `magnetar.serve`, `magnetar.audit` ...         |
| `message`   | the sentence                                                |
| `exception` | the traceback, if there is one                              |
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

from magnetar.errors import SettingsError

__all__ = ["FORMATS", "LEVELS", "JsonLines", "check_log", "start_log"]

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
TEXT: Final = "text"
JSON: Final = "json"
FORMATS: Final = (TEXT, JSON)


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        found = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


def check_log(level: str, kind: str) -> None:
    """Raises SettingsError."""
    if level.lower() not in LEVELS:
        raise SettingsError("log_level", f"{level!r} is not a level: give {', '.join(LEVELS)}")
    if kind.lower() not in FORMATS:
        raise SettingsError("log_format", f"{kind!r} is not a format: give {' or '.join(FORMATS)}")


def start_log(level: str, kind: str) -> None:
    """Sends what is logged from now on to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    if kind.lower() == JSON:
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
