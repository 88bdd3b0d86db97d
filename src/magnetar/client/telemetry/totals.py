"""What a client did, by topic and subscription, since it was made.

Counters of what was closed are kept, so a total never goes back; of what was open only then,
such as queues and permits, nothing is. Partitions count for their topic.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from magnetar.client.option.options import ConsumerOptions
from magnetar.client.telemetry.stats import (
    ConsumerStats,
    ProducerStats,
    consumer_stats,
    producer_stats,
)
from magnetar.model import TopicName

if TYPE_CHECKING:
    from magnetar.client.engine.consumer import EngineConsumer
    from magnetar.client.engine.partition_consumer import PartitionConsumer
    from magnetar.client.engine.producer import EngineProducer

__all__ = [
    "ClientStats",
    "ConnectionCounts",
    "Sessions",
    "Totals",
    "added",
    "part_key",
    "taken_from",
]

# What is told of now, and not counted.
NOW = frozenset(
    {
        "pending_messages",
        "pending_bytes",
        "queue_length",
        "available_permits",
        "unreturned_permits",
        "acks_pending",
        "acks_waiting",
    }
)

S = TypeVar("S", ProducerStats, ConsumerStats)


@dataclass(slots=True)
class ConnectionCounts:
    """Connections since the client was made, and attempts at them that failed."""

    opened: int = 0
    closed: int = 0
    # No connection; and one whose peer did not shake hands, or refused us.
    failed_connect: int = 0
    failed_handshake: int = 0

    def add(self, other: "ConnectionCounts") -> None:
        self.opened += other.opened
        self.closed += other.closed
        self.failed_connect += other.failed_connect
        self.failed_handshake += other.failed_handshake


@dataclass(frozen=True, slots=True)
class ClientStats:
    """What all producers and consumers of a client did, those included that are closed.

    Dead and retry letters are published by producers too, and count here.
    """

    producers_opened: int
    producers_closed: int
    consumers_opened: int
    consumers_closed: int
    connections_opened: int
    connections_closed: int
    connections_failed: int
    producers: ProducerStats
    consumers: ConsumerStats


class Sessions:
    """How many producers or consumers of a topic were made, and are closed again."""

    __slots__ = ("closed", "opened")

    def __init__(self) -> None:
        self.opened: int = 0
        self.closed: int = 0


class Totals:
    """See the module. The lock is the engine's."""

    def __init__(self, lock: "AbstractContextManager[object]") -> None:
        self._lock = lock
        self.connections: ConnectionCounts = ConnectionCounts()
        self.producer_sessions: dict[str, Sessions] = {}
        self.consumer_sessions: dict[tuple[str, str], Sessions] = {}
        self._producers: dict[EngineProducer, None] = {}
        self._consumers: dict[EngineConsumer, None] = {}
        self._past_producers: dict[str, ProducerStats] = {}
        self._past_consumers: dict[tuple[str, str], ConsumerStats] = {}

    # ---- What there is -------------------------------------------------------

    def add_producer(self, producer: "EngineProducer") -> None:
        with self._lock:
            self._producers[producer] = None
            self.producer_sessions.setdefault(producer.topic, Sessions()).opened += 1

    def add_consumer(self, consumer: "EngineConsumer") -> None:
        with self._lock:
            self._consumers[consumer] = None
            self.consumer_sessions.setdefault(_key(consumer), Sessions()).opened += 1

    def remove_producer(self, producer: "EngineProducer") -> None:
        """It is closed. One that was never added is none."""
        with self._lock:
            if producer in self._producers:
                del self._producers[producer]
                self.producer_sessions[producer.topic].closed += 1
                _fold(self._past_producers, producer.topic, past(producer.stats()))

    def remove_consumer(self, consumer: "EngineConsumer") -> None:
        with self._lock:
            if consumer in self._consumers:
                del self._consumers[consumer]
                self.consumer_sessions[_key(consumer)].closed += 1
                for part in consumer.parts.values():
                    self._remove_part(part)

    def remove_part(self, part: "PartitionConsumer") -> None:
        """A consumer left a topic, and goes on with others."""
        with self._lock:
            self._remove_part(part)

    def _remove_part(self, part: "PartitionConsumer") -> None:
        _fold(self._past_consumers, part_key(part), past(consumer_stats([part.core])))

    def absorb(self, other: "Totals") -> None:
        """Adds what another client did so far, as if it were of this one and past."""
        for topic, stats in other.producers().items():
            _fold(self._past_producers, topic, stats)
        for key, taken in other.consumers().items():
            _fold(self._past_consumers, key, taken)
        with other._lock:
            _absorb_sessions(self.producer_sessions, other.producer_sessions)
            _absorb_sessions(self.consumer_sessions, other.consumer_sessions)
        self.connections.add(other.connections)

    # ---- What it did ---------------------------------------------------------

    def producers(self) -> dict[str, ProducerStats]:
        """Returns totals of producers by topic."""
        with self._lock:
            found = dict(self._past_producers)
            for producer in self._producers:
                _fold(found, producer.topic, producer.stats())
            return found

    def consumers(self) -> dict[tuple[str, str], ConsumerStats]:
        """Returns totals of consumers by topic and subscription."""
        with self._lock:
            found = dict(self._past_consumers)
            for consumer in self._consumers:
                for part in consumer.parts.values():
                    _fold(found, part_key(part), consumer_stats([part.core]))
            return found

    def stats(self) -> ClientStats:
        connections = self.connections
        with self._lock:
            producers, consumers = self.producer_sessions, self.consumer_sessions
            return ClientStats(
                producers_opened=sum(one.opened for one in producers.values()),
                producers_closed=sum(one.closed for one in producers.values()),
                consumers_opened=sum(one.opened for one in consumers.values()),
                consumers_closed=sum(one.closed for one in consumers.values()),
                connections_opened=connections.opened,
                connections_closed=connections.closed,
                connections_failed=connections.failed_connect + connections.failed_handshake,
                producers=_sum(self.producers().values(), producer_stats([])),
                consumers=_sum(self.consumers().values(), consumer_stats([])),
            )


