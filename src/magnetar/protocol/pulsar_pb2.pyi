"""Types for pulsar_pb2.py. `make proto` wrote this from pulsar.proto."""

from collections.abc import Iterable

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.internal.containers import (
    RepeatedCompositeFieldContainer,
    RepeatedScalarFieldContainer,
)
from google.protobuf.message import Message

DESCRIPTOR: FileDescriptor

class MessageIdData(Message):
    ledgerId: int
    entryId: int
    partition: int
    batch_index: int
    ack_set: RepeatedScalarFieldContainer[int]
    batch_size: int
    @property
    def first_chunk_message_id(self) -> MessageIdData: ...
    def __init__(
        self,
        *,
        ledgerId: int | None = ...,
        entryId: int | None = ...,
        partition: int | None = ...,
        batch_index: int | None = ...,
        ack_set: Iterable[int] | None = ...,
        batch_size: int | None = ...,
        first_chunk_message_id: MessageIdData | None = ...,
    ) -> None: ...

class KeyValue(Message):
    key: str
    value: str
    def __init__(
        self,
        *,
        key: str | None = ...,
        value: str | None = ...,
    ) -> None: ...

class KeyLongValue(Message):
    key: str
    value: int
    def __init__(
        self,
        *,
        key: str | None = ...,
        value: int | None = ...,
    ) -> None: ...

class IntRange(Message):
    start: int
    end: int
    def __init__(
        self,
        *,
        start: int | None = ...,
        end: int | None = ...,
    ) -> None: ...

class Schema(Message):
    name: str
    schema_data: bytes
    type: int
    properties: RepeatedCompositeFieldContainer[KeyValue]
    def __init__(
        self,
        *,
        name: str | None = ...,
        schema_data: bytes | None = ...,
        type: int | None = ...,
        properties: Iterable[KeyValue] | None = ...,
    ) -> None: ...

class AuthData(Message):
    auth_method_name: str
    auth_data: bytes
    def __init__(
        self,
        *,
        auth_method_name: str | None = ...,
        auth_data: bytes | None = ...,
    ) -> None: ...

class FeatureFlags(Message):
    supports_auth_refresh: bool
    supports_broker_entry_metadata: bool
    supports_partial_producer: bool
    supports_topic_watchers: bool
    supports_get_partitioned_metadata_without_auto_creation: bool
    supports_repl_dedup_by_lid_and_eid: bool
    supports_topic_watcher_reconcile: bool
    supports_scalable_topics: bool
    supports_tc_metadata_discovery: bool
    supports_magnetar: bool
    def __init__(
        self,
        *,
        supports_auth_refresh: bool | None = ...,
        supports_broker_entry_metadata: bool | None = ...,
        supports_partial_producer: bool | None = ...,
        supports_topic_watchers: bool | None = ...,
        supports_get_partitioned_metadata_without_auto_creation: bool | None = ...,
        supports_repl_dedup_by_lid_and_eid: bool | None = ...,
        supports_topic_watcher_reconcile: bool | None = ...,
        supports_scalable_topics: bool | None = ...,
        supports_tc_metadata_discovery: bool | None = ...,
        supports_magnetar: bool | None = ...,
    ) -> None: ...

class KeySharedMeta(Message):
    keySharedMode: int
    hashRanges: RepeatedCompositeFieldContainer[IntRange]
    allowOutOfOrderDelivery: bool
    entryBucketDispatch: bool
    def __init__(
        self,
        *,
        keySharedMode: int | None = ...,
        hashRanges: Iterable[IntRange] | None = ...,
        allowOutOfOrderDelivery: bool | None = ...,
        entryBucketDispatch: bool | None = ...,
    ) -> None: ...

class EncryptionKeys(Message):
    key: str
    value: bytes
    metadata: RepeatedCompositeFieldContainer[KeyValue]
    def __init__(
        self,
        *,
        key: str | None = ...,
        value: bytes | None = ...,
        metadata: Iterable[KeyValue] | None = ...,
    ) -> None: ...

class Subscription(Message):
    topic: str
    subscription: str
    def __init__(
        self,
        *,
        topic: str | None = ...,
        subscription: str | None = ...,
    ) -> None: ...

