"""Acks of a durable subscription: everything before an offset, at once, with receipts.

A consumer is there for as long as the ack takes and no longer: it receives nothing, and Spark
calls at moments of its own. The subscription is a failover one, so that the reader's process,
a listener's and an application may all have a consumer there; those here have the least
priority, so that they never take the turn of an application's. An ack that was sent before
changes nothing.

An offset inside of a batch acks that batch up to its index, where the offset knows the
batch's size; else up to the entry before. A message in chunks that ends behind the offset is
acked when it has been read.
"""

import asyncio

from magnetar.arrow.plan.range_end import Place, behind_entry
from magnetar.client.door import aio
from magnetar.client.door.bulk import mark_delete
from magnetar.errors import ConsumerBusy
from magnetar.model import ConsumerType, InitialPosition, MessageId, TopicName
from magnetar.spark.plan.offsets import Offsets

__all__ = ["ack_offsets", "ack_target", "place_subscription"]

LEAST_PRIORITY = (1 << 31) - 1


def ack_target(topic: str, place: Place, size: int) -> MessageId | None:
    """Returns the last message before a place, for a cumulative ack; None if that is not known.

    >>> ack_target("t", (7, 4, 0), 0)
    (7,3,-1,-1)
    >>> ack_target("t", (7, 4, 2), 10)
    (7,4,-1,1)
    """
    ledger, entry, index = place
    partition = TopicName.parse(topic).partition
    if index > 0 and size > 0:
        return MessageId(partition, ledger, entry, index - 1, batch_size=size)
    if entry <= 0:
        return None
    return MessageId(partition, ledger, entry - 1)


async def ack_offsets(client: aio.Client, subscription: str, offsets: Offsets) -> None:
    """Acks everything before these offsets; returns when the broker has kept it."""
    targets = {
        topic: ack_target(topic, offsets.acked(topic), offsets.sizes.get(topic, 0))
        for topic in offsets.places
    }
    await asyncio.gather(
        *(_ack(client, topic, subscription, id) for topic, id in targets.items() if id is not None)
    )


async def _ack(client: aio.Client, topic: str, subscription: str, id: MessageId) -> None:
    async with await _consumer(client, topic, subscription, InitialPosition.Earliest) as consumer:
        await consumer.acknowledge_cumulative(id)


async def _consumer(
    client: aio.Client, topic: str, subscription: str, initial: InitialPosition
) -> aio.Consumer:
    try:
        return await client.subscribe(
            topic,
            subscription,
            consumer_type=ConsumerType.Failover,
            initial_position=initial,
            receiver_queue_size=0,
            ack_receipt_enabled=True,
            auto_retry_acknowledgement=True,
            acknowledgement_group_time_ms=0,
            priority_level=LEAST_PRIORITY,
            start_message_id_inclusive=True,
        )
    except ConsumerBusy as error:
        raise ConsumerBusy(
            f"{subscription} on {topic} cannot be acknowledged behind the stream, for others "
            f"consume it who are no failover consumers ({error}): give the stream a "
            "subscription of its own"
        ) from error


async def place_subscription(
    client: aio.Client,
    topic: str,
    subscription: str,
    start: "str | Place",
    time_ms: int,
) -> Place:
    """Makes the subscription if it is not there, and says where it stands.

    A new one begins at `earliest` or `latest`. A place or a time moves it there, each time
    that a query begins anew: the same place, until something is acked.
    """
    initial = InitialPosition.Latest if start == "latest" else InitialPosition.Earliest
    async with await _consumer(client, topic, subscription, initial) as consumer:
        if isinstance(start, tuple):
            await consumer.seek(MessageId(-1, start[0], start[1]))
            return start
        if time_ms >= 0:
            await consumer.seek(time_ms)
        mark = await mark_delete(consumer)
        assert mark is not None, "the broker does not say where the subscription stands"
        return behind_entry(mark.ledger_id(), mark.entry_id())
