"""What producers and consumers did, written to the log at intervals.

One line for each topic, and for each subscription of it, where anything was done since the
last one; nothing otherwise. The level is INFO.
"""

import asyncio
import logging

from magnetar.client.telemetry.stats import (
    ConsumerStats,
    ProducerStats,
    consumer_stats,
    producer_stats,
)
from magnetar.client.telemetry.totals import Totals, taken_from

__all__ = ["StatsLog"]


class StatsLog:
    """Remembers what it wrote last."""

    def __init__(self, totals: Totals, log: logging.Logger) -> None:
        self._totals = totals
        self._log = log
        self._producers: dict[str, ProducerStats] = {}
        self._consumers: dict[tuple[str, str], ConsumerStats] = {}

    async def run(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            self.write()

    def write(self) -> None:
        """Writes what was done since the last time."""
        producers, consumers = self._totals.producers(), self._totals.consumers()
        for topic, stats in producers.items():
            since = taken_from(self._producers.get(topic, producer_stats([])), stats)
            if since.messages_sent or since.messages_stored or since.messages_failed:
                _log_producer(self._log, topic, since)
        for (topic, subscription), taken in consumers.items():
            before = self._consumers.get((topic, subscription), consumer_stats([]))
            did = taken_from(before, taken)
            if did.messages_received or did.messages_taken or did.messages_acked:
                _log_consumer(self._log, topic, subscription, did)
        self._producers, self._consumers = producers, consumers


def _log_producer(log: logging.Logger, topic: str, stats: ProducerStats) -> None:
    log.info(
        "producers of %s: %d messages sent (%d bytes), %d stored, %d failed, %d pending",
        topic,
        stats.messages_sent,
        stats.bytes_sent,
        stats.messages_stored,
        stats.messages_failed,
        stats.pending_messages,
    )


def _log_consumer(log: logging.Logger, topic: str, subscription: str, stats: ConsumerStats) -> None:
    log.info(
        "consumers of %s, subscription %s: %d messages came (%d bytes), %d received, %d acked, "
        "%d refused, %d entries redelivered, %d queued",
        topic,
        subscription,
        stats.messages_received,
        stats.bytes_received,
        stats.messages_taken,
        stats.messages_acked,
        stats.messages_refused,
        stats.entries_redelivered,
        stats.queue_length,
    )
