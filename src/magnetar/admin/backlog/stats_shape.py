"""The shapes of what stats and backlogs answer; a test finds a field that is missing."""

from typing import Final

from magnetar.admin.http.shape import (
    AMOUNT,
    FLAG,
    NULL,
    TEXT,
    TEXT_MAP,
    TEXTS,
    WHOLE,
    Json,
    each,
    either,
    list_of,
    map_of,
    one_of,
    record,
)
from magnetar.model.subscription_type import TYPE_NAMES

__all__ = [
    "ANALYSIS",
    "COUNTED_STATS",
    "INTERNAL_INFO",
    "INTERNAL_STATS",
    "OFFLINE_BACKLOG",
    "PARTITIONED_INTERNAL_STATS",
    "PARTITIONED_STATS",
    "SKIPPED",
    "TOPIC_STATS",
]

# ---- Stats -----------------------------------------------------------------------------

_PUBLISHER: Final[Json] = record(
    **each(AMOUNT, "msgRateIn", "msgThroughputIn", "averageMsgSize", "chunkedMessageRate"),
    **each(TEXT, "accessMode", "producerName", "address", "connectedSince", "clientVersion"),
    producerId=WHOLE,
    metadata=TEXT_MAP,
    supportsPartialProducer=FLAG,
)
_DRAINING: Final[Json] = record(**each(WHOLE, "hash", "unackMsgs", "blockedAttempts"))
_CONSUMER: Final[Json] = record(
    ("keyHashRangeArrays",),
    **each(AMOUNT, "msgRateOut", "msgThroughputOut", "msgRateRedeliver", "messageAckRate"),
    **each(AMOUNT, "chunkedMessageRate"),
    **each(WHOLE, "availablePermits", "unackedMessages", "avgMessagesPerEntry", "msgOutCounter"),
    **each(WHOLE, "bytesOutCounter", "lastAckedTimestamp", "lastConsumedTimestamp"),
    **each(WHOLE, "lastConsumedFlowTimestamp", "firstMessagesSentTimestamp"),
    **each(WHOLE, "firstConsumedFlowTimestamp", "drainingHashesCount"),
    **each(WHOLE, "drainingHashesClearedTotal", "drainingHashesUnackedMessages"),
    **each(TEXT, "consumerName", "lastAckedTime", "lastConsumedTime", "address"),
    **each(TEXT, "connectedSince", "clientVersion"),
    blockedConsumerOnUnackedMsgs=FLAG,
    drainingHashes=list_of(_DRAINING),
    keyHashRangeArrays=list_of(list_of(WHOLE)),
    metadata=TEXT_MAP,
)
_THROTTLED: Final = [
    f"dispatchThrottled{what}EventsBy{who}Limit"
    for who in ("Subscription", "Topic", "Broker", "ResourceGroup")
    for what in ("Msg", "Bytes")
]
_SUBSCRIPTION: Final[Json] = record(
    ("activeConsumerName", "keySharedMode", "msgDropCounter", "msgDropRate"),
    **each(FLAG, "isReplicated", "replicated", "isDurable", "durable", "allowOutOfOrderDelivery"),
    **each(FLAG, "blockedSubscriptionOnUnackedMsgs"),
    **each(WHOLE, "drainingHashesCount", "drainingHashesClearedTotal"),
    **each(WHOLE, "drainingHashesUnackedMessages", "filterProcessedMsgCount"),
    **each(WHOLE, "filterAcceptedMsgCount", "filterRejectedMsgCount", "filterRescheduledMsgCount"),
    **each(WHOLE, "nonContiguousDeletedMessagesRanges", "msgBacklog", "msgBacklogMessages"),
    **each(WHOLE, "nonContiguousDeletedMessagesRangesSerializedSize", "msgBacklogNoDelayed"),
    **each(WHOLE, "msgDelayed", "partiallyAckedBatches", "backlogSize", "unackedMessages"),
    **each(WHOLE, "earliestMsgPublishTimeInBacklog", "bytesOutCounter", "msgOutCounter"),
    **each(
        WHOLE, "msgExpired", "totalMsgExpired", "lastExpireTimestamp", "lastConsumedFlowTimestamp"
    ),
    **each(WHOLE, "lastConsumedTimestamp", "lastAckedTimestamp"),
    **each(WHOLE, "lastMarkDeleteAdvancedTimestamp", "msgInReplay", "msgDropCounter"),
    **each(WHOLE, "delayedMessageIndexSizeInBytes", "damagedEntriesSkipped"),
    **each(WHOLE, *_THROTTLED),
    **each(AMOUNT, "msgRateOut", "msgThroughputOut", "msgRateRedeliver", "messageAckRate"),
    **each(AMOUNT, "chunkedMessageRate", "msgRateExpired", "msgDropRate"),
    **each(TEXT, "damagedPosition", "damagedReason", "activeConsumerName"),
    type=one_of(*TYPE_NAMES, "None"),
    keySharedMode=one_of("AUTO_SPLIT", "STICKY"),
    consumersAfterMarkDeletePosition=TEXT_MAP,
    subscriptionProperties=TEXT_MAP,
    consumers=list_of(_CONSUMER),
)
_TOPIC: Final[dict[str, Json]] = {
    **each(AMOUNT, "msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut"),
    **each(AMOUNT, "averageMsgSize", "msgDropRate"),
    **each(WHOLE, "bytesInCounter", "msgInCounter", "bytesOutCounter", "msgOutCounter"),
    **each(WHOLE, "storageSize", "backlogSize", "offloadedStorageSize", "waitingPublishers"),
    **each(WHOLE, "nonContiguousDeletedMessagesRanges", "delayedMessageIndexSizeInBytes"),
    **each(WHOLE, "nonContiguousDeletedMessagesRangesSerializedSize"),
    **each(WHOLE, "topicCreationTimeStamp", "lastPublishTimeStamp"),
    **each(WHOLE, "systemTopicBytesInCounter", "bytesOutInternalCounter"),
    **each(WHOLE, "backlogQuotaLimitSize", "backlogQuotaLimitTime", "publishRateLimitedTimes"),
    **each(WHOLE, "oldestBacklogMessageAgeSeconds", "earliestMsgPublishTimeInBacklogs"),
    **each(WHOLE, "lastOffloadLedgerId", "lastOffloadSuccessTimeStamp"),
    **each(WHOLE, "lastOffloadFailureTimeStamp"),
    "oldestBacklogMessageSubscriptionName": TEXT,
    "compaction": record(
        **each(WHOLE, "lastCompactionRemovedEventCount", "lastCompactionSucceedTimestamp"),
        **each(WHOLE, "lastCompactionFailedTimestamp", "lastCompactionDurationTimeInMills"),
    ),
    **each(WHOLE, "ongoingTxnCount", "committedTxnCount", "abortedTxnCount"),
    "msgChunkPublished": FLAG,
    "publishers": list_of(_PUBLISHER),
    "subscriptions": map_of(_SUBSCRIPTION),
    "replication": TEXT_MAP,
    "deduplicationStatus": one_of("Disabled", "Enabled"),
    "topicEpoch": either(WHOLE, NULL),
    "ownerBroker": TEXT,
}
_NEED_NOT: Final = ("oldestBacklogMessageSubscriptionName", "msgDropRate")
TOPIC_STATS: Final[Json] = record(_NEED_NOT, **_TOPIC)
# As they are where all topics are told of.
COUNTED_STATS: Final[Json] = record(_NEED_NOT, **_TOPIC, producerCount=WHOLE)
_METADATA: Final[Json] = record(
    ("properties",), partitions=WHOLE, deleted=FLAG, properties=TEXT_MAP
)
PARTITIONED_STATS: Final[Json] = record(
    _NEED_NOT, **_TOPIC, metadata=_METADATA, partitions=map_of(TOPIC_STATS)
)

