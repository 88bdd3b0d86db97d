"""Settings of the store: when receipts go out, and how large files, ledgers and the cache are."""

from dataclasses import dataclass, field

from mypy_extensions import trait

from magnetar.broker.setting.setting import BYTES, COUNT, MIB, MINUTE_MS, MS, TEXT, says
from magnetar.storage.options import ALWAYS, INTERVAL, NEVER, StoreOptions

__all__ = ["StorageSettings"]


@trait
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StorageSettings:
    """Part of `BrokerSettings`; in the manual under "Storage"."""

    fsync: str = field(
        default=ALWAYS,
        metadata=says(
            TEXT,
            "when receipts go out: after the disk has it (`always`), after the "
            "write with an fsync every so often (`interval`), or after the write "
            "(`never`)",
            choices=(ALWAYS, INTERVAL, NEVER),
        ),
    )
    fsync_interval_ms: int = field(
        default=1000,
        metadata=says(
            MS,
            "how often the disk is synced in the mode `interval`: what a power cut may cost",
            low=1,
        ),
    )
    cache_bytes: int = field(
        default=64 * MIB,
        metadata=says(
            BYTES,
            "entries kept in memory for the next reader",
            conf={"managedLedgerCacheSizeMB": MIB},
        ),
    )
    segment_bytes: int = field(
        default=64 * MIB, metadata=says(BYTES, "the size of one file of the log", low=MIB)
    )
    ledger_entries_max: int = field(
        default=50_000,
        metadata=says(
            COUNT,
            "a ledger ends at so many entries",
            low=1,
            conf={"managedLedgerMaxEntriesPerLedger": 1},
        ),
    )
    ledger_bytes_max: int = field(
        default=512 * MIB,
        metadata=says(
            BYTES,
            "a ledger ends at so many bytes",
            low=1,
            conf={"managedLedgerMaxSizePerLedgerMbytes": MIB},
        ),
    )
    ledger_age_ms_max: int = field(
        default=240 * 60 * 1000,
        metadata=says(
            MS,
            "a ledger ends at this age",
            low=1,
            conf={"managedLedgerMaxLedgerRolloverTimeMinutes": MINUTE_MS},
        ),
    )
    watermark_bytes: int = field(
        default=256 * MIB,
        metadata=says(BYTES, "publishes are refused when less than this is free on the disk"),
    )

    def store_options(self) -> StoreOptions:
        """The same as the store takes them; `StoreOptions` gives the reasons."""
        return StoreOptions(
            fsync=self.fsync,
            fsync_interval_ms=self.fsync_interval_ms,
            cache_bytes=self.cache_bytes,
            segment_bytes=self.segment_bytes,
            ledger_entries_max=self.ledger_entries_max,
            ledger_bytes_max=self.ledger_bytes_max,
            ledger_age_ms_max=self.ledger_age_ms_max,
            watermark_bytes=self.watermark_bytes,
        )
