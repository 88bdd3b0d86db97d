"""Bookies: there are none. Tools that look for racks find nothing, and cannot make any."""

from typing import Final

from magnetar.admin.http.answer import NOT_ALLOWED, NOT_FOUND, Refusal, json_answer
from magnetar.admin.http.call import Call
from magnetar.admin.http.required_permission import SUPERUSER
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import OBJECT, REFUSAL, TEXT, TEXTS, answers, map_of, object_of

__all__ = ["ROUTES"]


async def list_bookies(call: Call) -> Response:
    """Returns the bookies: there are none, messages are on this machine's disk."""
    return json_answer({"bookies": []})


async def list_racks(call: Call) -> Response:
    """Returns the racks of bookies: there are none."""
    return json_answer({})


async def find_rack(call: Call) -> Response:
    """Always says that a bookie has no rack."""
    bookie = call.path["bookie"]
    raise Refusal(
        NOT_FOUND, f"Bookie rack placement configuration not found: {bookie}; there are no bookies"
    )


async def set_rack(call: Call) -> Response:
    """Always refuses: there are no bookies."""
    raise Refusal(NOT_ALLOWED, "there are no bookies: messages are on this machine's disk")


RACKS: Final = "/admin/v2/bookies/racks-info"
ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        "/admin/v2/bookies/all",
        list_bookies,
        SUPERUSER,
        answer=answers(object_of(("bookies",), bookies=TEXTS)),
    ),
    Route("GET", RACKS, list_racks, SUPERUSER, answer=answers(map_of(TEXT))),
    Route("GET", f"{RACKS}/{{bookie}}", find_rack, SUPERUSER, answer=REFUSAL),
    Route("DELETE", f"{RACKS}/{{bookie}}", find_rack, SUPERUSER, answer=REFUSAL),
    Route(
        "POST",
        f"{RACKS}/{{bookie}}",
        set_rack,
        SUPERUSER,
        query={"group": TEXT},
        body=OBJECT,
        body_required=False,
        answer=REFUSAL,
    ),
]
