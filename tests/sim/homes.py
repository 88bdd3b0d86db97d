"""A life in which the broker moves: its directory is lost, restored from a copy, or has a twin.

Programs go on as if nothing had happened: the consumer keeps its connection and its acks, and
the publisher publishes. What had a receipt before a move may be gone, for the operator took
it; but no message id names two messages over all homes (I9), all that is published in a home
arrives there (I3), and an ack of what is not there is never a success (I2).

| move    | the broker comes back                                                  |
|---------|------------------------------------------------------------------------|
| restart | where it was                                                           |
| power   | where it was, after a power cut                                        |
| wipe    | with an empty directory                                                |
| copy    | nothing happens to it; its directory is copied, for a later `restore`  |
| restore | with the directory that was copied last                                |

Before each move the clock may jump, an hour back or ahead.
"""

import asyncio
import contextlib
from collections import Counter
from random import Random

from sim.workload import CLIENT

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.client.consumer.message import Message
from magnetar.client.network.clock import Clock
from magnetar.errors import MagnetarError, Timeout
from magnetar.model import ConsumerType, InitialPosition
from magnetar.storage.ids import STRIPES
from magnetar.testing.checker.checkers import check, one_name
from magnetar.testing.checker.history import Fact
from magnetar.testing.checker.recorded import RecordedClient, RecordedConsumer
from magnetar.testing.sim.broker import SimBroker
from magnetar.testing.sim.disk import SimDisk
from magnetar.testing.sim.simulation import Simulation

TOPIC = "persistent://public/default/t"
MOVES = ("restart", "power", "wipe", "copy", "restore")
TWIN_PORT = 6651
PATIENCE_S = 120
HOUR_MS = 3_600_000


class Home:
    """The broker, who publishes to it, and who consumes from it."""

    def __init__(self, simulation: Simulation, random: Random) -> None:
        self.simulation = simulation
        self.broker = simulation.broker
        self.random = random
        self.arrived: set[bytes] = set()
        # Of each home one message that is not acked while the broker is there.
        self.kept: Message | None = None
        self.number = 0
        self.copied: SimDisk | None = None

    async def publish(self, client: RecordedClient, name: str) -> list[bytes]:
        """Some messages that have their receipt."""
        producer = await client.create_producer(TOPIC)
        payloads = [b"%s %d %d" % (name.encode(), self.number, i) for i in range(8)]
        self.number += 1
        for payload in payloads:
            await producer.send(payload)
        await producer.close()
        return payloads

    async def consume(self, consumer: RecordedConsumer) -> None:
        """Acks everything but what it keeps, whatever becomes of the acks."""
        while True:
            try:
                message = await consumer.receive(timeout_millis=500)
            except Timeout:
                continue
            self.arrived.add(message.data())
            if self.kept is None:
                self.kept = message
            elif message.message_id() != self.kept.message_id():
                with contextlib.suppress(MagnetarError):
                    await consumer.acknowledge(message)

    async def until_arrived(self, payloads: list[bytes]) -> None:
        for _ in range(PATIENCE_S):
            if self.arrived.issuperset(payloads):
                return
            await asyncio.sleep(1)
        missing = [payload for payload in payloads if payload not in self.arrived]
        raise AssertionError(f"I3: published in this home, and never delivered: {missing}")

    async def move(self, kind: str) -> None:
        self.simulation.loop.note("home", kind)
        if self.random.random() < 0.4:
            self.simulation.loop.jump_clock(self.random.choice((-HOUR_MS, HOUR_MS)))
        if kind == "copy":
            self.copied = self.broker.disk.copied()
            return
        if kind == "restart":
            await self.broker.stop()
        else:
            self.broker.crash(power_loss=kind == "power")
        if kind == "wipe":
            self.broker.wipe()
        elif kind == "restore" and self.copied is not None:
            self.broker.move_to(self.copied.copied())
        await asyncio.sleep(self.random.random() * 2)
        await self.broker.start()


async def late_ack(home: Home, consumer: RecordedConsumer) -> None:
    """I2: an ack of what the broker does not have is refused, and not with success."""
    kept, home.kept = home.kept, None
    if kept is None:
        return
    try:
        await asyncio.wait_for(consumer.acknowledge(kept), 60)
    except MagnetarError:
        return
    raise AssertionError(f"I2: an ack of {kept.message_id()}, which is gone, was a success")


async def live(simulation: Simulation, random: Random) -> None:
    broker = simulation.broker
    if random.random() < 0.5:
        await _begin_with_twin(simulation, random)
    else:
        await broker.start()
    home = Home(simulation, random)
    client = simulation.client(**CLIENT)
    consumer = await client.subscribe(
        TOPIC,
        "s",
        consumer_type=ConsumerType.Shared,
        initial_position=InitialPosition.Earliest,
        acknowledgement_group_time_ms=random.choice((0, 50)),
        ack_receipt_enabled=True,
        auto_retry_acknowledgement=random.random() < 0.5,
    )
    assert isinstance(consumer, RecordedConsumer)
    consuming = asyncio.get_running_loop().create_task(home.consume(consumer))
    for _ in range(6):
        await home.until_arrived(await home.publish(client, "home"))
        kind = random.choice(MOVES)
        await home.move(kind)
        payloads = await home.publish(client, "home")
        await home.until_arrived(payloads)
        if kind == "wipe":
            await late_ack(home, consumer)
    consuming.cancel()
    await asyncio.gather(consuming, return_exceptions=True)
    await client.close()
    await broker.stop()


async def _begin_with_twin(simulation: Simulation, random: Random) -> None:
    """Another broker that starts in the same moment, and has messages of its own."""
    twin = SimBroker(simulation.loop, simulation.broker.settings, port=TWIN_PORT)
    draw_other_lane(simulation.broker, twin)
    await asyncio.gather(simulation.broker.start(), twin.start())
    client = RecordedClient(
        twin.url,
        simulation.history,
        "twin",
        clock=Clock(simulation.loop.clock_ms, simulation.loop.steady_ms),
        rng=simulation.loop.random_for("twin"),
        **CLIENT,
    )
    await Home(simulation, random).publish(client, "twin")
    await client.close()
    await twin.stop()


def draw_other_lane(one: SimBroker, other: SimBroker) -> None:
    """Two new brokers share ids if they start in one millisecond and draw one stripe, 1 in 128.

    That is what I9 leaves. A simulated disk draws once, so they would at each such start.
    """
    while one.disk.random_u32() % STRIPES == other.disk.random_u32() % STRIPES:
        other.wipe()


def run_seed(seed: int) -> Simulation:
    """One life; raises what is wrong with it."""
    settings = BrokerSettings(segment_bytes=1 << 20, watermark_bytes=0)
    with Simulation(seed, settings=settings) as simulation:
        simulation.run(live(simulation, simulation.loop.random_for("homes")))
    check(simulation.history, [one_name])
    return simulation


def count_facts(seed: int) -> Counter[type[Fact]]:
    """What a seed brought, kind by kind."""
    return Counter(type(fact) for fact in run_seed(seed).history.facts)
