"""Message ids as people write them.

    12:4            entry 4 of ledger 12
    12:4:2          message 2 of the batch there
    CAwQBCAC        the bytes of an id in base64, as clients of all languages write them

A file has one on each line; empty lines and lines that begin with `#` are passed over, and a
line that `peek --json` or `consume --json` wrote is taken for the id in it.
"""

import json
import sys
from pathlib import Path
from typing import Final

from magnetar.errors import InvalidMessageIdError, SettingsError
from magnetar.model import MessageId

__all__ = ["id_text", "parse_base64", "parse_id", "parse_triplet", "place_json", "read_ids"]

INT64_MAX: Final = (1 << 63) - 1
INT32_MAX: Final = (1 << 31) - 1


def parse_triplet(text: str) -> MessageId:
    """An id written as L:E or L:E:I. Raises InvalidMessageIdError.

    >>> parse_triplet("12:4"), parse_triplet("12:4:2")
    ((12,4,-1,-1), (12,4,-1,2))
    """
    pieces = text.split(":")
    limits = (INT64_MAX, INT64_MAX, INT32_MAX)
    if not 2 <= len(pieces) <= 3 or not all(
        piece.isascii() and piece.isdigit() and len(piece) <= 19 and int(piece) <= most
        for piece, most in zip(pieces, limits, strict=False)
    ):
        raise InvalidMessageIdError(
            f"{text!r}; write it as ledger:entry or ledger:entry:batchIndex"
        )
    numbers = [int(piece) for piece in pieces]
    index = numbers[2] if len(numbers) == 3 else -1
    return MessageId(ledger_id=numbers[0], entry_id=numbers[1], batch_index=index)


def parse_base64(text: str) -> MessageId:
    """An id in base64, of one message. Raises InvalidMessageIdError."""
    try:
        id = MessageId.from_base64(text)
    except InvalidMessageIdError as error:
        raise InvalidMessageIdError(f"{text!r} ({error.reason})") from None
    if id.ledger_id() < 0 or id.entry_id() < 0 or id.ledger_id() == INT64_MAX:
        raise InvalidMessageIdError(f"{text!r} names a place ({id}) and no message")
    return id


def parse_id(text: str) -> MessageId:
    """An id in either form. Raises InvalidMessageIdError."""
    return parse_triplet(text) if ":" in text else parse_base64(text)


def read_ids(file: Path) -> list[MessageId]:
    """The ids in a file, or in standard input for `-`. Raises SettingsError and
    InvalidMessageIdError, which says in which line."""
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


def id_text(id: MessageId) -> str:
    """An id as `parse_triplet` reads it; its partition is not in it.

    >>> id_text(MessageId(3, 12, 4, 2))
    '12:4:2'
    """
    text = f"{id.ledger_id()}:{id.entry_id()}"
    return text if id.batch_index() < 0 else f"{text}:{id.batch_index()}"


def place_json(option: str, text: str) -> dict[str, int]:
    """A position as REST takes it: `earliest`, `latest` or an id. Raises SettingsError."""
    if text == "earliest":
        return {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
    if text == "latest":
        return {"ledgerId": INT64_MAX, "entryId": INT64_MAX, "partitionIndex": -1}
    try:
        id = parse_id(text)
    except InvalidMessageIdError:
        raise SettingsError(
            option, f"{text!r} is not a position: give earliest, latest or ledger:entry"
        ) from None
    found = {"ledgerId": id.ledger_id(), "entryId": id.entry_id(), "partitionIndex": -1}
    if id.partition() >= 0:
        found["partitionIndex"] = id.partition()
    if id.batch_index() >= 0:
        found["batchIndex"] = id.batch_index()
    return found
