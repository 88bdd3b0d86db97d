"""The values of policies, and the JSON that Pulsar's REST has for them.

Every reader raises SettingsError under the name of the policy, with what is wrong and what to
give instead. A field that Pulsar has and we do not know is passed over: newer clients may send
more.
"""

from collections.abc import Mapping
from typing import Final, final

from magnetar.broker.setting.section.retention import BACKLOG_POLICIES
from magnetar.broker.setting.section.topic import INACTIVE_MODES
from magnetar.broker.setting.setting import COUNT_MAX, INT_MAX, MEBIBYTES_MAX, MS_MAX
from magnetar.errors import SettingsError
from magnetar.model.subscription_type import TYPE_NAMES

__all__ = [
    "DESTINATION_STORAGE",
    "MESSAGE_AGE",
    "AutoTopicCreation",
    "BacklogQuota",
    "DelayedDelivery",
    "InactiveTopics",
    "RetentionTime",
    "read_auto_topic_creation",
    "read_backlog_quota",
    "read_backlog_quotas",
    "read_choice",
    "read_delayed_delivery",
    "read_flag",
    "read_flag_of",
    "read_inactive_topics",
    "read_number",
    "read_object",
    "read_quota_kind",
    "read_retention",
    "read_subscription_types",
    "shown",
]

# The kinds of backlog quotas. The third that Pulsar's documents name is a policy, not a kind.
DESTINATION_STORAGE: Final = "destination_storage"
MESSAGE_AGE: Final = "message_age"


@final
class RetentionTime:
    """How long and how much of what is acked stays. -1 is without limit."""

    def __init__(self, minutes: int, mb: int) -> None:
        self.minutes: Final = minutes
        self.mb: Final = mb

    def to_json(self) -> dict[str, object]:
        return {"retentionTimeInMinutes": self.minutes, "retentionSizeInMB": self.mb}


@final
class BacklogQuota:
    """How much may be unacked, and what happens beyond. Below 0 there is no limit."""

    def __init__(self, limit_size: int, limit_time: int, policy: str) -> None:
        self.limit_size: Final = limit_size
        self.limit_time: Final = limit_time
        self.policy: Final = policy

    def to_json(self) -> dict[str, object]:
        return {
            "limit": self.limit_size,
            "limitSize": self.limit_size,
            "limitTime": self.limit_time,
            "policy": self.policy,
        }


@final
class DelayedDelivery:
    """Whether messages may wait, and how long at most (0: any time).

    The tick is Pulsar's. Here each message is delivered at its own time.
    """

    def __init__(self, active: bool, tick_ms: int, max_delay_ms: int) -> None:
        self.active: Final = active
        self.tick_ms: Final = tick_ms
        self.max_delay_ms: Final = max_delay_ms

    def to_json(self) -> dict[str, object]:
        return {
            "active": self.active,
            "tickTime": self.tick_ms,
            "maxDeliveryDelayInMillis": self.max_delay_ms,
        }


@final
class InactiveTopics:
    """When a topic that nobody uses goes."""

    def __init__(self, mode: str, inactive_ms: int, enabled: bool) -> None:
        self.mode: Final = mode
        self.inactive_ms: Final = inactive_ms
        self.enabled: Final = enabled

    def to_json(self) -> dict[str, object]:
        return {
            "inactiveTopicDeleteMode": self.mode,
            "maxInactiveDurationSeconds": self.inactive_ms // 1000,
            "deleteWhileInactive": self.enabled,
        }


@final
class AutoTopicCreation:
    """Whether a name that is used becomes a topic; 0 partitions is one without any."""

    def __init__(self, allowed: bool, partitions: int) -> None:
        self.allowed: Final = allowed
        self.partitions: Final = partitions

    def to_json(self) -> dict[str, object]:
        if not self.allowed:
            return {"allowAutoTopicCreation": False}
        if self.partitions == 0:
            return {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}
        return {
            "allowAutoTopicCreation": True,
            "topicType": "partitioned",
            "defaultNumPartitions": self.partitions,
        }


# ---- From JSON -------------------------------------------------------------------------


def read_object(name: str, body: object) -> Mapping[str, object]:
    if not isinstance(body, dict):
        raise SettingsError(name, f"{shown(body)} is not a JSON object: give one")
    return body


