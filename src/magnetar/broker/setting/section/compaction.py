"""Settings of compaction: when it begins, and what it keeps."""

from dataclasses import dataclass, field

from mypy_extensions import trait

from magnetar.broker.setting.setting import BOOL, BYTES, COUNT, MS, SECOND_MS, says

__all__ = ["CompactionSettings"]


@trait
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CompactionSettings:
    """Part of `BrokerSettings`; in the manual under "Compaction"."""

    compaction_threshold_bytes: int = field(
        default=0,
        metadata=says(
            BYTES,
            "after how many published bytes a topic is compacted again; 0 for never",
            conf={"brokerServiceCompactionThresholdInBytes": 1},
        ),
    )
    compaction_check_ms: int = field(
        default=60_000,
        metadata=says(
            MS,
            "how often topics are searched for those that are to be compacted",
            low=1,
            conf={"brokerServiceCompactionMonitorIntervalInSeconds": SECOND_MS},
        ),
    )
    compaction_retain_null_key: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "whether compacted views keep messages without a key",
            conf={"topicCompactionRetainNullKey": 1},
        ),
    )
    # A gigabyte. Apache Pulsar has no limit, and keeps whole keys.
    max_compaction_keys: int = field(
        default=8_000_000,
        metadata=says(
            COUNT,
            "keys of one topic; one with more is not compacted, for each takes 120 bytes of memory "
            "meanwhile",
            low=1,
        ),
    )
