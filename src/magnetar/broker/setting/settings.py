"""What a broker can be told, with Pulsar's defaults where Pulsar has the setting.

`BrokerSettings` is a value: made once, checked as it is made, never changed. Each of its fields is
the whole declaration of a setting: name, type, default, kind, range, what it says, and Pulsar's
key. The readers of files, variables and options (`settings_load`, `broker_conf`) and the reference
manual follow `SETTINGS`, which is made of them.

Units stand last in the names. In limits 0 means that there is none; in quotas and in
retention -1 does, for there 0 has a meaning of its own.
"""

from dataclasses import dataclass, field, fields
from typing import Final, final

from magnetar.broker.setting.setting import (
    BOOL,
    BYTES,
    COUNT,
    COUNT_MAX,
    MEBIBYTES,
    MINUTES,
    MS,
    NAMES,
    SECONDS,
    TEXT,
    Setting,
    Value,
)
from magnetar.broker.topic.dispatch.subscription_type import TYPE_NAMES
from magnetar.errors import SettingsError
from magnetar.storage.options import ALWAYS, INTERVAL, NEVER, StoreOptions

__all__ = [
    "BACKLOG_POLICIES",
    "DELETE_WHEN_CAUGHT_UP",
    "DELETE_WHEN_NO_SUBSCRIPTIONS",
    "EVICT_BACKLOG",
    "HOLD_PRODUCERS",
    "INACTIVE_MODES",
    "MIB",
    "SCHEMA_COMPATIBILITIES",
    "SECTIONS",
    "SETTINGS",
    "BrokerSettings",
]

MIB: Final = 1 << 20
SECOND_MS: Final = 1000
MINUTE_MS: Final = 60_000

HOLD_PRODUCERS: Final = "producer_request_hold"
EVICT_BACKLOG: Final = "consumer_backlog_eviction"
BACKLOG_POLICIES: Final = (HOLD_PRODUCERS, "producer_exception", EVICT_BACKLOG)
DELETE_WHEN_NO_SUBSCRIPTIONS: Final = "delete_when_no_subscriptions"
DELETE_WHEN_CAUGHT_UP: Final = "delete_when_subscriptions_caught_up"
INACTIVE_MODES: Final = (DELETE_WHEN_NO_SUBSCRIPTIONS, DELETE_WHEN_CAUGHT_UP)
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


