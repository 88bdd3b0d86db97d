"""Lists of topics for clients that subscribe by a pattern: filtered, hashed, watched.

A pattern is matched by RE2, whose time grows with the text alone: nobody can hold the
broker up with an expression. It is matched against names without their domain and without
`-partition-N`, as clients do when they filter themselves: `t-[ab]` has the partitions of
`t-a`, and `t-a-partition-0` has none (Apache's pull requests 21885 and 22025).
"""

from collections.abc import Callable
from typing import Final, final

import re2  # type: ignore[import-untyped]

from magnetar.errors import BrokerError
from magnetar.model import ServerError, TopicName
from magnetar.protocol.topics_hash import topics_hash

__all__ = ["TopicFilter", "TopicWatcher", "topics_hash"]


@final
class TopicFilter:
    """A topics pattern, compiled. Raises BrokerError for one that cannot be."""

    def __init__(self, pattern: str, length_max: int) -> None:
        if length_max > 0 and len(pattern) > length_max:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"the topics pattern has {len(pattern)} characters, {length_max} are allowed",
            )
        try:
            self._matches: Final[Callable[[str], object]] = re2.compile(
                without_domain(pattern)
            ).fullmatch
        except re2.error as error:
            raise BrokerError(
                ServerError.NotAllowedError, f"no topics pattern: {pattern!r}: {error}"
            ) from error

    def matches(self, topic: str) -> bool:
        name = TopicName.parse(topic)
        return self._matches(f"{name.namespace}/{name.partitioned.local_name}") is not None

    def keep(self, topics: list[str]) -> list[str]:
        return [topic for topic in topics if self.matches(topic)]


@final
class TopicWatcher:
    """A client that wants to be told when topics that match come and go.

    What came and went since it was told last is its *news*. They are told together, for each
    time the hash of all names is made.
    """

    def __init__(self, namespace: str, pattern: TopicFilter, topics: list[str]) -> None:
        self.namespace: Final = namespace
        self._pattern: Final = pattern
        self._topics: Final = set(topics)
        # By topic: whether it came.
        self._news: Final[dict[str, bool]] = {}

    def take(self, namespace: str, topic: str, created: bool) -> bool:
        """A topic came or went. True if this is the first of the news."""
        if namespace != self.namespace or not self._pattern.matches(topic):
            return False
        if created == (topic in self._topics):
            return False
        if created:
            self._topics.add(topic)
        else:
            self._topics.discard(topic)
        first = not self._news
        if self._news.pop(topic, None) is None:
            self._news[topic] = created
        return first

    def news(self) -> tuple[list[str], list[str]]:
        """The topics that came and those that went, which are told now."""
        came = [topic for topic, created in self._news.items() if created]
        went = [topic for topic, created in self._news.items() if not created]
        self._news.clear()
        return came, went

    def hash(self) -> str:
        return topics_hash(sorted(self._topics))


def without_domain(pattern: str) -> str:
    """The pattern as people write it, without `persistent://`."""
    return pattern.partition("://")[2] or pattern
