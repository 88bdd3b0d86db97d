"""What clients, producers, consumers and readers can be told.

Each of the four classes is a value: made once, checked as it is made, never changed. Names
and defaults are those of the official Python client 3.13, so that keyword arguments pass
from one to the other; what is ours stands last, under "Ours". Arguments are taken as
`object` and checked as the value is made: a wrong type gets the same SettingsError, which
names the option, whether this file is compiled or not. The attributes are typed. The enums
and policies that some options take are in `policy`, and can be had from here too.

Some options of the official client are taken, checked and ignored, since there is nothing that
they could change; each says so below.

Not here, because they are the doors' own: topics, schemas, listeners.
"""

from collections.abc import Callable
from typing import Final, TypeAlias, final

from magnetar.client.intercept.consumer_interceptor import ConsumerInterceptor
from magnetar.client.intercept.producer_interceptor import ProducerInterceptor
from magnetar.client.option import check
from magnetar.client.option.backoff import (
    INITIAL_MS,
    MAX_MS,
    RedeliveryBackoff,
    RetryBackoff,
)
from magnetar.client.option.check import INT_MAX, MS_MAX
from magnetar.client.option.crypto_key_reader import CryptoKeyReader
from magnetar.client.option.logger import ClientLogger, check_logger
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
from magnetar.errors import SettingsError
from magnetar.model.enums import (
    CompressionType,
    InitialPosition,
    ProducerAccessMode,
    RegexSubscriptionMode,
)
from magnetar.model.message_id import MessageId
from magnetar.model.subscription_type import ConsumerType
from magnetar.wire.integer import INT64_MAX

__all__ = [
    "PENDING_MAX",
    "AcknowledgementFailed",
    "BatchingType",
    "ClientOptions",
    "ConsumerBatchReceivePolicy",
    "ConsumerCryptoFailureAction",
    "ConsumerDeadLetterPolicy",
    "ConsumerKeySharedPolicy",
    "ConsumerOptions",
    "HashingScheme",
    "MessageRouter",
    "PartitionsRoutingMode",
    "ProducerOptions",
    "ReaderOptions",
]

# Acks that may wait for the broker: twice what it lets one consumer leave unacked by default.
PENDING_MAX: Final = 100_000
# Below a second every hiccup of a consumer would have its messages sent again.
ACK_TIMEOUT_MIN_MS: Final = 1000

# Which messages stay unacked, and why, when acks were tried for the last time.
AcknowledgementFailed: TypeAlias = Callable[[list[MessageId], Exception], object]


