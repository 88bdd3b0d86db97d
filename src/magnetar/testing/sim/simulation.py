"""A broker and the programs that use it, on one simulated machine room, driven by one seed.

    with Simulation(seed=1) as simulation:
        simulation.run(main(simulation))

`main` is a coroutine that looks on: it starts the broker, starts programs, makes trouble and
waits. Programs run in processes of their own and are killed like processes:

| a program is | by                                                                          |
|--------------|-----------------------------------------------------------------------------|
| running      | `program`, `Program.restart`                                                |
| crashed      | `Program.crash`: not even a `finally` runs                                  |
| ended        | its coroutine returned; what it raised fails the run                        |

Every client made by `client` writes what is done with it into `history`, and a wiretap
writes what the broker hears and says. `checkers.py` judges that.
"""

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Final, TypeVar

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.turn.turns import COMMAND_COST_MAX, LOOK_COST, TURN_COST
from magnetar.client.network.clock import Clock
from magnetar.testing.checker.history import History, Turn
from magnetar.testing.checker.recorded import RecordedClient
from magnetar.testing.sim.broker import SimBroker
from magnetar.testing.sim.disk import SimDisk
from magnetar.testing.sim.loop import SimLoop
from magnetar.testing.sim.network import NetworkConditions
from magnetar.testing.sim.process import SimProcess, process_of
from magnetar.testing.sim.trace import Trace
from magnetar.testing.sim.trouble import TroubleEvent
from magnetar.testing.sim.wiretap import Wiretap

__all__ = ["Program", "Simulation"]

T = TypeVar("T")

# One answer or entry is put on top of an outbox that is nearly full; here they are small.
WAITING_SLACK: Final = 24 * 1024

Main = Callable[[], Coroutine[Any, Any, object]]


class Program:
    """Something that runs in a process of its own, again and again; made by `Simulation`."""

    def __init__(self, simulation: "Simulation", name: str, main: Main) -> None:
        self.name: Final[str] = name
        self._simulation: Final[Simulation] = simulation
        self._main: Final[Main] = main
        self.process: SimProcess = simulation.loop.process(name)
        self.task: asyncio.Task[object] = self.process.start(main())

    @property
    def running(self) -> bool:
        return not self.process.dead and not self.task.done()

    def crash(self, *, silent: bool = False) -> None:
        """Ends it as kill -9 does, or with `silent` as a power cut."""
        self._simulation.loop.kill(self.process, silent=silent)

    def restart(self) -> None:
        """Starts it anew, in another process."""
        if self.running:
            self.crash()
        self.process = self._simulation.loop.process(self.name)
        self.task = self.process.start(self._main())


class Simulation:
    """Runs a coroutine and its programs under one seed, with simulated time and network."""

    def __init__(
        self,
        seed: int,
        *,
        settings: BrokerSettings | None = None,
        conditions: NetworkConditions | None = None,
        disk_class: type[SimDisk] = SimDisk,
        trace: Trace | None = None,
        **options: Any,
    ) -> None:
        self.seed: Final[int] = seed
        self.loop: Final[SimLoop] = SimLoop(seed, trace=trace, conditions=conditions, **options)
        self.history: Final[History] = History(self.loop)
        self.broker: Final[SimBroker] = SimBroker(self.loop, settings, disk_class=disk_class)
        self.programs: Final[dict[str, Program]] = {}
        # What went wrong so far; `Trouble` writes it down.
        self.trouble: Final[list[TroubleEvent]] = []
        self.loop.network.tap = Wiretap(self.history)
        self.broker.turn_watcher = self._note_turn
        self._turn_cost: int = 0
        self._turn_waiting: int = 0

    def _note_turn(self, peer: str, cost: int, waiting: int) -> None:
        """Writes down what is more than any turn before had."""
        if cost <= self._turn_cost and waiting <= self._turn_waiting:
            return
        self._turn_cost = max(cost, self._turn_cost)
        self._turn_waiting = max(waiting, self._turn_waiting)
        settings = self.broker.settings
        own_max = settings.max_outbound_bytes_per_connection
        self.history.add(
            Turn(
                peer,
                cost,
                waiting,
                cost_max=TURN_COST + LOOK_COST + COMMAND_COST_MAX,
                # What sockets have not taken, an outbox, and what was put on top of it.
                waiting_max=2 * own_max + WAITING_SLACK,
            )
        )

    def client(self, **options: Any) -> RecordedClient:
        """Returns a client of the broker, with the simulation's time and chance."""
        process = process_of(None, self.loop.main)
        name = f"{process.name}.{process.serial}"
        return RecordedClient(
            self.broker.url,
            self.history,
            name,
            clock=Clock(self.loop.clock_ms, self.loop.steady_ms),
            rng=self.loop.random_for(f"client {name} {self.loop.next_serial()}"),
            **options,
        )

    def program(self, name: str, main: Main) -> Program:
        """Starts a program in a process of its own."""
        assert name not in self.programs, f"there is a program {name!r} already"
        program = self.programs[name] = Program(self, name, main)
        return program

    def check_programs(self) -> None:
        """Raises what a program ended with."""
        for program in self.programs.values():
            if program.task.done() and not program.process.dead:
                program.task.result()

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs the one who looks on to his end; what is left then is cancelled."""
        return self.loop.run(main)

    def __enter__(self) -> "Simulation":
        self.loop.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.loop.__exit__(kind, error, traceback)