# ---- What is below ---------------------------------------------------------------------

_LEDGER: Final[Json] = record(
    **each(WHOLE, "ledgerId", "entries", "size"), **each(FLAG, "offloaded", "underReplicated")
)
_CURSOR: Final[Json] = record(
    **each(TEXT, "markDeletePosition", "readPosition", "individuallyDeletedMessages"),
    **each(TEXT, "lastLedgerSwitchTimestamp"),
    **each(FLAG, "waitingReadOp", "active", "subscriptionHavePendingRead"),
    **each(FLAG, "subscriptionHavePendingReplayRead"),
    **each(WHOLE, "pendingReadOps", "messagesConsumedCounter", "cursorLedger"),
    **each(WHOLE, "cursorLedgerLastEntry", "numberOfEntriesSinceFirstNotAckedMessage"),
    **each(WHOLE, "totalNonContiguousDeletedMessagesRange", "partiallyAckedBatches"),
    state=one_of("Open", "NoLedger"),
    properties=TEXT_MAP,
)
INTERNAL_STATS: Final[Json] = record(
    **each(WHOLE, "entriesAddedCounter", "numberOfEntries", "totalSize", "currentLedgerEntries"),
    **each(WHOLE, "currentLedgerSize", "waitingCursorsCount", "pendingAddEntriesCount"),
    **each(either(TEXT, NULL), "lastLedgerCreatedTimestamp", "lastLedgerCreationFailureTimestamp"),
    **each(TEXT, "lastConfirmedEntry", "maxReadPosition"),
    properties=TEXT_MAP,
    state=one_of("LedgerOpened", "Terminated"),
    ledgers=list_of(_LEDGER),
    cursors=map_of(_CURSOR),
    schemaLedgers=list_of(_LEDGER),
    compactedLedger=_LEDGER,
)
PARTITIONED_INTERNAL_STATS: Final[Json] = record(
    metadata=_METADATA, partitions=map_of(INTERNAL_STATS)
)
_CURSOR_INFO: Final[Json] = record(
    **each(WHOLE, "version", "cursorsLedgerId"),
    **each(TEXT, "creationDate", "modificationDate"),
    markDelete=record(**each(WHOLE, "ledgerId", "entryId")),
)
_INFO: Final[Json] = record(
    version=WHOLE,
    **each(TEXT, "creationDate", "modificationDate"),
    ledgers=list_of(
        record(**each(WHOLE, "ledgerId", "entries", "size", "timestamp"), isOffloaded=FLAG)
    ),
    cursors=map_of(_CURSOR_INFO),
)
INTERNAL_INFO: Final[Json] = either(_INFO, record(version=WHOLE, partitions=map_of(_INFO)))

