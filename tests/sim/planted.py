"""A planted bug by its name, for looking at how it is found."""

import contextlib
from collections.abc import Iterator

from sim.ack_plants import ACK_PLANTS
from sim.compaction_plants import COMPACTION_PLANTS
from sim.plants import PLANTS as OTHERS
from sim.rate_plants import RATE_PLANTS
from sim.rot_plants import ROT_PLANTS
from sim.transaction_plants import TRANSACTION_PLANTS

PLANTS = [
    *OTHERS,
    *ACK_PLANTS,
    *COMPACTION_PLANTS,
    *RATE_PLANTS,
    *ROT_PLANTS,
    *TRANSACTION_PLANTS,
]


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """Plants a bug while it lasts; for the interpreted build."""
    found = [plant for plant in PLANTS if plant.name == name]
    if not found:
        raise SystemExit(f"no planted bug is called {name!r}; docs/simulation.md lists them")
    with found[0].planted():
        yield
