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
]

BASE: Final = "/admin/v2"


def path_of(*pieces: str) -> str:
    """A path below /admin/v2. Raises SettingsError for a name that would lead elsewhere.

    >>> path_of("tenants", "a/b")
    '/admin/v2/tenants/a%2Fb'
    """
    for piece in pieces:
        if piece in ("", ".", ".."):
            raise SettingsError("name", f"{piece!r} is not a valid name")
    return "/".join([BASE, *(quote(piece, safe="") for piece in pieces)])


def namespace_path(namespace: str, *more: str) -> str:
    """The path of a namespace, `tenant/name`. Raises SettingsError."""
    return path_of("namespaces", *check_namespace(namespace), *more)


def topics_path(domain: str, namespace: str, *more: str) -> str:
    """The path of all topics of a namespace. Raises SettingsError."""
    return path_of(domain, *check_namespace(namespace), *more)


def check_namespace(namespace: str) -> list[str]:
    """The names of the tenant and the namespace. Raises SettingsError."""
    names = namespace.split("/")
    if len(names) != 2 or not all(names):
        raise SettingsError(
            "namespace", f"{namespace!r} is not a namespace: write it as tenant/namespace"
        )
    return names


def topic_path(topic: TopicName | str, *more: str) -> str:
    """The path of a topic. Raises InvalidTopicNameError."""
    name = TopicName.parse(topic) if isinstance(topic, str) else topic
    domain = "persistent" if name.persistent else "non-persistent"
    return topics_path(domain, name.namespace, name.local_name, *more)


def schema_path(topic: TopicName | str, *more: str) -> str:
    """The path of a topic's schemas, which its partitions share. Raises InvalidTopicNameError.

    >>> schema_path("orders-partition-3", "schema")
    '/admin/v2/schemas/public/default/orders/schema'
    """
    name = (TopicName.parse(topic) if isinstance(topic, str) else topic).partitioned
    return topics_path("schemas", name.namespace, name.local_name, *more)


def subscription_path(topic: TopicName | str, subscription: str, *more: str) -> str:
    """The path of a subscription. Raises InvalidTopicNameError."""
    return topic_path(topic, "subscription", subscription, *more)


def lookup_path(topic: TopicName | str) -> str:
    """Where it is told which broker serves a topic; not below /admin/v2.

    >>> lookup_path("orders")
    '/lookup/v2/topic/persistent/public/default/orders'
    """
    return f"/lookup/v2/topic{topic_path(topic).removeprefix(BASE)}"
