"""The dead letters of one topic or partition, on their way to the dead letter topic."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.client.consumer.core import ConsumerCore
from magnetar.client.consumer.dead_letter import dead_letter_properties
from magnetar.client.consumer.message import Message
from magnetar.client.engine.letters import Letters
from magnetar.client.option.options import ConsumerOptions
from magnetar.errors import MagnetarError

if TYPE_CHECKING:
    from magnetar.client.engine.client import Engine

__all__ = ["Burials"]


class Burials:
    """Publishes what was redelivered too often, one after the other, from the first one on."""

    def __init__(
        self,
        engine: "Engine",
        options: ConsumerOptions,
        core: ConsumerCore,
        letters: Letters,
        topic: str,
        rearm: Callable[[], None],
        buried: Callable[[Message], None],
    ) -> None:
        self._engine = engine
        self._options = options
        self._core = core
        self._letters = letters
        self._topic = topic
        self._rearm = rearm
        # Told of each that is published, and acked therefore.
        self._buried = buried
        self._queue: asyncio.Queue[Message] | None = None
        self._task: asyncio.Task[None] | None = None

    def bury(self) -> None:
        """Takes the dead from the core."""
        with self._engine.lock:
            dead = self._core.take_dead()
        if not dead:
            return
        if self._queue is None:
            self._queue = asyncio.Queue()
            self._task = asyncio.get_running_loop().create_task(self._publish(self._queue))
        for message in dead:
            self._queue.put_nowait(message)

    async def _publish(self, queue: "asyncio.Queue[Message]") -> None:
        policy = self._options.dead_letter_policy
        assert policy is not None
        subscription = self._options.subscription_name
        while True:
            message = await queue.get()
            if message._delivery.gone:
                continue  # it is unacked where it came from
            try:
                await self._letters.publish(
                    self._topic,
                    message,
                    dead_letter_properties(message, subscription),
                    initial_subscription=policy.initial_subscription_name,
                )
            except MagnetarError as error:
                self._engine.log_problem(f"publishing to {self._topic}", error)
                with self._engine.lock:
                    self._core.dead_failed(message)
            else:
                with self._engine.lock:
                    acked = self._core.dead_published(message)
                if acked:
                    self._buried(message)
            self._rearm()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
