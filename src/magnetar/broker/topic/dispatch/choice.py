"""Which dispatcher serves a subscription type: one maker for each row of `subscription_type.py`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.topic.dispatch.dispatcher import Dispatcher
from magnetar.broker.topic.dispatch.key_shared import KeySharedDispatcher
from magnetar.broker.topic.dispatch.selector import (
    AutoSplitSelector,
    ConsistentHashSelector,
    Selector,
    StickySelector,
)
from magnetar.broker.topic.dispatch.shared import SharedDispatcher
from magnetar.broker.topic.dispatch.single import SingleDispatcher
from magnetar.broker.topic.subscribe_request import KeySharedOptions
from magnetar.model import KeySharedMode
from magnetar.model.subscription_type import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    SubscriptionType,
)

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["check_options", "make_dispatcher"]

Maker: TypeAlias = Callable[["Subscription", KeySharedOptions], Dispatcher]


def make_dispatcher(
    subscription: "Subscription", type: SubscriptionType, options: KeySharedOptions
) -> Dispatcher:
    """Returns a new dispatcher of this type."""
    return MAKERS[type.number](subscription, options)


def check_options(type: SubscriptionType, options: KeySharedOptions) -> None:
    """Raises BrokerError for ranges that no consumer of this type could have."""
    if type.goes_by_key and options.mode == KeySharedMode.Sticky:
        StickySelector().add_ranges(0, options.ranges)


def _exclusive(subscription: "Subscription", options: KeySharedOptions) -> Dispatcher:
    return SingleDispatcher(subscription, EXCLUSIVE)


def _failover(subscription: "Subscription", options: KeySharedOptions) -> Dispatcher:
    return SingleDispatcher(subscription, FAILOVER)


def _shared(subscription: "Subscription", options: KeySharedOptions) -> Dispatcher:
    return SharedDispatcher(subscription, SHARED)


def _key_shared(subscription: "Subscription", options: KeySharedOptions) -> Dispatcher:
    selector = _make_selector(subscription.topic.settings, options)
    return KeySharedDispatcher(subscription, selector, out_of_order=options.out_of_order)


def _make_selector(settings: BrokerSettings, options: KeySharedOptions) -> Selector:
    if options.mode == KeySharedMode.Sticky:
        return StickySelector()
    if settings.key_shared_consistent_hashing:
        return ConsistentHashSelector(settings.key_shared_points)
    return AutoSplitSelector()


MAKERS: Final[dict[int, Maker]] = {
    EXCLUSIVE.number: _exclusive,
    SHARED.number: _shared,
    FAILOVER.number: _failover,
    KEY_SHARED.number: _key_shared,
}
