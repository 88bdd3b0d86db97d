"""`magnetar status --json`: the same figures for programs."""

from magnetar.cli.status.broker_view import BrokerView
from magnetar.cli.status.survey import Survey
from magnetar.cli.status.view import SubscriptionView, TopicView, oldest
from magnetar.cli.status.warning import Warned

__all__ = ["report"]


def report(broker: BrokerView, found: Survey, warned: list[Warned]) -> dict[str, object]:
    """Returns all of it as one document; null is what nobody told."""
    views = list(found.topics.values())
    return {
        "url": broker.url,
        "version": broker.version,
        "upSeconds": broker.up_s,
        "connections": broker.connections,
        "msgRateIn": sum(view.rate_in for view in views),
        "msgThroughputIn": sum(view.bytes_in for view in views),
        "msgRateOut": sum(view.rate_out for view in views),
        "msgThroughputOut": sum(view.bytes_out for view in views),
        "backlog": sum(view.backlog for view in views),
        "backlogCounts": "messages" if all(view.in_messages for view in views) else "entries",
        "oldestUnackedPublishTime": _time(oldest([view.oldest_ms for view in views])),
        "storageSize": sum(view.storage_bytes for view in views),
        "freeBytes": broker.free_bytes,
        "topics": [_topic(view) for view in views],
        "warnings": [{"text": one.text, "wrong": one.wrong} for one in warned],
        "missing": found.notes(),
    }


def _topic(view: TopicView) -> dict[str, object]:
    return {
        "name": view.name,
        "partitions": view.partitions,
        "known": view.known,
        "msgRateIn": view.rate_in,
        "msgRateOut": view.rate_out,
        "backlog": view.backlog,
        "oldestUnackedPublishTime": _time(view.oldest_ms),
        "storageSize": view.storage_bytes,
        "producers": view.producers,
        "consumers": view.consumers,
        "subscriptions": {
            name: _subscription(one) for name, one in sorted(view.subscriptions.items())
        },
    }


def _subscription(one: SubscriptionView) -> dict[str, object]:
    return {
        "backlog": one.backlog,
        "msgDelayed": one.delayed,
        "unackedMessages": one.unacked,
        "consumers": one.consumers,
        "msgRateOut": one.rate_out,
        "oldestUnackedPublishTime": _time(one.oldest_ms),
    }


def _time(oldest_ms: int | None) -> int | None:
    """Returns ms since 1970; None if nothing is unacked, or nobody knows."""
    return oldest_ms or None
