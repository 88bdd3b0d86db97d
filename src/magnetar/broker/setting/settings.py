"""What a broker can be told, with Pulsar's defaults where Pulsar has the setting.

`BrokerSettings` is a value: made once, checked as it is made, never changed. `SETTINGS` says
of each of its attributes what it holds and which values it may have; the readers of files,
variables and options (`settings_load`, `broker_conf`) and the reference manual follow it.

Units stand last in the names. In limits 0 means that there is none; in quotas and in
retention -1 does, for there 0 has a meaning of its own.
"""

from typing import Final, TypeAlias, final

from magnetar.errors import SettingsError
from magnetar.storage.options import ALWAYS, INTERVAL, NEVER, StoreOptions

__all__ = [
    "BACKLOG_POLICIES",
    "BOOL",
    "BYTES",
    "COUNT",
    "COUNT_MAX",
    "DELETE_WHEN_CAUGHT_UP",
    "DELETE_WHEN_NO_SUBSCRIPTIONS",
    "EVICT_BACKLOG",
    "HOLD_PRODUCERS",
    "INACTIVE_MODES",
    "INT_MAX",
    "MEBIBYTES",
    "MEBIBYTES_MAX",
    "MIB",
    "MINUTES",
    "MS",
    "MS_MAX",
    "NAMES",
    "SCHEMA_COMPATIBILITIES",
    "SECONDS",
    "SETTINGS",
    "SUBSCRIPTION_TYPES",
    "TEXT",
    "BrokerSettings",
    "Setting",
    "Value",
]

MIB: Final = 1 << 20

# What any setting's value is made of.
Value: TypeAlias = bool | int | str | tuple[str, ...]

# Kinds of settings: how a value is written, and what is counted.
BOOL: Final = "yes or no"
COUNT: Final = "number"
BYTES: Final = "bytes"
MS: Final = "ms"
SECONDS: Final = "seconds"
MINUTES: Final = "minutes"
MEBIBYTES: Final = "MiB"
TEXT: Final = "text"
NAMES: Final = "names"

# Compiled code counts with 64 bits, Pulsar in most places with 32.
COUNT_MAX: Final = (1 << 63) - 1
INT_MAX: Final = (1 << 31) - 1
# 139 years: added to the time of day it stays far from the end of 64 bits.
MS_MAX: Final = 1 << 42
# As bytes it still fits.
MEBIBYTES_MAX: Final = (1 << 43) - 1

# By the numbers of ConsumerType.
SUBSCRIPTION_TYPES: Final = ("Exclusive", "Shared", "Failover", "Key_Shared")
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


_HIGH: Final[dict[str, int]] = {
    MS: MS_MAX,
    SECONDS: INT_MAX,
    MINUTES: INT_MAX,
    MEBIBYTES: MEBIBYTES_MAX,
}


@final
class Setting:
    """One attribute of `BrokerSettings`: its kind, and the values that it may have."""

    def __init__(
        self,
        name: str,
        kind: str,
        *,
        low: int = 0,
        high: int = COUNT_MAX,
        choices: tuple[str, ...] = (),
        optional: bool = False,
        secret: bool = False,
    ) -> None:
        self.name: Final = name
        self.kind: Final = kind
        self.low: Final = low
        self.high: Final = min(high, _HIGH.get(kind, COUNT_MAX))
        self.choices: Final = choices
        # Whether a text or a list may be empty, which then says nothing.
        self.optional: Final = optional
        # Whether the value must not be shown to anybody.
        self.secret: Final = secret

    def check(self, value: Value) -> None:
        """Raise SettingsError unless a value of the right type is one that it may have."""
        if isinstance(value, bool):
            return
        if isinstance(value, int):
            self._check_number(value)
        elif isinstance(value, str):
            self._check_text(value)
        else:
            self._check_names(value)

    def _check_number(self, value: int) -> None:
        if value < self.low:
            raise SettingsError(self.name, f"{value} is too little: give {self.low} or more")
        if value > self.high:
            raise SettingsError(self.name, f"{value} is too much: give {self.high} or less")

    def _check_text(self, value: str) -> None:
        if not value:
            if self.optional:
                return
            raise SettingsError(self.name, "the text is empty: give one, or leave the setting out")
        if self.choices and value not in self.choices:
            raise SettingsError(
                self.name, f"{value!r} is not one of {', '.join(self.choices)}: choose one of these"
            )

    def _check_names(self, value: tuple[str, ...]) -> None:
        if not value and not self.optional:
            raise SettingsError(self.name, "the list is empty: name at least one")
        for name in value:
            if not name:
                raise SettingsError(self.name, "a name in the list is empty: leave it out")
            self._check_text(name)


