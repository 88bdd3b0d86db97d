"""Several members of a workload that are one program and share one client.

What they have in common is a process, a pool of connections and its timers: all of them die
together, and come back together.
"""

import asyncio
from collections.abc import Sequence

from sim.workload import CLIENT, Publisher, Worker

from magnetar.testing.sim.simulation import Simulation


class CrewProgram:
    """See the module."""

    def __init__(self, simulation: Simulation, members: Sequence[Publisher | Worker]) -> None:
        self._simulation = simulation
        self._members = members

    async def main(self) -> None:
        client = self._simulation.client(**CLIENT)
        # Each consumer is known by its own name, not by that of the program.
        client.names_consumers = True
        async with asyncio.TaskGroup() as tasks:
            for member in self._members:
                tasks.create_task(member.work(client))
        await client.close()
