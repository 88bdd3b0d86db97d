"""Settings of producers: deduplication, schemas, and encryption."""

from dataclasses import dataclass, field
from typing import Final

from mypy_extensions import trait

from magnetar.broker.setting.setting import BOOL, BYTES, COUNT, MIB, TEXT, says

__all__ = ["SCHEMA_COMPATIBILITIES", "ProducerSettings"]

SCHEMA_COMPATIBILITIES: Final = (
    "UNDEFINED",
    "ALWAYS_INCOMPATIBLE",
    "ALWAYS_COMPATIBLE",
    "BACKWARD",
    "FORWARD",
    "FULL",
    "BACKWARD_TRANSITIVE",
    "FORWARD_TRANSITIVE",
    "FULL_TRANSITIVE",
)


@trait
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ProducerSettings:
    """Part of `BrokerSettings`; in the manual under "Producers and schemas"."""

    deduplication: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "whether a message with a sequence id that was seen is dropped",
            conf={"brokerDeduplicationEnabled": 1},
        ),
    )
    deduplication_snapshot_entries: int = field(
        default=1000,
        metadata=says(
            COUNT,
            "after how many entries what was seen is written down",
            low=1,
            conf={"brokerDeduplicationEntriesInterval": 1},
        ),
    )
    deduplication_max_producers: int = field(
        default=10_000,
        metadata=says(
            COUNT,
            "producers of one topic that are remembered",
            low=1,
            conf={"brokerDeduplicationMaxNumberOfProducers": 1},
        ),
    )
    schema_compatibility: str = field(
        default="FULL",
        metadata=says(
            TEXT,
            "which new schemas a topic takes",
            choices=SCHEMA_COMPATIBILITIES,
            conf={"schemaCompatibilityStrategy": 1},
        ),
    )
    schema_validation_enforced: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "whether producers without a schema are refused where the topic has one",
            conf={"isSchemaValidationEnforced": 1},
        ),
    )
    allow_auto_update_schema: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "whether producers may bring a schema that the topic does not have",
            conf={"isAllowAutoUpdateSchemaEnabled": 1},
        ),
    )
    encryption_required: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "whether messages that are not encrypted are refused",
            conf={"encryptionRequireOnProducer": 1},
        ),
    )
    # They are parsed and compared: 100 KB take a tenth of a second, a little at a time.
    schema_size_max: int = field(
        default=256 << 10,
        metadata=says(COUNT, "bytes that the definition of a schema may have", low=1),
    )
    # They are read in one go: 2 MiB take 10 ms.
    max_schema_bytes_per_topic: int = field(
        default=2 * MIB,
        metadata=says(
            BYTES,
            "what all versions of a topic's schema may take, 512 bytes for each besides its "
            "definition; 0 is no limit",
        ),
    )