@final
class BrokerSettings:
    """Everything that a broker can be told; each value is one that `SETTINGS` allows."""

    def __init__(
        self,
        *,
        cluster_name: str = "standalone",
        # Sessions.
        message_size_max: int = 5 * MIB,
        keep_alive_ms: int = 30_000,
        max_connections: int = 10_000,
        max_connections_per_ip: int = 0,
        # What one peer may have under way before its socket is no longer read.
        max_pending_publishes_per_connection: int = 1000,
        # The same for the whole broker: reads of publishing sockets stop above it.
        max_pending_publish_bytes: int = 64 * MIB,
        # What a peer that does not read may have waiting for it.
        max_outbound_bytes_per_connection: int = 4 * MIB,
        # The same for the whole broker: above it peers that have read everything are served.
        max_outbound_bytes: int = 64 * MIB,
        # Names are in memory, in lists and in metrics: none is longer than so many bytes.
        max_name_length: int = 1024,
        max_topic_watchers_per_connection: int = 100,
        # Beside localhost and the machine's own: what the HTTP port may be called.
        http_allowed_hosts: tuple[str, ...] = (),
        # Topics.
        persistent: bool = True,
        non_persistent: bool = True,
        auto_create_topics: bool = True,
        # 0 creates topics that are not partitioned.
        auto_create_partitions: int = 0,
        auto_create_subscriptions: bool = True,
        delete_inactive_topics: bool = True,
        inactive_topic_ms: int = 60_000,
        inactive_topic_mode: str = DELETE_WHEN_NO_SUBSCRIPTIONS,
        max_topics_per_namespace: int = 0,
        max_partitions_per_topic: int = 0,
        max_producers_per_topic: int = 0,
        max_consumers_per_topic: int = 0,
        max_consumers_per_subscription: int = 0,
        max_subscriptions_per_topic: int = 0,
        topic_watchers: bool = True,
        # Patterns are matched for every topic of a namespace: long ones are costly.
        topics_pattern_length_max: int = 50,
        # What topics keep.
        retention_minutes: int = 0,
        retention_mb: int = 0,
        ttl_seconds: int = 0,
        ttl_check_ms: int = 300_000,
        # Nobody knows what was lost, so somebody should say that it may go.
        skip_damaged: bool = False,
        backlog_quota_bytes: int = -1,
        backlog_quota_seconds: int = -1,
        backlog_quota_policy: str = HOLD_PRODUCERS,
        backlog_quota_check_ms: int = 60_000,
        # Producers.
        deduplication: bool = False,
        deduplication_snapshot_entries: int = 1000,
        deduplication_max_producers: int = 10_000,
        schema_compatibility: str = "FULL",
        schema_validation_enforced: bool = False,
        # They are parsed and compared: 100 KB take a tenth of a second, a little at a time.
        schema_size_max: int = 256 << 10,
        # Subscriptions and dispatch.
        subscription_types: tuple[str, ...] = SUBSCRIPTION_TYPES,
        batch_index_ack: bool = True,
        # What partly acked batches may take: batches of 1000 messages take 270 bytes each.
        max_ack_state_bytes_per_request: int = 32 * MIB,
        max_ack_state_bytes_per_subscription: int = 64 * MIB,
        max_ack_state_bytes: int = 128 * MIB,
        max_unacked_per_consumer: int = 50_000,
        max_unacked_per_subscription: int = 200_000,
        delayed_delivery: bool = True,
        delayed_delivery_tick_ms: int = 1000,
        # 0 lets a message wait for ever.
        delayed_delivery_max_ms: int = 0,
        dispatch_round_robin_entries: int = 20,
        dispatch_read_entries: int = 100,
        dispatch_read_bytes: int = 5 * MIB,
        failover_delay_ms: int = 1000,
        skip_recall_ms: int = 5000,
        key_shared_consistent_hashing: bool = True,
        key_shared_points: int = 100,
        key_shared_look_ahead_per_consumer: int = 2000,
        key_shared_look_ahead_per_subscription: int = 20_000,
        # Storage; `StoreOptions` gives the reasons.
        fsync: str = ALWAYS,
        fsync_interval_ms: int = 1000,
        cache_bytes: int = 64 * MIB,
        segment_bytes: int = 64 * MIB,
        ledger_entries_max: int = 50_000,
        ledger_bytes_max: int = 512 * MIB,
        ledger_age_ms_max: int = 240 * 60 * 1000,
        watermark_bytes: int = 256 * MIB,
        # Who is let in, and what they may do; docs/security.md tells how.
        authentication: bool = False,
        authorization: bool = True,
        super_user_roles: tuple[str, ...] = (),
        anonymous_role: str = "",
        authenticate_metrics: bool = False,
        # How long a client has for a new token when its own has expired.
        authentication_refresh_ms: int = 60_000,
        # A path, `file:` or `data:;base64,` of the key that tokens are checked by.
        token_secret_key: str = "",
        token_public_key: str = "",
        token_role_claim: str = "sub",
        token_audience_claim: str = "aud",
        token_audience: str = "",
        token_clock_skew_seconds: int = 0,
        token_revoked_file: str = "",
        tls_certificate_file: str = "",
        tls_key_file: str = "",
        tls_trust_certs_file: str = "",
        tls_crl_file: str = "",
        tls_require_client_certificate: bool = False,
        tls_refresh_seconds: int = 300,
    ) -> None:
        self.cluster_name: Final[str] = cluster_name
        self.message_size_max: Final[int] = message_size_max
        self.keep_alive_ms: Final[int] = keep_alive_ms
        self.max_connections: Final[int] = max_connections
        self.max_connections_per_ip: Final[int] = max_connections_per_ip
        self.max_pending_publishes_per_connection: Final[int] = max_pending_publishes_per_connection
        self.max_pending_publish_bytes: Final[int] = max_pending_publish_bytes
        self.max_outbound_bytes_per_connection: Final[int] = max_outbound_bytes_per_connection
        self.max_outbound_bytes: Final[int] = max_outbound_bytes
        self.max_name_length: Final[int] = max_name_length
        self.max_topic_watchers_per_connection: Final[int] = max_topic_watchers_per_connection
        self.http_allowed_hosts: Final[tuple[str, ...]] = http_allowed_hosts
        self.persistent: Final[bool] = persistent
        self.non_persistent: Final[bool] = non_persistent
        self.auto_create_topics: Final[bool] = auto_create_topics
        self.auto_create_partitions: Final[int] = auto_create_partitions
        self.auto_create_subscriptions: Final[bool] = auto_create_subscriptions
        self.delete_inactive_topics: Final[bool] = delete_inactive_topics
        self.inactive_topic_ms: Final[int] = inactive_topic_ms
        self.inactive_topic_mode: Final[str] = inactive_topic_mode
        self.max_topics_per_namespace: Final[int] = max_topics_per_namespace
        self.max_partitions_per_topic: Final[int] = max_partitions_per_topic
        self.max_producers_per_topic: Final[int] = max_producers_per_topic
        self.max_consumers_per_topic: Final[int] = max_consumers_per_topic
        self.max_consumers_per_subscription: Final[int] = max_consumers_per_subscription
        self.max_subscriptions_per_topic: Final[int] = max_subscriptions_per_topic
        self.topic_watchers: Final[bool] = topic_watchers
        self.topics_pattern_length_max: Final[int] = topics_pattern_length_max
        self.retention_minutes: Final[int] = retention_minutes
        self.retention_mb: Final[int] = retention_mb
        self.ttl_seconds: Final[int] = ttl_seconds
        self.ttl_check_ms: Final[int] = ttl_check_ms
        self.skip_damaged: Final[bool] = skip_damaged
        self.backlog_quota_bytes: Final[int] = backlog_quota_bytes
        self.backlog_quota_seconds: Final[int] = backlog_quota_seconds
        self.backlog_quota_policy: Final[str] = backlog_quota_policy
        self.backlog_quota_check_ms: Final[int] = backlog_quota_check_ms
        self.deduplication: Final[bool] = deduplication
        self.deduplication_snapshot_entries: Final[int] = deduplication_snapshot_entries
        self.deduplication_max_producers: Final[int] = deduplication_max_producers
        self.schema_compatibility: Final[str] = schema_compatibility
        self.schema_validation_enforced: Final[bool] = schema_validation_enforced
        self.schema_size_max: Final[int] = schema_size_max
        self.subscription_types: Final[tuple[str, ...]] = subscription_types
        self.batch_index_ack: Final[bool] = batch_index_ack
        self.max_ack_state_bytes_per_request: Final[int] = max_ack_state_bytes_per_request
        self.max_ack_state_bytes_per_subscription: Final[int] = max_ack_state_bytes_per_subscription
        self.max_ack_state_bytes: Final[int] = max_ack_state_bytes
        self.max_unacked_per_consumer: Final[int] = max_unacked_per_consumer
        self.max_unacked_per_subscription: Final[int] = max_unacked_per_subscription
        self.delayed_delivery: Final[bool] = delayed_delivery
        self.delayed_delivery_tick_ms: Final[int] = delayed_delivery_tick_ms
        self.delayed_delivery_max_ms: Final[int] = delayed_delivery_max_ms
        self.dispatch_round_robin_entries: Final[int] = dispatch_round_robin_entries
        self.dispatch_read_entries: Final[int] = dispatch_read_entries
        self.dispatch_read_bytes: Final[int] = dispatch_read_bytes
        self.failover_delay_ms: Final[int] = failover_delay_ms
        self.skip_recall_ms: Final[int] = skip_recall_ms
        self.key_shared_consistent_hashing: Final[bool] = key_shared_consistent_hashing
        self.key_shared_points: Final[int] = key_shared_points
        self.key_shared_look_ahead_per_consumer: Final[int] = key_shared_look_ahead_per_consumer
        self.key_shared_look_ahead_per_subscription: Final[int] = (
            key_shared_look_ahead_per_subscription
        )
        self.fsync: Final[str] = fsync
        self.fsync_interval_ms: Final[int] = fsync_interval_ms
        self.cache_bytes: Final[int] = cache_bytes
        self.segment_bytes: Final[int] = segment_bytes
        self.ledger_entries_max: Final[int] = ledger_entries_max
        self.ledger_bytes_max: Final[int] = ledger_bytes_max
        self.ledger_age_ms_max: Final[int] = ledger_age_ms_max
        self.watermark_bytes: Final[int] = watermark_bytes
        self.authentication: Final[bool] = authentication
        self.authorization: Final[bool] = authorization
        self.super_user_roles: Final[tuple[str, ...]] = super_user_roles
        self.anonymous_role: Final[str] = anonymous_role
        self.authenticate_metrics: Final[bool] = authenticate_metrics
        self.authentication_refresh_ms: Final[int] = authentication_refresh_ms
        self.token_secret_key: Final[str] = token_secret_key
        self.token_public_key: Final[str] = token_public_key
        self.token_role_claim: Final[str] = token_role_claim
        self.token_audience_claim: Final[str] = token_audience_claim
        self.token_audience: Final[str] = token_audience
        self.token_clock_skew_seconds: Final[int] = token_clock_skew_seconds
        self.token_revoked_file: Final[str] = token_revoked_file
        self.tls_certificate_file: Final[str] = tls_certificate_file
        self.tls_key_file: Final[str] = tls_key_file
        self.tls_trust_certs_file: Final[str] = tls_trust_certs_file
        self.tls_crl_file: Final[str] = tls_crl_file
        self.tls_require_client_certificate: Final[bool] = tls_require_client_certificate
        self.tls_refresh_seconds: Final[int] = tls_refresh_seconds
        for setting in SETTINGS.values():
            setting.check(self.value_of(setting.name))
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


