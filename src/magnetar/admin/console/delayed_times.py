"""When the delayed messages of a subscription are due: a time line in equal steps.

A message is known to be delayed once it was read: of those that a subscription has not come to
yet, nobody knows. All of them are looked at, a page of them in each event.
"""

from heapq import nsmallest
from typing import Final

from magnetar.admin.http.answer import json_answer
from magnetar.admin.http.breather import Breather
from magnetar.admin.http.call import SUBSCRIPTION, Call, whole_number
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import NUMBER, TEXT, Json, answers, each, integer, list_of, record
from magnetar.broker.auth.access import LOOK
from magnetar.broker.topic.delayed import DelayedMessages

__all__ = ["ROUTES"]

STEPS: Final = 60
STEPS_MAX: Final = 500
# The next ones are named.
NEXT_MAX: Final = 20


async def get_delayed(call: Call) -> Response:
    """Returns how many delayed messages of a subscription are due when."""
    steps = whole_number("steps", call.query("steps") or STEPS, 1, STEPS_MAX)
    subscription = call.subscription()
    dispatcher = subscription.dispatcher
    ledgers = subscription.topic.ledgers
    delayed = DelayedMessages() if dispatcher is None else dispatcher.delayed
    breather = Breather()
    first, last, count = -1, -1, 0
    soonest: list[tuple[int, int]] = []
    page = delayed.page_after(-1)
    while page is not None:
        times = [(time, key) for key, time in page[1]]
        count += len(times)
        soonest = nsmallest(NEXT_MAX, [*soonest, *times])
        first = soonest[0][0]
        last = max(last, max(times)[0])
        await breather.rest()
        page = delayed.page_after(page[0])
    width = max(-(-(last - first + 1) // steps), 1)
    counts = [0] * (min(steps, -(-(last - first + 1) // width)) if count else 0)
    page = delayed.page_after(-1)
    while page is not None:
        for _, time in page[1]:
            # Some may have come meanwhile, and are counted at the ends.
            counts[min(max((time - first) // width, 0), len(counts) - 1)] += 1
        await breather.rest()
        page = delayed.page_after(page[0]) if counts else None
    return json_answer(
        {
            "count": count,
            "nowMs": call.broker.host.now_ms(),
            "firstMs": max(first, 0),
            "stepMs": width,
            "counts": counts,
            "next": [
                {"position": str(ledgers.position(key)), "deliverAtMs": time}
                for time, key in soonest
            ],
        }
    )


TIMES: Final[Json] = record(
    **each(NUMBER, "count", "nowMs", "firstMs", "stepMs"),
    counts=list_of(NUMBER),
    next=list_of(record(position=TEXT, deliverAtMs=NUMBER)),
)

ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        f"{SUBSCRIPTION}/delayed",
        get_delayed,
        on_topic(LOOK),
        query={"steps": integer(1, STEPS_MAX) | {"default": STEPS}},
        answer=answers(TIMES),
    ),
]
