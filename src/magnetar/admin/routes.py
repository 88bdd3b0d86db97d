"""Pulsar's admin REST over a broker: all paths, noun by noun."""

from typing import TYPE_CHECKING, Final

from magnetar.admin import (
    brokers,
    clusters,
    lookup,
    messages,
    metrics,
    namespaces,
    policies,
    schemas,
    stats,
    subscriptions,
    tenants,
    topics,
)
from magnetar.admin.call import Admin, Route
from magnetar.admin.router import AdminApp

if TYPE_CHECKING:
    from magnetar.broker.server import BrokerServer

__all__ = ["ROUTES", "create_app"]

ROUTES: Final[list[Route]] = [
    *brokers.ROUTES,
    *clusters.ROUTES,
    *lookup.ROUTES,
    *messages.ROUTES,
    *metrics.ROUTES,
    *namespaces.ROUTES,
    *policies.ROUTES,
    *schemas.ROUTES,
    *stats.ROUTES,
    *subscriptions.ROUTES,
    *tenants.ROUTES,
    *topics.ROUTES,
]


def create_app(broker: "BrokerServer", http_url: str) -> AdminApp:
    """The application that serves REST for a broker."""
    return AdminApp(Admin(broker, http_url), ROUTES)
