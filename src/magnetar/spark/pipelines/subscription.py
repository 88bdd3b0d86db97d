"""A subscription as admin REST tells of it, over all partitions of its topic."""

from typing import Any

from magnetar.errors import (
    NotAllowedError,
    OperationNotSupported,
    SettingsError,
    SubscriptionNotFound,
    TopicNotFound,
)
from magnetar.model import TopicName
from magnetar.model.subscription_type import SUBSCRIPTION_TYPES
from magnetar.rest.path import subscription_path, topic_path
from magnetar.spark.rest import Rest

__all__ = ["IN_ORDER", "Subscription", "partitions_of", "subscriptions_of"]

# Of these, messages cannot be skipped one by one, and none is delayed.
IN_ORDER = tuple(type.name for type in SUBSCRIPTION_TYPES if type.has_active)


class Subscription:
    """One subscription; what is asked is asked of the broker each time."""

    def __init__(self, rest: Rest, topic: str, subscription: str) -> None:
        """Raises TopicNotFound, SubscriptionNotFound, SettingsError."""
        if not subscription:
            raise SettingsError("subscription", "it has no name")
        self.rest = rest
        self.topic: str = str(TopicName.parse(topic))
        self.name = subscription
        self.partitions: list[str] = partitions_of(rest, self.topic)
        self.stats()

    def stats(self) -> dict[str, Any]:
        """Stats by topic partition; those where it does not exist are left out."""
        found: dict[str, Any] = {}
        others: set[str] = set()
        for partition in self.partitions:
            there = self.rest.get(topic_path(partition, "stats"))["subscriptions"]
            others.update(there)
            if self.name in there:
                found[partition] = there[self.name]
        if not found:
            names = f"there are {', '.join(sorted(others))}" if others else "there is none"
            raise SubscriptionNotFound(f"{self.topic} has no subscription {self.name}: {names}")
        return found

    def backlog(self) -> int:
        """Returns how many messages are not acknowledged."""
        stats = self.stats().values()
        if any("msgBacklogMessages" not in one for one in stats):
            raise OperationNotSupported(
                "this broker does not tell single messages of a backlog: it is not Magnetar"
            )
        return sum(int(one["msgBacklogMessages"]) for one in stats)

    def require_skips(self) -> None:
        """Raises NotAllowedError if single messages of it cannot be skipped."""
        for partition, one in self.stats().items():
            if one["type"] in IN_ORDER:
                raise NotAllowedError(
                    f"{self.name} of {partition} is {one['type']}: single messages are skipped on "
                    "Shared and Key_Shared ones only, which it is once such a consumer subscribes"
                )

    def path(self, partition: str, *more: str) -> str:
        return subscription_path(partition, self.name, *more)


def partitions_of(rest: Rest, topic: str) -> list[str]:
    """Returns the topic partitions of a topic, or itself. Raises TopicNotFound."""
    name = TopicName.parse(topic)
    if not name.persistent:
        raise SettingsError("topic", f"{name} is not persistent: it stores nothing")
    try:
        count = int(rest.get(topic_path(topic, "partitions"))["partitions"])
        if count > 0:
            return [str(name.with_partition(number)) for number in range(count)]
        rest.get(topic_path(topic, "stats"))
    except TopicNotFound:
        raise TopicNotFound(f"there is no topic {name}") from None
    return [str(name)]


def subscriptions_of(rest: Rest, topic: str) -> list[str]:
    """Returns the durable subscriptions of a topic."""
    found: set[str] = set()
    for partition in partitions_of(rest, topic):
        stats = rest.get(topic_path(partition, "stats"))["subscriptions"]
        found.update(name for name, one in stats.items() if one.get("isDurable", True))
    return sorted(found)
