"""A real broker in a process of its own, to be used by any client, killed and started again.

    with BrokerProcess(tmp_path) as broker:
        client = pulsar.Client(broker.url)
        ...
        broker.kill()       # as kill -9 would
        broker.restart()    # on the same data and the same ports

It runs the build that the test runs: whatever `magnetar` the environment leads to. What
the broker says on standard error is kept, and shown when the broker does not come up or
ends in an unexpected way. Leaving the block ends the process, whatever happened inside.
"""

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType

# Generous: an interpreted broker on a busy machine, after a crash under load.
READY_S = 60.0
# What the broker promises is 5; a busy machine gets some more before it is killed.
STOP_S = 20.0

READY = re.compile(rb"^ready (pulsar://\S+:(\d+)) (http://\S+:(\d+))(?: .*)?\n", re.MULTILINE)


SERVE = (sys.executable, "-m", "magnetar", "serve")


class BrokerProcess:
    """`magnetar serve` on `data`; `options` are further arguments of that command."""

    def __init__(
        self, data: Path, *, options: Sequence[str] = (), command: Sequence[str] = SERVE
    ) -> None:
        self.data = data
        self.options = list(options)
        self.command = list(command)
        self.url = ""
        self.http_url = ""
        # From the start of the process to its ready line.
        self.ready_s = 0.0
        self._ports = ("0", "0")
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr = TemporaryFile()  # noqa: SIM115

    def __enter__(self) -> "BrokerProcess":
        try:
            self.start()
        except BaseException:
            self._stderr.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._process is None:
                return
            if kind is not None:
                self.kill()  # what failed is told already, and more news would hide it
                return
            code = self.stop()
            assert code == 0, f"the broker ended with {code}:\n{self.stderr}"
        finally:
            self._stderr.close()

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker does not run"
        return self._process.pid

    @property
    def stderr(self) -> str:
        """All that the broker has said on standard error, over all its starts."""
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), size, 0).decode(errors="replace")

    def start(self) -> None:
        """Starts the broker and waits until it serves; the first time on free ports."""
        assert self._process is None, "the broker runs already"
        command = [*self.command, "--data", str(self.data)]
        command += ["--port", self._ports[0], "--http-port", self._ports[1], *self.options]
        begin = time.monotonic()
        # Settings come from the test alone, and MAGNETAR_ variables are settings to a broker.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MAGNETAR_")}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment,
        )
        try:
            ready = self._wait_ready(self._process, begin + READY_S)
        except BaseException:
            self.kill()
            raise
        self.ready_s = time.monotonic() - begin
        self.url, self.http_url = ready[1].decode(), ready[3].decode()
        self._ports = (ready[2].decode(), ready[4].decode())

    def kill(self) -> None:
        """Ends the broker as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Asks the broker to end, and returns its exit code."""
        return self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Starts the broker again, on the ports it had; stops it first if it runs."""
        if self._process is not None:
            code = self.stop()
            assert code == 0, f"the broker ended with {code}:\n{self.stderr}"
        self.start()

    def _wait_ready(self, process: subprocess.Popen[bytes], deadline: float) -> "re.Match[bytes]":
        assert process.stdout is not None
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                if not selector.select(left):
                    break
                piece = os.read(process.stdout.fileno(), 4096)
                if not piece:
                    code = process.wait(STOP_S)
                    raise AssertionError(f"the broker ended with {code}:\n{self.stderr}")
                said += piece
                if ready := READY.search(said):
                    return ready
        raise AssertionError(
            f"the broker was not ready after {READY_S:.0f} s; it said {said!r} and:\n{self.stderr}"
        )

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        assert process is not None, "the broker does not run"
        process.send_signal(how)
        try:
            return process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(
                f"the broker ran on {STOP_S:.0f} s after {how.name}:\n{self.stderr}"
            ) from None
        finally:
            if process.stdout is not None:
                process.stdout.close()
