"""The rates that hold for one topic, and the gates of it and its subscriptions.

| rate of        | says                                                    | shared by           |
|----------------|---------------------------------------------------------|---------------------|
| a subscription | a policy of its own, else `subscriptionDispatchRate`    | its consumers       |
| a topic        | `publishRate`, `dispatchRate`: its own, its namespace's | its producers, its  |
|                | or the settings'                                        | subscriptions       |
| a group        | the resource group of the namespace                     | all its namespaces  |
| the broker     | the settings                                            | all topics          |

Where none of them limits anything there is no gate, and nothing is counted.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.broker.rate.dispatch_gate import DispatchGate
from magnetar.broker.rate.publish_gate import PublishGate
from magnetar.broker.rate.rate import NO_RATE, Rate
from magnetar.broker.rate.resource_group import GroupRates
from magnetar.broker.rate.subscribe_limit import SubscribeLimit
from magnetar.broker.rate.throttle import Throttle
from magnetar.errors import BrokerError
from magnetar.model import ServerError

if TYPE_CHECKING:
    from magnetar.broker.topic.consumer import Consumer
    from magnetar.broker.topic.producer import Producer
    from magnetar.broker.topic.subscription import Subscription
    from magnetar.broker.topic.topic import Topic

__all__ = ["TopicRates"]


@final
class TopicRates:
    """See the module. `publishing` is the gate of producers, if there is one."""

    def __init__(self, topic: "Topic") -> None:
        self._topic: Final = topic
        self._publish: Final = Throttle(topic.host, NO_RATE)
        self._dispatch: Final = Throttle(topic.host, NO_RATE)
        self._subscribe: SubscribeLimit | None = None
        self.publishing: PublishGate | None = None
        # How often somebody who published was held up.
        self.publishes_held: int = 0
        # How often somebody was refused who subscribed too often.
        self.subscribes_refused: int = 0
        self.follow()

    def follow(self) -> None:
        """Goes by the policies of the topic, which are new; subscriptions follow by themselves."""
        policies = self._topic.policies.rates
        self._publish.change(policies.publish)
        self._dispatch.change(self._beside(policies.dispatch))
        self._follow_publish()
        told = policies.subscribe
        if not told.limits:
            self._subscribe = None
        elif self._subscribe is None or not self._subscribe.rate.equals(told):
            self._subscribe = SubscribeLimit(told)

    def _group(self) -> GroupRates | None:
        name = self._topic.policies.rates.resource_group
        return self._topic.broker.rates.of_group(name) if name else None

    # ---- Publishing ----------------------------------------------------------

    def _follow_publish(self) -> None:
        group = self._group()
        throttles = [self._publish, self._topic.broker.rates.publish]
        if group is not None:
            throttles.append(group.publish)
        throttles = [one for one in throttles if one.limits]
        before = self.publishing
        self.publishing = PublishGate(throttles) if throttles else None
        if before is not None and any(one not in throttles for one in before.throttles):
            self._let_go_of(throttles)

    def _let_go_of(self, throttles: list[Throttle]) -> None:
        """Who waits for a rate that does not hold here any more goes on."""
        for producer in self._topic.producers.values():
            peer = producer.peer
            if peer.held_up is not None and peer.held_up not in throttles:
                peer.held_up.forget(peer)
                peer.tokens_came()

    def publish(self, producer: "Producer", messages: i64, size: int) -> None:
        """Counts an entry; its producer is held up if that was more than a rate allows."""
        if self.publishing is not None and self.publishing.take(producer.peer, messages, size):
            self.publishes_held += 1

    # ---- Handing out ---------------------------------------------------------

    def gate_of(self, subscription: "Subscription") -> DispatchGate | None:
        """The gate that a subscription is to have, its own one if there is one."""
        if not self._topic.name.persistent:
            return None  # What nobody can take now is lost, so nothing waits for a time.
        group = self._group()
        rate = self._beside(self._topic.policies.rates.of_subscription(subscription.name))
        subscription.throttle.change(rate)
        found = {
            "subscription": subscription.throttle,
            "topic": self._dispatch,
            "broker": self._topic.broker.rates.dispatch,
        }
        if group is not None:
            found["resourceGroup"] = group.dispatch
        throttles = {reason: one for reason, one in found.items() if one.limits}
        gate = subscription.gate
        if gate is not None:
            gate.change(throttles)
            return gate if throttles else None
        return DispatchGate(subscription, throttles) if throttles else None

    def _beside(self, rate: Rate) -> Rate:
        """The same, beside what is published now if it is relative to that."""
        incoming = self._topic.incoming
        return rate.beside(incoming.message_rate, incoming.byte_rate)

    def tick(self) -> None:
        """It was reckoned how much is published: what is relative to it changes."""
        policies = self._topic.policies.rates
        if policies.dispatch.relative:
            self._dispatch.change(self._beside(policies.dispatch))
        if policies.any_relative:
            for subscription in self._topic.subscriptions.values():
                rate = policies.of_subscription(subscription.name)
                if rate.relative:
                    subscription.throttle.change(self._beside(rate))

    # ---- Subscribing ---------------------------------------------------------

    def require_subscribe(self, consumer: "Consumer") -> None:
        """Counts a subscribe. Raises BrokerError if the consumer has subscribed too often."""
        limit = self._subscribe
        if limit is None or limit.allows(
            consumer.peer.address, consumer.name, int(consumer.id), self._topic.host.ticks_ms()
        ):
            return
        self.subscribes_refused += 1
        raise BrokerError(
            ServerError.NotAllowedError,
            f"Subscribe limited by subscribe rate limit per consumer: {consumer.name!r} may "
            f"subscribe {limit.rate.messages} times in {limit.rate.period_seconds} s to "
            f"{self._topic.name}",
        )

    # ---- The end -------------------------------------------------------------

    def end(self) -> None:
        """The topic goes: nobody waits for its rates any more."""
        self._publish.change(NO_RATE)
        self._dispatch.change(NO_RATE)
