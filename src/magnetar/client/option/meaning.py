"""What each option of a client, producer, consumer, reader and message means, in one sentence.

The reference of the Python API and the docstrings of the doors are written from these tables
(`make reference`), and a test holds them against the options that there are. The meaning of an
option is changed here and nowhere else.
"""

from typing import Final

__all__ = ["CLIENT", "CONSUMER", "DOOR", "MESSAGE", "PRODUCER", "READER", "SUBSCRIBE", "WORKER"]

# What the doors take besides options.
DOOR: Final[dict[str, str]] = {
    "service_url": (
        "Where the brokers are, pulsar://host:port or pulsar+ssl://host:port; several hosts are "
        "separated by commas. Or an AutoClusterFailover or a ServiceInfoProvider"
    ),
    "topic": "Name of the topic",
    "schema": "What values become bytes by, and the reverse; without one values are bytes",
    "message_listener": "Function that is called with the consumer and each message, on a thread",
    "reader_listener": "Function that is called with the reader and each message, on a thread",
    "clock": "For simulations: stands in for the time",
    "rng": "For simulations: stands in for chance",
}

# What consumers take in its place.
SUBSCRIBE: Final[dict[str, str]] = {
    "topic": "Name of the topic, a list of names, or a compiled pattern that names match",
}

WORKER: Final[dict[str, str]] = {
    "subscription": "The subscription that all processes of the worker share",
    "concurrency": "Messages that are in hand at a time",
    "grace_s": "Seconds that a stop waits for messages that are in hand",
    "retry_after": "Time after which a message whose function raised comes by the retry topic",
    "transactional": (
        "Call the function in a transaction, which is committed with the message's acknowledgement"
    ),
    "transaction_timeout": (
        "Seconds, or a timedelta, after which the broker aborts the transaction of a call; 60 "
        "without it"
    ),
    "output_options": "Options of the producers that a transactional worker's functions send with",
    "workers": "Workers, made by @magnetar.worker",
    "url": "Service URL; without it that of MAGNETAR_URL, else of the broker on this machine",
}

MESSAGE: Final[dict[str, str]] = {
    "content": "The value, as the schema takes it, or bytes; None is a message without a value",
    "callback": "Function that is called with a Result and the message's id, on a thread",
    "properties": "Texts that go with the message, each by its name",
    "partition_key": (
        "The message's key: it chooses the partition, and the consumer of a KeyShared subscription"
    ),
    "ordering_key": "Chooses the consumer of a KeyShared subscription instead of partition_key",
    "sequence_id": (
        "Number that deduplication compares, larger than that of the message before; None counts on"
    ),
    "replication_clusters": "Clusters that Apache Pulsar replicates the message to; None is all",
    "disable_replication": "Keep the message in the cluster that it is sent to",
    "event_timestamp": "When it happened that the message tells of, in ms since 1970",
    "deliver_at": (
        "Deliver the message from then on, in ms since 1970, on Shared and KeyShared subscriptions"
    ),
    "deliver_after": "The same, as a timedelta from now on",
    "transaction": "The transaction that the message is part of; None is none",
}

CLIENT: Final[dict[str, str]] = {
    "authentication": "Proves who the client is: a token, a certificate or a password",
    "operation_timeout_seconds": "Time for a lookup, for making a producer and for subscribing",
    "io_threads": "Accepted and ignored: a client has one loop",
    "message_listener_threads": "Threads that call message listeners; the blocking client only",
    "concurrent_lookup_requests": "Accepted and ignored: lookups have no limit",
    "log_conf_file_path": "Accepted and ignored, as in the official client",
    "stats_interval_in_seconds": "How often statistics are logged; 0 logs none",
    "use_tls": "Accepted and ignored: the scheme of the service URL decides",
    "tls_trust_certs_file_path": "CA certificates, a PEM file; without it the system's are trusted",
    "tls_allow_insecure_connection": "Accept any certificate of the broker, without checking it",
    "tls_validate_hostname": "Check that the broker's certificate names its host",
    "logger": "A logging.Logger, or a ConsoleLogger or FileLogger as in the official client",
    "connection_timeout_ms": "Time for a TCP connection and the handshake on it",
    "listener_name": "The advertised listener whose address the broker answers lookups with",
    "tls_private_key_file_path": "The private key of the client's certificate, a PEM file",
    "tls_certificate_file_path": "The client's certificate, a PEM file",
    "keep_alive_interval_seconds": (
        "Time between pings; a connection that leaves one unanswered is dropped"
    ),
    "initial_backoff_ms": "Wait before the first attempt to reconnect; it doubles each time",
    "max_backoff_ms": "Longest wait between two attempts to reconnect",
    "telemetry": "OpenTelemetry metrics and traces: magnetar.client.telemetry.telemetry.Telemetry",
    "wait_for_broker": (
        "Try again for operation_timeout_seconds when no broker takes the client's first "
        "connection, instead of failing at once: for programs that start with their broker"
    ),
}

