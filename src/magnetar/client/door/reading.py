"""Readers, as both doors have them: what reads for one, and whether there is more to read."""

from typing import Any

from magnetar.client.engine.client import Engine
from magnetar.client.engine.consumer import EngineConsumer
from magnetar.client.engine.partition_consumer import PartitionConsumer
from magnetar.client.option.options import ReaderOptions
from magnetar.client.schema.schema import Schema
from magnetar.model import MessageId
from magnetar.wire.integer import INT64_MAX

__all__ = ["has_message", "reader_of"]


def reader_of(
    engine: Engine, topic: str, options: ReaderOptions, schema: Schema[Any]
) -> EngineConsumer:
    """Returns what reads for a reader: a consumer, on a subscription that goes with it."""
    name = f"reader-{int(engine.random() * (1 << 40)):010x}"
    return EngineConsumer(engine, [topic], None, options.consumer_options(name), schema)


async def has_message(consumer: EngineConsumer) -> bool:
    """Returns whether there is a message behind the last one that was read."""
    if consumer.has_returned:
        return True
    # A list, since partitions may join meanwhile.
    for part in list(consumer.parts.values()):
        if part.core.queue_length() > 0:
            return True
        last, mark_delete = await part.last_message_id()
        if last.entry_id() < 0:
            continue
        if _begins_with(part, last, mark_delete):
            await part.seek(last, None)
            mark_delete = None
        if _is_behind(part, last, mark_delete) and await part.arrives(last):
            return True
    return False


def _begins_with(part: PartitionConsumer, last: MessageId, mark_delete: MessageId | None) -> bool:
    """Returns whether reading is to begin with the last message, and none was published since."""
    start = part.core.start_message_id()
    if start is None or start.ledger_id != INT64_MAX or part.core.has_taken:
        return False
    return part.options.start_message_id_inclusive and not _is_behind(part, last, mark_delete)


def _is_behind(part: PartitionConsumer, last: MessageId, mark_delete: MessageId | None) -> bool:
    """Returns whether the last message of a topic is one that was not read yet."""
    start = part.core.start_message_id()
    by_time = part.sought_by_time and not part.core.has_taken
    entry = (last.ledger_id(), last.entry_id())
    if mark_delete is not None and entry <= (mark_delete.ledger_id(), mark_delete.entry_id()):
        return False  # it was read, or skipped, or is before where reading began
    if start is None or (start.ledger_id < 0 and not by_time):
        return True
    if start.ledger_id == INT64_MAX or by_time:
        # Nothing was read yet, and reading begins where the subscription was made or moved.
        return mark_delete is not None
    read_to = (start.ledger_id, start.entry_id)
    if part.options.start_message_id_inclusive and not part.core.has_taken:
        return (*entry, last.batch_index()) >= (*read_to, start.batch_index)
    if start.batch_index < 0:
        return entry > read_to  # all of the entry
    return (*entry, last.batch_index()) > (*read_to, start.batch_index)
