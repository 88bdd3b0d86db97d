"""Policies of topics and namespaces, as values."""

from msgspec import field

from magnetar.rest.response.record import Record

__all__ = ["BacklogQuota", "DelayedDelivery", "Retention"]


class Retention(Record, frozen=True):
    """How long, and how much of, what every subscription has acked is kept."""

    retention_time_in_minutes: int = 0
    """Minutes; 0 keeps nothing, -1 keeps it for ever."""
    retention_size_in_mb: int = field(default=0, name="retentionSizeInMB")
    """Mebibytes; 0 keeps nothing, -1 sets no limit."""


class BacklogQuota(Record, frozen=True):
    """How large a backlog may become, and what happens then."""

    limit_size: int = -1
    """Bytes; -1 sets no limit."""
    limit_time: int = -1
    """Seconds; -1 sets no limit."""
    policy: str = "producer_request_hold"
    """`producer_request_hold`, `producer_exception` or `consumer_backlog_eviction`."""


class DelayedDelivery(Record, frozen=True):
    """Whether messages may be delayed."""

    active: bool = True
    """Whether a message's delay is respected."""
    tick_time: int = 1000
    """How exact the delivery is, in ms."""
    max_delivery_delay_in_millis: int = 0
    """The longest delay, in ms; 0 sets no limit."""
