"""What jobs ask of a broker's admin REST besides: deduplication, and limits of topics."""

from magnetar.arrow import rest
from magnetar.rest.path import topic_path

__all__ = ["Rest"]


class Rest(rest.Rest):
    """See `magnetar.arrow.rest`."""

    def deduplicates(self, topic: str) -> bool:
        """Returns whether the broker is to drop what a producer sends again, on this topic."""
        said = self.get(topic_path(topic, "deduplicationEnabled"), applied=True)
        return said is True

    def is_deduplicating(self, partition: str) -> bool:
        """Returns whether it does so, on a topic partition that is in use."""
        stats = self.get(topic_path(partition, "stats"))
        return bool(stats["deduplicationStatus"] == "Enabled")

    def message_size_max(self, topic: str) -> int:
        """Returns how large the topic lets entries be; 0 if it does not say."""
        return int(self.get(topic_path(topic, "maxMessageSize"), applied=True) or 0)

    def delay_max_ms(self, topic: str) -> int:
        """Returns for how long the topic lets messages be delayed; 0 is for ever."""
        found = self.get(topic_path(topic, "delayedDelivery"), applied=True) or {}
        return int(found.get("maxDeliveryDelayInMillis") or 0)

    def deduplicate(self, topic: str) -> None:
        """Sets the policy on the topic."""
        self.post(topic_path(topic, "deduplicationEnabled"), True)