@final
class ClientOptions:
    """What a client can be told. The service URL is parsed by `service_url`."""

    def __init__(
        self,
        *,
        authentication: object = None,
        operation_timeout_seconds: object = 30,
        io_threads: object = 1,
        message_listener_threads: object = 1,
        concurrent_lookup_requests: object = 50_000,
        log_conf_file_path: object = None,
        stats_interval_in_seconds: object = 600,
        use_tls: object = False,
        tls_trust_certs_file_path: object = None,
        tls_allow_insecure_connection: object = False,
        tls_validate_hostname: object = False,
        logger: object = None,
        connection_timeout_ms: object = 10_000,
        listener_name: object = None,
        tls_private_key_file_path: object = None,
        tls_certificate_file_path: object = None,
        # Ours.
        keep_alive_interval_seconds: object = 30,
        initial_backoff_ms: object = INITIAL_MS,
        max_backoff_ms: object = MAX_MS,
        telemetry: object = None,
        wait_for_broker: object = False,
    ) -> None:
        # The door knows its methods.
        self.authentication: Final[object] = authentication
        self.operation_timeout_seconds: Final[int] = check.number(
            "operation_timeout_seconds", operation_timeout_seconds, 1, INT_MAX
        )
        # There is one loop, whatever this says.
        self.io_threads: Final[int] = check.number("io_threads", io_threads, 1, INT_MAX)
        self.message_listener_threads: Final[int] = check.number(
            "message_listener_threads", message_listener_threads, 1, INT_MAX
        )
        # Ignored: lookups have no limit of their own.
        self.concurrent_lookup_requests: Final[int] = check.number(
            "concurrent_lookup_requests", concurrent_lookup_requests, 1, INT_MAX
        )
        # Deprecated in the official client, and without effect there too.
        self.log_conf_file_path: Final[str | None] = check.text_or_none(
            "log_conf_file_path", log_conf_file_path
        )
        self.stats_interval_in_seconds: Final[int] = check.number(
            "stats_interval_in_seconds", stats_interval_in_seconds, 0, INT_MAX
        )
        # Without effect there too: the service URL says it.
        self.use_tls: Final[bool] = check.flag("use_tls", use_tls)
        self.tls_trust_certs_file_path: Final[str | None] = check.text_or_none(
            "tls_trust_certs_file_path", tls_trust_certs_file_path
        )
        self.tls_allow_insecure_connection: Final[bool] = check.flag(
            "tls_allow_insecure_connection", tls_allow_insecure_connection
        )
        self.tls_validate_hostname: Final[bool] = check.flag(
            "tls_validate_hostname", tls_validate_hostname
        )
        self.logger: Final[ClientLogger] = check_logger(logger)
        self.connection_timeout_ms: Final[int] = check.number(
            "connection_timeout_ms", connection_timeout_ms, 1, MS_MAX
        )
        self.listener_name: Final[str | None] = check.text_or_none("listener_name", listener_name)
        self.tls_private_key_file_path: Final[str | None] = check.text_or_none(
            "tls_private_key_file_path", tls_private_key_file_path
        )
        self.tls_certificate_file_path: Final[str | None] = check.text_or_none(
            "tls_certificate_file_path", tls_certificate_file_path
        )
        if (self.tls_private_key_file_path is None) != (self.tls_certificate_file_path is None):
            raise SettingsError(
                "tls_certificate_file_path",
                "a certificate and its private key go together: "
                "give tls_private_key_file_path and tls_certificate_file_path, or neither",
            )
        self.keep_alive_interval_seconds: Final[int] = check.number(
            "keep_alive_interval_seconds", keep_alive_interval_seconds, 1, INT_MAX
        )
        self.initial_backoff_ms: Final[int] = check.number(
            "initial_backoff_ms", initial_backoff_ms, 1, MS_MAX
        )
        self.max_backoff_ms: Final[int] = check.number(
            "max_backoff_ms", max_backoff_ms, self.initial_backoff_ms, MS_MAX
        )
        # The engine knows what can watch it.
        self.telemetry: Final[object] = telemetry
        self.wait_for_broker: Final[bool] = check.flag("wait_for_broker", wait_for_broker)


