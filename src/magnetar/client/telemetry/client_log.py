"""Where the log of a client goes, by what it was told as `logger`.

| logger         | the log goes to                                                       |
|----------------|-----------------------------------------------------------------------|
| None           | `magnetar.client`, and what was done to `magnetar.client.stats`       |
| logging.Logger | that one, all of it                                                   |
| ConsoleLogger  | standard output, from its level on                                    |
| FileLogger     | the end of its file, from its level on                                |

The last two are the client's own: `logging` does not know them, so they pass nothing on, and
two clients stay apart. Once closed they are silent, and the file is closed.
"""

import logging
import sys

from magnetar.client.option.logger import LOGGER, ClientLogger, ConsoleLogger, FileLogger
from magnetar.errors import SettingsError

__all__ = ["ClientLog"]

FORMAT = "%(asctime)s %(levelname)s %(message)s"


class ClientLog:
    """See the module. Raises SettingsError if a file cannot be written."""

    def __init__(self, told: ClientLogger) -> None:
        self.logger: logging.Logger = LOGGER
        self.stats: logging.Logger = LOGGER.getChild("stats")
        self._handler: logging.Handler | None = None
        if isinstance(told, logging.Logger):
            self.logger = self.stats = told
        elif told is not None:
            self._handler = _handler_of(told)
            self._handler.setFormatter(logging.Formatter(FORMAT))
            self.logger = self.stats = logging.Logger(LOGGER.name, told.level())
            self.logger.addHandler(self._handler)

    def close(self) -> None:
        """Closes what was made here, and nothing else."""
        if self._handler is not None:
            self.logger.disabled = True  # or the file would be opened again
            self._handler.close()


def _handler_of(told: ConsoleLogger | FileLogger) -> logging.Handler:
    if isinstance(told, ConsoleLogger):
        return logging.StreamHandler(sys.stdout)
    try:
        # Tried now, and opened for the first line: a client that is never made leaves none open.
        with open(told.log_file, "a"):
            pass
    except (OSError, ValueError) as error:
        raise SettingsError(
            "logger", f"cannot write the file {told.log_file!r}: {error}; give another"
        ) from error
    return logging.FileHandler(told.log_file, encoding="utf-8", delay=True)
