"""Where a read begins or ends, as programs say it: a word, an id, a time, or one for each topic.

| said                       | is                                                             |
|----------------------------|----------------------------------------------------------------|
| `"earliest"`, `"latest"`   | the first message that is there, and behind the last           |
| a `MessageId`              | that message                                                   |
| `"ledger:entry[:index]"`   | the same, as text                                              |
| an int, an aware datetime  | the first entry that was published then or later; ms since 1970 |
| a dict                     | one of these for each topic partition; others have the default |

A read has the message at its start and not the one at its end.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, TypeAlias, final

from magnetar.arrow.plan.range_end import Place, parse_place
from magnetar.errors import SettingsError
from magnetar.model.message_id import MessageId
from magnetar.model.topic_name import TopicName

__all__ = ["Bound", "Resolved", "bound_of"]

Bound: TypeAlias = str | int | datetime | MessageId


@final
class Resolved:
    """What a bound is for one topic partition: a word, a time, or a place."""

    def __init__(self, word: str = "", time_ms: int = -1, place: Place | None = None) -> None:
        self.word: Final = word
        self.time_ms: Final[int] = time_ms
        self.place: Final[Place | None] = place


def bound_of(
    name: str, said: "Bound | Mapping[str, Bound]", topic: str, topics: int, default: str
) -> Resolved:
    """Returns what `said` means for one of so many topic partitions. Raises SettingsError.

    >>> bound_of("start", "7:4:2", "persistent://public/default/t", 1, "earliest").place
    (7, 4, 2)
    """
    if isinstance(said, Mapping):
        for key, one in said.items():
            if str(TopicName.parse(key)) == topic:
                return _resolved(name, one)
        return Resolved(default)
    found = _resolved(name, said)
    if found.place is not None and topics > 1:
        raise SettingsError(
            name, "one id for several topic partitions: give a dict with an id for each"
        )
    return found


def _resolved(name: str, said: Bound) -> Resolved:
    if isinstance(said, MessageId):
        return _of_id(said)
    if isinstance(said, datetime):
        if said.tzinfo is None:
            raise SettingsError(name, f"{said} has no time zone: use datetime.now(UTC) or the like")
        return Resolved(time_ms=int(said.timestamp() * 1000))
    if isinstance(said, bool):
        raise SettingsError(name, f"{said!r} is neither a position nor a time")
    if isinstance(said, int):
        if said < 0:
            raise SettingsError(name, f"{said} is not a time: give milliseconds since 1970")
        return Resolved(time_ms=said)
    if said in ("earliest", "latest"):
        return Resolved(said)
    return Resolved(place=parse_place(name, said))


def _of_id(id: MessageId) -> Resolved:
    if id == MessageId.earliest:
        return Resolved("earliest")
    if id == MessageId.latest:
        return Resolved("latest")
    return Resolved(place=(id.ledger_id(), id.entry_id(), max(id.batch_index(), 0)))
