"""Java's properties format, which `broker.conf` is written in.

A line is `key=value`, `key: value` or `key value`; `#` and `!` begin comments, a backslash at
the end goes on in the next line, and backslashes escape. A line of the text that is read may
so be several of the file, and is known by the number of the first.
"""

from typing import Final, final

from magnetar.errors import SettingsError

__all__ = ["Line", "read_lines"]

_SPACE: Final = " \t\f"
_ESCAPES: Final[dict[str, str]] = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@final
class Line:
    """One key and its value, and the number of the line that they begin in."""

    def __init__(self, number: int, key: str, value: str) -> None:
        self.number: Final = number
        self.key: Final = key
        self.value: Final = value

    def error(self, reason: str) -> SettingsError:
        return SettingsError(self.key, f"{self.value!r} in line {self.number} {reason}")


def read_lines(text: str) -> list[Line]:
    """Returns the lines that say something. Raises SettingsError."""
    out: list[Line] = []
    first = 0
    joined = ""
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_SPACE)
        if not joined:
            first = number
            if not line or line[0] in "#!":
                continue
        if _goes_on(line):
            joined += line[:-1]
            continue
        out.append(_line(first, joined + line))
        joined = ""
    if joined:
        out.append(_line(first, joined))
    return out


def _goes_on(line: str) -> bool:
    """Returns whether the line ends in a backslash that is not itself escaped."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _line(number: int, text: str) -> Line:
    """Returns a line as key and value; the key ends at the first `=`, `:` or space that is not
    escaped."""
    end = 0
    while end < len(text) and text[end] not in "=:" + _SPACE:
        end += 2 if text[end] == "\\" else 1
    key = _unescaped(number, text[:end])
    value = text[end:].lstrip(_SPACE)
    if value[:1] in ("=", ":"):
        value = value[1:]
    return Line(number, key, _unescaped(number, value.strip()))


def _unescaped(number: int, text: str) -> str:
    out = ""
    at = 0
    while at < len(text):
        if text[at] != "\\":
            out += text[at]
            at += 1
        elif text[at + 1 : at + 2] == "u":
            out += _character(number, text[at + 2 : at + 6])
            at += 6
        else:
            escaped = text[at + 1 : at + 2]
            out += _ESCAPES.get(escaped, escaped)
            at += 2
    return out


def _character(number: int, digits: str) -> str:
    try:
        if len(digits) == 4:
            return chr(int(digits, 16))
    except ValueError:
        pass
    raise SettingsError(
        "broker.conf", f"line {number} has '\\u{digits}': give four hexadecimal digits"
    )
