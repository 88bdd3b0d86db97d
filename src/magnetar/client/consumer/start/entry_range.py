"""A range of entries that is read as it is: what comes next, what is missed, which permits.

For readers of many messages at once, who want entries and no message objects. A range goes
from an entry to another one, which it does not include; without an end it goes on.

| call      | does                                                                       |
|-----------|----------------------------------------------------------------------------|
| connected | begins at `next` again, and gives the first permits                        |
| take      | hands the entry on if it is the next one; what came before is dropped      |
| due       | permits that are to be given back: never more than the range can still use |

`next` is the first entry that was not handed on. So nothing comes twice, and what is
skipped is known: `gaps` has the ranges that a broker passed over. A gap that ends where
a ledger begins is no loss if the ledger before it ended there; who reads must find out.

How many messages an entry holds is not known before it comes, and permits count messages.
The first permits are few, the later ones follow from what entries held so far.
"""

from typing import Final, TypeAlias, final

from mypy_extensions import i64

from magnetar.errors import RemoteProtocolError
from magnetar.protocol.entry import Entry, split_entry
from magnetar.protocol.message import CommandMessage
from magnetar.protocol.metadata import MessageMetadata

__all__ = ["At", "EntryRange", "Gap", "RawEntry"]

# A ledger and an entry in it; the entry may be one that is not there yet.
At: TypeAlias = tuple[int, int]
Gap: TypeAlias = tuple[At, At]

FIRST_PERMITS: Final = 1000
PERMITS_MAX: Final = 100_000
# For how many entries behind the last one that came there are permits, at most.
ENTRIES_AHEAD: Final = 2000


@final
class RawEntry:
    """An entry as it came. Without metadata it is damaged."""

    def __init__(
        self,
        ledger_id: i64,
        entry_id: i64,
        redelivery_count: i64,
        size: i64,
        entry: Entry | None,
        metadata: MessageMetadata | None,
        messages: i64,
    ) -> None:
        self.ledger_id: Final[i64] = ledger_id
        self.entry_id: Final[i64] = entry_id
        self.redelivery_count: Final[i64] = redelivery_count
        self.size: Final[i64] = size
        self.entry: Final = entry
        self.metadata: Final = metadata
        self.messages: Final[i64] = messages


@final
class EntryRange:
    """See the module."""

    def __init__(self, start: At, end: At | None) -> None:
        self.next: At = start
        self.end: Final[At | None] = end
        self.gaps: list[Gap] = []
        self._at_broker: i64 = 0
        self._entries: i64 = 0
        self._messages: i64 = 0

    @property
    def done(self) -> bool:
        return self.end is not None and self.next >= self.end

    def connected(self) -> i64:
        """Begins with a new connection; returns how many permits to begin with."""
        self._at_broker = 0
        return self.due()

    def due(self) -> i64:
        """Returns how many permits to give now; 0 is none."""
        if self.done:
            return 0
        wanted = self._wanted()
        if self._at_broker * 2 > wanted:
            return 0
        given = wanted - self._at_broker
        self._at_broker = wanted
        return given

    def _wanted(self) -> i64:
        """Returns what may be on its way at a time."""
        entries: i64 = ENTRIES_AHEAD
        if self.end is not None and self.end[0] == self.next[0]:
            entries = min(entries, self.end[1] - self.next[1])
        if self._entries == 0:
            return min(entries, FIRST_PERMITS)
        # A permit is enough for an entry of any size, and the last one needs no more.
        ahead = (entries - 1) * self._messages // self._entries + 1
        return min(max(ahead, 1), PERMITS_MAX)

    def take(self, command: CommandMessage) -> RawEntry | None:
        """Returns the entry, if it is wanted."""
        found = _read(command)
        self._at_broker -= found.messages
        at = (int(found.ledger_id), int(found.entry_id))
        if self.done or at < self.next:
            return None
        # A range that begins wherever there is something misses nothing before that.
        if at > self.next and self.next[0] >= 0:
            self.gaps.append((self.next, at if self.end is None else min(at, self.end)))
        self.next = (at[0], at[1] + 1)
        if self.end is not None and at >= self.end:
            return None
        self._entries += 1
        self._messages += found.messages
        return found

    def nothing_left(self, last: At) -> None:
        """The topic ends with this entry, and so does the range if it goes on behind it."""
        ended = last < self.next or last[1] < 0
        if self.end is not None and ended and not self.done:
            self.gaps.append((self.next, self.end))
            self.next = self.end


def _read(command: CommandMessage) -> RawEntry:
    entry: Entry | None = None
    metadata: MessageMetadata | None = None
    messages: i64 = 1
    try:
        entry = split_entry(command.entry)
        metadata = entry.metadata()
    except RemoteProtocolError:
        metadata = None
    if metadata is not None and metadata.num_messages_in_batch is not None:
        messages = max(metadata.num_messages_in_batch, 1)
    id = command.message_id
    return RawEntry(
        id.ledger_id,
        id.entry_id,
        command.redelivery_count,
        len(command.entry),
        entry,
        metadata,
        messages,
    )
