"""Sends the orders of a plan with three producers, and writes down what the broker confirmed."""

import asyncio
from functools import partial
from typing import Any

from examples.demo import orders
from examples.demo.orders import BURST, CHUNK, Order, Plan, checksum
from examples.demo.worker import now_ms, place_of
from magnetar import aio
from magnetar.client.option.policy import BatchingType
from magnetar.model import MessageId

# As many bursts go out at once; then there is a pause, if sending is ahead of its time.
TOGETHER = 10


class Sender:
    """`stored` has a line of facts for each order that is stored, `ids` where each is."""

    def __init__(self, plan: Plan, url: str, topic: str) -> None:
        self._plan = plan
        self._url = url
        self._topic = topic
        self.stored: list[str] = []
        self.ids: dict[str, MessageId] = {}
        self.due_ms: dict[str, int] = {}
        self.cancellable = asyncio.Event()

    @property
    def share(self) -> float:
        """How much of everything is stored."""
        return len(self.stored) / self._plan.messages

    async def run(self) -> None:
        async with aio.Client(
            self._url, initial_backoff_ms=20, max_backoff_ms=300, wait_for_broker=True
        ) as client:
            # While the broker is away all that is sent waits here.
            waiting: dict[str, Any] = {"send_timeout_millis": 0, "max_pending_messages": 0}
            till = await client.create_producer(
                self._topic,
                producer_name="till",
                batching_enabled=True,
                batching_type=BatchingType.KeyBased,
                batching_max_publish_delay_ms=5,
                **waiting,
            )
            bulk = await client.create_producer(
                self._topic,
                producer_name="bulk",
                chunking_enabled=True,
                chunk_max_message_size=CHUNK,
                **waiting,
            )
            later = await client.create_producer(self._topic, producer_name="later", **waiting)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._send_later(later))
                tasks.create_task(self._send_large(bulk))
                tasks.create_task(self._send_batched(till))

    async def _send_batched(self, producer: aio.Producer) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        each_s = self._plan.seconds * BURST / self._plan.batched
        for number, burst in enumerate(orders.batched(self._plan)):
            for order in burst:
                self._send(producer, order)
            if number % TOGETHER == 0:
                await asyncio.sleep(max(0.0, began + number * each_s - loop.time()))
        await producer.flush()

    async def _send_large(self, producer: aio.Producer) -> None:
        """One after the other, over as long as the others take."""
        for order in orders.large(self._plan):
            await self._send(producer, order)
            await asyncio.sleep(self._plan.seconds / self._plan.large / 2)

    async def _send_later(self, producer: aio.Producer) -> None:
        sent = []
        for order in orders.later(self._plan):
            cancelled = order.kind == "cancelled"
            delay_s = self._plan.cancelled_s if cancelled else self._plan.later_s
            sent.append(self._send(producer, order, delay_s))
        await asyncio.gather(*sent)
        self.cancellable.set()

    def _send(
        self, producer: aio.Producer, order: Order, delay_s: float = 0
    ) -> "asyncio.Future[MessageId]":
        payload = order.payload()
        due_ms = now_ms() + int(delay_s * 1000) if delay_s else 0
        future = producer.send(payload, partition_key=order.key, deliver_at=due_ms or None)
        future.add_done_callback(partial(self._note, order, checksum(payload), due_ms))
        return future

    def _note(
        self, order: Order, crc: str, due_ms: int, future: "asyncio.Future[MessageId]"
    ) -> None:
        if future.cancelled() or future.exception() is not None:
            return  # who waits for it is told
        id = future.result()
        facts = (place_of(id), order.key, order.number, order.kind, crc, now_ms(), due_ms)
        self.stored.append(f"S {' '.join(map(str, facts))}\n")
        if order.kind in ("poison", "cancelled"):
            self.ids[order.kind] = id
            self.due_ms[order.kind] = due_ms
