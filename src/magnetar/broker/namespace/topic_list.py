"""Lists of topics for clients that subscribe by a pattern: filtered and hashed.

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

__all__ = ["TopicFilter", "match_text", "topics_hash"]

# Clients are told what is wrong with their patterns; RE2 would print them on standard error too.
OPTIONS: Final = re2.Options()
OPTIONS.log_errors = False


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
                without_domain(pattern), OPTIONS
            ).fullmatch
        except re2.error as error:
            raise BrokerError(
                ServerError.NotAllowedError, f"no topics pattern: {pattern!r}: {error}"
            ) from error

    def matches(self, topic: str) -> bool:
        return self.matches_text(match_text(topic))

    def matches_text(self, text: str) -> bool:
        """The same for what `match_text` makes of a topic."""
        return self._matches(text) is not None

    def keep(self, topics: list[str]) -> list[str]:
        return [topic for topic in topics if self.matches(topic)]


def match_text(topic: str) -> str:
    """What patterns match of a topic's name."""
    name = TopicName.parse(topic)
    return f"{name.namespace}/{name.partitioned.local_name}"


def without_domain(pattern: str) -> str:
    """The pattern as people write it, without `persistent://`."""
    return pattern.partition("://")[2] or pattern
