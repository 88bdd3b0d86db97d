"""What each setting says, for the reference and for those who ask on the command line.

Sections and settings stand in the order of `SETTINGS`; a test holds the two together.
"""

from typing import Final

__all__ = ["MEANINGS"]

# By section; in limits 0 means that there is none, in quotas and in retention -1 does.
MEANINGS: Final[dict[str, dict[str, str]]] = {
    "Sessions": {
        "cluster_name": "the name that the admin REST gives for this cluster",
        "message_size_max": "the largest message, which clients are told as they connect",
        "keep_alive_ms": (
            "a peer that is silent so long gets a ping, and is given up if it stays silent"
        ),
        "max_connections": "connections at a time, as far as there are descriptors for them",
        "max_connections_per_ip": (
            "connections at a time from one address; never more than nine tenths of all"
        ),
        "max_pending_publishes_per_connection": (
            "publishes of one connection that wait for the disk; above it that socket is not read"
        ),
        "max_pending_publish_bytes": (
            "bytes of all publishes that wait for the disk; above it no publishing socket is read"
        ),
        "max_outbound_bytes_per_connection": (
            "bytes that wait for a peer that does not read; above it that socket is not read either"
        ),
        "max_outbound_bytes": (
            "bytes that wait for all peers together; above it only those are served for whom "
            "nothing waits"
        ),
        "max_name_length": "bytes in the name of a new topic, subscription, producer or consumer",
        "max_topic_watchers_per_connection": (
            "patterns of topics that one connection watches; above it clients ask for lists instead"
        ),
        "http_allowed_hosts": (
            "names of the HTTP port beside `localhost` and the machine's own; addresses are "
            "always fine"
        ),
    },
    "Topics": {
        "persistent": "whether there are persistent topics",
        "non_persistent": "whether there are non-persistent topics",
        "auto_create_topics": (
            "whether a topic is created when somebody produces to it or subscribes"
        ),
        "auto_create_partitions": "partitions of such a topic; 0 for one that is not partitioned",
        "auto_create_subscriptions": "whether a subscription is created when somebody subscribes",
        "delete_inactive_topics": "whether topics that nobody uses are deleted",
        "inactive_topic_ms": "after how long nobody uses them",
        "inactive_topic_mode": (
            "`delete_when_no_subscriptions` or `delete_when_subscriptions_caught_up`"
        ),
        "max_topics_per_namespace": "topics of one namespace, each partition counted",
        "max_partitions_per_topic": "partitions of one topic",
        "max_producers_per_topic": "producers of one topic, or of one partition",
        "max_consumers_per_topic": "consumers of one topic, or of one partition",
        "max_consumers_per_subscription": "consumers of one subscription",
        "max_subscriptions_per_topic": "subscriptions of one topic",
        "topic_watchers": "whether clients that subscribe to a pattern are told of new topics",
        "topics_pattern_length_max": "the longest such pattern, in characters",
    },
    "What topics keep": {
        "retention_minutes": "how long what is acked stays; -1 without limit",
        "retention_mb": (
            "how much of what is acked stays; -1 without limit. If either of the two is 0, "
            "nothing stays"
        ),
        "ttl_seconds": "when what is not acked is taken for acked; 0 for never",
        "ttl_check_ms": "how often that is looked for",
        "skip_damaged": (
            "whether subscriptions pass over entries that the disk has damaged, or stop there"
        ),
        "backlog_quota_bytes": "how much of a topic may be unacked; -1 without limit",
        "backlog_quota_seconds": "how old the oldest unacked message may be; -1 without limit",
        "backlog_quota_policy": (
            "beyond a quota: `producer_request_hold`, `producer_exception` or "
            "`consumer_backlog_eviction`"
        ),
        "backlog_quota_check_ms": "how often quotas are checked",
    },
    "Producers and schemas": {
        "deduplication": "whether a message with a sequence id that was seen is dropped",
        "deduplication_snapshot_entries": "after how many entries what was seen is written down",
        "deduplication_max_producers": "producers of one topic that are remembered",
        "schema_compatibility": "which new schemas a topic takes",
        "schema_validation_enforced": (
            "whether producers without a schema are refused where the topic has one"
        ),
        "schema_size_max": "bytes that the definition of a schema may have",
    },
    "Subscriptions and dispatch": {
        "subscription_types": "the types that may be used",
        "batch_index_ack": (
            "whether single messages of a batch can be acked. Without it whole batches come "
            "back, an ack of a single one is refused, and a cumulative one acks what is "
            "before its batch"
        ),
        "max_ack_state_bytes_per_request": (
            "memory that the partly acked batches of one ack or skip may take; 1000 messages in a "
            "batch take 270 bytes, and acks of whole batches take nothing. 0 is no limit"
        ),
        "max_ack_state_bytes_per_subscription": "the same for all that a subscription has",
        "max_ack_state_bytes": "the same for all subscriptions of the broker",
        "max_unacked_per_consumer": (
            "messages that a consumer may hold unacked (Shared, Key_Shared)"
        ),
        "max_unacked_per_subscription": (
            "messages that all consumers of a subscription may hold unacked"
        ),
        "delayed_delivery": "whether messages are held back until the time that they ask for",
        "delayed_delivery_tick_ms": (
            "shown to who asks for the policy, and without effect: delayed messages are due to "
            "the millisecond"
        ),
        "delayed_delivery_max_ms": "the longest delay that is taken; 0 for any",
        "dispatch_round_robin_entries": (
            "entries that one consumer gets before it is the next one's turn"
        ),
        "dispatch_read_entries": "entries that are read at a time",
        "dispatch_read_bytes": "bytes that are read at a time",
        "failover_delay_ms": "how long a change of the active consumer waits",
        "skip_recall_ms": (
            "how long skipByMessageIds waits for consumers to give back what they have queued "
            "of the skipped messages; 0 leaves it to them"
        ),
        "key_shared_consistent_hashing": "by hash ring; otherwise ranges are halved",
        "key_shared_points": "points of each consumer on that ring",
        "key_shared_look_ahead_per_consumer": (
            "entries of blocked keys that may be passed, for each consumer"
        ),
        "key_shared_look_ahead_per_subscription": "the same for all consumers together",
    },
    "Storage": {
        "fsync": (
            "when receipts go out: after the disk has it (`always`), after the write with an "
            "fsync every so often (`interval`), or after the write (`never`)"
        ),
        "fsync_interval_ms": "how often, in the mode `interval`: what a power cut may cost",
        "cache_bytes": "entries kept in memory for the next reader",
        "segment_bytes": "the size of one file of the log",
        "ledger_entries_max": "a ledger ends at so many entries",
        "ledger_bytes_max": "or at so many bytes",
        "ledger_age_ms_max": "or at this age",
        "watermark_bytes": "publishes are refused when less than this is free on the disk",
    },
    "Who may do what": {
        "authentication": "whether clients must prove who they are, on both ports",
        "authorization": (
            "whether those who did may do only what their role was granted; has a meaning "
            "with `authentication` only"
        ),
        "super_user_roles": "roles that may do everything",
        "anonymous_role": "the role of clients that prove nothing; without one they are refused",
        "authenticate_metrics": (
            "whether `/metrics` asks who is there, too; without `authentication` it is for "
            "loopback addresses alone then"
        ),
        "authentication_refresh_ms": (
            "how long a connected client has to bring a new token after its own expired"
        ),
        "token_secret_key": (
            "the secret that tokens are signed with: a path, `file:` or `data:;base64,`"
        ),
        "token_public_key": "or the public key that they are checked by, in PEM or DER form",
        "token_role_claim": "the claim of a token that names the role",
        "token_audience_claim": "the claim that says for whom a token is",
        "token_audience": "what that claim must contain; anything, if this is not given",
        "token_clock_skew_seconds": "how far the clock that made a token may be off",
        "token_revoked_file": "tokens that were taken back, one `jti ID` or `role NAME` per line; "
        "read again when it changes",
        "tls_certificate_file": (
            "the broker's certificate and those of its issuers, in PEM form; with it TLS "
            "ports are opened"
        ),
        "tls_key_file": "the private key of that certificate",
        "tls_trust_certs_file": "issuers of client certificates, whose common name is the role",
        "tls_crl_file": (
            "certificates that were revoked: the lists (CRLs) of all those issuers, in PEM form"
        ),
        "tls_require_client_certificate": (
            "whether a TLS connection without such a certificate is refused"
        ),
        "tls_refresh_seconds": (
            "how often those files are looked at, and read again if they changed"
        ),
    },
}
