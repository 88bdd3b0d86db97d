"""Every key of Apache Pulsar 4's `broker.conf`, in one of these tables.

`HONOURED` says which setting of this broker a key is, as the settings declare it; `OPTIONS` which
option of `serve` it stands for, `WITHOUT_EFFECT` and `FAMILIES` say why a key has no effect, and
`REFUSED` names those that promise safety and would break the promise if they were passed over.
"""

from typing import Final

from magnetar.broker.setting.settings import SETTINGS

__all__ = ["FAMILIES", "FORMER", "HONOURED", "OPTIONS", "REFUSED", "WITHOUT_EFFECT"]

# Pulsar's key: our setting, and how many of our units are one of Pulsar's.
HONOURED: Final[dict[str, tuple[str, int]]] = {
    key: (name, factor)
    for name, setting in SETTINGS.items()
    for key, factor in setting.conf.items()
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
_RATES: Final = "what a rate allows comes evenly, and is limited in one way: there is no tick"
_REPLACED: Final = "Pulsar has given it up for another key, which is honoured or explained"
_PROOFS: Final = "clients show tokens, passwords or certificates, checked in one way each"
_PROXY: Final = "where a connection comes from is asked of the system alone"
_TLS: Final = "TLS is 1.2 or newer, with OpenSSL's choice of ciphers and files in PEM form"
_THREADS: Final = "one thread serves all peers, and one writes"
_TRANSACTIONS: Final = (
    "transactions are kept in the one journal, by one coordinator with limits of its own"
)

# Keys of older releases that Pulsar 4 does not have any more, and passes over, as files still say
# them: the one that the official Python client is tested with does.
FORMER: Final[dict[str, str]] = {
    "clientLibraryVersionCheckAllowUnversioned": "clients of every version are welcome",
}

# Keys without effect that share a beginning and a reason; the first that fits counts.
FAMILIES: Final[tuple[tuple[str, str], ...]] = (
    ("athenz", _PROOFS),
    ("authentication", _PROOFS),
    ("authorization", "roles are matched whole, and permissions kept in one way"),
    ("bookkeeper", _BOOKIES),
    ("brokerClient", _CLUSTER),
    ("brokerInterceptor", _PLUGINS),
    ("brokerServiceCompaction", "a compaction is done in small steps, and none has a time limit"),
    ("cacheEviction", _CACHE),
    ("clusterMigration", _CLUSTER),
    ("configurationMetadata", _BOOKIES),
    ("configurationStore", _BOOKIES),
    ("dbStorage_", _BOOKIES),
    ("delayedDelivery", _DELAYED),
    ("dispatchRateLimiter", _RATES),
    ("dispatchThrottlingRatePerReplicator", _CLUSTER),
    ("dispatchThrottlingForFilteredEntries", _PLUGINS),
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
    ("openID", "keys of issuers are fetched and kept in one way; there is no fallback"),
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
    ("webSocket", "WebSockets are clients of this broker, with limits of their own"),
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
    "haProxyProtocolEnabled": _PROXY,
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
    "systemTopicSchemaCompatibilityStrategy": "policies are not kept in topics",
    "systemTopicEnabled": "policies are not kept in topics",
    "topicLevelPoliciesEnabled": "policies of topics are always there",
    "topicPoliciesCacheInitTimeoutSeconds": "policies are not kept in topics",
    "topicPolicyListenerReplayEnabled": "policies are not kept in topics",
    "additionalSystemCursorNames": "there are no cursors of the system's own",
    "isDelayedDeliveryDeliverAtTimeStrict": _DELAYED,
    "exposingBrokerEntryMetadataToClientEnabled": "entries carry no metadata of the broker's own",
    "brokerPublisherThrottlingTickTimeMillis": _RATES,
    "topicPublisherThrottlingTickTimeMillis": _RATES,
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
    "subscriptionExpiryCheckIntervalInMinutes": "it is looked for them every ten seconds",
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