# ---- Backlogs --------------------------------------------------------------------------

ANALYSIS: Final[Json] = record(
    **each(WHOLE, "entries", "messages", "markerMessages"),
    **each(WHOLE, "filterAcceptedEntries", "filterRejectedEntries", "filterRescheduledEntries"),
    **each(WHOLE, "filterAcceptedMessages", "filterRejectedMessages"),
    **each(WHOLE, "filterRescheduledMessages"),
    **each(either(TEXT, NULL), "firstMessageId", "lastMessageId"),
    aborted=FLAG,
)
OFFLINE_BACKLOG: Final[Json] = record(
    **each(WHOLE, "storageSize", "totalMessages", "messageBacklog", "statGeneratedAt"),
    **each(TEXT, "brokerName", "topicName"),
    dataLedgerDetails=list_of(record(**each(WHOLE, "ledgerId", "entries", "timestamp", "size"))),
    cursorDetails=map_of(record(**each(WHOLE, "cursorBacklog", "cursorLedgerId"))),
)
SKIPPED: Final[Json] = record(
    **each(WHOLE, "skipped", "unconfirmed"),
    messageIds=list_of(
        record(
            ("batchIndex", "takenBackFrom", "handedOutTo", "closed", "unconfirmed"),
            **each(WHOLE, "ledgerId", "entryId", "batchIndex"),
            **each(TEXTS, "takenBackFrom", "handedOutTo", "closed", "unconfirmed"),
            result=TEXT,
        )
    ),
)
