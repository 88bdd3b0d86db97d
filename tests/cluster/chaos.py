"""Brokers and bookies of a cluster are killed one at a time while programs send and ack.

    PYTHONPATH=.build/compiled:tests .venv/bin/python tests/cluster/chaos.py --kills 12 --rounds 2

Two producers and three consumers of a Shared subscription, all of our client, write down what
happens to them, and the checkers of the simulation judge: what has a receipt reaches the
subscription, whole, and receipts come in the order of sends. A member that was killed stays dead
until so many more messages have receipts, and the next one dies so many after it came back.

What comes back though its ack was confirmed is counted: Apache Pulsar answers acks before they are
durable, and writes them down about once a second. Without retries acks fail besides, when
connections end; nobody gives them again, so these messages stay unacked.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from cluster.pulsar_cluster import PulsarCluster

from magnetar.errors import MagnetarError
from magnetar.model import ConsumerType, InitialPosition
from magnetar.testing.checker.checkers import (
    Violation,
    delivered,
    one_name,
    published_order,
    undelivered,
    whole,
)
from magnetar.testing.checker.history import (
    AckAsked,
    AckFailed,
    AckKept,
    History,
    Place,
    Received,
    SendFailed,
    Stored,
)
from magnetar.testing.checker.recorded import RecordedClient, RecordedConsumer, RecordedProducer

SUBSCRIPTION = "sub"
# Longer than a cluster takes to find out that a member is dead, on a busy machine.
PATIENCE_S = 400
# So many messages get receipts while a member is dead, and so many before the next one dies.
STRIDE = 400
# Sent at a time by each producer.
LOT = 50
KEYS = 20


@dataclass
class Outcome:
    """What came of a run. `wrong` is never right, the numbers may be."""

    stored: int = 0
    failed_sends: int = 0
    kept: int = 0
    failed_acks: int = 0
    # Messages that were handed out again, to whomever, after their ack was confirmed.
    came_back: int = 0
    kills: list[str] = field(default_factory=list)
    wrong: list[Violation] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{len(self.kills)} kills, {self.stored} receipts, {self.failed_sends} sends failed, "
            f"{self.kept} acks confirmed, {self.failed_acks} failed, "
            f"{self.came_back} messages came back"
        )


class Chaos:
    """One run over a topic of its own."""

    def __init__(self, cluster: PulsarCluster, topic: str, *, retries: bool, seed: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._retries = retries
        self._rng = Random(seed)
        self._history = History()
        self._ended = False
        self._acks: set[asyncio.Task[None]] = set()
        self.outcome = Outcome()

    async def run(self, kills: int) -> Outcome:
        async with self._programs() as programs:
            for number in range(kills):
                await self._kill(number)
            self._ended = True
            await asyncio.gather(*programs)
            await self._until(lambda: not any(undelivered(self._history)), "all to arrive")
        self._judge()
        return self.outcome

    @asynccontextmanager
    async def _programs(self) -> AsyncIterator[list["asyncio.Task[None]"]]:
        """Yields the producers; the consumers end with the block."""
        options: dict[str, Any] = {"operation_timeout_seconds": PATIENCE_S}
        async with RecordedClient(self._cluster.url, self._history, "p", **options) as client:
            consumers = [await self._subscribe(client, number) for number in range(3)]
            eaters = [asyncio.create_task(self._eat(consumer)) for consumer in consumers]
            producers = [
                await client.create_producer(
                    self._topic,
                    send_timeout_millis=PATIENCE_S * 1000,
                    batching_max_messages=10,
                )
                for _ in range(2)
            ]
            senders = [asyncio.create_task(self._send(producer)) for producer in producers]
            try:
                yield senders
            finally:
                tasks = [*senders, *eaters, *self._acks]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _subscribe(self, client: RecordedClient, number: int) -> RecordedConsumer:
        return await client.subscribe(
            self._topic,
            SUBSCRIPTION,
            ConsumerType.Shared,
            consumer_name=f"consumer-{number}",
            initial_position=InitialPosition.Earliest,
            ack_receipt_enabled=True,
            auto_retry_acknowledgement=self._retries,
            acknowledgement_group_time_ms=20,
        )

    async def _send(self, producer: RecordedProducer) -> None:
        number = 0
        while not self._ended:
            futures = []
            for _ in range(LOT):
                content = b"%s %d" % (producer.name.encode(), number)
                futures.append(producer.send(content, partition_key=f"k{number % KEYS}"))
                number += 1
            # One that failed is a fact too.
            await asyncio.gather(*futures, return_exceptions=True)

    async def _eat(self, consumer: RecordedConsumer) -> None:
        while True:
            message = await consumer.receive()
            task = asyncio.create_task(self._ack(consumer, message))
            self._acks.add(task)
            task.add_done_callback(self._acks.discard)

    async def _ack(self, consumer: RecordedConsumer, message: Any) -> None:
        with suppress(MagnetarError):  # the history has it
            await consumer.acknowledge(message)

    async def _kill(self, number: int) -> None:
        """Kills a broker or a bookie by turns, and starts it again."""
        cluster = self._cluster
        victim = self._rng.choice(cluster.brokers if number % 2 == 0 else cluster.bookies)
        await self._stored_more("before a kill")
        await asyncio.to_thread(cluster.kill, victim)
        self.outcome.kills.append(victim)
        await self._stored_more(f"without {victim}")
        await asyncio.to_thread(cluster.restart, victim)

    async def _stored_more(self, what: str) -> None:
        wanted = self._stored + STRIDE
        await self._until(lambda: self._stored >= wanted, f"receipts {what}")

    @property
    def _stored(self) -> int:
        return sum(1 for _ in self._history.of(Stored))

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"no {what}, kills: {self.outcome.kills}"
            await asyncio.sleep(0.2)

    def _judge(self) -> None:
        history, outcome = self._history, self.outcome
        for checker in (delivered, published_order, one_name, whole):
            outcome.wrong.extend(checker(history))
        outcome.stored = self._stored
        outcome.failed_sends = sum(1 for _ in history.of(SendFailed))
        outcome.kept = sum(1 for _ in history.of(AckKept))
        outcome.failed_acks = sum(1 for _ in history.of(AckFailed))
        outcome.came_back = came_back(history)


def came_back(history: History) -> int:
    """How many messages were handed out again after their ack was confirmed."""
    asked: dict[tuple[str, int], tuple[Place, ...]] = {}
    kept: set[Place] = set()
    back: set[Place] = set()
    for fact in history.facts:
        if isinstance(fact, AckAsked):
            asked[fact.consumer, fact.number] = fact.places
        elif isinstance(fact, AckKept):
            kept.update(asked[fact.consumer, fact.number])
        elif isinstance(fact, Received) and fact.place in kept:
            back.add(fact.place)
    return len(back)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=6, help="in each run")
    parser.add_argument("--rounds", type=int, default=3, help="runs with retries, and without")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    fine = True
    with PulsarCluster() as cluster:
        for number in range(chosen.rounds):
            for retries in (True, False):
                topic = f"chaos-{number}-{'with' if retries else 'without'}"
                chaos = Chaos(cluster, topic, retries=retries, seed=chosen.seed + number)
                outcome = asyncio.run(chaos.run(chosen.kills))
                print(f"retries {'on' if retries else 'off'}: {outcome}", flush=True)
                for violation in outcome.wrong:
                    print(f"  {violation}")
                fine &= not outcome.wrong
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