PRODUCER: Final[dict[str, str]] = {
    "producer_name": "Name that no other producer of the topic has; the broker makes one for None",
    "initial_sequence_id": (
        "Sequence id before the first message's; deduplication compares sequence ids"
    ),
    "send_timeout_millis": (
        "Time until a message that was not stored fails with Timeout; 0 waits for ever"
    ),
    "compression_type": "Compression of batches, and of messages outside of batches",
    "max_pending_messages": "Messages that may wait for their receipt; 0 is no limit",
    "max_pending_messages_across_partitions": (
        "The same for all partitions of a topic together; 0 is no limit"
    ),
    "block_if_queue_full": (
        "Wait for room when too many messages wait for their receipt, instead of raising "
        "ProducerQueueIsFull; the asyncio client does unless it is told False"
    ),
    "batching_enabled": "Send messages in batches; excludes chunking_enabled",
    "batching_max_messages": "Messages at which a batch is sent",
    "batching_max_allowed_size_in_bytes": "Size at which a batch is sent",
    "batching_max_publish_delay_ms": "Time after which a batch is sent, however small it is",
    "chunking_enabled": (
        "Send messages that are larger than the broker's limit in chunks; excludes batching_enabled"
    ),
    "message_routing_mode": "How the partition of a message without a key is chosen",
    "lazy_start_partitioned_producers": "Open the producer of a partition with its first message",
    "properties": "Properties of the producer, which the topic's stats show",
    "batching_type": "Which messages may share a batch: any, or those of one key",
    "encryption_key": "Name of the key, or names of the keys, that messages are encrypted with",
    "crypto_key_reader": "Loads the keys that encryption_key names",
    "access_mode": "Whether other producers of the topic are allowed beside this one",
    "message_router": (
        "Function of a message and the number of partitions that returns the partition"
    ),
    "hashing_scheme": "How a key is hashed to choose its partition",
    "chunk_max_message_size": "Largest chunk in bytes; 0 leaves it to the broker's limit",
    "initial_subscription_name": "Subscription that is made with the topic, if that is new",
    "auto_update_partitions_interval_seconds": "How often the client looks for new partitions",
    "interceptors": (
        "Interceptors that see each message before it is sent, may change it, and hear what "
        "becomes of it, in this order"
    ),
}

