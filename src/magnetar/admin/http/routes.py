"""Pulsar's admin REST over a broker: all paths, noun by noun."""

from typing import TYPE_CHECKING, Final

from magnetar.admin import (
    ack_state,
    backlog,
    brokers,
    clusters,
    lookup,
    messages,
    metrics,
    namespaces,
    permissions,
    policies,
    schemas,
    skip,
    stats,
    subscriptions,
    tenants,
    topics,
)
from magnetar.admin.call import Admin, Route
from magnetar.admin.openapi import open_api
from magnetar.admin.router import AdminApp

if TYPE_CHECKING:
    from magnetar.broker.server import BrokerServer

__all__ = ["ROUTES", "create_app"]

ROUTES: Final[list[Route]] = [
    *ack_state.ROUTES,
    *backlog.ROUTES,
    *brokers.ROUTES,
    *clusters.ROUTES,
    *lookup.ROUTES,
    *messages.ROUTES,
    *metrics.ROUTES,
    *namespaces.ROUTES,
    *permissions.ROUTES,
    *policies.ROUTES,
    *schemas.ROUTES,
    *skip.ROUTES,
    *stats.ROUTES,
    *subscriptions.ROUTES,
    *tenants.ROUTES,
    *topics.ROUTES,
]
ROUTES.append(open_api(ROUTES))


def create_app(broker: "BrokerServer", http_url: str) -> AdminApp:
    """The application that serves REST for a broker."""
    return AdminApp(Admin(broker, http_url), ROUTES)
