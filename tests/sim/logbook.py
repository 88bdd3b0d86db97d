"""Which cases of a search are done, in a file that outlives the search.

One line of JSON for each case, written when it is done; a line that was cut off by a crash
counts for nothing. The name of the file has the digest of the build and the range, so a search
goes on only where the same code ran the same cases.
"""

import fcntl
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from sim.case import Case
from sim.result import Result

import magnetar

FOLDER = Path(__file__).parents[2] / ".build" / "sim"


class Busy(Exception):
    """Somebody else searches the same range."""


class Logbook:
    """See the module."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.results: dict[Case, Result] = {}
        self._file = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise Busy(f"{path} is in use: another search goes over the same seeds") from None
        self._file.seek(0)
        self.results = dict(_read(self._file.read()))

    def add(self, case: Case, result: Result) -> None:
        self.results[case] = result
        line = {"case": str(case), "facts": result.facts, "error": result.error}
        if result.states:
            line["states"] = sorted(result.states)
        # The newline first: the line before may have been cut off.
        self._file.write("\n" + json.dumps(line))
        self._file.flush()

    def failed(self) -> dict[Case, Result]:
        return {case: result for case, result in self.results.items() if result.error}

    def forget(self) -> None:
        self._file.truncate(0)
        self.results.clear()

    def __enter__(self) -> "Logbook":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def logbook_of(name: str) -> Logbook:
    """The one of a range, which has a name, and of the code that is imported here."""
    return Logbook(FOLDER / f"{build_digest()[:16]}-{name}.jsonl")


def build_digest() -> str:
    """Of all that decides what a seed does: the package as it runs, and the simulation."""
    total = hashlib.sha256(f"{sys.version} {magnetar.COMPILED}".encode())
    for root in (Path(magnetar.__file__).parent, Path(__file__).parent):
        for path in sorted([*root.rglob("*.py"), *root.rglob("corpus.txt")]):
            total.update(str(path.relative_to(root)).encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _read(text: str) -> Iterator[tuple[Case, Result]]:
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue  # cut off
        states = frozenset(found.get("states", ()))
        yield Case.parse(found["case"]), Result(found["facts"], found["error"], states)
