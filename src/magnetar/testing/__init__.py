"""For tests: a simulated loop, network and disk, and a broker for programs' own tests.

Everything is loaded when it is first asked for: pytest loads `pytest_plugin` from here
wherever Magnetar is installed, and most of its runs want none of this.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.testing.checkers import CHECKERS, Violation, ViolationError, check
    from magnetar.testing.embedded import EmbeddedBroker
    from magnetar.testing.history import History, Place
    from magnetar.testing.recorded import RecordedClient, RecordedConsumer, RecordedProducer
    from magnetar.testing.sim_broker import SimBroker
    from magnetar.testing.sim_connection import SimConnection, SimTransport
    from magnetar.testing.sim_disk import DiskFaults, PowerLost, SimDisk
    from magnetar.testing.sim_executor import SimExecutor
    from magnetar.testing.sim_loop import DeadlockError, SimLoop, SimulationError, StepLimitError
    from magnetar.testing.sim_network import NetworkConditions, SimNetwork, SimServer
    from magnetar.testing.sim_process import ProcessKilled, SimProcess
    from magnetar.testing.sim_writer import SimWriter
    from magnetar.testing.simulation import Program, Simulation
    from magnetar.testing.trace import Trace, fingerprint
    from magnetar.testing.trouble import KINDS, Trouble
    from magnetar.testing.wiretap import Wiretap

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
    "checkers": ("CHECKERS", "Violation", "ViolationError", "check"),
    "embedded": ("EmbeddedBroker",),
    "history": ("History", "Place"),
    "recorded": ("RecordedClient", "RecordedConsumer", "RecordedProducer"),
    "sim_broker": ("SimBroker",),
    "sim_connection": ("SimConnection", "SimTransport"),
    "sim_disk": ("DiskFaults", "PowerLost", "SimDisk"),
    "sim_executor": ("SimExecutor",),
    "sim_loop": ("DeadlockError", "SimLoop", "SimulationError", "StepLimitError"),
    "sim_network": ("NetworkConditions", "SimNetwork", "SimServer"),
    "sim_process": ("ProcessKilled", "SimProcess"),
    "sim_writer": ("SimWriter",),
    "simulation": ("Program", "Simulation"),
    "trace": ("Trace", "fingerprint"),
    "trouble": ("KINDS", "Trouble"),
    "wiretap": ("Wiretap",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'magnetar.testing' has no attribute {name!r}")
    return getattr(import_module(f"magnetar.testing.{module}"), name)
