"""What tells clusters and brokers apart: peers, failure domains, isolation, groups of namespaces.

There is one cluster of one broker, so there is nothing to tell apart; who asks is told so in the
way of Apache Pulsar without any.
"""

from typing import Final

from magnetar.admin.http.answer import (
    NOT_ALLOWED,
    NOT_FOUND,
    PRECONDITION,
    Refusal,
    json_answer,
    no_content,
)
from magnetar.admin.http.call import Call, shown
from magnetar.admin.http.required_permission import SUPERUSER
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    FLAG,
    NOTHING,
    OBJECT,
    REFUSAL,
    TEXT,
    TEXTS,
    answers,
    map_of,
    object_of,
)
from magnetar.admin.route.cluster.clusters import CLUSTERS

__all__ = ["ROUTES"]


def _require(call: Call, place: str = "cluster") -> str:
    cluster = call.path[place]
    if cluster != call.admin.cluster:
        raise Refusal(
            PRECONDITION, f"Cluster {cluster} does not exist. There is {call.admin.cluster!r}"
        )
    return cluster


async def get_peers(call: Call) -> Response:
    """Returns the peers of the cluster: it has none."""
    call.admin.require_cluster(call.path["cluster"])
    return no_content()


async def set_peers(call: Call) -> Response:
    """Takes an empty list; of others there is no cluster."""
    _require(call)
    peers = await call.json()
    if peers:
        raise Refusal(PRECONDITION, f"Peer cluster {shown(peers)} does not exist: there is one")
    return no_content()


async def get_migration(call: Call) -> Response:
    """Always says that the cluster is not on its way to another."""
    raise Refusal(NOT_FOUND, "Cluster does not exist to which this one would migrate")


async def migrate(call: Call) -> Response:
    """Always refuses: there is no other cluster."""
    raise Refusal(NOT_ALLOWED, "there is no migration to another cluster: move by a backup")


async def list_domains(call: Call) -> Response:
    """Returns the failure domains of the cluster: there are none."""
    return json_answer({})


async def find_domain(call: Call) -> Response:
    """Always says that there is no such failure domain."""
    cluster = _require(call)
    raise Refusal(
        NOT_FOUND, f"Domain {call.path['domain']} for cluster {cluster} does not exist: none does"
    )


async def find_isolation(call: Call) -> Response:
    """Always says that there are no isolation policies."""
    call.admin.require_cluster(call.path["cluster"])
    raise Refusal(
        NOT_FOUND, f"NamespaceIsolationPolicies for cluster {call.admin.cluster} does not exist"
    )


async def find_isolation_of(call: Call) -> Response:
    """Always says that there is no such isolation policy."""
    _require(call)
    return await find_isolation(call)


async def remove_isolation(call: Call) -> Response:
    """Removes an isolation policy, which is not there."""
    _require(call)
    return no_content()


async def set_apart(call: Call) -> Response:
    """Always refuses: there is one broker."""
    raise Refusal(NOT_ALLOWED, "there is one broker: nothing can be kept apart on it")


async def list_anti_affinity(call: Call) -> Response:
    """Returns the namespaces of a tenant that are in an anti-affinity group."""
    _require(call, "tenant")
    group, directory = call.path["group"], call.broker.directory
    tenant = call.query("tenant") or ""
    return json_answer(
        [
            name
            for name in sorted(directory.namespaces_of(tenant))
            if directory.namespaces[name].get_json("antiAffinity") == group
        ]
    )


CLUSTER: Final = f"{CLUSTERS}/{{cluster}}"
DOMAIN: Final = f"{CLUSTER}/failureDomains/{{domain}}"
ISOLATION: Final = f"{CLUSTER}/namespaceIsolationPolicies"
MOVE: Final = f"{CLUSTER}/migrate"

ROUTES: Final[list[Route]] = [
    Route("GET", f"{CLUSTER}/peers", get_peers, SUPERUSER, answer=NOTHING),
    Route("POST", f"{CLUSTER}/peers", set_peers, SUPERUSER, body=TEXTS, body_required=False),
    Route("GET", MOVE, get_migration, SUPERUSER, answer=REFUSAL),
    Route(
        "POST",
        MOVE,
        migrate,
        SUPERUSER,
        query={"migrated": FLAG},
        body=OBJECT,
        body_required=False,
        answer=REFUSAL,
    ),
    Route(
        "GET",
        f"{CLUSTER}/failureDomains",
        list_domains,
        SUPERUSER,
        answer=answers(map_of(object_of(brokers=TEXTS))),
    ),
    Route("GET", DOMAIN, find_domain, SUPERUSER, answer=REFUSAL),
    Route("DELETE", DOMAIN, find_domain, SUPERUSER, answer=REFUSAL),
    Route("POST", DOMAIN, set_apart, SUPERUSER, body=OBJECT, answer=REFUSAL),
    Route("GET", ISOLATION, find_isolation, SUPERUSER, answer=REFUSAL),
    Route("GET", f"{ISOLATION}/brokers", find_isolation_of, SUPERUSER, answer=REFUSAL),
    Route("GET", f"{ISOLATION}/brokers/{{broker}}", find_isolation_of, SUPERUSER, answer=REFUSAL),
    Route("GET", f"{ISOLATION}/{{policy}}", find_isolation_of, SUPERUSER, answer=REFUSAL),
    Route("POST", f"{ISOLATION}/{{policy}}", set_apart, SUPERUSER, body=OBJECT, answer=REFUSAL),
    Route("DELETE", f"{ISOLATION}/{{policy}}", remove_isolation, SUPERUSER),
    Route(
        "GET",
        # Where a tenant is named elsewhere Pulsar has the cluster here.
        "/admin/v2/namespaces/{tenant}/antiAffinity/{group}",
        list_anti_affinity,
        SUPERUSER,
        query={"tenant": TEXT},
        answer=answers(TEXTS),
    ),
]
