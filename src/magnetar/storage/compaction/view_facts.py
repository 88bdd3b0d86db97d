"""What the log says of a compacted view beside what it says of any ledger.

A view is a ledger of its own, with a record of its own kind. The record says so from the
beginning; once it says that the ledger is sealed, the view counts, and its body holds these facts.

| record of the ledger | the ledger is                                  | a restart                |
|----------------------|------------------------------------------------|--------------------------|
| view, open           | what a compaction writes                       | drops it: nobody goes on |
| view, sealed         | the view of its topic, in place of any other   | reads it                 |
| deleted              | gone: replaced, or its compaction was given up | -                        |

The record that seals a view is tied to the deletion of the one before: there is one view, or the
other, through any crash.
"""

import struct
from typing import Final, final

from magnetar.errors import CorruptionError
from magnetar.model import Position

__all__ = ["ViewFacts", "decode_view_facts"]

FACTS: Final = struct.Struct("<qqqqqqqqqq")


@final
class ViewFacts:
    """What a compaction says of its result."""

    def __init__(
        self,
        through: Position,
        last: Position,
        *,
        last_index: int,
        entries: int,
        messages: int,
        removed: int,
        began_ms: int,
        took_ms: int,
    ) -> None:
        # What was published up to here is in the view, if it was kept; the topic has the rest.
        self.through: Final = through
        # The last message that was kept, with its batch index or -1; -1, -1 if none was.
        self.last: Final = last
        self.last_index: Final = last_index
        # How many entries were kept, and messages; how many messages were not, by this compaction.
        self.entries: Final = entries
        self.messages: Final = messages
        self.removed: Final = removed
        self.began_ms: Final = began_ms
        self.took_ms: Final = took_ms

    def encode(self) -> bytes:
        return FACTS.pack(
            self.through.ledger_id,
            self.through.entry_id,
            self.last.ledger_id,
            self.last.entry_id,
            self.last_index,
            self.entries,
            self.messages,
            self.removed,
            self.began_ms,
            self.took_ms,
        )


def decode_view_facts(path: str, data: bytes) -> ViewFacts:
    """Returns what `encode` gave. Raises CorruptionError."""
    if len(data) != FACTS.size:
        raise CorruptionError(path, 0, "the facts of a compacted view are damaged")
    numbers: tuple[int, ...] = FACTS.unpack(data)
    return ViewFacts(
        Position(numbers[0], numbers[1]),
        Position(numbers[2], numbers[3]),
        last_index=numbers[4],
        entries=numbers[5],
        messages=numbers[6],
        removed=numbers[7],
        began_ms=numbers[8],
        took_ms=numbers[9],
    )
