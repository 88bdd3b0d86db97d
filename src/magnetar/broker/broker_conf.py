"""Pulsar's `broker.conf`, read into settings of this broker.

Every key that Apache Pulsar 4 knows is in one of four tables: `HONOURED` says which setting
it is here and in which unit, `OPTIONS` which option of `serve` it stands for,
`WITHOUT_EFFECT` and `FAMILIES` say why it has no effect, and `REFUSED` names those that
promise safety and would break the promise if they were passed over. Any other key is an
error, since a key with a slip in it would be passed over too.

The text is Java's properties format: `key=value`, comments behind `#` or `!`, lines that go
on behind a backslash, and escapes. A key without a value is as good as one left out, and
of two lines with the same key the later one counts.
"""

from difflib import get_close_matches
from typing import Final, final

from magnetar.broker.settings import (
    BOOL,
    COUNT_MAX,
    MIB,
    NAMES,
    SETTINGS,
    TEXT,
    Setting,
    Value,
)
from magnetar.errors import SettingsError

__all__ = [
    "FAMILIES",
    "HONOURED",
    "OPTIONS",
    "REFUSED",
    "WITHOUT_EFFECT",
    "BrokerConf",
    "read_broker_conf",
]

_SECOND_MS: Final = 1000
_MINUTE_MS: Final = 60_000

