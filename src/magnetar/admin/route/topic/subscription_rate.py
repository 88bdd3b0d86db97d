"""The dispatch rate of one subscription of a topic, a policy of the topic's.

It goes before `subscriptionDispatchRate` of topic, namespace and broker. The subscription need not
be there yet, and the rate stays when it goes.
"""

from typing import Final

from magnetar.admin.http.answer import no_content, optional_answer
from magnetar.admin.http.bridge import wait_for
from magnetar.admin.http.call import TOPIC, Call
from magnetar.admin.http.required_permission import on_topic
from magnetar.admin.http.response import Response
from magnetar.admin.http.route import Route
from magnetar.admin.http.shape import FLAG, WHOLE, Json, answers, each, object_of
from magnetar.admin.route.policy_shape import DISPATCH_RATE
from magnetar.broker.auth.access import MANAGE
from magnetar.broker.policy.policy import Policies
from magnetar.broker.policy.rate_policy import show_dispatch_rate

__all__ = ["ROUTES"]


async def get_rate(call: Call) -> Response:
    """Returns the dispatch rate of one subscription; 204 if it was told none."""
    await call.topics()  # it must be there
    name, directory = call.topic_name, call.broker.directory
    subscription = call.path["subscription"]
    rate = directory.topic_policies(name).subscription_rates.get(subscription)
    if rate is None and call.flag("applied"):
        rate = directory.effective(name).rates.of_subscription(subscription)
    return optional_answer(None if rate is None else show_dispatch_rate(rate))


async def set_rate(call: Call) -> Response:
    """Sets the dispatch rate of one subscription, which goes before that of all."""
    await call.topics()
    return await _change(call, await call.json_object())


async def remove_rate(call: Call) -> Response:
    """Removes the dispatch rate of one subscription; that of all applies."""
    await call.topics()
    return await _change(call, None)


async def _change(call: Call, body: object) -> Response:
    name, directory = call.topic_name, call.broker.directory
    fresh = Policies.from_json(directory.topic_policies(name).to_json())
    fresh.set_subscription_rate(call.path["subscription"], body)
    directory.put_topic_policies(name, fresh)
    await wait_for(call.broker.policies_changed(name.namespace))
    return no_content()


SHAPE: Final[Json] = object_of(
    (),
    **each(WHOLE, "dispatchThrottlingRateInMsg", "dispatchThrottlingRateInByte"),
    ratePeriodInSecond=WHOLE,
    relativeToPublishRate=FLAG,
)
RATE: Final = f"{TOPIC}/{{subscription}}/dispatchRate"

ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        RATE,
        get_rate,
        on_topic(MANAGE),
        query={"applied": FLAG},
        answer=answers(DISPATCH_RATE, optional=True),
    ),
    Route("POST", RATE, set_rate, on_topic(MANAGE), body=SHAPE),
    Route("DELETE", RATE, remove_rate, on_topic(MANAGE)),
]
