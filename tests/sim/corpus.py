"""Seeds that reached what others did not, in `corpus.txt`: a line each, with what that was.

A search adds up what its seeds reach; with `--corpus` it writes the fewest seeds that reach all
of it together, as far as a greedy choice finds them. Children of those seeds, which have the
same scenario and other luck, are where a guided search looks.
"""

from collections.abc import Iterator
from pathlib import Path

from sim.case import Case

PATH = Path(__file__).with_name("corpus.txt")
SEEDS_MAX = 60
WHY_MAX = 2
HEAD = "# Seeds that reach what others do not, and some of that; `make sim CORPUS=1` writes it.\n"


class Coverage:
    """What was reached, and by whom first."""

    def __init__(self) -> None:
        self.states: set[str] = set()
        # Of cases that reached something new: all that they reached.
        self.reached: dict[Case, frozenset[str]] = {}

    def add(self, case: Case, states: frozenset[str]) -> bool:
        """Whether the case reached something new."""
        if states <= self.states:
            return False
        self.states |= states
        self.reached[case] = states
        return True

    def chosen(self) -> Iterator[tuple[Case, list[str]]]:
        """Cases that reach all there is, those first that reach most; each with what is new."""
        left = set(self.states)
        for _ in range(SEEDS_MAX):
            if not left:
                return
            case = max(self.reached, key=lambda case: (len(self.reached[case] & left), case))
            new = self.reached[case] & left
            left -= new
            # Counts say less than what follows what.
            yield case, sorted(new, key=lambda state: (" x " in state, state))

    def write(self, path: Path = PATH) -> int:
        """Writes the corpus; how many lines it has."""
        lines = [
            f"{case}  {len(new)} new: {'; '.join(new[:WHY_MAX])}\n" for case, new in self.chosen()
        ]
        path.write_text(HEAD + "".join(lines), encoding="utf-8")
        return len(lines)


def read_corpus(path: Path = PATH) -> list[Case]:
    """The cases of the corpus."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Case.parse(line.split()[0]) for line in lines if not line.startswith("#")]


def children(corpus: list[Case], first: int, count: int) -> list[Case]:
    """So many children of the cases of a corpus, one of each in turn."""
    size = len(corpus)
    return [
        Case(corpus[number % size].seed, 1 + number // size)
        for number in range(first, first + count)
    ]
