"""Settings of sessions: names, addresses, and what one peer may have under way."""

from dataclasses import dataclass, field

from mypy_extensions import trait

from magnetar.broker.setting.setting import (
    BOOL,
    BYTES,
    COUNT,
    MIB,
    MS,
    NAMES,
    SECOND_MS,
    TEXT,
    says,
)

__all__ = ["SessionSettings"]


@trait
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SessionSettings:
    """Part of `BrokerSettings`; in the manual under "Sessions"."""

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
    advertised_listeners: tuple[str, ...] = field(
        default=(),
        metadata=says(
            NAMES,
            "addresses for clients of several networks, each as `NAME:pulsar://HOST:PORT` (or "
            "`pulsar+ssl://`, `http://`, `https://`); a client names the one that it wants",
            optional=True,
            conf={"advertisedListeners": 1},
        ),
    )
    internal_listener_name: str = field(
        default="",
        metadata=says(
            TEXT,
            "the listener for clients that name none; without it the first",
            optional=True,
            conf={"internalListenerName": 1},
        ),
    )
    websocket: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "whether the HTTP ports take WebSockets that produce, consume and read, at `/ws/v2`",
            conf={"webSocketServiceEnabled": 1},
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
