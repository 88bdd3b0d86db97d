"""Plans about topics: made, listed, looked at, unloaded, ended, deleted."""

from collections.abc import Mapping
from datetime import datetime

from magnetar.model import MessageId, TopicName
from magnetar.rest.id_text import time_ms
from magnetar.rest.path import lookup_path, topic_path, topics_path
from magnetar.rest.request import Plan, Request
from magnetar.rest.response.compaction_status import CompactionStatus
from magnetar.rest.response.internal_stats import InternalStats
from magnetar.rest.response.lookup import Lookup, MessagePlace, PartitionedMetadata
from magnetar.rest.response.topic_stats import TopicStats

__all__ = [
    "compact",
    "compaction_status",
    "create",
    "create_partitioned",
    "delete",
    "delete_compacted_view",
    "internal_stats",
    "last_message_id",
    "list_partitioned",
    "list_topics",
    "lookup",
    "message_id_at",
    "partition_count",
    "properties",
    "stats",
    "terminate",
    "trim",
    "truncate",
    "unload",
    "update_partitions",
]


def list_topics(namespace: str = "public/default", *, persistent: bool = True) -> Plan[list[str]]:
    """Returns the full names of all topics of a namespace, partitions among them."""
    domain = "persistent" if persistent else "non-persistent"
    return (yield Request("GET", topics_path(domain, namespace))).as_type(list[str])


def list_partitioned(
    namespace: str = "public/default", *, persistent: bool = True
) -> Plan[list[str]]:
    """Returns the full names of the partitioned topics of a namespace."""
    domain = "persistent" if persistent else "non-persistent"
    return (yield Request("GET", topics_path(domain, namespace, "partitioned"))).as_type(list[str])


def create(topic: str, *, properties: Mapping[str, str] | None = None) -> Plan[None]:
    """Creates a topic that is not partitioned. Raises ConflictError if it is there."""
    yield Request("PUT", topic_path(topic), dict(properties) if properties else None)


def create_partitioned(topic: str, partitions: int) -> Plan[None]:
    """Creates a topic with so many partitions. Raises ConflictError if it is there."""
    yield Request("PUT", topic_path(topic, "partitions"), partitions)


def update_partitions(topic: str, partitions: int) -> Plan[None]:
    """Gives a partitioned topic more partitions: `partitions` of them in all."""
    yield Request("POST", topic_path(topic, "partitions"), partitions)


def partition_count(topic: str) -> Plan[int]:
    """Returns how many partitions a topic has; 0 if it is not partitioned."""
    answer = yield Request("GET", topic_path(topic, "partitions"))
    return answer.as_type(PartitionedMetadata).partitions


def delete(topic: str, *, force: bool = False) -> Plan[None]:
    """Deletes a topic, partitioned or not, with all its messages.

    Raises PreconditionFailedError if it has subscriptions or producers, unless `force` is true.
    """
    pieces = ("partitions",) if (yield from _is_partitioned(topic)) else ()
    yield Request("DELETE", topic_path(topic, *pieces), query={"force": force})


def stats(
    topic: str, *, backlog_size: bool = False, earliest_time: bool = False
) -> Plan[TopicStats]:
    """Returns what goes on in a topic; of a partitioned one the sums, and each partition.

    `backlog_size` asks for the bytes of each backlog too, `earliest_time` for the time of its
    oldest message.
    """
    name = "partitioned-stats" if (yield from _is_partitioned(topic)) else "stats"
    query = {
        "getPreciseBacklog": True,
        "subscriptionBacklogSize": backlog_size,
        "getEarliestTimeInBacklog": earliest_time,
    }
    return (yield Request("GET", topic_path(topic, name), query=query)).as_type(TopicStats)


def _is_partitioned(topic: str) -> Plan[bool]:
    name = TopicName.parse(topic)
    return name.partition < 0 and (yield from partition_count(topic)) > 0


def internal_stats(topic: str) -> Plan[InternalStats]:
    """Returns the ledgers and cursors of a topic, or of one partition."""
    return (yield Request("GET", topic_path(topic, "internalStats"))).as_type(InternalStats)


def properties(topic: str) -> Plan[dict[str, str]]:
    """Returns the properties that a topic was created with."""
    return (yield Request("GET", topic_path(topic, "properties"))).as_type(dict[str, str])


def last_message_id(topic: str) -> Plan[MessageId]:
    """Returns the id of the last message of a topic, or of one partition."""
    answer = yield Request("GET", topic_path(topic, "lastMessageId"))
    return answer.as_type(MessagePlace).message_id()


def message_id_at(topic: str, time: datetime | int) -> Plan[MessageId]:
    """Returns the first message that was published at a time or later; else the last one.

    The time is a datetime with a time zone, or ms since 1970.
    """
    answer = yield Request("GET", topic_path(topic, "messageid", str(time_ms(time))))
    return answer.as_type(MessagePlace).message_id()


def lookup(topic: str) -> Plan[Lookup]:
    """Returns where the broker is that serves a topic, or one partition."""
    return (yield Request("GET", lookup_path(topic))).as_type(Lookup)


def unload(topic: str) -> Plan[None]:
    """Takes a topic out of memory; clients connect again."""
    yield Request("PUT", topic_path(topic, "unload"))


def terminate(topic: str) -> Plan[MessageId]:
    """Ends a topic for good: it takes no more messages. Returns the id of the last one."""
    answer = yield Request("POST", topic_path(topic, "terminate"))
    return answer.as_type(MessagePlace).message_id()


def truncate(topic: str) -> Plan[None]:
    """Deletes all messages of a topic, acked or not."""
    yield Request("DELETE", topic_path(topic, "truncate"))


def trim(topic: str) -> Plan[None]:
    """Deletes now what retention no longer keeps."""
    yield Request("POST", topic_path(topic, "trim"))


def compact(topic: str) -> Plan[None]:
    """Begins to compact a topic: its last message of each key, beside the topic.

    Raises ConflictError if it is being compacted already.
    """
    yield Request("PUT", topic_path(topic, "compaction"))


def delete_compacted_view(topic: str) -> Plan[None]:
    """Deletes the compacted view of a topic; the topic itself stays as it is."""
    yield Request("DELETE", topic_path(topic, "compaction"))


def compaction_status(topic: str) -> Plan[CompactionStatus]:
    """Returns how the last compaction of a topic stands, or ended."""
    return (yield Request("GET", topic_path(topic, "compaction"))).as_type(CompactionStatus)
