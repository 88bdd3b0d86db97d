"""A pipeline that runs in processes of its own, to be killed in parts and as a whole.

`magnetar pipeline NAME` is a Python process with a JVM below it, and Python workers below
that; on `local-cluster` there are executors between, which are JVMs too.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile

from support.java import find_java
from support.spark_cluster import BRIEF_JVM


class PipelineProcess:
    """`magnetar` with these arguments; scratch files go below `scratch`."""

    def __init__(self, arguments: Sequence[str], scratch: Path) -> None:
        java_home = find_java()
        assert java_home is not None
        scratch.mkdir(exist_ok=True)
        environment = dict(os.environ)
        environment |= {
            "JAVA_HOME": str(java_home),
            "TMPDIR": str(scratch),
            "SPARK_LOCAL_DIRS": str(scratch),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "XDG_CONFIG_HOME": "/dev/null/none",
        }
        conf = [
            f"spark.driver.extraJavaOptions={BRIEF_JVM} -Djava.io.tmpdir={scratch}",
            "spark.driver.memory=1g",
            f"spark.executor.extraJavaOptions={BRIEF_JVM}",
            "spark.executor.memory=700m",
            "spark.sql.shuffle.partitions=2",
            "spark.sql.streaming.pollingDelay=20ms",
            f"spark.sql.warehouse.dir={scratch}/warehouse",
        ]
        command = [sys.executable, "-m", "magnetar", *arguments]
        self._output = TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [*command, *(part for one in conf for part in ("--conf", one))],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            env=environment,
            cwd=scratch,
            start_new_session=True,
        )

    @property
    def output(self) -> str:
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size, 0).decode(errors="replace")

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def processes(self) -> dict[int, str]:
        """All processes of the session that this one began, with their commands."""
        found: dict[int, str] = {}
        for directory in Path("/proc").iterdir():
            if directory.name.isdigit():
                try:
                    if os.getsid(int(directory.name)) == self.process.pid:
                        command = (directory / "cmdline").read_bytes()
                        found[int(directory.name)] = command.replace(b"\0", b" ").decode()
                except OSError:
                    continue  # it ended meanwhile
        return found

    def kill(self, what: str) -> int:
        """Kills what has this in its command, the `driver` alone, or `all`; says how many."""
        if what == "driver":
            self.process.kill()
            return 1
        count = 0
        for pid, command in self.processes().items():
            if what == "all" or what in command:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    count += 1
        return count

    def end(self) -> None:
        """Whatever is left."""
        self.kill("all")
        self.process.wait()
        self._output.close()
