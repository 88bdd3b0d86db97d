"""Pulsar's admin REST over a broker: all paths, noun by noun."""

from typing import TYPE_CHECKING, Final

from magnetar.admin.backlog import ack_state, backlog, messages, skip, stats
from magnetar.admin.console import (
    ack_map,
    browse,
    delayed_times,
    files,
    overview,
    produce,
    redrive,
    session,
    topic_list,
    whole_message,
)
from magnetar.admin.document.openapi import open_api
from magnetar.admin.http.call import Admin
from magnetar.admin.http.route import Route
from magnetar.admin.http.router import AdminApp
from magnetar.admin.route import (
    broker_stats,
    brokers,
    clusters,
    lookup,
    metrics,
    namespaces,
    permissions,
    policies,
    schemas,
    subscriptions,
    tenants,
    topics,
)

if TYPE_CHECKING:
    from magnetar.broker.shell.server import BrokerServer

__all__ = ["ROUTES", "create_app"]

ROUTES: Final[list[Route]] = [
    *ack_map.ROUTES,
    *ack_state.ROUTES,
    *backlog.ROUTES,
    *broker_stats.ROUTES,
    *brokers.ROUTES,
    *clusters.ROUTES,
    *browse.ROUTES,
    *delayed_times.ROUTES,
    *files.ROUTES,
    *lookup.ROUTES,
    *messages.ROUTES,
    *metrics.ROUTES,
    *namespaces.ROUTES,
    *overview.ROUTES,
    *permissions.ROUTES,
    *policies.ROUTES,
    *produce.ROUTES,
    *redrive.ROUTES,
    *schemas.ROUTES,
    *session.ROUTES,
    *skip.ROUTES,
    *stats.ROUTES,
    *subscriptions.ROUTES,
    *tenants.ROUTES,
    *topic_list.ROUTES,
    *topics.ROUTES,
    *whole_message.ROUTES,
]
ROUTES.extend(open_api(ROUTES))


def create_app(broker: "BrokerServer", http_url: str) -> AdminApp:
    """The application that serves REST for a broker."""
    return AdminApp(Admin(broker, http_url), ROUTES)