def read_number(name: str, field: str, value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingsError(name, f"{field} is {shown(value)}: give a whole number")
    if value < low or value > high:
        raise SettingsError(name, f"{field} is {value}: give a number from {low} to {high}")
    return value


def _number_at(
    name: str, fields: Mapping[str, object], field: str, default: int, low: int, high: int
) -> int:
    value = fields.get(field)
    return default if value is None else read_number(name, field, value, low, high)


def read_flag(name: str, field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise SettingsError(name, f"{field} is {shown(value)}: give true or false")
    return value


def read_flag_of(name: str, fields: Mapping[str, object], field: str) -> bool:
    return read_flag(name, field, fields.get(field))


def read_choice(name: str, field: str, value: object, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise SettingsError(name, f"{field} is {shown(value)}: give one of {', '.join(choices)}")
    return value


def shown(value: object) -> str:
    """Returns a value in an error, which is no place for a megabyte of it."""
    text = "missing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def read_retention(name: str, body: object) -> RetentionTime:
    fields = read_object(name, body)
    minutes = _number_at(name, fields, "retentionTimeInMinutes", 0, -1, INT_MAX)
    mb = _number_at(name, fields, "retentionSizeInMB", 0, -1, MEBIBYTES_MAX)
    if (minutes == 0) != (mb == 0):
        raise SettingsError(
            name,
            "one of retentionTimeInMinutes and retentionSizeInMB is 0 and the other is not: give "
            "-1 for the one that shall not limit, or 0 for both to keep nothing",
        )
    return RetentionTime(minutes, mb)


def read_quota_kind(kind: str) -> str:
    if kind not in (DESTINATION_STORAGE, MESSAGE_AGE):
        raise SettingsError(
            "backlogQuota",
            f"{shown(kind)} is not a kind of quota: give {DESTINATION_STORAGE} or {MESSAGE_AGE}",
        )
    return kind


def read_backlog_quota(name: str, body: object) -> BacklogQuota:
    fields = read_object(name, body)
    # Pulsar called the size "limit" once, and still sends both.
    size = _number_at(name, fields, "limit", -1, -COUNT_MAX, COUNT_MAX)
    size = _number_at(name, fields, "limitSize", size, -COUNT_MAX, COUNT_MAX)
    seconds = _number_at(name, fields, "limitTime", -1, -INT_MAX, INT_MAX)
    policy = read_choice(name, "policy", fields.get("policy"), BACKLOG_POLICIES)
    return BacklogQuota(size, seconds, policy)


def read_backlog_quotas(name: str, body: object) -> dict[str, BacklogQuota]:
    fields = read_object(name, body)
    return {read_quota_kind(kind): read_backlog_quota(name, fields[kind]) for kind in fields}


def read_delayed_delivery(name: str, body: object) -> DelayedDelivery:
    fields = read_object(name, body)
    return DelayedDelivery(
        read_flag_of(name, fields, "active"),
        _number_at(name, fields, "tickTime", 0, 0, MS_MAX),
        _number_at(name, fields, "maxDeliveryDelayInMillis", 0, 0, MS_MAX),
    )


def read_inactive_topics(name: str, body: object) -> InactiveTopics:
    fields = read_object(name, body)
    mode = read_choice(
        name, "inactiveTopicDeleteMode", fields.get("inactiveTopicDeleteMode"), INACTIVE_MODES
    )
    enabled = read_flag_of(name, fields, "deleteWhileInactive")
    seconds = read_number(
        name,
        "maxInactiveDurationSeconds",
        fields.get("maxInactiveDurationSeconds"),
        1 if enabled else 0,
        INT_MAX,
    )
    return InactiveTopics(mode, seconds * 1000, enabled)


def read_auto_topic_creation(name: str, body: object) -> AutoTopicCreation:
    fields = read_object(name, body)
    if not read_flag_of(name, fields, "allowAutoTopicCreation"):
        return AutoTopicCreation(False, 0)
    kinds = ("partitioned", "non-partitioned")
    if read_choice(name, "topicType", fields.get("topicType"), kinds) == "partitioned":
        count = fields.get("defaultNumPartitions")
        return AutoTopicCreation(True, read_number(name, "defaultNumPartitions", count, 1, INT_MAX))
    if fields.get("defaultNumPartitions") is not None:
        raise SettingsError(
            name, "defaultNumPartitions has no meaning for non-partitioned topics: leave it out"
        )
    return AutoTopicCreation(True, 0)


def read_subscription_types(name: str, body: object) -> tuple[str, ...]:
    if not isinstance(body, list):
        raise SettingsError(
            name,
            f"{shown(body)} is not a list of types: give some of {', '.join(TYPE_NAMES)}",
        )
    given = [read_choice(name, "a type", one, TYPE_NAMES) for one in body]
    return tuple(one for one in TYPE_NAMES if one in given)
