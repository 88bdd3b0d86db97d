"""The broker as a process: started on free ports, killed as by a crash, started again on them."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

READY = re.compile(r"^ready (pulsar://\S+:(\d+)) (http://\S+:(\d+))$")
STOP_S = 20.0


class Broker:
    """`magnetar serve` with its data in a directory; what it says goes to a file."""

    def __init__(self, data: Path, log: IO[bytes]) -> None:
        self.data = data
        self.url = ""
        self.http_url = ""
        self._log = log
        self._ports = ("0", "0")
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker does not run"
        return self._process.pid

    def start(self) -> None:
        """Returns when clients can connect. Raises RuntimeError if the broker ends instead."""
        command = [sys.executable, "-m", "magnetar", "serve", "--data", str(self.data)]
        command += ["--port", self._ports[0], "--http-port", self._ports[1]]
        # What a producer sends again after a crash is stored once.
        command += ["--set", "deduplication=true"]
        # Variables of this kind would be settings to it.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MAGNETAR_")}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            text=True,
            # With --keep it outlives us, and Ctrl-C is ours alone.
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        ready = READY.match(line.strip())
        if ready is None:
            raise RuntimeError(f"the broker did not start; see {self._log.name}")
        self.url, self.http_url = ready[1], ready[3]
        self._ports = (ready[2], ready[4])

    def kill(self) -> None:
        """As a crash, or kill -9, would end it."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        if self._process is not None:
            self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None, "the broker does not run"
        process, self._process = self._process, None
        process.send_signal(how)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
