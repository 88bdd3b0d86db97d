"""Facts as lines of files, which outlive the processes that write them.

Each process of a run has a file of its own, and each fact is one line, given to the kernel by one
write: what was written is there after kill -9. A line is a list in JSON: the time, the name of the
fact, and its fields in the order of `magnetar.testing.checker.history`; a place is a list of
three, bytes are text.

    [1234567890, "AckKept", "java.3/keys", 17]

**Times are those of CLOCK_MONOTONIC**, one clock for all processes of a machine. What a program
is about to do is written before it does it (Sent, AckAsked, Nacked), what it learns when it knows
it (Stored, Received, AckKept), and the broker's tap writes what is heard before the broker is
given it, and what is said before it goes out. So a fact that made another one happen is before
it, and the order of all files together is an order in which things may have happened.
"""

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from magnetar.testing.checker import history as facts
from magnetar.testing.checker.history import Dispatched, Fact, History, LineEnded, Place

__all__ = ["FactFile", "merged", "read"]

Timed = tuple[int, Fact]


class FactFile(History):
    """A history that is kept in a file, and nowhere else."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        # The time and the write are one, or lines of two threads would change places.
        self._lock = threading.Lock()

    def add(self, fact: Fact) -> None:
        with self._lock:
            line = [time.monotonic_ns(), type(fact).__name__]
            line += [_plain(getattr(fact, field.name)) for field in fields(fact)]
            os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")


def _plain(value: object) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, Place):
        return [value.ledger, value.entry, value.index]
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value


# ---- Reading -----------------------------------------------------------------


def read(path: Path) -> Iterator[Timed]:
    """The facts of a file. A line that its writer did not end was never known to anybody."""
    data = path.read_bytes()
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        yield _fact(json.loads(line))


def _fact(line: list[Any]) -> Timed:
    at, name, *values = line
    kind = getattr(facts, name)
    names = [field.name for field in fields(kind)]
    made: Fact = kind(*map(_value, names, values))
    if isinstance(made, Dispatched):
        made = replace(made, key=values[names.index("key")].encode("latin-1"))
    return at, made


def _value(name: str, value: Any) -> Any:
    if name == "payload":
        return value.encode("latin-1")
    if name in ("place", "target", "first"):
        return None if value is None else Place(*value)
    if name == "places":
        return tuple(Place(*place) for place in value)
    if isinstance(value, list):
        return tuple(tuple(one) for one in value)
    return value


def merged(directory: Path) -> list[Timed]:
    """All facts of a run, in their order.

    Lines that a broker had when it was killed ended then: after all that it wrote, and before
    anything that its next life did. Those of its last life end when all is told.
    """
    found = [timed for path in sorted(directory.glob("*.facts")) for timed in read(path)]
    lives = sorted(directory.glob("broker.*.facts"), key=lambda path: int(path.name.split(".")[1]))
    for path in lives[:-1]:
        found += _ends(list(read(path)))
    found.sort(key=lambda timed: timed[0])
    return found + [end for path in lives[-1:] for end in _ends(list(read(path)))]


def _ends(of_broker: list[Timed]) -> Iterator[Timed]:
    lines = dict.fromkeys(fact.line for _, fact in of_broker if hasattr(fact, "line"))
    for _, fact in of_broker:
        if isinstance(fact, LineEnded):
            lines.pop(fact.line, None)
    for line in lines:
        yield of_broker[-1][0], LineEnded(line)
