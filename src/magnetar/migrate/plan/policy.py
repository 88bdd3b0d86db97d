"""Which policies a move takes over, and where admin REST has each.

They are told to the target last, when everything else is there: a quota, a time to live or a limit
would harm what is being copied. What both sides answer alike is not told again.
"""

from typing import Final, NamedTuple

__all__ = ["NAMESPACE_POLICIES", "TOPIC_POLICIES", "MovedPolicy"]


class MovedPolicy(NamedTuple):
    """The last piece of a policy's path, and how it is told."""

    name: str
    method: str = "POST"
    # Where it is told, if it is asked for elsewhere: once for each kind of it.
    told_at: str = ""
    # Told in the query, by this name.
    in_query: str = ""


# Topics and namespaces have these by the same names.
_BOTH: Final = (
    MovedPolicy("retention"),
    MovedPolicy("backlogQuotaMap", told_at="backlogQuota"),
    MovedPolicy("delayedDelivery"),
    MovedPolicy("subscriptionTypesEnabled"),
    MovedPolicy("inactiveTopicPolicies"),
    MovedPolicy("maxSubscriptionsPerTopic"),
    MovedPolicy("maxConsumersPerSubscription"),
    MovedPolicy("dispatchRate"),
    MovedPolicy("subscriptionDispatchRate"),
    MovedPolicy("subscribeRate"),
    MovedPolicy("schemaCompatibilityStrategy", "PUT"),
)
NAMESPACE_POLICIES: Final = (
    *_BOTH,
    MovedPolicy("messageTTL"),
    MovedPolicy("deduplication"),
    MovedPolicy("deduplicationSnapshotInterval"),
    MovedPolicy("compactionThreshold", "PUT"),
    MovedPolicy("maxProducersPerTopic"),
    MovedPolicy("maxConsumersPerTopic"),
    MovedPolicy("maxTopicsPerNamespace"),
    MovedPolicy("maxUnackedMessagesPerConsumer"),
    MovedPolicy("maxUnackedMessagesPerSubscription"),
    MovedPolicy("subscriptionExpirationTime"),
    MovedPolicy("autoTopicCreation"),
    MovedPolicy("autoSubscriptionCreation"),
    MovedPolicy("schemaValidationEnforced"),
    MovedPolicy("encryptionRequired"),
)
TOPIC_POLICIES: Final = (
    *_BOTH,
    MovedPolicy("messageTTL", in_query="messageTTL"),
    MovedPolicy("deduplicationEnabled"),
    MovedPolicy("compactionThreshold"),
    MovedPolicy("maxProducers"),
    MovedPolicy("maxConsumers"),
    MovedPolicy("maxMessageSize"),
    MovedPolicy("maxUnackedMessagesOnConsumer"),
    MovedPolicy("maxUnackedMessagesOnSubscription"),
    MovedPolicy("publishRate"),
)