class MessageMetadata(Message):
    producer_name: str
    sequence_id: int
    publish_time: int
    properties: RepeatedCompositeFieldContainer[KeyValue]
    replicated_from: str
    partition_key: str
    replicate_to: RepeatedScalarFieldContainer[str]
    compression: int
    uncompressed_size: int
    num_messages_in_batch: int
    event_time: int
    encryption_keys: RepeatedCompositeFieldContainer[EncryptionKeys]
    encryption_algo: str
    encryption_param: bytes
    schema_version: bytes
    partition_key_b64_encoded: bool
    ordering_key: bytes
    deliver_at_time: int
    marker_type: int
    txnid_least_bits: int
    txnid_most_bits: int
    highest_sequence_id: int
    null_value: bool
    uuid: str
    num_chunks_from_msg: int
    total_chunk_msg_size: int
    chunk_id: int
    null_partition_key: bool
    compacted_batch_indexes: RepeatedScalarFieldContainer[int]
    schema_id: bytes
    entry_hash_min: int
    entry_hash_max: int
    def __init__(
        self,
        *,
        producer_name: str | None = ...,
        sequence_id: int | None = ...,
        publish_time: int | None = ...,
        properties: Iterable[KeyValue] | None = ...,
        replicated_from: str | None = ...,
        partition_key: str | None = ...,
        replicate_to: Iterable[str] | None = ...,
        compression: int | None = ...,
        uncompressed_size: int | None = ...,
        num_messages_in_batch: int | None = ...,
        event_time: int | None = ...,
        encryption_keys: Iterable[EncryptionKeys] | None = ...,
        encryption_algo: str | None = ...,
        encryption_param: bytes | None = ...,
        schema_version: bytes | None = ...,
        partition_key_b64_encoded: bool | None = ...,
        ordering_key: bytes | None = ...,
        deliver_at_time: int | None = ...,
        marker_type: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        highest_sequence_id: int | None = ...,
        null_value: bool | None = ...,
        uuid: str | None = ...,
        num_chunks_from_msg: int | None = ...,
        total_chunk_msg_size: int | None = ...,
        chunk_id: int | None = ...,
        null_partition_key: bool | None = ...,
        compacted_batch_indexes: Iterable[int] | None = ...,
        schema_id: bytes | None = ...,
        entry_hash_min: int | None = ...,
        entry_hash_max: int | None = ...,
    ) -> None: ...

class SingleMessageMetadata(Message):
    properties: RepeatedCompositeFieldContainer[KeyValue]
    partition_key: str
    payload_size: int
    compacted_out: bool
    event_time: int
    partition_key_b64_encoded: bool
    ordering_key: bytes
    sequence_id: int
    null_value: bool
    null_partition_key: bool
    def __init__(
        self,
        *,
        properties: Iterable[KeyValue] | None = ...,
        partition_key: str | None = ...,
        payload_size: int | None = ...,
        compacted_out: bool | None = ...,
        event_time: int | None = ...,
        partition_key_b64_encoded: bool | None = ...,
        ordering_key: bytes | None = ...,
        sequence_id: int | None = ...,
        null_value: bool | None = ...,
        null_partition_key: bool | None = ...,
    ) -> None: ...

class BrokerEntryMetadata(Message):
    broker_timestamp: int
    index: int
    def __init__(
        self,
        *,
        broker_timestamp: int | None = ...,
        index: int | None = ...,
    ) -> None: ...

class CommandConnect(Message):
    client_version: str
    auth_method: int
    auth_method_name: str
    auth_data: bytes
    protocol_version: int
    proxy_to_broker_url: str
    original_principal: str
    original_auth_data: str
    original_auth_method: str
    @property
    def feature_flags(self) -> FeatureFlags: ...
    proxy_version: str
    def __init__(
        self,
        *,
        client_version: str | None = ...,
        auth_method: int | None = ...,
        auth_method_name: str | None = ...,
        auth_data: bytes | None = ...,
        protocol_version: int | None = ...,
        proxy_to_broker_url: str | None = ...,
        original_principal: str | None = ...,
        original_auth_data: str | None = ...,
        original_auth_method: str | None = ...,
        feature_flags: FeatureFlags | None = ...,
        proxy_version: str | None = ...,
    ) -> None: ...

class CommandConnected(Message):
    server_version: str
    protocol_version: int
    max_message_size: int
    @property
    def feature_flags(self) -> FeatureFlags: ...
    def __init__(
        self,
        *,
        server_version: str | None = ...,
        protocol_version: int | None = ...,
        max_message_size: int | None = ...,
        feature_flags: FeatureFlags | None = ...,
    ) -> None: ...

