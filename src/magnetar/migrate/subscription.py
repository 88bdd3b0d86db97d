"""Subscriptions of a move: what each has not acked on one side, and making it so on the other."""

from typing import Final

from magnetar.arrow.snapshot import backlog_of, state_of
from magnetar.errors import OperationNotSupported
from magnetar.migrate.plan.acked_ranges import AckedRanges
from magnetar.migrate.plan.acks import AckOrders, Batch, Unacked, orders, unacked_of
from magnetar.migrate.plan.entry_map import EntryMap
from magnetar.migrate.side import Side
from magnetar.model import ConsumerType, MessageId, TopicName
from magnetar.rest.plan import subscriptions, topics

__all__ = ["HOLD", "ack_like", "hold", "let_go", "names_of", "unacked"]

# The subscription that keeps a topic's entries where they are while it is copied.
HOLD: Final = "magnetar-migrate"
# Subscriptions of brokers themselves.
OWN: Final = ("__", "pulsar.repl.", "pulsar.dedup")
# So many acks are one request.
ACKS_MAX: Final = 1000
TIMEOUT_S: Final = 60.0


def names_of(side: Side, topic: str) -> dict[str, dict[str, str]]:
    """Returns the subscriptions of a topic that stay, with their properties."""
    found = side.do(topics.stats(topic)).subscriptions
    return {
        name: one.subscription_properties
        for name, one in sorted(found.items())
        if one.durable and name != HOLD and not name.startswith(OWN)
    }


def hold(side: Side, topic: str) -> None:
    """Keeps a topic's entries from being trimmed, from the first that is there."""
    side.make(subscriptions.create(topic, HOLD, position="earliest"))


def let_go(side: Side, topic: str) -> None:
    """Undoes `hold`."""
    if HOLD in side.do(subscriptions.list_subscriptions(topic)):
        side.do(subscriptions.delete(topic, HOLD, force=True))


# ---- What is not acked -----------------------------------------------------------------


async def unacked(side: Side, topic: str, subscription: str, entries: EntryMap) -> Unacked:
    """Returns what a subscription has not acked, in numbers of these entries.

    Magnetar tells. Apache Pulsar does not, so a consumer joins there and looks; it raises
    ConsumerBusy if there are others.
    """
    try:
        backlog = backlog_of(side.rest, topic, subscription)
        pages = state_of(side.rest, topic, subscription) if backlog.picked else []
    except OperationNotSupported:
        return await _looked_at(side, topic, subscription, entries)
    sizes = {batch["position"]: batch["batchSize"] for page in pages for batch in page["batches"]}
    batches: dict[tuple[int, int], Batch] = {}
    for (ledger, entry), bits in backlog.picked.items():
        batches[ledger, entry] = (bits, sizes[f"{ledger}:{entry}"])
    return unacked_of(entries, backlog.runs, batches)


async def _looked_at(side: Side, topic: str, subscription: str, entries: EntryMap) -> Unacked:
    looker = await side.client.join(topic, subscription)
    try:
        cursor = side.do(topics.internal_stats(topic)).cursors[subscription]
        acked = AckedRanges(cursor.mark_delete_position, cursor.individually_deleted_messages)
        expected = acked.rest_of(entries)
        if expected:
            await looker.read(entries.position(expected[-1][1] - 1), TIMEOUT_S)
        runs = [(ledger, entry, entry + 1) for ledger, entry in looker.entries]
        return unacked_of(entries, runs, looker.batches)
    finally:
        await looker.close()


# ---- The same on the other side --------------------------------------------------------


async def ack_like(
    side: Side, topic: str, subscription: str, wanted: Unacked, entries: EntryMap
) -> None:
    """Acks all that is not `wanted` on a subscription that begins before all entries."""
    found = orders(wanted, entries.count)
    consumer = await side.client.aio.subscribe(
        topic,
        subscription,
        consumer_type=ConsumerType.Exclusive,
        consumer_name=HOLD,
        receiver_queue_size=0,
        ack_receipt_enabled=True,
    )
    try:
        partition = TopicName.parse(topic).partition
        if found.floor > 0:
            ledger, entry = entries.position(found.floor - 1)
            await consumer.acknowledge_cumulative(MessageId(partition, ledger, entry))
        ids = _ids(found, entries, partition)
        for first in range(0, len(ids), ACKS_MAX):
            await consumer.acknowledge(ids[first : first + ACKS_MAX])
    finally:
        await consumer.close()


def _ids(found: AckOrders, entries: EntryMap, partition: int) -> list[MessageId]:
    ids: list[MessageId] = []
    for first, end in found.ranges:
        for number in range(first, end):
            ids.append(MessageId(partition, *entries.position(number)))
    for number, index, size in found.indexes:
        ledger, entry = entries.position(number)
        ids.append(MessageId(partition, ledger, entry, index, batch_size=size))
    return ids
