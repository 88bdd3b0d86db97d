"""Settings of what topics keep: retention, time to live, and quotas of backlogs."""

from dataclasses import dataclass, field
from typing import Final

from mypy_extensions import trait

from magnetar.broker.setting.setting import (
    BOOL,
    BYTES,
    MEBIBYTES,
    MINUTE_MS,
    MINUTES,
    MS,
    SECOND_MS,
    SECONDS,
    TEXT,
    says,
)

__all__ = ["BACKLOG_POLICIES", "EVICT_BACKLOG", "HOLD_PRODUCERS", "RetentionSettings"]

HOLD_PRODUCERS: Final = "producer_request_hold"
EVICT_BACKLOG: Final = "consumer_backlog_eviction"
BACKLOG_POLICIES: Final = (HOLD_PRODUCERS, "producer_exception", EVICT_BACKLOG)


@trait
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RetentionSettings:
    """Part of `BrokerSettings`; in the manual under "What topics keep"."""

    retention_minutes: int = field(
        default=0,
        metadata=says(
            MINUTES,
            "how long acked messages stay; -1 without limit",
            low=-1,
            conf={"defaultRetentionTimeInMinutes": 1},
        ),
    )
    retention_mb: int = field(
        default=0,
        metadata=says(
            MEBIBYTES,
            "how much of the acked messages stays; -1 without limit. If either of the "
            "two is 0, nothing stays",
            low=-1,
            conf={"defaultRetentionSizeInMB": 1},
        ),
    )
    ttl_seconds: int = field(
        default=0,
        metadata=says(
            SECONDS,
            "when a message that is not acked is taken for acked; 0 for never",
            conf={"ttlDurationDefaultInSeconds": 1},
        ),
    )
    ttl_check_ms: int = field(
        default=300_000,
        metadata=says(
            MS,
            "how often topics are searched for messages that have lived too long",
            low=1,
            conf={"messageExpiryCheckIntervalInMinutes": MINUTE_MS},
        ),
    )
    # Nobody knows what was lost, so somebody should say that it may go.
    skip_damaged: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "whether subscriptions pass over entries that the disk has damaged, or stop there",
            conf={"autoSkipNonRecoverableData": 1},
        ),
    )
    backlog_quota_bytes: int = field(
        default=-1,
        metadata=says(
            BYTES,
            "how much of a topic may be unacked; -1 without limit",
            low=-1,
            conf={
                "backlogQuotaDefaultLimitBytes": 1,
                # The old name; more than 0 of it counts before the new one.
                "backlogQuotaDefaultLimitGB": 1 << 30,
            },
        ),
    )
    backlog_quota_seconds: int = field(
        default=-1,
        metadata=says(
            SECONDS,
            "how old the oldest unacked message may be; -1 without limit",
            low=-1,
            conf={"backlogQuotaDefaultLimitSecond": 1},
        ),
    )
    backlog_quota_policy: str = field(
        default=HOLD_PRODUCERS,
        metadata=says(
            TEXT,
            "beyond a quota: `producer_request_hold`, `producer_exception` or "
            "`consumer_backlog_eviction`",
            choices=BACKLOG_POLICIES,
            conf={"backlogQuotaDefaultRetentionPolicy": 1},
        ),
    )
    backlog_quota_check_ms: int = field(
        default=60_000,
        metadata=says(
            MS,
            "how often quotas are checked",
            low=1,
            conf={"backlogQuotaCheckIntervalInSeconds": SECOND_MS},
        ),
    )
