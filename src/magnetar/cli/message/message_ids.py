"""Message ids in files, as `magnetar.rest.id_text` writes them.

A file has one on each line; empty lines and lines that begin with `#` are passed over, and a
line that `peek --json` or `consume --json` wrote is taken for the id in it.
"""

import json
import sys
from pathlib import Path

from magnetar.errors import InvalidMessageIdError, SettingsError
from magnetar.model import MessageId
from magnetar.rest.id_text import parse_base64, parse_id

__all__ = ["read_ids"]


def read_ids(file: Path) -> list[MessageId]:
    """Returns the ids in a file, or in standard input for `-`.

    Raises SettingsError and InvalidMessageIdError, which says in which line.
    """
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError("--from-file", f"cannot read {file}: {error}") from None
    ids: list[MessageId] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            ids.append(_id_in(line))
        except InvalidMessageIdError as error:
            raise InvalidMessageIdError(f"{error.reason} (line {number} of {file})") from None
    return ids


def _id_in(line: str) -> MessageId:
    if not line.startswith("{"):
        return parse_id(line)
    try:
        found = json.loads(line)["messageId"]
    except (ValueError, KeyError, TypeError):
        found = None
    if not isinstance(found, str):
        raise InvalidMessageIdError(f"{line[:60]!r}, which has no messageId")
    return parse_base64(found)
