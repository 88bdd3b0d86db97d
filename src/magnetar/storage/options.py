"""What a store can be told, with the reasons for what it does untold."""

from typing import Final, final

__all__ = ["ALWAYS", "INTERVAL", "NEVER", "StoreOptions"]

# When a receipt may go out: after the group's fsync; after the write, with an fsync every
# so often; after the write, with fsyncs only where a segment is closed.
ALWAYS: Final = "always"
INTERVAL: Final = "interval"
NEVER: Final = "never"

MIB: Final = 1 << 20


@final
class StoreOptions:
    """Limits and modes of a store."""

    def __init__(
        self,
        *,
        fsync: str = ALWAYS,
        # What a power cut may cost in `interval` mode. Redis and Kafka users know one second.
        fsync_interval_ms: int = 1000,
        # Large enough that closing one is rare, small enough that rewriting one is cheap.
        segment_bytes: int = 64 * MIB,
        # One group is one fsync; beyond this size the fsync no longer dominates.
        group_bytes_max: int = 4 * MIB,
        # What a group was about is dealt with at once when it is durable: five milliseconds.
        group_records_max: int = 2000,
        # Pulsar's default, and the unit in which trimming frees space.
        ledger_entries_max: int = 50_000,
        ledger_bytes_max: int = 512 * MIB,
        # Pulsar's default. A quiet topic's ledger must end some day to let its segment go.
        ledger_age_ms_max: int = 240 * 60 * 1000,
        cache_bytes: int = 64 * MIB,
        # Below this much free space publishes are refused.
        watermark_bytes: int = 256 * MIB,
        # Segments set aside for acks, skips, snapshots and trims on a full disk. One takes
        # about a million acks; the second one lets a snapshot begin while the first ends.
        reserve_segments: int = 2,
        # A segment with less than this share of live bytes is rewritten.
        live_share_min: float = 0.5,
        # Entries of a ledger that lie in shorter runs than this are copied together; 0 never
        # does. Reading a run of this length takes twice as long as the call itself.
        gather_run_bytes: int = 16 * 1024,
    ) -> None:
        assert fsync in (ALWAYS, INTERVAL, NEVER)
        self.fsync: Final = fsync
        self.fsync_interval_ms: Final = fsync_interval_ms
        self.segment_bytes: Final = segment_bytes
        self.group_bytes_max: Final = group_bytes_max
        self.group_records_max: Final = group_records_max
        self.ledger_entries_max: Final = ledger_entries_max
        self.ledger_bytes_max: Final = ledger_bytes_max
        self.ledger_age_ms_max: Final = ledger_age_ms_max
        self.cache_bytes: Final = cache_bytes
        self.watermark_bytes: Final = watermark_bytes
        self.reserve_segments: Final = reserve_segments
        self.live_share_min: Final = live_share_min
        self.gather_run_bytes: Final = gather_run_bytes
