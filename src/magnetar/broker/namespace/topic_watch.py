"""Clients that watch the topics of a namespace which match a pattern, and hear of changes.

Many clients watch the same pattern, and topics come and go by the hundred. So the work is
shared and done in turns:

    noted     topics that came or went, and were not looked at since
    pattern   one for all who watch it: the names that match, and how they changed
    watcher   a client, and up to which change it was told

| phase | a turn                                    | becomes                                    |
|-------|-------------------------------------------|--------------------------------------------|
| idle  | -                                         | look, when a topic is noted                |
| look  | holds some of the noted topics against    | tell, when those noted at its beginning    |
|       | the patterns of their namespace           | are done                                   |
| tell  | tells some of those who are behind        | look, or idle if nothing was noted         |

A topic is judged by whether it is there when it is looked at: one that came and went meanwhile
changes nothing. Names change in the phase `look` alone, so in `tell` the hash of a pattern is
made once, and what is told is the same for most.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Final, TypeAlias, final

from mypy_extensions import i64

from magnetar.broker.host import Host
from magnetar.broker.namespace.topic_list import TopicFilter, match_text, topics_hash
from magnetar.errors import BrokerError
from magnetar.model import ServerError, TopicName

__all__ = ["TopicWatchers", "WatchedPattern", "Watcher"]

# What comparisons of a name with a pattern may cost in one turn, and names told in one.
COST_AT_ONCE: Final = 300
NAMES_AT_ONCE: Final = 2000
# What a message costs besides its names.
TELLING: Final = 20

# All watched patterns are looked at when something has changed. So there are so many, and they and
# the names that match them take so much memory; above it clients ask for lists instead.
PATTERNS_MAX: Final = 1000
MEMORY_MAX: Final = 32 << 20
NAME_BYTES: Final = 8

# Takes the topics that came, those that went, and the hash of all that match.
Tell: TypeAlias = Callable[[list[str], list[str], str], None]
# Takes a topic that came or went, before anybody has looked at it.
Listener: TypeAlias = Callable[[str, str, bool], None]


@final
class WatchedPattern:
    """The topics of a namespace that match a pattern."""

    def __init__(self, namespace: str, text: str, filter: TopicFilter, topics: list[str]) -> None:
        self.namespace: Final = namespace
        self.text: Final = text
        self._filter: Final = filter
        # In order.
        self.topics: Final = sorted(topics)
        self.watchers: Final[dict[Watcher, None]] = {}
        # Topics that came or went since the change of that number.
        self._changes: Final[list[tuple[str, bool]]] = []
        self._first: int = 0
        self._hash: str = ""
        self._news: tuple[list[str], list[str]] = ([], [])
        self._news_since: int = -1

    @property
    def version(self) -> int:
        """How many changes there were."""
        return self._first + len(self._changes)

    @property
    def memory_bytes(self) -> int:
        """About what it takes."""
        return self._filter.memory_bytes + NAME_BYTES * len(self.topics)

    def look(self, topic: str, text: str, there: bool) -> i64:
        """A topic may have come or gone; `text` is what patterns match of its name.

        Returns what that cost.
        """
        index = bisect_left(self.topics, topic)
        known = index < len(self.topics) and self.topics[index] == topic
        if known == there:
            return 1
        cost = self._filter.cost(text)
        if not self._filter.matches_text(text):
            return cost
        if there:
            self.topics.insert(index, topic)
        else:
            del self.topics[index]
        self._changes.append((topic, there))
        self._hash = ""
        self._news_since = -1
        return cost

    def hash(self) -> str:
        """Returns the hash of all names, which is made once after each change."""
        if not self._hash:
            self._hash = topics_hash(self.topics)
        return self._hash

    def news(self, since: int) -> tuple[list[str], list[str]]:
        """Returns the topics that came and those that went since a version."""
        if since != self._news_since:
            came: dict[str, bool] = {}
            for topic, there in self._changes[since - self._first :]:
                if came.pop(topic, None) is None:
                    came[topic] = there
            self._news = (
                [topic for topic, there in came.items() if there],
                [topic for topic, there in came.items() if not there],
            )
            self._news_since = since
        return self._news

    def have_told(self) -> None:
        """Everybody knows of all changes: they are forgotten."""
        self._first = self.version
        self._changes.clear()


@final
class Watcher:
    """A client that watches a pattern."""

    def __init__(self, pattern: WatchedPattern, tell: Tell) -> None:
        self.pattern: Final = pattern
        self.tell: Final = tell
        self.since: int = pattern.version


@final
class TopicWatchers:
    """All watchers of a broker; see the module. `exists` says whether a topic is there."""

    def __init__(
        self, host: Host, exists: Callable[[str], bool], memory_max: int = MEMORY_MAX
    ) -> None:
        self._host: Final = host
        self._exists: Final = exists
        self._memory_max: Final = memory_max
        # By namespace, and by the text of the pattern.
        self._patterns: Final[dict[str, dict[str, WatchedPattern]]] = {}
        self.listeners: Final[list[Listener]] = []
        self.count: int = 0
        self._pattern_count: int = 0
        self._memory_bytes: int = 0
        # Namespaces of the topics that were noted, by topic.
        self._noted: dict[str, str] = {}
        self._looking: list[tuple[str, str]] = []
        # Of the topic that is looked at: its name, what is matched of it, whether it is there, and
        # the patterns that it is still to be held against.
        self._topic: tuple[str, str, bool] = ("", "", False)
        self._left: list[WatchedPattern] = []
        self._behind: list[Watcher] = []
        self._busy: bool = False

    # ---- Who watches ---------------------------------------------------------

    def find(self, namespace: str, text: str) -> WatchedPattern | None:
        """Returns the pattern, if somebody watches it."""
        return self._patterns.get(namespace, {}).get(text)

    def watch(
        self, namespace: str, text: str, filter: TopicFilter, topics: list[str], tell: Tell
    ) -> Watcher:
        """Returns a new watcher of a pattern, which `topics` match if nobody watches it yet.

        Raises BrokerError if there is no room for one more pattern.
        """
        pattern = self.find(namespace, text)
        if pattern is None:
            pattern = WatchedPattern(namespace, text, filter, topics)
            self._require_room(pattern.memory_bytes)
            self._pattern_count += 1
            self._memory_bytes += pattern.memory_bytes
            self._patterns.setdefault(namespace, {})[text] = pattern
        watcher = Watcher(pattern, tell)
        pattern.watchers[watcher] = None
        self.count += 1
        return watcher

    def _require_room(self, memory_bytes: int) -> None:
        reason = ""
        if self._pattern_count >= PATTERNS_MAX:
            reason = f"{PATTERNS_MAX} patterns are watched"
        elif self._memory_bytes + memory_bytes > self._memory_max:
            reason = (
                f"all watched patterns and their names would take over {self._memory_max} bytes"
            )
        if reason:
            raise BrokerError(
                ServerError.TooManyRequests,
                f"{reason}, the most that may be: ask for lists of topics instead",
            )

    def remove(self, watcher: Watcher) -> None:
        """Ends a watcher, which must be one of them."""
        pattern = watcher.pattern
        del pattern.watchers[watcher]
        self.count -= 1
        if pattern.watchers:
            return
        self._pattern_count -= 1
        self._memory_bytes -= pattern.memory_bytes
        patterns = self._patterns[pattern.namespace]
        del patterns[pattern.text]
        if not patterns:
            del self._patterns[pattern.namespace]

    # ---- What comes and goes -------------------------------------------------

    def note(self, name: TopicName, *, created: bool) -> None:
        """A topic came or went."""
        topic, namespace = str(name), name.namespace
        for listener in list(self.listeners):
            listener(namespace, topic, created)
        self.look_at(namespace, [topic])

    def look_at(self, namespace: str, topics: list[str]) -> None:
        """Topics may have come or gone; whoever watches their namespace is told soon."""
        if namespace not in self._patterns or not topics:
            return
        for topic in topics:
            self._noted[topic] = namespace
        if not self._busy:
            self._busy = True
            self._host.call_soon(self._turn)

    def _turn(self) -> None:
        if not self._looking and not self._left and not self._behind:
            # The last first, so that they can be popped.
            self._looking = list(self._noted.items())[::-1]
            self._noted = {}
        if self._looking or self._left:
            self._look()
            if not self._looking and not self._left:
                self._gather_behind()
        else:
            self._tell()
        self._busy = bool(self._looking or self._left or self._behind or self._noted)
        if self._busy:
            self._host.call_soon(self._turn)

    def _look(self) -> None:
        cost: i64 = 0
        while cost < COST_AT_ONCE:
            if self._left:
                topic, text, there = self._topic
                pattern = self._left.pop()
                before = pattern.memory_bytes
                cost += pattern.look(topic, text, there)
                if pattern.watchers:
                    self._memory_bytes += pattern.memory_bytes - before
            elif self._looking:
                cost += 1
                self._begin(*self._looking.pop())
            else:
                return

    def _begin(self, topic: str, namespace: str) -> None:
        self._topic = (topic, match_text(topic), self._exists(topic))
        self._left = list(self._patterns.get(namespace, {}).values())

    def _gather_behind(self) -> None:
        for patterns in self._patterns.values():
            for pattern in patterns.values():
                for watcher in pattern.watchers:
                    if watcher.since < pattern.version:
                        self._behind.append(watcher)
        self._behind.reverse()
        if not self._behind:
            self._forget_changes()

    def _tell(self) -> None:
        names = 0
        while self._behind and names < NAMES_AT_ONCE:
            watcher = self._behind.pop()
            pattern = watcher.pattern
            if watcher not in pattern.watchers:
                continue
            came, went = pattern.news(watcher.since)
            watcher.since = pattern.version
            names += len(came) + len(went) + TELLING
            if came or went:
                watcher.tell(came, went, pattern.hash())
        if not self._behind:
            self._forget_changes()

    def _forget_changes(self) -> None:
        for patterns in self._patterns.values():
            for pattern in patterns.values():
                pattern.have_told()
