"""For tests: a simulated loop, network and disk."""

from magnetar.testing.sim_connection import SimConnection, SimTransport
from magnetar.testing.sim_disk import DiskFaults, PowerLost, SimDisk
from magnetar.testing.sim_executor import SimExecutor
from magnetar.testing.sim_loop import DeadlockError, SimLoop, SimulationError, StepLimitError
from magnetar.testing.sim_network import NetworkConditions, SimNetwork, SimServer
from magnetar.testing.sim_process import ProcessKilled, SimProcess
from magnetar.testing.sim_writer import SimWriter
from magnetar.testing.trace import Trace, fingerprint

__all__ = [
    "DeadlockError",
    "DiskFaults",
    "NetworkConditions",
    "PowerLost",
    "ProcessKilled",
    "SimConnection",
    "SimDisk",
    "SimExecutor",
    "SimLoop",
    "SimNetwork",
    "SimProcess",
    "SimServer",
    "SimTransport",
    "SimWriter",
    "SimulationError",
    "StepLimitError",
    "Trace",
    "fingerprint",
]
