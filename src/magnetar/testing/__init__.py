"""For tests: a simulated loop, network and disk, and a broker for programs' own tests.

Everything is loaded when it is first asked for: pytest loads `pytest_plugin` from here
wherever Magnetar is installed, and most of its runs want none of this.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.testing.checker.checkers import CHECKERS, Violation, ViolationError, check
    from magnetar.testing.checker.history import History, Place
    from magnetar.testing.checker.recorded import RecordedClient, RecordedConsumer, RecordedProducer
    from magnetar.testing.embedded import EmbeddedBroker
    from magnetar.testing.sim.broker import SimBroker
    from magnetar.testing.sim.connection import SimConnection, SimTransport
    from magnetar.testing.sim.disk import DiskFaults, PowerLost, SimDisk
    from magnetar.testing.sim.executor import SimExecutor
    from magnetar.testing.sim.loop import (
        DeadlockError,
        SimLoop,
        SimulationError,
        SpinError,
        StepLimitError,
    )
    from magnetar.testing.sim.network import NetworkConditions, SimNetwork, SimServer
    from magnetar.testing.sim.process import ProcessKilled, SimProcess
    from magnetar.testing.sim.simulation import Program, Simulation
    from magnetar.testing.sim.trace import Trace, fingerprint
    from magnetar.testing.sim.trouble import KINDS, Trouble
    from magnetar.testing.sim.wiretap import Wiretap
    from magnetar.testing.sim.writer import SimWriter

__all__ = [
    "CHECKERS",
    "KINDS",
    "DeadlockError",
    "DiskFaults",
    "EmbeddedBroker",
    "History",
    "NetworkConditions",
    "Place",
    "PowerLost",
    "ProcessKilled",
    "Program",
    "RecordedClient",
    "RecordedConsumer",
    "RecordedProducer",
    "SimBroker",
    "SimConnection",
    "SimDisk",
    "SimExecutor",
    "SimLoop",
    "SimNetwork",
    "SimProcess",
    "SimServer",
    "SimTransport",
    "SimWriter",
    "Simulation",
    "SimulationError",
    "SpinError",
    "StepLimitError",
    "Trace",
    "Trouble",
    "Violation",
    "ViolationError",
    "Wiretap",
    "check",
    "fingerprint",
]

_NAMES = {
    "checker.checkers": ("CHECKERS", "Violation", "ViolationError", "check"),
    "embedded": ("EmbeddedBroker",),
    "checker.history": ("History", "Place"),
    "checker.recorded": ("RecordedClient", "RecordedConsumer", "RecordedProducer"),
    "sim.broker": ("SimBroker",),
    "sim.connection": ("SimConnection", "SimTransport"),
    "sim.disk": ("DiskFaults", "PowerLost", "SimDisk"),
    "sim.executor": ("SimExecutor",),
    "sim.loop": ("DeadlockError", "SimLoop", "SimulationError", "SpinError", "StepLimitError"),
    "sim.network": ("NetworkConditions", "SimNetwork", "SimServer"),
    "sim.process": ("ProcessKilled", "SimProcess"),
    "sim.writer": ("SimWriter",),
    "sim.simulation": ("Program", "Simulation"),
    "sim.trace": ("Trace", "fingerprint"),
    "sim.trouble": ("KINDS", "Trouble"),
    "sim.wiretap": ("Wiretap",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'magnetar.testing' has no attribute {name!r}")
    return getattr(import_module(f"magnetar.testing.{module}"), name)
