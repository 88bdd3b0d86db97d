"""Settings of topics: which there are, when they are created and deleted, and how many."""

from dataclasses import dataclass, field
from typing import Final

from mypy_extensions import trait

from magnetar.broker.setting.setting import BOOL, COUNT, MINUTES, MS, SECOND_MS, TEXT, says

__all__ = [
    "DELETE_WHEN_CAUGHT_UP",
    "DELETE_WHEN_NO_SUBSCRIPTIONS",
    "INACTIVE_MODES",
    "TopicSettings",
]

DELETE_WHEN_NO_SUBSCRIPTIONS: Final = "delete_when_no_subscriptions"
DELETE_WHEN_CAUGHT_UP: Final = "delete_when_subscriptions_caught_up"
INACTIVE_MODES: Final = (DELETE_WHEN_NO_SUBSCRIPTIONS, DELETE_WHEN_CAUGHT_UP)


@trait
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TopicSettings:
    """Part of `BrokerSettings`; in the manual under "Topics"."""

    persistent: bool = field(
        default=True,
        metadata=says(
            BOOL, "whether there are persistent topics", conf={"enablePersistentTopics": 1}
        ),
    )
    non_persistent: bool = field(
        default=True,
        metadata=says(
            BOOL, "whether there are non-persistent topics", conf={"enableNonPersistentTopics": 1}
        ),
    )
    auto_create_topics: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "whether a topic is created when somebody produces to it or subscribes",
            conf={"allowAutoTopicCreation": 1},
        ),
    )
    # 0 creates topics that are not partitioned.
    auto_create_partitions: int = field(
        default=0,
        metadata=says(
            COUNT,
            "partitions of a topic that is created so; 0 for one that is not partitioned",
            conf={
                # Counts if `allowAutoTopicCreationType` is `partitioned`.
                "defaultNumPartitions": 1,
                "allowAutoTopicCreationType": 1,
            },
        ),
    )
    auto_create_subscriptions: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "whether a subscription is created when somebody subscribes",
            conf={"allowAutoSubscriptionCreation": 1},
        ),
    )
    subscription_expiration_minutes: int = field(
        default=0,
        metadata=says(
            MINUTES,
            "after how long nobody joins a subscription it is deleted; 0 is never",
            conf={"subscriptionExpirationTimeMinutes": 1},
        ),
    )
    delete_inactive_topics: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "whether topics that nobody uses are deleted",
            conf={"brokerDeleteInactiveTopicsEnabled": 1},
        ),
    )
    inactive_topic_ms: int = field(
        default=60_000,
        metadata=says(
            MS,
            "after how long without use a topic is deleted",
            low=1,
            conf={
                # In Pulsar too the first stands in for the second where that one is not given.
                "brokerDeleteInactiveTopicsFrequencySeconds": SECOND_MS,
                "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": SECOND_MS,
            },
        ),
    )
    inactive_topic_mode: str = field(
        default=DELETE_WHEN_NO_SUBSCRIPTIONS,
        metadata=says(
            TEXT,
            "`delete_when_no_subscriptions` or `delete_when_subscriptions_caught_up`",
            choices=INACTIVE_MODES,
            conf={"brokerDeleteInactiveTopicsMode": 1},
        ),
    )
    max_topics_per_namespace: int = field(
        default=0,
        metadata=says(
            COUNT,
            "topics of one namespace, each partition counted",
            conf={"maxTopicsPerNamespace": 1},
        ),
    )
    max_partitions_per_topic: int = field(
        default=0,
        metadata=says(
            COUNT, "partitions of one topic", conf={"maxNumPartitionsPerPartitionedTopic": 1}
        ),
    )
    max_producers_per_topic: int = field(
        default=0,
        metadata=says(
            COUNT, "producers of one topic, or of one partition", conf={"maxProducersPerTopic": 1}
        ),
    )
    max_consumers_per_topic: int = field(
        default=0,
        metadata=says(
            COUNT, "consumers of one topic, or of one partition", conf={"maxConsumersPerTopic": 1}
        ),
    )
    max_consumers_per_subscription: int = field(
        default=0,
        metadata=says(
            COUNT, "consumers of one subscription", conf={"maxConsumersPerSubscription": 1}
        ),
    )
    max_subscriptions_per_topic: int = field(
        default=0,
        metadata=says(COUNT, "subscriptions of one topic", conf={"maxSubscriptionsPerTopic": 1}),
    )
    topic_watchers: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "whether clients that subscribe to a pattern are told of new topics",
            conf={
                # Until 4.1 the first switched what the second switches since.
                "enableBrokerSideSubscriptionPatternEvaluation": 1,
                "enableBrokerTopicListWatcher": 1,
            },
        ),
    )
    # Patterns are matched for every topic of a namespace: long ones are costly.
    topics_pattern_length_max: int = field(
        default=50,
        metadata=says(
            COUNT,
            "the longest pattern of topics, in characters",
            low=1,
            conf={"subscriptionPatternMaxLength": 1},
        ),
    )
