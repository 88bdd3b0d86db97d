"""A list of topics for a client, found and encoded in steps.

A namespace may have tens of thousands of topics, and a pattern takes microseconds for each.
A step looks at some of them; the session makes as many in one turn as the turn may cost.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.broker.namespace.namespace_topics import FoundTopics
from magnetar.broker.namespace.topic_list import TopicFilter, match_text, topics_hash
from magnetar.broker.promise import Promise
from magnetar.broker.turn.long_answer import LongAnswer
from magnetar.errors import BrokerError
from magnetar.model import ServerError
from magnetar.wire.writer import BytesWriter, put_varint

__all__ = ["TopicSearch", "listed"]

# Names in one step: fewer if a pattern is matched, and fewer still of one that is slow.
COST_MATCHED: Final = 40
NAMES_LISTED: Final = 400
STEP_COST: Final = 16


@final
class TopicSearch(LongAnswer):
    """See the module. The last step keeps `found`, or breaks it."""

    def __init__(
        self,
        names: list[str],
        pattern: TopicFilter | None,
        field_tag: int,
        bytes_max: int,
        cancelled: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self._names: Final = names
        self._pattern: Final = pattern
        self._field_tag: Final = field_tag
        self._bytes_max: Final = bytes_max
        self.found: Final[Promise[FoundTopics]] = Promise()
        self._cancelled: Final = cancelled
        self._next: i64 = 0
        self._topics: Final[list[str]] = []
        self._fields: Final = BytesWriter()

    def step(self) -> i64:
        if self._pattern is None:
            for topic in self._names[self._next : self._next + NAMES_LISTED]:
                self._put(topic)
            self._next += NAMES_LISTED
        else:
            self._match(self._pattern)
        if len(self._fields) > self._bytes_max:
            self.done = True
            self.found.fail(self._too_long())
        elif self._next >= len(self._names):
            self.done = True
            fields = self._fields.getvalue()
            hash = topics_hash(self._topics)
            self.found.keep(FoundTopics(self._names, self._topics, hash, fields))
        return STEP_COST

    def _match(self, pattern: TopicFilter) -> None:
        cost: i64 = 0
        end: i64 = len(self._names)
        while self._next < end and cost < COST_MATCHED:
            topic = self._names[self._next]
            self._next += 1
            text = match_text(topic)
            cost += pattern.cost(text)
            if pattern.matches_text(text):
                self._put(topic)

    def cancel(self) -> None:
        if self._cancelled is not None:
            self._cancelled()

    def _put(self, topic: str) -> None:
        self._topics.append(topic)
        _put_name(self._fields, self._field_tag, topic)

    def _too_long(self) -> BrokerError:
        return BrokerError(
            ServerError.TooManyRequests,
            f"the list of topics has more than {self._bytes_max} bytes, the most that an answer "
            "may have: ask with a pattern that fewer topics match",
        )


def listed(topics: list[str], hash: str, field_tag: int) -> FoundTopics:
    """Topics that are known already, as an answer has them."""
    fields = BytesWriter()
    for topic in topics:
        _put_name(fields, field_tag, topic)
    return FoundTopics(topics, topics, hash, fields.getvalue())


def _put_name(fields: BytesWriter, field_tag: int, topic: str) -> None:
    data = topic.encode()
    fields.append(field_tag)
    put_varint(fields, len(data))
    fields.write(data)