class CommandSubscribe(Message):
    topic: str
    subscription: str
    subType: int
    consumer_id: int
    request_id: int
    consumer_name: str
    priority_level: int
    durable: bool
    @property
    def start_message_id(self) -> MessageIdData: ...
    metadata: RepeatedCompositeFieldContainer[KeyValue]
    read_compacted: bool
    @property
    def schema(self) -> Schema: ...
    initialPosition: int
    replicate_subscription_state: bool
    force_topic_creation: bool
    start_message_rollback_duration_sec: int
    @property
    def keySharedMeta(self) -> KeySharedMeta: ...
    subscription_properties: RepeatedCompositeFieldContainer[KeyValue]
    consumer_epoch: int
    def __init__(
        self,
        *,
        topic: str | None = ...,
        subscription: str | None = ...,
        subType: int | None = ...,
        consumer_id: int | None = ...,
        request_id: int | None = ...,
        consumer_name: str | None = ...,
        priority_level: int | None = ...,
        durable: bool | None = ...,
        start_message_id: MessageIdData | None = ...,
        metadata: Iterable[KeyValue] | None = ...,
        read_compacted: bool | None = ...,
        schema: Schema | None = ...,
        initialPosition: int | None = ...,
        replicate_subscription_state: bool | None = ...,
        force_topic_creation: bool | None = ...,
        start_message_rollback_duration_sec: int | None = ...,
        keySharedMeta: KeySharedMeta | None = ...,
        subscription_properties: Iterable[KeyValue] | None = ...,
        consumer_epoch: int | None = ...,
    ) -> None: ...

class CommandProducer(Message):
    topic: str
    producer_id: int
    request_id: int
    producer_name: str
    encrypted: bool
    metadata: RepeatedCompositeFieldContainer[KeyValue]
    @property
    def schema(self) -> Schema: ...
    epoch: int
    user_provided_producer_name: bool
    producer_access_mode: int
    topic_epoch: int
    txn_enabled: bool
    initial_subscription_name: str
    def __init__(
        self,
        *,
        topic: str | None = ...,
        producer_id: int | None = ...,
        request_id: int | None = ...,
        producer_name: str | None = ...,
        encrypted: bool | None = ...,
        metadata: Iterable[KeyValue] | None = ...,
        schema: Schema | None = ...,
        epoch: int | None = ...,
        user_provided_producer_name: bool | None = ...,
        producer_access_mode: int | None = ...,
        topic_epoch: int | None = ...,
        txn_enabled: bool | None = ...,
        initial_subscription_name: str | None = ...,
    ) -> None: ...

class CommandSend(Message):
    producer_id: int
    sequence_id: int
    num_messages: int
    txnid_least_bits: int
    txnid_most_bits: int
    highest_sequence_id: int
    is_chunk: bool
    marker: bool
    @property
    def message_id(self) -> MessageIdData: ...
    def __init__(
        self,
        *,
        producer_id: int | None = ...,
        sequence_id: int | None = ...,
        num_messages: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        highest_sequence_id: int | None = ...,
        is_chunk: bool | None = ...,
        marker: bool | None = ...,
        message_id: MessageIdData | None = ...,
    ) -> None: ...

class CommandSendReceipt(Message):
    producer_id: int
    sequence_id: int
    @property
    def message_id(self) -> MessageIdData: ...
    highest_sequence_id: int
    def __init__(
        self,
        *,
        producer_id: int | None = ...,
        sequence_id: int | None = ...,
        message_id: MessageIdData | None = ...,
        highest_sequence_id: int | None = ...,
    ) -> None: ...

class CommandSendError(Message):
    producer_id: int
    sequence_id: int
    error: int
    message: str
    def __init__(
        self,
        *,
        producer_id: int | None = ...,
        sequence_id: int | None = ...,
        error: int | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandMessage(Message):
    consumer_id: int
    @property
    def message_id(self) -> MessageIdData: ...
    redelivery_count: int
    ack_set: RepeatedScalarFieldContainer[int]
    consumer_epoch: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        message_id: MessageIdData | None = ...,
        redelivery_count: int | None = ...,
        ack_set: Iterable[int] | None = ...,
        consumer_epoch: int | None = ...,
    ) -> None: ...

class CommandAck(Message):
    consumer_id: int
    ack_type: int
    message_id: RepeatedCompositeFieldContainer[MessageIdData]
    validation_error: int
    properties: RepeatedCompositeFieldContainer[KeyLongValue]
    txnid_least_bits: int
    txnid_most_bits: int
    request_id: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        ack_type: int | None = ...,
        message_id: Iterable[MessageIdData] | None = ...,
        validation_error: int | None = ...,
        properties: Iterable[KeyLongValue] | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        request_id: int | None = ...,
    ) -> None: ...

class CommandFlow(Message):
    consumer_id: int
    messagePermits: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        messagePermits: int | None = ...,
    ) -> None: ...

