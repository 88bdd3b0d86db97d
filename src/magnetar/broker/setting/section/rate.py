"""Settings of rates: how much may be published, handed out and subscribed in a time."""

from dataclasses import dataclass, field

from mypy_extensions import trait

from magnetar.broker.setting.setting import BOOL, BYTES, COUNT, SECONDS, says

__all__ = ["RateSettings"]


@trait
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RateSettings:
    """Part of `BrokerSettings`; in the manual under "Rates"."""

    publish_rate_messages: int = field(
        default=0,
        metadata=says(
            COUNT,
            "messages that all producers together may publish in a second",
            conf={"brokerPublisherThrottlingMaxMessageRate": 1},
        ),
    )
    publish_rate_bytes: int = field(
        default=0,
        metadata=says(
            BYTES,
            "the same in bytes",
            conf={"brokerPublisherThrottlingMaxByteRate": 1},
        ),
    )
    publish_rate_per_topic_messages: int = field(
        default=0,
        metadata=says(
            COUNT,
            "messages that may be published to a topic in a second",
            conf={"maxPublishRatePerTopicInMessages": 1},
        ),
    )
    publish_rate_per_topic_bytes: int = field(
        default=0,
        metadata=says(
            BYTES,
            "the same in bytes",
            conf={"maxPublishRatePerTopicInBytes": 1},
        ),
    )
    dispatch_rate_messages: int = field(
        default=0,
        metadata=says(
            COUNT,
            "messages that all consumers together are sent in a second",
            conf={"dispatchThrottlingRateInMsg": 1},
        ),
    )
    dispatch_rate_bytes: int = field(
        default=0,
        metadata=says(
            BYTES,
            "the same in bytes",
            conf={"dispatchThrottlingRateInByte": 1},
        ),
    )
    dispatch_rate_per_topic_messages: int = field(
        default=0,
        metadata=says(
            COUNT,
            "messages that the consumers of a topic are sent in a second",
            conf={"dispatchThrottlingRatePerTopicInMsg": 1},
        ),
    )
    dispatch_rate_per_topic_bytes: int = field(
        default=0,
        metadata=says(
            BYTES,
            "the same in bytes",
            conf={"dispatchThrottlingRatePerTopicInByte": 1},
        ),
    )
    dispatch_rate_per_subscription_messages: int = field(
        default=0,
        metadata=says(
            COUNT,
            "messages that the consumers of a subscription are sent in a second",
            conf={"dispatchThrottlingRatePerSubscriptionInMsg": 1},
        ),
    )
    dispatch_rate_per_subscription_bytes: int = field(
        default=0,
        metadata=says(
            BYTES,
            "the same in bytes",
            conf={"dispatchThrottlingRatePerSubscriptionInByte": 1},
        ),
    )
    dispatch_rate_relative: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "the dispatch rates of topics and subscriptions above are added to what is published",
            conf={"dispatchThrottlingRateRelativeToPublishRate": 1},
        ),
    )
    dispatch_rate_by_entry: bool = field(
        default=False,
        metadata=says(
            BOOL,
            "a batch counts as one message for dispatch rates",
            conf={"dispatchThrottlingOnBatchMessageEnabled": 1},
        ),
    )
    dispatch_rate_without_backlog: bool = field(
        default=True,
        metadata=says(
            BOOL,
            "dispatch rates hold for subscriptions with less than 1000 entries of backlog too",
            conf={"dispatchThrottlingOnNonBacklogConsumerEnabled": 1},
        ),
    )
    subscribe_rate_per_consumer: int = field(
        default=0,
        metadata=says(
            COUNT,
            "how often a consumer may subscribe to a topic in a period",
            conf={"subscribeThrottlingRatePerConsumer": 1},
        ),
    )
    subscribe_rate_period_seconds: int = field(
        default=30,
        metadata=says(
            SECONDS,
            "the period of that",
            low=1,
            conf={"subscribeRatePeriodPerConsumerInSecond": 1},
        ),
    )
