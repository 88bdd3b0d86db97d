"""A resource group: rates that all namespaces of it share.

A namespace is in one group or in none. What is published to its topics, and handed out there,
counts for the rates of the group, beside those of topic and broker.
"""

from typing import Final, final

from magnetar.broker.host import Host
from magnetar.broker.rate.rate import Rate
from magnetar.broker.rate.throttle import Throttle

__all__ = ["FIELDS", "GroupRates", "ResourceGroup"]

UNTOLD: Final = -1
FIELDS: Final = (
    "publishRateInMsgs",
    "publishRateInBytes",
    "dispatchRateInMsgs",
    "dispatchRateInBytes",
)


@final
class ResourceGroup:
    """What a group was told, as JSON has it; -1 where it was told nothing."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers: Final = {name: numbers.get(name, UNTOLD) for name in FIELDS}

    def to_json(self) -> dict[str, int]:
        return dict(self._numbers)

    @property
    def publish(self) -> Rate:
        return Rate(self._numbers["publishRateInMsgs"], self._numbers["publishRateInBytes"])

    @property
    def dispatch(self) -> Rate:
        return Rate(self._numbers["dispatchRateInMsgs"], self._numbers["dispatchRateInBytes"])


@final
class GroupRates:
    """What all namespaces of a group share."""

    def __init__(self, host: Host, group: ResourceGroup) -> None:
        self.publish: Final = Throttle(host, group.publish)
        self.dispatch: Final = Throttle(host, group.dispatch)

    def change(self, group: ResourceGroup) -> None:
        self.publish.change(group.publish)
        self.dispatch.change(group.dispatch)
