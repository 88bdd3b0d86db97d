"""Bundles of a namespace: told, split, and what is done to the topics of one."""

from typing import Final

from magnetar.admin.http.answer import PRECONDITION, Refusal, json_answer, no_content
from magnetar.admin.http.call import Call
from magnetar.admin.http.required_permission import on_namespace
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import FLAG, NUMBER, TEXT, TEXTS, Json, answers, map_of, object_of
from magnetar.admin.route.namespaces import (
    BUNDLE,
    NAMESPACE,
    clear_topics,
    namespace_bundles,
    namespace_policies,
    unload_topics,
    unsubscribe_topics,
)
from magnetar.broker.auth.access import CONSUME, LOOK, MANAGE, SKIP
from magnetar.broker.policy.policy import Policies

__all__ = ["ROUTES"]

# Pulsar's names for "choose one".
ANY_OF: Final = ("LARGEST", "HOT")


def _topics(call: Call) -> list[str]:
    """The topics of the bundle in the path. Raises Refusal if there is no such bundle."""
    bundles = namespace_bundles(call)
    bundle = call.path["bundle"]
    if bundle != BUNDLE and bundle not in bundles.names():
        raise Refusal(
            PRECONDITION,
            f"Invalid bundle range {bundle} of {call.namespace}: there are "
            f"{', '.join(bundles.names()[:4])}" + (" ..." if len(bundles.names()) > 4 else ""),
        )
    names = call.broker.names(call.namespace, persistent=True, others=True)
    return [name for name in names if bundle in (BUNDLE, bundles.of(name))]


async def get_bundles(call: Call) -> Response:
    """Returns the bundles of a namespace."""
    return json_answer(namespace_bundles(call).to_json())


async def split(call: Call) -> Response:
    """Splits a bundle in two; the one broker has both."""
    bundles = namespace_bundles(call)
    bundle = call.path["bundle"]
    call.flag("unload")
    call.query("splitAlgorithmName")
    await call.json()
    if bundle in ANY_OF:
        bundle = bundles.names()[0]
    else:
        _topics(call)  # it must be there
    fresh = Policies.from_json(namespace_policies(call).to_json())
    fresh.bundles = bundles.split(bundle).boundaries
    call.broker.directory.put_namespace(call.namespace, fresh)
    return no_content()


async def unload(call: Call) -> Response:
    """Closes the topics of a bundle, so that clients connect anew."""
    await unload_topics(call, _topics(call))
    return no_content()


async def clear_backlog(call: Call) -> Response:
    """Clears the backlog of all subscriptions in a bundle, or of those with a name."""
    await clear_topics(call, [name for name in _topics(call) if name.startswith("persistent://")])
    return no_content()


async def unsubscribe(call: Call) -> Response:
    """Deletes a subscription of all topics of a bundle."""
    await unsubscribe_topics(
        call, [name for name in _topics(call) if name.startswith("persistent://")]
    )
    return no_content()


async def hash_positions(call: Call) -> Response:
    """Returns where the names of topics lie in a bundle: their hashes."""
    wanted = [one for one in (call.query("topics") or "").split(",") if one]
    bundles = namespace_bundles(call)
    there = [name for name in _topics(call) if not wanted or name in wanted]
    return json_answer(
        {
            "namespace": call.namespace,
            "bundle": call.path["bundle"],
            "topicHashPositions": {name: bundles.position(name) for name in there},
        }
    )


AT: Final = f"{NAMESPACE}/{{bundle}}"
BUNDLES_SHAPE: Final[Json] = object_of(boundaries=TEXTS, numBundles=NUMBER)
POSITIONS: Final[Json] = object_of(namespace=TEXT, bundle=TEXT, topicHashPositions=map_of(NUMBER))

ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        f"{NAMESPACE}/bundles",
        get_bundles,
        on_namespace(LOOK),
        answer=answers(BUNDLES_SHAPE),
    ),
    Route(
        "PUT",
        f"{AT}/split",
        split,
        on_namespace(MANAGE),
        query={"unload": FLAG, "splitAlgorithmName": TEXT},
        body={"type": "array", "items": NUMBER},
        body_required=False,
    ),
    Route("PUT", f"{AT}/unload", unload, on_namespace(MANAGE)),
    Route("POST", f"{AT}/clearBacklog", clear_backlog, on_namespace(MANAGE)),
    Route("POST", f"{AT}/clearBacklog/{{subscription}}", clear_backlog, on_namespace(SKIP)),
    Route("POST", f"{AT}/unsubscribe/{{subscription}}", unsubscribe, on_namespace(CONSUME)),
    Route(
        "GET",
        f"{AT}/topicHashPositions",
        hash_positions,
        on_namespace(LOOK),
        query={"topics": TEXT},
        answer=answers(POSITIONS),
    ),
]
