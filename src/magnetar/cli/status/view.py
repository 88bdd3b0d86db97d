"""Topics and subscriptions as an operator sees them: figures of stats, added up.

Only fields that Apache Pulsar has are needed. What is better known here is taken from
Magnetar's own: the backlog in messages (`msgBacklogMessages`), where Pulsar counts entries, and
`damagedPosition`. A figure that nobody told is None, and so is every sum it would be part of
alone.
"""

from collections.abc import Iterable, Mapping

from magnetar.model import TopicName

__all__ = ["SubscriptionView", "TopicView", "added", "topic_view"]

Stats = Mapping[str, object]


class SubscriptionView:
    """A subscription; of a partitioned topic, that of all partitions."""

    def __init__(self, topic: str, name: str, found: Stats) -> None:
        self.topic = topic
        self.name = name
        self.entries = _count(found, "msgBacklog")
        self.messages = _whole(found, "msgBacklogMessages")
        self.delayed = _count(found, "msgDelayed")
        self.unacked = _count(found, "unackedMessages")
        self.consumers = _length(found, "consumers")
        self.rate_out = _number(found, "msgRateOut")
        self.blocked = found.get("blockedSubscriptionOnUnackedMsgs") is True
        self.damaged_at = _text(found, "damagedPosition")
        self.damaged_why = _text(found, "damagedReason")
        # None is unknown, 0 that nothing is unacked.
        self.oldest_ms = _oldest_ms(found, self.entries)

    @property
    def backlog(self) -> int:
        """In messages where the broker tells, else in entries."""
        return self.entries if self.messages is None else self.messages

    @property
    def waiting(self) -> int:
        """What could be consumed now."""
        return max(self.backlog - self.delayed, 0)

    def add(self, other: "SubscriptionView") -> None:
        """Another partition's."""
        self.entries += other.entries
        self.messages = added(self.messages, other.messages)
        self.delayed += other.delayed
        self.unacked += other.unacked
        # A consumer of the whole topic is one of each partition.
        self.consumers = max(self.consumers, other.consumers)
        self.rate_out += other.rate_out
        self.blocked = self.blocked or other.blocked
        self.oldest_ms = oldest([self.oldest_ms, other.oldest_ms])
        if not self.damaged_at:
            self.damaged_at, self.damaged_why = other.damaged_at, other.damaged_why


class TopicView:
    """A topic, with its partitions if it has any."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.partitions = 0
        # Whether there are figures at all, and whether some are missing.
        self.known = False
        self.rate_in = 0.0
        self.bytes_in = 0.0
        self.rate_out = 0.0
        self.bytes_out = 0.0
        self.storage_bytes = 0
        self.producers = 0
        self.subscriptions: dict[str, SubscriptionView] = {}

    @property
    def consumers(self) -> int:
        return sum(one.consumers for one in self.subscriptions.values())

    @property
    def backlog(self) -> int:
        """Of all subscriptions together: what is left to do."""
        return sum(one.backlog for one in self.subscriptions.values())

    @property
    def unacked(self) -> int:
        return sum(one.unacked for one in self.subscriptions.values())

    @property
    def oldest_ms(self) -> int | None:
        return oldest([one.oldest_ms for one in self.subscriptions.values()])

    @property
    def in_messages(self) -> bool:
        """Whether the backlog counts messages; else it counts entries."""
        return all(one.messages is not None for one in self.subscriptions.values())

    def add(self, found: Stats) -> None:
        """What is known of the topic, or of one of its partitions."""
        self.known = True
        self.rate_in += _number(found, "msgRateIn")
        self.bytes_in += _number(found, "msgThroughputIn")
        self.rate_out += _number(found, "msgRateOut")
        self.bytes_out += _number(found, "msgThroughputOut")
        self.storage_bytes += _count(found, "storageSize")
        publishers = _whole(found, "producerCount")
        producers = _length(found, "publishers") if publishers is None else publishers
        self.producers = max(self.producers, producers)
        for name, one in _tables(found, "subscriptions").items():
            view = SubscriptionView(self.name, name, one)
            if name in self.subscriptions:
                self.subscriptions[name].add(view)
            else:
                self.subscriptions[name] = view


def topic_view(views: dict[str, TopicView], name: str) -> TopicView:
    """Returns the view that a topic belongs to: its own, or that of the whole it is a partition
    of."""
    parsed = TopicName.parse(name)
    whole = str(parsed.partitioned)
    if whole not in views:
        views[whole] = TopicView(whole)
    if parsed.partition >= 0:
        views[whole].partitions += 1
    return views[whole]


def added(one: int | None, other: int | None) -> int | None:
    """Returns a sum of what may be unknown.

    >>> added(1, 2), added(1, None)
    (3, None)
    """
    return None if one is None or other is None else one + other


def oldest(times_ms: Iterable[int | None]) -> int | None:
    """Returns the earliest time; 0, nothing unacked, is later than any.

    >>> oldest([5, 0, 3]), oldest([0, 0]), oldest([0, None]), oldest([5, None])
    (3, 0, None, 5)
    """
    found = list(times_ms)
    known = [time for time in found if time]
    if known:
        return min(known)
    return None if None in found else 0


def _oldest_ms(found: Stats, entries: int) -> int | None:
    value = found.get("earliestMsgPublishTimeInBacklog")
    if entries <= 0:
        return 0
    # 0 is what brokers say that were not asked, and -1 what they say of no backlog.
    return value if isinstance(value, int) and value > 0 else None


def _number(found: Stats, field: str) -> float:
    value = found.get(field)
    return float(value) if isinstance(value, int | float) else 0.0


def _whole(found: Stats, field: str) -> int | None:
    value = found.get(field)
    return value if isinstance(value, int) else None


def _count(found: Stats, field: str) -> int:
    return _whole(found, field) or 0


def _text(found: Stats, field: str) -> str:
    value = found.get(field)
    return value if isinstance(value, str) else ""


def _length(found: Stats, field: str) -> int:
    value = found.get(field)
    return len(value) if isinstance(value, list) else 0


def _tables(found: Stats, field: str) -> dict[str, Stats]:
    value = found.get(field)
    if not isinstance(value, dict):
        return {}
    return {str(key): one for key, one in value.items() if isinstance(one, dict)}