# Pulsar's key: our setting, and how many of our units are one of Pulsar's.
HONOURED: Final[dict[str, tuple[str, int]]] = {
    "clusterName": ("cluster_name", 1),
    "maxMessageSize": ("message_size_max", 1),
    "keepAliveIntervalSeconds": ("keep_alive_ms", _SECOND_MS),
    "brokerMaxConnections": ("max_connections", 1),
    "brokerMaxConnectionsPerIp": ("max_connections_per_ip", 1),
    "maxPendingPublishRequestsPerConnection": ("max_pending_publishes_per_connection", 1),
    "maxMessagePublishBufferSizeInMB": ("max_pending_publish_bytes", MIB),
    "enablePersistentTopics": ("persistent", 1),
    "enableNonPersistentTopics": ("non_persistent", 1),
    "allowAutoTopicCreation": ("auto_create_topics", 1),
    # Counts if `allowAutoTopicCreationType` is `partitioned`.
    "defaultNumPartitions": ("auto_create_partitions", 1),
    "allowAutoTopicCreationType": ("auto_create_partitions", 1),
    "allowAutoSubscriptionCreation": ("auto_create_subscriptions", 1),
    "brokerDeleteInactiveTopicsEnabled": ("delete_inactive_topics", 1),
    "brokerDeleteInactiveTopicsMode": ("inactive_topic_mode", 1),
    # In Pulsar too the first stands in for the second where that one is not given.
    "brokerDeleteInactiveTopicsFrequencySeconds": ("inactive_topic_ms", _SECOND_MS),
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": ("inactive_topic_ms", _SECOND_MS),
    "maxTopicsPerNamespace": ("max_topics_per_namespace", 1),
    "maxNumPartitionsPerPartitionedTopic": ("max_partitions_per_topic", 1),
    "maxProducersPerTopic": ("max_producers_per_topic", 1),
    "maxConsumersPerTopic": ("max_consumers_per_topic", 1),
    "maxConsumersPerSubscription": ("max_consumers_per_subscription", 1),
    "maxSubscriptionsPerTopic": ("max_subscriptions_per_topic", 1),
    # Until 4.1 the first switched what the second switches since.
    "enableBrokerSideSubscriptionPatternEvaluation": ("topic_watchers", 1),
    "enableBrokerTopicListWatcher": ("topic_watchers", 1),
    "subscriptionPatternMaxLength": ("topics_pattern_length_max", 1),
    "defaultRetentionTimeInMinutes": ("retention_minutes", 1),
    "defaultRetentionSizeInMB": ("retention_mb", 1),
    "ttlDurationDefaultInSeconds": ("ttl_seconds", 1),
    "messageExpiryCheckIntervalInMinutes": ("ttl_check_ms", _MINUTE_MS),
    "backlogQuotaDefaultLimitBytes": ("backlog_quota_bytes", 1),
    # The old name; more than 0 of it counts before the new one.
    "backlogQuotaDefaultLimitGB": ("backlog_quota_bytes", 1 << 30),
    "backlogQuotaDefaultLimitSecond": ("backlog_quota_seconds", 1),
    "backlogQuotaDefaultRetentionPolicy": ("backlog_quota_policy", 1),
    "backlogQuotaCheckIntervalInSeconds": ("backlog_quota_check_ms", _SECOND_MS),
    "brokerDeduplicationEnabled": ("deduplication", 1),
    "brokerDeduplicationEntriesInterval": ("deduplication_snapshot_entries", 1),
    "brokerDeduplicationMaxNumberOfProducers": ("deduplication_max_producers", 1),
    "schemaCompatibilityStrategy": ("schema_compatibility", 1),
    "isSchemaValidationEnforced": ("schema_validation_enforced", 1),
    "subscriptionTypesEnabled": ("subscription_types", 1),
    "acknowledgmentAtBatchIndexLevelEnabled": ("batch_index_ack", 1),
    "maxUnackedMessagesPerConsumer": ("max_unacked_per_consumer", 1),
    "maxUnackedMessagesPerSubscription": ("max_unacked_per_subscription", 1),
    "delayedDeliveryEnabled": ("delayed_delivery", 1),
    "delayedDeliveryTickTimeMillis": ("delayed_delivery_tick_ms", 1),
    "delayedDeliveryMaxDelayInMillis": ("delayed_delivery_max_ms", 1),
    "dispatcherMaxRoundRobinBatchSize": ("dispatch_round_robin_entries", 1),
    "dispatcherMaxReadBatchSize": ("dispatch_read_entries", 1),
    "dispatcherMaxReadSizeBytes": ("dispatch_read_bytes", 1),
    "activeConsumerFailoverDelayTimeMillis": ("failover_delay_ms", 1),
    "subscriptionKeySharedUseConsistentHashing": ("key_shared_consistent_hashing", 1),
    "subscriptionKeySharedConsistentHashingReplicaPoints": ("key_shared_points", 1),
    "keySharedLookAheadMsgInReplayThresholdPerConsumer": ("key_shared_look_ahead_per_consumer", 1),
    "keySharedLookAheadMsgInReplayThresholdPerSubscription": (
        "key_shared_look_ahead_per_subscription",
        1,
    ),
    "managedLedgerCacheSizeMB": ("cache_bytes", MIB),
    "managedLedgerMaxEntriesPerLedger": ("ledger_entries_max", 1),
    "managedLedgerMaxSizePerLedgerMbytes": ("ledger_bytes_max", MIB),
    "managedLedgerMaxLedgerRolloverTimeMinutes": ("ledger_age_ms_max", _MINUTE_MS),
    "authenticationEnabled": ("authentication", 1),
    "authorizationEnabled": ("authorization", 1),
    "superUserRoles": ("super_user_roles", 1),
    "anonymousUserRole": ("anonymous_role", 1),
    "authenticateMetricsEndpoint": ("authenticate_metrics", 1),
    "authenticationRefreshCheckSeconds": ("authentication_refresh_ms", _SECOND_MS),
    "tokenSecretKey": ("token_secret_key", 1),
    "tokenPublicKey": ("token_public_key", 1),
    "tokenAuthClaim": ("token_role_claim", 1),
    "tokenAudienceClaim": ("token_audience_claim", 1),
    "tokenAudience": ("token_audience", 1),
    "tlsCertificateFilePath": ("tls_certificate_file", 1),
    "tlsKeyFilePath": ("tls_key_file", 1),
    "tlsTrustCertsFilePath": ("tls_trust_certs_file", 1),
    "tlsRequireTrustedClientCertOnConnect": ("tls_require_client_certificate", 1),
    "tlsCertRefreshCheckDurationSec": ("tls_refresh_seconds", 1),
}

# Keys that are no settings of the broker but options of the command that starts it.
OPTIONS: Final[dict[str, str]] = {
    "brokerServicePort": "port",
    "webServicePort": "http_port",
    "brokerServicePortTls": "tls_port",
    "webServicePortTls": "https_port",
    "advertisedAddress": "advertised_host",
}

# Keys that must not be passed over when they are true.
REFUSED: Final[dict[str, str]] = {
    "encryptionRequireOnProducer": "a broker that passed this over would take plain messages",
    "tlsEnabledWithKeyStore": "certificates and keys are files in PEM form, not key stores",
}

