"""Whether an entry can have as many messages as it says.

`num_messages_in_batch` is a number that a producer writes. Brokers count permits, unacked
messages and bits of acks by it, and clients believe it when they take a batch apart: the C++
client, and Python's with it, reads behind the end of its memory and dies (apache/pulsar#6806).

| the batch is                        | what is checked                                         |
|-------------------------------------|---------------------------------------------------------|
| neither compressed nor encrypted    | all: it is walked, and ends where its last message does |
| compressed, small                   | all: it is decompressed and walked                      |
| compressed                          | the count against the size that it says it had, and     |
|                                     | that size against what such a compression can do        |
| encrypted                           | the same, of the bytes that were encrypted              |

Presence alone makes an entry a batch, even with a count of one; a chunk is never one. A count
is from 1 to BATCH_SIZE_MAX.
"""

from typing import Final

from mypy_extensions import i64

from magnetar.errors import RemoteProtocolError
from magnetar.protocol.entry import Entry
from magnetar.protocol.entry_facts import EntryFacts
from magnetar.protocol.payload.batch_walk import walk_batch
from magnetar.protocol.payload.compression import decompress, expansion_max
from magnetar.wire.ack_set import BATCH_SIZE_MAX, MESSAGE_BYTES_MIN, all_unacked

__all__ = ["DECOMPRESS_BYTES_MAX", "batch_fault", "messages_charged", "unpacked_size"]

# Batches that were as large before they were compressed, at most, are decompressed to be walked.
# That takes a few microseconds; an entry takes tens of them until it is stored.
DECOMPRESS_BYTES_MAX: Final = 4096


def batch_fault(entry: Entry, facts: EntryFacts) -> str:
    """Returns why the entry cannot be the batch that it says it is; nothing, if it can.

    It is for entries with `facts.batched`. What is found by bounds only may lie all the same,
    but never by more than the bounds.
    """
    count = facts.batch_size
    if facts.chunk_count > 1:
        return f"a chunk of a message that is a batch of {count}: chunks are not batched"
    if not 1 <= count <= BATCH_SIZE_MAX:
        return f"a batch of {count} messages: it has from 1 to {BATCH_SIZE_MAX}"
    if facts.compression == 0 and not facts.encrypted:
        return _walk_fault(entry.data, entry.metadata_end, count)
    size: i64 = len(entry.data) - entry.metadata_end
    if facts.compression != 0:
        size = unpacked_size(size, facts.compression, facts.uncompressed_size)
    if count * MESSAGE_BYTES_MIN > size:
        room = size // MESSAGE_BYTES_MIN
        return f"a batch of {count} messages in bytes that have room for {room}"
    if facts.uncompressed_size <= DECOMPRESS_BYTES_MAX and not facts.encrypted:
        return _compressed_fault(entry, facts)
    return ""


def messages_charged(entry: Entry, claimed: i64, unacked: int | None, unpacked: i64) -> i64:
    """Returns how many permits a batch costs, of which the `unacked` messages are delivered.

    Broker and client must agree on it. A count that the entry has no room for costs one: no
    client takes such an entry apart, and each gives one permit back for it. `unpacked` is how
    large the payload was, if it is compressed, as `unpacked_size` says.
    """
    size: i64 = len(entry.data) - entry.broker_metadata_end
    if not 1 <= claimed <= BATCH_SIZE_MAX or claimed * MESSAGE_BYTES_MIN > max(size, unpacked):
        return 1
    if unacked is None:
        return claimed
    return (unacked & all_unacked(claimed)).bit_count()


def unpacked_size(size: i64, compression: i64, uncompressed_size: i64) -> i64:
    """Returns how large a payload was before it became `size` bytes, at most: 0 if not compressed.

    >>> from magnetar.model.enums import CompressionType
    >>> unpacked_size(60, CompressionType.LZ4, 1000), unpacked_size(60, CompressionType.LZ4, 10**9)
    (1000, 15300)
    """
    if compression == 0:
        return 0
    return min(uncompressed_size, size * expansion_max(compression))


def _walk_fault(data: bytes, first: i64, count: i64) -> str:
    try:
        end = walk_batch(data, first, count)
    except RemoteProtocolError as error:
        return f"a batch of {count} messages that it does not have: {error}"
    if end != len(data):
        return f"{len(data) - end} bytes behind the last of {count} messages of a batch"
    return ""


def _compressed_fault(entry: Entry, facts: EntryFacts) -> str:
    try:
        payload = decompress(
            facts.compression, entry.payload(), facts.uncompressed_size, DECOMPRESS_BYTES_MAX
        )
    except RemoteProtocolError as error:
        return f"a batch that cannot be decompressed: {error}"
    return _walk_fault(payload, 0, facts.batch_size)
