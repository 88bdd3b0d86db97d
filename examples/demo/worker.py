"""A worker in a process of its own: it handles orders, acks each by itself, refuses what it cannot.

It writes down what it is handed before it acks, and each ack that is confirmed. SIGTERM lets it
finish; SIGKILL may come at any moment. As a program: `python -m examples.demo.worker JSON`.
"""

import asyncio
import json
import os
import signal
import sys
import time
from typing import Any

from examples.demo.facts import Place
from examples.demo.orders import checksum
from examples.demo.turns import Turns
from magnetar import aio
from magnetar.errors import MagnetarError
from magnetar.model import ConsumerType, MessageId

# How long a refused order stays away.
NACK_DELAY_MS = 400


class NotNow(Exception):
    """This order cannot be handled at the moment."""


def handle(order: dict[str, Any], came_before: int) -> None:
    """What a real worker would do something with. Raises what can go wrong."""
    if order.get("flaky") and not came_before:
        raise NotNow("the warehouse does not answer")
    if order["amount"] + 0 < 1:
        raise NotNow("the order is empty")


class Worker:
    def __init__(self, name: str, url: str, topic: str, subscription: str, log: str) -> None:
        self._name = name
        self._url = url
        self._topic = topic
        self._subscription = subscription
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND)
        self._turns = Turns()
        self._acks: set[asyncio.Task[None]] = set()

    def _note(self, kind: str, *facts: object) -> None:
        os.write(self._log, " ".join([kind, self._name, *map(str, facts)]).encode() + b"\n")

    async def run(self) -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        async with aio.Client(
            self._url, initial_backoff_ms=20, max_backoff_ms=300, wait_for_broker=True
        ) as client:
            consumer = await client.subscribe(
                self._topic,
                self._subscription,
                consumer_type=ConsumerType.KeyShared,
                consumer_name=self._name,
                ack_receipt_enabled=True,
                auto_retry_acknowledgement=True,
                negative_ack_redelivery_delay_ms=NACK_DELAY_MS,
            )
            self._note("W")
            working = asyncio.create_task(self._work(consumer))
            await asyncio.wait(
                [working, asyncio.create_task(stop.wait())], return_when=asyncio.FIRST_COMPLETED
            )
            if working.done():
                working.result()
            working.cancel()
            await asyncio.gather(*self._acks)

    async def _work(self, consumer: aio.Consumer) -> None:
        async for message in consumer:
            place = place_of(message.message_id())
            key, came_before = message.partition_key(), message.redelivery_count()
            data = message.data()
            order = json.loads(data)
            handled = self._turns.may_handle(key, place)
            if handled:
                try:
                    handle(order, came_before)
                except (NotNow, TypeError):
                    handled = False
            facts = (place, key, order["number"], checksum(data), now_ms(), came_before)
            self._note("P" if handled else "N", *facts)
            if handled:
                self._turns.handled(key, place)
                ack = asyncio.create_task(self._ack(consumer, message, place))
                self._acks.add(ack)
                ack.add_done_callback(self._acks.discard)
            else:
                self._turns.refused(key, place)
                consumer.negative_acknowledge(message)

    async def _ack(self, consumer: aio.Consumer, message: Any, place: Place) -> None:
        try:
            await consumer.acknowledge(message)
        except MagnetarError as error:
            print(f"{self._name}: ack of {place}: {error}", file=sys.stderr)
        else:
            self._note("A", place, now_ms())


def place_of(id: MessageId) -> Place:
    return Place(id.ledger_id(), id.entry_id(), id.batch_index())


def now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    asyncio.run(Worker(**json.loads(sys.argv[1])).run())
