"""Figures of producers and consumers, as they are at one moment, over all their partitions."""

from collections.abc import Sequence
from dataclasses import dataclass

from magnetar.client.ack.counts import TIME_BOUNDS_MS as ACK_TIME_BOUNDS_MS
from magnetar.client.consumer.core import ConsumerCore
from magnetar.client.producer.core import ProducerCore

__all__ = [
    "ACK_TIME_BOUNDS_MS",
    "ConsumerStats",
    "ProducerStats",
    "consumer_stats",
    "producer_stats",
]


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
    # Refused by the application; and entries that it left unacked for too long.
    messages_refused: int
    entries_late: int
    messages_dead: int
    entries_redelivered: int
    entries_refused: int
    queue_length: int
    available_permits: int
    unreturned_permits: int
    # Acks, as `magnetar.client.ack.counts` counts them: one for each entry in an ACK. Without
    # receipts or retries only the first is more than 0, and what is pending was not sent yet.
    acks_sent: int
    acks_failed: int
    ack_retries: int
    acks_kept: int
    acks_kept_after_retry: int
    acks_exhausted: int
    # Not confirmed now; and of those, the ones that wait to be sent again.
    acks_pending: int
    acks_waiting: int
    # How long those that were kept took, from the call on: their sum, and how many took at
    # most as long as each of `ACK_TIME_BOUNDS_MS`, or longer than the last.
    ack_time_ms_sum: int
    ack_time_buckets: tuple[int, ...]


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
        messages_refused=sum(core.stats.messages_refused for core in cores),
        entries_late=sum(core.stats.entries_late for core in cores),
        messages_dead=sum(core.stats.messages_dead for core in cores),
        entries_redelivered=sum(core.stats.entries_redelivered for core in cores),
        entries_refused=sum(core.stats.entries_refused for core in cores),
        queue_length=sum(core.queue_length() for core in cores),
        available_permits=sum(core.available_permits for core in cores),
        unreturned_permits=sum(core.unreturned_permits for core in cores),
        acks_sent=sum(core.acks.counts.sent for core in cores),
        acks_failed=sum(core.acks.counts.failed for core in cores),
        ack_retries=sum(core.acks.counts.retried for core in cores),
        acks_kept=sum(core.acks.counts.kept for core in cores),
        acks_kept_after_retry=sum(core.acks.counts.kept_after_retry for core in cores),
        acks_exhausted=sum(core.acks.counts.exhausted for core in cores),
        acks_pending=sum(core.acks.unconfirmed for core in cores),
        acks_waiting=sum(core.acks.waiting for core in cores),
        ack_time_ms_sum=sum(core.acks.counts.time_ms_sum for core in cores),
        ack_time_buckets=tuple(
            sum(core.acks.counts.time_buckets[bucket] for core in cores)
            for bucket in range(len(ACK_TIME_BOUNDS_MS) + 1)
        ),
    )
