"""What happened in a simulation: one line for each thing that matters, and their digest.

A line is the virtual time, who it happened to, and what. Two runs of one seed must give
the same digest, in any process and on either build, so a line never holds an address, the
name of a function (compiled ones are named otherwise) or the order of a set. The digest
covers every line; the lines themselves are kept up to a limit, the last ones of them. Whoever
runs many seeds and looks at none has a trace that is not written: lines cost a tenth of a run.
"""

import hashlib
import zlib
from collections import deque
from typing import Final

__all__ = ["Trace", "fingerprint"]

# About 10 MB of text, which is more than anybody reads.
LINES_MAX: Final = 100_000
SECOND_NS: Final = 1_000_000_000


class Trace:
    """Lines in the order of events.

    >>> trace = Trace()
    >>> trace.add(1_500_000_000, "broker", "started")
    >>> print(trace.text())
    1.500000000 broker started
    >>> len(trace.digest())
    32
    """

    def __init__(self, *, lines_max: int = LINES_MAX, written: bool = True) -> None:
        self.written: Final = written
        self.lines: deque[str] = deque(maxlen=lines_max)
        self.count: int = 0
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, time_ns: int, source: str, event: str) -> None:
        if not self.written:
            return
        line = f"{time_ns // SECOND_NS}.{time_ns % SECOND_NS:09} {source} {event}"
        self.lines.append(line)
        self.count += 1
        self._digest.update(line.encode())
        self._digest.update(b"\n")

    def digest(self) -> str:
        """Returns the digest of all lines so far, as hexadecimal digits."""
        return self._digest.hexdigest()

    def text(self) -> str:
        return "\n".join(self.lines)

    def difference(self, other: "Trace") -> str:
        """Returns where two traces part, for a person to read; empty if they do not."""
        for number, (ours, theirs) in enumerate(zip(self.lines, other.lines, strict=False)):
            if ours != theirs:
                return f"line {number}: {ours!r} here, {theirs!r} there"
        if self.count != other.count:
            return f"{self.count} lines here, {other.count} there"
        return "" if self.digest() == other.digest() else "the lines that were not kept differ"


def fingerprint(data: bytes | bytearray) -> str:
    """Length and checksum: enough to tell two pieces of data apart in a line."""
    return f"{len(data)}:{zlib.crc32(data):08x}"