@final
class ProducerOptions:
    """What a producer can be told. Timeouts and pending limits of 0 are none."""

    def __init__(
        self,
        *,
        producer_name: object = None,
        initial_sequence_id: object = None,
        send_timeout_millis: object = 30_000,
        compression_type: object = CompressionType.NONE,
        max_pending_messages: object = 1000,
        max_pending_messages_across_partitions: object = 50_000,
        block_if_queue_full: object = False,
        batching_enabled: object = False,
        batching_max_messages: object = 1000,
        batching_max_allowed_size_in_bytes: object = 128 * 1024,
        batching_max_publish_delay_ms: object = 10,
        chunking_enabled: object = False,
        message_routing_mode: object = PartitionsRoutingMode.RoundRobinDistribution,
        lazy_start_partitioned_producers: object = False,
        properties: object = None,
        batching_type: object = BatchingType.Default,
        encryption_key: object = None,
        crypto_key_reader: object = None,
        access_mode: object = ProducerAccessMode.Shared,
        message_router: MessageRouter | None = None,
        # Ours.
        hashing_scheme: object = HashingScheme.BoostHash,
        chunk_max_message_size: object = 0,
        initial_subscription_name: object = None,
        auto_update_partitions_interval_seconds: object = 60,
        interceptors: object = None,
    ) -> None:
        self.interceptors: Final[tuple[ProducerInterceptor, ...]] = check.instances(
            "interceptors", interceptors, ProducerInterceptor
        )
        self.producer_name: Final[str | None] = check.text_or_none("producer_name", producer_name)
        self.initial_sequence_id: Final[int | None] = check.number_or_none(
            "initial_sequence_id", initial_sequence_id, -1, INT64_MAX - 1
        )
        self.send_timeout_millis: Final[int] = check.number(
            "send_timeout_millis", send_timeout_millis, 0, MS_MAX
        )
        self.compression_type: Final[CompressionType] = check.choice(
            "compression_type", compression_type, CompressionType
        )
        self.max_pending_messages: Final[int] = check.number(
            "max_pending_messages", max_pending_messages, 0, INT_MAX
        )
        self.max_pending_messages_across_partitions: Final[int] = check.number(
            "max_pending_messages_across_partitions",
            max_pending_messages_across_partitions,
            0,
            INT_MAX,
        )
        self.block_if_queue_full: Final[bool] = check.flag(
            "block_if_queue_full", block_if_queue_full
        )
        self.batching_enabled: Final[bool] = check.flag("batching_enabled", batching_enabled)
        self.batching_max_messages: Final[int] = check.number(
            "batching_max_messages", batching_max_messages, 1, INT_MAX
        )
        self.batching_max_allowed_size_in_bytes: Final[int] = check.number(
            "batching_max_allowed_size_in_bytes", batching_max_allowed_size_in_bytes, 1, INT_MAX
        )
        self.batching_max_publish_delay_ms: Final[int] = check.number(
            "batching_max_publish_delay_ms", batching_max_publish_delay_ms, 0, MS_MAX
        )
        self.chunking_enabled: Final[bool] = check.flag("chunking_enabled", chunking_enabled)
        if self.batching_enabled and self.chunking_enabled:
            raise SettingsError(
                "chunking_enabled", "batching and chunking exclude each other: switch one off"
            )
        # The names of those who may read; without any, nothing is encrypted.
        self.encryption_keys: Final[list[str]] = _key_names(encryption_key)
        self.crypto_key_reader: Final[CryptoKeyReader | None] = check.instance_or_none(
            "crypto_key_reader", crypto_key_reader, CryptoKeyReader
        )
        if bool(self.encryption_keys) != (self.crypto_key_reader is not None):
            raise SettingsError(
                "encryption_key",
                "to encrypt takes the name of a key and the key: "
                "give encryption_key and crypto_key_reader, or neither",
            )
        self.message_routing_mode: Final[PartitionsRoutingMode] = check.choice(
            "message_routing_mode", message_routing_mode, PartitionsRoutingMode
        )
        # As in the official client, a router is used whatever the mode says.
        self.message_router: Final[MessageRouter | None] = message_router
        if message_router is not None and not callable(message_router):
            raise SettingsError("message_router", f"{message_router!r} cannot be called")
        if (
            self.message_routing_mode == PartitionsRoutingMode.CustomPartition
            and message_router is None
        ):
            raise SettingsError(
                "message_router", "PartitionsRoutingMode.CustomPartition needs one: give a function"
            )
        self.lazy_start_partitioned_producers: Final[bool] = check.flag(
            "lazy_start_partitioned_producers", lazy_start_partitioned_producers
        )
        self.properties: Final[dict[str, str]] = check.properties("properties", properties)
        self.batching_type: Final[BatchingType] = check.choice(
            "batching_type", batching_type, BatchingType
        )
        self.access_mode: Final[ProducerAccessMode] = check.choice(
            "access_mode", access_mode, ProducerAccessMode
        )
        self.hashing_scheme: Final[HashingScheme] = check.choice(
            "hashing_scheme", hashing_scheme, HashingScheme
        )
        # 0 leaves the size of chunks to the broker's limit.
        self.chunk_max_message_size: Final[int] = check.number(
            "chunk_max_message_size", chunk_max_message_size, 0, INT_MAX
        )
        self.initial_subscription_name: Final[str | None] = check.text_or_none(
            "initial_subscription_name", initial_subscription_name
        )
        self.auto_update_partitions_interval_seconds: Final[int] = check.number(
            "auto_update_partitions_interval_seconds",
            auto_update_partitions_interval_seconds,
            1,
            INT_MAX,
        )


