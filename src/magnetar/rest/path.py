"""Paths of admin REST, built piece by piece: each is escaped, so a name with a `/` stays one."""

from typing import Final
from urllib.parse import quote

from magnetar.errors import SettingsError
from magnetar.model import TopicName

__all__ = [
    "check_namespace",
    "lookup_path",
    "namespace_path",
    "path_of",
    "schema_path",
    "subscription_path",
    "topic_path",
    "topics_path",
    "transactions_path",
]

BASE: Final = "/admin/v2"
BASE_V3: Final = "/admin/v3"


def path_of(*pieces: str) -> str:
    """Returns a path below /admin/v2. Raises SettingsError for a name that would lead elsewhere.

    >>> path_of("tenants", "a/b")
    '/admin/v2/tenants/a%2Fb'
    """
    return _path(BASE, pieces)


def _path(base: str, pieces: tuple[str, ...]) -> str:
    for piece in pieces:
        if piece in ("", ".", ".."):
            raise SettingsError("name", f"{piece!r} is not a valid name")
    return "/".join([base, *(quote(piece, safe="") for piece in pieces)])


def namespace_path(namespace: str, *more: str) -> str:
    """Returns the path of a namespace, `tenant/name`. Raises SettingsError."""
    return path_of("namespaces", *check_namespace(namespace), *more)


def topics_path(domain: str, namespace: str, *more: str) -> str:
    """Returns the path of all topics of a namespace. Raises SettingsError."""
    return path_of(domain, *check_namespace(namespace), *more)


def check_namespace(namespace: str) -> list[str]:
    """Returns the names of the tenant and the namespace. Raises SettingsError."""
    names = namespace.split("/")
    if len(names) != 2 or not all(names):
        raise SettingsError(
            "namespace", f"{namespace!r} is not a namespace: write it as tenant/namespace"
        )
    return names


def topic_path(topic: TopicName | str, *more: str) -> str:
    """Returns the path of a topic. Raises InvalidTopicNameError."""
    name = TopicName.parse(topic) if isinstance(topic, str) else topic
    domain = "persistent" if name.persistent else "non-persistent"
    return topics_path(domain, name.namespace, name.local_name, *more)


def schema_path(topic: TopicName | str, *more: str) -> str:
    """Returns the path of a topic's schemas, which its partitions share. Raises
    InvalidTopicNameError.

    >>> schema_path("orders-partition-3", "schema")
    '/admin/v2/schemas/public/default/orders/schema'
    """
    name = (TopicName.parse(topic) if isinstance(topic, str) else topic).partitioned
    return topics_path("schemas", name.namespace, name.local_name, *more)


def subscription_path(topic: TopicName | str, subscription: str, *more: str) -> str:
    """Returns the path of a subscription. Raises InvalidTopicNameError."""
    return topic_path(topic, "subscription", subscription, *more)


def transactions_path(verb: str, *more: str, topic: str = "") -> str:
    """Returns the path of something about transactions, or about those of a topic.

    >>> transactions_path("pendingAckStats", "billing", topic="orders")
    '/admin/v3/transactions/pendingAckStats/public/default/orders/billing'
    """
    pieces: list[str] = []
    if topic:
        name = TopicName.parse(topic)
        pieces = [*check_namespace(name.namespace), name.local_name]
    return _path(BASE_V3, ("transactions", verb, *pieces, *more))


def lookup_path(topic: TopicName | str) -> str:
    """Returns where it is told which broker serves a topic; not below /admin/v2.

    >>> lookup_path("orders")
    '/lookup/v2/topic/persistent/public/default/orders'
    """
    return f"/lookup/v2/topic{topic_path(topic).removeprefix(BASE)}"
