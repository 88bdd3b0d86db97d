"""Bugs of storage that rotting disks, passing shortages and clocks that are set must find."""

from collections.abc import Callable
from typing import Any

from sim.plants import Plant, returns

from magnetar.errors import CorruptionError

STORAGE = "magnetar.storage"


def _believes(original: Callable[..., Any]) -> Callable[..., Any]:
    """A record is taken for what the index says, whatever stands there."""
    return lambda self, data, at, entry: data[at + 40 : at + 40 + entry.length]


def _by_the_wall(original: Callable[..., Any]) -> Callable[..., Any]:
    def log(disk: Any, options: Any, salt: int, recovered: Any, clock: Any, ticks: Any) -> Any:
        return original(disk, options, salt, recovered, clock, clock)

    return log


def _begins_anew(original: Callable[..., Any]) -> Callable[..., Any]:
    def read_salt(disk: Any) -> int | None:
        try:
            salt: int | None = original(disk)
        except CorruptionError:
            return None
        return salt

    return read_salt


ROT_PLANTS = [
    Plant(
        "a lack of descriptors makes the store read-only for good",
        f"{STORAGE}.log.log:_passes",
        returns(False),
        0,
        (f"{STORAGE}.log.log:Log._try_again", returns(False)),
        life="rot",
    ),
    Plant(
        "a damaged entry is delivered as if nothing were",
        f"{STORAGE}.ledger.read_plan:ReadPlan._body",
        _believes,
        0,
        life="rot",
    ),
    Plant("syncs go by the wall clock", f"{STORAGE}.store:Log", _by_the_wall, 1, life="rot"),
    Plant(
        "an index is believed whatever its checksum says",
        f"{STORAGE}.ledger.ledger_index:IndexColumns.intact",
        returns(True),
        5,
        life="rot",
    ),
    Plant(
        "a directory without its FORMAT is taken for a new one",
        f"{STORAGE}.store:read_salt",
        _begins_anew,
        0,
        life="rot",
    ),
]
