"""What clients, producers, consumers and readers can be told.

Each of the four classes is a value: made once, checked as it is made, never changed. Names
and defaults are those of the official Python client 3.13, so that keyword arguments pass
from one to the other; what is ours stands last, under "Ours". Arguments are taken as
`object` and checked here, in one place: a wrong type gets the same SettingsError, which
names the option, whether this file is compiled or not. The attributes are typed.

An option that the official client has, and that cannot be honoured, is refused unless it
has its default. `batch_index_ack_enabled` is the exception: it is taken and ignored, since
batch indexes are always acked.

Not here, because they are the doors' own: topics, schemas, listeners.
"""

from collections.abc import Callable
from enum import IntEnum
from itertools import pairwise
from typing import Final, TypeAlias, final

from magnetar.client.backoff import INITIAL_MS, MAX_MS, MultiplierRedeliveryBackoff
from magnetar.errors import SettingsError
from magnetar.model.enums import (
    CompressionType,
    ConsumerType,
    InitialPosition,
    KeySharedMode,
    ProducerAccessMode,
    RegexSubscriptionMode,
)
from magnetar.model.message_id import MessageId

__all__ = [
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

INT_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1
# 139 years: added to the time of day it stays far from the end of 64 bits.
MS_MAX: Final = 1 << 42
# Below a second every hiccup of a consumer would have its messages sent again.
ACK_TIMEOUT_MIN_MS: Final = 1000
# Hash ranges of a Key_Shared subscription: slots 0 to 65535.
SLOT_MAX: Final = 65535

# A router of the user's own: a `RoutedMessage` and the number of partitions give the
# partition. Whether that is a number is checked each time.
MessageRouter: TypeAlias = Callable[[object, int], object]


class PartitionsRoutingMode(IntEnum):
    """To which partition a message without a key goes."""

    UseSinglePartition = 0
    RoundRobinDistribution = 1
    CustomPartition = 2


class BatchingType(IntEnum):
    """Which messages may share a batch: any, or only those of one key."""

    Default = 0
    KeyBased = 1


class HashingScheme(IntEnum):
    """How a key is hashed to choose its partition.

    BoostHash is what the official Python client uses, and lets one choose no other;
    JavaStringHash is the default of the Java and Go clients. Producers of one topic must
    agree, or messages of one key end in different partitions.
    """

    Murmur3_32Hash = 0
    BoostHash = 1
    JavaStringHash = 2


class ConsumerCryptoFailureAction(IntEnum):
    """What a consumer does with a message that it cannot decrypt."""

    FAIL = 0
    DISCARD = 1
    CONSUME = 2


@final
class ConsumerDeadLetterPolicy:
    """After how many redeliveries a message goes elsewhere, and where.

    Topics that are None have Pulsar's names, made from topic and subscription.
    """

    def __init__(
        self,
        max_redeliver_count: object,
        dead_letter_topic: object = None,
        initial_subscription_name: object = None,
        *,
        retry_letter_topic: object = None,
    ) -> None:
        self.max_redeliver_count: Final[int] = _number(
            "max_redeliver_count", max_redeliver_count, 1, INT_MAX
        )
        self.dead_letter_topic: Final[str | None] = _text_or_none(
            "dead_letter_topic", dead_letter_topic
        )
        self.initial_subscription_name: Final[str | None] = _text_or_none(
            "initial_subscription_name", initial_subscription_name
        )
        self.retry_letter_topic: Final[str | None] = _text_or_none(
            "retry_letter_topic", retry_letter_topic
        )


@final
class ConsumerBatchReceivePolicy:
    """When `batch_receive` has enough; a limit of 0 or less is none, but one must be set."""

    def __init__(
        self,
        max_num_message: object = -1,
        max_num_bytes: object = 10 * 1024 * 1024,
        timeout_ms: object = 100,
    ) -> None:
        self.max_num_message: Final[int] = _number(
            "max_num_message", max_num_message, -INT_MAX, INT_MAX
        )
        self.max_num_bytes: Final[int] = _number(
            "max_num_bytes", max_num_bytes, -INT64_MAX, INT64_MAX
        )
        self.timeout_ms: Final[int] = _number("timeout_ms", timeout_ms, -MS_MAX, MS_MAX)
        if self.max_num_message <= 0 and self.max_num_bytes <= 0 and self.timeout_ms <= 0:
            raise SettingsError(
                "batch_receive_policy",
                "without any limit it would wait for ever: "
                "set one of max_num_message, max_num_bytes, timeout_ms",
            )


@final
class ConsumerKeySharedPolicy:
    """Which keys of a Key_Shared subscription a consumer gets."""

    def __init__(
        self,
        key_shared_mode: object = KeySharedMode.AutoSplit,
        allow_out_of_order_delivery: object = False,
        sticky_ranges: object = None,
    ) -> None:
        self.key_shared_mode: Final[KeySharedMode] = KeySharedMode(
            _choice("key_shared_mode", key_shared_mode, KeySharedMode)
        )
        self.allow_out_of_order_delivery: Final[bool] = _flag(
            "allow_out_of_order_delivery", allow_out_of_order_delivery
        )
        self.sticky_ranges: Final[list[tuple[int, int]]] = _ranges("sticky_ranges", sticky_ranges)
        if self.key_shared_mode == KeySharedMode.Sticky and not self.sticky_ranges:
            raise SettingsError("sticky_ranges", "KeySharedMode.Sticky needs at least one range")


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
    ) -> None:
        # The door knows its methods.
        self.authentication: Final[object] = authentication
        self.operation_timeout_seconds: Final[int] = _number(
            "operation_timeout_seconds", operation_timeout_seconds, 1, INT_MAX
        )
        # There is one loop, whatever this says.
        self.io_threads: Final[int] = _number("io_threads", io_threads, 1, INT_MAX)
        self.message_listener_threads: Final[int] = _number(
            "message_listener_threads", message_listener_threads, 1, INT_MAX
        )
        self.concurrent_lookup_requests: Final[int] = _number(
            "concurrent_lookup_requests", concurrent_lookup_requests, 1, INT_MAX
        )
        # Deprecated in the official client, and without effect there too.
        self.log_conf_file_path: Final[str | None] = _text_or_none(
            "log_conf_file_path", log_conf_file_path
        )
        self.stats_interval_in_seconds: Final[int] = _number(
            "stats_interval_in_seconds", stats_interval_in_seconds, 0, INT_MAX
        )
        # Without effect there too: the service URL says it.
        self.use_tls: Final[bool] = _flag("use_tls", use_tls)
        self.tls_trust_certs_file_path: Final[str | None] = _text_or_none(
            "tls_trust_certs_file_path", tls_trust_certs_file_path
        )
        self.tls_allow_insecure_connection: Final[bool] = _flag(
            "tls_allow_insecure_connection", tls_allow_insecure_connection
        )
        self.tls_validate_hostname: Final[bool] = _flag(
            "tls_validate_hostname", tls_validate_hostname
        )
        self.logger: Final[object] = logger
        self.connection_timeout_ms: Final[int] = _number(
            "connection_timeout_ms", connection_timeout_ms, 1, MS_MAX
        )
        self.listener_name: Final[str | None] = _text_or_none("listener_name", listener_name)
        self.tls_private_key_file_path: Final[str | None] = _text_or_none(
            "tls_private_key_file_path", tls_private_key_file_path
        )
        self.tls_certificate_file_path: Final[str | None] = _text_or_none(
            "tls_certificate_file_path", tls_certificate_file_path
        )
        if (self.tls_private_key_file_path is None) != (self.tls_certificate_file_path is None):
            raise SettingsError(
                "tls_certificate_file_path",
                "a certificate and its private key go together: "
                "give tls_private_key_file_path and tls_certificate_file_path, or neither",
            )
        self.keep_alive_interval_seconds: Final[int] = _number(
            "keep_alive_interval_seconds", keep_alive_interval_seconds, 1, INT_MAX
        )
        self.initial_backoff_ms: Final[int] = _number(
            "initial_backoff_ms", initial_backoff_ms, 1, MS_MAX
        )
        self.max_backoff_ms: Final[int] = _number(
            "max_backoff_ms", max_backoff_ms, self.initial_backoff_ms, MS_MAX
        )


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
    ) -> None:
        self.producer_name: Final[str | None] = _text_or_none("producer_name", producer_name)
        self.initial_sequence_id: Final[int | None] = _number_or_none(
            "initial_sequence_id", initial_sequence_id, -1, INT64_MAX - 1
        )
        self.send_timeout_millis: Final[int] = _number(
            "send_timeout_millis", send_timeout_millis, 0, MS_MAX
        )
        self.compression_type: Final[CompressionType] = CompressionType(
            _choice("compression_type", compression_type, CompressionType)
        )
        self.max_pending_messages: Final[int] = _number(
            "max_pending_messages", max_pending_messages, 0, INT_MAX
        )
        self.max_pending_messages_across_partitions: Final[int] = _number(
            "max_pending_messages_across_partitions",
            max_pending_messages_across_partitions,
            0,
            INT_MAX,
        )
        self.block_if_queue_full: Final[bool] = _flag("block_if_queue_full", block_if_queue_full)
        self.batching_enabled: Final[bool] = _flag("batching_enabled", batching_enabled)
        self.batching_max_messages: Final[int] = _number(
            "batching_max_messages", batching_max_messages, 1, INT_MAX
        )
        self.batching_max_allowed_size_in_bytes: Final[int] = _number(
            "batching_max_allowed_size_in_bytes", batching_max_allowed_size_in_bytes, 1, INT_MAX
        )
        self.batching_max_publish_delay_ms: Final[int] = _number(
            "batching_max_publish_delay_ms", batching_max_publish_delay_ms, 0, MS_MAX
        )
        self.chunking_enabled: Final[bool] = _flag("chunking_enabled", chunking_enabled)
        if self.batching_enabled and self.chunking_enabled:
            raise SettingsError(
                "chunking_enabled", "batching and chunking exclude each other: switch one off"
            )
        _refuse("encryption_key", encryption_key)
        _refuse("crypto_key_reader", crypto_key_reader)
        self.message_routing_mode: Final[PartitionsRoutingMode] = PartitionsRoutingMode(
            _choice("message_routing_mode", message_routing_mode, PartitionsRoutingMode)
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
        self.lazy_start_partitioned_producers: Final[bool] = _flag(
            "lazy_start_partitioned_producers", lazy_start_partitioned_producers
        )
        self.properties: Final[dict[str, str]] = _properties("properties", properties)
        self.batching_type: Final[BatchingType] = BatchingType(
            _choice("batching_type", batching_type, BatchingType)
        )
        self.access_mode: Final[ProducerAccessMode] = ProducerAccessMode(
            _choice("access_mode", access_mode, ProducerAccessMode)
        )
        self.hashing_scheme: Final[HashingScheme] = HashingScheme(
            _choice("hashing_scheme", hashing_scheme, HashingScheme)
        )
        # 0 leaves the size of chunks to the broker's limit.
        self.chunk_max_message_size: Final[int] = _number(
            "chunk_max_message_size", chunk_max_message_size, 0, INT_MAX
        )
        self.initial_subscription_name: Final[str | None] = _text_or_none(
            "initial_subscription_name", initial_subscription_name
        )
        self.auto_update_partitions_interval_seconds: Final[int] = _number(
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
        negative_ack_redelivery_backoff: object = None,
        ack_timeout_redelivery_backoff: object = None,
        retry_enabled: object = False,
        expire_time_of_incomplete_chunked_message_ms: object = 60_000,
        subscription_properties: object = None,
        priority_level: object = 0,
        auto_update_partitions_interval_seconds: object = 60,
        durable: object = True,
        start_message_id: object = None,
    ) -> None:
        self.subscription_name: Final[str] = _text("subscription_name", subscription_name)
        self.consumer_type: Final[ConsumerType] = ConsumerType(
            _choice("consumer_type", consumer_type, ConsumerType)
        )
        self.receiver_queue_size: Final[int] = _number(
            "receiver_queue_size", receiver_queue_size, 0, INT_MAX
        )
        self.max_total_receiver_queue_size_across_partitions: Final[int] = _number(
            "max_total_receiver_queue_size_across_partitions",
            max_total_receiver_queue_size_across_partitions,
            0,
            INT_MAX,
        )
        self.consumer_name: Final[str | None] = _text_or_none("consumer_name", consumer_name)
        self.unacked_messages_timeout_ms: Final[int] = _ack_timeout(unacked_messages_timeout_ms)
        self.broker_consumer_stats_cache_time_ms: Final[int] = _number(
            "broker_consumer_stats_cache_time_ms", broker_consumer_stats_cache_time_ms, 0, MS_MAX
        )
        self.negative_ack_redelivery_delay_ms: Final[int] = _number(
            "negative_ack_redelivery_delay_ms", negative_ack_redelivery_delay_ms, 0, MS_MAX
        )
        self.is_read_compacted: Final[bool] = _flag("is_read_compacted", is_read_compacted)
        self.properties: Final[dict[str, str]] = _properties("properties", properties)
        # In seconds.
        self.pattern_auto_discovery_period: Final[int] = _number(
            "pattern_auto_discovery_period", pattern_auto_discovery_period, 1, INT_MAX
        )
        self.initial_position: Final[InitialPosition] = InitialPosition(
            _choice("initial_position", initial_position, InitialPosition)
        )
        _refuse("crypto_key_reader", crypto_key_reader)
        self.replicate_subscription_state_enabled: Final[bool] = _flag(
            "replicate_subscription_state_enabled", replicate_subscription_state_enabled
        )
        # 0 is no limit.
        self.max_pending_chunked_message: Final[int] = _number(
            "max_pending_chunked_message", max_pending_chunked_message, 0, INT_MAX
        )
        self.auto_ack_oldest_chunked_message_on_queue_full: Final[bool] = _flag(
            "auto_ack_oldest_chunked_message_on_queue_full",
            auto_ack_oldest_chunked_message_on_queue_full,
        )
        self.start_message_id_inclusive: Final[bool] = _flag(
            "start_message_id_inclusive", start_message_id_inclusive
        )
        self.batch_receive_policy: Final[ConsumerBatchReceivePolicy] = _batch_receive_policy(
            batch_receive_policy
        )
        self.key_shared_policy: Final[ConsumerKeySharedPolicy | None] = _key_shared_policy(
            key_shared_policy
        )
        # Ignored: batch indexes are always acked. The doors warn about it once.
        self.batch_index_ack_enabled: Final[bool] = _flag(
            "batch_index_ack_enabled", batch_index_ack_enabled
        )
        self.regex_subscription_mode: Final[RegexSubscriptionMode] = RegexSubscriptionMode(
            _choice("regex_subscription_mode", regex_subscription_mode, RegexSubscriptionMode)
        )
        self.dead_letter_policy: Final[ConsumerDeadLetterPolicy | None] = _dead_letter_policy(
            dead_letter_policy
        )
        self.crypto_failure_action: Final[ConsumerCryptoFailureAction] = (
            ConsumerCryptoFailureAction(
                _choice("crypto_failure_action", crypto_failure_action, ConsumerCryptoFailureAction)
            )
        )
        # 0 sends every ack by itself, at once.
        self.acknowledgement_group_time_ms: Final[int] = _number(
            "acknowledgement_group_time_ms", acknowledgement_group_time_ms, 0, MS_MAX
        )
        self.max_acknowledgement_group_size: Final[int] = _number(
            "max_acknowledgement_group_size", max_acknowledgement_group_size, 1, INT_MAX
        )
        self.ack_receipt_enabled: Final[bool] = _flag("ack_receipt_enabled", ack_receipt_enabled)
        self.negative_ack_redelivery_backoff: Final[MultiplierRedeliveryBackoff | None] = _backoff(
            "negative_ack_redelivery_backoff", negative_ack_redelivery_backoff
        )
        self.ack_timeout_redelivery_backoff: Final[MultiplierRedeliveryBackoff | None] = _backoff(
            "ack_timeout_redelivery_backoff", ack_timeout_redelivery_backoff
        )
        self.retry_enabled: Final[bool] = _flag("retry_enabled", retry_enabled)
        # 0 keeps incomplete messages for ever.
        self.expire_time_of_incomplete_chunked_message_ms: Final[int] = _number(
            "expire_time_of_incomplete_chunked_message_ms",
            expire_time_of_incomplete_chunked_message_ms,
            0,
            MS_MAX,
        )
        self.subscription_properties: Final[dict[str, str]] = _properties(
            "subscription_properties", subscription_properties
        )
        self.priority_level: Final[int] = _number("priority_level", priority_level, 0, INT_MAX)
        self.auto_update_partitions_interval_seconds: Final[int] = _number(
            "auto_update_partitions_interval_seconds",
            auto_update_partitions_interval_seconds,
            1,
            INT_MAX,
        )
        self.durable: Final[bool] = _flag("durable", durable)
        self.start_message_id: Final[MessageId | None] = _message_id_or_none(start_message_id)


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
    ) -> None:
        if not isinstance(start_message_id, MessageId):
            raise _wrong_type("start_message_id", start_message_id, "a MessageId")
        self.start_message_id: Final[MessageId] = start_message_id
        self.receiver_queue_size: Final[int] = _number(
            "receiver_queue_size", receiver_queue_size, 0, INT_MAX
        )
        self.reader_name: Final[str | None] = _text_or_none("reader_name", reader_name)
        self.subscription_role_prefix: Final[str | None] = _text_or_none(
            "subscription_role_prefix", subscription_role_prefix
        )
        self.is_read_compacted: Final[bool] = _flag("is_read_compacted", is_read_compacted)
        _refuse("crypto_key_reader", crypto_key_reader)
        self.start_message_id_inclusive: Final[bool] = _flag(
            "start_message_id_inclusive", start_message_id_inclusive
        )
        self.crypto_failure_action: Final[ConsumerCryptoFailureAction] = (
            ConsumerCryptoFailureAction(
                _choice("crypto_failure_action", crypto_failure_action, ConsumerCryptoFailureAction)
            )
        )

    def consumer_options(self, subscription_name: str) -> ConsumerOptions:
        """The consumer that reads for this reader, on a subscription of its own."""
        prefix = self.subscription_role_prefix
        return ConsumerOptions(
            subscription_name if prefix is None else f"{prefix}-{subscription_name}",
            receiver_queue_size=self.receiver_queue_size,
            consumer_name=self.reader_name,
            is_read_compacted=self.is_read_compacted,
            start_message_id_inclusive=self.start_message_id_inclusive,
            crypto_failure_action=self.crypto_failure_action,
            durable=False,
            start_message_id=self.start_message_id,
        )


