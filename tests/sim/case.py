"""What a search runs under one name: a seed, such as `7`, or a child of one, such as `7.3`.

A seed has the life that `life.py` draws for it, and another one:

| life       | of                                                                        | seeds   |
|------------|---------------------------------------------------------------------------|---------|
| `life`     | broker, clients and trouble: `life.py`                                    | all     |
| `swarm`    | the same with a mix of features that is its own: `swarm.py`               | 1 in 2  |
| `transactions` | such a mix with programs that transact: `transacting.py`              | 1 in 4  |
| `failover` | clients that fail over between two brokers: `failover_life.py`            | 1 in 16 |
| `homes`    | a broker whose directory is lost, copied and restored: `homes.py`         | 1 in 16 |
| `rot`      | a store whose disk is damaged and lacks things for a while: `rot_life.py` | 1 in 16 |
| `store`    | a store that crashes again and again: `store_life.py`                     | 1 in 16 |

A child has the scenarios of its seed, and luck of its own. `7:transactions` is seed 7 with that one
of its lives that is named, whichever it would have drawn; `SCENARIOS` are those that can be named.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from sim import failover_life, homes, life, rot_life, store_life
from sim.result import Result
from sim.scenario import Scenario
from sim.states import states_of

from magnetar.testing import ProcessKilled, Simulation, Trace

# What is shown of an error in a list of many.
ERROR_CHARS = 400
OTHERS: dict[str, Callable[[int], object]] = {
    "homes": homes.run_seed,
    "rot": rot_life.run_seed,
    "store": store_life.run_seed,
    "failover": failover_life.run_seed,
}
OTHERS_OF = 16
SCENARIOS: dict[str, Callable[[int], Scenario]] = {
    "life": life.scenario_of,
    "swarm": life.swarm_of,
    "transactions": life.transactions_of,
}

Watch = Callable[[Simulation], None]


@dataclass(frozen=True, order=True)
class Case:
    """See the module; a child of 0 is the seed itself, and without a life it has all of its own."""

    seed: int
    child: int = 0
    life: str = ""

    @classmethod
    def parse(cls, text: str) -> "Case":
        """Raises ValueError for what is no seed, no child of one, and no life of either."""
        case, colon, life = text.partition(":")
        if colon and life not in SCENARIOS:
            raise ValueError(f"{life!r} is no life: {', '.join(SCENARIOS)} are")
        seed, dot, child = case.partition(".")
        return cls(int(seed), int(child) if dot else 0, life)

    @property
    def luck(self) -> int:
        """The seed of everything but the scenario."""
        if self.child == 0:
            return self.seed
        text = f"{self.seed}.{self.child}"
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big")

    def other(self) -> str:
        """The other life of the seed; none, if one is named."""
        if self.life:
            return ""
        drawn = Random(f"{self.seed}/lives").randrange(OTHERS_OF)
        if drawn < len(OTHERS):
            return list(OTHERS)[drawn]
        return "swarm" if drawn < len(OTHERS) + OTHERS_OF // 2 else "transactions"

    def scenarios(self) -> list[Scenario]:
        """Those that the life of the seed, and its life in a mix of features, are about."""
        if self.life:
            return [SCENARIOS[self.life](self.seed)]
        found = [life.scenario_of(self.seed)]
        if self.other() == "swarm":
            found.append(life.swarm_of(self.seed))
        elif self.other() == "transactions":
            found.append(life.transactions_of(self.seed))
        return found

    def __str__(self) -> str:
        text = f"{self.seed}.{self.child}" if self.child else str(self.seed)
        return f"{text}:{self.life}" if self.life else text


def run_case(case: Case, *, watch: Watch, written: bool = True) -> None:
    """Runs all lives of a case; raises what is wrong. `watch` is handed each as it begins."""
    for scenario in case.scenarios():
        life.run_scenario(case.luck, scenario, trace=Trace(written=written), watch=watch)
    other = case.other()
    if other in OTHERS and not case.child:
        try:
            OTHERS[other](case.seed)
        except (Exception, ProcessKilled) as error:
            error.add_note(f"in the life {other!r} of seed {case.seed}")
            raise


def try_case(case: Case) -> Result:
    """Runs a case as a search does, and tells of it."""
    lives: list[Simulation] = []
    try:
        run_case(case, watch=lives.append, written=False)
    except (Exception, ProcessKilled) as error:
        return Result(error=brief(error))
    facts = sum(len(simulation.history) for simulation in lives)
    states = frozenset(state for simulation in lives for state in states_of(simulation))
    return Result(facts, states=states)


def brief(error: BaseException) -> str:
    """One line of what went wrong."""
    notes = [note for note in getattr(error, "__notes__", []) if note.startswith("in the life")]
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return " ".join([text[:ERROR_CHARS], *notes])
