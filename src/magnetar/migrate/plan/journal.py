"""What a move has done, as lines of a file, so that it can go on after any crash.

A topic here is one that is not partitioned, or one partition.

| state of a topic | what is true                                               | next event |
|------------------|------------------------------------------------------------|------------|
| absent           | nothing was done                                           | `made`     |
| making           | the source is held, the target and its subscriptions exist | `read`     |
| copying          | the first entries, `read` here, may be at the target       | `copied`   |
| copied           | the target has every entry of `read`, and no other         | `acked`    |
| acked            | each subscription there has left what it has left here     | `done`     |
| done             | what held both sides is gone                               | -          |

`read` says which entries of the source come next, and is on the disk before any of them is sent.
How many of them arrived is for the target to say: it is asked at each beginning, when nobody can
write there any more, and `resumed` cuts what was read down to that. So an entry is never sent a
second time because nobody knew whether it had arrived. `acked` may be done twice, for acks of
what is acked change nothing.

A last line that is cut off is no line: the crash came before it was written.
"""

import json
from typing import Final, cast, final

from magnetar.errors import SettingsError
from magnetar.migrate.plan.entry_map import EntryMap, Run

__all__ = ["Progress", "TopicProgress", "event", "runs_of"]

FORMAT: Final = 1


@final
class TopicProgress:
    """One topic: which of its entries were read, and how far it is."""

    def __init__(self) -> None:
        self.entries: Final = EntryMap()
        # The schema versions that have other names at the target.
        self.versions: dict[bytes, bytes] = {}
        self.copied: bool = False
        self.acked: bool = False
        self.done: bool = False


@final
class Progress:
    """A move, from its journal."""

    def __init__(self, path: str) -> None:
        self._path: Final = path
        self.source: str = ""
        self.target: str = ""
        self.topics: Final[dict[str, TopicProgress]] = {}

    @property
    def begun(self) -> bool:
        return bool(self.source)

    def take_all(self, text: str) -> int:
        """Takes the lines of a journal; returns how many characters of it count."""
        whole = text.rfind("\n") + 1
        for number, line in enumerate(text[:whole].splitlines(), 1):
            try:
                self.take(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise SettingsError(
                    "--journal", f"{self._path}, line {number} is not of a journal: {error}"
                ) from None
        return whole

    def take(self, found: "dict[str, object]") -> None:
        """Takes one event, as `event` made it."""
        what = cast("str", found["event"])
        if what == "begun":
            self._begin(found)
            return
        topic = self.topics.setdefault(cast("str", found["topic"]), TopicProgress())
        if what == "made":
            for old, new in cast("list[list[str]]", found["versions"]):
                topic.versions[bytes.fromhex(old)] = bytes.fromhex(new)
        elif what == "read":
            for ledger, first, end in cast("list[list[int]]", found["runs"]):
                topic.entries.add((ledger, first, end))
            topic.copied = topic.acked = topic.done = False
        elif what == "resumed":
            topic.entries.cut(cast("int", found["count"]))
        elif what == "copied":
            topic.copied = True
        elif what == "acked":
            topic.acked = True
        elif what == "done":
            topic.done = True
        else:
            raise ValueError(f"there is no event {what!r}")

    def _begin(self, found: "dict[str, object]") -> None:
        if found["format"] != FORMAT:
            raise ValueError(f"format {found['format']}, and this is Magnetar of format {FORMAT}")
        self.source = cast("str", found["source"])
        self.target = cast("str", found["target"])

    def require(self, source: str, target: str) -> None:
        """Raises SettingsError if the journal is of another move."""
        if self.begun and (self.source, self.target) != (source, target):
            raise SettingsError(
                "--journal",
                f"{self._path} is of a move from {self.source} to {self.target}: name another file",
            )


def event(what: str, topic: str = "", **fields: object) -> str:
    """Returns the line of an event."""
    named: dict[str, object] = {"topic": topic} if topic else {}
    if what == "begun":
        named["format"] = FORMAT
    return json.dumps({"event": what, **named, **fields}) + "\n"


def runs_of(positions: "list[tuple[int, int]]") -> "list[Run]":
    """Returns positions in their order as runs.

    >>> runs_of([(3, 0), (3, 1), (3, 3), (4, 0)])
    [(3, 0, 2), (3, 3, 4), (4, 0, 1)]
    """
    runs = EntryMap()
    for ledger, entry in positions:
        runs.add((ledger, entry, entry + 1))
    return runs.runs
