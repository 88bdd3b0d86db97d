"""The asyncio door's table view: kept up to date by a task."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext

from magnetar.client.door.aio_reader import Reader
from magnetar.client.door.closing import AsyncClosing
from magnetar.client.door.table import Table
from magnetar.client.schema.value import Received
from magnetar.errors import MagnetarError

__all__ = ["TableView"]


class TableView(AsyncClosing, Table[Received]):
    """The latest value of every key of a topic, kept up to date by a task.

    Values change only while the loop runs other tasks: between two awaits they stay.
    """

    def __init__(
        self, reader: Reader[Received], log_problem: Callable[[str, Exception], None]
    ) -> None:
        super().__init__(nullcontext())
        self._reader = reader
        self._log_problem = log_problem
        self._task: asyncio.Task[None] | None = None

    async def _fill(self) -> None:
        """Takes what is there, and follows what comes."""
        while await self._reader.has_message_available():
            self._take(await self._reader.read_next())
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self) -> None:
        try:
            async for message in self._reader:
                self._take(message)
        except MagnetarError as error:  # the topic was deleted or terminated
            self._log_problem(f"the table view of {self._reader.topic()} ends", error)

    async def close(self) -> None:
        """Closes the view; what it has stays as it is."""
        await self._reader.close()
        if self._task is not None:
            await self._task

    def __repr__(self) -> str:
        topic, state = self._reader.topic(), self._reader._engine.state
        return f"<magnetar.aio.TableView of {topic}: {len(self)} keys, {state}>"
