"""Who may publish to a topic: any number of Shared producers, or one that is alone.

| access mode          | while others are there                   |
|----------------------|------------------------------------------|
| Shared               | refused, if one is alone or waits for it |
| Exclusive            | refused                                  |
| WaitForExclusive     | waits for its turn                       |
| ExclusiveWithFencing | turns them out                           |

Each that gets the topic for itself begins an epoch; one of an older epoch is fenced.

A topic may have tens of thousands of producers, and they may all come or leave at once. So
nothing here looks at all of them when one comes or goes: names are unique among those that
publish and those that wait, and whoever is alone is the only one that publishes.
"""

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final, final

from magnetar.broker.promise import Promise, kept
from magnetar.broker.topic.producer import Producer
from magnetar.broker.turn.slices import Step, in_slices
from magnetar.errors import BrokerError, StorageError
from magnetar.model import ProducerAccessMode, ServerError

if TYPE_CHECKING:
    from magnetar.broker.topic.topic import Topic

__all__ = ["Admission"]

DISMISSED_AT_ONCE: Final = 200


@final
class Admission:
    """See the module."""

    def __init__(self, topic: "Topic", epoch: int) -> None:
        self._topic: Final = topic
        # By name; and those that wait, by name too, the next one first.
        self.producers: Final[dict[str, Producer]] = {}
        self.waiting: Final[OrderedDict[str, Producer]] = OrderedDict()
        self.epoch: int = epoch

    def everybody(self) -> list[Producer]:
        """Returns those that may publish, and those that wait."""
        return [*self.producers.values(), *self.waiting.values()]

    @property
    def empty(self) -> bool:
        """Whether nobody publishes, and nobody waits."""
        return not self.producers and not self.waiting

    def add(self, producer: Producer, topic_epoch: int | None) -> Promise[int]:
        """Lets a producer in; the promise is the topic's epoch, -1 if it has none.

        Kept at once, or when the topic is its own. Raises BrokerError.
        """
        self._check(producer)
        self._replace(producer)
        mode = producer.access_mode
        if topic_epoch is not None and topic_epoch < self.epoch:
            raise BrokerError(
                ServerError.ProducerFenced,
                f"another producer has {self._topic.name} for itself since (epoch {self.epoch})",
            )
        if mode == ProducerAccessMode.Shared:
            self._require_nobody_alone()
        elif mode == ProducerAccessMode.ExclusiveWithFencing:
            self.dismiss_all()
        elif self.producers:
            if mode == ProducerAccessMode.Exclusive:
                raise BrokerError(
                    ServerError.ProducerFenced,
                    f"{self._topic.name} has other producers: close them, or use WaitForExclusive",
                )
            producer.ready = False
            self.waiting[producer.name] = producer
            return Promise()
        self._admit(producer)
        return kept(self.epoch)

    def _check(self, producer: Producer) -> None:
        topic = self._topic
        topic.require_open()
        topic.broker.require_short("producer", producer.name)
        if topic.terminated:
            raise BrokerError(ServerError.TopicTerminatedError, f"{topic.name} is terminated")
        if topic.blocked is not None:
            raise topic.blocked
        limit = topic.policies.limits.max_producers
        if limit > 0 and len(self.producers) >= limit and producer.name not in self.producers:
            raise BrokerError(
                ServerError.ProducerBusy,
                f"{topic.name} has {limit} producers, the most that it may have",
            )

    def _replace(self, producer: Producer) -> None:
        """A producer that comes back takes the place of its old self."""
        old = self.producers.get(producer.name) or self.waiting.get(producer.name)
        if old is None:
            return
        same = old.peer is producer.peer and old.id == producer.id
        if not old.peer.closed and not (same and producer.epoch > old.epoch):
            raise BrokerError(
                ServerError.ProducerBusy,
                f"{self._topic.name} has a producer named {producer.name!r}: choose another name",
            )
        self.remove(old)

    def _require_nobody_alone(self) -> None:
        other = self._alone()
        if other is not None:
            raise BrokerError(
                ServerError.ProducerBusy,
                f"producer {other.name!r} has {self._topic.name} for itself, or waits for that",
            )

    def _alone(self) -> Producer | None:
        """Returns who has the topic for itself, or is the first to wait for that."""
        for producer in self.producers.values():
            # If one is alone there is no second; and if the first is not, none is.
            if producer.access_mode != ProducerAccessMode.Shared:
                return producer
            break
        for producer in self.waiting.values():
            return producer
        return None

    def _admit(self, producer: Producer) -> None:
        topic = self._topic
        if producer.access_mode != ProducerAccessMode.Shared:
            self.epoch += 1
            try:
                topic.broker.save_topic(topic)
            except StorageError:
                self.epoch -= 1
                raise
        producer.ready = True
        self.producers[producer.name] = producer
        topic.active_ticks = topic.host.ticks_ms()

    def remove(self, producer: Producer) -> None:
        """The producer is gone; the next in line may have the topic."""
        producer.closed = True
        self._take_out(producer)

    def _take_out(self, producer: Producer) -> None:
        if self.waiting.get(producer.name) is producer:
            del self.waiting[producer.name]
            return
        if self.producers.get(producer.name) is not producer:
            return
        topic = self._topic
        del self.producers[producer.name]
        topic.active_ticks = topic.host.ticks_ms()
        while self.waiting and not self.producers and not topic.closed:
            _, following = self.waiting.popitem(last=False)
            try:
                self._admit(following)
            except StorageError as error:
                topic.host.warn(f"producer {following.name!r} of {topic.name}: {error}")
                following.dismiss()
            else:
                following.peer.producer_ready(following.id, self.epoch)

    def dismiss(self, producer: Producer) -> None:
        """Turns a producer out, after the receipts of what it has published."""
        producer.stop()
        self._take_out(producer)
        _dismiss(self._topic, producer)

    def dismiss_all(self) -> None:
        """Turns everybody out, and nobody has the topic then.

        Many are told a few at a time, and each after the receipts of what it has published, or
        its client would send that again. What it sends until then is not stored.
        """
        leaving = self.everybody()
        self.producers.clear()
        self.waiting.clear()
        for producer in leaving:
            producer.stop()
        steps: list[Step] = [partial(_dismiss, self._topic, producer) for producer in leaving]
        in_slices(self._topic.host, steps, DISMISSED_AT_ONCE)


def _dismiss(topic: "Topic", producer: Producer) -> Promise[None]:
    if producer.pending == 0:
        producer.dismiss()
    else:
        topic.wait_for(topic.store.ticket_last).when_done(lambda error: producer.dismiss())
    return kept(None)
