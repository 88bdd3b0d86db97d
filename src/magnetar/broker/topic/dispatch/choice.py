"""Which dispatcher serves a consumer: by the type of its subscription, and what it asks for."""

from typing import TYPE_CHECKING

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
from magnetar.model import ConsumerType, KeySharedMode

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["make_dispatcher", "suits"]


def suits(dispatcher: Dispatcher, type: int, options: KeySharedOptions) -> bool:
    """Whether the consumer may join those that the dispatcher has."""
    if isinstance(dispatcher, SingleDispatcher):
        if type == ConsumerType.Failover:
            return dispatcher.failover
        return type == ConsumerType.Exclusive and not dispatcher.failover
    if isinstance(dispatcher, KeySharedDispatcher):
        sticky = isinstance(dispatcher.selector, StickySelector)
        return (
            type == ConsumerType.KeyShared
            and sticky == (options.mode == KeySharedMode.Sticky)
            and dispatcher.out_of_order == options.out_of_order
        )
    return type == ConsumerType.Shared


def make_dispatcher(
    subscription: "Subscription", type: int, options: KeySharedOptions
) -> Dispatcher:
    if type == ConsumerType.Shared:
        return SharedDispatcher(subscription)
    if type == ConsumerType.KeyShared:
        selector = _make_selector(subscription.topic.settings, options)
        return KeySharedDispatcher(subscription, selector, out_of_order=options.out_of_order)
    return SingleDispatcher(subscription, failover=type == ConsumerType.Failover)


def _make_selector(settings: BrokerSettings, options: KeySharedOptions) -> Selector:
    if options.mode == KeySharedMode.Sticky:
        return StickySelector()
    if settings.key_shared_consistent_hashing:
        return ConsistentHashSelector(settings.key_shared_points)
    return AutoSplitSelector()
