"""What was seen in a run: a list of events in their order, and what others say at the end.

All processes append lines to one file, each with a single write, so the file has events in the
order in which they happened:

    W WORKER                                 a worker began
    X WORKER MS                              it was killed
    K MS                                     the broker was killed
    Z MS                                     Spark was killed
    P WORKER PLACE KEY NUMBER CRC MS COUNT   a worker was handed an order, and could handle it
    N WORKER PLACE KEY NUMBER CRC MS COUNT   it was handed one, and refused it (nack)
    A WORKER PLACE MS                        the broker confirmed its ack
    S PLACE KEY NUMBER KIND CRC MS DUE       the broker confirmed that it has stored an order
    T PLACE                                  an operator skipped a message, and was told that it is
    R BATCH ROWS MS                          Spark committed a micro-batch to the lake
    L KEY NUMBER CRC                         a row of the lake

COUNT is how often it came before, MS a time and DUE the one before which it must not come, both in
milliseconds since 1970. Whoever takes the place of a worker that was killed is another worker.
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

    @classmethod
    def parse(cls, text: str) -> "Place":
        ledger, entry, batch_index = text.split(":")
        return cls(int(ledger), int(entry), int(batch_index))


class Began(NamedTuple):
    worker: str


class WorkerKilled(NamedTuple):
    worker: str
    at_ms: int


class BrokerKilled(NamedTuple):
    at_ms: int


class SparkKilled(NamedTuple):
    at_ms: int


class Handed(NamedTuple):
    worker: str
    place: Place
    key: str
    number: int
    crc: str
    at_ms: int
    came_before: int
    handled: bool


class Acked(NamedTuple):
    worker: str
    place: Place
    at_ms: int


class Sent(NamedTuple):
    place: Place
    key: str
    number: int
    kind: str
    crc: str
    at_ms: int
    due_ms: int


class Skipped(NamedTuple):
    place: Place


class Archived(NamedTuple):
    batch: int
    rows: int
    at_ms: int


class Row(NamedTuple):
    key: str
    number: int
    crc: str


Event = (
    Began
    | WorkerKilled
    | BrokerKilled
    | SparkKilled
    | Handed
    | Acked
    | Sent
    | Skipped
    | Archived
    | Row
)


def event_of(line: str) -> Event:
    """One line of the file."""
    kind, *rest = line.split()
    match kind:
        case "P" | "N":
            worker, place, key, number, crc, at_ms, count = rest
            return Handed(
                worker,
                Place.parse(place),
                key,
                int(number),
                crc,
                int(at_ms),
                int(count),
                kind == "P",
            )
        case "A":
            return Acked(rest[0], Place.parse(rest[1]), int(rest[2]))
        case "S":
            place, key, number, what, crc, at_ms, due_ms = rest
            return Sent(Place.parse(place), key, int(number), what, crc, int(at_ms), int(due_ms))
        case "L":
            return Row(rest[0], int(rest[1]), rest[2])
        case "W":
            return Began(rest[0])
        case "X":
            return WorkerKilled(rest[0], int(rest[1]))
        case "K":
            return BrokerKilled(int(rest[0]))
        case "Z":
            return SparkKilled(int(rest[0]))
        case "R":
            return Archived(int(rest[0]), int(rest[1]), int(rest[2]))
        case "T":
            return Skipped(Place.parse(rest[0]))
    raise ValueError(f"no such fact: {line!r}")


@dataclass(frozen=True)
class Facts:
    """See the module. `planned` orders were to be sent; `ended_ms` is when workers stopped."""

    planned: int
    events: tuple[Event, ...]
    ended_ms: int
    # What the broker says is unacked on the workers' subscription, and on the archive's.
    unacked: int
    unarchived: int
    # Seconds that each part of the run took.
    phases: dict[str, float] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        lines: Iterable[str],
        planned: int,
        ended_ms: int,
        unacked: int,
        unarchived: int,
        phases: dict[str, float],
    ) -> "Facts":
        events = tuple(event_of(line) for line in lines)
        return cls(planned, events, ended_ms, unacked, unarchived, phases)
