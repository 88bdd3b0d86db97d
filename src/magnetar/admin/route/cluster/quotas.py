"""Resource quotas: there are none.

Quotas are by what load managers place bundles on brokers. The quota that is told is the one that
Apache Pulsar begins with.
"""

from typing import Final

from magnetar.admin.http.answer import (
    NOT_ALLOWED,
    PRECONDITION,
    Refusal,
    json_answer,
    no_content,
)
from magnetar.admin.http.call import Call
from magnetar.admin.http.required_permission import SUPERUSER, on_namespace
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import (
    AMOUNT,
    FLAG,
    OBJECT,
    REFUSAL,
    Json,
    answers,
    each,
    record,
)
from magnetar.admin.route.namespaces import (
    BUNDLE,
    namespace_bundles,
)
from magnetar.broker.auth.access import LOOK, MANAGE

__all__ = ["ROUTES"]

DEFAULT: Final = {
    "msgRateIn": 40.0,
    "msgRateOut": 120.0,
    "bandwidthIn": 100000.0,
    "bandwidthOut": 300000.0,
    "memory": 80.0,
    "dynamic": True,
}


async def get_default_quota(call: Call) -> Response:
    """Returns the quota of bundles that have none of their own."""
    return json_answer(DEFAULT)


async def get_quota(call: Call) -> Response:
    """Returns the quota of a bundle."""
    _require_bundle(call)
    return json_answer(DEFAULT)


async def remove_quota(call: Call) -> Response:
    """Removes the quota of a bundle, which has none."""
    _require_bundle(call)
    return no_content()


def _require_bundle(call: Call) -> None:
    bundle, names = call.path["bundle"], namespace_bundles(call).names()
    if bundle != BUNDLE and bundle not in names:
        raise Refusal(PRECONDITION, f"Invalid bundle range {bundle}: there is {names[0]}")


async def set_quota(call: Call) -> Response:
    """Always refuses: there is no load to place."""
    raise Refusal(NOT_ALLOWED, "one broker has all bundles: there is no quota to place them by")


QUOTAS: Final = "/admin/v2/resource-quotas"
QUOTA: Final = f"{QUOTAS}/{{tenant}}/{{namespace}}/{{bundle}}"
SHAPE: Final[Json] = record(
    **each(AMOUNT, "msgRateIn", "msgRateOut", "bandwidthIn", "bandwidthOut", "memory"),
    dynamic=FLAG,
)

ROUTES: Final[list[Route]] = [
    Route("GET", QUOTAS, get_default_quota, SUPERUSER, answer=answers(SHAPE)),
    Route("POST", QUOTAS, set_quota, SUPERUSER, body=OBJECT, answer=REFUSAL),
    Route("GET", QUOTA, get_quota, on_namespace(LOOK), answer=answers(SHAPE)),
    Route("POST", QUOTA, set_quota, on_namespace(MANAGE), body=OBJECT, answer=REFUSAL),
    Route("DELETE", QUOTA, remove_quota, on_namespace(MANAGE)),
]