class CommandUnsubscribe(Message):
    consumer_id: int
    request_id: int
    force: bool
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        request_id: int | None = ...,
        force: bool | None = ...,
    ) -> None: ...

class CommandSuccess(Message):
    request_id: int
    @property
    def schema(self) -> Schema: ...
    subscription_life: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        schema: Schema | None = ...,
        subscription_life: str | None = ...,
    ) -> None: ...

class CommandError(Message):
    request_id: int
    error: int
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        error: int | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandCloseProducer(Message):
    producer_id: int
    request_id: int
    assignedBrokerServiceUrl: str
    assignedBrokerServiceUrlTls: str
    def __init__(
        self,
        *,
        producer_id: int | None = ...,
        request_id: int | None = ...,
        assignedBrokerServiceUrl: str | None = ...,
        assignedBrokerServiceUrlTls: str | None = ...,
    ) -> None: ...

class CommandCloseConsumer(Message):
    consumer_id: int
    request_id: int
    assignedBrokerServiceUrl: str
    assignedBrokerServiceUrlTls: str
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        request_id: int | None = ...,
        assignedBrokerServiceUrl: str | None = ...,
        assignedBrokerServiceUrlTls: str | None = ...,
    ) -> None: ...

class CommandProducerSuccess(Message):
    request_id: int
    producer_name: str
    last_sequence_id: int
    schema_version: bytes
    topic_epoch: int
    producer_ready: bool
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        producer_name: str | None = ...,
        last_sequence_id: int | None = ...,
        schema_version: bytes | None = ...,
        topic_epoch: int | None = ...,
        producer_ready: bool | None = ...,
    ) -> None: ...

class CommandPing(Message):
    def __init__(
        self,
    ) -> None: ...

class CommandPong(Message):
    def __init__(
        self,
    ) -> None: ...

class CommandRedeliverUnacknowledgedMessages(Message):
    consumer_id: int
    message_ids: RepeatedCompositeFieldContainer[MessageIdData]
    consumer_epoch: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        message_ids: Iterable[MessageIdData] | None = ...,
        consumer_epoch: int | None = ...,
    ) -> None: ...

class CommandPartitionedTopicMetadata(Message):
    topic: str
    request_id: int
    original_principal: str
    original_auth_data: str
    original_auth_method: str
    metadata_auto_creation_enabled: bool
    def __init__(
        self,
        *,
        topic: str | None = ...,
        request_id: int | None = ...,
        original_principal: str | None = ...,
        original_auth_data: str | None = ...,
        original_auth_method: str | None = ...,
        metadata_auto_creation_enabled: bool | None = ...,
    ) -> None: ...

class CommandPartitionedTopicMetadataResponse(Message):
    partitions: int
    request_id: int
    response: int
    error: int
    message: str
    def __init__(
        self,
        *,
        partitions: int | None = ...,
        request_id: int | None = ...,
        response: int | None = ...,
        error: int | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandLookupTopic(Message):
    topic: str
    request_id: int
    authoritative: bool
    original_principal: str
    original_auth_data: str
    original_auth_method: str
    advertised_listener_name: str
    properties: RepeatedCompositeFieldContainer[KeyValue]
    def __init__(
        self,
        *,
        topic: str | None = ...,
        request_id: int | None = ...,
        authoritative: bool | None = ...,
        original_principal: str | None = ...,
        original_auth_data: str | None = ...,
        original_auth_method: str | None = ...,
        advertised_listener_name: str | None = ...,
        properties: Iterable[KeyValue] | None = ...,
    ) -> None: ...

class CommandLookupTopicResponse(Message):
    brokerServiceUrl: str
    brokerServiceUrlTls: str
    response: int
    request_id: int
    authoritative: bool
    error: int
    message: str
    proxy_through_service_url: bool
    def __init__(
        self,
        *,
        brokerServiceUrl: str | None = ...,
        brokerServiceUrlTls: str | None = ...,
        response: int | None = ...,
        request_id: int | None = ...,
        authoritative: bool | None = ...,
        error: int | None = ...,
        message: str | None = ...,
        proxy_through_service_url: bool | None = ...,
    ) -> None: ...

class CommandConsumerStats(Message):
    request_id: int
    consumer_id: int
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        consumer_id: int | None = ...,
    ) -> None: ...

