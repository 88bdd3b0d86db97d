"""A program in a terminal of its own: what somebody sees who sits there, and the keys pressed."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

LIMIT_S = 60.0
MAGNETAR = "import sys; sys.argv[0] = 'magnetar'; from magnetar.cli.main import main; main()"
# Colours and movements of the cursor; lines stay.
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>][0-9A-B]?")


class Terminal:
    """A program, and all that it has shown so far."""

    def __init__(self, process: "subprocess.Popen[bytes]", descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self._shown = ""

    @property
    def text(self) -> str:
        return ESCAPES.sub("", self._shown).replace("\r\n", "\n")

    def wait_for(self, text: str, *, after: int = 0) -> int:
        """Waits until a text is shown, after so many characters; where it ends."""
        deadline = time.monotonic() + LIMIT_S
        while text not in self.text[after:]:
            assert self._read(deadline), f"{text!r} did not come: {self.text}"
        return self.text.index(text, after) + len(text)

    def press(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str]:
        """The exit code and everything it showed."""
        deadline = time.monotonic() + LIMIT_S
        while self._read(deadline):
            pass
        return self.process.wait(LIMIT_S), self.text

    def _read(self, deadline: float) -> bool:
        """False once nothing more can come."""
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([self._descriptor], [], [], left_s)[0]:
            return False
        try:
            read = os.read(self._descriptor, 1 << 16)
        except OSError:  # what Linux says once nobody has the other end
            return False
        self._shown += read.decode(errors="replace")
        return bool(read)


@contextmanager
def terminal(
    *arguments: str,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    columns: int = 100,
    lines: int = 30,
) -> Iterator[Terminal]:
    """`magnetar` in a terminal; it is killed if it has not ended by then."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    given = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", MAGNETAR, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env=given | {"TERM": "xterm"} | dict(environment or {}),
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(ours)
