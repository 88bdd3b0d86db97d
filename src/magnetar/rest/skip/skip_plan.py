"""Skipping by id, whatever the server is: the request, or else what a consumer must ack."""

from collections.abc import Iterable

from magnetar.errors import SettingsError
from magnetar.model import MessageId, TopicName
from magnetar.rest.admin_error import AdminError, NotFoundError
from magnetar.rest.id_text import as_message_id
from magnetar.rest.path import topic_path
from magnetar.rest.request import Plan, Request
from magnetar.rest.skip.ack_plan import AckPlan, plan_acks
from magnetar.rest.skip.skip_request import BODY_BYTES_MAX, skip_part, skip_parts
from magnetar.rest.skip.skipped import Skipped

__all__ = ["require_subscription", "skip_or_plan"]


def require_subscription(topic: TopicName, subscription: str) -> Plan[None]:
    """Raises AdminError if the topic or the subscription is not there."""
    names = (yield Request("GET", topic_path(topic, "subscriptions"))).json()
    if not isinstance(names, list) or subscription not in names:
        raise NotFoundError(404, f"{topic} has no subscription {subscription!r}")


def skip_or_plan(
    topic: str,
    subscription: str,
    message_ids: "Iterable[MessageId | str]",
    *,
    recall: bool | None = None,
    bytes_max: int = BODY_BYTES_MAX,
) -> "Plan[Skipped | AckPlan]":
    """Skips messages by their ids; or, where the server lacks that, plans the acks that do it.

    Raises AdminError and what is a UsageError.
    """
    name = TopicName.parse(topic)
    ids = [as_message_id(id) for id in message_ids]
    if not ids:
        raise SettingsError("message_ids", "no ids were given")
    try:
        return (yield from _skip(name, subscription, ids, recall, bytes_max))
    except NotFoundError:
        # If all that was named is there, it is the request that is not.
        yield from require_subscription(name, subscription)
    return (yield from plan_acks(name, subscription, ids))


def _skip(
    topic: TopicName, subscription: str, ids: list[MessageId], recall: bool | None, bytes_max: int
) -> Plan[Skipped]:
    parts = yield from skip_parts(topic, ids, bytes_max)
    found: Skipped | None = None
    for number, part in enumerate(parts):
        try:
            one = yield from skip_part(topic, subscription, part, recall=recall)
        except AdminError as error:
            if number:
                error.add_note(
                    f"{number} of {len(parts)} requests are done, and the others changed "
                    "nothing: the same call once more does the rest"
                )
            raise
        found = one if found is None else found + one
    assert found is not None
    return found