_ACKS: Final = "every ack is written before its receipt, so there is no rate or flush to set"
_HOLES: Final = "there is no limit on holes to raise: all of the ack state is always written"
_ACK_FORM: Final = "the ack state has one compact form on disk, which needs no choice"
_ADDRESS: Final = (
    "the address to listen on is given with --host, and the one to tell with --advertised-host"
)
_BOOKIES: Final = "entries are kept in this broker's own log: there are no bookies or ZooKeeper"
_CACHE: Final = "the cache has a size, cache_bytes, and needs no other tuning"
_CLUSTER: Final = "there is one broker and one cluster: nothing is balanced, moved or replicated"
_DAMAGE: Final = "damaged data is reported, never passed over"
_DELAYED: Final = "delayed messages are indexed in one compact way, and are never early"
_DUMP: Final = "Pulsar's form of a cursor is written only by the command dump"
_HTTP: Final = "the HTTP port has limits of its own"
_METRICS: Final = "metrics and statistics are always the same here"
_NETTY: Final = "max_outbound_bytes_per_connection bounds what waits for a peer that does not read"
_OFFLOAD: Final = "ledgers are not offloaded to other storage"
_PLUGINS: Final = "there are no plugins"
_PROTOCOL: Final = "this part of the protocol has no such limit here"
_RATES: Final = "rates are not limited; a slow disk or peer stops the reads of the right sockets"
_REPLACED: Final = "Pulsar has given it up for another key, which is honoured or explained"
_PROOFS: Final = "clients show tokens or certificates, checked in one way each"
_PROXY: Final = "what a proxy says of those behind it is not believed"
_TLS: Final = "TLS is 1.2 or newer, with OpenSSL's choice of ciphers and files in PEM form"
_THREADS: Final = "one thread serves all peers, and one writes"
_TRANSACTIONS: Final = "there are no transactions: a client that asks for one is told so"

# Keys without effect that share a beginning and a reason; the first that fits counts.
FAMILIES: Final[tuple[tuple[str, str], ...]] = (
    ("athenz", _PROOFS),
    ("authenticateOriginal", _PROXY),
    ("authentication", _PROOFS),
    ("authorization", "roles are matched whole, and permissions kept in one way"),
    ("bookkeeper", _BOOKIES),
    ("brokerClient", _CLUSTER),
    ("brokerInterceptor", _PLUGINS),
    ("brokerServiceCompaction", "topics are not compacted"),
    ("cacheEviction", _CACHE),
    ("clusterMigration", _CLUSTER),
    ("configurationMetadata", _BOOKIES),
    ("configurationStore", _BOOKIES),
    ("dbStorage_", _BOOKIES),
    ("delayedDelivery", _DELAYED),
    ("dispatchRateLimiter", _RATES),
    ("dispatchThrottling", _RATES),
    ("dispatcherReadFailure", "a read that fails is an error of the disk, and is not tried again"),
    ("dispatcherRetry", "dispatch goes on by events, not by timers"),
    ("expose", _METRICS),
    ("fileSystem", _OFFLOAD),
    ("functionsWorker", "functions are not run here"),
    ("gcsManagedLedgerOffload", _OFFLOAD),
    ("http", _HTTP),
    ("journal", "receipts wait for the disk as the setting fsync says"),
    ("loadBalance", _CLUSTER),
    ("loadManager", _CLUSTER),
    ("managedLedgerCache", _CACHE),
    ("managedLedgerOffload", _OFFLOAD),
    ("maxTopicListInFlight", _PROTOCOL),
    ("metadataStore", _BOOKIES),
    ("metadataSync", _CLUSTER),
    ("metrics", _METRICS),
    ("packages", "packages are not kept here"),
    ("pulsarChannel", _NETTY),
    ("replicat", _CLUSTER),
    ("resourceUsage", _CLUSTER),
    ("s3ManagedLedgerOffload", _OFFLOAD),
    ("sasl", _PROOFS),
    ("scalableTopic", "scalable topics are not there"),
    ("sslFactory", _TLS),
    ("tls", _TLS),
    ("token", _PROOFS),
    ("transaction", _TRANSACTIONS),
    ("webServiceTls", _TLS),
    ("webService", _HTTP),
    ("webSocket", "there is no WebSocket service"),
    ("zooKeeper", _BOOKIES),
    ("zookeeper", _BOOKIES),
)