def _wrong_type(name: str, value: object, wanted: str) -> SettingsError:
    return SettingsError(name, f"expected {wanted}, not {type(value).__name__} ({value!r:.40})")


def _number(name: str, value: object, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong_type(name, value, "a whole number")
    number = int(value)
    if number < low:
        raise SettingsError(name, f"{number} is too little: give {low} or more")
    if number > high:
        raise SettingsError(name, f"{number} is too much: give {high} or less")
    return number


def _number_or_none(name: str, value: object, low: int, high: int) -> int | None:
    return None if value is None else _number(name, value, low, high)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong_type(name, value, "True or False")
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong_type(name, value, "a text")
    if not value:
        raise SettingsError(name, "the text is empty: give one")
    return value


def _text_or_none(name: str, value: object) -> str | None:
    return None if value is None else _text(name, value)


def _choice(name: str, value: object, choices: type[IntEnum]) -> int:
    if isinstance(value, choices):
        return value.value
    names = ", ".join(f"{choices.__name__}.{choice.name}" for choice in choices)
    raise SettingsError(name, f"{value!r:.40} is not one of {names}")


def _properties(name: str, value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong_type(name, value, "a dict of texts")
    properties: dict[str, str] = {}
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise SettingsError(name, f"{key!r:.40}: {text!r:.40} is not a text with a text")
        properties[key] = text
    return properties


def _refuse(name: str, value: object) -> None:
    if value is not None:
        raise SettingsError(name, "messages cannot be encrypted end to end: leave it out")


def _ack_timeout(value: object) -> int:
    name = "unacked_messages_timeout_ms"
    if value is None:
        return 0
    timeout_ms = _number(name, value, 0, MS_MAX)
    if 0 < timeout_ms < ACK_TIMEOUT_MIN_MS:
        raise SettingsError(
            name, f"{timeout_ms} is too little: give {ACK_TIMEOUT_MIN_MS} or more, or 0 for none"
        )
    return timeout_ms


def _ranges(name: str, value: object) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    if value is None:
        return ranges
    if not isinstance(value, (list, tuple)):
        raise _wrong_type(name, value, "a list of pairs")
    for pair in value:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise SettingsError(name, f"{pair!r:.40} is not a pair of numbers")
        first = _number(name, pair[0], 0, SLOT_MAX)
        ranges.append((first, _number(name, pair[1], first, SLOT_MAX)))
    ordered = sorted(ranges)
    for before, after in pairwise(ordered):
        if after[0] <= before[1]:
            raise SettingsError(name, f"{before} and {after} overlap: both ends belong to a range")
    return ranges


def _batch_receive_policy(value: object) -> ConsumerBatchReceivePolicy:
    if value is None:
        return ConsumerBatchReceivePolicy()
    if not isinstance(value, ConsumerBatchReceivePolicy):
        raise _wrong_type("batch_receive_policy", value, "a ConsumerBatchReceivePolicy")
    return value


def _key_shared_policy(value: object) -> ConsumerKeySharedPolicy | None:
    if value is None or isinstance(value, ConsumerKeySharedPolicy):
        return value
    raise _wrong_type("key_shared_policy", value, "a ConsumerKeySharedPolicy")


def _dead_letter_policy(value: object) -> ConsumerDeadLetterPolicy | None:
    if value is None or isinstance(value, ConsumerDeadLetterPolicy):
        return value
    raise _wrong_type("dead_letter_policy", value, "a ConsumerDeadLetterPolicy")


def _backoff(name: str, value: object) -> MultiplierRedeliveryBackoff | None:
    if value is None or isinstance(value, MultiplierRedeliveryBackoff):
        return value
    raise _wrong_type(name, value, "a MultiplierRedeliveryBackoff")


def _message_id_or_none(value: object) -> MessageId | None:
    if value is None or isinstance(value, MessageId):
        return value
    raise _wrong_type("start_message_id", value, "a MessageId")
