"""What goes wrong in a simulation, one thing after another, as the seed has it.

| kind      | what happens                                                                   |
|-----------|--------------------------------------------------------------------------------|
| cut       | a connection breaks, at any byte; both ends are told, each in its time          |
| hold      | a connection goes silent for a while, half open, then heals or breaks           |
| partition | the broker or a program is out of reach for a while                             |
| kill      | the broker is killed and started again; what was written is there               |
| power     | its machine loses power: writes that no sync covered are there, or not, or torn |
| operation | the same in the middle of an operation of the disk                              |
| sync      | a sync fails, which ends in a crash of the broker                               |
| full      | the disk is full for some operations, or there are no descriptors for them      |
| stall     | writes take long, for a while                                                   |
| unload    | a topic is unloaded                                                             |
| clock     | the time of day jumps, forward or back                                          |
| program   | a program is killed, or its machine loses power, and is started again           |

`make` draws and does; `end` puts everything in order again: what is still missing after
that is missing for good. `repeat` does again what was made, or a part of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from magnetar.errors import MagnetarError
from magnetar.testing.sim.disk import DiskFaults

if TYPE_CHECKING:
    from magnetar.testing.sim.connection import SimConnection
    from magnetar.testing.sim.simulation import Program, Simulation

__all__ = ["KINDS", "Trouble", "TroubleEvent"]

KINDS: Final = (
    "cut",
    "hold",
    "partition",
    "kill",
    "power",
    "operation",
    "sync",
    "full",
    "stall",
    "unload",
    "clock",
    "program",
)
"""The kinds of trouble that `Trouble` can make."""

# How long a state of things lasts at most, in seconds.
HOLD_S_MAX: Final = 30.0
DOWN_S_MAX: Final = 3.0
STALL: Final = DiskFaults(stall_share=0.2, stall_s_max=3.0)
FULL_OPERATIONS_MAX: Final = 30
OPERATIONS_MAX: Final = 60
# The clocks of machines are off by seconds, or by an hour where somebody sets them.
JUMPS_MS: Final = (1_000, 60_000, 3_600_000)


@dataclass(frozen=True)
class TroubleEvent:
    """Something that went wrong: when, in nanoseconds of the loop, and with which luck."""

    at_ns: int
    kind: str
    chance: tuple[Any, ...] = field(repr=False)


class Trouble:
    """Makes trouble as a seed draws it.

    `topics` can be unloaded, `victims` are the programs that may die.
    """

    def __init__(
        self,
        simulation: "Simulation",
        *,
        kinds: Sequence[str] = KINDS,
        topics: Sequence[str] = (),
        victims: Sequence[str] = (),
    ) -> None:
        self._simulation: Final = simulation
        self._loop: Final = simulation.loop
        self._broker: Final = simulation.broker
        self._random: Final = simulation.loop.random_for("trouble")
        self._topics: Final = list(topics)
        self._victims: Final = list(victims)
        self._held: Final[dict[int, SimConnection]] = {}
        self._tasks: Final[list[asyncio.Task[None]]] = []
        self._clock_ms = 0
        self._clock_ms_max = 0
        self.made: Final[list[TroubleEvent]] = simulation.trouble
        ways: dict[str, Callable[[], Awaitable[None]]] = {
            "cut": self._cut,
            "hold": self._hold,
            "partition": self._partition,
            "kill": self._kill,
            "power": self._power,
            "operation": self._operation,
            "sync": self._sync,
            "full": self._full,
            "stall": self._stall,
            "unload": self._unload,
            "clock": self._clock,
            "program": self._program,
        }
        self._ways: Final = {kind: ways[kind] for kind in kinds}

    async def make(self, seconds: float, *, gap_s: float) -> None:
        """Makes trouble for so long, each thing about `gap_s` after the one before."""
        end = self._loop.time() + seconds
        while self._ways and self._loop.time() < end:
            await asyncio.sleep(self._random.random() * 2 * gap_s)
            await self.do(self._random.choice(list(self._ways)))
            self._simulation.check_programs()

    async def repeat(self, events: Sequence[TroubleEvent], *, seconds: float) -> None:
        """Does what was made before, each with the luck it had then; lasts so long at least."""
        end = self._loop.time() + seconds
        for event in events:
            await asyncio.sleep(max(0.0, (event.at_ns - self._loop.now_ns) / 1e9))
            self._random.setstate(event.chance)
            await self.do(event.kind)
            self._simulation.check_programs()
        await asyncio.sleep(max(0.0, end - self._loop.time()))

    async def do(self, kind: str) -> None:
        self.made.append(TroubleEvent(self._loop.now_ns, kind, self._random.getstate()))
        self._loop.note("trouble", kind)
        await self._ways[kind]()

    async def end(self) -> None:
        """Everything is well again, and stays so."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        self._broker.faults = DiskFaults()
        self._broker.disk.faults = DiskFaults()
        self._broker.disk.keep_power()
        self._broker.disk.fill(0)
        self._broker.disk.shorten(0)
        # What was to be delivered at a time must not wait until it is that late again.
        self._jump(self._clock_ms_max - self._clock_ms)
        for connection in self._held.values():
            connection.heal()
        self._held.clear()
        self._loop.network.reset_silent()
        if not self._broker.up:
            await self._broker.start()
        for name in self._victims:
            program = self._simulation.programs[name]
            self._loop.network.heal(program.process)
            if not program.running:
                program.restart()

    # ---- The network ---------------------------------------------------------

    def _connection(self) -> "SimConnection | None":
        connections = list(self._loop.network.connections.values())
        return self._random.choice(connections) if connections else None

    async def _cut(self) -> None:
        connection = self._connection()
        if connection is not None:
            connection.cut()

    async def _hold(self) -> None:
        connection = self._connection()
        if connection is None:
            return
        connection.hold()
        self._held[connection.number] = connection
        self._later(self._random.random() * HOLD_S_MAX, lambda: self._let_go(connection))

    def _let_go(self, connection: "SimConnection") -> None:
        self._held.pop(connection.number, None)
        if self._random.random() < 0.5:
            connection.heal()
        else:
            connection.cut()

    async def _partition(self) -> None:
        process = self._broker.process
        if self._victims and self._random.random() < 0.5:
            process = self._victim().process
        if process is None or process.dead:
            return
        self._loop.network.partition(process)
        await asyncio.sleep(self._random.random() * HOLD_S_MAX)
        self._loop.network.heal(process)

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        async def wait() -> None:
            await asyncio.sleep(delay_s)
            action()

        self._tasks.append(self._loop.create_task(wait(), name="trouble"))

    # ---- The broker and its disk ---------------------------------------------

    async def _kill(self) -> None:
        await self._crash(power_loss=False)

    async def _power(self) -> None:
        await self._crash(power_loss=True)

    async def _crash(self, *, power_loss: bool) -> None:
        self._broker.crash(power_loss=power_loss)
        await asyncio.sleep(self._random.random() * DOWN_S_MAX)
        await self._broker.start()

    async def _operation(self) -> None:
        disk = self._broker.disk
        disk.lose_power_after(1 + int(self._random.random() * OPERATIONS_MAX))
        for _ in range(20):
            await asyncio.sleep(0.1)
            if disk.dead:
                await self._crash(power_loss=True)
                return
        disk.keep_power()

    async def _sync(self) -> None:
        self._broker.disk.fail_sync()
        await asyncio.sleep(self._random.random())
        await self._crash(power_loss=self._random.random() < 0.5)

    async def _full(self) -> None:
        operations = 1 + int(self._random.random() * FULL_OPERATIONS_MAX)
        if operations % 2:
            self._broker.disk.fill(operations)
        else:
            self._broker.disk.shorten(operations)

    async def _stall(self) -> None:
        def end() -> None:
            self._broker.faults = DiskFaults()
            self._broker.disk.faults = DiskFaults()

        self._broker.faults = STALL
        self._broker.disk.faults = STALL
        self._later(self._random.random() * 5, end)

    async def _unload(self) -> None:
        if not self._topics or not self._broker.up:
            return
        topic = self._random.choice(self._topics)

        async def unload() -> None:
            try:
                await self._broker.unload(topic)
            except MagnetarError as error:
                self._loop.note("unload", f"{topic}: {type(error).__name__}")

        self._tasks.append(self._loop.create_task(unload(), name="unload"))

    # ---- Clocks and programs -------------------------------------------------

    async def _clock(self) -> None:
        most = self._random.choice(JUMPS_MS)
        self._jump(int((self._random.random() * 2 - 1) * most))

    def _jump(self, milliseconds: int) -> None:
        self._clock_ms += milliseconds
        self._clock_ms_max = max(self._clock_ms_max, self._clock_ms)
        self._loop.jump_clock(milliseconds)

    def _victim(self) -> "Program":
        return self._simulation.programs[self._random.choice(self._victims)]

    async def _program(self) -> None:
        if not self._victims:
            return
        program = self._victim()
        program.crash(silent=self._random.random() < 0.3)
        await asyncio.sleep(self._random.random() * DOWN_S_MAX)
        program.restart()
