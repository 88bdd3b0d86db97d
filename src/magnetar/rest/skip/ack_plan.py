"""Skipping on a cluster that lacks the request: which ids a consumer has to ack instead.

The consumer has no permits, so no message comes to it, and its acks want receipts. Before
anything is acked every id is looked up and every entry is read: that tells how large a batch
is, which an ack of one index must say, and which chunks belong together.

| the subscription is of type  | what happens                                            |
|------------------------------|---------------------------------------------------------|
| None (nobody is connected)   | joined as Shared                                        |
| Shared                       | joined as Shared                                        |
| Key_Shared                   | joined as Key_Shared; the keys that the consumer owns   |
|                              | wait until it is gone                                   |
| Exclusive, Failover          | refused, as the request refuses them                    |

What is lost against the request: the acks are not one step, so that a failure may leave some
done; to do the same once more does the rest. And a broker that does not ack batch indexes cannot
skip one message of a batch, which is refused.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from magnetar.errors import BatchIndexError, InvalidMessageIdError
from magnetar.model import MessageId, TopicName
from magnetar.model.subscription_type import KEY_SHARED, SUBSCRIPTION_TYPES, ConsumerType
from magnetar.rest.admin_error import AdminError, NotFoundError, OperationNotAllowedError
from magnetar.rest.id_text import id_text
from magnetar.rest.path import path_of, topic_path
from magnetar.rest.request import Plan, Request
from magnetar.rest.skip.entry_head import EntryHead, entry_request
from magnetar.rest.skip.ledger_map import LedgerMap, partition_topics

__all__ = ["AckPlan", "Acks", "consumer_options", "plan_acks"]

# How far from a chunk its others are looked for, in entries. Producers send the chunks of a
# message one after the other; only other producers' messages come between.
CHUNK_REACH_MAX: Final = 1000
CONSUMER_NAME: Final = "magnetar-skip-messages"
BATCH_INDEXES: Final = "acknowledgmentAtBatchIndexLevelEnabled"

# Of each partition the ids, by ledger, entry and batch index.
Acks: TypeAlias = dict[TopicName, dict[tuple[int, int, int], MessageId]]
# An id, and the topic or partition that has it; None if it is gone.
Place: TypeAlias = tuple[MessageId, TopicName | None]


class AckPlan:
    """What is to be acked of each partition, each entry once or index by index."""

    def __init__(self, subscription: str, kind: ConsumerType) -> None:
        self.subscription: Final = subscription
        # What the subscription is joined as.
        self.kind: Final = kind
        self.acks: Acks = {}
        # How many ids name messages that are acked and deleted already.
        self.gone = 0
        self.has_indexes: bool = False
        # What cannot be known for certain, in a sentence; empty if all is.
        self.doubt = ""
        self._entries: dict[tuple[TopicName, int, int], EntryHead] = {}

    def add(self, id: MessageId, part: TopicName) -> Plan[None]:
        """Adds what an id names. Raises InvalidMessageIdError, BatchIndexError, AdminError."""
        entry = yield from self._read(part, id.ledger_id(), id.entry_id())
        if id.batch_index() >= 0:
            self._add_index(id, part, entry)
        elif entry.chunk_count > 1:
            for chunk in (yield from self._chunks(part, entry)):
                self._put(part, chunk.id())
        else:
            self._put(part, entry.id())

    def _add_index(self, id: MessageId, part: TopicName, entry: EntryHead) -> None:
        where = (id.ledger_id(), id.entry_id())
        if not entry.batch_size:
            raise BatchIndexError(*where, "it is not a batch: leave out the batch index")
        if id.batch_index() >= entry.batch_size:
            raise BatchIndexError(
                *where, f"no index {id.batch_index()} in a batch of {entry.batch_size}"
            )
        if entry.batch_size == 1:
            self._put(part, entry.id())
            return
        self.has_indexes = True
        self._put(part, entry.id(id.batch_index()))

    def _put(self, part: TopicName, id: MessageId) -> None:
        key = (id.ledger_id(), id.entry_id(), id.batch_index())
        self.acks.setdefault(part, {})[key] = id

    def _read(self, part: TopicName, ledger_id: int, entry_id: int) -> Plan[EntryHead]:
        key = (part, ledger_id, entry_id)
        if key not in self._entries:
            answer = yield entry_request(part, ledger_id, entry_id)
            self._entries[key] = EntryHead(answer, str(part), part.partition)
        return self._entries[key]

    def _chunks(self, part: TopicName, entry: EntryHead) -> Plan[list[EntryHead]]:
        """Returns all chunks of a message, looked for on both sides in the same ledger."""
        chunks = {entry.chunk_id: entry}
        for step in (-1, 1):
            wanted = range(entry.chunk_id) if step < 0 else range(entry.chunk_id, entry.chunk_count)
            for distance in range(1, CHUNK_REACH_MAX + 1):
                at = entry.entry_id + step * distance
                if at < 0 or all(number in chunks for number in wanted):
                    break
                try:
                    other = yield from self._read(part, entry.ledger_id, at)
                except AdminError as error:
                    if error.status not in (404, 500):
                        raise
                    break  # beyond the end of the ledger
                if other.chunked_name == entry.chunked_name:
                    chunks[other.chunk_id] = other
        if len(chunks) != entry.chunk_count:
            raise InvalidMessageIdError(
                f"{id_text(entry.id())} is a chunk of a message of {entry.chunk_count}, of which "
                f"{len(chunks)} were found: give the ids of all of them, entry by entry"
            )
        return list(chunks.values())


def plan_acks(
    topic: TopicName,
    subscription: str,
    ids: list[MessageId],
    each: Callable[[list[Place]], Iterable[Place]] = iter,
) -> Plan[AckPlan]:
    """Returns what is to be acked; nothing is changed. `each` may show how far it came.

    Raises AdminError and what is a UsageError.
    """
    plan = AckPlan(subscription, (yield from _consumer_type(topic, subscription)))
    ledgers = yield from LedgerMap.load(topic)
    places = [(id, ledgers.find(id)) for id in ids]
    plan.gone = sum(part is None for _, part in places)
    for id, part in each(places):
        if part is not None:
            yield from plan.add(id, part)
    if plan.has_indexes:
        plan.doubt = yield from _batch_index_doubt()
    return plan


def consumer_options(plan: AckPlan) -> dict[str, Any]:
    """Returns the options of the consumer that acks: no permits, and receipts."""
    return {
        "consumer_type": plan.kind,
        "consumer_name": CONSUMER_NAME,
        "receiver_queue_size": 0,
        "ack_receipt_enabled": True,
    }


def _consumer_type(topic: TopicName, subscription: str) -> Plan[ConsumerType]:
    """Returns what to join the subscription as. Raises AdminError."""
    kinds: set[str] = set()
    for part in (yield from partition_topics(topic)):
        stats = (yield Request("GET", topic_path(part, "stats"))).json()
        found = stats.get("subscriptions", {}) if isinstance(stats, dict) else {}
        one = found.get(subscription) if isinstance(found, dict) else None
        if not isinstance(one, dict):
            raise NotFoundError(404, f"{part} has no subscription {subscription!r}")
        kinds.add(str(one.get("type") or "None"))
    refused = kinds & {type.name for type in SUBSCRIPTION_TYPES if not type.skips_single_messages}
    if refused:
        raise OperationNotAllowedError(
            405,
            f"{subscription} of {topic} is {refused.pop()}: messages are skipped by id on Shared "
            "and Key_Shared subscriptions only",
        )
    return ConsumerType.KeyShared if KEY_SHARED.name in kinds else ConsumerType.Shared


def _batch_index_doubt() -> Plan[str]:
    """Raises AdminError if the broker would take the ack of an index and forget it."""
    try:
        answer = yield Request("GET", path_of("brokers", "configuration", "runtime"))
        found = answer.json()
    except AdminError as error:
        return (
            f"cannot see whether the broker acks batch indexes ({error}): where {BATCH_INDEXES} "
            "is false, a message of a batch is not skipped"
        )
    if isinstance(found, dict) and str(found.get(BATCH_INDEXES, "true")).lower() == "false":
        raise OperationNotAllowedError(
            405,
            f"the broker does not ack batch indexes ({BATCH_INDEXES} is false): name whole "
            "entries, as ledger:entry",
        )
    return ""