@final
class ConsumerOptions:
    """What a consumer can be told. Timeouts of 0 are none.

    A consumer that is not `durable` leaves no subscription behind: it is a reader's.
    `start_message_id` is where such a one begins, or any that creates its subscription.
    """

    def __init__(
        self,
        subscription_name: object,
        *,
        consumer_type: object = ConsumerType.Exclusive,
        receiver_queue_size: object = 1000,
        max_total_receiver_queue_size_across_partitions: object = 50_000,
        consumer_name: object = None,
        unacked_messages_timeout_ms: object = None,
        broker_consumer_stats_cache_time_ms: object = 30_000,
        negative_ack_redelivery_delay_ms: object = 60_000,
        is_read_compacted: object = False,
        properties: object = None,
        pattern_auto_discovery_period: object = 60,
        initial_position: object = InitialPosition.Latest,
        crypto_key_reader: object = None,
        replicate_subscription_state_enabled: object = False,
        max_pending_chunked_message: object = 10,
        auto_ack_oldest_chunked_message_on_queue_full: object = False,
        start_message_id_inclusive: object = False,
        batch_receive_policy: object = None,
        key_shared_policy: object = None,
        batch_index_ack_enabled: object = False,
        regex_subscription_mode: object = RegexSubscriptionMode.PersistentOnly,
        dead_letter_policy: object = None,
        crypto_failure_action: object = ConsumerCryptoFailureAction.FAIL,
        # Ours.
        acknowledgement_group_time_ms: object = 100,
        max_acknowledgement_group_size: object = 1000,
        ack_receipt_enabled: object = False,
        auto_retry_acknowledgement: object = False,
        max_acknowledgement_retries: object = 16,
        auto_retry_acknowledgement_backoff: object = None,
        on_acknowledgement_failed: object = None,
        max_pending_acknowledgements: object = PENDING_MAX,
        negative_ack_redelivery_backoff: object = None,
        ack_timeout_redelivery_backoff: object = None,
        retry_enabled: object = False,
        expire_time_of_incomplete_chunked_message_ms: object = 60_000,
        max_message_size_total: object = 1 << 30,
        subscription_properties: object = None,
        priority_level: object = 0,
        auto_update_partitions_interval_seconds: object = 60,
        durable: object = True,
        start_message_id: object = None,
        interceptors: object = None,
    ) -> None:
        self.interceptors: Final[tuple[ConsumerInterceptor, ...]] = check.instances(
            "interceptors", interceptors, ConsumerInterceptor
        )
        self.subscription_name: Final[str] = check.text("subscription_name", subscription_name)
        self.consumer_type: Final[ConsumerType] = check.choice(
            "consumer_type", consumer_type, ConsumerType
        )
        self.receiver_queue_size: Final[int] = check.number(
            "receiver_queue_size", receiver_queue_size, 0, INT_MAX
        )
        self.max_total_receiver_queue_size_across_partitions: Final[int] = check.number(
            "max_total_receiver_queue_size_across_partitions",
            max_total_receiver_queue_size_across_partitions,
            0,
            INT_MAX,
        )
        self.consumer_name: Final[str | None] = check.text_or_none("consumer_name", consumer_name)
        self.unacked_messages_timeout_ms: Final[int] = _ack_timeout(unacked_messages_timeout_ms)
        # Ignored: `stats` asks no broker.
        self.broker_consumer_stats_cache_time_ms: Final[int] = check.number(
            "broker_consumer_stats_cache_time_ms", broker_consumer_stats_cache_time_ms, 0, MS_MAX
        )
        self.negative_ack_redelivery_delay_ms: Final[int] = check.number(
            "negative_ack_redelivery_delay_ms", negative_ack_redelivery_delay_ms, 0, MS_MAX
        )
        self.is_read_compacted: Final[bool] = check.flag("is_read_compacted", is_read_compacted)
        self.properties: Final[dict[str, str]] = check.properties("properties", properties)
        # In seconds.
        self.pattern_auto_discovery_period: Final[int] = check.number(
            "pattern_auto_discovery_period", pattern_auto_discovery_period, 1, INT_MAX
        )
        self.initial_position: Final[InitialPosition] = check.choice(
            "initial_position", initial_position, InitialPosition
        )
        self.crypto_key_reader: Final[CryptoKeyReader | None] = check.instance_or_none(
            "crypto_key_reader", crypto_key_reader, CryptoKeyReader
        )
        self.replicate_subscription_state_enabled: Final[bool] = check.flag(
            "replicate_subscription_state_enabled", replicate_subscription_state_enabled
        )
        # 0 is no limit.
        self.max_pending_chunked_message: Final[int] = check.number(
            "max_pending_chunked_message", max_pending_chunked_message, 0, INT_MAX
        )
        self.auto_ack_oldest_chunked_message_on_queue_full: Final[bool] = check.flag(
            "auto_ack_oldest_chunked_message_on_queue_full",
            auto_ack_oldest_chunked_message_on_queue_full,
        )
        self.start_message_id_inclusive: Final[bool] = check.flag(
            "start_message_id_inclusive", start_message_id_inclusive
        )
        policy = check.instance_or_none(
            "batch_receive_policy", batch_receive_policy, ConsumerBatchReceivePolicy
        )
        self.batch_receive_policy: Final[ConsumerBatchReceivePolicy] = (
            ConsumerBatchReceivePolicy() if policy is None else policy
        )
        self.key_shared_policy: Final[ConsumerKeySharedPolicy | None] = check.instance_or_none(
            "key_shared_policy", key_shared_policy, ConsumerKeySharedPolicy
        )
        # Ignored: batch indexes are always acked. The blocking door warns of it, once.
        self.batch_index_ack_enabled: Final[bool] = check.flag(
            "batch_index_ack_enabled", batch_index_ack_enabled
        )
        self.regex_subscription_mode: Final[RegexSubscriptionMode] = check.choice(
            "regex_subscription_mode", regex_subscription_mode, RegexSubscriptionMode
        )
        self.dead_letter_policy: Final[ConsumerDeadLetterPolicy | None] = check.instance_or_none(
            "dead_letter_policy", dead_letter_policy, ConsumerDeadLetterPolicy
        )
        self.crypto_failure_action: Final[ConsumerCryptoFailureAction] = check.choice(
            "crypto_failure_action", crypto_failure_action, ConsumerCryptoFailureAction
        )
        # 0 sends every ack by itself, at once.
        self.acknowledgement_group_time_ms: Final[int] = check.number(
            "acknowledgement_group_time_ms", acknowledgement_group_time_ms, 0, MS_MAX
        )
        self.max_acknowledgement_group_size: Final[int] = check.number(
            "max_acknowledgement_group_size", max_acknowledgement_group_size, 1, INT_MAX
        )
        self.ack_receipt_enabled: Final[bool] = check.flag(
            "ack_receipt_enabled", ack_receipt_enabled
        )
        # Acks that fail are sent again (PIP-377), with receipts underneath.
        self.auto_retry_acknowledgement: Final[bool] = check.flag(
            "auto_retry_acknowledgement", auto_retry_acknowledgement
        )
        self.max_acknowledgement_retries: Final[int] = check.number(
            "max_acknowledgement_retries", max_acknowledgement_retries, 0, INT_MAX
        )
        # None is the default: 100 ms, doubling, to 10 s.
        self.auto_retry_acknowledgement_backoff: Final[RedeliveryBackoff | RetryBackoff | None] = (
            _retry_backoff("auto_retry_acknowledgement_backoff", auto_retry_acknowledgement_backoff)
        )
        self.on_acknowledgement_failed: Final[AcknowledgementFailed | None] = _function(
            "on_acknowledgement_failed", on_acknowledgement_failed
        )
        # Unconfirmed acks at which a consumer that retries asks for no more messages.
        self.max_pending_acknowledgements: Final[int] = check.number(
            "max_pending_acknowledgements", max_pending_acknowledgements, 1, INT_MAX
        )
        self.negative_ack_redelivery_backoff: Final[RedeliveryBackoff | None] = _redelivery_backoff(
            "negative_ack_redelivery_backoff", negative_ack_redelivery_backoff
        )
        self.ack_timeout_redelivery_backoff: Final[RedeliveryBackoff | None] = _redelivery_backoff(
            "ack_timeout_redelivery_backoff", ack_timeout_redelivery_backoff
        )
        self.retry_enabled: Final[bool] = check.flag("retry_enabled", retry_enabled)
        # 0 keeps incomplete messages for ever.
        self.expire_time_of_incomplete_chunked_message_ms: Final[int] = check.number(
            "expire_time_of_incomplete_chunked_message_ms",
            expire_time_of_incomplete_chunked_message_ms,
            0,
            MS_MAX,
        )
        # What a message in chunks may have, and all that are incomplete together.
        self.max_message_size_total: Final[int] = check.number(
            "max_message_size_total", max_message_size_total, 1, INT_MAX
        )
        self.subscription_properties: Final[dict[str, str]] = check.properties(
            "subscription_properties", subscription_properties
        )
        self.priority_level: Final[int] = check.number("priority_level", priority_level, 0, INT_MAX)
        self.auto_update_partitions_interval_seconds: Final[int] = check.number(
            "auto_update_partitions_interval_seconds",
            auto_update_partitions_interval_seconds,
            1,
            INT_MAX,
        )
        self.durable: Final[bool] = check.flag("durable", durable)
        self.start_message_id: Final[MessageId | None] = check.instance_or_none(
            "start_message_id", start_message_id, MessageId
        )