class CommandConsumerStatsResponse(Message):
    request_id: int
    error_code: int
    error_message: str
    msgRateOut: float
    msgThroughputOut: float
    msgRateRedeliver: float
    consumerName: str
    availablePermits: int
    unackedMessages: int
    blockedConsumerOnUnackedMsgs: bool
    address: str
    connectedSince: str
    type: str
    msgRateExpired: float
    msgBacklog: int
    messageAckRate: float
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        error_code: int | None = ...,
        error_message: str | None = ...,
        msgRateOut: float | None = ...,
        msgThroughputOut: float | None = ...,
        msgRateRedeliver: float | None = ...,
        consumerName: str | None = ...,
        availablePermits: int | None = ...,
        unackedMessages: int | None = ...,
        blockedConsumerOnUnackedMsgs: bool | None = ...,
        address: str | None = ...,
        connectedSince: str | None = ...,
        type: str | None = ...,
        msgRateExpired: float | None = ...,
        msgBacklog: int | None = ...,
        messageAckRate: float | None = ...,
    ) -> None: ...

class CommandReachedEndOfTopic(Message):
    consumer_id: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
    ) -> None: ...

class CommandSeek(Message):
    consumer_id: int
    request_id: int
    @property
    def message_id(self) -> MessageIdData: ...
    message_publish_time: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        request_id: int | None = ...,
        message_id: MessageIdData | None = ...,
        message_publish_time: int | None = ...,
    ) -> None: ...

class CommandGetLastMessageId(Message):
    consumer_id: int
    request_id: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        request_id: int | None = ...,
    ) -> None: ...

class CommandGetLastMessageIdResponse(Message):
    @property
    def last_message_id(self) -> MessageIdData: ...
    request_id: int
    @property
    def consumer_mark_delete_position(self) -> MessageIdData: ...
    def __init__(
        self,
        *,
        last_message_id: MessageIdData | None = ...,
        request_id: int | None = ...,
        consumer_mark_delete_position: MessageIdData | None = ...,
    ) -> None: ...

class CommandActiveConsumerChange(Message):
    consumer_id: int
    is_active: bool
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        is_active: bool | None = ...,
    ) -> None: ...

class CommandGetTopicsOfNamespace(Message):
    request_id: int
    namespace: str
    mode: int
    topics_pattern: str
    topics_hash: str
    properties: RepeatedCompositeFieldContainer[KeyValue]
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        namespace: str | None = ...,
        mode: int | None = ...,
        topics_pattern: str | None = ...,
        topics_hash: str | None = ...,
        properties: Iterable[KeyValue] | None = ...,
    ) -> None: ...

class CommandGetTopicsOfNamespaceResponse(Message):
    request_id: int
    topics: RepeatedScalarFieldContainer[str]
    filtered: bool
    topics_hash: str
    changed: bool
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        topics: Iterable[str] | None = ...,
        filtered: bool | None = ...,
        topics_hash: str | None = ...,
        changed: bool | None = ...,
    ) -> None: ...

class CommandGetSchema(Message):
    request_id: int
    topic: str
    schema_version: bytes
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        topic: str | None = ...,
        schema_version: bytes | None = ...,
    ) -> None: ...

class CommandGetSchemaResponse(Message):
    request_id: int
    error_code: int
    error_message: str
    @property
    def schema(self) -> Schema: ...
    schema_version: bytes
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        error_code: int | None = ...,
        error_message: str | None = ...,
        schema: Schema | None = ...,
        schema_version: bytes | None = ...,
    ) -> None: ...

class CommandAuthChallenge(Message):
    server_version: str
    @property
    def challenge(self) -> AuthData: ...
    protocol_version: int
    def __init__(
        self,
        *,
        server_version: str | None = ...,
        challenge: AuthData | None = ...,
        protocol_version: int | None = ...,
    ) -> None: ...

class CommandAuthResponse(Message):
    client_version: str
    @property
    def response(self) -> AuthData: ...
    protocol_version: int
    def __init__(
        self,
        *,
        client_version: str | None = ...,
        response: AuthData | None = ...,
        protocol_version: int | None = ...,
    ) -> None: ...

class CommandAckResponse(Message):
    consumer_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    error: int
    message: str
    request_id: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        error: int | None = ...,
        message: str | None = ...,
        request_id: int | None = ...,
    ) -> None: ...

class CommandGetOrCreateSchema(Message):
    request_id: int
    topic: str
    @property
    def schema(self) -> Schema: ...
    producerName: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        topic: str | None = ...,
        schema: Schema | None = ...,
        producerName: str | None = ...,
    ) -> None: ...

class CommandGetOrCreateSchemaResponse(Message):
    request_id: int
    error_code: int
    error_message: str
    schema_version: bytes
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        error_code: int | None = ...,
        error_message: str | None = ...,
        schema_version: bytes | None = ...,
    ) -> None: ...

