"""Rates as policies: their names, and the JSON that Pulsar's REST has for them.

A rate that is not above 0 is told again as it was said, and limits nothing: so a topic may be freed
from the rate of its namespace.
"""

from collections.abc import Callable
from typing import Final, final

from magnetar.broker.policy.policy_value import read_flag, read_number, read_object
from magnetar.broker.rate.rate import Rate
from magnetar.broker.setting.setting import COUNT_MAX, INT_MAX

__all__ = [
    "DISPATCH",
    "PUBLISH",
    "RATE_POLICIES",
    "SUBSCRIBE",
    "SUBSCRIPTION",
    "RatePolicy",
    "read_dispatch_rate",
    "show_dispatch_rate",
]

PUBLISH: Final = "publishRate"
DISPATCH: Final = "dispatchRate"
SUBSCRIPTION: Final = "subscriptionDispatchRate"
SUBSCRIBE: Final = "subscribeRate"

# A period that is told is a Java int there.
PERIOD_MAX: Final = INT_MAX
SUBSCRIBE_PERIOD: Final = 30
FREE: Final = -1


def _number(name: str, fields: dict[str, object], field: str, default: int, low: int) -> int:
    most = PERIOD_MAX if low == 1 else COUNT_MAX
    return read_number(name, field, fields.get(field, default), low, most)


def read_dispatch_rate(name: str, body: object) -> Rate:
    """Raises SettingsError."""
    fields = dict(read_object(name, body))
    relative = fields.get("relativeToPublishRate", False)
    return Rate(
        _number(name, fields, "dispatchThrottlingRateInMsg", FREE, FREE),
        _number(name, fields, "dispatchThrottlingRateInByte", FREE, FREE),
        period_seconds=_number(name, fields, "ratePeriodInSecond", 1, 1),
        relative=read_flag(name, "relativeToPublishRate", relative),
    )


def show_dispatch_rate(rate: Rate) -> dict[str, object]:
    return {
        "dispatchThrottlingRateInMsg": rate.messages,
        "dispatchThrottlingRateInByte": rate.bytes,
        "ratePeriodInSecond": rate.period_seconds,
        "relativeToPublishRate": rate.relative,
    }


def _read_publish_rate(name: str, body: object) -> Rate:
    fields = dict(read_object(name, body))
    return Rate(
        _number(name, fields, "publishThrottlingRateInMsg", FREE, FREE),
        _number(name, fields, "publishThrottlingRateInByte", FREE, FREE),
    )


def _show_publish_rate(rate: Rate) -> dict[str, object]:
    return {
        "publishThrottlingRateInMsg": rate.messages,
        "publishThrottlingRateInByte": rate.bytes,
    }


def _read_subscribe_rate(name: str, body: object) -> Rate:
    fields = dict(read_object(name, body))
    return Rate(
        _number(name, fields, "subscribeThrottlingRatePerConsumer", FREE, FREE),
        period_seconds=_number(name, fields, "ratePeriodInSecond", SUBSCRIBE_PERIOD, 1),
    )


def _show_subscribe_rate(rate: Rate) -> dict[str, object]:
    return {
        "subscribeThrottlingRatePerConsumer": rate.messages,
        "ratePeriodInSecond": rate.period_seconds,
    }


@final
class RatePolicy:
    """One of them: its name, its JSON, and what `?applied=true` answers where nobody said one.

    `in_whole` are the fields of it, by cluster, where Pulsar has all policies of a namespace.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[str, object], Rate],
        show: Callable[[Rate], dict[str, object]],
        *,
        default: Rate | None,
        in_whole: tuple[str, ...],
    ) -> None:
        self.name: Final = name
        self.read: Final = read
        self.show: Final = show
        self.default: Final = default
        self.in_whole: Final = in_whole


RATE_POLICIES: Final = (
    RatePolicy(
        PUBLISH,
        _read_publish_rate,
        _show_publish_rate,
        default=None,
        in_whole=("publishMaxMessageRate",),
    ),
    RatePolicy(
        DISPATCH,
        read_dispatch_rate,
        show_dispatch_rate,
        default=Rate(0),
        in_whole=("topicDispatchRate", "clusterDispatchRate"),
    ),
    RatePolicy(
        SUBSCRIPTION,
        read_dispatch_rate,
        show_dispatch_rate,
        default=Rate(0),
        in_whole=("subscriptionDispatchRate",),
    ),
    RatePolicy(
        SUBSCRIBE,
        _read_subscribe_rate,
        _show_subscribe_rate,
        default=Rate(0, period_seconds=SUBSCRIBE_PERIOD),
        in_whole=("clusterSubscribeRate",),
    ),
)