@final
class ReaderOptions:
    """What a reader can be told."""

    def __init__(
        self,
        start_message_id: object,
        *,
        receiver_queue_size: object = 1000,
        reader_name: object = None,
        subscription_role_prefix: object = None,
        is_read_compacted: object = False,
        crypto_key_reader: object = None,
        start_message_id_inclusive: object = False,
        crypto_failure_action: object = ConsumerCryptoFailureAction.FAIL,
        # Ours.
        max_pending_chunked_message: object = 10,
        auto_ack_oldest_chunked_message_on_queue_full: object = False,
        expire_time_of_incomplete_chunked_message_ms: object = 60_000,
        max_message_size_total: object = 1 << 30,
    ) -> None:
        if not isinstance(start_message_id, MessageId):
            raise check.wrong_type("start_message_id", start_message_id, "a MessageId")
        self.start_message_id: Final[MessageId] = start_message_id
        self.receiver_queue_size: Final[int] = check.number(
            "receiver_queue_size", receiver_queue_size, 0, INT_MAX
        )
        self.reader_name: Final[str | None] = check.text_or_none("reader_name", reader_name)
        self.subscription_role_prefix: Final[str | None] = check.text_or_none(
            "subscription_role_prefix", subscription_role_prefix
        )
        self.is_read_compacted: Final[bool] = check.flag("is_read_compacted", is_read_compacted)
        self.crypto_key_reader: Final[CryptoKeyReader | None] = check.instance_or_none(
            "crypto_key_reader", crypto_key_reader, CryptoKeyReader
        )
        self.start_message_id_inclusive: Final[bool] = check.flag(
            "start_message_id_inclusive", start_message_id_inclusive
        )
        self.crypto_failure_action: Final[ConsumerCryptoFailureAction] = check.choice(
            "crypto_failure_action", crypto_failure_action, ConsumerCryptoFailureAction
        )
        # The consumer checks these; so that it does so now, one is made.
        self._chunking: Final[dict[str, object]] = {
            "max_pending_chunked_message": max_pending_chunked_message,
            "auto_ack_oldest_chunked_message_on_queue_full": (
                auto_ack_oldest_chunked_message_on_queue_full
            ),
            "expire_time_of_incomplete_chunked_message_ms": (
                expire_time_of_incomplete_chunked_message_ms
            ),
            "max_message_size_total": max_message_size_total,
        }
        self.consumer_options("check")

    def consumer_options(self, subscription_name: str) -> ConsumerOptions:
        """Returns the consumer that reads for this reader, on a subscription of its own."""
        prefix = self.subscription_role_prefix
        return ConsumerOptions(
            subscription_name if prefix is None else f"{prefix}-{subscription_name}",
            receiver_queue_size=self.receiver_queue_size,
            consumer_name=self.reader_name,
            is_read_compacted=self.is_read_compacted,
            start_message_id_inclusive=self.start_message_id_inclusive,
            crypto_key_reader=self.crypto_key_reader,
            crypto_failure_action=self.crypto_failure_action,
            durable=False,
            start_message_id=self.start_message_id,
            **self._chunking,
        )