# Keys without effect that have a reason of their own, or share only that.
WITHOUT_EFFECT: Final[dict[str, str]] = {
    "managedLedgerMaxUnackedRangesToPersist": _HOLES,
    "managedLedgerMaxBatchDeletedIndexToPersist": _HOLES,
    "managedLedgerMaxUnackedRangesToPersistInMetadataStore": _HOLES,
    "managedLedgerMaxUnackedRangesToPersistInZooKeeper": _HOLES,
    "dispatcherPauseOnAckStatePersistentEnabled": _HOLES,
    "managedLedgerDefaultMarkDeleteRateLimit": _ACKS,
    "managedLedgerCursorPositionFlushSeconds": _ACKS,
    "managedCursorInfoCompressionType": _DUMP,
    "managedCursorInfoCompressionThresholdInBytes": _DUMP,
    "managedLedgerInfoCompressionType": _ACK_FORM,
    "managedLedgerInfoCompressionThresholdInBytes": _ACK_FORM,
    "managedLedgerPersistIndividualAckAsLongArray": _ACK_FORM,
    "managedLedgerUnackedRangesOpenCacheSetEnabled": _ACK_FORM,
    "persistentUnackedRangesWithMultipleEntriesEnabled": _ACK_FORM,
    "managedLedgerCursorMaxEntriesPerLedger": _ACK_FORM,
    "managedLedgerCursorRolloverTimeInSeconds": _ACK_FORM,
    "lazyCursorRecovery": "all cursors are there as soon as the broker is",
    "managedLedgerForceRecovery": _DAMAGE,
    "schemaLedgerForceRecovery": _DAMAGE,
    "autoSkipNonRecoverableData": _DAMAGE,
    "managedLedgerMinLedgerRolloverTimeMinutes": "a ledger ends as soon as it is full or old",
    "managedLedgerInactiveLedgerRolloverTimeSeconds": "a ledger ends as soon as it is full or old",
    "managedLedgerInactiveOffloadedLedgerEvictionTimeSeconds": _OFFLOAD,
    "managedLedgerDataReadPriority": _OFFLOAD,
    "triggerOffloadOnTopicLoad": _OFFLOAD,
    "offloadersDirectory": _OFFLOAD,
    "managedLedgerDefaultEnsembleSize": _BOOKIES,
    "managedLedgerDefaultWriteQuorum": _BOOKIES,
    "managedLedgerDefaultAckQuorum": _BOOKIES,
    "managedLedgerMaxEnsembleSize": _BOOKIES,
    "managedLedgerMaxWriteQuorum": _BOOKIES,
    "managedLedgerMaxAckQuorum": _BOOKIES,
    "managedLedgerDigestType": _BOOKIES,
    "managedLedgerPassword": _BOOKIES,
    "managedLedgerStorageClassName": _BOOKIES,
    "managedLedgerAddEntryTimeoutSeconds": _BOOKIES,
    "managedLedgerReadEntryTimeoutSeconds": _BOOKIES,
    "managedLedgerMetadataOperationsTimeoutSeconds": _BOOKIES,
    "managedLedgerDeleteMaxConcurrentRequests": _BOOKIES,
    "managedLedgerCursorResetLedgerCloseTimestampMaxClockSkewMillis": _BOOKIES,
    "strictBookieAffinityEnabled": _BOOKIES,
    "enableRunBookieTogether": _BOOKIES,
    "enableRunBookieAutoRecoveryTogether": _BOOKIES,
    "globalZookeeperServers": _BOOKIES,
    "ledgerStorageClass": _BOOKIES,
    "allowLoopback": _BOOKIES,
    "flushInterval": _BOOKIES,
    "gcWaitTime": _BOOKIES,
    "nettyMaxFrameSizeBytes": "message_size_max bounds the frames",
    "diskUsageThreshold": "publishes are refused when less than watermark_bytes is free",
    "diskUsageWarnThreshold": "publishes are refused when less than watermark_bytes is free",
    "managedLedgerContinueCachingAddedEntriesAfterLastActiveCursorLeavesMillis": _CACHE,
    "managedLedgerCursorBackloggedThreshold": _CACHE,
    "managedLedgerMinimumBacklogCursorsForCaching": _CACHE,
    "managedLedgerMinimumBacklogEntriesForCaching": _CACHE,
    "managedLedgerMaxBacklogBetweenCursorsForCaching": _CACHE,
    "managedLedgerMaxReadsInFlightSizeInMB": _CACHE,
    "managedLedgerMaxReadsInFlightPermitsAcquireQueueSize": _CACHE,
    "managedLedgerMaxReadsInFlightPermitsAcquireTimeoutMillis": _CACHE,
    "managedLedgerNewEntriesCheckDelayInMillis": "dispatch goes on by events, not by timers",
    "managedLedgerStatsPeriodSeconds": _METRICS,
    "managedLedgerPrometheusStatsLatencyRolloverSeconds": _METRICS,
    "managedLedgerTraceTaskExecution": _METRICS,
    "managedLedgerNumSchedulerThreads": _THREADS,
    "numAcceptorThreads": _THREADS,
    "numIOThreads": _THREADS,
    "numOrderedExecutorThreads": _THREADS,
    "numHttpServerThreads": _THREADS,
    "numExecutorThreadPoolSize": _THREADS,
    "numCacheExecutorThreadPoolSize": _THREADS,
    "numWorkerThreadsForNonPersistentTopic": _THREADS,
    "numTransactionReplayThreadPoolSize": _THREADS,
    "topicOrderedExecutorThreadNum": _THREADS,
    "useSeparateThreadPoolForProtocolHandlers": _THREADS,
    "dispatcherDispatchMessagesInSubscriptionThread": _THREADS,
    "enableBusyWait": _THREADS,
    "bindAddress": _ADDRESS,
    "bindAddresses": _ADDRESS,
    "advertisedListeners": _ADDRESS,
    "internalListenerName": _ADDRESS,
    "haProxyProtocolEnabled": _PROXY,
    "proxyRoles": _PROXY,
    "basicAuthConf": _PROOFS,
    "strictAuthMethod": _PROOFS,
    "kinitCommand": _PROOFS,
    "inflightSaslContextExpiryMs": _PROOFS,
    "maxInflightSaslContext": _PROOFS,
    "jsseProvider": _TLS,
    "allowAclChangesOnNonExistentTopics": "permissions may name topics that are not there yet",
    "isRunningStandalone": _CLUSTER,
    "failureDomainsEnabled": _CLUSTER,
    "enableNamespaceIsolationUpdateOnTime": _CLUSTER,
    "enableReplicatedSubscriptions": _CLUSTER,
    "createTopicToRemoteClusterForReplication": _CLUSTER,
    "brokerReplicationInactiveThresholdSeconds": _CLUSTER,
    "defaultNumberOfNamespaceBundles": _CLUSTER,
    "defaultNamespaceBundleSplitAlgorithm": _CLUSTER,
    "supportedNamespaceBundleSplitAlgorithms": _CLUSTER,
    "topicBundleAssignmentStrategy": _CLUSTER,
    "namespaceBundleUnloadingTimeoutMs": _CLUSTER,
    "lowerBoundarySheddingEnabled": _CLUSTER,
    "maxUnloadBundleNumPerShedding": _CLUSTER,
    "maxUnloadPercentage": _CLUSTER,
    "minUnloadMessage": _CLUSTER,
    "minUnloadMessageThroughput": _CLUSTER,
    "flowOrQpsDifferenceThresholdPercentage": _CLUSTER,
    "lookupPropertyPrefix": _CLUSTER,
    "pulsarResourcesExtendedClassName": _PLUGINS,
    "topicFactoryClassName": _PLUGINS,
    "compactionServiceFactoryClassName": _PLUGINS,
    "topicPoliciesServiceClassName": _PLUGINS,
    "additionalServlets": _PLUGINS,
    "additionalServletDirectory": _PLUGINS,
    "disableBrokerInterceptors": _PLUGINS,
    "brokerEntryMetadataInterceptors": _PLUGINS,
    "brokerEntryPayloadProcessors": _PLUGINS,
    "entryFilterNames": _PLUGINS,
    "entryFiltersDirectory": _PLUGINS,
    "allowOverrideEntryFilters": _PLUGINS,
    "dispatcherEntryFilterRescheduledMessageDelay": _PLUGINS,
    "messagingProtocols": _PLUGINS,
    "protocolHandlerDirectory": _PLUGINS,
    "narExtractionDirectory": _PLUGINS,
    "schemaRegistryStorageClassName": _PLUGINS,
    "schemaRegistryCompatibilityCheckers": _PLUGINS,
    "schemaJsonAllowLegacyJacksonFormat": "JSON schemas are Avro's",
    "isAllowAutoUpdateSchemaEnabled": "a producer may always bring a compatible schema",
    "systemTopicSchemaCompatibilityStrategy": "policies are not kept in topics",
    "systemTopicEnabled": "policies are not kept in topics",
    "topicLevelPoliciesEnabled": "policies of topics are always there",
    "topicPoliciesCacheInitTimeoutSeconds": "policies are not kept in topics",
    "topicPolicyListenerReplayEnabled": "policies are not kept in topics",
    "topicCompactionRetainNullKey": "topics are not compacted",
    "additionalSystemCursorNames": "there are no cursors of the system's own",
    "isDelayedDeliveryDeliverAtTimeStrict": _DELAYED,
    "exposingBrokerEntryMetadataToClientEnabled": "entries carry no metadata of the broker's own",
    "maxPublishRatePerTopicInMessages": _RATES,
    "maxPublishRatePerTopicInBytes": _RATES,
    "brokerPublisherThrottlingTickTimeMillis": _RATES,
    "brokerPublisherThrottlingMaxMessageRate": _RATES,
    "brokerPublisherThrottlingMaxByteRate": _RATES,
    "topicPublisherThrottlingTickTimeMillis": _RATES,
    "subscribeThrottlingRatePerConsumer": _RATES,
    "subscribeRatePeriodPerConsumerInSecond": _RATES,
    "maxConcurrentLookupRequest": _PROTOCOL,
    "maxConcurrentTopicLoadRequest": _PROTOCOL,
    "topicLoadTimeoutSeconds": _PROTOCOL,
    "maxConcurrentNonPersistentMessagePerConnection": _PROTOCOL,
    "maxConsumerMetadataSize": _PROTOCOL,
    "maxTenants": _PROTOCOL,
    "maxNamespacesPerTenant": _PROTOCOL,
    "maxSameAddressProducersPerTopic": _PROTOCOL,
    "maxSameAddressConsumersPerTopic": _PROTOCOL,
    "maxUnackedMessagesPerBroker": "unacked messages are bounded per consumer and subscription",
    "maxUnackedMessagesPerSubscriptionOnBrokerBlocked": "unacked messages are bounded per "
    "consumer and subscription",
    "maxActiveTransactionsPerCoordinator": _TRANSACTIONS,
    "maxHttpServerConnections": _HTTP,
    "maxConcurrentHttpRequests": _HTTP,
    "disableHttpDebugMethods": _HTTP,
    "statusFilePath": _HTTP,
    "connectionLivenessCheckTimeoutMillis": "keep_alive_ms says when a silent peer is given up",
    "clientLibraryVersionCheckEnabled": "clients of every version are welcome",
    "preferLaterVersions": _CLUSTER,
    "brokerShutdownTimeoutMs": "the broker stops within seconds, whatever it has to do",
    "skipBrokerShutdownOnOOM": "memory is bounded by the limits on what is under way",
    "bootstrapNamespaces": "namespaces are created by the admin REST",
    "forceDeleteTenantAllowed": "what is deleted is the caller's to say",
    "forceDeleteNamespaceAllowed": "what is deleted is the caller's to say",
    "backlogQuotaCheckEnabled": "quotas that are set are always checked",
    "preciseTimeBasedBacklogQuotaCheck": "quotas by age are checked in one way only",
    "retentionCheckIntervalInSeconds": "retention needs no interval to tune",
    "strictlyVerifySubscriptionName": "names of subscriptions are free",
    "strictTopicNameEnabled": "names of topics are checked as Pulsar does by default",
    "topicNameCacheMaxCapacity": "names need no cache to tune",
    "maxSecondsToClearTopicNameCache": "names need no cache to tune",
    "topicFencingTimeoutSeconds": "a topic is never left fenced",
    "topicsPatternRegexImplementation": "patterns are matched in one way only",
    "brokerDeleteInactivePartitionedTopicMetadataEnabled": "a partitioned topic stays until "
    "somebody deletes it",
    "brokerDeduplicationSnapshotFrequencyInSeconds": "snapshots are taken by entries, "
    "deduplication_snapshot_entries",
    "brokerDeduplicationSnapshotIntervalSeconds": "snapshots are taken by entries, "
    "deduplication_snapshot_entries",
    "brokerDeduplicationProducerInactivityTimeoutMinutes": "the producers remembered are bounded "
    "by deduplication_max_producers",
    "subscriptionExpirationTimeMinutes": "subscriptions stay until somebody deletes them",
    "subscriptionExpiryCheckIntervalInMinutes": "subscriptions stay until somebody deletes them",
    "subscriptionRedeliveryTrackerEnabled": "redeliveries are always counted",
    "subscriptionBacklogScanMaxTimeMs": "counts of a backlog are exact and need no scan",
    "subscriptionBacklogScanMaxEntries": "counts of a backlog are exact and need no scan",
    "subscriptionKeySharedUseClassicPersistentImplementation": "there is one dispatcher per type",
    "subscriptionSharedUseClassicPersistentImplementation": "there is one dispatcher per type",
    "keySharedUnblockingIntervalMs": "dispatch goes on by events, not by timers",
    "unblockStuckSubscriptionEnabled": "dispatch goes on by events, not by timers",
    "activeConsumerFailoverConsistentHashing": "the active consumer goes by partition, and by "
    "hash where there is none",
    "preciseDispatcherFlowControl": "permits are always exact",
    "dispatcherMinReadBatchSize": "a read takes what the permits allow",
    "aggregatePublisherStatsByProducerName": _METRICS,
    "allowedTopicPropertyKeysForMetrics": _METRICS,
    "healthCheckMetricsUpdateTimeInSeconds": _METRICS,
    "jvmGCMetricsLoggerClassName": _METRICS,
    "splitTopicAndPartitionLabelInPrometheus": _METRICS,
    "statsUpdateFrequencyInSecs": _METRICS,
    "statsUpdateInitialDelayInSecs": _METRICS,
    "enablePackagesManagement": "packages are not kept here",
    "brokerServicePurgeInactiveFrequencyInSeconds": _REPLACED,
    "subscriptionKeySharedEnable": _REPLACED,
}


