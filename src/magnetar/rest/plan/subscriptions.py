"""Plans about subscriptions: made, listed, skipped on, reset, expired, deleted."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from magnetar.errors import SettingsError
from magnetar.rest.id_text import Where, place_json, time_ms
from magnetar.rest.path import subscription_path, topic_path
from magnetar.rest.request import Plan, Request
from magnetar.rest.response.internal_stats import AckState, BacklogAnalysis

__all__ = [
    "ack_state",
    "analyze_backlog",
    "create",
    "delete",
    "expire",
    "list_subscriptions",
    "properties",
    "reset",
    "set_properties",
    "skip",
    "skip_all",
]


def list_subscriptions(topic: str) -> Plan[list[str]]:
    """Returns the names of all subscriptions of a topic."""
    return (yield Request("GET", topic_path(topic, "subscriptions"))).as_type(list[str])


def create(
    topic: str,
    subscription: str,
    *,
    position: Where = "latest",
    properties: Mapping[str, str] | None = None,
) -> Plan[None]:
    """Creates a subscription that begins at a position: `earliest`, `latest` or a message's id.

    Raises ConflictError if it is there.
    """
    body: dict[str, object] = {**place_json("position", position)}
    if properties:
        body["properties"] = dict(properties)
    yield Request("PUT", subscription_path(topic, subscription), body)


def delete(topic: str, subscription: str, *, force: bool = False) -> Plan[None]:
    """Deletes a subscription. Raises PreconditionFailedError if consumers use it, unless forced."""
    yield Request("DELETE", subscription_path(topic, subscription), query={"force": force})


def skip(topic: str, subscription: str, count: int) -> Plan[None]:
    """Skips the next `count` entries of a backlog; `skip_messages` skips by id."""
    yield Request("POST", subscription_path(topic, subscription, "skip", str(count)))


def skip_all(topic: str, subscription: str) -> Plan[None]:
    """Acks everything: the backlog is empty then."""
    yield Request("POST", subscription_path(topic, subscription, "skip_all"))


def reset(
    topic: str, subscription: str, to: "Where | datetime | int", *, exclusive: bool = False
) -> Plan[None]:
    """Moves a subscription back or forth: what lies behind the position is delivered again.

    The position is `earliest`, `latest`, a message's id, or the time of publishing as a datetime
    with a time zone or ms since 1970. With `exclusive`, delivery begins behind the message.
    """
    if isinstance(to, datetime | int):
        if exclusive:
            raise SettingsError("exclusive", "is for a message's id, and a time was given")
        path = subscription_path(topic, subscription, "resetcursor", str(time_ms(to)))
        yield Request("POST", path)
        return
    body = {**place_json("to", to), "isExcluded": exclusive}
    yield Request("POST", subscription_path(topic, subscription, "resetcursor"), body)


def expire(topic: str, subscription: str, older_than: timedelta | int) -> Plan[None]:
    """Acks all messages that are older: a timedelta, or seconds."""
    whole = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
    path = subscription_path(topic, subscription, "expireMessages", str(int(whole)))
    yield Request("POST", path)


def properties(topic: str, subscription: str) -> Plan[dict[str, str]]:
    """Returns the properties of a subscription."""
    answer = yield Request("GET", subscription_path(topic, subscription, "properties"))
    return answer.as_type(dict[str, str])


def set_properties(topic: str, subscription: str, properties: Mapping[str, str]) -> Plan[None]:
    """Replaces the properties of a subscription."""
    yield Request("PUT", subscription_path(topic, subscription, "properties"), dict(properties))


def analyze_backlog(topic: str, subscription: str) -> Plan[BacklogAnalysis]:
    """Returns how many entries and messages of a topic, or of one partition, are not acked."""
    answer = yield Request("POST", subscription_path(topic, subscription, "analyzeBacklog"))
    return answer.as_type(BacklogAnalysis)


def ack_state(
    topic: str, subscription: str, *, limit: int | None = None, start: str | None = None
) -> Plan[AckState]:
    """Returns what is acked, exactly: holes, and batches that are acked in part.

    Apache Pulsar has no such request, and raises NotFoundError. A long state comes in pages: give
    `next` of one as `start` of the following.
    """
    query = {"limit": limit, "from": start}
    path = subscription_path(topic, subscription, "ackState")
    return (yield Request("GET", path, query=query)).as_type(AckState)