# The order is that of the reference manual.
_ALL: Final = (
    Setting("cluster_name", TEXT),
    Setting("message_size_max", BYTES, low=1024, high=1 << 30),
    Setting("keep_alive_ms", MS, low=1),
    Setting("max_connections", COUNT),
    Setting("max_connections_per_ip", COUNT),
    Setting("max_pending_publishes_per_connection", COUNT, low=1),
    Setting("max_pending_publish_bytes", BYTES, low=1),
    Setting("max_outbound_bytes_per_connection", BYTES, low=1),
    Setting("max_outbound_bytes", BYTES, low=1),
    Setting("max_name_length", COUNT, high=32_768),
    Setting("max_topic_watchers_per_connection", COUNT),
    Setting("http_allowed_hosts", NAMES, optional=True),
    Setting("persistent", BOOL),
    Setting("non_persistent", BOOL),
    Setting("auto_create_topics", BOOL),
    Setting("auto_create_partitions", COUNT),
    Setting("auto_create_subscriptions", BOOL),
    Setting("delete_inactive_topics", BOOL),
    Setting("inactive_topic_ms", MS, low=1),
    Setting("inactive_topic_mode", TEXT, choices=INACTIVE_MODES),
    Setting("max_topics_per_namespace", COUNT),
    Setting("max_partitions_per_topic", COUNT),
    Setting("max_producers_per_topic", COUNT),
    Setting("max_consumers_per_topic", COUNT),
    Setting("max_consumers_per_subscription", COUNT),
    Setting("max_subscriptions_per_topic", COUNT),
    Setting("topic_watchers", BOOL),
    Setting("topics_pattern_length_max", COUNT, low=1),
    Setting("retention_minutes", MINUTES, low=-1),
    Setting("retention_mb", MEBIBYTES, low=-1),
    Setting("ttl_seconds", SECONDS),
    Setting("ttl_check_ms", MS, low=1),
    Setting("skip_damaged", BOOL),
    Setting("backlog_quota_bytes", BYTES, low=-1),
    Setting("backlog_quota_seconds", SECONDS, low=-1),
    Setting("backlog_quota_policy", TEXT, choices=BACKLOG_POLICIES),
    Setting("backlog_quota_check_ms", MS, low=1),
    Setting("deduplication", BOOL),
    Setting("deduplication_snapshot_entries", COUNT, low=1),
    Setting("deduplication_max_producers", COUNT, low=1),
    Setting("schema_compatibility", TEXT, choices=SCHEMA_COMPATIBILITIES),
    Setting("schema_validation_enforced", BOOL),
    Setting("schema_size_max", COUNT, low=1),
    Setting("subscription_types", NAMES, choices=SUBSCRIPTION_TYPES),
    Setting("batch_index_ack", BOOL),
    Setting("max_ack_state_bytes_per_request", BYTES),
    Setting("max_ack_state_bytes_per_subscription", BYTES),
    Setting("max_ack_state_bytes", BYTES),
    Setting("max_unacked_per_consumer", COUNT),
    Setting("max_unacked_per_subscription", COUNT),
    Setting("delayed_delivery", BOOL),
    Setting("delayed_delivery_tick_ms", MS, low=1),
    Setting("delayed_delivery_max_ms", MS),
    Setting("dispatch_round_robin_entries", COUNT, low=1),
    Setting("dispatch_read_entries", COUNT, low=1),
    Setting("dispatch_read_bytes", BYTES, low=1),
    Setting("failover_delay_ms", MS),
    Setting("skip_recall_ms", MS),
    Setting("key_shared_consistent_hashing", BOOL),
    Setting("key_shared_points", COUNT, low=1),
    Setting("key_shared_look_ahead_per_consumer", COUNT, low=1),
    Setting("key_shared_look_ahead_per_subscription", COUNT, low=1),
    Setting("fsync", TEXT, choices=(ALWAYS, INTERVAL, NEVER)),
    Setting("fsync_interval_ms", MS, low=1),
    Setting("cache_bytes", BYTES),
    Setting("segment_bytes", BYTES, low=MIB),
    Setting("ledger_entries_max", COUNT, low=1),
    Setting("ledger_bytes_max", BYTES, low=1),
    Setting("ledger_age_ms_max", MS, low=1),
    Setting("watermark_bytes", BYTES),
    Setting("authentication", BOOL),
    Setting("authorization", BOOL),
    Setting("super_user_roles", NAMES, optional=True),
    Setting("anonymous_role", TEXT, optional=True),
    Setting("authenticate_metrics", BOOL),
    Setting("authentication_refresh_ms", MS, low=1),
    Setting("token_secret_key", TEXT, optional=True, secret=True),
    Setting("token_public_key", TEXT, optional=True),
    Setting("token_role_claim", TEXT),
    Setting("token_audience_claim", TEXT),
    Setting("token_audience", TEXT, optional=True),
    Setting("token_clock_skew_seconds", SECONDS),
    Setting("token_revoked_file", TEXT, optional=True),
    Setting("tls_certificate_file", TEXT, optional=True),
    Setting("tls_key_file", TEXT, optional=True),
    Setting("tls_trust_certs_file", TEXT, optional=True),
    Setting("tls_crl_file", TEXT, optional=True),
    Setting("tls_require_client_certificate", BOOL),
    Setting("tls_refresh_seconds", SECONDS),
)

SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in _ALL}
