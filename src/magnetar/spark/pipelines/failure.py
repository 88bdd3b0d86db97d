"""What went wrong in Spark, as an error of ours: Spark wraps errors of its workers in text."""

import re

from magnetar import errors
from magnetar.arrow.loss import DataLossError
from magnetar.errors import MagnetarError, SettingsError, UnknownError

__all__ = ["PipelineError", "failure_of"]

# The last line of a traceback of Python, wherever it was raised.
_RAISED = re.compile(r"(?:^|: )magnetar\.[\w.]+\.([A-Z]\w+): (.*)$", re.MULTILINE)
_PYTHON = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): .*$", re.MULTILINE)


class PipelineError(UnknownError):
    """Spark failed, or the broker in a way that has no name."""


def failure_of(error: BaseException) -> MagnetarError:
    """Returns the error of ours that a worker raised, else one that says what Spark says."""
    if isinstance(error, MagnetarError):
        return error
    text = str(error)
    found = _RAISED.findall(text)
    if found:
        name, said = found[-1]
        return _named(name, said)
    return PipelineError(f"Spark failed: {_short(text)}")


def _named(name: str, said: str) -> MagnetarError:
    if name == "DataLossError":
        return _Lost(said)
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, SettingsError):
        key, _, reason = said.partition(": ")
        return SettingsError(key, reason)
    if isinstance(kind, type) and issubclass(kind, errors.PulsarException):
        return kind(said)
    return PipelineError(f"{name}: {said}")


class _Lost(DataLossError):
    """The text alone, as a worker said it."""

    def __init__(self, said: str) -> None:
        super().__init__("", "", "", said)

    def __str__(self) -> str:
        return self.why


def _short(text: str) -> str:
    """Returns the last error of Python in it, or its first line."""
    said = _PYTHON.findall(text)
    return said[-1] if said else text.strip().split("\n")[0]