@final
class BrokerConf:
    """What a `broker.conf` said: values by setting, options, one notice per reason passed over."""

    def __init__(
        self, values: dict[str, Value], options: dict[str, str], notices: list[str]
    ) -> None:
        self.values: Final = values
        self.options: Final = options
        self.notices: Final = notices


def read_broker_conf(text: str) -> BrokerConf:
    """Read the text of a `broker.conf`; raises SettingsError for the first thing wrong."""
    lines: dict[str, _Line] = {}
    for line in _lines(text):
        _check_known(line)
        lines[line.key] = line
    given = [line for line in lines.values() if line.value]
    options = {OPTIONS[line.key]: _option(line) for line in given if line.key in OPTIONS}
    return BrokerConf(_values(given), options, _notices(given))


@final
class _Line:
    """One key and its value, and the number of the line that they begin in."""

    def __init__(self, number: int, key: str, value: str) -> None:
        self.number: Final = number
        self.key: Final = key
        self.value: Final = value

    def error(self, reason: str) -> SettingsError:
        return SettingsError(self.key, f"{self.value!r} in line {self.number} {reason}")


# ---- Meaning ---------------------------------------------------------------------------


def _check_known(line: _Line) -> None:
    """The value of an unknown key may be a secret, and stays out of the error."""
    known = [*HONOURED, *OPTIONS, *REFUSED, *WITHOUT_EFFECT]
    if line.key in known or _reason(line.key):
        return
    meant = get_close_matches(line.key, known, n=1, cutoff=0.8)
    advice = f"did you mean {meant[0]}?" if meant else "remove the line"
    raise SettingsError(
        line.key, f"line {line.number} has a key that Apache Pulsar does not have: {advice}"
    )


