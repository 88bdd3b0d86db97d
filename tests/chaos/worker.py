"""A consumer in a process of its own: it is handed messages, acks them, and writes down both.

It ends by a signal, at any moment. As a program: `python worker.py JSON`, see `Plan`.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Coroutine
from typing import Any

from magnetar.client.door import aio
from magnetar.errors import MagnetarError
from magnetar.model import ConsumerType, InitialPosition, MessageId

# A cumulative ack for so many messages.
STRIDE = 20


class Worker:
    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._name = ""
        self._begun = 0
        self._log = os.open(plan["log"], os.O_WRONLY | os.O_APPEND)
        self._acks: set[asyncio.Task[None]] = set()

    def _note(self, kind: str, *facts: object) -> None:
        os.write(self._log, f"{kind} {self._name} {' '.join(map(str, facts))}\n".encode())

    async def run(self) -> None:
        while True:
            # What a new client does not know of is as if it were another worker's.
            self._name = f"{self._plan['name']}.{self._begun}"
            self._begun += 1
            self._note("W")
            try:
                await self._consume()
            except MagnetarError as error:
                print(f"{self._name}: {error}", file=sys.stderr)
                await asyncio.sleep(0.1)

    async def _consume(self) -> None:
        plan = self._plan
        async with aio.Client(
            plan["url"], operation_timeout_seconds=10, initial_backoff_ms=10, max_backoff_ms=200
        ) as client:
            consumer = await client.subscribe(
                plan["topic"],
                "sub",
                consumer_type=ConsumerType[plan["type"]],
                consumer_name=self._name,
                initial_position=InitialPosition.Earliest,
                ack_receipt_enabled=True,
                auto_retry_acknowledgement=plan["retries"],
                acknowledgement_group_time_ms=20,
            )
            count = 0
            while True:
                message = await consumer.receive()
                id = message.message_id()
                self._note("P", _text(id), message.partition_key(), message.data().decode())
                count += 1
                if not plan["cumulative"]:
                    self._note("Q", _text(id))
                    self._later(self._ack(consumer.acknowledge(id), "A", id))
                elif count % STRIDE == 0 or message.properties().get("last"):
                    self._note("Q", _text(id))
                    self._later(self._ack(consumer.acknowledge_cumulative(id), "C", id))

    def _later(self, ack: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(ack)
        self._acks.add(task)
        task.add_done_callback(self._acks.discard)

    async def _ack(self, ack: Awaitable[None], kept: str, id: MessageId) -> None:
        try:
            await ack
        except MagnetarError:
            self._note("F", _text(id))
        else:
            self._note(kept, _text(id))


def _text(id: MessageId) -> str:
    return f"{id.ledger_id()}:{id.entry_id()}:{id.batch_index()}"


if __name__ == "__main__":
    asyncio.run(Worker(json.loads(sys.argv[1])).run())
