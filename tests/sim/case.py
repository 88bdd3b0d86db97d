"""What a search runs under one name, and what came of it.

A case is a seed, such as `7`: the life of that seed, and for some seeds another life too.

| life    | of                                                                        | seeds    |
|---------|---------------------------------------------------------------------------|----------|
| `life`  | broker, clients and trouble: `life.py`                                    | all      |
| `homes` | a broker whose directory is lost, copied and restored: `homes.py`         | 1 in 16  |
| `rot`   | a store whose disk is damaged and lacks things for a while: `rot_life.py` | 1 in 16  |
| `store` | a store that crashes again and again: `store_life.py`                     | 1 in 16  |
"""

from collections.abc import Callable
from random import Random

from sim import homes, life, rot_life, store_life
from sim.result import Result

from magnetar.testing import ProcessKilled, Simulation, Trace

# What is shown of an error in a list of many.
ERROR_CHARS = 400
OTHERS: dict[str, Callable[[int], object]] = {
    "homes": homes.run_seed,
    "rot": rot_life.run_seed,
    "store": store_life.run_seed,
}
OTHERS_OF = 16

Watch = Callable[[Simulation], None]


def other_life(seed: int) -> str:
    """The life that a seed has besides `life`; empty for most."""
    drawn = Random(f"{seed}/lives").randrange(OTHERS_OF)
    return list(OTHERS)[drawn] if drawn < len(OTHERS) else ""


def run_case(seed: int, *, trace: Trace | None = None, watch: Watch | None = None) -> Simulation:
    """Runs all lives of a seed; raises what is wrong. `watch` is handed the life as it begins."""
    simulation = life.run_seed(seed, trace=trace, watch=watch)
    other = other_life(seed)
    if other:
        try:
            OTHERS[other](seed)
        except (Exception, ProcessKilled) as error:
            error.add_note(f"in the life {other!r} of seed {seed}")
            raise
    return simulation


def try_case(seed: int) -> Result:
    """Runs a seed as a search does, and tells of it."""
    try:
        return Result(len(run_case(seed, trace=Trace(written=False)).history))
    except (Exception, ProcessKilled) as error:
        return Result(error=brief(error))


def brief(error: BaseException) -> str:
    """One line of what went wrong."""
    notes = [note for note in getattr(error, "__notes__", []) if note.startswith("in the life")]
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return " ".join([text[:ERROR_CHARS], *notes])
