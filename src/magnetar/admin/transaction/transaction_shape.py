"""The shapes of what is told of transactions, under Pulsar's names."""

from typing import Final

from magnetar.admin.http.shape import (
    FLAG,
    NULL,
    TEXT,
    WHOLE,
    Json,
    each,
    either,
    list_of,
    map_of,
    one_of,
    record,
)

__all__ = [
    "BUFFER_STATS",
    "COORDINATORS",
    "COORDINATOR_STATS",
    "IN_BUFFER",
    "IN_PENDING_ACK",
    "METADATA",
    "PENDING_ACK_STATS",
    "POSITION_STATE",
    "SLOW",
]

COORDINATORS: Final[Json] = list_of(record(id=WHOLE, brokerServiceUrl=TEXT))
_COORDINATOR: Final[Json] = record(
    **each(WHOLE, "leastSigBits", "lowWaterMark", "ongoingTxnSize"),
    **each(WHOLE, "recoverStartTime", "recoverEndTime"),
    state=one_of("Ready"),
)
# Of one coordinator, or of each by its number.
COORDINATOR_STATS: Final[Json] = either(_COORDINATOR, map_of(_COORDINATOR))
IN_BUFFER: Final[Json] = record(startPosition=either(TEXT, NULL), aborted=FLAG)
IN_PENDING_ACK: Final[Json] = record(cumulativeAckPosition=either(TEXT, NULL))
METADATA: Final[Json] = record(
    **each(TEXT, "txnId", "owner"),
    **each(WHOLE, "openTimestamp", "timeoutAt", "endTimestamp", "entries", "acks"),
    status=one_of("OPEN", "COMMITTING", "COMMITTED", "ABORTING", "ABORTED"),
    producedPartitions=map_of(IN_BUFFER),
    ackedPartitions=map_of(map_of(IN_PENDING_ACK)),
)
SLOW: Final[Json] = map_of(METADATA)
BUFFER_STATS: Final[Json] = record(
    ("lowWaterMarks",),
    **each(WHOLE, "lastSnapshotTimestamps", "ongoingTxnSize", "totalAbortedTransactions"),
    **each(WHOLE, "recoverStartTime", "recoverEndTime"),
    state=one_of("Ready"),
    maxReadPosition=TEXT,
    lowWaterMarks=map_of(WHOLE),
)
PENDING_ACK_STATS: Final[Json] = record(
    ("lowWaterMarks",),
    **each(WHOLE, "ongoingTxnSize", "recoverStartTime", "recoverEndTime"),
    state=one_of("None", "Ready"),
    lowWaterMarks=map_of(WHOLE),
)
POSITION_STATE: Final[Json] = record(
    state=one_of("PendingAck", "MarkDelete", "NotInPendingAck", "InvalidPosition")
)
ABORTED_ENTRIES: Final[Json] = record(aborted=WHOLE)
