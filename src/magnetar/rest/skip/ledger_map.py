"""Which ledgers a topic has, partition by partition: where a message id leads.

| the id                                            | is      |
|---------------------------------------------------|---------|
| in a ledger that is there, below its end          | here    |
| in a ledger below the first that is there         | gone    |
| in any other ledger, or beyond the end of one     | refused |
| of another partition than the topic's, or of none | refused |

What is gone was trimmed, which only happens to what is acked. The map is made from the
internal stats, which Apache Pulsar has too.
"""

from magnetar.errors import InvalidMessageIdError, NoSuchEntryError
from magnetar.model import MessageId, TopicName
from magnetar.rest.admin_error import AdminError
from magnetar.rest.path import topic_path
from magnetar.rest.request import Plan, Request

__all__ = ["LedgerMap", "partition_topics"]


def partition_topics(topic: TopicName) -> Plan[list[TopicName]]:
    """Returns the partitions of a topic, or the topic itself. Raises AdminError."""
    if topic.partition >= 0:
        return [topic]
    found = (yield Request("GET", topic_path(topic, "partitions"))).json()
    count = found.get("partitions", 0) if isinstance(found, dict) else 0
    if not isinstance(count, int) or count <= 0:
        return [topic]
    return [topic.with_partition(number) for number in range(count)]


class LedgerMap:
    """The ledgers of a topic, or of all its partitions."""

    def __init__(self, topic: TopicName) -> None:
        self._topic = topic
        # Of each partition, how many entries each ledger has.
        self._parts: dict[TopicName, dict[int, int]] = {}

    @staticmethod
    def load(topic: TopicName) -> "Plan[LedgerMap]":
        """Raises AdminError."""
        found = LedgerMap(topic)
        for part in (yield from partition_topics(topic)):
            answer = yield Request("GET", topic_path(part, "internalStats"))
            found.add(part, answer.json())
        return found

    def add(self, part: TopicName, stats: object) -> None:
        """Takes the internal stats of a topic or partition."""
        if not isinstance(stats, dict) or not isinstance(stats.get("ledgers"), list):
            raise AdminError(200, f"the internal stats of {part} have no ledgers")
        counts = {int(one["ledgerId"]): int(one["entries"]) for one in stats["ledgers"]}
        # Pulsar does not count the ledger that it writes to.
        ledger, _, entry = str(stats.get("lastConfirmedEntry", "")).partition(":")
        if ledger.isdecimal() and entry.isdecimal():
            counts[int(ledger)] = max(counts.get(int(ledger), 0), int(entry) + 1)
        self._parts[part] = counts

    def find(self, id: MessageId) -> TopicName | None:
        """Returns the topic or partition that has the message; None if it is gone.

        Raises InvalidMessageIdError, NoSuchEntryError.
        """
        parts = self._candidates(id)
        ledger_id = id.ledger_id()
        for part, counts in self._parts.items():
            if ledger_id not in counts:
                continue
            if part not in parts:
                raise InvalidMessageIdError(
                    f"{id} is of partition {id.partition()}, but ledger {ledger_id} is of {part}"
                )
            if id.entry_id() < counts[ledger_id]:
                return part
            reason = f"ledger {ledger_id} of {part} has {counts[ledger_id]} entries"
            raise NoSuchEntryError(ledger_id, id.entry_id(), reason)
        if any(ledger_id < min(self._parts[part], default=0) for part in parts):
            return None
        raise NoSuchEntryError(ledger_id, id.entry_id(), f"{self._topic} has no ledger {ledger_id}")

    def _candidates(self, id: MessageId) -> list[TopicName]:
        if id.partition() < 0:
            return list(self._parts)
        found = [part for part in self._parts if part.partition == id.partition()]
        if not found:
            raise InvalidMessageIdError(
                f"{id} is of partition {id.partition()}, which {self._topic} does not have"
            )
        return found
