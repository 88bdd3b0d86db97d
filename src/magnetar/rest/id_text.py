"""Message ids as people write them.

12:4            entry 4 of ledger 12
12:4:2          message 2 of the batch there
CAwQBCAC        the bytes of an id in base64, as clients of all languages write them
"""

from datetime import datetime
from typing import Final, TypeAlias

from magnetar.errors import InvalidMessageIdError, SettingsError
from magnetar.model import MessageId

__all__ = [
    "Where",
    "as_message_id",
    "id_text",
    "parse_base64",
    "parse_id",
    "parse_triplet",
    "place_json",
    "time_ms",
]

INT64_MAX: Final = (1 << 63) - 1
INT32_MAX: Final = (1 << 31) - 1

# A position in a topic: a message's id, a text of one, `earliest` or `latest`.
Where: TypeAlias = MessageId | str


def parse_triplet(text: str) -> MessageId:
    """Returns an id written as L:E or L:E:I. Raises InvalidMessageIdError.

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
    """Returns an id in base64, of one message. Raises InvalidMessageIdError."""
    try:
        id = MessageId.from_base64(text)
    except InvalidMessageIdError as error:
        raise InvalidMessageIdError(f"{text!r} ({error.reason})") from None
    return _of_a_message(id, text)


def _of_a_message(id: MessageId, text: str) -> MessageId:
    if id.ledger_id() < 0 or id.entry_id() < 0 or id.ledger_id() == INT64_MAX:
        raise InvalidMessageIdError(f"{text!r} is {id}, a position between messages")
    return id


def parse_id(text: str) -> MessageId:
    """Returns an id in either form. Raises InvalidMessageIdError."""
    return parse_triplet(text) if ":" in text else parse_base64(text)


def as_message_id(given: MessageId | str) -> MessageId:
    """Returns the id of one message, given as such or as a text. Raises InvalidMessageIdError."""
    if isinstance(given, str):
        return parse_id(given)
    if not isinstance(given, MessageId):
        raise InvalidMessageIdError(
            f"{given!r}; give a MessageId, its base64, or ledger:entry:batchIndex"
        )
    return _of_a_message(given, str(given))


def id_text(id: MessageId) -> str:
    """Returns an id as `parse_triplet` reads it; its partition is not in it.

    >>> id_text(MessageId(3, 12, 4, 2))
    '12:4:2'
    """
    text = f"{id.ledger_id()}:{id.entry_id()}"
    return text if id.batch_index() < 0 else f"{text}:{id.batch_index()}"


def place_json(option: str, where: Where) -> dict[str, int]:
    """Returns a position as REST takes it: `earliest`, `latest` or an id. Raises SettingsError."""
    if where == "earliest" or where == MessageId.earliest:
        return {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
    if where == "latest" or where == MessageId.latest:
        return {"ledgerId": INT64_MAX, "entryId": INT64_MAX, "partitionIndex": -1}
    try:
        id = as_message_id(where)
    except InvalidMessageIdError:
        raise SettingsError(
            option, f"{where!r} is not a position: give earliest, latest or ledger:entry"
        ) from None
    found = {"ledgerId": id.ledger_id(), "entryId": id.entry_id(), "partitionIndex": -1}
    if id.partition() >= 0:
        found["partitionIndex"] = id.partition()
    if id.batch_index() >= 0:
        found["batchIndex"] = id.batch_index()
    return found


def time_ms(moment: datetime | int) -> int:
    """Returns a moment in ms since 1970. Raises SettingsError for one without a time zone.

    >>> from datetime import UTC
    >>> time_ms(datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)), time_ms(5)
    (1700000000000, 5)
    """
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise SettingsError(
                "time", f"{moment} has no time zone: give datetime(..., tzinfo=UTC), or ms"
            )
        return int(moment.timestamp() * 1000)
    return moment
