"""Stats of a topic, of its subscriptions, and of those who are connected."""

from msgspec import field

from magnetar.rest.response.record import Record

__all__ = ["ConsumerStats", "PublisherStats", "SubscriptionStats", "TopicStats"]


class PublisherStats(Record, frozen=True):
    """A producer that is connected."""

    producer_name: str = ""
    """The name that the producer chose or was given."""
    producer_id: int = 0
    """The producer's number on its connection."""
    access_mode: str = "Shared"
    """`Shared`, `Exclusive`, `WaitForExclusive` or `ExclusiveWithFencing`."""
    address: str = ""
    """Where the client is."""
    connected_since: str = ""
    """When the producer connected, as a date."""
    client_version: str = ""
    """What the client says it is."""
    msg_rate_in: float = 0.0
    """Messages a second."""
    msg_throughput_in: float = 0.0
    """Bytes a second."""
    average_msg_size: float = 0.0
    """Bytes a message."""
    metadata: dict[str, str] = field(default_factory=dict)
    """The producer's properties."""


class ConsumerStats(Record, frozen=True):
    """A consumer that is connected."""

    consumer_name: str = ""
    """The name that the consumer chose or was given."""
    available_permits: int = 0
    """How many more messages the consumer has asked for."""
    unacked_messages: int = 0
    """How many messages the consumer holds and has not acked."""
    blocked_consumer_on_unacked_msgs: bool = False
    """Whether the consumer gets nothing more until it acks."""
    msg_rate_out: float = 0.0
    """Messages a second."""
    msg_throughput_out: float = 0.0
    """Bytes a second."""
    msg_out_counter: int = 0
    """Messages since the consumer connected."""
    bytes_out_counter: int = 0
    """Bytes since the consumer connected."""
    msg_rate_redeliver: float = 0.0
    """Redelivered messages a second."""
    message_ack_rate: float = 0.0
    """Acked messages a second."""
    last_acked_timestamp: int = 0
    """When the consumer acked last, in ms since 1970; 0 is never."""
    last_consumed_timestamp: int = 0
    """When the consumer was sent something last, in ms since 1970; 0 is never."""
    address: str = ""
    """Where the client is."""
    connected_since: str = ""
    """When the consumer connected, as a date."""
    client_version: str = ""
    """What the client says it is."""
    metadata: dict[str, str] = field(default_factory=dict)
    """The consumer's properties."""


class SubscriptionStats(Record, frozen=True):
    """A subscription."""

    type: str = "None"
    """`Exclusive`, `Shared`, `Failover`, `Key_Shared`; `None` if no consumer is connected."""
    msg_backlog: int = 0
    """How many entries are not acked; a batch counts as one."""
    msg_backlog_messages: int | None = None
    """How many messages are not acked; None where the server does not tell (Apache Pulsar)."""
    msg_delayed: int = 0
    """How many entries wait for their time."""
    unacked_messages: int = 0
    """How many messages consumers hold and have not acked."""
    msg_in_replay: int = 0
    """How many entries wait to be delivered again."""
    backlog_size: int = -1
    """Bytes that are not acked; -1 unless `backlog_size` was asked for."""
    earliest_msg_publish_time_in_backlog: int = 0
    """When the oldest unacked message was published, in ms; 0 unless it was asked for."""
    partially_acked_batches: int | None = None
    """How many batches are acked in part; None where the server does not tell."""
    non_contiguous_deleted_messages_ranges: int = 0
    """How many runs of acked entries lie above the mark-delete position."""
    msg_rate_out: float = 0.0
    """Messages a second."""
    msg_throughput_out: float = 0.0
    """Bytes a second."""
    msg_out_counter: int = 0
    """Messages that were sent to consumers."""
    bytes_out_counter: int = 0
    """Bytes that were sent to consumers."""
    msg_rate_redeliver: float = 0.0
    """Redelivered messages a second."""
    message_ack_rate: float = 0.0
    """Acked messages a second."""
    msg_rate_expired: float = 0.0
    """Expired messages a second."""
    total_msg_expired: int = 0
    """How many messages have expired."""
    last_acked_timestamp: int = 0
    """When something was acked last, in ms since 1970; 0 is never."""
    last_consumed_timestamp: int = 0
    """When something was sent last, in ms since 1970; 0 is never."""
    blocked_subscription_on_unacked_msgs: bool = False
    """Whether consumers get nothing more until some of them ack."""
    active_consumer_name: str = ""
    """The consumer that is served, of an Exclusive or Failover subscription."""
    key_shared_mode: str = ""
    """`AUTO_SPLIT` or `STICKY`, of a Key_Shared subscription."""
    durable: bool = True
    """Whether the subscription outlives its consumers."""
    subscription_properties: dict[str, str] = field(default_factory=dict)
    """The properties that the subscription was made with."""
    consumers: list[ConsumerStats] = field(default_factory=list)
    """Consumers that are connected."""


class TopicStats(Record, frozen=True):
    """A topic; of a partitioned one the sums, and the partitions one by one."""

    msg_rate_in: float = 0.0
    """Published messages a second."""
    msg_throughput_in: float = 0.0
    """Published bytes a second."""
    msg_rate_out: float = 0.0
    """Delivered messages a second."""
    msg_throughput_out: float = 0.0
    """Delivered bytes a second."""
    msg_in_counter: int = 0
    """Messages that were published since the topic was loaded."""
    bytes_in_counter: int = 0
    """Bytes that were published since the topic was loaded."""
    msg_out_counter: int = 0
    """Messages that were delivered since the topic was loaded."""
    bytes_out_counter: int = 0
    """Bytes that were delivered since the topic was loaded."""
    average_msg_size: float = 0.0
    """Bytes a message."""
    storage_size: int = 0
    """Bytes that are stored."""
    backlog_size: int = 0
    """Bytes that the slowest subscription has not acked."""
    msg_chunk_published: bool = False
    """Whether messages came in chunks."""
    deduplication_status: str = "Disabled"
    """`Enabled` if what a producer sends again is dropped."""
    topic_epoch: int | None = None
    """How often the exclusive producer changed; None if there never was one."""
    owner_broker: str = ""
    """The broker that serves the topic; empty where the server does not tell."""
    topic_creation_time_stamp: int = 0
    """When the topic was created, in ms since 1970."""
    last_publish_time_stamp: int = 0
    """When something was published last, in ms since 1970; 0 is never."""
    ongoing_txn_count: int = 0
    """Transactions that are open and have entries in the topic."""
    committed_txn_count: int = 0
    """Transactions with entries in it that committed since the topic was loaded."""
    aborted_txn_count: int = 0
    """Transactions with entries in it that aborted since the topic was loaded."""
    publishers: list[PublisherStats] = field(default_factory=list)
    """Producers that are connected."""
    subscriptions: dict[str, SubscriptionStats] = field(default_factory=dict)
    """Subscriptions by name."""
    partitions: dict[str, "TopicStats"] = field(default_factory=dict)
    """Partitions by full name; empty for a topic that is not partitioned."""
