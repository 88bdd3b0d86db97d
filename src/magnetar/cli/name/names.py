"""Which names there are, as admin REST lists them."""

from magnetar.model import TopicName
from magnetar.rest.admin_client import AdminClient
from magnetar.rest.path import path_of, topic_path, topics_path

__all__ = ["namespace_names", "subscription_names", "tenant_names", "topic_names", "wholes"]


def topic_names(admin: AdminClient, namespace: str) -> list[str]:
    """Returns the persistent topics of a namespace, a partitioned one once. Raises AdminError."""
    return wholes(_texts(admin.get(topics_path("persistent", namespace))))


def wholes(names: list[str]) -> list[str]:
    """Topics without their partitions, in order.

    >>> wholes(["persistent://a/b/t-partition-1", "persistent://a/b/s"])
    ['persistent://a/b/s', 'persistent://a/b/t']
    """
    return sorted({str(TopicName.parse(name).partitioned) for name in names})


def subscription_names(admin: AdminClient, topic: str) -> list[str]:
    """Returns the subscriptions of a topic. Raises AdminError."""
    return sorted(_texts(admin.get(topic_path(topic, "subscriptions"))))


def namespace_names(admin: AdminClient, tenant: str) -> list[str]:
    """Returns the namespaces of a tenant. Raises AdminError."""
    return sorted(_texts(admin.get(path_of("namespaces", tenant))))


def tenant_names(admin: AdminClient) -> list[str]:
    """Returns all tenants. Raises AdminError: it is for superusers."""
    return sorted(_texts(admin.get(path_of("tenants"))))


def _texts(found: object) -> list[str]:
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
