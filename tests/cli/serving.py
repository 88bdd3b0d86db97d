"""`magnetar serve` as a process of its own, for tests of what it says and how it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.broker_process import STOP_S

SERVE = [sys.executable, "-m", "magnetar", "serve"]


def clean_environment(**variables: str) -> dict[str, str]:
    """This process's, without settings; MAGNETAR_BUILD is the tests' own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MAGNETAR_")}
    return kept | variables


@contextmanager
def started(
    *options: str | Path, cwd: Path, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process, and the first line that it prints."""
    with subprocess.Popen(
        [*SERVE, *map(str, options)],
        cwd=cwd,
        env=dict(environment or clean_environment()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            if process.poll() is None:
                process.kill()


def end(process: subprocess.Popen[str], how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    """Exit code and standard error; there is nothing more on standard output."""
    process.send_signal(how)
    out, err = process.communicate(timeout=STOP_S)
    assert out == ""
    assert "Traceback" not in err, err
    return process.returncode, err
