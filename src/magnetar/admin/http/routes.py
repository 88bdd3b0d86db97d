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
from magnetar.admin.http.router import AdminApp, App
from magnetar.admin.route import (
    metrics,
    namespaces,
    permissions,
    policies,
    schemas,
    subscriptions,
    tenants,
    topics,
)
from magnetar.admin.route.cluster import (
    bookies,
    broker_stats,
    brokers,
    clusters,
    isolation,
    lookup,
    quotas,
    resource_groups,
)
from magnetar.admin.route.namespace import bundles, namespace_properties
from magnetar.admin.route.topic import (
    absent,
    compaction,
    partitions,
    subscription_rate,
    topic_properties,
)
from magnetar.admin.transaction import coordinator, within_topic

if TYPE_CHECKING:
    from magnetar.broker.shell.server import BrokerServer

__all__ = ["ROUTES", "create_app"]

ROUTES: Final[list[Route]] = [
    *ack_map.ROUTES,
    *ack_state.ROUTES,
    *backlog.ROUTES,
    *absent.ROUTES,
    *bookies.ROUTES,
    *broker_stats.ROUTES,
    *brokers.ROUTES,
    *bundles.ROUTES,
    *clusters.ROUTES,
    *compaction.ROUTES,
    *coordinator.ROUTES,
    *browse.ROUTES,
    *delayed_times.ROUTES,
    *files.ROUTES,
    *isolation.ROUTES,
    *lookup.ROUTES,
    *messages.ROUTES,
    *metrics.ROUTES,
    *namespace_properties.ROUTES,
    *namespaces.ROUTES,
    *overview.ROUTES,
    *partitions.ROUTES,
    *permissions.ROUTES,
    *policies.ROUTES,
    *produce.ROUTES,
    *quotas.ROUTES,
    *resource_groups.ROUTES,
    *subscription_rate.ROUTES,
    *redrive.ROUTES,
    *schemas.ROUTES,
    *session.ROUTES,
    *skip.ROUTES,
    *stats.ROUTES,
    *subscriptions.ROUTES,
    *tenants.ROUTES,
    *topic_list.ROUTES,
    *topic_properties.ROUTES,
    *topics.ROUTES,
    *whole_message.ROUTES,
    *within_topic.ROUTES,
]
ROUTES.extend(open_api(ROUTES))


def create_app(broker: "BrokerServer", http_url: str, websockets: App | None = None) -> AdminApp:
    """Returns the application that serves REST for a broker, and WebSockets, if there are any."""
    return AdminApp(Admin(broker, http_url), ROUTES, websockets)
