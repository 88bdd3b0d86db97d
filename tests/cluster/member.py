"""One member of a cluster: a JVM of its own that is started, killed, and started again."""

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

READY_S = 300.0
STOP_S = 20.0


class Member:
    """A process with a folder of its own, where it also writes what it has to say.

    `ready` tells whether it does its work; `start` returns before that, `wait` does not.
    """

    def __init__(
        self, name: str, folder: Path, command: list[str], ready: Callable[[], bool]
    ) -> None:
        self.name = name
        self._folder = folder
        self._command = command
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    @property
    def output(self) -> str:
        """The end of what it has said."""
        path = self._folder / "output"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def start(self) -> None:
        assert not self.alive, f"{self.name} runs already"
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Returns when it is ready."""
        deadline = time.monotonic() + READY_S
        while not self._ready():
            assert self.alive, f"{self.name} has ended:\n{self.output}"
            assert time.monotonic() < deadline, f"{self.name} is not ready:\n{self.output}"
            time.sleep(0.1)

    def kill(self) -> None:
        """As kill -9 does: nothing is said to anybody, and nothing is written."""
        assert self.alive, f"{self.name} does not run"
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Asks it to end, and does not ask for ever."""
        if self.alive:
            self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        assert process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def answers(url: str) -> bool:
    """Whether a GET is answered with 200."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