def _key_names(value: object) -> list[str]:
    name = "encryption_key"
    if value is None:
        return []
    if isinstance(value, str):
        return [check.text(name, value)]
    if not isinstance(value, (list, tuple)) or not value:
        raise check.wrong_type(name, value, "the name of a key, or a list of names")
    return list(dict.fromkeys([check.text(name, item) for item in value]))


def _ack_timeout(value: object) -> int:
    name = "unacked_messages_timeout_ms"
    if value is None:
        return 0
    timeout_ms = check.number(name, value, 0, MS_MAX)
    if 0 < timeout_ms < ACK_TIMEOUT_MIN_MS:
        raise SettingsError(
            name, f"{timeout_ms} is too little: give {ACK_TIMEOUT_MIN_MS} or more, or 0 for none"
        )
    return timeout_ms


def _redelivery_backoff(name: str, value: object) -> RedeliveryBackoff | None:
    if value is None or isinstance(value, RedeliveryBackoff):
        return value
    raise check.wrong_type(name, value, "a MultiplierRedeliveryBackoff")


def _retry_backoff(name: str, value: object) -> RedeliveryBackoff | RetryBackoff | None:
    if value is None or isinstance(value, RedeliveryBackoff):
        return value
    if callable(value):
        return value
    raise check.wrong_type(name, value, "a MultiplierRedeliveryBackoff or a function")


def _function(name: str, value: object) -> AcknowledgementFailed | None:
    if value is None or callable(value):
        return value
    raise check.wrong_type(name, value, "a function")
