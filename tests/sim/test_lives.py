"""Stores that are not the ones that acks were given for, on the simulator.

The general run has no room for these: a store that is lost loses what had a receipt, and the
same positions name other messages, which is what its checkers are there to find. So these are
scenes with one question each: is everything handed out that the new store has?
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from magnetar.client.door.aio import Client
from magnetar.client.network.clock import Clock
from magnetar.client.option.service_info import ServiceInfo, ServiceInfoProvider
from magnetar.model import InitialPosition, MessageId
from magnetar.testing import Simulation
from magnetar.testing.sim.broker import SimBroker

TOPIC = "persistent://public/default/t"
LETTERS = [b"a", b"b", b"c", b"d", b"e"]
# Virtual time in which everybody is back, and told.
BACK_S = 60
seeds = pytest.mark.parametrize("seed", range(6))


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


def client_of(simulation: Simulation, where: Any) -> Client:
    loop = simulation.loop
    clock = Clock(loop.clock_ms, loop.steady_ms)
    return Client(where, clock=clock, rng=loop.random_for(f"client {loop.next_serial()}"))


async def publish(simulation: Simulation, url: str) -> None:
    client = client_of(simulation, url)
    producer = await client.create_producer(TOPIC, batching_enabled=False)
    for letter in LETTERS:
        await producer.send(letter)
    await client.close()


async def consume(client: Client, failed: list[MessageId]) -> Any:
    """A consumer that has acked all but one message, and nothing of it was sent."""
    consumer = await client.subscribe(
        TOPIC,
        "s",
        initial_position=InitialPosition.Earliest,
        acknowledgement_group_time_ms=600_000,
        auto_retry_acknowledgement=True,
        on_acknowledgement_failed=lambda ids, error: failed.extend(ids),
    )
    held = [await consumer.receive() for _ in LETTERS]
    for message in held[:-1]:
        await consumer.acknowledge(message)
    return consumer, held


async def judge(consumer: Any, held: list[Any], failed: list[MessageId]) -> None:
    await consumer.acknowledge(held[-1])  # of a message from before
    got = [await consumer.receive() for _ in LETTERS]
    assert [message.data() for message in got] == LETTERS
    await asyncio.sleep(BACK_S)
    assert sorted(failed) == sorted(message.message_id() for message in held)


@seeds
def test_a_broker_that_comes_back_with_an_empty_store_is_sent_no_ack_from_before(
    seed: int,
) -> None:
    async def main() -> None:
        await simulation.broker.start()
        await publish(simulation, simulation.broker.url)
        client = client_of(simulation, simulation.broker.url)
        # So that the cursor has another number in the store that comes, and the ledger has not.
        await client.subscribe(f"{TOPIC}-other", "other")
        failed: list[MessageId] = []
        consumer, held = await consume(client, failed)
        simulation.broker.crash(power_loss=seed % 2 == 0)
        simulation.broker.wipe()
        await simulation.broker.start()
        await publish(simulation, simulation.broker.url)
        await asyncio.sleep(BACK_S)
        await judge(consumer, held, failed)
        await client.close()
        await simulation.broker.stop()

    with Simulation(seed) as simulation:
        simulation.run(main())


@seeds
def test_a_client_that_fails_over_takes_no_ack_with_it(seed: int) -> None:
    async def main() -> None:
        there = SimBroker(simulation.loop, port=6651)
        for broker in (simulation.broker, there):
            await broker.start()
            await publish(simulation, broker.url)
        provider = Told(simulation.broker.url)
        client = client_of(simulation, provider)
        failed: list[MessageId] = []
        consumer, held = await consume(client, failed)
        provider.update(ServiceInfo(there.url))
        await judge(consumer, held, failed)
        await client.close()
        for broker in (simulation.broker, there):
            await broker.stop()

    with Simulation(seed) as simulation:
        simulation.run(main())