class CommandNewTxn(Message):
    request_id: int
    txn_ttl_millis: int
    tc_id: int
    scalable: bool
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txn_ttl_millis: int | None = ...,
        tc_id: int | None = ...,
        scalable: bool | None = ...,
    ) -> None: ...

class CommandNewTxnResponse(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    error: int
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        error: int | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandAddPartitionToTxn(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    partitions: RepeatedScalarFieldContainer[str]
    scalable: bool
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        partitions: Iterable[str] | None = ...,
        scalable: bool | None = ...,
    ) -> None: ...

class CommandAddPartitionToTxnResponse(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    error: int
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        error: int | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandAddSubscriptionToTxn(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    subscription: RepeatedCompositeFieldContainer[Subscription]
    scalable: bool
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        subscription: Iterable[Subscription] | None = ...,
        scalable: bool | None = ...,
    ) -> None: ...

class CommandAddSubscriptionToTxnResponse(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    error: int
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        error: int | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandEndTxn(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    txn_action: int
    scalable: bool
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        txn_action: int | None = ...,
        scalable: bool | None = ...,
    ) -> None: ...

class CommandEndTxnResponse(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    error: int
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        error: int | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandEndTxnOnPartition(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    topic: str
    txn_action: int
    txnid_least_bits_of_low_watermark: int
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        topic: str | None = ...,
        txn_action: int | None = ...,
        txnid_least_bits_of_low_watermark: int | None = ...,
    ) -> None: ...

class CommandEndTxnOnPartitionResponse(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    error: int
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        error: int | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandEndTxnOnSubscription(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    @property
    def subscription(self) -> Subscription: ...
    txn_action: int
    txnid_least_bits_of_low_watermark: int
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        subscription: Subscription | None = ...,
        txn_action: int | None = ...,
        txnid_least_bits_of_low_watermark: int | None = ...,
    ) -> None: ...

class CommandEndTxnOnSubscriptionResponse(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    error: int
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        error: int | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandTcClientConnectRequest(Message):
    request_id: int
    tc_id: int
    scalable: bool
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        tc_id: int | None = ...,
        scalable: bool | None = ...,
    ) -> None: ...

class CommandTcClientConnectResponse(Message):
    request_id: int
    error: int
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        error: int | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandWatchTopicList(Message):
    request_id: int
    watcher_id: int
    namespace: str
    topics_pattern: str
    topics_hash: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        watcher_id: int | None = ...,
        namespace: str | None = ...,
        topics_pattern: str | None = ...,
        topics_hash: str | None = ...,
    ) -> None: ...

class CommandWatchTopicListSuccess(Message):
    request_id: int
    watcher_id: int
    topic: RepeatedScalarFieldContainer[str]
    topics_hash: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        watcher_id: int | None = ...,
        topic: Iterable[str] | None = ...,
        topics_hash: str | None = ...,
    ) -> None: ...

class CommandWatchTopicUpdate(Message):
    watcher_id: int
    new_topics: RepeatedScalarFieldContainer[str]
    deleted_topics: RepeatedScalarFieldContainer[str]
    topics_hash: str
    def __init__(
        self,
        *,
        watcher_id: int | None = ...,
        new_topics: Iterable[str] | None = ...,
        deleted_topics: Iterable[str] | None = ...,
        topics_hash: str | None = ...,
    ) -> None: ...

class CommandWatchTopicListClose(Message):
    request_id: int
    watcher_id: int
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        watcher_id: int | None = ...,
    ) -> None: ...

class CommandTopicMigrated(Message):
    resource_id: int
    resource_type: int
    brokerServiceUrl: str
    brokerServiceUrlTls: str
    def __init__(
        self,
        *,
        resource_id: int | None = ...,
        resource_type: int | None = ...,
        brokerServiceUrl: str | None = ...,
        brokerServiceUrlTls: str | None = ...,
    ) -> None: ...

class CommandWithdraw(Message):
    consumer_id: int
    request_id: int
    message_ids: RepeatedCompositeFieldContainer[MessageIdData]
    entry_runs: RepeatedScalarFieldContainer[int]
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        request_id: int | None = ...,
        message_ids: Iterable[MessageIdData] | None = ...,
        entry_runs: Iterable[int] | None = ...,
    ) -> None: ...

class CommandWithdrawn(Message):
    consumer_id: int
    request_id: int
    given_back: RepeatedCompositeFieldContainer[MessageIdData]
    entry_runs: RepeatedScalarFieldContainer[int]
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        request_id: int | None = ...,
        given_back: Iterable[MessageIdData] | None = ...,
        entry_runs: Iterable[int] | None = ...,
    ) -> None: ...

