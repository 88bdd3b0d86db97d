"""Figures of producers and consumers, as they are at one moment, over all their partitions."""

from collections.abc import Sequence
from dataclasses import dataclass

from magnetar.client.consumer_core import ConsumerCore
from magnetar.client.producer_core import ProducerCore

__all__ = ["ConsumerStats", "ProducerStats", "consumer_stats", "producer_stats"]


@dataclass(frozen=True, slots=True)
class ProducerStats:
    """What a producer did since it was made, and what it waits for now."""

    messages_sent: int
    bytes_sent: int
    messages_stored: int
    messages_failed: int
    # Entries on the wire: a batch is one, and counts again each time it is sent again.
    entries_written: int
    pending_messages: int
    pending_bytes: int


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """What a consumer did since it was made, and what it has now."""

    messages_received: int
    bytes_received: int
    # Not for the application: acked already, before the start, or of an older epoch.
    messages_dropped: int
    messages_taken: int
    messages_acked: int
    messages_dead: int
    entries_redelivered: int
    entries_refused: int
    queue_length: int
    available_permits: int
    unreturned_permits: int


def producer_stats(cores: Sequence[ProducerCore]) -> ProducerStats:
    return ProducerStats(
        messages_sent=sum(core.messages_sent for core in cores),
        bytes_sent=sum(core.bytes_sent for core in cores),
        messages_stored=sum(core.messages_stored for core in cores),
        messages_failed=sum(core.messages_failed for core in cores),
        entries_written=sum(core.entries_written for core in cores),
        pending_messages=sum(core.pending_messages for core in cores),
        pending_bytes=sum(core.pending_bytes for core in cores),
    )


def consumer_stats(cores: Sequence[ConsumerCore]) -> ConsumerStats:
    return ConsumerStats(
        messages_received=sum(core.stats.messages_received for core in cores),
        bytes_received=sum(core.stats.bytes_received for core in cores),
        messages_dropped=sum(core.stats.messages_dropped for core in cores),
        messages_taken=sum(core.stats.messages_taken for core in cores),
        messages_acked=sum(core.stats.messages_acked for core in cores),
        messages_dead=sum(core.stats.messages_dead for core in cores),
        entries_redelivered=sum(core.stats.entries_redelivered for core in cores),
        entries_refused=sum(core.stats.entries_refused for core in cores),
        queue_length=sum(core.queue_length() for core in cores),
        available_permits=sum(core.available_permits for core in cores),
        unreturned_permits=sum(core.unreturned_permits for core in cores),
    )
