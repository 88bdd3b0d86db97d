"""`magnetar serve`, with a wiretap at its end of every connection.

    python tapped_serve.py FACT_FILE FIRST_LINE serve --data ...

The tap is the simulation's own (`magnetar.testing.sim.wiretap`), and the broker the real one: it
is given the same bytes and writes the same bytes. What is heard is written down before the broker
is given it, and what is said before it goes out, so no fact is lost by kill -9 that anybody could
know of. Lines are numbered from FIRST_LINE on, so that no two lives of a broker share one.

JEPSEN_PLANT names a bug of `sim.plants` to plant in the broker, to see that a run finds it. Only
the interpreted build can be changed so.
"""

import asyncio
import itertools
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, cast

from jepsen.fact_file import FactFile

from magnetar.broker.shell import server
from magnetar.cli.main import main
from magnetar.testing.sim.wiretap import Wiretap


class Line:
    """What the tap knows a connection by."""

    def __init__(self, number: int) -> None:
        self.number = number


class TappedTransport:
    """A transport that tells what is written to it; everything else is the transport's."""

    def __init__(self, transport: asyncio.Transport, tap: Wiretap, line: Line) -> None:
        self._transport = transport
        self._tap = tap
        self._line = line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._tap.said(self._line, bytes(data))
        self._transport.write(data)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        self.write(b"".join(pieces))


class TappedLink(server._Link):
    """A connection of the broker that is listened in on."""

    tap: ClassVar[Wiretap]
    numbers: ClassVar[Iterator[int]]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.line = Line(next(self.numbers))
        tapped = TappedTransport(cast("asyncio.Transport", transport), self.tap, self.line)
        super().connection_made(cast("asyncio.Transport", tapped))

    def data_received(self, data: bytes) -> None:
        self.tap.heard(self.line, bytes(data))
        super().data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.tap.ended(self.line)
        super().connection_lost(error)


def plant(name: str) -> AbstractContextManager[object]:
    if not name:
        return nullcontext()
    from sim.plants import PLANTS

    (found,) = [plant for plant in PLANTS if plant.name == name]
    return found.planted()


if __name__ == "__main__":
    file, first, *command = sys.argv[1:]
    TappedLink.tap = Wiretap(FactFile(Path(file)))
    TappedLink.numbers = itertools.count(int(first))
    server._Link = TappedLink  # type: ignore[misc]
    sys.argv = ["magnetar", *command]
    with plant(os.environ.get("JEPSEN_PLANT", "")):
        main()
