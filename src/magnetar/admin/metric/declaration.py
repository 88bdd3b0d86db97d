"""The metrics that there are: name, kind and help of each, in the order of their values.

Names are Pulsar's where Pulsar has the same; those of ours that came later begin with
`magnetar_`, and what every process has with `process_`. Prometheus keeps the ending `_count`
for histograms, so Pulsar's gauges that end so are untyped: all that reads them reads them
alike, and `promtool check metrics` finds nothing to say.
"""

from typing import Final

__all__ = ["BROKER", "GAUGE", "HISTOGRAMS", "LEVELS", "METRICS", "NAMESPACE", "SUBSCRIPTION"]
__all__ += ["THROTTLED", "TOPIC", "Level"]

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
UNTYPED: Final = "untyped"

Level = tuple[tuple[str, str, str], ...]

BROKER: Final = (
    ("pulsar_active_connections", GAUGE, "Connections of clients."),
    ("pulsar_broker_topics_loaded", GAUGE, "Topics that are loaded."),
    ("pulsar_storage_read_only", GAUGE, "1 after a write failed, until a restart."),
    ("pulsar_storage_full", GAUGE, "1 while publishes are refused for lack of space."),
    ("pulsar_storage_retrying", GAUGE, "Kinds of work of the store that fail at present."),
    ("pulsar_storage_retries_total", COUNTER, "Work of the store that failed, to be done again."),
    ("pulsar_connections_refused_total", COUNTER, "Connections of clients beyond the limits."),
    ("pulsar_authentication_failures_total", COUNTER, "Log-ins that were refused, on both ports."),
    ("pulsar_batches_refused_total", COUNTER, "Publishes that lied about their batch."),
    ("pulsar_ack_state_bytes", GAUGE, "Memory that partly acked batches take."),
    ("pulsar_ack_state_refused_total", COUNTER, "Acks and skips beyond the limits on that."),
    ("pulsar_txn_active_count", UNTYPED, "Transactions that are open."),
    ("pulsar_txn_created_total", COUNTER, "Transactions that were opened."),
    ("pulsar_txn_committed_total", COUNTER, "Transactions that were committed."),
    ("pulsar_txn_aborted_total", COUNTER, "Transactions that were aborted."),
    ("pulsar_txn_timeout_total", COUNTER, "Of these, those whose time was over."),
    ("magnetar_txn_oldest_seconds", GAUGE, "Age of the oldest open transaction."),
    ("magnetar_receipts_waiting", GAUGE, "Sends, acks and others that wait for the disk."),
    ("magnetar_disk_free_bytes", GAUGE, "Space that is left for the data directory."),
    ("magnetar_disk_watermark_bytes", GAUGE, "With less than this left publishes are refused."),
    ("process_cpu_seconds_total", COUNTER, "Time of processors that the process took."),
    ("process_resident_memory_bytes", GAUGE, "Memory of the process."),
    ("process_virtual_memory_bytes", GAUGE, "Addresses of the process."),
    ("process_open_fds", GAUGE, "Descriptors that are open."),
    ("process_max_fds", GAUGE, "Descriptors that may be open."),
    ("process_start_time_seconds", GAUGE, "When the process began, since 1970."),
)
# Of the broker too: name, help, by how much its figures are divided, and their unit.
HISTOGRAMS: Final = (
    (
        "magnetar_publish_latency_seconds",
        "From the event in which an entry came to its receipt.",
        1_000_000,
    ),
    (
        "magnetar_dispatch_latency_seconds",
        "From an entry's publish time, by its producer's clock, to its first delivery.",
        1000,
    ),
    ("magnetar_fsync_latency_seconds", "What it took to make a group durable.", 1_000_000),
    ("magnetar_group_records", "Entries, acks and others in a group of the journal.", 1),
    ("magnetar_group_bytes", "Bytes of a group of the journal.", 1),
)
NAMESPACE: Final = (("pulsar_topics_count", UNTYPED, "Topics, loaded or not."),)
TOPIC: Final = (
    ("pulsar_producers_count", UNTYPED, "Producers."),
    ("pulsar_consumers_count", UNTYPED, "Consumers."),
    ("pulsar_subscriptions_count", UNTYPED, "Subscriptions."),
    ("pulsar_in_messages_total", COUNTER, "Messages published."),
    ("pulsar_in_bytes_total", COUNTER, "Bytes published."),
    ("pulsar_out_messages_total", COUNTER, "Messages sent to consumers."),
    ("pulsar_out_bytes_total", COUNTER, "Bytes sent to consumers."),
    ("pulsar_rate_in", GAUGE, "Messages published in a second."),
    ("pulsar_rate_out", GAUGE, "Messages sent to consumers in a second."),
    ("pulsar_throughput_in", GAUGE, "Bytes published in a second."),
    ("pulsar_throughput_out", GAUGE, "Bytes sent to consumers in a second."),
    ("pulsar_storage_size", GAUGE, "Bytes stored."),
    ("pulsar_storage_backlog_size", GAUGE, "Bytes behind the slowest subscription, about."),
    ("pulsar_storage_backlog_age_seconds", GAUGE, "Age of the oldest unacked entry of all."),
    ("pulsar_msg_backlog", GAUGE, "Unacked entries, of all subscriptions together."),
    ("pulsar_publish_rate_limit_times", GAUGE, "How often a producer waited for a rate."),
    ("magnetar_subscribe_rate_limit_times", GAUGE, "How often a consumer was refused by a rate."),
    ("pulsar_txn_tb_active_total", GAUGE, "Open transactions with entries in it."),
    ("pulsar_txn_tb_committed_total", COUNTER, "Transactions with entries in it, committed."),
    ("pulsar_txn_tb_aborted_total", COUNTER, "Transactions with entries in it, aborted."),
)
SUBSCRIPTION: Final = (
    ("pulsar_subscription_back_log", GAUGE, "Unacked entries."),
    ("pulsar_subscription_back_log_messages", GAUGE, "Unacked messages."),
    ("magnetar_subscription_oldest_unacked_seconds", GAUGE, "Age of the oldest unacked entry."),
    ("pulsar_subscription_unacked_messages", GAUGE, "Messages with consumers, unacked."),
    (
        "pulsar_subscription_blocked_on_unacked_messages",
        GAUGE,
        "1 while there are too many of these.",
    ),
    ("pulsar_subscription_delayed", GAUGE, "Messages that wait for their time."),
    ("pulsar_subscription_in_replay", GAUGE, "Entries to be delivered again."),
    ("pulsar_subscription_acked_ranges", GAUGE, "Runs of acked entries above mark-delete."),
    ("pulsar_subscription_partially_acked_batches", GAUGE, "Batches of which a part is acked."),
    ("pulsar_subscription_partially_acked_bytes", GAUGE, "Memory that these take."),
    ("magnetar_subscription_txn_pending", GAUGE, "Open transactions with acks on it."),
    ("pulsar_subscription_consumers_count", UNTYPED, "Consumers."),
    ("pulsar_subscription_out_messages_total", COUNTER, "Messages sent to consumers."),
    ("pulsar_subscription_msg_rate_out", GAUGE, "Messages sent to consumers in a second."),
    ("pulsar_subscription_msg_throughput_out", GAUGE, "Bytes sent to consumers in a second."),
    ("pulsar_subscription_msg_rate_redeliver", GAUGE, "Messages sent again in a second."),
    ("pulsar_subscription_msg_ack_rate", GAUGE, "Ids that consumers acked in a second."),
    ("magnetar_subscription_redelivered_messages_total", COUNTER, "Messages sent again."),
    ("magnetar_subscription_acked_ids_total", COUNTER, "Ids that consumers acked."),
    ("magnetar_subscription_acked_again_total", COUNTER, "Of acks, ids acked before: retries."),
    ("pulsar_subscription_total_msg_expired", GAUGE, "Entries that expired."),
    ("pulsar_subscription_skipped_messages_total", COUNTER, "Messages skipped by id."),
    ("pulsar_subscription_taken_back_messages_total", COUNTER, "Of these, by consumers."),
    ("pulsar_subscription_damaged", GAUGE, "1 while a damaged entry stands in the way."),
    ("pulsar_subscription_damaged_skipped_total", COUNTER, "Damaged entries that were skipped."),
)
# Of each rate that has held a subscription up: its own, its topic's, the broker's, its group's.
THROTTLED: Final = (
    (
        "pulsar_subscription_dispatch_throttled_msg_events",
        GAUGE,
        "How often it waited for a rate of messages, by whose rate that was.",
    ),
    (
        "pulsar_subscription_dispatch_throttled_bytes_events",
        GAUGE,
        "How often it waited for a rate of bytes, by whose rate that was.",
    ),
)
LEVELS: Final[tuple[Level, ...]] = (BROKER, NAMESPACE, TOPIC, SUBSCRIPTION, THROTTLED)
METRICS: Final = [
    *[name for level in LEVELS for name, _, _ in level],
    *[name for name, _, _ in HISTOGRAMS],
    "magnetar_build_info",
    "pulsar_version_info",
]
