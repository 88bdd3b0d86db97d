"""What tests of compaction share: messages with keys, and readers of the compacted view."""

from typing import Any, Final

from magnetar.broker.topic.compaction.topic_compaction import CompactionStatus
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    CommandSend,
    CommandSendReceipt,
    SingleMessage,
    decode_batch,
    decompress,
    encode_batch,
    split_entry,
)
from magnetar.protocol.payload.compression import compress
from support.wire_client import EARLIEST_ID, Exclusive, WireClient, WireConsumer, WireProducer
from support.world import World

PERMITS: Final = 100_000


class Keyed:
    """A message as an application sees it: where it is, its key and its value."""

    def __init__(self, id: MessageIdData, index: int, key: str | None, value: str) -> None:
        self.place = (int(id.ledger_id), int(id.entry_id), index)
        self.key = key
        self.value = value

    def __repr__(self) -> str:
        return f"<{self.place} {self.key}={self.value!r}>"


def send(producer: WireProducer, key: str | None, value: str, **fields: Any) -> Keyed:
    """One message, which is no batch."""
    return Keyed(producer.send(value, partition_key=key, **fields), -1, key, value)


def send_batch(
    producer: WireProducer, *messages: tuple[str | None, str], compression: int = 0, **fields: Any
) -> list[Keyed]:
    """A batch of messages, each with a key of its own."""
    singles = []
    for key, value in messages:
        single = SingleMessage(value.encode(), 0)
        single.partition_key = key
        singles.append(single)
    payload = encode_batch(singles)
    packed = compress(compression, payload)
    id = send_bytes(
        producer,
        packed,
        num_messages_in_batch=len(messages),
        compression=compression,
        uncompressed_size=len(payload),
        **fields,
    )
    return [Keyed(id, i, key, value) for i, (key, value) in enumerate(messages)]


def send_bytes(producer: WireProducer, payload: bytes, **fields: Any) -> MessageIdData:
    """An entry with any payload at all."""
    producer.sequence_id += 1
    entry = producer.entry(payload, producer.sequence_id, **fields)
    count = fields.get("num_messages_in_batch", 1)
    producer.client.say(CommandSend(producer.id, producer.sequence_id, entry, count))
    (receipt,) = producer.client.take(CommandSendReceipt)
    assert receipt.message_id is not None
    return receipt.message_id


def compact(world: World, topic: str = "t") -> None:
    """Compacts a topic, from beginning to end."""
    begin(world, topic)
    world.settle()
    compaction = world.topic(topic).compaction
    assert compaction.status == CompactionStatus.SUCCESS, compaction.error


def begin(world: World, topic: str = "t") -> None:
    world.topic(topic).compaction.trigger()


def reader(client: WireClient, topic: str = "t", **fields: Any) -> WireConsumer:
    """A reader of the compacted view, as clients make them."""
    name = f"reader-{client.next_request_id()}"
    fields = {"start": EARLIEST_ID, "durable": False, "read_compacted": True} | fields
    return client.subscribe(topic, name, Exclusive, **fields)


def received(consumer: WireConsumer) -> list[Keyed]:
    """What comes now, but for what compaction left out of batches."""
    consumer.flow(PERMITS)
    return taken(consumer)


def taken(consumer: WireConsumer) -> list[Keyed]:
    """The same of what came already."""
    found = []
    mine = [c for c in consumer.client.received if consumer._is_mine(c)]
    consumer.client.received = [c for c in consumer.client.received if not consumer._is_mine(c)]
    for command in mine:
        entry = split_entry(command.entry)
        assert entry.intact()
        metadata = entry.metadata()
        count = metadata.num_messages_in_batch
        payload = decompress(
            metadata.compression, entry.payload(), metadata.uncompressed_size, 1 << 30
        )
        if count is None:
            text = payload.decode()
            found.append(Keyed(command.message_id, -1, metadata.partition_key, text))
            continue
        for index, single in enumerate(decode_batch(payload, count)):
            wanted = command.ack_set is None or command.ack_set >> index & 1
            if wanted and not single.compacted_out:
                key, text = single.partition_key, single.payload.decode()
                found.append(Keyed(command.message_id, index, key, text))
    return found


def values(messages: list[Keyed]) -> list[str]:
    return [message.value for message in messages]


def folded(messages: list[Keyed]) -> dict[str, str]:
    """What somebody knows who has read these: the last value of each key."""
    known: dict[str, str] = {}
    for message in messages:
        if message.key is None:
            continue
        if message.value:
            known[message.key] = message.value
        else:
            known.pop(message.key, None)
    return known
