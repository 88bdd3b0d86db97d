"""Settings of subscriptions: acks, delays, and how consumers are served."""

from dataclasses import dataclass, field

from mypy_extensions import trait

from magnetar.broker.setting.setting import BOOL, BYTES, COUNT, MIB, MS, NAMES, says
from magnetar.model.subscription_type import TYPE_NAMES

__all__ = ["DispatchSettings"]


@trait
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DispatchSettings:
    """Part of `BrokerSettings`; in the manual under "Subscriptions and dispatch"."""

    subscription_types: tuple[str, ...] = field(
        default=TYPE_NAMES,
        metadata=says(
            NAMES,
            "the types that may be used",
            choices=TYPE_NAMES,
            conf={"subscriptionTypesEnabled": 1},
        ),
    )
    batch_index_ack: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "whether single messages of a batch can be acked. Without it whole "
            "batches come back, an ack of a single one is refused, and a cumulative "
            "one acks what is before its batch",
            conf={"acknowledgmentAtBatchIndexLevelEnabled": 1},
        ),
    )
    # What partly acked batches may take: batches of 1000 messages take 270 bytes each.
    max_ack_state_bytes_per_request: int = field(
        default=32 * MIB,
        metadata=says(
            BYTES,
            "memory that the partly acked batches of one ack or skip may take; 1000 "
            "messages in a batch take 270 bytes, and acks of whole batches take "
            "nothing. An ack takes 4 MiB of the disk at most besides. 0 is no limit",
        ),
    )
    max_ack_state_bytes_per_subscription: int = field(
        default=64 * MIB,
        metadata=says(BYTES, "memory that the partly acked batches of a subscription may take"),
    )
    max_ack_state_bytes: int = field(
        default=96 * MIB,
        metadata=says(BYTES, "memory that those of all subscriptions of the broker may take"),
    )
    max_unacked_per_consumer: int = field(
        default=50_000,
        metadata=says(
            COUNT,
            "messages that a consumer may hold unacked (Shared, Key_Shared)",
            conf={"maxUnackedMessagesPerConsumer": 1},
        ),
    )
    max_unacked_per_subscription: int = field(
        default=200_000,
        metadata=says(
            COUNT,
            "messages that all consumers of a subscription may hold unacked",
            conf={"maxUnackedMessagesPerSubscription": 1},
        ),
    )
    delayed_delivery: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "whether messages are held back until the time that they ask for",
            conf={"delayedDeliveryEnabled": 1},
        ),
    )
    delayed_delivery_tick_ms: int = field(
        default=1000,
        metadata=says(
            MS,
            "shown to who asks for the policy, and without effect: delayed messages "
            "are due to the millisecond",
            low=1,
            conf={"delayedDeliveryTickTimeMillis": 1},
        ),
    )
    # 0 lets a message wait for ever.
    delayed_delivery_max_ms: int = field(
        default=0,
        metadata=says(
            MS,
            "the longest delay that is taken; 0 for any",
            conf={"delayedDeliveryMaxDelayInMillis": 1},
        ),
    )
    dispatch_round_robin_entries: int = field(
        default=20,
        metadata=says(
            COUNT,
            "entries that one consumer gets before it is the next one's turn",
            low=1,
            conf={"dispatcherMaxRoundRobinBatchSize": 1},
        ),
    )
    dispatch_read_entries: int = field(
        default=100,
        metadata=says(
            COUNT, "entries that are read at a time", low=1, conf={"dispatcherMaxReadBatchSize": 1}
        ),
    )
    dispatch_read_bytes: int = field(
        default=5 * MIB,
        metadata=says(
            BYTES, "bytes that are read at a time", low=1, conf={"dispatcherMaxReadSizeBytes": 1}
        ),
    )
    failover_delay_ms: int = field(
        default=1000,
        metadata=says(
            MS,
            "how long a change of the active consumer waits",
            conf={"activeConsumerFailoverDelayTimeMillis": 1},
        ),
    )
    skip_recall_ms: int = field(
        default=5000,
        metadata=says(
            MS,
            "how long skipByMessageIds waits for consumers to give back what they "
            "have queued of the skipped messages; 0 leaves it to them",
        ),
    )
    key_shared_consistent_hashing: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "whether Key_Shared divides keys by a hash ring; otherwise ranges are halved",
            conf={"subscriptionKeySharedUseConsistentHashing": 1},
        ),
    )
    key_shared_points: int = field(
        default=100,
        metadata=says(
            COUNT,
            "points of each consumer on the hash ring",
            low=1,
            conf={"subscriptionKeySharedConsistentHashingReplicaPoints": 1},
        ),
    )
    key_shared_look_ahead_per_consumer: int = field(
        default=2000,
        metadata=says(
            COUNT,
            "entries of blocked keys that may be passed, for each consumer",
            low=1,
            conf={"keySharedLookAheadMsgInReplayThresholdPerConsumer": 1},
        ),
    )
    key_shared_look_ahead_per_subscription: int = field(
        default=20_000,
        metadata=says(
            COUNT,
            "entries of blocked keys that may be passed, for all consumers together",
            low=1,
            conf={"keySharedLookAheadMsgInReplayThresholdPerSubscription": 1},
        ),
    )