def added(one: S, other: S) -> S:
    """Field by field."""
    return _combined(one, other, 1)


def taken_from(one: S, other: S) -> S:
    """What was counted since `one`; what is told of now is as it is."""
    since = _combined(other, one, -1)
    return replace(since, **{name: getattr(other, name) for name in _now(other)})


def past(stats: S) -> S:
    """What is left of it when it is closed."""
    nothing: dict[str, Any] = dict.fromkeys(_now(stats), 0)
    return replace(stats, **nothing)


def _combined(one: S, other: S, sign: int) -> S:
    values: dict[str, Any] = {}
    for field in fields(one):
        first, second = getattr(one, field.name), getattr(other, field.name)
        if isinstance(first, tuple):
            values[field.name] = tuple(a + sign * b for a, b in zip(first, second, strict=True))
        else:
            values[field.name] = first + sign * second
    return type(one)(**values)


def _now(stats: S) -> list[str]:
    return [field.name for field in fields(stats) if field.name in NOW]


def _sum(several: Iterable[S], total: S) -> S:
    for one in several:
        total = added(total, one)
    return total


K = TypeVar("K")


def _fold(into: dict[K, S], key: K, stats: S) -> None:
    before = into.get(key)
    into[key] = stats if before is None else added(before, stats)


def _absorb_sessions(into: dict[K, Sessions], other: dict[K, Sessions]) -> None:
    for key, sessions in other.items():
        mine = into.setdefault(key, Sessions())
        mine.opened += sessions.opened
        mine.closed += sessions.closed


def _key(consumer: "EngineConsumer") -> tuple[str, str]:
    return consumer.title, _subscription(consumer.options)


def part_key(part: "PartitionConsumer") -> tuple[str, str]:
    """The topic and the subscription that it counts for."""
    return str(TopicName.parse(part.topic).partitioned), _subscription(part.options)


def _subscription(options: ConsumerOptions) -> str:
    """Readers count together: each has a subscription of its own, whose name nobody chose."""
    return options.subscription_name if options.durable else "reader"
