"""A life of two brokers, between which clients fail over and come back.

The brokers share nothing: each has its own store, and the same names for other topics. A
publisher and a consumer are told where to go by an `AutoClusterFailover`, whose primary dies
and comes back, or by a provider that changes its mind at any moment; meanwhile brokers are
killed and connections break. In the end each broker is the one that is gone to for a while:
what has a receipt of either is handed out then (I1, I3), an ack that was a success stays one
(I2), and no id names two messages (I9).
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from random import Random

from sim.homes import draw_other_lane
from sim.workload import CLIENT

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.client.network.clock import Clock
from magnetar.client.option.service_info import (
    AutoClusterFailover,
    ServiceInfo,
    ServiceInfoProvider,
)
from magnetar.errors import MagnetarError, Timeout
from magnetar.model import ConsumerType, InitialPosition
from magnetar.testing.checker.checkers import acked_once, check, one_name, permitted, whole
from magnetar.testing.checker.history import Fact, Received, Sent, Stored
from magnetar.testing.checker.recorded import RecordedClient
from magnetar.testing.sim.broker import SimBroker
from magnetar.testing.sim.simulation import Simulation

TOPIC = "persistent://public/default/t"
OTHER_PORT = 6651
ROUNDS = 6
PATIENCE_S = 300
CHECKERS = (one_name, whole, acked_once, permitted)


class Told(ServiceInfoProvider):
    """Says where to go when it is told to."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.update: Callable[[ServiceInfo], None] = lambda info: None

    def initial_service_info(self) -> ServiceInfo:
        return ServiceInfo(self._url)

    def initialize(self, on_service_info_update: Callable[[ServiceInfo], None]) -> None:
        self.update = on_service_info_update

    def close(self) -> None:
        self.update = lambda info: None


class Pair:
    """Two brokers, and programs that go to one of them."""

    def __init__(self, simulation: Simulation, random: Random) -> None:
        self.simulation = simulation
        self.random = random
        settings = simulation.broker.settings
        other = SimBroker(simulation.loop, settings, port=OTHER_PORT)
        draw_other_lane(simulation.broker, other)
        self.brokers = [simulation.broker, other]
        self.by_itself = random.random() < 0.5
        self.tellers: list[Told] = []
        self.publishing = True
        self.consuming = True

    def client(self, name: str) -> RecordedClient:
        urls = [broker.url for broker in self.brokers]
        where: object
        if self.by_itself:
            where = AutoClusterFailover(
                ServiceInfo(urls[0]), [ServiceInfo(urls[1])], check_interval_ms=500
            )
        else:
            where = Told(urls[0])
            self.tellers.append(where)
        return self._connected_to(where, name)

    def _connected_to(self, where: object, name: str) -> RecordedClient:
        loop = self.simulation.loop
        return RecordedClient(
            where,  # type: ignore[arg-type]
            self.simulation.history,
            name,
            clock=Clock(loop.clock_ms, loop.steady_ms),
            rng=loop.random_for(f"client {name}"),
            **CLIENT,
        )

    async def make_subscriptions(self) -> None:
        """Subscribes on both brokers: what is published where nobody ever did is nobody's.

        Such messages may be trimmed with their ledger, before the consumer first comes there.
        """
        for broker in self.brokers:
            async with self._connected_to(broker.url, "first.1") as client:
                await client.subscribe(
                    TOPIC,
                    "s",
                    consumer_type=ConsumerType.Shared,
                    initial_position=InitialPosition.Earliest,
                )

    async def publish(self) -> None:
        client = self.client("publisher.1")
        producer = await client.create_producer(TOPIC, send_timeout_millis=0)
        number = 0
        while self.publishing:
            with contextlib.suppress(MagnetarError):
                async with asyncio.timeout(PATIENCE_S):
                    await producer.send(f"m {number}".encode())
            number += 1
            await asyncio.sleep(self.random.random() * 0.2)
        await client.close()

    async def consume(self) -> None:
        client = self.client("consumer.1")
        consumer = await client.subscribe(
            TOPIC,
            "s",
            consumer_type=ConsumerType.Shared,
            initial_position=InitialPosition.Earliest,
            ack_receipt_enabled=True,
            auto_retry_acknowledgement=self.random.random() < 0.5,
        )
        acks: list[asyncio.Task[None]] = []
        while self.consuming:
            with contextlib.suppress(Timeout):
                message = await consumer.receive(timeout_millis=500)
                # One at a time would wait for the broker that is gone.
                acks.append(asyncio.ensure_future(consumer.acknowledge(message)))
        for ack in acks:
            ack.cancel()
        await asyncio.gather(*acks, return_exceptions=True)
        await client.close()

    async def go_to(self, number: int) -> None:
        """Everybody goes to one broker, sooner or later."""
        for teller in self.tellers:
            teller.update(ServiceInfo(self.brokers[number].url))
        if self.by_itself:
            # The primary is gone to whenever it is there.
            await self._set_up(self.brokers[0], up=number == 0)

    async def _set_up(self, broker: SimBroker, *, up: bool) -> None:
        if up and not broker.up:
            await broker.start()
        elif not up and broker.up:
            broker.crash(power_loss=self.random.random() < 0.5)

    async def trouble(self) -> None:
        """One thing that goes wrong."""
        broker = self.random.choice(self.brokers)
        connections = list(self.simulation.loop.network.connections.values())
        if self.random.random() < 0.5 and connections:
            self.random.choice(connections).cut()
        elif broker.up:
            broker.crash(power_loss=self.random.random() < 0.5)
            await asyncio.sleep(self.random.random())
            await broker.start()

    def missing(self) -> list[bytes]:
        """What has a receipt and was not handed out."""
        history = self.simulation.history
        sent = {(fact.producer, fact.number): fact.payload for fact in history.of(Sent)}
        stored = {sent[fact.producer, fact.number] for fact in history.of(Stored)}
        return sorted(stored.difference(fact.payload for fact in history.of(Received)))


async def live(simulation: Simulation, random: Random) -> None:
    pair = Pair(simulation, random)
    for broker in pair.brokers:
        await broker.start()
    await pair.make_subscriptions()
    tasks = [asyncio.ensure_future(pair.consume()), asyncio.ensure_future(pair.publish())]
    for _ in range(ROUNDS):
        await asyncio.sleep(random.random() * 3)
        await pair.trouble()
        await pair.go_to(random.randrange(2))
    pair.publishing = False
    for broker in pair.brokers:
        if not broker.up:
            await broker.start()
    await pair.go_to(0)
    await tasks[1]
    for number in (1, 0):
        await pair.go_to(number)
        await asyncio.sleep(30)
    for _ in range(PATIENCE_S):
        if not pair.missing():
            break
        await asyncio.sleep(1)
    assert not pair.missing(), f"I1: with a receipt, and never handed out: {pair.missing()}"
    pair.consuming = False
    await tasks[0]
    for broker in pair.brokers:
        if broker.up:
            await broker.stop()


def run_seed(seed: int) -> Simulation:
    """One life; raises what is wrong with it."""
    settings = BrokerSettings(segment_bytes=1 << 20, watermark_bytes=0, keep_alive_ms=5000)
    with Simulation(seed, settings=settings) as simulation:
        simulation.run(live(simulation, simulation.loop.random_for("failover")))
    check(simulation.history, CHECKERS)
    return simulation


def count_facts(seed: int) -> Counter[type[Fact]]:
    """What a seed brought, kind by kind."""
    return Counter(type(fact) for fact in run_seed(seed).history.facts)
