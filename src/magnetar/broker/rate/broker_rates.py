"""The rates that topics share: those of the whole broker, and of resource groups."""

from typing import Final, final

from magnetar.broker.host import Host
from magnetar.broker.rate.rate import Rate
from magnetar.broker.rate.resource_group import GroupRates, ResourceGroup
from magnetar.broker.rate.throttle import Throttle
from magnetar.broker.setting.settings import BrokerSettings

__all__ = ["BrokerRates"]


@final
class BrokerRates:
    """See the module. `groups` are those of the directory, which keeps them."""

    def __init__(
        self, host: Host, settings: BrokerSettings, groups: dict[str, ResourceGroup]
    ) -> None:
        self._host: Final = host
        self._known: Final = groups
        self._groups: Final[dict[str, GroupRates]] = {}
        self.publish: Final = Throttle(
            host, Rate(settings.publish_rate_messages, settings.publish_rate_bytes)
        )
        self.dispatch: Final = Throttle(
            host, Rate(settings.dispatch_rate_messages, settings.dispatch_rate_bytes)
        )

    def of_group(self, name: str) -> GroupRates | None:
        """What is shared by a group; None if there is none of that name."""
        group = self._known.get(name)
        if group is None:
            return None
        rates = self._groups.get(name)
        if rates is None:
            rates = self._groups[name] = GroupRates(self._host, group)
        return rates

    def group_changed(self, name: str) -> None:
        """A group was told other rates, or is gone."""
        rates = self._groups.get(name)
        if rates is None:
            return
        group = self._known.get(name)
        rates.change(ResourceGroup({}) if group is None else group)
        if group is None:
            del self._groups[name]
