"""What happened in a chaotic run, and what is wrong with it.

All processes append lines to one file, each with a single write, so the file has them in the
order in which they happened:

    P WORKER PLACE KEY NUMBER   a worker was handed message NUMBER of KEY
    Q WORKER PLACE              it acks that message, or all that it had through that one
    A WORKER PLACE              its ack was confirmed
    C WORKER PLACE              its cumulative ack was confirmed
    F WORKER PLACE              its ack failed, for the last time
    K                           the broker was killed, and is ready again
    W WORKER                    a worker began

A worker is one consumer: whoever takes the place of one that was killed is another.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class Place(NamedTuple):
    """A message id without its partition: there is one topic."""

    ledger: int
    entry: int
    batch_index: int

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}:{self.batch_index}"


@dataclass
class Verdict:
    """What is wrong, as counts and examples; nothing of it is right to happen."""

    lost: list[str] = field(default_factory=list)
    # Acked and confirmed before the broker was killed, and delivered by its next life.
    came_back: list[str] = field(default_factory=list)
    # Handed twice to one worker that had acked it.
    twice: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)

    @property
    def fine(self) -> bool:
        return not (self.lost or self.came_back or self.twice or self.out_of_order)


@dataclass
class Count:
    """What happened, which may be right or not."""

    handed: int = 0
    distinct: int = 0
    # Handed to a worker that had acked it before, whether or not that was confirmed.
    same_worker: int = 0
    acks_failed: int = 0
    kills: int = 0
    workers: int = 0

    @property
    def again(self) -> int:
        return self.handed - self.distinct


class Facts:
    """Reads the lines of a run."""

    def __init__(self, lines: Iterable[str], *, cumulative: bool = False) -> None:
        self.count = Count()
        # By message: the life of the broker in which its ack was confirmed first.
        self._acked: dict[Place, int] = {}
        # By worker: what it was handed, and whether it has acked that.
        self._by_worker: dict[str, dict[Place, bool]] = {}
        # By worker: what it was handed, and no cumulative ack of its own was confirmed for.
        self._unconfirmed: dict[str, dict[Place, None]] = {}
        self._cumulative = cumulative
        self._first: dict[str, list[int]] = {}
        self._seen: dict[tuple[str, int], None] = {}
        self.verdict = Verdict()
        for line in lines:
            kind, *rest = line.split()
            self._read(kind, rest)
        self.count.distinct = len(self._seen)
        for key, numbers in self._first.items():
            if numbers != sorted(numbers):
                self.verdict.out_of_order.append(key)

    def _read(self, kind: str, rest: list[str]) -> None:
        if kind == "K":
            self.count.kills += 1
        elif kind == "W":
            self.count.workers += 1
        elif kind == "P":
            self._handed(rest[0], _place(rest[1]), rest[2], int(rest[3]))
        elif kind == "Q":
            self._asked(rest[0], _place(rest[1]))
        elif kind == "A":
            self._acked.setdefault(_place(rest[1]), self.count.kills)
        elif kind == "C":
            self._acked_through(rest[0], _place(rest[1]))
        elif kind == "F":
            self.count.acks_failed += 1
        else:
            raise AssertionError(f"no such fact: {kind} {rest}")

    def _handed(self, worker: str, place: Place, key: str, number: int) -> None:
        self.count.handed += 1
        acked_in = self._acked.get(place)
        if acked_in is not None and acked_in < self.count.kills:
            self.verdict.came_back.append(f"{place} of {key}, acked in life {acked_in}")
        mine = self._by_worker.setdefault(worker, {})
        if mine.get(place, False):
            self.count.same_worker += 1
            if acked_in is not None:
                self.verdict.twice.append(f"{place} of {key} to {worker}")
        mine.setdefault(place, False)
        self._unconfirmed.setdefault(worker, {})[place] = None
        if (key, number) not in self._seen:
            self._seen[(key, number)] = None
            self._first.setdefault(key, []).append(number)

    def _asked(self, worker: str, place: Place) -> None:
        mine = self._by_worker[worker]
        if not self._cumulative:
            mine[place] = True
            return
        # The newest are at the end, and what was asked for before is marked.
        for each in reversed(mine):
            if each <= place:
                if mine[each]:
                    break
                mine[each] = True

    def _acked_through(self, worker: str, place: Place) -> None:
        waiting = self._unconfirmed.get(worker, {})
        for each in [each for each in waiting if each <= place]:
            del waiting[each]
            self._acked.setdefault(each, self.count.kills)

    def judge(self, sent: Iterable[tuple[str, int]]) -> Verdict:
        """All that is wrong, given what was sent and confirmed."""
        self.verdict.lost = [
            f"{key} {number}" for key, number in sent if (key, number) not in self._seen
        ]
        return self.verdict

    @property
    def acked(self) -> int:
        return len(self._acked)


def _place(text: str) -> Place:
    return Place(*map(int, text.split(":")))