CONSUMER: Final[dict[str, str]] = {
    "subscription_name": "The subscription; it is created if the topic has none of that name",
    "consumer_type": "Exclusive, Shared, Failover or KeyShared",
    "receiver_queue_size": "Messages that are fetched before the application asks for them",
    "max_total_receiver_queue_size_across_partitions": (
        "The same for all partitions and topics of the consumer together"
    ),
    "consumer_name": "Name that the subscription's stats show",
    "unacked_messages_timeout_ms": (
        "Time after which a message that is not acknowledged is delivered again; 1000 or more, "
        "None or 0 for never"
    ),
    "broker_consumer_stats_cache_time_ms": "Accepted and ignored: stats() asks no broker",
    "negative_ack_redelivery_delay_ms": (
        "Time after which a negatively acknowledged message is delivered again"
    ),
    "is_read_compacted": "Read the compacted view of the topic, then what came later",
    "properties": "Properties of the consumer, which the subscription's stats show",
    "pattern_auto_discovery_period": (
        "Seconds between two looks for new topics that match the pattern"
    ),
    "initial_position": "Where a new subscription begins: Latest or Earliest",
    "crypto_key_reader": "Loads the keys that messages are decrypted with",
    "replicate_subscription_state_enabled": "Asks Apache Pulsar to replicate the subscription",
    "max_pending_chunked_message": "Incomplete messages in chunks that are kept; 0 is no limit",
    "auto_ack_oldest_chunked_message_on_queue_full": (
        "Acknowledge the oldest incomplete message above that limit, instead of having it "
        "delivered again"
    ),
    "start_message_id_inclusive": "Whether start_message_id itself is received, and seek's target",
    "batch_receive_policy": "When batch_receive has enough messages",
    "key_shared_policy": "Which keys of a KeyShared subscription this consumer gets",
    "batch_index_ack_enabled": (
        "Accepted and ignored, with a warning: messages in batches are always acknowledged one by "
        "one"
    ),
    "regex_subscription_mode": (
        "Whether a pattern matches persistent topics, non-persistent ones or both"
    ),
    "dead_letter_policy": (
        "After how many redeliveries a message is moved to the dead letter topic"
    ),
    "crypto_failure_action": "What to do with a message that cannot be decrypted",
    "acknowledgement_group_time_ms": (
        "Time that acknowledgements are gathered before they are sent; 0 sends each at once"
    ),
    "max_acknowledgement_group_size": "Acknowledgements at which they are sent before that time",
    "ack_receipt_enabled": (
        "acknowledge() returns when the broker has stored the acknowledgement, and raises if it "
        "did not"
    ),
    "auto_retry_acknowledgement": (
        "Send acknowledgements again until the broker has confirmed them (PIP-377)"
    ),
    "max_acknowledgement_retries": "How often an acknowledgement is sent again",
    "auto_retry_acknowledgement_backoff": (
        "Wait before an acknowledgement is sent again; None is 100 ms, doubling up to 10 s. A "
        "function gets the number of failures so far and returns milliseconds"
    ),
    "on_acknowledgement_failed": (
        "Function that is called with the message ids and the error when acknowledgements were "
        "tried for the last time"
    ),
    "max_pending_acknowledgements": (
        "Unconfirmed acknowledgements at which a consumer that retries them asks for no more "
        "messages"
    ),
    "negative_ack_redelivery_backoff": (
        "Instead of negative_ack_redelivery_delay_ms: a wait that grows with each redelivery, a "
        "MultiplierRedeliveryBackoff"
    ),
    "ack_timeout_redelivery_backoff": (
        "Added to unacked_messages_timeout_ms: a wait that grows with each redelivery, a "
        "MultiplierRedeliveryBackoff"
    ),
    "retry_enabled": "Subscribe to the retry topic as well; reconsume_later needs it",
    "expire_time_of_incomplete_chunked_message_ms": (
        "Time after which an incomplete message in chunks is given up; 0 keeps it for ever"
    ),
    "max_message_size_total": (
        "Bytes that one message in chunks may have, and all incomplete ones together"
    ),
    "subscription_properties": "Properties of the subscription, if this consumer creates it",
    "priority_level": "Consumers with a lower number get messages first; 0 comes before all others",
    "auto_update_partitions_interval_seconds": "How often the client looks for new partitions",
    "durable": "False: the subscription is deleted with its consumer, as a reader's is",
    "start_message_id": "Where a subscription that is not durable, or new, begins",
    "interceptors": (
        "Interceptors that see each message before it is handed over, and its acknowledgement, in "
        "this order"
    ),
}

READER: Final[dict[str, str]] = {
    "start_message_id": "Where reading begins: MessageId.earliest, MessageId.latest or an id",
    "receiver_queue_size": CONSUMER["receiver_queue_size"],
    "reader_name": "Name that the topic's stats show",
    "subscription_role_prefix": "Begins the name of the subscription that the reader has meanwhile",
    "is_read_compacted": CONSUMER["is_read_compacted"],
    "crypto_key_reader": CONSUMER["crypto_key_reader"],
    "start_message_id_inclusive": "Whether start_message_id itself is read",
    "crypto_failure_action": CONSUMER["crypto_failure_action"],
    "max_pending_chunked_message": CONSUMER["max_pending_chunked_message"],
    "auto_ack_oldest_chunked_message_on_queue_full": "Drop the oldest incomplete one above it",
    "expire_time_of_incomplete_chunked_message_ms": (
        CONSUMER["expire_time_of_incomplete_chunked_message_ms"]
    ),
    "max_message_size_total": CONSUMER["max_message_size_total"],
}
