"""A list of topics for a client, found and encoded in steps.

A namespace may have tens of thousands of topics, and a pattern takes microseconds for each.
A step looks at some of them; the session makes as many in one turn as the turn may cost.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.broker.namespace.namespace_topics import FoundTopics
from magnetar.broker.namespace.topic_list import TopicFilter, topics_hash
from magnetar.broker.turn.long_answer import LongAnswer
from magnetar.errors import BrokerError
from magnetar.model import ServerError
from magnetar.wire.writer import BytesWriter, put_varint

__all__ = ["TopicSearch", "listed"]

# Names in one step: fewer if a pattern is matched.
NAMES_MATCHED: Final = 40
NAMES_LISTED: Final = 400
STEP_COST: Final = 16


@final
class TopicSearch(LongAnswer):
    """See the module. `found` or `failed` is called in the last step."""

    def __init__(
        self,
        names: list[str],
        pattern: TopicFilter | None,
        field_tag: int,
        bytes_max: int,
        found: Callable[[FoundTopics], None],
        failed: Callable[[Exception], None],
        cancelled: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self._names: Final = names
        self._pattern: Final = pattern
        self._step: Final[i64] = NAMES_LISTED if pattern is None else NAMES_MATCHED
        self._field_tag: Final = field_tag
        self._bytes_max: Final = bytes_max
        self._found: Final = found
        self._failed: Final = failed
        self._cancelled: Final = cancelled
        self._next: i64 = 0
        self._topics: Final[list[str]] = []
        self._fields: Final = BytesWriter()

    def step(self) -> i64:
        piece = self._names[self._next : self._next + self._step]
        self._next += self._step
        if self._pattern is not None:
            piece = self._pattern.keep(piece)
        for topic in piece:
            self._put(topic)
        if len(self._fields) > self._bytes_max:
            self.done = True
            self._failed(self._too_long())
        elif self._next >= len(self._names):
            self.done = True
            fields = self._fields.getvalue()
            hash = topics_hash(self._topics)
            self._found(FoundTopics(self._names, self._topics, hash, fields))
        return STEP_COST

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
