"""Messages in chunks under a seed: the real broker and client, with everything that goes wrong.

I6: what arrives is whole. I1, I3: what has a receipt arrives on every subscription, whoever
died meanwhile. And when peace has come nothing is left: chunks that were sent twice, or that
a producer left behind when it was killed, are acked when their time is up.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import pytest
from sim.workload import CLIENT

from magnetar.errors import MagnetarError
from magnetar.model import ConsumerType, InitialPosition
from magnetar.testing.checker.history import Received, Sent, Stored
from magnetar.testing.sim.simulation import Simulation
from magnetar.testing.sim.trouble import Trouble

SEEDS = max(1, int(os.environ.get("MAGNETAR_SIM_SEEDS", "50")) // 12)
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

T = TypeVar("T")
TOPIC = "persistent://public/default/large"
TROUBLE = ("cut", "hold", "partition", "kill", "power", "sync", "unload", "program", "clock")
SUBSCRIPTIONS = {
    "exclusive": ConsumerType.Failover,
    "shared": ConsumerType.Shared,
    "keys": ConsumerType.KeyShared,
}
EXPIRE_MS = 20_000
PATIENCE_S = 600


class Run:
    """Producers and consumers of one seed, and what they know."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.publishing = True
        self.ending = False
        self.numbers: dict[str, int] = {}

    async def publish(self, name: str) -> None:
        random = self.simulation.loop.random_for(f"producer {name}")
        chunk_size = random.choice([15, 50, 1000, 20_000])
        client = self.simulation.client(**CLIENT)
        producer = await self._retried(
            lambda: client.create_producer(
                TOPIC,
                producer_name=name,
                send_timeout_millis=0,
                max_pending_messages=5,
                block_if_queue_full=True,
                chunking_enabled=True,
                chunk_max_message_size=chunk_size,
            )
        )
        while self.publishing:
            number = self.numbers.get(name, 0)
            self.numbers[name] = number + 1
            # From a fraction of a chunk to forty of them.
            size = int((40 * chunk_size) ** random.random())
            content = b"%s %d " % (name.encode(), number) + random.randbytes(size)
            with contextlib.suppress(MagnetarError):
                await producer.send_when_room(content, partition_key=f"k{random.randrange(3)}")
            await asyncio.sleep(random.random() * 2)
        with contextlib.suppress(MagnetarError):
            await producer.flush()
        await client.close()

    async def consume(self, subscription: str, number: int) -> None:
        random = self.simulation.loop.random_for(f"consumer {subscription} {number}")
        # One that is slow has whole messages in its queue when its connection is lost.
        work_s = random.choice([0.0, 0.3, 2.0])
        client = self.simulation.client(**CLIENT)
        consumer = await self._retried(
            lambda: client.subscribe(
                TOPIC,
                subscription,
                consumer_type=SUBSCRIPTIONS[subscription],
                initial_position=InitialPosition.Earliest,
                receiver_queue_size=random.choice([1, 3, 100]),
                ack_receipt_enabled=True,
                negative_ack_redelivery_delay_ms=500,
                max_pending_chunked_message=random.choice([2, 10]),
                expire_time_of_incomplete_chunked_message_ms=EXPIRE_MS,
            )
        )
        while not self.ending:
            try:
                message = await consumer.receive(1000)
                await asyncio.sleep(random.random() * work_s)
                if random.random() < 0.1:
                    consumer.negative_acknowledge(message)
                elif subscription == "exclusive" and random.random() < 0.3:
                    await consumer.acknowledge_cumulative(message)
                else:
                    await consumer.acknowledge(message)
            except MagnetarError:
                await asyncio.sleep(0.1)  # it comes again
        await client.close()

    async def _retried(self, make: Callable[[], Awaitable[T]]) -> T:
        while True:
            with contextlib.suppress(MagnetarError):
                return await make()
            await asyncio.sleep(0.3)

    # ---- The run -------------------------------------------------------------

    async def main(self) -> None:
        simulation = self.simulation
        await simulation.broker.start()
        client = simulation.client(**CLIENT)
        for name, kind in SUBSCRIPTIONS.items():
            made = await client.subscribe(
                TOPIC, name, consumer_type=kind, initial_position=InitialPosition.Earliest
            )
            await made.close()
        await client.close()
        victims = []
        for name in ("one", "two"):
            simulation.program(name, partial(self.publish, name))
            victims.append(name)
        for name in SUBSCRIPTIONS:
            for number in range(2):
                simulation.program(f"{name} {number}", partial(self.consume, name, number))
                victims.append(f"{name} {number}")
        trouble = Trouble(simulation, kinds=TROUBLE, topics=[TOPIC], victims=victims)
        await trouble.make(40, gap_s=4)
        await trouble.end()
        self.publishing = False
        await self._until(lambda: not self._undelivered(), self._undelivered)
        await self._until(lambda: not self._backlogs(), self._backlogs)
        self.ending = True
        await self._until(
            lambda: not any(program.running for program in simulation.programs.values()), str
        )
        simulation.check_programs()
        await simulation.broker.stop()

    def _undelivered(self) -> list[tuple[str, bytes]]:
        """What has a receipt and did not arrive."""
        history = self.simulation.history
        sent = {(fact.producer, fact.number): fact.payload for fact in history.of(Sent)}
        got = {(fact.subscription, fact.payload) for fact in history.of(Received)}
        return [
            (name, sent[(fact.producer, fact.number)][:10])
            for fact in history.of(Stored)
            for name in SUBSCRIPTIONS
            if (name, sent[(fact.producer, fact.number)]) not in got
        ]

    def _backlogs(self) -> list[tuple[str, int]]:
        broker = self.simulation.broker
        try:
            found = [
                (name, broker.subscription(TOPIC, name).cursor.unacked_entries())
                for name in SUBSCRIPTIONS
            ]
        except KeyError:
            return [("not loaded", 0)]
        return [(name, count) for name, count in found if count]

    async def _until(self, condition: Callable[[], bool], what: Callable[[], object]) -> None:
        loop = self.simulation.loop
        deadline = loop.time() + PATIENCE_S
        while not condition():
            assert loop.time() < deadline, f"I3: {what()}"
            await asyncio.sleep(1)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_messages_in_chunks_survive_everything(seed: int) -> None:
    with Simulation(seed) as simulation:
        simulation.run(Run(simulation).main())
        history = simulation.history
        whole = {fact.payload for fact in history.of(Sent)}
        received = list(history.of(Received))
        assert len(received) > 20
        assert all(fact.payload in whole for fact in received)
