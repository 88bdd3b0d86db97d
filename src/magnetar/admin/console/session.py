"""Who asks, and what they may do: so that the console shows no button that would be refused.

It is for the eye alone. Each request is asked for its permission, whatever the page shows.
"""

import platform
from typing import Final

import magnetar
from magnetar.admin.http.answer import json_answer
from magnetar.admin.http.call import TOPIC, Call
from magnetar.admin.http.required_permission import ANYONE, on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import FLAG, NULL, TEXT, WHOLE, Json, answers, each, either, record
from magnetar.broker.auth.access import CONSUME, LOOK, MANAGE, PRODUCE, SKIP

__all__ = ["CONSOLE", "ROUTES"]

CONSOLE: Final = "/admin/v2/console"
OPERATIONS: Final = {
    "look": LOOK,
    "produce": PRODUCE,
    "consume": CONSUME,
    "skip": SKIP,
    "manage": MANAGE,
}


async def get_session(call: Call) -> Response:
    """Returns who asks, what the broker is, and whether they may create topics at all."""
    broker, principal = call.broker, call.principal
    tenants = broker.directory.tenants
    return json_answer(
        {
            "role": None if principal is None else principal.role,
            "authentication": broker.authentication is not None,
            "superuser": broker.access.is_superuser(principal),
            "mayCreate": any(broker.access.is_admin(principal, tenant) for tenant in tenants),
            "cluster": call.admin.cluster,
            "version": magnetar.__version__,
            "compiled": magnetar.COMPILED,
            "python": platform.python_version(),
            "startedMs": broker.started_ms,
            "nowMs": broker.host.now_ms(),
        }
    )


async def get_rights(call: Call) -> Response:
    """Returns what who asks may do with a topic, and with a subscription of it if one is named."""
    subscription = call.query("subscription") or ""
    name, access = call.topic_name, call.broker.access
    return json_answer(
        {
            word: access.on_topic(call.principal, operation, name, subscription)
            for word, operation in OPERATIONS.items()
        }
    )


SESSION: Final[Json] = record(
    role=either(TEXT, NULL),
    **each(FLAG, "authentication", "superuser", "mayCreate", "compiled"),
    **each(TEXT, "cluster", "version", "python"),
    **each(WHOLE, "startedMs", "nowMs"),
)

ROUTES: Final[list[Route]] = [
    Route("GET", f"{CONSOLE}/session", get_session, ANYONE, answer=answers(SESSION)),
    Route(
        "GET",
        f"{TOPIC}/rights",
        get_rights,
        on_topic(LOOK),
        query={"subscription": TEXT},
        answer=answers(record(**each(FLAG, *OPERATIONS))),
    ),
]
