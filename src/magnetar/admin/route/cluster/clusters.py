"""Clusters: there is one, which is this broker."""

from typing import Final

from magnetar.admin.http.answer import CONFLICT, NOT_ALLOWED, Refusal, json_answer
from magnetar.admin.http.call import Call
from magnetar.admin.http.required_permission import ANYONE, SUPERUSER
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import FLAG, REFUSAL, TEXT, TEXTS, Json, answers, object_of

__all__ = ["CLUSTERS", "ROUTES"]


async def list_clusters(call: Call) -> Response:
    """Returns the name of the one cluster."""
    return json_answer([call.admin.cluster])


async def get_cluster(call: Call) -> Response:
    """Returns the addresses of the cluster."""
    call.admin.require_cluster(call.path["cluster"])
    return json_answer(
        {
            "serviceUrl": call.admin.http_url,
            "brokerServiceUrl": call.admin.server.url,
            "brokerClientTlsEnabled": False,
            "tlsAllowInsecureConnection": False,
        }
    )


async def create_cluster(call: Call) -> Response:
    """Always refuses: there is one cluster, this broker."""
    if call.path["cluster"] == call.admin.cluster:
        raise Refusal(CONFLICT, f"Cluster already exists: {call.admin.cluster}")
    raise _one_cluster()


async def change_cluster(call: Call) -> Response:
    """Always refuses: there is one cluster, this broker."""
    call.admin.require_cluster(call.path["cluster"])
    raise _one_cluster()


def _one_cluster() -> Refusal:
    return Refusal(NOT_ALLOWED, "this broker is its whole cluster: there is nothing to change")


CLUSTERS: Final = "/admin/v2/clusters"
CLUSTER: Final[Json] = object_of(
    ("serviceUrl", "brokerServiceUrl"),
    serviceUrl=TEXT,
    brokerServiceUrl=TEXT,
    brokerClientTlsEnabled=FLAG,
    tlsAllowInsecureConnection=FLAG,
)

ROUTES: Final[list[Route]] = [
    Route("GET", CLUSTERS, list_clusters, ANYONE, answer=answers(TEXTS)),
    Route("GET", f"{CLUSTERS}/{{cluster}}", get_cluster, SUPERUSER, answer=answers(CLUSTER)),
    Route("PUT", f"{CLUSTERS}/{{cluster}}", create_cluster, SUPERUSER, answer=REFUSAL),
    Route("POST", f"{CLUSTERS}/{{cluster}}", change_cluster, SUPERUSER, answer=REFUSAL),
    Route("DELETE", f"{CLUSTERS}/{{cluster}}", change_cluster, SUPERUSER, answer=REFUSAL),
]
