"""A program of our asyncio client, recorded as programs of the simulation are.

    python aio_program.py NAME URL FACT_FILE STOP_FILE ROLE...

Acks are retried in the background, so what it acked it must not see again, confirmed or not.
"""

import asyncio
import sys
from typing import Any

from jepsen.fact_file import FactFile
from jepsen.role import (
    MAX_BACKOFF_MS,
    NACK_DELAY_MS,
    NACK_SHARE,
    STRIDE,
    Consume,
    Payloads,
    Plan,
    Produce,
    full,
    parse,
)

from magnetar.client.option.policy import BatchingType
from magnetar.errors import MagnetarError
from magnetar.exceptions import Timeout
from magnetar.model import ConsumerType, InitialPosition
from magnetar.testing.checker.recorded import RecordedClient, RecordedConsumer

IDLE_MS = 1000
AGAIN_S = 0.3


class Program:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._facts = FactFile(plan.facts)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until it is killed."""
        async with asyncio.TaskGroup() as group:
            for role in self._plan.roles:
                group.create_task(self._play(role))

    async def _play(self, role: Produce | Consume) -> None:
        """What fails is done again, by a new client with a name of its own."""
        life = 0
        while isinstance(role, Consume) or not self._plan.stop.exists():
            name = f"{self._plan.called(role)}/{life}"
            life += 1
            try:
                async with RecordedClient(
                    self._plan.url,
                    self._facts,
                    name,
                    operation_timeout_seconds=10,
                    max_backoff_ms=MAX_BACKOFF_MS,
                ) as client:
                    if isinstance(role, Produce):
                        await self._produce(client, role, name)
                    else:
                        await self._consume(client, role)
            except MagnetarError as error:
                print(f"{name}: {type(error).__name__} {error}", file=sys.stderr)
                await asyncio.sleep(AGAIN_S)

    async def _produce(self, client: RecordedClient, role: Produce, name: str) -> None:
        producer = await client.create_producer(
            full(role.topic),
            producer_name=name,
            send_timeout_millis=20_000,
            batching_enabled=True,
            batching_type=BatchingType.KeyBased,
            batching_max_publish_delay_ms=50,
        )
        payloads = Payloads(name, role.keys)
        pending: set[asyncio.Future[Any]] = set()
        while not self._plan.stop.exists():
            _, key, payload = payloads.next()
            options = {"partition_key": key} if key else {}
            pending.add(await producer.send_when_room(payload, **options))
            await asyncio.sleep(1 / role.rate)
            done = {future for future in pending if future.done()}
            pending -= done
            for future in done:
                future.result()
        await producer.flush()
        await producer.close()

    async def _consume(self, client: RecordedClient, role: Consume) -> None:
        consumer = await client.subscribe(
            full(role.topic),
            role.subscription,
            consumer_type=ConsumerType[role.type],
            consumer_name=self._plan.program,
            initial_position=InitialPosition.Earliest,
            ack_receipt_enabled=True,
            auto_retry_acknowledgement=True,
            negative_ack_redelivery_delay_ms=NACK_DELAY_MS,
            receiver_queue_size=100,
        )
        if role.cumulative:
            await self._ack_cumulatively(consumer)
        else:
            await self._ack_one_by_one(consumer)

    async def _ack_one_by_one(self, consumer: RecordedConsumer) -> None:
        count = 0
        while True:
            message = await consumer.receive()
            count += 1
            if message.redelivery_count() == 0 and count % round(1 / NACK_SHARE) == 0:
                consumer.negative_acknowledge(message)
            else:
                self._later(consumer, consumer.acknowledge(message), message)

    async def _ack_cumulatively(self, consumer: RecordedConsumer) -> None:
        last, count = None, 0
        while True:
            try:
                message = await consumer.receive(IDLE_MS)
            except Timeout:
                message = None
            else:
                last, count = message, count + 1
            if last is not None and (message is None or count % STRIDE == 0):
                self._later(consumer, consumer.acknowledge_cumulative(last), None)
                last = None

    def _later(self, consumer: RecordedConsumer, ack: Any, message: Any) -> None:
        """Acks beside receiving. A message whose ack is given up is refused, to come again."""

        async def wait() -> None:
            try:
                await ack
            except MagnetarError as error:
                print(f"{consumer.name}: ack: {type(error).__name__} {error}", file=sys.stderr)
                if message is not None:
                    consumer.negative_acknowledge(message)

        task = asyncio.get_running_loop().create_task(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


if __name__ == "__main__":
    asyncio.run(Program(parse(sys.argv[1:])).run())
