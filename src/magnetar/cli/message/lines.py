"""Lines of a file or of standard input, as they come.

A pipe may be silent for hours, and Ctrl-C must end the wait all the same: Python notes it and
goes back to reading. So standard input is read when there is something to read, and Ctrl-C
asked for between.
"""

import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from magnetar.cli.interrupt import TURN_S, Check
from magnetar.errors import SettingsError

__all__ = ["lines_of", "lines_of_input"]

# A file without any newline must not fill the memory; no message of this size is written by line.
LINE_BYTES_MAX: Final = 64 << 20
READ_BYTES: Final = 1 << 16


def lines_of(files: list[Path], check: Check) -> Iterator[bytes]:
    """Yields the lines of all files, without their newlines; `-` is standard input.

    Raises SettingsError.
    """
    for file in files:
        if str(file) == "-":
            yield from lines_of_input(check)
            continue
        try:
            with file.open("rb") as opened:
                yield from _lines(opened, str(file))
        except OSError as error:
            raise SettingsError("--files", f"cannot read {file}: {error.strerror}") from None


def lines_of_input(check: Check) -> Iterator[bytes]:
    """Lines of standard input, each as soon as it is complete. Raises SettingsError."""
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):  # it is not a file, as in tests
        yield from _lines(sys.stdin.buffer, "standard input")
        return
    # A line that goes on is kept in pieces, or each piece would copy all before it.
    pieces: list[bytes] = []
    size = 0
    while data := _read(descriptor, check):
        first, *more = data.split(b"\n")
        pieces.append(first)
        size += len(first)
        _check_size(size, "standard input")
        if more:
            yield b"".join(pieces)
            yield from more[:-1]
            pieces, size = [more[-1]], len(more[-1])
    if size:
        yield b"".join(pieces)


def _read(descriptor: int, check: Check) -> bytes:
    while not select.select([descriptor], [], [], TURN_S)[0]:
        check()
    return os.read(descriptor, READ_BYTES)


def _lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    while line := file.readline(LINE_BYTES_MAX + 2):
        _check_size(len(line) - line.endswith(b"\n"), name)
        yield line.removesuffix(b"\n")


def _check_size(size: int, name: str) -> None:
    if size > LINE_BYTES_MAX:
        raise SettingsError(
            "--lines", f"a line of {name} has more than {LINE_BYTES_MAX >> 20} MiB: send it by -f"
        )
