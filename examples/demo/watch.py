"""Follows the file of facts while it grows: counts for the screen, and refusals that pile up."""

from collections import Counter
from pathlib import Path

from examples.demo.facts import Handed, event_of


class Watch:
    """`counts` has how many lines there are of each kind and worker, and of each kind."""

    def __init__(self, log: Path) -> None:
        self._file = log.open("rb")
        self._rest = b""
        self.counts: Counter[str] = Counter()
        # By order: how often it was refused, and the last time.
        self.refused: Counter[tuple[str, int]] = Counter()
        self.last_refused: dict[tuple[str, int], Handed] = {}

    def read(self) -> None:
        """Takes in what is new."""
        lines = (self._rest + self._file.read()).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            kind, _, rest = line.partition(b" ")
            name = kind.decode()
            self.counts[name] += 1
            if name in "PANW":
                self.counts[f"{name} {rest.partition(b' ')[0].decode()}"] += 1
            if name == "N":
                event = event_of(line.decode())
                assert isinstance(event, Handed)
                self.refused[event.key, event.number] += 1
                self.last_refused[event.key, event.number] = event

    def close(self) -> None:
        self._file.close()