def says(
    kind: str,
    meaning: str,
    *,
    low: int = 0,
    high: int = COUNT_MAX,
    choices: tuple[str, ...] = (),
    optional: bool = False,
    secret: bool = False,
    conf: dict[str, int] | None = None,
) -> dict[str, Setting]:
    """What a field of `BrokerSettings` says beside its name, type and default; see `Setting`."""
    return {"setting": Setting(kind, meaning, low, high, choices, optional, secret, conf or {})}


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BrokerSettings:
    """Everything that a broker can be told; each value is one that its setting allows."""

    # ---- Sessions ----------------------------------------------------------------------------

    cluster_name: str = field(
        default="standalone",
        metadata=says(
            TEXT, "the name that the admin REST gives for this cluster", conf={"clusterName": 1}
        ),
    )
    message_size_max: int = field(
        default=5 * MIB,
        metadata=says(
            BYTES,
            "the largest message, which clients are told as they connect",
            low=1024,
            high=1 << 30,
            conf={"maxMessageSize": 1},
        ),
    )
    keep_alive_ms: int = field(
        default=30_000,
        metadata=says(
            MS,
            "a peer that is silent so long gets a ping, and is given up if it stays silent",
            low=1,
            conf={"keepAliveIntervalSeconds": SECOND_MS},
        ),
    )
    max_connections: int = field(
        default=10_000,
        metadata=says(
            COUNT,
            "connections at a time, as far as there are descriptors for them",
            conf={"brokerMaxConnections": 1},
        ),
    )
    max_connections_per_ip: int = field(
        default=0,
        metadata=says(
            COUNT,
            "connections at a time from one address; never more than nine tenths of all",
            conf={"brokerMaxConnectionsPerIp": 1},
        ),
    )
    # What one peer may have under way before its socket is no longer read.
    max_pending_publishes_per_connection: int = field(
        default=1000,
        metadata=says(
            COUNT,
            "publishes of one connection that wait for the disk; above it that socket is not read",
            low=1,
            conf={"maxPendingPublishRequestsPerConnection": 1},
        ),
    )
    # The same for the whole broker: reads of publishing sockets stop above it.
    max_pending_publish_bytes: int = field(
        default=64 * MIB,
        metadata=says(
            BYTES,
            "bytes of all publishes that wait for the disk; above it no publishing socket is read",
            low=1,
            conf={"maxMessagePublishBufferSizeInMB": MIB},
        ),
    )
    # Frames that are half said, of the whole broker.
    max_inbound_bytes: int = field(
        default=32 * MIB,
        metadata=says(
            BYTES,
            "bytes of frames that have not come whole, of all connections together; above it only "
            "the first of the large ones is read on, and at twice as much others are hung up on",
            low=1,
        ),
    )
    # What a peer that does not read may have waiting for it.
    max_outbound_bytes_per_connection: int = field(
        default=4 * MIB,
        metadata=says(
            BYTES,
            "bytes that wait for a peer that does not read; above it that socket is "
            "not read either",
            low=1,
        ),
    )
    # The same for the whole broker: above it peers that have read everything are served.
    max_outbound_bytes: int = field(
        default=64 * MIB,
        metadata=says(
            BYTES,
            "bytes that wait for all peers together; above it only those are served "
            "for whom nothing waits",
            low=1,
        ),
    )
    # Names are in memory, in lists and in metrics: none is longer than so many bytes.
    max_name_length: int = field(
        default=1024,
        metadata=says(
            COUNT,
            "bytes in the name of a new topic, subscription, producer or consumer",
            high=32_768,
        ),
    )
    max_topic_watchers_per_connection: int = field(
        default=100,
        metadata=says(
            COUNT,
            "patterns of topics that one connection watches; above it clients ask "
            "for lists instead",
        ),
    )
    # Beside localhost and the machine's own: what the HTTP port may be called.
    http_allowed_hosts: tuple[str, ...] = field(
        default=(),
        metadata=says(
            NAMES,
            "names of the HTTP port beside `localhost` and the machine's own; "
            "addresses are always fine",
            optional=True,
        ),
    )

    # ---- Topics ------------------------------------------------------------------------------

    persistent: bool = field(
        default=True,
        metadata=says(
            BOOL, "whether there are persistent topics", conf={"enablePersistentTopics": 1}
        ),
    )
    non_persistent: bool = field(
        default=True,
        metadata=says(
            BOOL, "whether there are non-persistent topics", conf={"enableNonPersistentTopics": 1}
        ),
    )
    auto_create_topics: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "whether a topic is created when somebody produces to it or subscribes",
            conf={"allowAutoTopicCreation": 1},
        ),
    )
    # 0 creates topics that are not partitioned.
    auto_create_partitions: int = field(
        default=0,
        metadata=says(
            COUNT,
            "partitions of such a topic; 0 for one that is not partitioned",
            conf={
                # Counts if `allowAutoTopicCreationType` is `partitioned`.
                "defaultNumPartitions": 1,
                "allowAutoTopicCreationType": 1,
            },
        ),
    )
    auto_create_subscriptions: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "whether a subscription is created when somebody subscribes",
            conf={"allowAutoSubscriptionCreation": 1},
        ),
    )
    delete_inactive_topics: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "whether topics that nobody uses are deleted",
            conf={"brokerDeleteInactiveTopicsEnabled": 1},
        ),
    )
    inactive_topic_ms: int = field(
        default=60_000,
        metadata=says(
            MS,
            "after how long nobody uses them",
            low=1,
            conf={
                # In Pulsar too the first stands in for the second where that one is not given.
                "brokerDeleteInactiveTopicsFrequencySeconds": SECOND_MS,
                "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": SECOND_MS,
            },
        ),
    )
    inactive_topic_mode: str = field(
        default=DELETE_WHEN_NO_SUBSCRIPTIONS,
        metadata=says(
            TEXT,
            "`delete_when_no_subscriptions` or `delete_when_subscriptions_caught_up`",
            choices=INACTIVE_MODES,
            conf={"brokerDeleteInactiveTopicsMode": 1},
        ),
    )
    max_topics_per_namespace: int = field(
        default=0,
        metadata=says(
            COUNT,
            "topics of one namespace, each partition counted",
            conf={"maxTopicsPerNamespace": 1},
        ),
    )
    max_partitions_per_topic: int = field(
        default=0,
        metadata=says(
            COUNT, "partitions of one topic", conf={"maxNumPartitionsPerPartitionedTopic": 1}
        ),
    )
    max_producers_per_topic: int = field(
        default=0,
        metadata=says(
            COUNT, "producers of one topic, or of one partition", conf={"maxProducersPerTopic": 1}
        ),
    )
    max_consumers_per_topic: int = field(
        default=0,
        metadata=says(
            COUNT, "consumers of one topic, or of one partition", conf={"maxConsumersPerTopic": 1}
        ),
    )
    max_consumers_per_subscription: int = field(
        default=0,
        metadata=says(
            COUNT, "consumers of one subscription", conf={"maxConsumersPerSubscription": 1}
        ),
    )
    max_subscriptions_per_topic: int = field(
        default=0,
        metadata=says(COUNT, "subscriptions of one topic", conf={"maxSubscriptionsPerTopic": 1}),
    )
    topic_watchers: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "whether clients that subscribe to a pattern are told of new topics",
            conf={
                # Until 4.1 the first switched what the second switches since.
                "enableBrokerSideSubscriptionPatternEvaluation": 1,
                "enableBrokerTopicListWatcher": 1,
            },
        ),
    )
    # Patterns are matched for every topic of a namespace: long ones are costly.
    topics_pattern_length_max: int = field(
        default=50,
        metadata=says(
            COUNT,
            "the longest such pattern, in characters",
            low=1,
            conf={"subscriptionPatternMaxLength": 1},
        ),
    )

    # ---- What topics keep --------------------------------------------------------------------

    retention_minutes: int = field(
        default=0,
        metadata=says(
            MINUTES,
            "how long what is acked stays; -1 without limit",
            low=-1,
            conf={"defaultRetentionTimeInMinutes": 1},
        ),
    )
    retention_mb: int = field(
        default=0,
        metadata=says(
            MEBIBYTES,
            "how much of what is acked stays; -1 without limit. If either of the "
            "two is 0, nothing stays",
            low=-1,
            conf={"defaultRetentionSizeInMB": 1},
        ),
    )
    ttl_seconds: int = field(
        default=0,
        metadata=says(
            SECONDS,
            "when what is not acked is taken for acked; 0 for never",
            conf={"ttlDurationDefaultInSeconds": 1},
        ),
    )
    ttl_check_ms: int = field(
        default=300_000,
        metadata=says(
            MS,
            "how often that is looked for",
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

    # ---- Producers and schemas ---------------------------------------------------------------

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
    # They are parsed and compared: 100 KB take a tenth of a second, a little at a time.
    schema_size_max: int = field(
        default=256 << 10,
        metadata=says(COUNT, "bytes that the definition of a schema may have", low=1),
    )

    # ---- Subscriptions and dispatch ----------------------------------------------------------

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
        default=64 * MIB, metadata=says(BYTES, "the same for all that a subscription has")
    )
    max_ack_state_bytes: int = field(
        default=96 * MIB, metadata=says(BYTES, "the same for all subscriptions of the broker")
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
            "by hash ring; otherwise ranges are halved",
            conf={"subscriptionKeySharedUseConsistentHashing": 1},
        ),
    )
    key_shared_points: int = field(
        default=100,
        metadata=says(
            COUNT,
            "points of each consumer on that ring",
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
            "the same for all consumers together",
            low=1,
            conf={"keySharedLookAheadMsgInReplayThresholdPerSubscription": 1},
        ),
    )

    # ---- Storage -----------------------------------------------------------------------------

    # Storage; `StoreOptions` gives the reasons.
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
        metadata=says(MS, "how often, in the mode `interval`: what a power cut may cost", low=1),
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
            BYTES, "or at so many bytes", low=1, conf={"managedLedgerMaxSizePerLedgerMbytes": MIB}
        ),
    )
    ledger_age_ms_max: int = field(
        default=240 * 60 * 1000,
        metadata=says(
            MS,
            "or at this age",
            low=1,
            conf={"managedLedgerMaxLedgerRolloverTimeMinutes": MINUTE_MS},
        ),
    )
    watermark_bytes: int = field(
        default=256 * MIB,
        metadata=says(BYTES, "publishes are refused when less than this is free on the disk"),
    )

    # ---- Who may do what ---------------------------------------------------------------------

    # Who is let in, and what they may do; docs/security.md tells how.
    authentication: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "whether clients must prove who they are, on both ports",
            conf={"authenticationEnabled": 1},
        ),
    )
    authorization: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "whether those who did may do only what their role was granted; has a "
            "meaning with `authentication` only",
            conf={"authorizationEnabled": 1},
        ),
    )
    super_user_roles: tuple[str, ...] = field(
        default=(),
        metadata=says(
            NAMES, "roles that may do everything", optional=True, conf={"superUserRoles": 1}
        ),
    )
    anonymous_role: str = field(
        default="",
        metadata=says(
            TEXT,
            "the role of clients that prove nothing; without one they are refused",
            optional=True,
            conf={"anonymousUserRole": 1},
        ),
    )
    authenticate_metrics: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "whether `/metrics` asks who is there, too; without `authentication` it "
            "is for loopback addresses alone then",
            conf={"authenticateMetricsEndpoint": 1},
        ),
    )
    # How long a client has for a new token when its own has expired.
    authentication_refresh_ms: int = field(
        default=60_000,
        metadata=says(
            MS,
            "how long a connected client has to bring a new token after its own expired",
            low=1,
            conf={"authenticationRefreshCheckSeconds": SECOND_MS},
        ),
    )
    # A path, `file:` or `data:;base64,` of the key that tokens are checked by.
    token_secret_key: str = field(
        default="",
        metadata=says(
            TEXT,
            "the secret that tokens are signed with: a path, `file:` or `data:;base64,`",
            optional=True,
            secret=True,
            conf={"tokenSecretKey": 1},
        ),
    )
    token_public_key: str = field(
        default="",
        metadata=says(
            TEXT,
            "or the public key that they are checked by, in PEM or DER form",
            optional=True,
            conf={"tokenPublicKey": 1},
        ),
    )
    token_role_claim: str = field(
        default="sub",
        metadata=says(TEXT, "the claim of a token that names the role", conf={"tokenAuthClaim": 1}),
    )
    token_audience_claim: str = field(
        default="aud",
        metadata=says(
            TEXT, "the claim that says for whom a token is", conf={"tokenAudienceClaim": 1}
        ),
    )
    token_audience: str = field(
        default="",
        metadata=says(
            TEXT,
            "what that claim must contain; anything, if this is not given",
            optional=True,
            conf={"tokenAudience": 1},
        ),
    )
    token_clock_skew_seconds: int = field(
        default=0, metadata=says(SECONDS, "how far the clock that made a token may be off")
    )
    token_revoked_file: str = field(
        default="",
        metadata=says(
            TEXT,
            "tokens that were taken back, one `jti ID` or `role NAME` per line; "
            "read again when it changes",
            optional=True,
        ),
    )
    tls_certificate_file: str = field(
        default="",
        metadata=says(
            TEXT,
            "the broker's certificate and those of its issuers, in PEM form; with "
            "it TLS ports are opened",
            optional=True,
            conf={"tlsCertificateFilePath": 1},
        ),
    )
    tls_key_file: str = field(
        default="",
        metadata=says(
            TEXT, "the private key of that certificate", optional=True, conf={"tlsKeyFilePath": 1}
        ),
    )
    tls_trust_certs_file: str = field(
        default="",
        metadata=says(
            TEXT,
            "issuers of client certificates, whose common name is the role",
            optional=True,
            conf={"tlsTrustCertsFilePath": 1},
        ),
    )
    tls_crl_file: str = field(
        default="",
        metadata=says(
            TEXT,
            "certificates that were revoked: the lists (CRLs) of all those issuers, in PEM form",
            optional=True,
        ),
    )
    tls_require_client_certificate: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "whether a TLS connection without such a certificate is refused",
            conf={"tlsRequireTrustedClientCertOnConnect": 1},
        ),
    )
    tls_refresh_seconds: int = field(
        default=300,
        metadata=says(
            SECONDS,
            "how often those files are looked at, and read again if they changed",
            conf={"tlsCertRefreshCheckDurationSec": 1},
        ),
    )

    def __post_init__(self) -> None:
        for name, setting in SETTINGS.items():
            setting.check(name, self.value_of(name))
        self._check_together()

    def _check_together(self) -> None:
        """What one setting says of another. Raises SettingsError."""
        if bool(self.tls_certificate_file) != bool(self.tls_key_file):
            lacks = "tls_key_file" if self.tls_certificate_file else "tls_certificate_file"
            raise SettingsError(lacks, "TLS needs a certificate and its key: give this one too")
        if self.tls_trust_certs_file and not self.tls_certificate_file:
            raise SettingsError(
                "tls_certificate_file",
                "client certificates are shown over TLS only: give the broker a certificate too",
            )
        if self.tls_require_client_certificate and not self.tls_trust_certs_file:
            raise SettingsError(
                "tls_trust_certs_file", "client certificates are required: say who may issue them"
            )
        if self.tls_crl_file and not self.tls_trust_certs_file:
            raise SettingsError(
                "tls_trust_certs_file", "certificates are revoked: say who may issue them"
            )
        if self.token_secret_key and self.token_public_key:
            raise SettingsError(
                "token_public_key", "tokens are checked by one key: give a secret or a public key"
            )
        known = self.token_secret_key or self.token_public_key or self.tls_trust_certs_file
        if self.authentication and not known:
            raise SettingsError(
                "authentication",
                "nobody could prove who they are: give token_secret_key (`magnetar tokens init` "
                "makes one), token_public_key, or tls_trust_certs_file for client certificates",
            )

    def value_of(self, name: str) -> Value:
        """The value of the attribute with this name, which is one of `SETTINGS`."""
        value: Value = getattr(self, name)
        return value

    def store_options(self) -> StoreOptions:
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


# In the order of the declarations, which is that of the reference manual.
SETTINGS: Final[dict[str, Setting]] = {
    one.name: one.metadata["setting"] for one in fields(BrokerSettings)
}

# The headings of the manual, by the first setting that each has.
SECTIONS: Final[dict[str, str]] = {
    "cluster_name": "Sessions",
    "persistent": "Topics",
    "retention_minutes": "What topics keep",
    "deduplication": "Producers and schemas",
    "subscription_types": "Subscriptions and dispatch",
    "fsync": "Storage",
    "authentication": "Who may do what",
}
