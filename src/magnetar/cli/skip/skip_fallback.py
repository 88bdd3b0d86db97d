"""Skipping on a cluster that lacks the request: the ids are acked through a consumer.

The consumer has no permits, so no message comes to it, and its acks want receipts. Before
anything is acked every id is looked up and every entry is read: that tells how large a batch
is, which an ack of one index must say, and which chunks belong together.

| the subscription is of type  | what happens                                            |
|------------------------------|---------------------------------------------------------|
| None (nobody is connected)   | joined as Shared                                        |
| Shared                       | joined as Shared                                        |
| Key_Shared                   | joined as Key_Shared; the keys that the consumer owns   |
|                              | wait until it is gone, and the command warns of that    |
| Exclusive, Failover          | refused, as the request refuses them                    |

What is lost against the request: the acks are not one step, so that a failure may leave some
done, which the command tells; the same command once more does the rest. And a broker that does
not ack batch indexes cannot skip one message of a batch, which is refused.
"""

from typing import Final, TypeAlias

from magnetar.cli.console import track, warn
from magnetar.cli.message.message_ids import id_text
from magnetar.cli.message.messages import Entry, read_entry
from magnetar.cli.skip.ledger_map import LedgerMap, partition_topics
from magnetar.cli.target import current
from magnetar.errors import BatchIndexError, InvalidMessageIdError
from magnetar.model import MessageId, TopicName
from magnetar.model.enums import ConsumerType
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.admin_error import AdminError
from magnetar.rest.path import path_of, topic_path

__all__ = ["skip_by_acks"]

# How far from a chunk its others are looked for, in entries. Producers send the chunks of a
# message one after the other; only other producers' messages come between.
CHUNK_REACH_MAX: Final = 1000
CONSUMER_NAME: Final = "magnetar-skip-messages"

# Of each partition the ids, by ledger, entry and batch index.
Acks: TypeAlias = dict[TopicName, dict[tuple[int, int, int], MessageId]]


def skip_by_acks(
    admin: AdminClient, topic: TopicName, subscription: str, ids: list[MessageId]
) -> int:
    """Acks the messages; returns how many were gone before.

    Raises AdminError and what is a UsageError, with nothing acked.
    """
    kind = _consumer_type(admin, topic, subscription)
    ledgers = LedgerMap.load(admin, topic)
    places = [(id, ledgers.find(id)) for id in ids]
    gone = sum(part is None for _, part in places)
    plan = _Plan(admin)
    for id, part in track(places, "reading", len(places)):
        if part is not None:
            plan.add(id, part)
    if plan.has_indexes:
        _require_batch_indexes(admin)
    warn(
        "this cluster cannot skip by message id: the messages are acked through a consumer "
        "instead, partition by partition and not as one step: a failure would leave some of them "
        "skipped"
    )
    if kind == ConsumerType.KeyShared and plan.acks:
        warn(
            f"{subscription} is Key_Shared: while the messages are acked, keys that fall to this "
            "command's consumer wait"
        )
    _ack(plan.acks, subscription, kind)
    return gone


def _ack(acks: Acks, subscription: str, kind: ConsumerType) -> None:
    """Acks what is planned, partition by partition; says how far it came if it stops."""
    done = 0
    try:
        with current().client() as client:
            for part, ids in acks.items():
                with client.subscribe(
                    str(part),
                    subscription,
                    consumer_type=kind,
                    consumer_name=CONSUMER_NAME,
                    receiver_queue_size=0,
                    ack_receipt_enabled=True,
                ) as consumer:
                    consumer.acknowledge(list(ids.values()))
                done += 1
    except BaseException:
        warn(
            f"messages of {done} of {len(acks)} topics or partitions are skipped for sure, and "
            "some of the next one may be: the same command once more does the rest"
        )
        raise


def _consumer_type(admin: AdminClient, topic: TopicName, subscription: str) -> ConsumerType:
    """What to join the subscription as. Raises AdminError."""
    kinds: set[str] = set()
    for part in partition_topics(admin, topic):
        stats = admin.get(topic_path(part, "stats"))
        found = stats.get("subscriptions", {}) if isinstance(stats, dict) else {}
        one = found.get(subscription) if isinstance(found, dict) else None
        if not isinstance(one, dict):
            raise AdminError(404, f"{part} has no subscription {subscription!r}")
        kinds.add(str(one.get("type") or "None"))
    refused = kinds & {"Exclusive", "Failover"}
    if refused:
        raise AdminError(
            405,
            f"{subscription} of {topic} is {refused.pop()}: messages are skipped by id on Shared "
            "and Key_Shared subscriptions only",
        )
    return ConsumerType.KeyShared if "Key_Shared" in kinds else ConsumerType.Shared


def _require_batch_indexes(admin: AdminClient) -> None:
    """Raises AdminError if the broker would take the ack of an index and forget it."""
    name = "acknowledgmentAtBatchIndexLevelEnabled"
    try:
        found = admin.get(path_of("brokers", "configuration", "runtime"))
    except AdminError as error:
        warn(
            f"cannot see whether the broker acks batch indexes ({error}): where {name} is false, "
            "a message of a batch is not skipped"
        )
        return
    if isinstance(found, dict) and str(found.get(name, "true")).lower() == "false":
        raise AdminError(
            405,
            f"the broker does not ack batch indexes ({name} is false): name whole entries, as "
            "ledger:entry",
        )


class _Plan:
    """What is to be acked of each partition, each entry once or index by index."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._entries: dict[tuple[TopicName, int, int], Entry] = {}
        self.acks: Acks = {}
        self.has_indexes = False

    def add(self, id: MessageId, part: TopicName) -> None:
        """Raises InvalidMessageIdError, BatchIndexError, AdminError."""
        entry = self._read(part, id.ledger_id(), id.entry_id())
        if id.batch_index() >= 0:
            self._add_index(id, part, entry)
        elif entry.chunk_count > 1:
            for chunk in self._chunks(part, entry):
                self._put(part, chunk.id())
        else:
            self._put(part, entry.id())

    def _add_index(self, id: MessageId, part: TopicName, entry: Entry) -> None:
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

    def _read(self, part: TopicName, ledger_id: int, entry_id: int) -> Entry:
        key = (part, ledger_id, entry_id)
        found = self._entries.get(key)
        if found is None:
            found = self._entries[key] = read_entry(self._admin, part, ledger_id, entry_id)
        return found

    def _chunks(self, part: TopicName, entry: Entry) -> list[Entry]:
        """All chunks of a message, looked for on both sides in the same ledger."""
        chunks = {entry.chunk_id: entry}
        for step in (-1, 1):
            wanted = range(entry.chunk_id) if step < 0 else range(entry.chunk_id, entry.chunk_count)
            for distance in range(1, CHUNK_REACH_MAX + 1):
                at = entry.entry_id + step * distance
                if at < 0 or all(number in chunks for number in wanted):
                    break
                try:
                    other = self._read(part, entry.ledger_id, at)
                except AdminError as error:
                    if error.status not in (404, 500):
                        raise
                    break  # beyond the end of the ledger
                if other.uuid == entry.uuid:
                    chunks[other.chunk_id] = other
        if len(chunks) != entry.chunk_count:
            raise InvalidMessageIdError(
                f"{id_text(entry.id())} is a chunk of a message of {entry.chunk_count}, of which "
                f"{len(chunks)} were found: give the ids of all of them, entry by entry"
            )
        return list(chunks.values())
