"""What Pulsar's tools ask of a topic that is not there on one machine.

Offloading, shadow topics, subscriptions that are replicated: to ask gives what a topic without
them gives.
"""

from typing import Final

from magnetar.admin.http.answer import NOT_ALLOWED, Refusal, json_answer, no_content
from magnetar.admin.http.call import SUBSCRIPTION, TOPIC, Call, stored
from magnetar.admin.http.required_permission import on_namespace, on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    FLAG,
    NOTHING,
    PLACE,
    REFUSAL,
    TEXT,
    TEXTS,
    answers,
    map_of,
    object_of,
)
from magnetar.admin.route.namespaces import NAMESPACE, namespace_policies
from magnetar.admin.route.subscriptions import read_place
from magnetar.admin.route.topics import id_json
from magnetar.broker.auth.access import LOOK, MANAGE
from magnetar.model import Position

__all__ = ["ROUTES"]

NOT_RUN: Final = "NOT_RUN"


async def offload_status(call: Call) -> Response:
    """Returns that nothing was offloaded, so that everything is here."""
    call.admin.require_whole(call.topic_name)
    topic = stored(call.topic())
    first = id_json(Position(-1, -1), topic)
    return json_answer({"status": NOT_RUN, "lastError": "", "firstUnoffloadedMessage": first})


async def offload(call: Call) -> Response:
    """Always refuses: ledgers are on this machine's disk, and stay there."""
    stored(call.topic())
    read_place(await call.json())
    raise Refusal(NOT_ALLOWED, "there is no offloading: all ledgers are on this machine's disk")


async def remove_offload_policies(call: Call) -> Response:
    """Removes the offload policies of a namespace, which has none."""
    namespace_policies(call)
    return no_content()


async def get_shadows(call: Call) -> Response:
    """Returns the shadow topics of a topic: it has none."""
    await call.topics()  # it must be there
    return no_content()


async def set_shadows(call: Call) -> Response:
    """Always refuses: there are no shadow topics."""
    await call.topics()
    raise Refusal(NOT_ALLOWED, "there are no shadow topics: subscribe to the topic itself")


async def get_replicated(call: Call) -> Response:
    """Returns of each partition whether a subscription is replicated: none is."""
    found = await call.subscriptions()
    return json_answer({str(stored(one.topic).name): False for one in found})


async def set_replicated(call: Call) -> Response:
    """Takes `false`; there is no cluster to replicate a subscription to."""
    for subscription in await call.subscriptions():
        stored(subscription.topic)
    if await call.json() is not False:
        raise Refusal(NOT_ALLOWED, "there is one cluster: no subscription is replicated")
    return no_content()


OFFLOAD: Final = f"{TOPIC}/offload"
SHADOWS: Final = f"{TOPIC}/shadowTopics"
REPLICATED: Final = f"{SUBSCRIPTION}/replicatedSubscriptionStatus"

ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        OFFLOAD,
        offload_status,
        on_topic(LOOK),
        answer=answers(object_of(status=TEXT, lastError=TEXT, firstUnoffloadedMessage=PLACE)),
    ),
    Route("PUT", OFFLOAD, offload, on_topic(MANAGE), body=PLACE, answer=REFUSAL),
    Route(
        "DELETE",
        f"{NAMESPACE}/removeOffloadPolicies",
        remove_offload_policies,
        on_namespace(MANAGE),
    ),
    Route("GET", SHADOWS, get_shadows, on_topic(LOOK), answer=NOTHING),
    Route("PUT", SHADOWS, set_shadows, on_topic(MANAGE), body=TEXTS, answer=REFUSAL),
    Route("DELETE", SHADOWS, get_shadows, on_topic(MANAGE)),
    Route("GET", REPLICATED, get_replicated, on_topic(LOOK), answer=answers(map_of(FLAG))),
    Route("POST", REPLICATED, set_replicated, on_topic(MANAGE), body=FLAG),
]
