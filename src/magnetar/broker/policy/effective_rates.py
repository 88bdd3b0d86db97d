"""The rates in effect for a topic: its own policies, else its namespace's, else the settings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, final

from magnetar.broker.policy.rate_policy import DISPATCH, PUBLISH, SUBSCRIBE, SUBSCRIPTION
from magnetar.broker.rate.rate import NO_RATE, Rate
from magnetar.broker.setting.settings import BrokerSettings

if TYPE_CHECKING:
    from magnetar.broker.policy.policy import Policies

__all__ = ["EffectiveRates"]


@final
class EffectiveRates:
    """See the module. `told` are those that somebody has said, a setting included, by policy."""

    def __init__(
        self,
        settings: BrokerSettings,
        levels: Sequence["Policies"],
        topic: "Policies | None",
        group: str,
    ) -> None:
        relative = settings.dispatch_rate_relative
        self.told: Final[dict[str, Rate]] = {}
        for name, rate in (
            (
                PUBLISH,
                Rate(
                    settings.publish_rate_per_topic_messages, settings.publish_rate_per_topic_bytes
                ),
            ),
            (
                DISPATCH,
                Rate(
                    settings.dispatch_rate_per_topic_messages,
                    settings.dispatch_rate_per_topic_bytes,
                    relative=relative,
                ),
            ),
            (
                SUBSCRIPTION,
                Rate(
                    settings.dispatch_rate_per_subscription_messages,
                    settings.dispatch_rate_per_subscription_bytes,
                    relative=relative,
                ),
            ),
            (
                SUBSCRIBE,
                Rate(
                    settings.subscribe_rate_per_consumer,
                    period_seconds=settings.subscribe_rate_period_seconds,
                ),
            ),
        ):
            if rate.limits:
                self.told[name] = rate
        for level in reversed(levels):
            self.told.update(level.rates)
        self.publish: Final = self.told.get(PUBLISH, NO_RATE)
        self.dispatch: Final = self.told.get(DISPATCH, NO_RATE)
        self.subscribe: Final = self.told.get(SUBSCRIBE, NO_RATE)
        self._subscription: Final = self.told.get(SUBSCRIPTION, NO_RATE)
        self._by_subscription: Final = {} if topic is None else topic.subscription_rates
        # The resource group of the namespace; empty if it is in none.
        self.resource_group: Final = group

    def of_subscription(self, name: str) -> Rate:
        """The dispatch rate of one subscription: that of its own name, or of all."""
        return self._by_subscription.get(name, self._subscription)

    @property
    def any_relative(self) -> bool:
        """Whether the rate of some subscription is relative to what is published."""
        if self._subscription.relative:
            return True
        return any(rate.relative for rate in self._by_subscription.values())
