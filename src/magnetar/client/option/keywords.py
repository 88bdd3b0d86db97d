"""The options of clients, producers, consumers and readers as keywords that checkers know.

Each option has its type here, once, for both doors: the asyncio door takes all of them, the
blocking one spells the official client's out in its order and takes the others. `options`
checks them as they come and has the defaults, `meaning` says what they do; a test holds the
three against each other.
"""

from collections.abc import Sequence
from typing import TypedDict

from magnetar.client.intercept.consumer_interceptor import ConsumerInterceptor
from magnetar.client.intercept.producer_interceptor import ProducerInterceptor
from magnetar.client.option.authentication import Authentication
from magnetar.client.option.backoff import RedeliveryBackoff, RetryBackoff
from magnetar.client.option.crypto_key_reader import CryptoKeyReader
from magnetar.client.option.logger import ClientLogger
from magnetar.client.option.options import AcknowledgementFailed
from magnetar.client.option.policy import (
    BatchingType,
    ConsumerBatchReceivePolicy,
    ConsumerCryptoFailureAction,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    HashingScheme,
    MessageRouter,
    PartitionsRoutingMode,
)
from magnetar.client.telemetry.observer import Observer
from magnetar.model.enums import (
    CompressionType,
    InitialPosition,
    ProducerAccessMode,
    RegexSubscriptionMode,
)
from magnetar.model.message_id import MessageId
from magnetar.model.subscription_type import ConsumerType

__all__ = [
    "ClientKeywords",
    "ConsumerKeywords",
    "OurClientKeywords",
    "OurConsumerKeywords",
    "OurProducerKeywords",
    "OurReaderKeywords",
    "ProducerKeywords",
    "ReaderKeywords",
    "WorkerKeywords",
]


class OurClientKeywords(TypedDict, total=False):
    """Options of a client that the official one does not have."""

    keep_alive_interval_seconds: int
    initial_backoff_ms: int
    max_backoff_ms: int
    telemetry: Observer | None
    wait_for_broker: bool


class ClientKeywords(OurClientKeywords, total=False):
    """Options of a client."""

    authentication: Authentication | None
    operation_timeout_seconds: int
    io_threads: int
    message_listener_threads: int
    concurrent_lookup_requests: int
    log_conf_file_path: str | None
    stats_interval_in_seconds: int
    use_tls: bool
    tls_trust_certs_file_path: str | None
    tls_allow_insecure_connection: bool
    tls_validate_hostname: bool
    logger: ClientLogger
    connection_timeout_ms: int
    listener_name: str | None
    tls_private_key_file_path: str | None
    tls_certificate_file_path: str | None


class OurProducerKeywords(TypedDict, total=False):
    """Options of a producer that the official client does not have."""

    hashing_scheme: HashingScheme
    chunk_max_message_size: int
    initial_subscription_name: str | None
    auto_update_partitions_interval_seconds: int
    interceptors: Sequence[ProducerInterceptor] | None


class ProducerKeywords(OurProducerKeywords, total=False):
    """Options of a producer."""

    producer_name: str | None
    initial_sequence_id: int | None
    send_timeout_millis: int
    compression_type: CompressionType
    max_pending_messages: int
    max_pending_messages_across_partitions: int
    block_if_queue_full: bool
    batching_enabled: bool
    batching_max_messages: int
    batching_max_allowed_size_in_bytes: int
    batching_max_publish_delay_ms: int
    chunking_enabled: bool
    message_routing_mode: PartitionsRoutingMode
    lazy_start_partitioned_producers: bool
    properties: dict[str, str] | None
    batching_type: BatchingType
    encryption_key: str | list[str] | None
    crypto_key_reader: CryptoKeyReader | None
    access_mode: ProducerAccessMode
    message_router: MessageRouter | None


class OurConsumerKeywords(TypedDict, total=False):
    """Options of a consumer that the official client does not have."""

    acknowledgement_group_time_ms: int
    max_acknowledgement_group_size: int
    ack_receipt_enabled: bool
    auto_retry_acknowledgement: bool
    max_acknowledgement_retries: int
    auto_retry_acknowledgement_backoff: RedeliveryBackoff | RetryBackoff | None
    on_acknowledgement_failed: AcknowledgementFailed | None
    max_pending_acknowledgements: int
    negative_ack_redelivery_backoff: RedeliveryBackoff | None
    ack_timeout_redelivery_backoff: RedeliveryBackoff | None
    retry_enabled: bool
    expire_time_of_incomplete_chunked_message_ms: int
    max_message_size_total: int
    subscription_properties: dict[str, str] | None
    priority_level: int
    auto_update_partitions_interval_seconds: int
    durable: bool
    start_message_id: MessageId | None
    interceptors: Sequence[ConsumerInterceptor] | None


class ConsumerKeywords(OurConsumerKeywords, total=False):
    """Options of a consumer, but for its type, which both doors take by its place too."""

    receiver_queue_size: int
    max_total_receiver_queue_size_across_partitions: int
    consumer_name: str | None
    unacked_messages_timeout_ms: int | None
    broker_consumer_stats_cache_time_ms: int
    negative_ack_redelivery_delay_ms: int
    is_read_compacted: bool
    properties: dict[str, str] | None
    pattern_auto_discovery_period: int
    initial_position: InitialPosition
    crypto_key_reader: CryptoKeyReader | None
    replicate_subscription_state_enabled: bool
    max_pending_chunked_message: int
    auto_ack_oldest_chunked_message_on_queue_full: bool
    start_message_id_inclusive: bool
    batch_receive_policy: ConsumerBatchReceivePolicy | None
    key_shared_policy: ConsumerKeySharedPolicy | None
    batch_index_ack_enabled: bool
    regex_subscription_mode: RegexSubscriptionMode
    dead_letter_policy: ConsumerDeadLetterPolicy | None
    crypto_failure_action: ConsumerCryptoFailureAction


class WorkerKeywords(ConsumerKeywords, total=False):
    """Options of a worker's consumer: all of them."""

    consumer_type: ConsumerType


class OurReaderKeywords(TypedDict, total=False):
    """Options of a reader that the official client does not have."""

    max_pending_chunked_message: int
    auto_ack_oldest_chunked_message_on_queue_full: bool
    expire_time_of_incomplete_chunked_message_ms: int
    max_message_size_total: int


class ReaderKeywords(OurReaderKeywords, total=False):
    """Options of a reader."""

    receiver_queue_size: int
    reader_name: str | None
    subscription_role_prefix: str | None
    is_read_compacted: bool
    crypto_key_reader: CryptoKeyReader | None
    start_message_id_inclusive: bool
    crypto_failure_action: ConsumerCryptoFailureAction