def _reason(key: str) -> str:
    """Why a key has no effect; empty if nobody knows it."""
    reason = WITHOUT_EFFECT.get(key, "")
    if reason:
        return reason
    for beginning, shared in FAMILIES:
        if key.startswith(beginning):
            return shared
    return ""


def _notices(lines: list[_Line]) -> list[str]:
    """One sentence per reason, with all the keys that it holds for."""
    keys: dict[str, list[str]] = {}
    for line in lines:
        if line.key in REFUSED:
            _check_off(line)
        elif line.key not in HONOURED and line.key not in OPTIONS:
            keys.setdefault(_reason(line.key), []).append(line.key)
    return [f"without effect, since {why}: {', '.join(keys[why])}" for why in keys]


def _option(line: _Line) -> str:
    if OPTIONS[line.key] != "advertised_host" and not 0 <= _number(line) <= 65535:
        raise line.error("is no port: give 0 to 65535")
    return line.value


def _check_off(line: _Line) -> None:
    if _bool(line):
        raise line.error(f"cannot be had in this version: {REFUSED[line.key]}; set it to false")


def _values(lines: list[_Line]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    by_key: dict[str, Value] = {}
    for line in lines:
        if line.key in HONOURED:
            attribute, factor = HONOURED[line.key]
            by_key[line.key] = _value(line, SETTINGS[attribute], factor)
            values[attribute] = by_key[line.key]
    _settle(values, by_key)
    return values


def _settle(values: dict[str, Value], by_key: dict[str, Value]) -> None:
    """Where two keys speak of one setting, or one key has a meaning of its own."""
    values.pop("auto_create_partitions", None)
    kind = by_key.get("allowAutoTopicCreationType")
    if kind is not None:
        count = by_key.get("defaultNumPartitions", 1)
        values["auto_create_partitions"] = count if kind == "partitioned" else 0

    gigabytes = by_key.get("backlogQuotaDefaultLimitGB", -1)
    if "backlogQuotaDefaultLimitBytes" in by_key and gigabytes == -1:
        values["backlog_quota_bytes"] = by_key["backlogQuotaDefaultLimitBytes"]
    elif gigabytes != -1:
        values["backlog_quota_bytes"] = gigabytes

    duration = by_key.get("brokerDeleteInactiveTopicsMaxInactiveDurationSeconds")
    if duration is not None:
        values["inactive_topic_ms"] = duration

    if by_key.get("enableBrokerSideSubscriptionPatternEvaluation") is False:
        values["topic_watchers"] = False

    if by_key.get("authorizationEnabled") is True and not by_key.get("authenticationEnabled"):
        raise SettingsError(
            "authorizationEnabled",
            "nobody would have to say who they are: set authenticationEnabled too",
        )


def _value(line: _Line, setting: Setting, factor: int) -> Value:
    value: Value
    if line.key == "allowAutoTopicCreationType":
        return _topic_type(line)
    if line.key == "backlogQuotaDefaultLimitGB":
        value = _gigabytes(line, factor)
    elif setting.kind == BOOL:
        value = _bool(line)
    elif setting.kind == TEXT:
        value = line.value
    elif setting.kind == NAMES:
        value = tuple([name for name in _split(line.value) if name])
    else:
        value = _number(line) * factor
    if line.key == "maxMessagePublishBufferSizeInMB" and isinstance(value, int) and value <= 0:
        return COUNT_MAX  # Pulsar's "no limit"
    if line.key == "defaultNumPartitions" and value == 0:
        raise line.error("is too little: give 1 or more")
    try:
        setting.check(value)
    except SettingsError as error:
        raise line.error(f"cannot be {setting.name}: {error.reason}") from None
    return value


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _bool(line: _Line) -> bool:
    word = line.value.lower()
    if word not in ("true", "false"):
        raise line.error("is neither true nor false: give one of them")
    return word == "true"


def _number(line: _Line) -> int:
    try:
        return int(line.value)
    except ValueError:
        raise line.error("is not a whole number: give one") from None


def _gigabytes(line: _Line, factor: int) -> int:
    """May be a fraction; what is not more than 0 is as if it were not there."""
    try:
        size = float(line.value) * factor
    except ValueError:
        raise line.error("is not a number: give one") from None
    if not size < COUNT_MAX:
        raise line.error("is too much: give less")
    return int(size) if size > 0 else -1


def _topic_type(line: _Line) -> str:
    if line.value not in ("partitioned", "non-partitioned"):
        raise line.error("is no type of topics: give partitioned or non-partitioned")
    return line.value


# ---- Java's properties format ----------------------------------------------------------

_SPACE: Final = " \t\f"
_ESCAPES: Final[dict[str, str]] = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _lines(text: str) -> list[_Line]:
    out: list[_Line] = []
    first = 0
    joined = ""
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_SPACE)
        if not joined:
            first = number
            if not line or line[0] in "#!":
                continue
        if _goes_on(line):
            joined += line[:-1]
            continue
        out.append(_line(first, joined + line))
        joined = ""
    if joined:
        out.append(_line(first, joined))
    return out


def _goes_on(line: str) -> bool:
    """Whether the line ends in a backslash that is not itself escaped."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _line(number: int, text: str) -> _Line:
    """The key ends at the first `=`, `:` or space that is not escaped."""
    end = 0
    while end < len(text) and text[end] not in "=:" + _SPACE:
        end += 2 if text[end] == "\\" else 1
    key = _unescaped(number, text[:end])
    value = text[end:].lstrip(_SPACE)
    if value[:1] in ("=", ":"):
        value = value[1:]
    return _Line(number, key, _unescaped(number, value.strip()))


def _unescaped(number: int, text: str) -> str:
    out = ""
    at = 0
    while at < len(text):
        if text[at] != "\\":
            out += text[at]
            at += 1
        elif text[at + 1 : at + 2] == "u":
            out += _character(number, text[at + 2 : at + 6])
            at += 6
        else:
            escaped = text[at + 1 : at + 2]
            out += _ESCAPES.get(escaped, escaped)
            at += 2
    return out


def _character(number: int, digits: str) -> str:
    try:
        if len(digits) == 4:
            return chr(int(digits, 16))
    except ValueError:
        pass
    raise SettingsError(
        "broker.conf", f"line {number} has '\\u{digits}': give four hexadecimal digits"
    )
