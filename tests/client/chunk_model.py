"""Messages in chunks as a producer makes them, and a consumer that gets them."""

import pytest
from client.consumer_model import Rig

from magnetar.client.consumer.message import Message
from magnetar.model import ConsumerType
from magnetar.protocol import MessageMetadata, compress, encode_entry

SINGLE = ConsumerType.Exclusive
SHARED = ConsumerType.Shared
EXPIRE_MS = 60_000
# When the clock of a `Rig` begins.
PUBLISHED_MS = 1_000_000


def chunk_entries(
    payload: bytes, size: int, *, sequence_id: int = 0, name: str = "maker", kind: int = 0
) -> list[bytes]:
    """A message as the entries that a producer makes of it."""
    metadata = MessageMetadata(name, sequence_id, PUBLISHED_MS)
    metadata.uuid = f"{name}-{sequence_id}"
    metadata.uncompressed_size = len(payload)
    metadata.compression = kind
    payload = compress(kind, payload)
    parts = [payload[first : first + size] for first in range(0, len(payload), size)]
    metadata.num_chunks_from_msg = len(parts)
    metadata.total_chunk_msg_size = len(payload)
    entries = []
    for number, part in enumerate(parts):
        metadata.chunk_id = number
        entries.append(encode_entry(metadata.encode(), part))
    return entries


def publish(rig: Rig, *entries: bytes) -> list[int]:
    return [rig.broker.publish_entry(entry) for entry in entries]


def rig_of(kind: ConsumerType, **options: object) -> Rig:
    rig = Rig(kind, acknowledgement_group_time_ms=0, **options)
    rig.connect()
    return rig


def datas(messages: list[Message]) -> list[bytes]:
    return [message.data() for message in messages]


def unacked(rig: Rig) -> list[int]:
    return sorted(entry_id for entry_id, _ in rig.broker.left())


def redelivered(rig: Rig) -> list[list[int]]:
    return [[id.entryId for id in command.message_ids] for command in rig.redeliveries()]


KINDS = pytest.mark.parametrize("kind", [SINGLE, SHARED], ids=["exclusive", "shared"])