class BaseCommand(Message):
    type: int
    @property
    def connect(self) -> CommandConnect: ...
    @property
    def connected(self) -> CommandConnected: ...
    @property
    def subscribe(self) -> CommandSubscribe: ...
    @property
    def producer(self) -> CommandProducer: ...
    @property
    def send(self) -> CommandSend: ...
    @property
    def send_receipt(self) -> CommandSendReceipt: ...
    @property
    def send_error(self) -> CommandSendError: ...
    @property
    def message(self) -> CommandMessage: ...
    @property
    def ack(self) -> CommandAck: ...
    @property
    def flow(self) -> CommandFlow: ...
    @property
    def unsubscribe(self) -> CommandUnsubscribe: ...
    @property
    def success(self) -> CommandSuccess: ...
    @property
    def error(self) -> CommandError: ...
    @property
    def close_producer(self) -> CommandCloseProducer: ...
    @property
    def close_consumer(self) -> CommandCloseConsumer: ...
    @property
    def producer_success(self) -> CommandProducerSuccess: ...
    @property
    def ping(self) -> CommandPing: ...
    @property
    def pong(self) -> CommandPong: ...
    @property
    def redeliverUnacknowledgedMessages(self) -> CommandRedeliverUnacknowledgedMessages: ...
    @property
    def partitionMetadata(self) -> CommandPartitionedTopicMetadata: ...
    @property
    def partitionMetadataResponse(self) -> CommandPartitionedTopicMetadataResponse: ...
    @property
    def lookupTopic(self) -> CommandLookupTopic: ...
    @property
    def lookupTopicResponse(self) -> CommandLookupTopicResponse: ...
    @property
    def consumerStats(self) -> CommandConsumerStats: ...
    @property
    def consumerStatsResponse(self) -> CommandConsumerStatsResponse: ...
    @property
    def reachedEndOfTopic(self) -> CommandReachedEndOfTopic: ...
    @property
    def seek(self) -> CommandSeek: ...
    @property
    def getLastMessageId(self) -> CommandGetLastMessageId: ...
    @property
    def getLastMessageIdResponse(self) -> CommandGetLastMessageIdResponse: ...
    @property
    def active_consumer_change(self) -> CommandActiveConsumerChange: ...
    @property
    def getTopicsOfNamespace(self) -> CommandGetTopicsOfNamespace: ...
    @property
    def getTopicsOfNamespaceResponse(self) -> CommandGetTopicsOfNamespaceResponse: ...
    @property
    def getSchema(self) -> CommandGetSchema: ...
    @property
    def getSchemaResponse(self) -> CommandGetSchemaResponse: ...
    @property
    def authChallenge(self) -> CommandAuthChallenge: ...
    @property
    def authResponse(self) -> CommandAuthResponse: ...
    @property
    def ackResponse(self) -> CommandAckResponse: ...
    @property
    def getOrCreateSchema(self) -> CommandGetOrCreateSchema: ...
    @property
    def getOrCreateSchemaResponse(self) -> CommandGetOrCreateSchemaResponse: ...
    @property
    def newTxn(self) -> CommandNewTxn: ...
    @property
    def newTxnResponse(self) -> CommandNewTxnResponse: ...
    @property
    def addPartitionToTxn(self) -> CommandAddPartitionToTxn: ...
    @property
    def addPartitionToTxnResponse(self) -> CommandAddPartitionToTxnResponse: ...
    @property
    def addSubscriptionToTxn(self) -> CommandAddSubscriptionToTxn: ...
    @property
    def addSubscriptionToTxnResponse(self) -> CommandAddSubscriptionToTxnResponse: ...
    @property
    def endTxn(self) -> CommandEndTxn: ...
    @property
    def endTxnResponse(self) -> CommandEndTxnResponse: ...
    @property
    def endTxnOnPartition(self) -> CommandEndTxnOnPartition: ...
    @property
    def endTxnOnPartitionResponse(self) -> CommandEndTxnOnPartitionResponse: ...
    @property
    def endTxnOnSubscription(self) -> CommandEndTxnOnSubscription: ...
    @property
    def endTxnOnSubscriptionResponse(self) -> CommandEndTxnOnSubscriptionResponse: ...
    @property
    def tcClientConnectRequest(self) -> CommandTcClientConnectRequest: ...
    @property
    def tcClientConnectResponse(self) -> CommandTcClientConnectResponse: ...
    @property
    def watchTopicList(self) -> CommandWatchTopicList: ...
    @property
    def watchTopicListSuccess(self) -> CommandWatchTopicListSuccess: ...
    @property
    def watchTopicUpdate(self) -> CommandWatchTopicUpdate: ...
    @property
    def watchTopicListClose(self) -> CommandWatchTopicListClose: ...
    @property
    def topicMigrated(self) -> CommandTopicMigrated: ...
    @property
    def withdraw(self) -> CommandWithdraw: ...
    @property
    def withdrawn(self) -> CommandWithdrawn: ...
    def __init__(
        self,
        *,
        type: int | None = ...,
        connect: CommandConnect | None = ...,
        connected: CommandConnected | None = ...,
        subscribe: CommandSubscribe | None = ...,
        producer: CommandProducer | None = ...,
        send: CommandSend | None = ...,
        send_receipt: CommandSendReceipt | None = ...,
        send_error: CommandSendError | None = ...,
        message: CommandMessage | None = ...,
        ack: CommandAck | None = ...,
        flow: CommandFlow | None = ...,
        unsubscribe: CommandUnsubscribe | None = ...,
        success: CommandSuccess | None = ...,
        error: CommandError | None = ...,
        close_producer: CommandCloseProducer | None = ...,
        close_consumer: CommandCloseConsumer | None = ...,
        producer_success: CommandProducerSuccess | None = ...,
        ping: CommandPing | None = ...,
        pong: CommandPong | None = ...,
        redeliverUnacknowledgedMessages: CommandRedeliverUnacknowledgedMessages | None = ...,
        partitionMetadata: CommandPartitionedTopicMetadata | None = ...,
        partitionMetadataResponse: CommandPartitionedTopicMetadataResponse | None = ...,
        lookupTopic: CommandLookupTopic | None = ...,
        lookupTopicResponse: CommandLookupTopicResponse | None = ...,
        consumerStats: CommandConsumerStats | None = ...,
        consumerStatsResponse: CommandConsumerStatsResponse | None = ...,
        reachedEndOfTopic: CommandReachedEndOfTopic | None = ...,
        seek: CommandSeek | None = ...,
        getLastMessageId: CommandGetLastMessageId | None = ...,
        getLastMessageIdResponse: CommandGetLastMessageIdResponse | None = ...,
        active_consumer_change: CommandActiveConsumerChange | None = ...,
        getTopicsOfNamespace: CommandGetTopicsOfNamespace | None = ...,
        getTopicsOfNamespaceResponse: CommandGetTopicsOfNamespaceResponse | None = ...,
        getSchema: CommandGetSchema | None = ...,
        getSchemaResponse: CommandGetSchemaResponse | None = ...,
        authChallenge: CommandAuthChallenge | None = ...,
        authResponse: CommandAuthResponse | None = ...,
        ackResponse: CommandAckResponse | None = ...,
        getOrCreateSchema: CommandGetOrCreateSchema | None = ...,
        getOrCreateSchemaResponse: CommandGetOrCreateSchemaResponse | None = ...,
        newTxn: CommandNewTxn | None = ...,
        newTxnResponse: CommandNewTxnResponse | None = ...,
        addPartitionToTxn: CommandAddPartitionToTxn | None = ...,
        addPartitionToTxnResponse: CommandAddPartitionToTxnResponse | None = ...,
        addSubscriptionToTxn: CommandAddSubscriptionToTxn | None = ...,
        addSubscriptionToTxnResponse: CommandAddSubscriptionToTxnResponse | None = ...,
        endTxn: CommandEndTxn | None = ...,
        endTxnResponse: CommandEndTxnResponse | None = ...,
        endTxnOnPartition: CommandEndTxnOnPartition | None = ...,
        endTxnOnPartitionResponse: CommandEndTxnOnPartitionResponse | None = ...,
        endTxnOnSubscription: CommandEndTxnOnSubscription | None = ...,
        endTxnOnSubscriptionResponse: CommandEndTxnOnSubscriptionResponse | None = ...,
        tcClientConnectRequest: CommandTcClientConnectRequest | None = ...,
        tcClientConnectResponse: CommandTcClientConnectResponse | None = ...,
        watchTopicList: CommandWatchTopicList | None = ...,
        watchTopicListSuccess: CommandWatchTopicListSuccess | None = ...,
        watchTopicUpdate: CommandWatchTopicUpdate | None = ...,
        watchTopicListClose: CommandWatchTopicListClose | None = ...,
        topicMigrated: CommandTopicMigrated | None = ...,
        withdraw: CommandWithdraw | None = ...,
        withdrawn: CommandWithdrawn | None = ...,
    ) -> None: ...
