"""A planted bug by its name, for looking at how it is found."""

import contextlib
from collections.abc import Iterator

from sim.ack_plants import ACK_PLANTS
from sim.plants import PLANTS as OTHERS
from sim.rot_plants import ROT_PLANTS

PLANTS = [*OTHERS, *ACK_PLANTS, *ROT_PLANTS]


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """Plants a bug while it lasts; for the interpreted build."""
    found = [plant for plant in PLANTS if plant.name == name]
    if not found:
        raise SystemExit(f"no planted bug is called {name!r}; docs/simulation.md lists them")
    with found[0].planted():
        yield
